/* SPDX-License-Identifier: MIT */
/* Hooks and their limits, why activations go, and what those get who wait for one that does. */
#include "lives.h"

static void begin_lives(void)
{
    begin_with((teff_silo_options){ .workers = 2,
                                    .activate_timeout_ns = 2 * SECOND,
                                    .deactivate_timeout_ns = 2 * SECOND,
                                    .notice = on_notice });
}

TestSuite(life, .init = begin_lives, .fini = end);

static const char over[] = "activate was not over within activate_timeout_ns";

static void expect_seen(int activated, int deactivated)
{
    cr_expect_eq(seen.activated, activated, "activated %d", seen.activated);
    cr_expect_eq(seen.deactivated, deactivated, "deactivated %d", seen.deactivated);
}

/* --- The limit of activate ----------------------------------------------------------------- */

static int slept; /* what sleeps of hooks returned */

static int sleep_once(teff_turn *turn, struct probe *self)
{
    (void)self;
    if (seen.activated > 1)
        return 0;
    slept = teff_sleep(turn, 100 * SECOND);
    return slept;
}

static int expect_canceled(teff_caller *caller, void *user)
{
    (void)user;
    cr_expect_eq(get_number(caller, 1), TEFF_ECANCELED);
    cr_expect_str_eq(teff_outcome_last(caller)->text, over);
    cr_expect_not(teff_outcome_last(caller)->may_have_run);
    tell("canceled ");
    return 0;
}

static void expect_all_canceled(int64_t after_ns)
{
    const int64_t began_ns = teff__silo_now_ns(silo);
    spawn(0, expect_canceled, NULL);
    spawn(1, expect_canceled, NULL);
    expect_canceled(client, NULL);
    cr_expect_eq(since(began_ns), after_ns, "%d ms", (int)(since(began_ns) / MS));
    cr_assert_eq(teff_silo_advance(silo, MS), 0);
    cr_expect_str_eq(story, "canceled canceled canceled ");
    expect_gone(TEFF_DEACTIVATED_FAILED, 1);
    cr_expect_eq(noticed.count, 1);
    cr_expect_eq(noticed.kind, TEFF_NOTICE_ACTIVATE);
}

Test(life, activate_that_sleeps_over_its_limit_is_woken_and_all_callers_are_canceled) /* case 41 */
{
    activating = sleep_once;
    expect_all_canceled(2 * SECOND);
    cr_expect_eq(slept, TEFF_ECANCELED);
    cr_expect_eq(get_number(client, 1), 0);
    expect_seen(2, 0);
}

static int wait_once(teff_turn *turn, struct probe *self)
{
    (void)self;
    if (seen.activated > 1)
        return 0;
    tell(wait_for_task(turn) == 0 ? "late " : "? ");
    return teff_sleep(turn, MS) == TEFF_ECANCELED ? teff_turn_deactivate(turn) : 1;
}

Test(life, activate_that_does_not_end_is_abandoned_and_the_next_call_tries_again)
{
    probe_ref probe = probe_at(1);
    task_ns = 10 * SECOND;
    activating = wait_once;
    const int64_t began_ns = teff__silo_now_ns(silo);
    cr_expect_eq(probe_get(client, &probe, NULL, NULL), TEFF_ECANCELED);
    cr_expect_str_eq(teff_outcome_last(client)->text, over);
    cr_expect_eq(since(began_ns), 2100 * MS, "%d ms", (int)(since(began_ns) / MS));
    cr_expect_str_eq(noticed.text, "worker 0: probe/1: given up: activate is not over within "
                                   "activate_timeout_ns");
    cr_expect_eq(probe_set(client, &probe, &(struct ask){ .number = 5 }, NULL), 0);
    cr_expect_str_eq(story, "");
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    cr_expect_str_eq(story, "late ");
    cr_expect_eq(number_of(1), 5); /* the old one's end touched nothing */
    expect_gone(TEFF_DEACTIVATED_FAILED, 1);
    cr_expect_eq(grain_counts().resident, 1);
}

