/* SPDX-License-Identifier: MIT */
/* Conformance cases of the runtime in one process that are about the core, by their numbers. */
#include "fixture.h"

TestSuite(cases, .init = begin, .fini = end);

Test(cases, case_1_a_grain_stores_23_and_reads_it_back_and_nothing_is_outstanding)
{
    probe_ref probe = probe_at(1);
    struct told told = { 0 };
    cr_assert_eq(probe_set(client, &probe, &(struct ask){ .number = 23 }, NULL), 0);
    cr_assert_eq(probe_get(client, &probe, NULL, &told), 0);
    cr_assert_eq(told.number, 23);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

/* --- A timeout of 1 s, a method that takes 4 s --------------------------------------------- */

static void begin_one_second(void)
{
    begin_with((teff_silo_options){ .response_timeout_ns = SECOND });
}

TestSuite(cases_of_1_s, .init = begin_one_second, .fini = end);

static int64_t took_ns;
static int completions, result;
static uint64_t open_before, open_during, open_after;

static int call_for_4_s(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    const int64_t before_ns = teff__silo_now_ns(silo);
    (void)user;
    result = probe_rest(task, &probe, &(struct ask){ .number = 4 * SECOND }, NULL);
    took_ns = teff__silo_now_ns(silo) - before_ns;
    open_after = teff__silo_open_count(silo);
    completions++;
    return 0;
}

static void expect_timeout(void)
{
    open_before = teff__silo_open_count(silo);
    spawn(0, call_for_4_s, NULL);
    cr_assert_eq(teff_silo_advance(silo, SECOND / 2), 0);
    open_during = teff__silo_open_count(silo);
    cr_assert_eq(completions, 0);
    cr_assert_eq(teff_silo_advance(silo, 3 * SECOND), 0);
    cr_assert_eq(completions, 1);
    cr_assert_eq(result, TEFF_ETIMEDOUT);
}

Test(cases_of_1_s, case_2_it_times_out_after_1_s_and_is_outstanding_until_then)
{
    expect_timeout();
    cr_assert_geq(took_ns, 900 * MS);
    cr_assert_leq(took_ns, 3500 * MS);
    cr_assert_leq(took_ns, SECOND + MS); /* ours: within one sweep period */
    cr_assert_eq(open_before, 0);
    cr_assert_eq(open_during, 1);
    cr_assert_eq(open_after, 0);
}

Test(cases_of_1_s, case_2_for_a_client_too)
{
    probe_ref probe = probe_at(1);
    const int64_t before_ns = teff__silo_now_ns(silo);
    cr_assert_eq(probe_rest(client, &probe, &(struct ask){ .number = 4 * SECOND }, NULL),
                 TEFF_ETIMEDOUT);
    cr_assert_eq(teff__silo_now_ns(silo) - before_ns, SECOND);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

Test(cases_of_1_s, case_3_the_late_response_after_the_timeout_changes_nothing)
{
    expect_timeout();
    cr_assert_eq(seen.turns, 1);
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0); /* it comes half a second later */
    cr_assert_eq(completions, 1);
    cr_assert_eq(result, TEFF_ETIMEDOUT);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(number_of(1), 0); /* the grain goes on */
}

/* --- Activation and deactivation ----------------------------------------------------------- */

static uint64_t route_of(uint64_t key)
{
    struct told told = { 0 };
    probe_ref probe = probe_at(key);
    cr_assert_eq(probe_get(client, &probe, NULL, &told), 0);
    return told.route;
}

static void deactivate(uint64_t key)
{
    probe_ref probe = probe_at(key);
    cr_assert_eq(probe_leave(client, &probe, NULL, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
}

Test(cases, case_36_activations_and_deactivations_are_counted_1_0_then_1_1_then_2_1)
{
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(seen.activated, 1);
    cr_assert_eq(seen.deactivated, 0);
    deactivate(1);
    cr_assert_eq(seen.activated, 1);
    cr_assert_eq(seen.deactivated, 1);
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(seen.activated, 2);
    cr_assert_eq(seen.deactivated, 1);
}

Test(cases, case_37_a_deactivated_grain_has_a_new_activation_id_when_it_is_called_again)
{
    const uint64_t first = route_of(1);
    cr_assert_eq(route_of(1), first);
    deactivate(1);
    const uint64_t second = route_of(1);
    cr_assert_neq(second, first);
    cr_assert_eq(route_of(1), second);
}

static int fail_twice(teff_turn *turn, struct probe *self)
{
    (void)self;
    return seen.activated <= 2
               ? teff_turn_fail(turn, 40 + seen.activated, "no room %d", seen.activated)
               : 0;
}

Test(cases, case_38_an_error_of_activate_reaches_the_caller_and_the_next_call_tries_again)
{
    probe_ref probe = probe_at(1);
    activating = fail_twice;
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), 41);
    cr_assert_str_eq(teff_outcome_last(client)->text, "no room 1"); /* no forwarding error */
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), 42);
    cr_assert_str_eq(teff_outcome_last(client)->text, "no room 2");
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), 0);
    cr_assert_eq(seen.activated, 3);
    cr_assert_eq(seen.turns, 1);
}

static int fail_always(teff_turn *turn, struct probe *self)
{
    (void)turn, (void)self;
    return 9;
}

Test(cases, case_39_where_the_init_function_fails_the_caller_is_told_and_no_activation_is_kept)
{
    probe_ref probe = probe_at(1);
    activating = fail_always;
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), 9);
    cr_assert_not(teff_outcome_last(client)->may_have_run);
    cr_assert_eq(teff__silo_grain_count(silo), 0);
    cr_assert_eq(seen.deactivated, 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

Test(cases, case_39_where_its_state_cannot_be_allocated_the_text_says_so)
{
    probe_ref probe = probe_at(2);
    cr_assert_eq(number_of(1), 0); /* all else is there */
    teff__memory_fail_at(teff__silo_memory(silo), 1);
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), TEFF_ENOMEM);
    cr_assert_str_eq(teff_outcome_last(client)->text,
                     "Failed to create an instance, or the way to it: out of memory");
    cr_assert_eq(teff__silo_grain_count(silo), 1);
}

static int call_without_memory(teff_task *task, void *user)
{
    probe_ref probe = probe_at(3);
    (void)user;
    teff__memory_fail_at(teff__silo_memory(silo), 1);
    cr_expect_eq(probe_get(task, &probe, NULL, NULL), TEFF_ENOMEM);
    cr_expect_str_eq(teff_outcome_last(task)->text,
                     "Failed to create an instance, or the way to it: out of memory");
    cr_expect_not(teff_outcome_last(task)->may_have_run);
    return probe_get(task, &probe, NULL, NULL);
}

static int call_once(teff_task *task, void *user)
{
    probe_ref probe = probe_at(4);
    (void)user;
    return probe_get(task, &probe, NULL, NULL);
}

Test(cases, case_39_for_a_task_too)
{
    cr_assert_eq(in_task(0, call_once, NULL), 0); /* all else is there */
    cr_assert_eq(in_task(0, call_without_memory, NULL), 0);
}
