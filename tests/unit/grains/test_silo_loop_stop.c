/* SPDX-License-Identifier: MIT */
/* The silo on the program's loop: how it comes and goes, and what is refused there. */
#include "loop.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

/* --- Options, and starting ----------------------------------------------------------------- */

static void init_loop(void)
{
    teff_assert(uv_loop_init(&loop) == 0);
}

TestSuite(silo_loop_start, .init = init_loop, .fini = end_on_loop, .timeout = HANGS_S);

static int create_with(uint32_t workers, bool simulated)
{
    const teff_silo_options options = {
        .struct_size = sizeof(options), .workers = workers, .loop = &loop, .simulated = simulated
    };
    teff_silo *made = NULL;
    const int r = teff_silo_create(&options, &made);
    cr_expect_eq(made != NULL, r == 0);
    cr_expect_null(teff_silo_destroy(made));
    return r;
}

Test(silo_loop_start, a_loop_has_one_worker_and_is_not_simulated)
{
    cr_assert_eq(create_with(0, false), 0);
    cr_assert_eq(create_with(1, false), 0);
    cr_assert_eq(create_with(2, false), TEFF_EINVAL);
    cr_assert_eq(create_with(64, false), TEFF_EINVAL);
    cr_assert_eq(create_with(0, true), TEFF_EINVAL);
    cr_assert_eq(create_with(1, true), TEFF_EINVAL);
}

Test(silo_loop_start, before_start_nothing_is_on_the_loop_and_nothing_is_refused_for_it)
{
    create_on_loop((teff_silo_options){ 0 });
    cr_assert_eq(uv_loop_alive(&loop), 0);
    cr_assert_eq(teff_silo_stop(silo), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_stop_then(silo, count_stopped, &stopped_count), TEFF_EINVALIDSTATE);
    silo = teff_silo_destroy(silo);
    cr_assert_null(silo);
}

static int hooks_begun, hooks_ended, hook_result;
static uintptr_t hook_threads[2];

static int begin_hook(void *user, uint32_t worker, void **ret_context)
{
    cr_expect_eq(user, &hook_result);
    cr_expect_eq(worker, 0);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    hooks_begun++;
    hook_threads[0] = teff__thread_self();
    *ret_context = &hooks_begun;
    return hook_result;
}

static void end_hook(void *user, void *context)
{
    cr_expect_eq(user, &hook_result);
    cr_expect_eq(context, &hooks_begun);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    hooks_ended++;
    hook_threads[1] = teff__thread_self();
}

static const teff_silo_options hooked = { .worker_start = begin_hook,
                                          .worker_stop = end_hook,
                                          .user = &hook_result };

Test(silo_loop_start, the_hooks_run_once_each_on_the_loops_thread)
{
    create_on_loop(hooked);
    cr_assert_eq(teff_silo_start(silo), 0);
    cr_assert_eq(teff_silo_start(silo), TEFF_EINVALIDSTATE);
    cr_assert_eq(hooks_begun, 1);
    cr_assert_eq(hooks_ended, 0);
    run_until_stopped();
    cr_assert_eq(hooks_begun, 1);
    cr_assert_eq(hooks_ended, 1);
    cr_assert_eq(hook_threads[0], teff__thread_self());
    cr_assert_eq(hook_threads[1], teff__thread_self());
}

/* What a failed start leaves: nothing on the loop, and a silo to be destroyed at once. */
static void failed(void)
{
    cr_assert_eq(teff_silo_start(silo), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_stop(silo), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_client_create(silo, NULL, &client), TEFF_EINVALIDSTATE);
    cr_assert_eq(uv_loop_alive(&loop), 0);
    silo = teff_silo_destroy(silo);
    cr_assert_null(silo);
}

Test(silo_loop_start, a_worker_that_cannot_start_leaves_the_loop_empty)
{
    hook_result = 42;
    create_on_loop(hooked);
    cr_assert_eq(teff_silo_start(silo), 42);
    cr_assert_eq(hooks_begun, 1);
    cr_assert_eq(hooks_ended, 0);
    failed();
    cr_assert_eq(uv_loop_close(&loop), 0); /* without a run between */
    init_loop();
}

