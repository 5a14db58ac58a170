/* SPDX-License-Identifier: MIT */
/* Completions of turns and tasks while the silo stops: each runs once, whatever happens. */
#include "runtime/thread.h"

#include "calls.h"

/* Stop lets requests end for 100 ms, grains deactivate for 1 s, and waits 1 s more for the rest. */
static void begin_brief_stop(void)
{
    begin_with((teff_silo_options){ .stop_timeout_ns = 100 * MS });
}

static void begin_brief_stop_on_four(void)
{
    begin_with((teff_silo_options){ .stop_timeout_ns = 100 * MS, .workers = 4 });
}

static void begin_brief_stop_on_two(void)
{
    begin_with((teff_silo_options){ .stop_timeout_ns = 100 * MS, .workers = 2 });
}

TestSuite(then_stop_on_two, .init = begin_brief_stop_on_two, .fini = end);
TestSuite(then_stop, .init = begin_brief_stop, .fini = end);
TestSuite(then_stop_on_four, .init = begin_brief_stop_on_four, .fini = end);

enum { STUCK = 31, A = 1 };
static int runs;

static void tell_code(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct told *ret)
{
    cr_expect_eq(ret != NULL, outcome->code == 0);
    runs++;
    tell("%s:%s%d ", (const char *)user, caller != NULL ? "" : "none", outcome->code);
}

static int64_t stop_took_ns;

static void stop_it(void)
{
    const int64_t before_ns = teff__silo_now_ns(silo);
    cr_assert_eq(teff_silo_stop(silo), 0);
    stop_took_ns = teff__silo_now_ns(silo) - before_ns;
}

/* --- A callee that is stuck ---------------------------------------------------------------- */

static int open_stuck(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(STUCK);
    (void)user;
    return probe_rest_then(caller, &probe, &(struct ask){ .number = 25 * SECOND }, tell_code,
                           "stuck");
}

static void expect_stuck_turn(void)
{
    cr_assert_eq(in_turn(A, open_stuck), 0);
    stop_it();
    cr_assert_str_eq(story, "stuck:none-10012 "); /* the grain was deactivated meanwhile */
    cr_assert_eq(seen.deactivated, 2);
    cr_assert_geq(stop_took_ns, 100 * MS);
    cr_assert_leq(stop_took_ns, 2100 * MS);
}

Test(then_stop, one_of_a_turn_whose_callee_sleeps_for_ever_is_told_egone)
{
    expect_stuck_turn();
}

Test(then_stop_on_four, one_of_a_turn_whose_callee_sleeps_for_ever_is_told_egone)
{
    expect_stuck_turn();
}

static int open_stuck_and_sleep(teff_task *task, void *user)
{
    cr_expect_eq(open_stuck(task, user), 0);
    tell("slept%d ", teff_sleep(task, INT64_MAX));
    return 0;
}

Test(then_stop, one_of_a_task_that_stop_wakes_is_told_egone)
{
    spawn(0, open_stuck_and_sleep, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    stop_it();
    cr_assert_str_eq(story, "slept-10010 stuck:none-10012 ");
}

static int open_stuck_and_call(teff_task *task, void *user)
{
    probe_ref probe = probe_at(32);
    cr_expect_eq(open_stuck(task, user), 0);
    tell("called%d ", probe_rest(task, &probe, &(struct ask){ .number = 25 * SECOND }, NULL));
    return 0;
}

Test(then_stop, one_of_a_task_that_waits_for_ever_is_told_eunavailable)
{
    spawn(0, open_stuck_and_call, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    stop_it();
    cr_assert_eq(runs, 1);
    cr_assert_str_eq(story, "stuck:-10010 called-10010 ");
}

/* --- A caller that is busy ----------------------------------------------------------------- */

static int open_quick_and_sleep(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    cr_expect_eq(probe_get_then(caller, &probe, NULL, tell_code, "quick"), 0);
    cr_expect_eq(open_stuck(caller, user), 0);
    tell("slept%d ", teff_sleep(caller, INT64_MAX));
    return 0;
}

static void expect_busy(void)
{
    send_turn(A, 0, open_quick_and_sleep);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, ""); /* it waits behind the turn */
    stop_it();
    cr_assert_eq(runs, 2);
    cr_assert_not_null(strstr(story, "quick:none-10012 "));
    cr_assert_not_null(strstr(story, "stuck:none-10012 "));
    cr_assert_not_null(strstr(story, "slept-10010 "));
}

Test(then_stop, those_of_an_activation_that_is_busy_for_ever_are_told_egone)
{
    expect_busy();
}

Test(then_stop_on_four, those_of_an_activation_that_is_busy_for_ever_are_told_egone)
{
    expect_busy();
}

/* --- While requests end -------------------------------------------------------------------- */

static void call_no_more(teff_caller *caller, void *user, const teff_outcome *outcome,
                         const struct told *ret)
{
    probe_ref probe = probe_at(5);
    (void)user, (void)ret;
    runs++;
    cr_expect_not_null(caller);
    cr_expect_eq(outcome->code, 0);
    cr_expect_eq(probe_get(caller, &probe, NULL, NULL), TEFF_EUNAVAILABLE);
    cr_expect_eq(probe_get_send(caller, &probe, NULL), TEFF_EUNAVAILABLE);
    cr_expect_eq(probe_get_then(caller, &probe, NULL, tell_code, "no"), TEFF_EUNAVAILABLE);
    cr_expect_eq(probe_get_claim(caller, probe_get_start(caller, &probe, NULL), NULL),
                 TEFF_EUNAVAILABLE);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_sleep(caller, 10 * MS), 0); /* a turn may still wait */
}

