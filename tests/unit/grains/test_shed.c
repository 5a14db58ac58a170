/* SPDX-License-Identifier: MIT */
/* Memory that is short: how many grains go (case 53), and which. */
#include "grains/catalog.h"
#include "grains/shed.h"

#include "fixture.h"

#define MB UINT64_C(1000000)

TestSuite(shed);

/* Limit 80 %, target 70 %, 1,000 MB in all. */
static uint64_t decide(uint64_t available_mb, uint64_t count)
{
    const teff__memory_use use = { (1000 - available_mb) * MB, 1000 * MB };
    return teff__shed_decide(&use, 80, 70, count);
}

Test(shed, so_many_stay_as_the_target_is_of_what_is_used)
{
    cr_expect_eq(decide(150, 100), 18);
    cr_expect_eq(decide(100, 200), 45);
    cr_expect_eq(decide(50, 10), 3);
    cr_expect_eq(decide(250, 100), 0);
    cr_expect_eq(decide(800, 100), 0);
    cr_expect_eq(decide(150, 0), 0);
    cr_expect_eq(decide(200, 80), 10); /* just the limit */
    cr_expect_eq(decide(0, 10), 3);
}

Test(shed, the_largest_numbers_do_not_overflow)
{
    const teff__memory_use full = { UINT64_MAX, UINT64_MAX }, none = { 0, 0 };
    cr_expect_eq(teff__shed_decide(&full, 100, 50, UINT64_C(1) << 32), UINT64_C(1) << 31);
    cr_expect_eq(teff__shed_decide(&none, 80, 70, 10), 0);
}

/* --- A silo whose memory is what the test says ---------------------------------------------- */

static uint64_t available_mb = 1000;
static int reads, notices;
static uint64_t noticed;

static teff__memory_use memory_use(const teff__grains *grains)
{
    (void)grains;
    reads++;
    return (teff__memory_use){ (1000 - available_mb) * MB, 1000 * MB };
}

static void on_notice(void *user, const teff_notice *notice)
{
    (void)user;
    cr_expect_eq(notice->kind, TEFF_NOTICE_MEMORY);
    cr_expect_null(notice->grain.type);
    notices++;
    noticed = notice->count;
}

static void begin_shedding(void)
{
    begin_with((teff_silo_options){ .shed_at_percent = 80,
                                    .shed_to_percent = 70,
                                    .shed_period_ns = SECOND,
                                    .notice = on_notice });
    teff__silo_grains(silo)->memory_use = memory_use;
}

static uint64_t gone_by(int reason)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    cr_assert_eq(teff_silo_grain_counts(silo, &counts), 0);
    return counts.gone[reason];
}

static void advance(int64_t duration_ns)
{
    cr_assert_eq(teff_silo_advance(silo, duration_ns), 0);
}

TestSuite(shedding, .init = begin_shedding, .fini = end);

Test(shedding, without_grains_memory_is_not_even_read)
{
    for (int i = 0; i < 10; i++)
        advance(SECOND); /* a pass each, whether or not there is a reason */
    cr_assert_eq(reads, 0);
}

Test(shedding, while_there_is_enough_none_goes)
{
    (void)number_of(1);
    available_mb = 250;
    advance(10 * SECOND);
    cr_assert_eq(reads, 10);
    cr_assert_eq(teff__silo_grain_count(silo), 1);
    cr_assert_eq(notices, 0);
}

Test(shedding, those_go_that_were_idle_for_longest)
{
    for (uint64_t key = 0; key < 100; key++)
        cr_assert_eq(number_of(key), 0);
    advance(60 * SECOND);
    for (uint64_t key = 0; key < 50; key++) /* used later: others are idle for longer */
        cr_assert_eq(number_of(key), 0);
    cr_assert_eq(seen.activated, 100);
    available_mb = 150;
    advance(SECOND);
    available_mb = 1000;
    advance(SECOND);
    cr_assert_eq(gone_by(TEFF_DEACTIVATED_MEMORY), 18);
    cr_assert_eq(seen.reason, TEFF_DEACTIVATED_MEMORY);
    cr_assert_eq(notices, 1);
    cr_assert_eq(noticed, 18);
    for (uint64_t key = 0; key < 50; key++)
        cr_assert_eq(number_of(key), 0);
    cr_assert_eq(seen.activated, 100); /* none of those went */
    for (uint64_t key = 50; key < 100; key++)
        cr_assert_eq(number_of(key), 0);
    cr_assert_eq(seen.activated, 118);
}

static int keep(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)ret;
    return teff_turn_delay_deactivation(turn, arg->number);
}

Test(shedding, a_grain_that_wants_to_be_kept_goes_all_the_same_and_one_with_work_stays)
{
    probe_ref kept = probe_at(1), busy = probe_at(2);
    acting = keep;
    cr_assert_eq(probe_act(client, &kept, &(struct ask){ .number = INT64_MAX }, NULL), 0);
    teff_future future = probe_rest_start(client, &busy, &(struct ask){ .number = 5 * SECOND });
    available_mb = 1; /* of two one stays */
    advance(SECOND);
    cr_assert_eq(notices, 1);
    cr_assert_eq(teff__silo_grain_count(silo), 1);
    cr_assert_eq(seen.reason, TEFF_DEACTIVATED_MEMORY);
    cr_assert_eq(seen.deactivated, 1);
    available_mb = 1000;
    cr_assert_eq(probe_rest_claim(client, future, NULL), 0);
}

Test(shedding, the_silos_own_limit_is_what_counts_where_it_has_one)
{
    teff__grains grains = { .exchange = teff__silo_grains(silo)->exchange };
    const uint64_t before = grains.exchange->memory->bytes_max;
    grains.exchange->memory->bytes_max = 100 * MB;
    const teff__memory_use own = teff__shed_memory_use(&grains);
    grains.exchange->memory->bytes_max = before;
    cr_assert_eq(own.max_bytes, 100 * MB);
    cr_assert_eq(own.used_bytes, bytes_allocated());
    const teff__memory_use of_system = teff__shed_memory_use(&grains);
    cr_assert_gt(of_system.max_bytes, 0);
    cr_assert_gt(of_system.used_bytes, 0);
    cr_assert_leq(of_system.used_bytes, of_system.max_bytes);
}
