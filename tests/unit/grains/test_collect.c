/* SPDX-License-Identifier: MIT */
/* Idle grains go: when, which, and who stays (cases 47 to 49, 52 and 76). */
#include "grains/activate.h"

#include "fixture.h"

#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

/* Other types of the same interface; the fixture's says nothing. */
static const teff_grain_type hourly_grain = { .struct_size = sizeof(teff_grain_type),
                                              .name = { "hourly" },
                                              .state_size = sizeof(struct probe),
                                              .implements = probe_implements,
                                              .deactivate = probe_deactivate,
                                              .idle_ns = HOUR };
static const teff_grain_type lasting_grain = { .struct_size = sizeof(teff_grain_type),
                                               .name = { "lasting" },
                                               .state_size = sizeof(struct probe),
                                               .implements = probe_implements,
                                               .deactivate = probe_deactivate,
                                               .idle_ns = INT64_MAX };
static const teff_grain_type coarse_grain = { .struct_size = sizeof(teff_grain_type),
                                              .name = { "coarse" },
                                              .state_size = sizeof(struct probe),
                                              .implements = probe_implements,
                                              .deactivate = probe_deactivate,
                                              .idle_quantum_ns = 10 * SECOND };

static void begin_of(uint32_t workers)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .simulated = true,
                                        .seed = 1,
                                        .workers = workers,
                                        .idle_ns = 2 * SECOND,
                                        .idle_quantum_ns = SECOND };
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, NULL) == 0);
    teff_assert(teff_silo_register(silo, &hourly_grain, NULL) == 0);
    teff_assert(teff_silo_register(silo, &lasting_grain, NULL) == 0);
    teff_assert(teff_silo_register(silo, &coarse_grain, NULL) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

static void begin_aging(void)
{
    begin_of(1);
}

static void begin_four_aging(void)
{
    begin_of(4);
}

TestSuite(collect, .init = begin_aging, .fini = end);
TestSuite(collect_four, .init = begin_four_aging, .fini = end);
TestSuite(when);

static void advance(int64_t duration_ns)
{
    cr_assert_eq(teff_silo_advance(silo, duration_ns), 0);
}

#define expect_grains(COUNT)                                                                       \
    cr_expect_eq(teff__silo_grain_count(silo), COUNT, "%d: %d grains", __LINE__,                   \
                 (int)teff__silo_grain_count(silo))

static uint64_t gone_by(int reason)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    cr_assert_eq(teff_silo_grain_counts(silo, &counts), 0);
    return counts.gone[reason];
}

static void touch_of(const teff_grain_type *type, uint64_t key)
{
    probe_ref probe = probe_of(&type->name, teff_key_u64(key));
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), 0);
}

static void touch_many(uint64_t count)
{
    for (uint64_t key = 0; key < count; key++)
        (void)number_of(key);
}

/* --- When: case 52 -------------------------------------------------------------------------- */

Test(when, an_age_is_rounded_up_to_the_quantum)
{
    cr_expect_eq(teff__collect_tick(0, MINUTE, MINUTE, 0), 1);
    cr_expect_eq(teff__collect_tick(0, MINUTE + 1, MINUTE, 0), 2);
    cr_expect_eq(teff__collect_tick(0, MINUTE + SECOND, MINUTE, 0), 2);
    cr_expect_eq(teff__collect_tick(0, SECOND, MINUTE, 0), 1);
    cr_expect_eq(teff__collect_tick(0, 59 * SECOND, MINUTE, 0), 1);
    cr_expect_eq(teff__collect_tick(30 * SECOND, 31 * SECOND, MINUTE, 0), 2);
}

Test(when, then_it_is_rounded_up_to_the_quantum_of_the_type)
{
    cr_expect_eq(teff__collect_tick(0, 61 * SECOND, SECOND, MINUTE), 120);
    cr_expect_eq(teff__collect_tick(0, 60 * SECOND, SECOND, MINUTE), 60);
    cr_expect_eq(teff__collect_tick(0, 5 * SECOND, 2 * SECOND, 3 * SECOND), 3);
    cr_expect_eq(teff__collect_tick(0, 7 * SECOND, 2 * SECOND, 3 * SECOND), 5); /* 9 s */
}

Test(when, for_ever_does_not_overflow)
{
    cr_expect_eq(teff__collect_tick(12345, INT64_MAX, MINUTE, 0), TEFF__WHEEL_NEVER);
    cr_expect_eq(teff__collect_tick(INT64_MAX - 1, 0, MINUTE, HOUR), TEFF__WHEEL_NEVER);
    cr_expect_eq(teff__collect_tick(0, INT64_MAX - 1, 1, 0), (uint64_t)INT64_MAX - 1);
}

/* --- Which ---------------------------------------------------------------------------------- */

Test(collect, what_is_idle_for_its_age_goes_and_not_before) /* case 47 */
{
    touch_many(1000);
    expect_grains(1000);
    advance(2 * SECOND - 1);
    expect_grains(1000);
    advance(1);
    expect_grains(0);
    cr_expect_eq(gone_by(TEFF_DEACTIVATED_IDLE), 1000);
    cr_expect_eq(seen.deactivated, 1000);
    cr_expect_eq(seen.reason, TEFF_DEACTIVATED_IDLE);
}

