/* SPDX-License-Identifier: MIT */
/*
 * What a completion function may do, for each kind of caller: call again when the call has failed,
 * which ends when the silo stops; cancel; ask for stop; use what takes the silo's lock. It never runs
 * inside its opener.
 */
#include "messaging/client.h"

#include "calls.h"

static void begin_two(void)
{
    begin_with((teff_silo_options){ .workers = 2, .stop_timeout_ns = 100 * MS });
}

TestSuite(retry, .init = begin_two, .fini = end);

enum { RETRIES_MAX = 1000, FAILING = 50 };

static int retries, refused, completed, stopped_count;
static bool opening;

static void on_stopped(void *user, int result)
{
    (void)user;
    cr_expect_eq(result, 0);
    stopped_count++;
}

static int fail_soon(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)ret;
    (void)teff_sleep(turn, arg->number);
    return 13;
}

static void call_again(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct told *ret);

/* Opens a call that fails after so long. */
static int open_failing(teff_caller *caller, int64_t after_ns)
{
    probe_ref probe = probe_at(FAILING + (uint64_t)retries % 7);
    acting = fail_soon;
    opening = true;
    const int r =
        probe_act_then(caller, &probe, &(struct ask){ .number = after_ns }, call_again, NULL);
    opening = false;
    return r;
}

/* Whatever happens, it tries again, in every form, until it is told that the silo stops. */
static void call_again(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct told *ret)
{
    probe_ref probe = probe_at(FAILING);
    (void)user, (void)ret;
    cr_expect_not(opening, "inside its opener");
    cr_expect_neq(outcome->code, 0);
    completed++;
    int r = caller == NULL ? TEFF_EGONE : TEFF_ECANCELED;
    while (retries < RETRIES_MAX && r != 0 && r != TEFF_EGONE && r != TEFF_EUNAVAILABLE) {
        retries++;
        r = open_failing(caller, 10 * MS);
    }
    if (r == TEFF_EUNAVAILABLE) {
        refused++;
        cr_expect_not(teff_outcome_last(caller)->may_have_run);
        cr_expect_eq(probe_note_send(caller, &probe, NULL), TEFF_EUNAVAILABLE);
        cr_expect_eq(probe_get_claim(caller, probe_get_start(caller, &probe, NULL), NULL),
                     TEFF_EUNAVAILABLE);
    }
}

/* The silo stops while one retries the other: how long that took. */
static int64_t stop_ns(void)
{
    const int64_t before_ns = teff__silo_now_ns(silo);
    cr_assert_eq(teff_silo_stop(silo), 0);
    return teff__silo_now_ns(silo) - before_ns;
}

static int open_10_ms(teff_caller *caller, void *user)
{
    (void)user;
    return open_failing(caller, 10 * MS);
}

/* Each retry has had its completion, and the last one of each chain was refused. */
static void expect_ended(int chains)
{
    cr_assert_leq(stop_ns(), 20 * MS);
    cr_assert_eq(refused, chains);
    cr_assert_gt(retries, chains);
    cr_assert_eq(completed, retries);
    cr_assert_eq(silo_counts().open, 0);
}

