/* SPDX-License-Identifier: MIT */
/*
 * Counts and dumps of a silo on threads or on a loop: workers that do not answer, and who may ask.
 */
#include "calls.h"
#include "loop.h"

static void begin_two(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 2,
                                        .stop_timeout_ns = 10 * MS };
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

TestSuite(inspect_threads, .init = begin_two, .fini = end, .timeout = HANGS_S);

/* What a filter counts; 4711: it failed, with `failed`. */
static int failed;
static uint64_t count_of_filter(teff_call_filter filter)
{
    uint64_t count = 4711;
    filter.struct_size = sizeof(filter);
    failed = teff_silo_count_open(silo, &filter, &count);
    return count;
}

static char said[8192];

static void take_line(void *user, const char *text)
{
    const size_t length = strlen(said);
    (void)user;
    (void)snprintf(said + length, sizeof(said) - length, "%s\n", text);
}

static void take_dump(void)
{
    said[0] = '\0';
    cr_assert_eq(teff_silo_dump(silo, take_line, NULL), 0);
}

/* A worker that is held: it runs a task that does not return. */
static teff__atomic_u32 held, let_go;

static int hold(teff_task *task, void *user)
{
    (void)task, (void)user;
    teff__atomic_u32_store_seq_cst(&held, 1);
    while (teff__atomic_u32_load_seq_cst(&let_go) == 0)
        teff__cpu_relax();
    return 0;
}

static teff_future hold_worker(int worker)
{
    teff_future future;
    cr_assert_eq(teff_silo_spawn(silo, worker, hold, NULL, client, &future), 0);
    while (teff__atomic_u32_load_seq_cst(&held) == 0)
        teff__cpu_relax();
    return future;
}

static void release(teff_future future)
{
    int result;
    teff__atomic_u32_store_seq_cst(&let_go, 1);
    cr_assert_eq(teff_task_claim(client, future, &result), 0);
}

static teff__atomic_u32 asked;
static bool count_asked(void *user, const teff_open_call *call)
{
    (void)user, (void)call;
    (void)teff__atomic_u32_add_relaxed(&asked, 1);
    return true;
}

static bool of_a_worker(void *user, const teff_open_call *call)
{
    (void)user;
    (void)teff__atomic_u32_add_relaxed(&asked, call->worker >= 0);
    return true;
}

static int sleep_a_day(teff_caller *caller, void *user)
{
    (void)user;
    probe_ref probe = probe_at(77);
    return probe_rest(teff_within(caller, 86400 * SECOND), &probe,
                      &(struct ask){ .number = 86400 * SECOND }, NULL);
}

Test(inspect_threads, a_worker_that_does_not_answer_is_not_waited_for)
{
    const teff_future future = hold_worker(1);
    cr_assert_eq(count_of_filter((teff_call_filter){ .timeout_ns = MS }), 4711);
    cr_assert_eq(failed, TEFF_ETIMEDOUT);
    /* the message lies there still, before another one, and is not sent again */
    spawn(1, hold, NULL);
    cr_assert_eq(count_of_filter((teff_call_filter){ .timeout_ns = MS }), 4711);
    cr_assert_eq(failed, TEFF_ETIMEDOUT);
    release(future);
    cr_assert_eq(count_of_filter((teff_call_filter){ 0 }), 0);
    cr_assert_eq(failed, 0);
}

/* Says that it is under way, and that it calls a grain that sleeps on. */
static int call_and_tell(teff_task *task, void *user)
{
    (void)teff__atomic_u32_add_relaxed(user, 1);
    return sleep_a_day(task, NULL);
}

static void note_visit(teff__catalog *catalog, void *user)
{
    teff__atomic_u32 *visits = user;
    (void)teff__atomic_u32_add_relaxed(&visits[catalog->worker.index], 1);
}

Test(inspect_threads, what_comes_late_is_no_visit)
{
    int result;
    uint64_t silent;
    static teff__atomic_u32 visits[2];
    const int64_t until_ns = teff__silo_now_ns(silo);
    const teff_future future = hold_worker(1);
    teff__inspect(teff__silo_grains(silo), 2, note_visit, visits, until_ns, &silent);
    cr_assert_eq(silent, 2);
    release(future);
    /* what this task answers lies behind the message */
    teff_future behind;
    cr_assert_eq(teff_silo_spawn(silo, 1, hold, NULL, client, &behind), 0);
    cr_assert_eq(teff_task_claim(client, behind, &result), 0);
    cr_assert_eq(teff__atomic_u32_load_relaxed(&visits[1]), 0);
    teff__inspect(teff__silo_grains(silo), 3, note_visit, visits, INT64_MAX, &silent);
    cr_assert_eq(silent, 0);
    cr_assert_eq(teff__atomic_u32_load_relaxed(&visits[0]), 1);
    cr_assert_eq(teff__atomic_u32_load_relaxed(&visits[1]), 1);
}

