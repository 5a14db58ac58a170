/* SPDX-License-Identifier: MIT */
/* Completions of turns and tasks: when they run, once, as whose turn, and what they may do. */
#include "calls.h"

TestSuite(then, .init = begin, .fini = end);
TestSuite(then_on_four, .init = begin_four_workers, .fini = end);

/* --- What it is told ----------------------------------------------------------------------- */

static int runs;
static const void *last_caller;

static void told_number(teff_caller *caller, void *user, const teff_outcome *outcome,
                        const struct told *ret)
{
    runs++;
    last_caller = caller;
    cr_expect_eq(outcome->code, 0);
    cr_expect(outcome->may_have_run);
    cr_expect_str_eq(outcome->method->name, "get");
    cr_expect_str_eq(outcome->text, "");
    tell("%s%d ", (const char *)user, ret != NULL ? (int)ret->number : -1);
}

static int get_then(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    cr_expect_eq(probe_set(caller, &probe, &(struct ask){ .number = 23 }, NULL), 0);
    cr_expect_eq(probe_get_then(caller, &probe, NULL, told_number, user != NULL ? user : ""), 0);
    cr_expect_eq(teff_outcome_last(caller)->code, 0);
    cr_expect_eq(runs, 0); /* never inside the opener */
    tell("opened ");
    return 5;
}

static void expect_23(void)
{
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "opened 23 ");
    cr_assert_eq(teff_silo_advance(silo, 100 * SECOND), 0);
    cr_assert_eq(runs, 1);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

Test(then, a_turns_completion_runs_once_after_the_opener_with_the_result)
{
    cr_assert_eq(in_turn(1, get_then), 5);
    expect_23();
    cr_assert_not_null(last_caller);
}

Test(then_on_four, a_turns_completion_runs_once_after_the_opener_with_the_result)
{
    cr_assert_eq(in_turn(1, get_then), 5);
    expect_23();
    cr_assert_not_null(last_caller);
}

static int get_then_and_wait(teff_task *task, void *user)
{
    cr_expect_eq(get_then(task, user), 5);
    cr_expect_eq(teff_sleep(task, MS), 0);
    cr_expect_eq(runs, 1);
    return 5;
}

Test(then_on_four, a_tasks_completion_runs_once_with_a_caller_while_the_task_lasts)
{
    spawn(2, get_then_and_wait, NULL);
    cr_assert_eq(teff_silo_advance(silo, 10 * MS), 0);
    expect_23();
    cr_assert_not_null(last_caller);
}

/* What a completion of any row is told, as text. */
static void tell_outcome(teff_caller *caller, void *user, const teff_outcome *outcome,
                         const struct told *ret)
{
    tell("%s[%s %d %s %s %s %s]", (const char *)user, caller != NULL ? "caller" : "none",
         outcome->code, outcome->may_have_run ? "ran" : "not", outcome->method->name, outcome->text,
         ret != NULL ? "ret" : "null");
}

static void tell_note(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const teff_none *ret)
{
    tell_outcome(caller, user, outcome, (const struct told *)(const void *)ret);
}

static int fail_then(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    return probe_fail_then(caller, &probe, &(struct ask){ 7, "full" }, tell_outcome, "");
}

Test(then, a_failure_comes_with_text_and_origin_and_without_a_result)
{
    cr_assert_eq(in_turn(1, fail_then), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "[caller 7 ran fail full null]");
}

/* Probe 6 passes on what probe 5 says. */
static int pass_failure(teff_turn *turn, struct probe *self, const struct ask *arg,
                        struct told *ret)
{
    probe_ref probe = probe_at(5);
    if (arg->number == 0)
        return act_body(turn, self, arg, ret);
    return teff_turn_pass(turn, probe_fail(turn, &probe, arg, ret));
}

static int act_then(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(6);
    (void)user;
    acting = pass_failure;
    return probe_act_then(caller, &probe, &(struct ask){ 8, "deep" }, tell_outcome, "");
}

Test(then_on_four, a_failure_that_was_passed_on_keeps_its_origin)
{
    cr_assert_eq(in_turn(1, act_then), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "[caller 8 ran fail deep null]");
}

static int rest_then(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    return probe_rest_then(teff_within(caller, 10 * MS), &probe, &(struct ask){ .number = SECOND },
                           tell_outcome, "");
}