Test(silo_loop_start, a_loop_that_refuses_the_silo_is_left_empty_and_the_worker_ended)
{
    /* It still watches a descriptor that was closed: the silo's own gets that number. */
    uv_poll_t stale;
    int fd = -1;
    create_on_loop(hooked);
    cr_assert_eq(teff__wakeup_open(&fd), 0);
    cr_assert_eq(uv_poll_init(&loop, &stale, fd), 0);
    cr_assert_eq(uv_poll_start(&stale, UV_READABLE, (uv_poll_cb)abort), 0);
    teff__wakeup_close(fd);
    cr_assert_eq(teff_silo_start(silo), UV_EEXIST);
    cr_assert_eq(hooks_begun, 1);
    cr_assert_eq(hooks_ended, 1);
    cr_assert_eq(uv_poll_stop(&stale), 0);
    failed();
    close_handle(&stale);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}

Test(silo_loop_start, a_start_without_memory_leaves_the_loop_empty)
{
    int failures = 0;
    for (uint64_t n = 1;; n++) {
        create_on_loop((teff_silo_options){ 0 });
        teff__memory_fail_at(teff__silo_memory(silo), n);
        if (teff_silo_start(silo) == 0)
            break;
        failures++;
        failed();
    }
    cr_assert_gt(failures, 5);
    teff__memory_fail_at(teff__silo_memory(silo), 0);
    run_until_stopped();
}

/* --- Starting while the loop runs ---------------------------------------------------------- */

static int stop_from_task(teff_task *task, void *user)
{
    (void)task, (void)user;
    return teff_silo_stop_then(silo, count_stopped, &stopped_count);
}

static teff__thread spawner;

static void spawn_from_outside(void *user)
{
    (void)user;
    spawn(0, stop_from_task, NULL);
}

/* No handle is closed meanwhile: a loop that has some to close does not block. */
static void start_and_spawn(void)
{
    create_on_loop((teff_silo_options){ 0 });
    cr_expect_eq(teff_silo_start(silo), 0);
    cr_expect_eq(teff__thread_start(&spawner, spawn_from_outside, NULL, "spawner"), 0);
}

static void started_in_a_callback(void *handle)
{
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    teff__thread_join(&spawner);
    cr_assert_eq(stopped_count, 1);
    close_handle(handle);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}

static void start_in_prepare(uv_prepare_t *prepare)
{
    start_and_spawn();
    (void)uv_prepare_stop(prepare);
}

Test(silo_loop_start, it_may_start_just_before_the_loop_polls)
{
    uv_prepare_t prepare;
    cr_assert_eq(uv_prepare_init(&loop, &prepare), 0);
    cr_assert_eq(uv_prepare_start(&prepare, start_in_prepare), 0);
    started_in_a_callback(&prepare);
}

static void start_in_check(uv_check_t *check)
{
    start_and_spawn();
    (void)uv_check_stop(check);
}

static void do_nothing(uv_idle_t *idle)
{
    close_handle(idle);
}

Test(silo_loop_start, it_may_start_just_after_the_loop_has_polled)
{
    uv_check_t check;
    uv_idle_t idle;
    cr_assert_eq(uv_check_init(&loop, &check), 0);
    cr_assert_eq(uv_idle_init(&loop, &idle), 0);
    cr_assert_eq(uv_check_start(&check, start_in_check), 0);
    cr_assert_eq(uv_idle_start(&idle, do_nothing), 0); /* the first poll does not block */
    started_in_a_callback(&check);
}

static void start_in_poll(uv_async_t *async)
{
    start_and_spawn();
    uv_unref((uv_handle_t *)async);
}

Test(silo_loop_start, it_may_start_while_the_loop_polls)
{
    uv_async_t async;
    cr_assert_eq(uv_async_init(&loop, &async, start_in_poll), 0);
    cr_assert_eq(uv_async_send(&async), 0);
    started_in_a_callback(&async);
}

/* --- Stopping ------------------------------------------------------------------------------ */