Test(collect, what_is_used_meanwhile_stays_as_long_again)
{
    touch_many(2);
    for (int i = 0; i < 10; i++) {
        advance(SECOND);
        (void)number_of(1);
    }
    expect_grains(1);
    cr_expect_eq(seen.activated, 2);
    advance(2 * SECOND);
    expect_grains(0);
}

Test(collect, what_has_a_suspended_turn_stays) /* case 48 */
{
    teff_future futures[500];
    for (uint64_t key = 0; key < 500; key++) {
        probe_ref busy = probe_at(1000 + key);
        futures[key] = probe_rest_start(client, &busy, &(struct ask){ .number = 20 * SECOND });
    }
    touch_many(500);
    expect_grains(1000);
    advance(10 * SECOND);
    expect_grains(500);
    cr_expect_eq(gone_by(TEFF_DEACTIVATED_IDLE), 500);
    for (int i = 0; i < 500; i++)
        cr_expect_eq(probe_rest_claim(client, futures[i], NULL), 0);
    expect_grains(500); /* idle since now */
    advance(5 * SECOND);
    expect_grains(0);
}

Test(collect, each_type_has_its_age) /* case 49 */
{
    touch_many(10);
    for (uint64_t key = 0; key < 10; key++)
        touch_of(&hourly_grain, key);
    advance(HOUR - SECOND);
    expect_grains(10);
    advance(SECOND);
    expect_grains(0);
}

Test(collect, a_type_may_be_coarser_than_the_silo)
{
    advance(SECOND); /* it is 2 s; at 4 s it is old enough */
    touch_of(&coarse_grain, 1);
    advance(8 * SECOND - 1);
    expect_grains(1);
    advance(1);
    expect_grains(0);
}

Test(collect, a_type_that_is_never_idle_stays_and_nobody_wakes_up_for_it)
{
    touch_of(&lasting_grain, 1);
    advance(1000 * HOUR);
    expect_grains(1);
    cr_expect_eq(teff__worker_due_ns(&teff__silo_grains(silo)->catalogs[0]->worker), INT64_MAX);
}

/* --- Wishes --------------------------------------------------------------------------------- */

static int keep(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)ret;
    return teff_turn_delay_deactivation(turn, arg->number);
}

static void wish(int64_t duration_ns)
{
    probe_ref probe = probe_at(1);
    acting = keep;
    cr_assert_eq(probe_act(client, &probe, &(struct ask){ .number = duration_ns }, NULL), 0);
}

Test(collect, a_turn_may_ask_for_longer)
{
    wish(10 * SECOND);
    advance(10 * SECOND - 1);
    expect_grains(1);
    advance(1);
    expect_grains(0);
}

Test(collect, a_wish_that_is_shorter_than_the_age_means_nothing)
{
    wish(1);
    advance(2 * SECOND - 1);
    expect_grains(1);
    advance(1);
    expect_grains(0);
}

Test(collect, a_wish_is_taken_back)
{
    wish(HOUR);
    wish(0);
    advance(2 * SECOND);
    expect_grains(0);
    wish(HOUR);
    wish(-1);
    advance(2 * SECOND);
    expect_grains(0);
}

Test(collect, the_last_wish_counts_and_for_ever_may_be_taken_back) /* case 52 */
{
    wish(INT64_MAX);
    advance(1000 * HOUR);
    expect_grains(1);
    wish(5 * SECOND);
    advance(5 * SECOND - 1);
    expect_grains(1);
    advance(1);
    expect_grains(0);
}

Test(collect, a_wish_is_forgotten_with_the_activation)
{
    probe_ref probe = probe_at(1);
    wish(HOUR);
    cr_assert_eq(probe_leave(client, &probe, NULL, NULL), 0);
    (void)number_of(1);
    advance(2 * SECOND);
    expect_grains(0);
}

static int keep_from_the_start(teff_turn *turn, struct probe *self)
{
    (void)self;
    return teff_turn_delay_deactivation(turn, 10 * SECOND);
}

static void keep_at_the_end(teff_turn *turn, struct probe *self, int reason)
{
    (void)self, (void)reason;
    cr_expect_eq(teff_turn_delay_deactivation(turn, HOUR), 0);
}

Test(collect, a_hook_may_wish_as_well_and_at_the_end_it_is_too_late)
{
    activating = keep_from_the_start;
    deactivating = keep_at_the_end;
    (void)number_of(1);
    advance(10 * SECOND - 1);
    expect_grains(1);
    advance(1);
    expect_grains(0);
}

/* --- Mail ----------------------------------------------------------------------------------- */

/* What the collector does with the only one there is, at the worst of moments. */
static void ask_it(int reason)
{
    teff__catalog *catalog = teff__silo_grains(silo)->catalogs[0];
    uint32_t slot = 0;
    teff__activation *activation = teff__slotmap_next(&catalog->activations, &slot);
    teff__ring_remove(&activation->ring);
    teff__activation_ask(catalog, activation, reason);
}