Test(then, a_timeout_comes_at_its_deadline_once_and_the_late_answer_is_dropped)
{
    cr_assert_eq(in_turn(1, rest_then), 0);
    cr_assert_eq(teff_silo_advance(silo, 10 * MS - 1), 0);
    cr_assert_str_eq(story, "");
    cr_assert_eq(teff_silo_advance(silo, MS + 1), 0);
    cr_assert_str_eq(story, "[caller -10006 ran rest no answer before the deadline: the outcome "
                            "says whether the call may have run null]");
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    cr_assert_eq(strlen(story), strlen("[caller -10006 ran rest no answer before the deadline: the "
                                       "outcome says whether the call may have run null]"));
    cr_assert_eq(silo_counts().late, 1);
}

static int note_then(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    const int r = probe_note_then(caller, &probe, &(struct ask){ .number = 3 }, tell_note, "");
    cr_expect_eq(teff_outcome_last(caller)->code, 0);
    tell("opened ");
    return r;
}

Test(then, that_of_a_one_way_row_runs_when_it_was_sent_but_not_inside_the_opener)
{
    cr_assert_eq(in_turn(1, note_then), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_not_null(strstr(story, "opened "));
    cr_assert_not_null(strstr(story, "[caller 0 ran note  null]"));
    cr_assert_not_null(strstr(story, "3 "));
    cr_assert_lt(strstr(story, "opened "), strstr(story, "[caller"));
}

static int then_invalid(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5), nowhere = probe_of(&(teff_name){ "nobody" }, teff_key_u64(1));
    (void)user;
    cr_expect_eq(probe_get_then(caller, &nowhere, NULL, told_number, ""), TEFF_EINVAL);
    cr_expect_str_eq(teff_outcome_last(caller)->text,
                     "no grain type of the reference's name was registered");
    cr_expect_not(teff_outcome_last(caller)->may_have_run);
    cr_expect_eq(probe_get_then(caller, &probe, NULL, NULL, ""), TEFF_EINVAL);
    cr_expect_eq(teff_call_then(caller, &probe.ref, &probe_interface, probe_number_get, NULL, NULL,
                                (teff__any *)told_number, ""),
                 TEFF_EINVAL);
    cr_expect_eq(teff_call_then(caller, &probe.ref, &probe_interface, probe_number_count, NULL,
                                probe_get_thunk, (teff__any *)told_number, ""),
                 TEFF_EINVAL);
    cr_expect_eq(probe_get_then(teff_within(caller, 0), &probe, NULL, told_number, ""),
                 TEFF_EINVAL);
    cr_expect_eq(probe_note_then(caller, &nowhere, NULL, tell_note, ""), TEFF_EINVAL);
    return 5;
}

Test(then, what_cannot_be_opened_never_completes)
{
    probe_ref probe = probe_at(5);
    cr_assert_eq(probe_get_then(NULL, &probe, NULL, told_number, ""), TEFF_EINVAL);
    by_each(then_invalid, 5);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_client_run(client, 0), TEFF_ETIMEDOUT);
    cr_assert_eq(runs, 0);
    cr_assert_str_eq(story, "");
}

/* Fails each allocation of an opening in its turn, until one needs no more of them. */
static int then_without_memory(teff_caller *caller, void *user)
{
    int failures = 0;
    (void)user;
    for (uint64_t n = 1; n < 100; n++) {
        const int before = runs;
        probe_ref probe = probe_at(1000 + n);
        teff__memory_fail_at(teff__silo_memory(silo), n);
        const int r = probe_get_then(caller, &probe, NULL, told_number, "");
        const bool failed = teff__atomic_u64_load_relaxed(&teff__silo_memory(silo)->fail_at) == 0;
        teff__memory_fail_at(teff__silo_memory(silo), 0);
        cr_expect(r == 0 || r == TEFF_ENOMEM, "%d", r);
        cr_expect_eq(teff_sleep(caller, MS), 0);
        cr_expect_eq(runs - before, r == 0);
        failures += r == TEFF_ENOMEM;
        if (!failed)
            return r == 0 && failures > 1 ? 5 : 6;
    }
    return 7;
}

Test(then, an_opening_without_memory_is_refused_and_never_completes)
{
    cr_assert_eq(in_task(0, then_without_memory, NULL), 5);
}

/* --- A turn among the others --------------------------------------------------------------- */

static bool busy;