TestSuite(silo_loop_stop, .init = begin_on_loop, .fini = end_on_loop, .timeout = HANGS_S);

static int stop_from_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    (void)turn, (void)self, (void)arg;
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    cr_expect_eq(teff_silo_stop_then(silo, count_stopped, &stopped_count), 0);
    cr_expect_eq(stopped_count, 0);
    ret->number = 1;
    return 0;
}

static int call_act(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    struct told told = { 0 };
    *(int *)user = probe_act(task, &probe, &(struct ask){ 0 }, &told);
    cr_expect_eq(told.number, 1);
    return 0;
}

Test(silo_loop_stop, a_turn_may_stop_it_and_is_answered_still)
{
    int r = 4711;
    acting = stop_from_turn;
    cr_assert_eq(uv_loop_alive(&loop), 1);
    spawn(0, call_act, &r);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(stopped_count, 1);
    cr_assert_eq(r, 0);
    cr_assert_eq(seen.deactivated, 1);
    cr_assert_eq(uv_loop_alive(&loop), 0);
    cr_assert_eq(teff_silo_stop_then(silo, count_stopped, &stopped_count), TEFF_EINVALIDSTATE);
}

static void stop_from_callback(uv_timer_t *timer)
{
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    cr_expect_eq(teff_silo_stop_then(silo, count_stopped, &stopped_count), 0);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK); /* it is stopping */
    cr_expect_eq(teff_silo_destroy(silo), silo);
    cr_expect_eq(stopped_count, 0);
    close_handle(timer);
}

Test(silo_loop_stop, a_callback_of_the_program_may_stop_it_but_not_block)
{
    uv_timer_t timer;
    cr_assert_eq(uv_timer_init(&loop, &timer), 0);
    cr_assert_eq(uv_timer_start(&timer, stop_from_callback, 1, 0), 0);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(stopped_count, 1);
    cr_assert_eq(teff_silo_stop(silo), 0); /* it has stopped: nothing to wait for */
}

static void look_elsewhere(void *ret)
{
    *(bool *)ret = teff__exchange_hosts_here(teff__silo_exchange(silo));
}

Test(silo_loop_stop, the_loops_thread_hosts_it_between_its_turns_until_it_has_stopped)
{
    bool elsewhere = true;
    teff__thread thread;
    teff__exchange *exchange = teff__silo_exchange(silo);
    cr_assert(teff__exchange_hosts_here(exchange));
    cr_assert_not(teff__exchange_inside(exchange));
    cr_assert_eq(teff__thread_start(&thread, look_elsewhere, &elsewhere, "elsewhere"), 0);
    teff__thread_join(&thread);
    cr_assert_not(elsewhere);
    cr_assert_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_assert_eq(teff_silo_destroy(silo), silo);
    run_until_stopped();
    cr_assert_not(teff__exchange_hosts_here(exchange));
}

static void stop_elsewhere(void *ret)
{
    *(int *)ret = teff_silo_stop(silo);
}

Test(silo_loop_stop, other_threads_may_block_until_it_has_stopped)
{
    int results[3] = { 4711, 4711, 4711 };
    teff__thread threads[3];
    for (int i = 0; i < 3; i++)
        cr_assert_eq(teff__thread_start(&threads[i], stop_elsewhere, &results[i], "stopper"), 0);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    for (int i = 0; i < 3; i++) {
        teff__thread_join(&threads[i]);
        cr_assert_eq(results[i], 0);
    }
}

static void destroy_elsewhere(void *user)
{
    (void)user;
    silo = teff_silo_destroy(silo);
}

Test(silo_loop_stop, another_thread_may_destroy_it_while_the_loop_runs)
{
    teff__thread thread;
    cr_assert_eq(teff__thread_start(&thread, destroy_elsewhere, NULL, "destroyer"), 0);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    teff__thread_join(&thread);
    cr_assert_null(silo);
}

static void destroy_when_stopped(void *user, int result)
{
    cr_expect_eq(result, 0);
    ++*(int *)user;
    if (silo != NULL)
        silo = teff_silo_destroy(silo);
    cr_expect_null(silo);
}