Test(collect, mail_that_comes_before_it_has_gone_takes_that_back)
{
    (void)number_of(1);
    ask_it(TEFF_DEACTIVATED_IDLE);
    (void)number_of(1);
    expect_grains(1);
    cr_expect_eq(seen.deactivated, 0);
    cr_expect_eq(seen.activated, 1);
    advance(2 * SECOND); /* and it is idle again when its age has passed */
    expect_grains(0);
}

Test(collect, what_a_turn_asks_for_is_not_taken_back)
{
    probe_ref probe = probe_at(1);
    (void)number_of(1);
    ask_it(TEFF_DEACTIVATED_IDLE);
    cr_assert_eq(probe_leave(client, &probe, NULL, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    expect_grains(0);
    cr_expect_eq(seen.reason, TEFF_DEACTIVATED_REQUEST);
}

/* --- By order ------------------------------------------------------------------------------- */

static void collect(int64_t idle_ns)
{
    cr_assert_eq(teff_silo_collect(silo, idle_ns), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
}

Test(collect, by_order_all_go_that_have_no_work_whatever_their_types_say) /* case 76 */
{
    probe_ref busy = probe_at(4711);
    teff_future future = probe_rest_start(client, &busy, &(struct ask){ .number = SECOND });
    touch_many(100);
    wish(INT64_MAX);
    touch_of(&lasting_grain, 1);
    touch_of(&hourly_grain, 1);
    collect(0);
    expect_grains(1);
    cr_expect_eq(gone_by(TEFF_DEACTIVATED_COLLECT), 102);
    cr_expect_eq(probe_rest_claim(client, future, NULL), 0);
    collect(0);
    expect_grains(0);
}

Test(collect, by_order_those_go_that_are_idle_for_so_long)
{
    for (uint64_t key = 0; key < 20; key++) {
        touch_of(&hourly_grain, key);
        if (key == 9)
            advance(30 * SECOND);
    }
    collect(31 * SECOND);
    expect_grains(20);
    collect(29 * SECOND);
    expect_grains(10);
    for (uint64_t key = 10; key < 20; key++)
        touch_of(&hourly_grain, key);
    expect_grains(10);
    advance(HOUR);
    expect_grains(0);
}

Test(collect, of_two_orders_neither_is_lost)
{
    touch_many(100);
    cr_assert_eq(teff_silo_collect(silo, 0), 0);
    cr_assert_eq(teff_silo_collect(silo, HOUR), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    expect_grains(0);
    touch_many(100);
    cr_assert_eq(teff_silo_collect(silo, HOUR), 0);
    cr_assert_eq(teff_silo_collect(silo, 0), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    expect_grains(0);
}

static void order_less(teff_turn *turn, struct probe *self, int reason)
{
    (void)turn, (void)self, (void)reason;
    cr_expect_eq(teff_silo_collect(silo, HOUR), 0);
}

Test(collect, an_order_that_is_being_carried_out_is_not_lost_to_another)
{
    touch_many(100);
    deactivating = order_less;
    collect(0);
    expect_grains(0);
}

Test(collect, an_order_that_is_no_order)
{
    cr_expect_eq(teff_silo_collect(silo, -1), TEFF_EINVAL);
    cr_expect_eq(teff_silo_collect(NULL, 0), TEFF_EINVAL);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_expect_eq(teff_silo_collect(silo, 0), TEFF_EINVALIDSTATE);
    silo = teff_silo_destroy(silo);
}

Test(collect_four, every_worker_hears_of_an_order)
{
    touch_many(1000);
    collect(0);
    expect_grains(0);
    cr_expect_eq(gone_by(TEFF_DEACTIVATED_COLLECT), 1000);
}

/* --- At rest -------------------------------------------------------------------------------- */

/* How many passes a worker has had a reason for; the simulation's clock stops at each. */
static int wake_ups(int64_t duration_ns)
{
    teff__worker *worker = &teff__silo_grains(silo)->catalogs[0]->worker;
    const int64_t end_ns = teff__silo_now_ns(silo) + duration_ns;
    int count = 0;
    for (;;) {
        const int64_t due_ns = teff__worker_due_ns(worker), now_ns = teff__silo_now_ns(silo);
        if (due_ns > end_ns)
            return count;
        advance(due_ns > now_ns ? due_ns - now_ns : 0);
        count++;
    }
}

Test(collect, an_idle_silo_wakes_up_once_for_what_it_owes_and_then_not_at_all)
{
    touch_many(100);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_expect_eq(wake_ups(1000 * HOUR), 1);
    expect_grains(0);
    cr_expect_eq(wake_ups(1000 * HOUR), 0);
}

Test(collect, nobody_wakes_up_again_and_again_for_a_turn_that_waits)
{
    probe_ref busy = probe_at(1);
    teff_future future = probe_rest_start(client, &busy, &(struct ask){ .number = 20 * HOUR });
    cr_assert_eq(teff_silo_run(silo), 0);
    const int count = wake_ups(10 * HOUR); /* long calls are looked for, too, until it is told of */
    cr_expect_leq(count, 10, "%d", count);
    (void)future;
}
