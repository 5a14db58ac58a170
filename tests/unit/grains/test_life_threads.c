/* SPDX-License-Identifier: MIT */
/* Lives of activations on threads: limits by the real clock, and who is told of them. */
#include "lives.h"

static void begin_threads(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 2,
                                        .activate_timeout_ns = 100 * MS,
                                        .deactivate_timeout_ns = 2 * SECOND,
                                        .stuck_ns = 100 * MS };
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

TestSuite(life_threads, .init = begin_threads, .fini = end);

static void deactivate_in_a_second(teff_turn *turn, struct probe *self, int reason)
{
    (void)self;
    if (reason == TEFF_DEACTIVATED_REQUEST)
        cr_expect_eq(teff_sleep(turn, SECOND), 0);
}

static int call_twenty_times(teff_task *task, void *user)
{
    teff_future futures[20];
    probe_ref probe = probe_at(1);
    (void)user;
    for (int i = 0; i < 20; i++) {
        futures[i] = probe_get_start(task, &probe, NULL);
        cr_expect_eq(teff_sleep(task, 45 * MS), 0);
    }
    for (int i = 0; i < 20; i++) {
        struct told told = { .number = -1 };
        cr_expect_eq(probe_get_claim(task, futures[i], &told), 0);
        cr_expect_eq(told.number, 0);
    }
    return 0;
}

Test(life_threads, calls_made_while_deactivate_takes_a_second_all_succeed_on_the_next)
{
    teff_future futures[2];
    probe_ref probe = probe_at(1);
    deactivating = deactivate_in_a_second;
    cr_assert_eq(probe_set(client, &probe, &(struct ask){ .number = 9 }, NULL), 0);
    cr_assert_eq(probe_leave(client, &probe, NULL, NULL), 0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(teff_silo_spawn(silo, i, call_twenty_times, NULL, client, &futures[i]), 0);
    for (int i = 0; i < 2; i++) {
        int result = -1;
        cr_assert_eq(teff_task_claim(client, futures[i], &result), 0);
    }
    const teff_grain_counts counts = grain_counts();
    cr_expect_eq(counts.made, 2);
    cr_expect_eq(counts.gone[TEFF_DEACTIVATED_REQUEST], 1);
}

static int sleep_at_first(teff_turn *turn, struct probe *self)
{
    (void)self;
    return seen.activated == 1 ? teff_sleep(turn, 1000 * SECOND) : 0;
}

Test(life_threads, activate_is_ended_at_its_limit)
{
    activating = sleep_at_first;
    const int64_t began_at_ns = teff_now_ns(client);
    cr_expect_eq(get_number(client, 1), TEFF_ECANCELED);
    const int64_t took_ns = teff_now_ns(client) - began_at_ns;
    cr_expect_geq(took_ns, 90 * MS); /* the limit counts from the pass's clock */
    cr_expect_leq(took_ns, 5 * SECOND);
    cr_expect_eq(get_number(client, 1), 0);
}

static int sleep_for_ever(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    return teff_sleep(turn, 1000 * SECOND);
}

static int call_stuck(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    return probe_act(caller, &probe, NULL, NULL);
}

Test(life_threads, a_stuck_one_is_replaced_whoever_called)
{
    acting = sleep_for_ever;
    for (int worker = 0; worker < 2; worker++)
        cr_expect_eq(in_task(worker, call_stuck, NULL), TEFF_ESTUCK);
    cr_expect_eq(call_stuck(client, NULL), TEFF_ESTUCK);
    cr_expect_eq(get_number(client, 1), 0);
    cr_expect_eq(grain_counts().gone[TEFF_DEACTIVATED_STUCK], 3);
    cr_expect_eq(silo_counts().ended[TEFF_END_STUCK], 3);
}
