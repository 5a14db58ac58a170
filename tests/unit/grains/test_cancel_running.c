/* SPDX-License-Identifier: MIT */
/* What a turn sees of the source that its request was sent under. */
#include "under_source.h"

#include "runtime/thread.h"

TestSuite(cancel_running, .init = begin_canceling, .fini = end_canceling);

/* What a turn did, in nanoseconds of its clock. */
static int64_t told_at_ns, ended_at_ns;

static void note_time(void *user)
{
    told_at_ns = teff_now_ns(user);
}

/* --- The token ----------------------------------------------------------------------------------- */

static int wait_for_token(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    (void)self;
    cr_expect_eq(teff_turn_cancel(turn), cancel);
    cr_expect_not(teff_cancel_fired(teff_turn_cancel(turn)));
    cr_expect_eq(teff_turn_on_cancel(turn, note_time, client), 0);
    ret->number = teff_sleep(turn, arg->number);
    ended_at_ns = teff_now_ns(turn);
    cr_expect(teff_cancel_fired(teff_turn_cancel(turn)));
    cr_expect_eq(teff_sleep(turn, 0), TEFF_ECANCELED); /* no further one begins */
    return 0;
}

static int call_it(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    struct told told = { .number = 4711 };
    const int64_t before_ns = teff_now_ns(caller);
    acting = wait_for_token;
    cr_expect_eq(probe_act(under(caller), &probe, &an_hour, &told), TEFF_ECANCELED);
    expect_canceled(caller, true);
    cr_expect_eq(told.number, 4711);
    cr_expect_eq(teff_now_ns(caller) - before_ns, fire_after_ns);
    return 0;
}

/* Case 127: after so long, the callee on that worker. */
static void case_127(int64_t after_ns, uint64_t key)
{
    const int64_t before_ns = teff_now_ns(client);
    fire_after_ns = after_ns;
    spawn(0, fire, NULL);
    cr_assert_eq(in_task(0, call_it, (void *)(uintptr_t)key), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(told_at_ns, before_ns + after_ns);
    cr_assert_eq(ended_at_ns, before_ns + after_ns);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_RUNNING), 1);
    cr_assert_eq(holders(), 1);
}

Test(cancel_running, case_127_after_10_ms_on_the_callers_worker)
{
    case_127(10 * MS, HERE);
}

Test(cancel_running, case_127_after_10_ms_on_another_worker)
{
    case_127(10 * MS, THERE);
}

Test(cancel_running, case_127_after_300_ms_on_the_callers_worker)
{
    case_127(300 * MS, HERE);
}

Test(cancel_running, case_127_after_300_ms_on_another_worker)
{
    case_127(300 * MS, THERE);
}

/* At once: whether the turn had begun by then is chance; it has not, or it is told. */
static int start_and_fire(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    const int64_t before_ns = teff_now_ns(caller);
    acting = wait_for_token;
    const teff_future future = probe_act_start(under(caller), &probe, &an_hour);
    teff_cancel_fire(cancel);
    cr_expect_eq(probe_act_claim(caller, future, NULL), TEFF_ECANCELED);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 0);
    return 0;
}

Test(cancel_running, case_127_at_once_on_the_callers_worker)
{
    cr_assert_eq(in_task(0, start_and_fire, (void *)HERE), 0);
    cr_assert_eq(seen.turns, 0);
}

Test(cancel_running, case_127_at_once_on_another_worker)
{
    cr_assert_eq(in_task(0, start_and_fire, (void *)THERE), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(seen.turns, 0);
    cr_assert_eq(holders(), 1);
}

static int wait_for_callee(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    struct told told = { .number = 4711 };
    const int64_t before_ns = teff_now_ns(caller);
    acting = wait_for_token;
    cr_expect_eq(probe_act(waiting(caller), &probe, &an_hour, &told), 0);
    cr_expect_eq(told.number, TEFF_ECANCELED); /* what the turn's sleep gave */
    cr_expect_eq(teff_now_ns(caller) - before_ns, MS);
    return 0;
}

static void case_127_waiting(int worker, uint64_t key)
{
    spawn(0, fire, NULL);
    if (worker < 0)
        wait_for_callee(client, (void *)(uintptr_t)key);
    else
        cr_assert_eq(in_task(worker, wait_for_callee, (void *)(uintptr_t)key), 0);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_RUNNING) + ended_as(TEFF_END_ERROR), 0);
    cr_assert_eq(holders(), 1);
}