Test(life, what_was_abandoned_is_freed_once_its_hook_has_ended)
{
    uint64_t before = 0;
    task_ns = 10 * SECOND;
    activating = wait_once;
    for (int i = 0; i < 3; i++) { /* pools and stacks are there after the first */
        seen.activated = 0;
        cr_expect_eq(get_number(client, 1), TEFF_ECANCELED);
        cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
        if (i == 0)
            before = bytes_allocated();
    }
    cr_expect_eq(bytes_allocated(), before);
}

static int call_once(teff_turn *turn, struct probe *self)
{
    probe_ref other = probe_at(2);
    const teff_key one = teff_key_u64(1);
    (void)self;
    if (!teff__key_equal(teff_turn_key(turn), &one))
        return 0;
    const int r = probe_rest(teff_within(turn, INT64_MAX), &other,
                             &(struct ask){ .number = 100 * SECOND }, NULL);
    return r != 0 ? teff_turn_fail(turn, 7, "asked in vain") : 0;
}

Test(life, calls_of_activate_end_at_its_limit_and_what_it_makes_of_that_is_its_own)
{
    probe_ref probe = probe_at(1);
    activating = call_once;
    const int64_t began_ns = teff__silo_now_ns(silo);
    cr_expect_eq(probe_get(client, &probe, NULL, NULL), 7);
    cr_expect_str_eq(teff_outcome_last(client)->text, "asked in vain");
    cr_expect_eq(since(began_ns), 2 * SECOND);
}

static int sleep_and_do_without(teff_turn *turn, struct probe *self)
{
    cr_expect_eq(teff_sleep(turn, 1000 * MS), 0);
    cr_expect_eq(teff_sleep(turn, 1001 * MS), TEFF_ECANCELED);
    cr_expect_eq(teff_sleep(turn, 0), TEFF_ECANCELED);
    self->number = 3;
    return 0;
}

Test(life, activate_may_end_well_although_it_was_told_to_end)
{
    activating = sleep_and_do_without;
    const int64_t began_ns = teff__silo_now_ns(silo);
    cr_expect_eq(get_number(client, 1), 3);
    cr_expect_eq(since(began_ns), 2 * SECOND);
    cr_expect_eq(noticed.count, 0);
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    cr_expect_eq(get_number(client, 1), 3);
    expect_seen(1, 0);
}

static void begin_unlimited(void)
{
    begin_with((teff_silo_options){ .activate_timeout_ns = INT64_MAX,
                                    .response_timeout_ns = INT64_MAX,
                                    .deactivate_timeout_ns = INT64_MAX });
}

TestSuite(unlimited_life, .init = begin_unlimited, .fini = end);

static int sleep_long(teff_turn *turn, struct probe *self)
{
    (void)self;
    return teff_sleep(turn, 100000 * SECOND);
}

Test(unlimited_life, a_hook_may_have_all_the_time_there_is)
{
    activating = sleep_long;
    const int64_t began_ns = teff__silo_now_ns(silo);
    cr_expect_eq(get_number(client, 1), 0);
    cr_expect_eq(since(began_ns), 100000 * SECOND);
}

/* --- Activate that fails, or asks to go ------------------------------------------------------ */

enum { CALLS = 10000, CALLERS = 100 };

static int codes[CALLS];

static int refuse_one_key(teff_turn *turn, struct probe *self)
{
    const teff_key bad = teff_key_u64((uint64_t)-2);
    (void)self;
    return teff__key_equal(teff_turn_key(turn), &bad) ? teff_turn_fail(turn, 22, "not that key")
                                                      : 0;
}

static int call_bad_key(teff_task *task, void *user)
{
    const int first = (int)(intptr_t)user;
    teff_future futures[CALLS / CALLERS];
    for (int i = 0; i < CALLS / CALLERS; i++) {
        probe_ref probe = probe_at((uint64_t)-2);
        futures[i] = probe_get_start(task, &probe, NULL);
    }
    for (int i = 0; i < CALLS / CALLERS; i++) {
        codes[first + i] = probe_get_claim(task, futures[i], NULL);
        cr_expect_str_eq(teff_outcome_last(task)->text, "not that key");
    }
    return 0;
}

