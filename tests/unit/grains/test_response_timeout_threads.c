/* SPDX-License-Identifier: MIT */
/* The silo's response timeout changes, and reaches whoever sleeps: worker, client, loop. */
#include "calls.h"
#include "fixture_loop.h"

static void begin_with_client(void)
{
    begin_loop();
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

static void end_with_client(void)
{
    teff_assert(teff_client_destroy(client) == NULL);
    end_loop();
}

TestSuite(response_timeout_threads, .init = begin_with_client, .fini = end_with_client);

/* Far less than the 30 s that a sleeper would wait for otherwise. */
static const int64_t enough_ns = 10 * SECOND;

/* Where `set_elsewhere` looks whether somebody sleeps. */
static teff__stripe *sleeper;

static void set_elsewhere(void *argument)
{
    (void)argument;
    while (teff__atomic_u32_load_seq_cst(&sleeper->sleeping) == 0)
        teff__cpu_relax();
    teff_assert(teff_silo_set_response_timeout(silo, 5 * MS) == 0);
}

Test(response_timeout_threads, it_wakes_a_client_that_waits_for_its_call)
{
    teff__thread thread;
    probe_ref probe = probe_at(1);
    const int64_t before_ns = teff_now_ns(client);
    sleeper = teff__client_of(client)->stripe;
    cr_assert_eq(teff__thread_start(&thread, set_elsewhere, NULL, "set"), 0);
    cr_assert_eq(probe_rest(client, &probe, &(struct ask){ .number = 60 * SECOND }, NULL),
                 TEFF_ETIMEDOUT);
    cr_assert_geq(teff_now_ns(client) - before_ns, 5 * MS);
    cr_assert_lt(teff_now_ns(client) - before_ns, enough_ns);
    teff__thread_join(&thread);
}

Test(response_timeout_threads, it_wakes_a_loop_and_sets_its_timer)
{
    teff__thread thread;
    struct heard heard = { 0 };
    const int64_t before_ns = (int64_t)uv_hrtime();
    cr_assert_eq(rest_then(guest, 1, 60 * SECOND, &heard), 0);
    sleeper = teff__client_of(guest)->stripe;
    cr_assert_eq(teff__thread_start(&thread, set_elsewhere, NULL, "set"), 0);
    run_loop();
    teff__thread_join(&thread);
    cr_assert_eq(heard.count, 1);
    cr_assert_eq(heard.code, TEFF_ETIMEDOUT);
    cr_assert_geq((int64_t)uv_hrtime() - before_ns, 5 * MS);
}

static int64_t took_ns;

static int rest_in_task(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    const int64_t before_ns = teff_now_ns(task);
    (void)user;
    const int r = probe_rest(task, &probe, &(struct ask){ .number = 60 * SECOND }, NULL);
    took_ns = teff_now_ns(task) - before_ns;
    return r;
}

Test(response_timeout_threads, it_wakes_a_worker_that_sleeps)
{
    int result = 0;
    teff_future future;
    uint64_t parked = teff__silo_park_count(silo);
    cr_assert_eq(teff_silo_spawn(silo, 0, rest_in_task, NULL, client, &future), 0);
    while (teff__silo_park_count(silo) == parked)
        teff__cpu_relax();
    cr_assert_eq(teff_silo_set_response_timeout(silo, 5 * MS), 0);
    cr_assert_eq(teff_task_claim(client, future, &result), 0);
    cr_assert_eq(result, TEFF_ETIMEDOUT);
    cr_assert_lt(took_ns, enough_ns); /* measured from when the worker's pass began */
}

static int rest_briefly(teff_task *task, void *user)
{
    (void)user;
    return rest_in_task(teff_within(task, 20 * MS), NULL);
}

Test(response_timeout_threads, a_worker_that_sleeps_wakes_up_for_the_shortest_deadline)
{
    int result = 0;
    teff_future future;
    cr_assert_eq(teff_silo_spawn(silo, 0, rest_briefly, NULL, client, &future), 0);
    cr_assert_eq(teff_task_claim(client, future, &result), 0);
    cr_assert_eq(result, TEFF_ETIMEDOUT);
    cr_assert_geq(took_ns, 20 * MS);
    cr_assert_lt(took_ns, enough_ns);
}