Test(retry, a_turns_completion_that_calls_again_ends_when_the_silo_stops)
{
    probe_ref probe = probe_at(1);
    acting = fail_soon;
    bodies[0] = open_10_ms;
    acting = act_body;
    cr_assert_eq(probe_act_send(client, &probe, &(struct ask){ 0 }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_silo_advance(silo, 105 * MS), 0);
    expect_ended(1);
}

static int open_and_stay(teff_task *task, void *user)
{
    (void)user;
    cr_expect_eq(open_10_ms(task, NULL), 0);
    cr_expect_eq(teff_sleep(task, INT64_MAX), TEFF_EUNAVAILABLE);
    while (teff_sleep(task, 0) == 0) {
    }
    return 0;
}

/* Its task is woken by stop and gone before the call under way has ended. */
Test(retry, a_tasks_completion_that_calls_again_ends_when_the_silo_stops)
{
    spawn(0, open_and_stay, NULL);
    cr_assert_eq(teff_silo_advance(silo, 105 * MS), 0);
    cr_assert_leq(stop_ns(), 20 * MS);
    cr_assert_geq(retries, 5);
    cr_assert_eq(completed, retries + 1);
    cr_assert_eq(refused, 0); /* the last had no caller */
}

Test(retry, a_clients_completion_that_calls_again_ends_when_the_silo_stops)
{
    cr_assert_eq(open_10_ms(client, NULL), 0);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(teff_client_run(client, SECOND), 0);
    expect_ended(1);
    cr_assert_eq(teff_client_run(client, SECOND), TEFF_EUNAVAILABLE);
}

/* The client hears of the end only after the silo has gone through all phases. */
Test(retry, so_does_one_that_hears_of_it_after_stop)
{
    cr_assert_eq(open_failing(client, 10 * MS), 0);
    cr_assert_eq(teff_silo_stop_then(silo, on_stopped, NULL), 0);
    while (stopped_count == 0)
        cr_assert_eq(teff_silo_advance(silo, 10 * MS), 0);
    cr_assert_eq(completed, 0);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    cr_assert_eq(completed, 1);
    cr_assert_eq(refused, 1);
    cr_assert_eq(teff_client_run(client, SECOND), TEFF_EUNAVAILABLE);
}

/* The same by whoever waits for each call. */
static int call_again_and_again(teff_caller *caller, void *user)
{
    int r = 13;
    (void)user;
    acting = fail_soon;
    for (; r != TEFF_EUNAVAILABLE && retries < RETRIES_MAX; retries++) {
        probe_ref probe = probe_at(FAILING + (uint64_t)retries % 7);
        r = probe_act(caller, &probe, &(struct ask){ .number = 10 * MS }, NULL);
    }
    completed++;
    return 0;
}

Test(retry, turns_and_tasks_that_call_again_end_when_the_silo_stops)
{
    probe_ref probe = probe_at(1);
    acting = act_body;
    bodies[0] = call_again_and_again;
    cr_assert_eq(probe_act_send(client, &probe, &(struct ask){ 0 }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    spawn(1, call_again_and_again, NULL);
    cr_assert_eq(teff_silo_advance(silo, 105 * MS), 0);
    cr_assert_geq(retries, 10); /* they wait for each other now and then */
    cr_assert_leq(stop_ns(), 20 * MS);
    cr_assert_eq(completed, 2);
    cr_assert_leq(retries, 24);
}

/* --- What takes locks ---------------------------------------------------------------------- */

static int nothing(teff_task *task, void *user)
{
    (void)task, (void)user;
    tell("task ");
    return 0;
}

/* Each of these would wait for itself if it were called with the silo's lock held. */
static void use_the_silo(teff_caller *caller, void *user, const teff_outcome *outcome,
                         const struct told *ret)
{
    const bool on_worker = user != NULL;
    teff_counts counts = { .struct_size = sizeof(counts) };
    teff_client *made = NULL;
    teff_cancel *cancel = NULL;
    (void)ret;
    cr_expect_not(opening);
    cr_expect_not_null(caller);
    cr_expect_eq(outcome->code, 13);
    cr_expect_eq(teff_silo_counts(silo, &counts), 0);
    cr_expect_eq(teff_silo_set_response_timeout(silo, 20 * SECOND), 0);
    cr_expect_eq(teff_client_create(silo, NULL, &made), on_worker ? TEFF_EINVALIDSTATE : 0);
    cr_expect_null(teff_client_destroy(made));
    cr_expect_eq(teff_silo_spawn(silo, 1, nothing, NULL, NULL, NULL), 0);
    cr_expect_eq(teff_cancel_create(silo, &cancel), 0);
    teff_cancel_fire(cancel);
    cr_expect_null(teff_cancel_unref(cancel));
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    cr_expect_eq(teff_silo_stop_then(silo, on_stopped, NULL), 0);
    tell("used ");
}

static int open_use(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(FAILING);
    static int marked;
    opening = true;
    const int r = probe_fail_then(caller, &probe, &(struct ask){ .number = 13 }, use_the_silo,
                                  caller->kind == TEFF__CALLER_CLIENT ? NULL : &marked);
    opening = false;
    (void)user;
    return r;
}

static void expect_used(void)
{
    while (stopped_count == 0)
        cr_assert_eq(teff_silo_advance(silo, 10 * MS), 0);
    cr_assert_str_eq(story, "used task ");
    cr_assert_eq(stopped_count, 1);
    cr_assert_eq(silo_counts().open, 0);
}

Test(retry, a_turns_completion_runs_outside_every_lock)
{
    cr_assert_eq(in_turn(1, open_use), 0);
    expect_used();
}

static int open_use_and_stay(teff_task *task, void *user)
{
    cr_expect_eq(open_use(task, user), 0);
    cr_expect_eq(teff_sleep(task, INT64_MAX), TEFF_EUNAVAILABLE);
    return 0;
}

Test(retry, a_tasks_completion_too)
{
    spawn(0, open_use_and_stay, NULL);
    expect_used();
}

Test(retry, a_clients_completion_too)
{
    cr_assert_eq(open_use(client, NULL), 0);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    expect_used();
}

/* --- Cancelling ---------------------------------------------------------------------------- */

static teff_cancel *source;

static void tell_end(teff_caller *caller, void *user, const teff_outcome *outcome,
                     const struct told *ret)
{
    (void)caller, (void)ret;
    cr_expect_not(opening);
    tell("%s%s ", (const char *)user, outcome->code == TEFF_ECANCELED ? ":canceled" : "");
}

/* Ends the other calls under its own source, and opens one that is refused for it. */
static void cancel_others(teff_caller *caller, void *user, const teff_outcome *outcome,
                          const struct told *ret)
{
    const teff_call_options under = { .struct_size = sizeof(under), .cancel = source };
    probe_ref probe = probe_at(FAILING);
    (void)user, (void)ret;
    cr_expect_eq(outcome->code, 0);
    tell("first ");
    opening = true;
    teff_cancel_fire(source);
    cr_expect_eq(probe_get_then(teff_with(caller, &under), &probe, NULL, tell_end, "never"),
                 TEFF_ECANCELED);
    cr_expect_eq(probe_get_then(caller, &probe, NULL, tell_end, "free"), 0);
    opening = false;
}

static int open_three(teff_caller *caller, void *user)
{
    const teff_call_options under = { .struct_size = sizeof(under), .cancel = source };
    (void)user;
    for (uint64_t i = 0; i < 3; i++) {
        probe_ref probe = probe_at(10 + i);
        const struct ask ask = { .number = i == 0 ? MS : 50 * SECOND };
        cr_expect_eq(probe_rest_then(teff_with(caller, &under), &probe, &ask,
                                     i == 0 ? cancel_others : tell_end, "other"),
                     0);
    }
    return 0;
}

static void expect_cancelled(void)
{
    source = teff_cancel_unref(source);
    cr_assert_not_null(strstr(story, "first "));
    cr_assert_null(strstr(story, "never"));
    const char *other = strstr(story, "other:canceled ");
    cr_assert_not_null(other);
    cr_assert_not_null(strstr(other + 1, "other:canceled "));
    cr_assert_not_null(strstr(story, "free "));
    cr_assert_eq(strlen(story), strlen("first other:canceled other:canceled free "));
    cr_assert_eq(silo_counts().open, 0);
}

static int stay(teff_task *task, void *user)
{
    (void)open_three(task, user);
    return teff_sleep(task, SECOND);
}

Test(retry, a_turns_completion_may_cancel_the_others)
{
    cr_assert_eq(teff_cancel_create(silo, &source), 0);
    cr_assert_eq(in_turn(1, open_three), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    expect_cancelled();
}

Test(retry, a_tasks_completion_may_too)
{
    cr_assert_eq(teff_cancel_create(silo, &source), 0);
    cr_assert_eq(in_task(0, stay, NULL), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    expect_cancelled();
}

Test(retry, a_clients_completion_may_too)
{
    cr_assert_eq(teff_cancel_create(silo, &source), 0);
    cr_assert_eq(open_three(client, NULL), 0);
    for (int i = 0; i < 3; i++)
        (void)teff_client_run(client, SECOND);
    expect_cancelled();
}