Test(cancel_running, who_waits_for_the_callee_gets_its_answer_on_the_same_worker)
{
    case_127_waiting(0, HERE);
}

Test(cancel_running, who_waits_for_the_callee_gets_its_answer_from_another_worker)
{
    case_127_waiting(0, THERE);
}

Test(cancel_running, a_client_that_waits_for_the_callee_gets_its_answer)
{
    case_127_waiting(-1, THERE);
}

static int give_up(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)ret;
    return teff_sleep(turn, arg->number);
}

static int hear_it_give_up(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    acting = give_up;
    cr_expect_eq(probe_act(waiting(caller), &probe, &an_hour, NULL), TEFF_ECANCELED);
    expect_canceled(caller, true);
    return 0;
}

Test(cancel_running, a_turn_that_gives_up_was_cancelled_while_it_ran)
{
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, hear_it_give_up, (void *)HERE), 0);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_RUNNING), 1);
    cr_assert_eq(ended_as(TEFF_END_ERROR), 0);
}

static int ignore(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    probe_ref other = probe_at(HERE + THERE - (uint64_t)arg->number);
    const struct ask ask = { .number = 100 * MS };
    (void)self;
    ret->number = 42;
    return probe_rest(turn, &other, &ask, NULL); /* a call without the source goes on */
}

static int hear_the_answer(teff_caller *caller, void *user)
{
    const uint64_t key = (uint64_t)(uintptr_t)user;
    probe_ref probe = probe_at(key);
    struct told told = { 0 };
    const struct ask ask = { .number = (int64_t)key };
    const int64_t before_ns = teff_now_ns(caller);
    acting = ignore;
    cr_expect_eq(probe_act(waiting(caller), &probe, &ask, &told), 0);
    cr_expect_eq(told.number, 42);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 100 * MS);
    return 0;
}

Test(cancel_running, a_turn_that_takes_no_notice_answers_who_waits_for_it)
{
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, hear_the_answer, (void *)HERE), 0);
}

static int hear_nothing(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    const struct ask ask = { .number = HERE };
    acting = ignore;
    cr_expect_eq(probe_act(teff_within(waiting(caller), 50 * MS), &probe, &ask, NULL),
                 TEFF_ETIMEDOUT);
    return 0;
}

Test(cancel_running, the_deadline_holds_for_who_waits)
{
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, hear_nothing, (void *)HERE), 0);
}

static int fire_and_answer(teff_turn *turn, struct probe *self, const struct ask *arg,
                           struct told *ret)
{
    (void)turn, (void)self, (void)arg;
    teff_cancel_fire(cancel);
    ret->number = 7;
    return 0;
}

/* Nobody has taken notice yet when the turn ends: its answer does not come first all the same. */
static void answered_after(uint64_t key, bool waits, int code)
{
    probe_ref probe = probe_at(key);
    struct told told = { .number = 4711 };
    acting = fire_and_answer;
    cr_assert_eq(probe_act(waits ? waiting(client) : under(client), &probe, NULL, &told), code);
    cr_assert_eq(teff_outcome_last(client)->may_have_run, true);
    cr_assert_eq(told.number, waits ? 7 : 4711);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_RUNNING), !waits);
}

Test(cancel_running, who_does_not_wait_gets_no_answer_that_was_given_after_it_fired)
{
    answered_after(HERE, false, TEFF_ECANCELED);
}