static void call_bad_key_from_all(void)
{
    for (int i = 0; i < CALLERS; i++)
        spawn(i % 2, call_bad_key, (void *)(intptr_t)(i * (CALLS / CALLERS)));
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_silo_advance(silo, MS), 0);
    for (int i = 0; i < CALLS; i++)
        cr_assert_eq(codes[i], 22, "%d: %d", i, codes[i]);
    memset(codes, 0, sizeof(codes));
}

Test(life,
     where_activate_refuses_one_key_ten_thousand_calls_hear_so_and_memory_returns) /* case 42 */
{
    activating = refuse_one_key;
    cr_expect_eq(number_of(1), 0);
    call_bad_key_from_all(); /* pools and stacks are what they will be */
    const uint64_t before = bytes_allocated();
    call_bad_key_from_all();
    cr_expect_leq(bytes_allocated(), before);
    cr_expect_eq(number_of(1), 0);
    cr_expect_eq(grain_counts().resident, 1);
    cr_expect_geq(grain_counts().gone[TEFF_DEACTIVATED_FAILED], 2);
}

static int leave_at_first(teff_turn *turn, struct probe *self)
{
    self->number = seen.activated;
    return seen.activated == 1 ? teff_turn_deactivate(turn) : 0;
}

Test(life, activate_that_asks_to_go_passes_its_mail_on_and_no_deactivate_runs)
{
    activating = leave_at_first;
    cr_expect_eq(get_number(client, 1), 2);
    expect_seen(2, 0);
    expect_gone(TEFF_DEACTIVATED_REQUEST, 1);
}

static int always_leave(teff_turn *turn, struct probe *self)
{
    (void)self;
    return teff_turn_deactivate(turn);
}

Test(life, mail_is_passed_on_twice_and_then_refused) /* case 40 */
{
    activating = always_leave;
    cr_expect_eq(get_number(client, 1), TEFF_EREJECTED);
    cr_expect_not_null(strstr(teff_outcome_last(client)->text, "Forwarding failed"));
    expect_seen(3, 0);
    expect_gone(TEFF_DEACTIVATED_REQUEST, 3);
}

/* --- Deactivating ---------------------------------------------------------------------------- */

static void sleep_long_once(teff_turn *turn, struct probe *self, int reason)
{
    (void)self, (void)reason;
    if (seen.deactivated == 1)
        slept = teff_sleep(turn, 100 * SECOND);
}

static void wait_once_at_end(teff_turn *turn, struct probe *self, int reason)
{
    (void)self, (void)reason;
    if (seen.deactivated > 1)
        return;
    tell(wait_for_task(turn) == 0 ? "late " : "? ");
    cr_expect_eq(teff_turn_deactivate(turn), 0);
    cr_expect_eq(teff_turn_delay_deactivation(turn, SECOND), 0);
}

static int note_around_leaving(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    for (int i = 1; i <= 6; i++) {
        cr_expect_eq(probe_note_send(task, &probe, &(struct ask){ .number = i }), 0);
        if (i == 2)
            cr_expect_eq(probe_leave_send(task, &probe, NULL), 0);
        if (i == 4)
            cr_expect_eq(teff_sleep(task, SECOND), 0); /* while deactivate waits */
    }
    const int64_t began_ns = teff__silo_now_ns(silo);
    cr_expect_eq(get_number(task, 1), 4); /* what the second one noted */
    return (int)((teff__silo_now_ns(silo) - began_ns) / MS);
}

Test(life, deactivate_that_sleeps_over_its_limit_is_woken_and_the_mail_goes_on)
{
    deactivating = sleep_long_once;
    cr_expect_eq(in_task(0, note_around_leaving, NULL), 1000);
    cr_expect_eq(slept, TEFF_ECANCELED);
    cr_expect_str_eq(story, "1 2 3 4 5 6 ");
    expect_gone(TEFF_DEACTIVATED_REQUEST, 1);
    cr_expect_eq(noticed.count, 0);
}