Test(inspect_threads, a_dump_names_the_worker_that_does_not_answer)
{
    const teff_future future = hold_worker(1);
    take_dump();
    cr_assert_not_null(strstr(said, "\nworker 1 does not answer\n"), "%s", said);
    cr_assert_not_null(strstr(said, "\nworker 0: 0 grains"), "%s", said);
    cr_assert_not_null(strstr(said, "client 1 has started a task, no deadline\n"), "%s", said);
    release(future);
    take_dump();
    cr_assert_not_null(strstr(said, "\nworker 1: 0 grains"), "%s", said);
}

/* Goes on until the time that the asker gives its workers is over. */
static bool slowly(void *user, const teff_open_call *call)
{
    const int64_t until_ns = teff__silo_now_ns(silo) + 3 * MS;
    while (teff__silo_now_ns(silo) < until_ns)
        teff__cpu_relax();
    return of_a_worker(user, call);
}

Test(inspect_threads, one_that_has_begun_to_count_is_waited_for)
{
    teff_future sleeper;
    teff__atomic_u32 under_way = { 0 };
    cr_assert_eq(teff_silo_spawn(silo, 1, call_and_tell, &under_way, client, &sleeper), 0);
    while (count_of_filter((teff_call_filter){ .matches = count_asked }) != 2) {
    }
    uint64_t count;
    teff__atomic_u32_store_relaxed(&asked, 0);
    do /* the machine may be so busy that it has not begun in time */
        count = count_of_filter((teff_call_filter){ .matches = slowly, .timeout_ns = 2 * MS });
    while (failed == TEFF_ETIMEDOUT);
    cr_assert_eq(count, 2);
    cr_assert_geq(teff__atomic_u32_load_relaxed(&asked), 1);
    cr_assert_eq(teff_client_destroy(client), NULL);
    cr_assert_eq(teff_silo_stop(silo), 0);
    silo = teff_silo_destroy(silo);
    cr_assert_null(silo);
}

static void begin_hosted(void)
{
    teff_assert(uv_loop_init(&loop) == 0);
    create_on_loop((teff_silo_options){ .stop_timeout_ns = 10 * MS });
    teff_assert(teff_silo_start(silo) == 0);
}

/* --- Whose thread asks ------------------------------------------------------------------------- */

typedef struct other {
    int count, dump;
    uint64_t counted;
    teff__atomic_u32 done;
} other;

static void ask_from_thread(void *argument)
{
    other *of = argument;
    const teff_call_filter any = { .struct_size = sizeof(any), .timeout_ns = MS };
    of->count = teff_silo_count_open(silo, &any, &of->counted);
    of->dump = of->count != TEFF_ETIMEDOUT ? teff_silo_dump(silo, take_line, NULL) : 0;
    teff__atomic_u32_store_seq_cst(&of->done, 1);
}

Test(inspect_simulated, another_thread_does_not_ask, .init = begin, .fini = end)
{
    other of = { .counted = 4711 };
    teff__thread thread;
    cr_assert_eq(teff__thread_start(&thread, ask_from_thread, &of, "asker"), 0);
    teff__thread_join(&thread);
    cr_assert_eq(of.count, TEFF_EINVALIDSTATE);
    cr_assert_eq(of.dump, TEFF_EINVALIDSTATE);
    cr_assert_eq(of.counted, 4711);
}

Test(inspect_loop, the_loops_thread_counts_at_once, .init = begin_hosted, .fini = end_on_loop)
{
    spawn(0, call_and_tell, &asked);
    while (teff__atomic_u32_load_relaxed(&asked) == 0 || teff__silo_grain_count(silo) == 0)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(count_of_filter((teff_call_filter){ .timeout_ns = 1 }), 1);
    take_dump();
    cr_assert_not_null(strstr(said, "a task awaits probe/77"), "%s", said);
}

Test(inspect_loop, another_thread_asks_the_loop, .init = begin_hosted, .fini = end_on_loop)
{
    other of = { .counted = 4711 };
    teff__thread thread;
    cr_assert_eq(teff__thread_start(&thread, ask_from_thread, &of, "asker"), 0);
    teff__thread_join(&thread); /* the loop does not run meanwhile */
    cr_assert_eq(of.count, TEFF_ETIMEDOUT);
    cr_assert_eq(of.counted, 4711);
    do {
        teff__atomic_u32_store_seq_cst(&of.done, 0);
        cr_assert_eq(teff__thread_start(&thread, ask_from_thread, &of, "asker"), 0);
        while (teff__atomic_u32_load_seq_cst(&of.done) == 0)
            (void)uv_run(&loop, UV_RUN_NOWAIT);
        teff__thread_join(&thread);
    } while (of.count == TEFF_ETIMEDOUT); /* the machine is busy */
    cr_assert_eq(of.count, 0);
    cr_assert_eq(of.counted, 0);
    cr_assert_eq(of.dump, 0);
    cr_assert_not_null(strstr(said, "\nworker 0: 0 grains"), "%s", said);
}