static int open_50_ms(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    return probe_rest_then(caller, &probe, &(struct ask){ .number = 50 * MS }, call_no_more, NULL);
}

Test(then_stop, one_that_ends_in_time_is_a_turn_still_and_may_open_no_calls)
{
    cr_assert_eq(in_turn(A, open_50_ms), 0);
    stop_it();
    cr_assert_eq(runs, 1);
    cr_assert_eq(stop_took_ns, 60 * MS); /* stop waits for both */
}

static void stopped(void *user, int result)
{
    (void)user;
    tell("stopped%d ", result);
}

static void begin_stop(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct told *ret)
{
    (void)user, (void)outcome, (void)ret;
    cr_expect_eq(teff_silo_stop_then(silo, stopped, NULL), 0);
    runs++;
    (void)caller;
}

static int open_begin_stop(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    return probe_get_then(caller, &probe, NULL, begin_stop, NULL);
}

Test(then_stop, one_may_begin_to_stop_the_silo)
{
    cr_assert_eq(in_turn(A, open_begin_stop), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "stopped0 ");
    stop_it();
    cr_assert_eq(runs, 1);
}

/* Sleeps for ever, as a turn of its own or as a task. */
static void sleep_for_ever(teff_caller *caller, void *user, const teff_outcome *outcome,
                           const struct told *ret)
{
    (void)user, (void)outcome, (void)ret;
    runs++;
    tell("slept%d ", teff_sleep(caller, INT64_MAX));
}

static int open_sleep_for_ever(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    return probe_get_then(caller, &probe, NULL, sleep_for_ever, NULL);
}