static void expect_alone(teff_caller *caller, void *user, const teff_outcome *outcome,
                         const struct told *ret)
{
    (void)user, (void)outcome, (void)ret;
    cr_expect_not(busy);
    busy = true;
    cr_expect_eq(teff_sleep(caller, 10 * MS), 0);
    busy = false;
    tell("then ");
}

/* Opens one and sleeps over its end; or only sleeps. */
static int be_busy(teff_caller *caller, void *user)
{
    (void)user;
    cr_expect_not(busy);
    busy = true;
    cr_expect_eq(teff_sleep(caller, 10 * MS), 0);
    busy = false;
    tell("turn ");
    return 0;
}

static int open_and_be_busy(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    cr_expect_eq(probe_get_then(caller, &probe, NULL, expect_alone, NULL), 0);
    return be_busy(caller, user);
}

Test(then, no_other_turn_of_the_activation_runs_beside_a_completion)
{
    send_turn(1, 0, open_and_be_busy);
    cr_assert_eq(teff_silo_advance(silo, MS), 0); /* the answer has come: behind it, more mail */
    send_turn(1, 1, be_busy);
    send_turn(1, 0, open_and_be_busy);
    send_turn(1, 1, be_busy);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "turn then turn turn turn then ");
}

static void know_my_grain(teff_caller *caller, void *user, const teff_outcome *outcome,
                          const struct told *ret)
{
    const teff_key key = teff_key_u64(1);
    (void)user, (void)outcome, (void)ret;
    cr_expect_arr_eq(teff_turn_key(caller), &key, sizeof(key));
    cr_expect_eq(teff_turn_context(caller), &seen);
    cr_expect_eq(teff_turn_deadline_ns(caller), INT64_MAX);
    cr_expect_eq(teff_outcome_last(caller)->code, 0);
    cr_expect_not(teff_outcome_last(caller)->may_have_run);
    cr_expect_not_null(teff_turn_alloc(caller, 1000));
    cr_expect_eq(teff_turn_self(caller).route, *(const uint64_t *)user);
    tell("known");
}

static uint64_t route;

static int open_know_my_grain(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    route = teff_turn_self(caller).route;
    return probe_get_then(caller, &probe, NULL, know_my_grain, &route);
}

Test(then, it_is_a_turn_of_the_same_activation)
{
    cr_assert_eq(in_turn(1, open_know_my_grain), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "known");
}

/* --- What it may do ------------------------------------------------------------------------ */

static void do_everything(teff_caller *caller, void *user, const teff_outcome *outcome,
                          const struct told *ret)
{
    struct told told = { .number = -1 };
    probe_ref probe = probe_at(5);
    const int depth = (int)(intptr_t)user;
    cr_expect_eq(outcome->code, 0);
    cr_expect_eq(ret->number, 23);
    cr_expect_eq(probe_get(caller, &probe, NULL, &told), 0);
    cr_expect_eq(told.number, 23);
    cr_expect_eq(ret->number, 23); /* lives until it returns, over the suspension */
    const teff_future future = start_rest(caller, 10, 10 * MS);
    cr_expect_eq(probe_rest_claim(caller, future, NULL), 0);
    (void)start_rest(caller, 11, 10 * MS); /* left unclaimed */
    cr_expect_eq(probe_note_send(caller, &probe, &(struct ask){ .number = depth }), 0);
    cr_expect_eq(probe_set(caller, &probe, &(struct ask){ .number = 23 }, NULL), 0);
    if (depth < 3)
        cr_expect_eq(
            probe_get_then(caller, &probe, NULL, do_everything, (void *)(intptr_t)(depth + 1)), 0);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    cr_expect_eq(teff_client_run(client, 0), TEFF_EWOULDBLOCK);
    runs++;
}

static int open_everything(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    cr_expect_eq(probe_set(caller, &probe, &(struct ask){ .number = 23 }, NULL), 0);
    return probe_get_then(caller, &probe, NULL, do_everything, (void *)1);
}