Test(life, deactivate_that_does_not_end_is_abandoned_and_the_mail_goes_on_in_order)
{
    task_ns = 10 * SECOND;
    deactivating = wait_once_at_end;
    cr_expect_eq(in_task(1, note_around_leaving, NULL), 1100);
    cr_expect_str_eq(story, "1 2 3 4 5 6 ");
    expect_gone(TEFF_DEACTIVATED_STUCK, 1);
    cr_expect_eq(noticed.kind, TEFF_NOTICE_DEACTIVATE);
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    cr_expect_str_eq(story, "1 2 3 4 5 6 late ");
    cr_expect_eq(get_number(client, 1), 4);
    expect_gone(TEFF_DEACTIVATED_STUCK, 1);
}

Test(life, one_abandoned_without_mail_leaves_none)
{
    probe_ref probe = probe_at(1);
    deactivating = wait_once_at_end;
    cr_expect_eq(probe_leave(client, &probe, NULL, NULL), 0);
    cr_assert_eq(teff_silo_advance(silo, 3 * SECOND), 0);
    expect_gone(TEFF_DEACTIVATED_STUCK, 1);
    cr_expect_eq(grain_counts().resident, 0);
    cr_expect_eq(teff__silo_grain_count(silo), 0);
    end(); /* ends the task, and so the hook, and frees what there was */
    cr_expect_str_eq(story, "late ");
}

static void sleep_a_second(teff_turn *turn, struct probe *self, int reason)
{
    (void)self, (void)reason;
    if (seen.deactivated == 1)
        cr_expect_eq(teff_sleep(turn, SECOND), 0);
}

static int call_twenty_times(teff_task *task, void *user)
{
    teff_future futures[20];
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(probe_set(task, &probe, &(struct ask){ .number = 9 }, NULL), 0);
    cr_expect_eq(probe_leave(task, &probe, NULL, NULL), 0);
    for (int i = 0; i < 20; i++) {
        cr_expect_eq(teff_sleep(task, 45 * MS), 0);
        futures[i] = probe_get_start(task, &probe, NULL);
    }
    cr_expect_eq(seen.activated, 1); /* deactivate is not over */
    for (int i = 0; i < 20; i++) {
        struct told told = { .number = -1 };
        cr_expect_eq(probe_get_claim(task, futures[i], &told), 0);
        cr_expect_eq(told.number, 0);
    }
    return 0;
}

Test(life, calls_made_while_deactivate_takes_a_second_all_succeed_on_the_next)
{
    deactivating = sleep_a_second;
    cr_expect_eq(in_task(1, call_twenty_times, NULL), 0);
    expect_seen(2, 1);
}

Test(life, one_that_deactivates_itself_is_followed_at_once) /* case 46 */
{
    probe_ref probe = probe_at(1);
    const int64_t began_ns = teff__silo_now_ns(silo);
    cr_expect_eq(probe_set(client, &probe, &(struct ask){ .number = 9 }, NULL), 0);
    cr_expect_eq(probe_leave(client, &probe, NULL, NULL), 0);
    cr_expect_eq(get_number(client, 1), 0);
    cr_expect_lt(since(began_ns), MS);
    expect_seen(2, 1);
    expect_gone(TEFF_DEACTIVATED_REQUEST, 1);
}

/* --- Counts ---------------------------------------------------------------------------------- */

static int call_and_fire(teff_task *task, void *user)
{
    teff_cancel *source = NULL;
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(teff_cancel_create(silo, &source), 0);
    const teff_call_options under = { .struct_size = sizeof(under), .cancel = source };
    teff_future future = probe_get_start(teff_with(task, &under), &probe, NULL);
    teff_cancel_fire(source);
    cr_expect_eq(probe_get_claim(task, future, NULL), TEFF_ECANCELED);
    (void)teff_cancel_unref(source);
    return 0;
}

Test(life, one_that_nobody_needed_any_more_went_for_no_reason)
{
    cr_expect_eq(in_task(0, call_and_fire, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    expect_seen(0, 0);
    expect_gone(0, 1);
}

Test(life, those_that_go_when_the_silo_stops_are_counted)
{
    for (uint64_t key = 0; key < 10; key++)
        (void)number_of(key);
    cr_expect_eq(grain_counts().resident, 10);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(teff_silo_stop(silo), 0);
    expect_gone(TEFF_DEACTIVATED_STOP, 10);
    cr_expect_eq(grain_counts().resident, 0);
    silo = teff_silo_destroy(silo);
}