Test(silo_loop_stop, who_is_told_may_destroy_it_and_the_others_are_told_still)
{
    for (int i = 0; i < 3; i++)
        cr_assert_eq(teff_silo_stop_then(silo, destroy_when_stopped, &stopped_count), 0);
    cr_assert_eq(stopped_count, 0); /* never inside the call */
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(stopped_count, 3);
    cr_assert_null(silo);
}

Test(silo_loop_stop, a_client_that_is_left_keeps_it_from_being_destroyed_but_not_stopped)
{
    cr_assert_eq(teff_client_create(silo, NULL, &client), 0);
    run_until_stopped();
    cr_assert_eq(teff_silo_destroy(silo), silo);
    cr_assert_eq(number_of(1), -1);
    cr_assert_null(teff_client_destroy(client));
}

static int sleep_long(teff_task *task, void *user)
{
    *(int *)user = teff_sleep(task, 1000 * SECOND);
    return 0;
}

Test(silo_loop_stop, what_waits_is_told)
{
    int r = 4711;
    spawn(0, sleep_long, &r);
    for (int i = 0; i < 10; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(r, 4711);
    run_until_stopped();
    cr_assert_eq(r, TEFF_EUNAVAILABLE);
}

Test(silo_loop_stop, without_a_loop_that_runs_it_is_stuck_and_nothing_is_freed)
{
    int r = 4711;
    teff__thread thread;
    uv_loop_t *const own = &loop;
    run_until_stopped();
    cr_assert_null(teff_silo_destroy(silo));
    create_on_loop((teff_silo_options){ .stop_timeout_ns = 1 });
    cr_assert_eq(teff_silo_start(silo), 0);
    cr_assert_eq(teff__thread_start(&thread, stop_elsewhere, &r, "stopper"), 0);
    teff__thread_join(&thread);
    cr_assert_eq(r, TEFF_ESTUCK);
    cr_assert_eq(uv_run(own, UV_RUN_DEFAULT), 0); /* and now it runs */
    cr_assert_eq(teff_silo_stop(silo), 0);
}

/* --- Again and again ----------------------------------------------------------------------- */

static int entries(const char *folder)
{
    int count = 0;
    DIR *open = opendir(folder);
    cr_assert_not_null(open);
    while (readdir(open) != NULL)
        count++;
    cr_assert_eq(closedir(open), 0);
    return count;
}

/* Resident pages of this process. */
static long pages(void)
{
    char text[64] = "";
    long total = 0, resident = 0;
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_assert_gt(read(fd, text, sizeof(text) - 1), 0);
    cr_assert_eq(close(fd), 0);
    cr_assert_eq(sscanf(text, "%ld %ld", &total, &resident), 2);
    return resident;
}

static int call_ten(teff_task *task, void *user)
{
    (void)user;
    for (uint64_t i = 0; i < 10; i++) {
        probe_ref probe = probe_at(i);
        cr_expect_eq(probe_set(task, &probe, &(struct ask){ .number = 1 }, NULL), 0);
    }
    return teff_silo_stop_then(silo, destroy_when_stopped, &stopped_count);
}

static void rounds(int count)
{
    for (int i = 0; i < count; i++) {
        create_on_loop((teff_silo_options){ 0 });
        cr_assert_eq(teff_silo_start(silo), 0);
        spawn(0, call_ten, NULL);
        cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
        cr_assert_null(silo);
    }
}

Test(silo_loop_start, two_hundred_rounds_on_one_loop_leave_nothing)
{
    rounds(50);
    const int descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    const long resident = pages();
    rounds(200);
    cr_assert_eq(entries("/proc/self/fd"), descriptors);
    cr_assert_eq(entries("/proc/self/task"), threads);
    cr_assert_eq(stopped_count, 250);
    cr_assert_eq(seen.deactivated, 2500);
#ifndef TEFF__FIBER_ASAN /* which holds back what is freed, and looks for leaks itself */
    cr_assert_lt(pages() - resident, 200); /* not even a page a round */
#else
    (void)resident;
#endif
}