Test(cancel_running, who_waits_gets_an_answer_that_was_given_after_it_fired)
{
    answered_after(THERE, true, 0);
}

/* --- Functions ----------------------------------------------------------------------------------- */

static int register_three(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    probe_ref other = probe_at(HERE + THERE - (uint64_t)arg->number);
    const struct ask ask = { .number = 10 * MS };
    (void)self, (void)ret;
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, (void *)(uintptr_t) "first"), 0);
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, (void *)(uintptr_t) "second"), 0);
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, (void *)(uintptr_t) "third"), 0);
    cr_expect_str_eq(story, "");
    cr_expect_eq(probe_rest(turn, &other, &ask, NULL), 0);
    cr_expect_str_eq(story, "third second first ");
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, (void *)(uintptr_t) "fourth"), TEFF_ECANCELED);
    cr_expect_eq(probe_rest(turn, &other, &ask, NULL), 0);
    cr_expect_str_eq(story, "third second first ");
    return 0;
}

static void three_on(uint64_t key)
{
    probe_ref probe = probe_at(key);
    const struct ask ask = { .number = (int64_t)key };
    acting = register_three;
    spawn(0, fire, NULL);
    cr_assert_eq(probe_act(waiting(client), &probe, &ask, NULL), 0);
    cr_assert_eq(seen.turns, 3);
    cr_assert_eq(holders(), 1);
}

Test(cancel_running, functions_run_once_the_newest_first_while_the_turn_waits)
{
    three_on(HERE);
}

Test(cancel_running, functions_run_on_the_turns_worker)
{
    three_on(THERE);
}

static int register_late(teff_turn *turn, struct probe *self, const struct ask *arg,
                         struct told *ret)
{
    (void)self, (void)ret;
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, (void *)(uintptr_t) "told"), 0);
    return teff_sleep(turn, arg->number);
}

Test(cancel_running, a_turn_that_ends_before_the_source_fires_hears_nothing_and_leaves_nothing)
{
    probe_ref probe = probe_at(HERE);
    const struct ask briefly = { .number = MS };
    acting = register_late;
    cr_assert_eq(probe_act(waiting(client), &probe, &briefly, NULL), 0);
    const uint64_t before = bytes_allocated();
    cr_assert_eq(probe_act(waiting(client), &probe, &briefly, NULL), 0);
    cr_assert_eq(bytes_allocated(), before);
    cr_assert_eq(holders(), 1);
    teff_cancel_fire(cancel);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "");
}

/* Its own call, under another source, ends in the same pass in which its own source fires. */
static teff_cancel *inner;

static int call_under_inner(teff_turn *turn, struct probe *self, const struct ask *arg,
                            struct told *ret)
{
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = inner };
    probe_ref other = probe_at(THERE);
    (void)self, (void)arg, (void)ret;
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, (void *)(uintptr_t) "told"), 0);
    cr_expect_eq(probe_rest(teff_with(turn, &options), &other, &an_hour, NULL), TEFF_ECANCELED);
    tell("ended ");
    return 0;
}

static int fire_inner_first(teff_task *task, void *user)
{
    (void)task, (void)user;
    teff_cancel_fire(inner);
    teff_cancel_fire(cancel);
    return 0;
}

static int fire_inner_last(teff_task *task, void *user)
{
    (void)task, (void)user;
    teff_cancel_fire(cancel);
    teff_cancel_fire(inner);
    return 0;
}

