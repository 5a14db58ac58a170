/* SPDX-License-Identifier: MIT */
/* The silo on threads: what the simulated one cannot show. */
#include "messaging/client.h"
#include "runtime/thread.h"

#include "fixture.h"

/* --- Starting, and undoing it -------------------------------------------------------------- */

static teff__atomic_u32 begun, ended;
static int failing_worker;

static int begin_or_fail(void *user, uint32_t worker, void **ret_context)
{
    cr_expect_eq(user, &failing_worker);
    if ((int)worker == failing_worker)
        return 42;
    (void)teff__atomic_u32_add_relaxed(&begun, 1);
    *ret_context = &begun;
    return 0;
}

static void end_begun(void *user, void *context)
{
    cr_expect_eq(user, &failing_worker);
    cr_expect_eq(context, &begun);
    (void)teff__atomic_u32_add_relaxed(&ended, 1);
}

static void start_and_fail(bool simulated)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 4,
                                        .simulated = simulated,
                                        .worker_start = begin_or_fail,
                                        .worker_stop = end_begun,
                                        .user = &failing_worker };
    for (failing_worker = 0; failing_worker < 4; failing_worker++) {
        teff__atomic_u32_store_relaxed(&begun, 0);
        teff__atomic_u32_store_relaxed(&ended, 0);
        cr_assert_eq(teff_silo_create(&options, &silo), 0);
        cr_assert_eq(teff_silo_start(silo), 42);
        cr_assert_eq(teff__atomic_u32_load_relaxed(&ended),
                     teff__atomic_u32_load_relaxed(&begun)); /* only those, and all of them */
        cr_assert_eq(teff_silo_start(silo), TEFF_EINVALIDSTATE);
        cr_assert_eq(teff_silo_stop(silo), TEFF_EINVALIDSTATE);
        cr_assert_eq(teff_client_create(silo, NULL, &client), TEFF_EINVALIDSTATE);
        cr_assert_null(teff_silo_destroy(silo));
    }
}

Test(silo_threads, a_worker_that_cannot_start_undoes_the_start_with_its_code)
{
    start_and_fail(false);
}

Test(silo_threads, a_simulated_worker_that_cannot_start_undoes_the_start_with_its_code)
{
    start_and_fail(true);
}

Test(silo_threads, each_worker_is_started_and_stopped_once)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 3,
                                        .worker_start = begin_or_fail,
                                        .worker_stop = end_begun,
                                        .user = &failing_worker };
    failing_worker = -1;
    cr_assert_eq(teff_silo_create(&options, &silo), 0);
    cr_assert_eq(teff_silo_start(silo), 0);
    cr_assert_eq(teff__atomic_u32_load_relaxed(&begun), 3);
    cr_assert_eq(teff__atomic_u32_load_relaxed(&ended), 0);
    cr_assert_null(teff_silo_destroy(silo)); /* stops it first */
    cr_assert_eq(teff__atomic_u32_load_relaxed(&ended), 3);
}

/* --- Calls --------------------------------------------------------------------------------- */

static void begin_two(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options), .workers = 2 };
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

TestSuite(silo_of_two_threads, .init = begin_two, .fini = end);

Test(silo_of_two_threads, clients_and_tasks_are_answered)
{
    probe_ref probe = probe_at(1);
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(probe_set(client, &probe, &(struct ask){ .number = i }, NULL), 0);
        cr_assert_eq(number_of(1), i);
    }
    cr_assert_eq(
        probe_rest(teff_within(client, MS), &probe, &(struct ask){ .number = 300 * MS }, NULL),
        TEFF_ETIMEDOUT);
    cr_assert_eq(teff_silo_run(silo), TEFF_EINVALIDSTATE); /* it is not simulated */
}

static int stop_on_a_worker(teff_task *task, void *user)
{
    (void)task, (void)user;
    return teff_silo_destroy(silo) == silo ? teff_silo_stop(silo) : 0;
}

Test(silo_of_two_threads, on_a_worker_stop_would_block)
{
    cr_assert_eq(in_task(0, stop_on_a_worker, NULL), TEFF_EWOULDBLOCK);
}

static void stop_when_the_client_sleeps(void *argument)
{
    const teff__client *sleeper = (const teff__client *)(const void *)client;
    while (teff__atomic_u32_load_seq_cst(&sleeper->stripe->sleeping) == 0)
        teff__cpu_relax();
    *(int *)argument = teff_silo_stop(silo);
}

Test(silo_of_two_threads, stop_ends_a_clients_sleep)
{
    int r = 4711;
    teff__thread thread;
    cr_assert_eq(teff__thread_start(&thread, stop_when_the_client_sleeps, &r, "stopper"), 0);
    const int64_t before_ns = teff__silo_now_ns(silo);
    cr_assert_eq(teff_sleep(client, 100 * SECOND), TEFF_EUNAVAILABLE);
    cr_assert_lt(teff__silo_now_ns(silo) - before_ns, 90 * SECOND);
    teff__thread_join(&thread);
    cr_assert_eq(r, 0);
}

static teff__atomic_u32 told_stopped;

static void on_stopped(void *user, int result)
{
    cr_expect_eq(user, &told_stopped);
    cr_expect_eq(result, 0);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK); /* it is the last worker's last act */
    cr_expect_eq(teff_silo_destroy(silo), silo);
    teff__atomic_u32_store_seq_cst(&told_stopped, 1);
    teff__futex_wake(&told_stopped);
}

Test(silo_of_two_threads, who_asked_is_told_once_it_has_stopped)
{
    cr_assert_eq(teff_silo_stop_then(silo, on_stopped, &told_stopped), 0);
    while (teff__atomic_u32_load_seq_cst(&told_stopped) == 0)
        teff__futex_wait(&told_stopped, 0, INT64_MAX);
    cr_assert_eq(number_of(1), -1);
}

static void stop_elsewhere(void *argument)
{
    *(int *)argument = teff_silo_stop(silo);
}

Test(silo_of_two_threads, several_may_stop_it_and_each_gets_the_result)
{
    int results[3] = { 4711, 4711, 4711 };
    teff__thread threads[3];
    for (int i = 0; i < 3; i++)
        cr_assert_eq(teff__thread_start(&threads[i], stop_elsewhere, &results[i], "stopper"), 0);
    for (int i = 0; i < 3; i++) {
        teff__thread_join(&threads[i]);
        cr_assert_eq(results[i], 0);
    }
}

Test(silo_of_two_threads, a_thread_that_begins_where_a_workers_was_is_not_taken_for_it)
{
    /*
     * The system gives a new thread the memory of one that ended, and with it the word that tells
     * threads apart.
     */
    int results[4];
    teff__thread threads[4];
    cr_assert_eq(teff_silo_stop(silo), 0);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(teff__thread_start(&threads[i], stop_elsewhere, &results[i], "stopper"), 0);
    for (int i = 0; i < 4; i++) {
        teff__thread_join(&threads[i]);
        cr_assert_eq(results[i], 0);
    }
}