Test(then, one_of_a_turn_may_wait_send_start_and_open_others)
{
    cr_assert_eq(in_turn(1, open_everything), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(runs, 3);
    cr_assert_str_eq(story, "1 2 3 ");
    cr_assert_eq(silo_counts().unclaimed, 3);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

static int open_everything_and_stay(teff_task *task, void *user)
{
    cr_expect_eq(open_everything(task, user), 0);
    return teff_sleep(task, SECOND);
}

Test(then, one_of_a_task_may_wait_send_start_and_open_others)
{
    spawn(0, open_everything_and_stay, NULL);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(runs, 3);
    cr_assert_eq(silo_counts().unclaimed, 3);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

static void leave_grain(teff_caller *caller, void *user, const teff_outcome *outcome,
                        const struct told *ret)
{
    (void)user, (void)outcome, (void)ret;
    cr_expect_eq(teff_turn_deactivate(caller), 0);
    tell("leaves ");
}

static int open_leave_grain(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    return probe_get_then(caller, &probe, NULL, leave_grain, NULL);
}

Test(then, one_may_ask_for_deactivation)
{
    cr_assert_eq(in_turn(1, open_leave_grain), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "leaves ");
    cr_assert_eq(seen.deactivated, 1);
    cr_assert_eq(seen.reason, TEFF_DEACTIVATED_REQUEST);
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(seen.activated, 3);
}

/* --- Whoever it was for is gone ------------------------------------------------------------ */

#define GONE "[none -10012 ran rest the grain or task that made the call is gone null]"

/* Opens a rest of 10 ms, with so many others behind it in the mailbox, and leaves. */
static int open_and_leave(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    cr_expect_eq(
        probe_rest_then(caller, &probe, &(struct ask){ .number = 10 * MS }, tell_outcome, ""), 0);
    return teff_turn_deactivate(caller);
}

Test(then, after_deactivation_it_has_no_caller_and_is_told_egone)
{
    cr_assert_eq(in_turn(1, open_and_leave), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(seen.deactivated, 1);
    cr_assert_str_eq(story, "");
    cr_assert_eq(teff_silo_advance(silo, 10 * MS), 0);
    cr_assert_str_eq(story, GONE);
}

Test(then, it_is_so_too_when_the_grain_is_back_because_mail_was_waiting)
{
    probe_ref probe = probe_at(1);
    send_turn(1, 0, open_and_leave);
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ .number = 1 }), 0);
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ .number = 2 }), 0);
    cr_assert_eq(teff_silo_advance(silo, 10 * MS), 0);
    cr_assert_eq(seen.activated, 3); /* 1, 5, and 1 again */
    cr_assert_str_eq(story, "1 2 " GONE);
    cr_assert_eq(number_of(1), 2);
}

/* It has come before the turn ends which asks for deactivation: it waits in the mailbox then. */
static int open_wait_and_leave(teff_caller *caller, void *user)
{
    cr_expect_eq(open_and_leave(caller, user), 0);
    return teff_sleep(caller, 20 * MS);
}

Test(then, it_is_so_too_when_it_was_waiting_in_the_mailbox_itself)
{
    probe_ref probe = probe_at(1);
    send_turn(1, 0, open_wait_and_leave);
    cr_assert_eq(teff_silo_advance(silo, 15 * MS), 0);
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ .number = 1 }), 0);
    cr_assert_eq(teff_silo_advance(silo, 15 * MS), 0);
    cr_assert_eq(seen.deactivated, 1);
    cr_assert_eq(strlen(story), strlen("1 " GONE));
    cr_assert_not_null(strstr(story, GONE));
    cr_assert_eq(number_of(1), 1); /* nothing was lost, and the mailbox counts right */
}

static int open_in_activate_and_fail(teff_turn *turn, struct probe *self)
{
    probe_ref probe = probe_at(5);
    (void)self;
    if (seen.activated != 1)
        return 0;
    cr_expect_eq(
        probe_rest_then(turn, &probe, &(struct ask){ .number = 10 * MS }, tell_outcome, ""), 0);
    cr_expect_eq(probe_note_then(turn, &probe, &(struct ask){ .number = 1 }, tell_note, ""), 0);
    cr_expect_eq(teff_sleep(turn, 20 * MS), 0);
    return 9;
}

Test(then, those_of_an_activation_that_fails_are_told_egone)
{
    probe_ref probe = probe_at(1);
    activating = open_in_activate_and_fail;
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), 9);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_not_null(strstr(story, GONE));
    cr_assert_not_null(strstr(story, "[none -10012 ran note"));
}

static int open_in_activate(teff_turn *turn, struct probe *self)
{
    probe_ref probe = probe_at(5);
    (void)self;
    return seen.activated != 1 ? 0 : probe_get_then(turn, &probe, NULL, told_number, "");
}