static void in_one_pass(int (*fires)(teff_task *, void *))
{
    probe_ref probe = probe_at(HERE);
    cr_assert_eq(teff_cancel_create(silo, &inner), 0);
    acting = call_under_inner;
    const teff_future future = probe_act_start(waiting(client), &probe, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    const uint64_t before = bytes_allocated();
    cr_assert_eq(in_task(0, fires, NULL), 0);
    cr_assert_eq(probe_act_claim(client, future, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_lt(bytes_allocated(), before); /* the functions are gone, and what ran them */
    teff_cancel_unref(inner);
}

Test(cancel_running, a_function_whose_turn_ends_first_never_runs)
{
    in_one_pass(fire_inner_first);
    cr_assert_str_eq(story, "ended ");
}

Test(cancel_running, functions_run_before_the_turn_that_the_same_source_wakes)
{
    in_one_pass(fire_inner_last);
    cr_assert_str_eq(story, "told ended ");
}

/* A function that does what it may not, or can not: each is an error of its own. */
static void fails(void *user)
{
    int result = 0;
    teff_client *none = NULL;
    probe_ref probe = probe_at(HERE);
    cr_expect_eq(teff_turn_on_cancel(user, fails, user), TEFF_ECANCELED);
    cr_expect_eq(probe_get(client, &probe, NULL, NULL), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_client_create(silo, NULL, &none), TEFF_EINVALIDSTATE);
    cr_expect_neq(teff_task_claim(client, (teff_future){ 0 }, &result), 0);
    teff_cancel_fire(cancel);
    tell("failed ");
}

static int register_failing(teff_turn *turn, struct probe *self, const struct ask *arg,
                            struct told *ret)
{
    (void)self;
    cr_expect_eq(teff_turn_on_cancel(turn, fails, turn), 0);
    ret->number = 7;
    (void)teff_sleep(turn, arg->number);
    return 0;
}

static int call_failing(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    acting = register_failing;
    cr_expect_eq(probe_act(under(caller), &probe, &an_hour, NULL), TEFF_ECANCELED);
    expect_canceled(caller, true);
    return 0;
}

static int wait_for_failing(teff_caller *caller, void *user)
{
    struct told told = { 0 };
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    acting = register_failing;
    cr_expect_eq(probe_act(waiting(caller), &probe, &an_hour, &told), 0);
    cr_expect_eq(told.number, 7);
    return 0;
}

Test(cancel_running, case_130_a_function_that_fails_does_not_change_the_callers_result)
{
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, call_failing, (void *)THERE), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "failed ");
}

Test(cancel_running, case_130_nor_that_of_a_caller_that_waits)
{
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, wait_for_failing, (void *)HERE), 0);
    cr_assert_str_eq(story, "failed ");
}

static void register_elsewhere(void *turn)
{
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, NULL), TEFF_EINVALIDSTATE);
}

static int register_wrongly(teff_turn *turn, struct probe *self, const struct ask *arg,
                            struct told *ret)
{
    teff__thread thread;
    (void)self, (void)arg, (void)ret;
    cr_expect_eq(teff_turn_on_cancel(turn, NULL, NULL), TEFF_EINVAL);
    cr_expect_eq(teff__thread_start(&thread, register_elsewhere, turn, "elsewhere"), 0);
    teff__thread_join(&thread);
    teff__memory_fail_at(teff__silo_memory(silo), 1);
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, NULL), TEFF_ENOMEM);
    teff__memory_fail_at(teff__silo_memory(silo), 2);
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, NULL), TEFF_ENOMEM);
    teff__memory_fail_at(teff__silo_memory(silo), 0);
    return 0;
}

Test(cancel_running, what_cannot_be_registered_is_told_so)
{
    probe_ref probe = probe_at(HERE);
    acting = register_wrongly;
    cr_assert_eq(probe_act(under(client), &probe, NULL, NULL), 0);
    cr_assert_eq(teff_turn_on_cancel(NULL, tell_of, NULL), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_turn_on_cancel(client, tell_of, NULL), TEFF_EINVALIDSTATE);
    cr_assert_null(teff_turn_cancel(NULL));
    cr_assert_null(teff_turn_cancel(client));
    cr_assert_not(teff_cancel_fired(NULL));
}

static int without_source(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    cr_expect_null(teff_turn_cancel(turn));
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, (void *)(uintptr_t) "never"), 0);
    cr_expect_eq(teff_turn_on_cancel(turn, NULL, NULL), TEFF_EINVAL);
    return teff_sleep(turn, 10 * MS);
}

