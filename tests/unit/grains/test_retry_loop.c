/* SPDX-License-Identifier: MIT */
/* Clients on loops, and blocking ones, whose code calls again when a call fails, while the silo stops. */
#include "calls.h"
#include "fixture_loop.h"

TestSuite(retry_loop, .init = begin_loop, .fini = end_loop);

enum { RETRIES_MAX = 1000000 };

static int retries, refused, completed, stopped_count;

static void call_again(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct told *ret);

static int open_failing(teff_caller *caller)
{
    probe_ref probe = probe_at((uint64_t)retries % 7);
    opening = true;
    const int r = probe_fail_then(caller, &probe, &(struct ask){ .number = 13 }, call_again, NULL);
    opening = false;
    return r;
}

static void call_again(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct told *ret)
{
    int r = outcome->code;
    (void)user, (void)ret;
    cr_expect_not(opening, "inside its opener");
    cr_expect_not_null(caller);
    completed++;
    while (r != 0 && retries < RETRIES_MAX) {
        const bool stopped = r == TEFF_EUNAVAILABLE;
        retries++;
        r = open_failing(caller);
        if (r == TEFF_EUNAVAILABLE && stopped)
            break; /* refused again, at once */
    }
    refused += r == TEFF_EUNAVAILABLE;
}

static void on_stopped(void *user, int result)
{
    (void)user, (void)result;
    stopped_count++;
}

static void begin_to_stop(void)
{
    cr_assert_gt(completed, 0);
    cr_assert_eq(teff_silo_stop_then(silo, on_stopped, NULL), 0);
}

Test(retry_loop, a_loops_completion_that_calls_again_ends_when_the_silo_stops)
{
    cr_assert_eq(open_failing(guest), 0);
    step_after(20, begin_to_stop);
    run_loop();
    cr_assert_eq(refused, 1);
    cr_assert_lt(retries, RETRIES_MAX);
    close_guest();
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(stopped_count, 1);
    cr_assert_eq(silo_counts().open, 0);
}

static void use_the_silo(teff_caller *caller, void *user, const teff_outcome *outcome,
                         const struct told *ret)
{
    teff_client *made = NULL;
    (void)caller, (void)user, (void)ret;
    cr_expect_eq(outcome->code, 13);
    cr_expect_eq(teff_silo_set_response_timeout(silo, 20 * SECOND), 0);
    cr_expect_eq(silo_counts().open, 0);
    cr_expect_eq(teff_client_create(silo, NULL, &made), 0);
    cr_expect_null(teff_client_destroy(made));
    cr_expect_eq(teff_silo_stop_then(silo, on_stopped, NULL), 0);
    completed++;
}

Test(retry_loop, a_loops_completion_runs_outside_every_lock_and_may_ask_for_stop)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_fail_then(guest, &probe, &(struct ask){ .number = 13 }, use_the_silo, NULL),
                 0);
    run_loop();
    cr_assert_eq(completed, 1);
    close_guest();
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(stopped_count, 1);
}

static void stop_after_some(void *argument)
{
    const teff__atomic_u64 *opened = argument;
    while (teff__atomic_u64_load_relaxed(opened) < 1000)
        teff__cpu_relax();
    teff_assert(teff_silo_stop(silo) == 0);
}

Test(retry_loop, a_blocking_client_that_calls_again_ends_when_the_silo_stops)
{
    int r = 13;
    teff__thread thread;
    probe_ref probe = probe_at(1);
    cr_assert_eq(teff_client_create(silo, NULL, &client), 0);
    cr_assert_eq(teff__thread_start(&thread, stop_after_some,
                                    &teff__client_of(client)->stripe->opened, "stop"),
                 0);
    while (r == 13)
        r = probe_fail(client, &probe, &(struct ask){ .number = 13 }, NULL);
    cr_assert_eq(r, TEFF_EUNAVAILABLE);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(probe_fail(client, &probe, NULL, NULL), TEFF_EUNAVAILABLE);
    teff__thread_join(&thread);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(silo_counts().open, 0);
}