Test(then_stop, one_that_sleeps_for_ever_is_woken_and_ends_once)
{
    cr_assert_eq(in_turn(A, open_sleep_for_ever), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    stop_it();
    cr_assert_eq(runs, 1);
    cr_assert_str_eq(story, "slept-10010 ");
    cr_assert_geq(stop_took_ns, 1100 * MS);
}

static int open_sleep_and_stay(teff_task *task, void *user)
{
    cr_expect_eq(open_sleep_for_ever(task, user), 0);
    return teff_sleep(task, SECOND);
}

Test(then_stop, one_of_a_task_that_sleeps_for_ever_is_woken_as_soon_as_stop_begins)
{
    spawn(0, open_sleep_and_stay, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    stop_it();
    cr_assert_eq(runs, 1);
    cr_assert_str_eq(story, "slept-10010 ");
    cr_assert_lt(stop_took_ns, 100 * MS);
}

/* --- A worker that runs out of time -------------------------------------------------------- */

/*
 * As long as that a turn computes without a pause; a worker with such turns runs one in each pass.
 */
static void compute(int64_t duration_ns)
{
    teff__silo_exchange(silo)->clock.simulated_ns += duration_ns;
    teff__silo_grains(silo)->catalogs[0]->worker.budget = 0;
    teff__silo_grains(silo)->catalogs[0]->worker.budget_next = 1;
}

static void compute_in_deactivate(teff_turn *turn, struct probe *self, int reason)
{
    (void)turn, (void)self, (void)reason;
    compute(600 * MS);
}

static void expect_one_alone(teff_caller *caller, void *user, const teff_outcome *outcome,
                             const struct told *ret)
{
    (void)user, (void)ret;
    cr_expect_null(caller);
    cr_expect_eq(outcome->code, TEFF_EGONE);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    runs++;
}

/* Makes the grain of that key on the worker of the task. */
static int make_there(teff_task *task, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    return probe_get(task, &probe, NULL, NULL);
}

static int open_alone(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(STUCK);
    (void)user;
    return probe_rest_then(caller, &probe, &(struct ask){ .number = 25 * SECOND }, expect_one_alone,
                           NULL);
}

static void destroy_all(void)
{
    cr_assert_null(teff_client_destroy(client));
    silo = teff_silo_destroy(silo);
    cr_assert_null(silo);
}

/* Grains that come before it take all the time there is: it waits in a mailbox in the end. */
Test(then_stop_on_two, one_in_the_mailbox_of_a_grain_that_is_never_reached_runs_once)
{
    cr_assert_eq(in_task(1, make_there, (void *)STUCK), 0); /* its stack is not dropped */
    for (uintptr_t key = 10; key < 20; key++)
        cr_assert_eq(in_task(0, make_there, (void *)key), 0);
    cr_assert_eq(in_task(0, make_there, (void *)A), 0);
    deactivating = compute_in_deactivate;
    cr_assert_eq(in_turn(A, open_alone), 0);
    stop_it();
    cr_assert_eq(runs, 1);
    cr_assert_lt(seen.deactivated, 12); /* the worker did not come to all of them */
    destroy_all();
    cr_assert_eq(runs, 1);
}

/* Waits for one that is stuck, and computes when stop has ended that. */
static int wait_and_compute(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(STUCK);
    (void)user;
    (void)probe_rest(caller, &probe, &(struct ask){ .number = 25 * SECOND }, NULL);
    compute(600 * MS);
    return 0;
}

static void keep_the_worker_busy(void)
{
    for (uint64_t key = 10; key < 20; key++)
        send_turn(key, 3, wait_and_compute);
    cr_assert_eq(teff_silo_run(silo), 0);
}

Test(then_stop, one_on_the_run_queue_that_is_never_reached_runs_once)
{
    keep_the_worker_busy();
    cr_assert_eq(in_turn(A, open_alone), 0);
    stop_it();
    cr_assert_eq(runs, 1);
    destroy_all();
    cr_assert_eq(runs, 1);
}

static void wait_for_ever(teff_caller *caller, void *user, const teff_outcome *outcome,
                          const struct told *ret)
{
    probe_ref probe = probe_at(STUCK);
    (void)user, (void)outcome, (void)ret;
    runs++;
    (void)probe_rest(caller, &probe, &(struct ask){ .number = 25 * SECOND }, NULL);
    tell("waited ");
}

static int open_wait_for_ever(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    return probe_get_then(caller, &probe, NULL, wait_for_ever, NULL);
}

Test(then_stop, one_that_had_begun_when_its_stack_was_dropped_is_not_run_again)
{
    keep_the_worker_busy();
    cr_assert_eq(in_turn(A, open_wait_for_ever), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(runs, 1);
    stop_it();
    cr_assert_str_eq(story, ""); /* it was dropped */
    cr_assert_eq(runs, 1);
    destroy_all();
}

static int open_wait_and_stay(teff_task *task, void *user)
{
    probe_ref probe = probe_at(STUCK);
    cr_expect_eq(open_wait_for_ever(task, user), 0);
    cr_expect_eq(open_stuck(task, user), 0);
    return probe_rest(task, &probe, &(struct ask){ .number = 25 * SECOND }, NULL);
}

Test(then_stop, those_of_a_task_whose_stack_was_dropped_run_once_and_leave_nothing)
{
    keep_the_worker_busy();
    spawn(0, open_wait_and_stay, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(runs, 1);
    stop_it();
    cr_assert_str_eq(story, "stuck:none-10012 ");
    cr_assert_eq(runs, 2);
    destroy_all();
    cr_assert_eq(runs, 2);
}

/* --- On threads ---------------------------------------------------------------------------- */

static void begin_two_threads(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 2,
                                        .stop_timeout_ns = MS };
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

TestSuite(then_stop_threads, .init = begin_two_threads, .fini = end);

static teff__atomic_u32 opened, completed, refused;

static void count_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct told *ret);

static int open_one(teff_caller *caller)
{
    probe_ref probe = probe_at(50 + teff__atomic_u32_load_relaxed(&opened) % 20);
    const int r = probe_get_then(caller, &probe, NULL, count_done, NULL);
    (void)teff__atomic_u32_add_relaxed(r == 0 ? &opened : &refused, 1);
    return r;
}

/* Each opens two others, until there are many, and then one, until stop refuses it. */
static void count_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct told *ret)
{
    (void)user, (void)outcome, (void)ret;
    if (caller != NULL && open_one(caller) == 0 && teff__atomic_u32_load_relaxed(&opened) < 1000)
        (void)open_one(caller);
    (void)teff__atomic_u32_add_relaxed(&completed, 1);
}

static int open_first(teff_caller *caller, void *user)
{
    (void)user;
    return open_one(caller);
}

Test(then_stop_threads, all_that_were_opened_have_run_once_when_stop_returns)
{
    for (uint64_t key = 0; key < 20; key++)
        cr_assert_eq(in_turn(key, open_first), 0);
    while (teff__atomic_u32_load_relaxed(&opened) < 20000)
        teff__cpu_relax();
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_geq(teff__atomic_u32_load_relaxed(&completed), 20000);
    cr_assert_eq(teff__atomic_u32_load_relaxed(&completed), teff__atomic_u32_load_relaxed(&opened));
    cr_assert_gt(teff__atomic_u32_load_relaxed(&refused), 0);
}