Test(cancel_running, a_turn_without_a_source_is_never_told)
{
    probe_ref probe = probe_at(HERE);
    acting = without_source;
    spawn(0, fire, NULL);
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    cr_assert_str_eq(story, "");
}

/* --- Further on ---------------------------------------------------------------------------------- */

static int hand_on(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    const teff_call_options options = { .struct_size = sizeof(options),
                                        .cancel = teff_turn_cancel(turn) };
    probe_ref next = probe_at((uint64_t)arg->number + 2);
    (void)self, (void)ret;
    if (arg->number > 20)
        return teff_sleep(turn, an_hour.number);
    return probe_act(teff_with(turn, &options), &next, &(struct ask){ .number = arg->number + 2 },
                     NULL);
}

Test(cancel_running, a_turn_may_give_its_source_to_its_own_calls_and_all_of_them_end)
{
    probe_ref probe = probe_at(HERE);
    const int64_t before_ns = teff_now_ns(client);
    acting = hand_on;
    spawn(0, fire, NULL);
    cr_assert_eq(probe_act(under(client), &probe, &(struct ask){ .number = HERE }, NULL),
                 TEFF_ECANCELED);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_now_ns(client) - before_ns, MS);
    cr_assert_eq(seen.turns, 11);
    cr_assert_eq(holders(), 1);
}

static teff_cancel *kept;

static int keep(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    kept = teff_cancel_ref(teff_turn_cancel(turn));
    return 0;
}

Test(cancel_running, a_turn_may_keep_its_source)
{
    probe_ref probe = probe_at(HERE);
    acting = keep;
    cr_assert_eq(probe_act(under(client), &probe, NULL, NULL), 0);
    cr_assert_eq(holders(), 2);
    teff_cancel_fire(kept);
    cr_assert(teff_cancel_fired(cancel));
    teff_cancel_unref(kept);
}

/* --- Without memory, and without an end ---------------------------------------------------------- */

Test(cancel_running, registering_makes_the_branch_for_which_there_was_no_memory)
{
    probe_ref probe = probe_at(THERE);
    acting = register_late;
    cr_assert_eq(number_of(THERE), 0); /* the way there is known */
    const teff_future future = probe_act_start(waiting(client), &probe, &an_hour);
    teff__memory_fail_at(teff__silo_memory(silo), 1);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff__atomic_u64_load_relaxed(&teff__silo_memory(silo)->fail_at), 0);
    teff_cancel_fire(cancel);
    cr_assert_eq(probe_act_claim(client, future, NULL), TEFF_ECANCELED);
    cr_assert_str_eq(story, "told ");
}

static int naps_ended;

/* By the time that some of these have ended, there is none left for the others. */
static int never_ends_in_time(teff_turn *turn, struct probe *self, const struct ask *arg,
                              struct told *ret)
{
    (void)self, (void)ret;
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, (void *)(uintptr_t) "told"), 0);
    (void)teff_sleep(turn, arg->number);
    naps_ended++;
    teff__silo_exchange(silo)->clock.simulated_ns += 100 * SECOND; /* it is slow */
    return 0;
}

Test(cancel_dropped, turns_whose_stacks_are_dropped_leave_their_source)
{
    begin_canceling();
    acting = never_ends_in_time;
    for (uint64_t key = NEW; key < NEW + 200; key++) {
        probe_ref probe = probe_at(key);
        cr_assert_eq(probe_act_send(under(client), &probe, &an_hour), 0);
    }
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(holders(), 201);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_lt(naps_ended, 200);
    cr_assert_null(teff_client_destroy(client));
    teff_cancel_fire(cancel);
    cr_assert_eq(teff_silo_destroy(silo), silo); /* the source is left, and held by nobody else */
    cr_assert_eq(holders(), 1);
    cr_assert_null(teff_cancel_unref(cancel));
    cr_assert_null(teff_silo_destroy(silo));
}