Test(then, that_of_activate_is_a_turn_of_the_activation)
{
    activating = open_in_activate;
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "0 ");
    cr_assert_not_null(last_caller);
}

static void open_in_deactivate(teff_turn *turn, struct probe *self, int reason)
{
    probe_ref probe = probe_at(5);
    (void)self, (void)reason;
    if (seen.deactivated != 1)
        return;
    cr_expect_eq(
        probe_rest_then(turn, &probe, &(struct ask){ .number = 10 * MS }, tell_outcome, ""), 0);
    cr_expect_eq(teff_sleep(turn, 20 * MS), 0);
    tell("slept ");
}

Test(then, that_of_deactivate_is_told_egone_after_the_hook)
{
    probe_ref probe = probe_at(1);
    deactivating = open_in_deactivate;
    cr_assert_eq(probe_leave(client, &probe, NULL, NULL), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "slept " GONE);
    deactivating = NULL;
}

static int open_and_end(teff_task *task, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    return probe_rest_then(task, &probe, &(struct ask){ .number = 10 * MS }, tell_outcome, "");
}

Test(then, after_the_end_of_its_task_it_has_no_caller_and_is_told_egone)
{
    cr_assert_eq(in_task(0, open_and_end, NULL), 0);
    cr_assert_str_eq(story, "");
    cr_assert_eq(teff_silo_advance(silo, 10 * MS), 0);
    cr_assert_str_eq(story, GONE);
}

static int open_one_way_and_end(teff_task *task, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    return probe_note_then(task, &probe, NULL, tell_note, "");
}

Test(then, a_one_way_ones_too)
{
    cr_assert_eq(in_task(0, open_one_way_and_end, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_not_null(strstr(story, "[none -10012 ran note"));
}

static void outlive_task(teff_caller *caller, void *user, const teff_outcome *outcome,
                         const struct told *ret)
{
    probe_ref probe = probe_at(5);
    (void)user, (void)outcome, (void)ret;
    cr_expect_not_null(caller);
    cr_expect_eq(teff_sleep(caller, 50 * MS), 0); /* the task ends meanwhile */
    cr_expect_eq(probe_get(caller, &probe, NULL, NULL), 0);
    cr_expect_eq(probe_rest_then(caller, &probe, &(struct ask){ .number = 0 }, tell_outcome, ""),
                 0);
    tell("outlived ");
}

static int open_outlive_task(teff_task *task, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    cr_expect_eq(probe_get_then(task, &probe, NULL, outlive_task, NULL), 0);
    return teff_sleep(task, 10 * MS);
}

Test(then, one_that_has_begun_goes_on_when_its_task_ends)
{
    cr_assert_eq(in_task(0, open_outlive_task, NULL), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "outlived " GONE);
}

/* --- Deadlines ----------------------------------------------------------------------------- */

static void tell_time(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct told *ret)
{
    (void)ret;
    tell("%s:%d@%d ", (const char *)user, outcome->code,
         (int)((teff_now_ns(caller) - SECOND) / (10 * MS)));
}

static int open_with_terms(teff_caller *caller, void *user)
{
    const teff_call_options detached = { .struct_size = sizeof(detached), .detached = true };
    const struct ask half = { .number = 500 * MS };
    probe_ref probes[4] = { probe_at(20), probe_at(21), probe_at(22), probe_at(23) };
    (void)user;
    cr_expect_eq(probe_rest_then(caller, &probes[0], &half, tell_time, "inherited"), 0);
    cr_expect_eq(
        probe_rest_then(teff_within(caller, 50 * MS), &probes[1], &half, tell_time, "within"), 0);
    cr_expect_eq(
        probe_rest_then(teff_with(caller, &detached), &probes[2], &half, tell_time, "detached"), 0);
    cr_expect_eq(probe_rest_then(teff_within(teff_with(caller, &detached), 300 * MS), &probes[3],
                                 &half, tell_time, "both"),
                 0);
    return 0;
}

Test(then, it_inherits_its_turns_deadline_unless_it_is_detached)
{
    probe_ref probe = probe_at(1);
    acting = act_body;
    bodies[0] = open_with_terms;
    cr_assert_eq(probe_act(teff_within(client, 100 * MS), &probe, NULL, NULL), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "within:-10006@5 inherited:-10006@10 both:-10006@30 detached:0@50 ");
}
