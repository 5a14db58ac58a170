/* SPDX-License-Identifier: MIT */
/* The silo on the program's loop, while it runs. */
#include "loop.h"

#include <unistd.h>

TestSuite(silo_loop, .init = begin_on_loop, .fini = end_on_loop, .timeout = HANGS_S);

/* --- Work from everywhere ------------------------------------------------------------------ */

static int tasks_run;
static uintptr_t ran_on;

static int run_and_stop(teff_task *task, void *user)
{
    (void)task;
    const int64_t *last = user;
    ran_on = teff__thread_self();
    if (++tasks_run == *last)
        cr_expect_eq(teff_silo_stop_then(silo, count_stopped, &stopped_count), 0);
    return 0;
}

Test(silo_loop, tasks_spawned_before_the_loop_runs_run_on_it)
{
    int64_t last = 3;
    for (int i = 0; i < 3; i++)
        spawn(0, run_and_stop, &last);
    cr_assert_eq(tasks_run, 0); /* it has no thread */
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(tasks_run, 3);
    cr_assert_eq(ran_on, teff__thread_self());
    cr_assert_eq(stopped_count, 1);
}

static void spawn_last(uv_timer_t *timer)
{
    spawn(0, run_and_stop, timer->data);
}

static void spawn_when_polled(uv_async_t *async)
{
    spawn(0, run_and_stop, async->data);
    uv_unref((uv_handle_t *)async);
}

Test(silo_loop, tasks_spawned_in_callbacks_of_the_program_run)
{
    /*
     * A timer's callback runs before the silo looks whether it may sleep, a poll's after that. No
     * handle is closed meanwhile: a loop that has some to close does not block.
     */
    int64_t last = 2;
    uv_timer_t timer;
    uv_async_t async;
    cr_assert_eq(uv_timer_init(&loop, &timer), 0);
    cr_assert_eq(uv_async_init(&loop, &async, spawn_when_polled), 0);
    timer.data = async.data = &last;
    cr_assert_eq(uv_timer_start(&timer, spawn_last, 5, 0), 0);
    cr_assert_eq(uv_async_send(&async), 0);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(tasks_run, 2);
    close_handle(&timer);
    close_handle(&async);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}

static void spawn_before_the_poll(uv_prepare_t *prepare)
{
    spawn(0, run_and_stop, prepare->data);
    (void)uv_prepare_stop(prepare);
}

Test(silo_loop, a_task_spawned_between_the_silos_falling_asleep_and_the_poll_runs)
{
    int64_t last = 1;
    uv_prepare_t prepare;
    while (teff__silo_park_count(silo) == 0)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    /* libuv runs the latest first: the silo's own comes back to the front */
    cr_assert_eq(uv_prepare_init(&loop, &prepare), 0);
    cr_assert_eq(uv_prepare_start(&prepare, spawn_before_the_poll), 0);
    uv_prepare_t *own = &teff__silo_exchange(silo)->workers[0]->hosting.prepare;
    const uv_prepare_cb callback = own->prepare_cb;
    cr_assert_eq(uv_prepare_stop(own), 0);
    cr_assert_eq(uv_prepare_start(own, callback), 0);
    prepare.data = &last;
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(tasks_run, 1);
    close_handle(&prepare);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}

static int wakeups_sent(void)
{
    uint64_t count = 0;
    const ssize_t r = read(teff__silo_exchange(silo)->workers[0]->wake_fd, &count, sizeof(count));
    return r == (ssize_t)sizeof(count) ? (int)count : 0;
}

static void spawn_and_look(uv_async_t *async)
{
    spawn(0, run_and_stop, async->data);
    cr_expect_eq(wakeups_sent(), 0);
    uv_unref((uv_handle_t *)async);
}

Test(silo_loop, a_callback_of_the_program_needs_no_system_call_to_wake_the_silo)
{
    int64_t last = 1;
    uv_async_t async;
    cr_assert_eq(uv_async_init(&loop, &async, spawn_and_look), 0);
    async.data = &last;
    while (teff__silo_park_count(silo) == 0)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(uv_async_send(&async), 0);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(tasks_run, 1);
    close_handle(&async);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}

Test(silo_loop, each_turn_of_a_loop_that_does_not_wait_gets_on_with_it)
{
    int64_t last = -1;
    spawn(0, run_and_stop, &last);
    cr_assert_neq(uv_run(&loop, UV_RUN_NOWAIT), 0);
    cr_assert_eq(tasks_run, 1);
    spawn(0, run_and_stop, &last);
    cr_assert_neq(uv_run(&loop, UV_RUN_ONCE), 0);
    cr_assert_eq(tasks_run, 2);
}

/* Calls, on a thread of its own, and stops the silo. */
static void call_from_outside(void *argument)
{
    int *failed = argument;
    probe_ref probe = probe_at(1);
    teff_client *outside = NULL;
    *failed += teff_client_create(silo, NULL, &outside) != 0;
    for (int64_t i = 0; i < 1000; i++) {
        struct told told = { .number = -1 };
        *failed += probe_set(outside, &probe, &(struct ask){ .number = i }, NULL) != 0;
        *failed += probe_get(outside, &probe, NULL, &told) != 0 || told.number != i;
    }
    *failed += probe_rest(teff_within(outside, MS), &probe, &(struct ask){ .number = 5 * MS },
                          NULL) != TEFF_ETIMEDOUT;
    *failed += teff_client_destroy(outside) != NULL;
    *failed += teff_silo_stop(silo) != 0;
}

Test(silo_loop, a_client_that_blocks_another_thread_is_answered)
{
    int failed = 0;
    teff__thread thread;
    cr_assert_eq(teff__thread_start(&thread, call_from_outside, &failed, "caller"), 0);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    teff__thread_join(&thread);
    cr_assert_eq(failed, 0);
    cr_assert_eq(seen.turns, 2001);
}

static void run_loop(void *argument)
{
    *(int *)argument = uv_run(&loop, UV_RUN_DEFAULT);
}

Test(silo_loop, started_on_one_thread_the_loop_may_run_on_another)
{
    int r = 4711;
    int64_t last = 1000;
    teff__thread thread;
    cr_assert_eq(teff__thread_start(&thread, run_loop, &r, "loop"), 0);
    for (int i = 0; i < 1000; i++)
        spawn(0, run_and_stop, &last);
    teff__thread_join(&thread);
    cr_assert_eq(r, 0);
    cr_assert_eq(tasks_run, 1000);
    cr_assert_neq(ran_on, teff__thread_self());
}

Test(silo_loop, the_loop_may_move_to_another_thread)
{
    int r = 4711;
    int64_t last = 1;
    teff__thread thread;
    while (teff__silo_park_count(silo) == 0)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    const uint64_t parked = teff__silo_park_count(silo);
    cr_assert_eq(teff__thread_start(&thread, run_loop, &r, "loop"), 0);
    while (teff__silo_park_count(silo) == parked)
        teff__cpu_relax();
    spawn(0, run_and_stop, &last); /* it sleeps: this is not its thread any more */
    teff__thread_join(&thread);
    cr_assert_eq(r, 0);
    cr_assert_neq(ran_on, teff__thread_self());
}

Test(silo_loop, time_cannot_be_run_or_advanced)
{
    cr_assert_eq(teff_silo_run(silo), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_advance(silo, SECOND), TEFF_EINVALIDSTATE);
}

/* --- Two of them --------------------------------------------------------------------------- */

static int call_the_other(teff_task *task, void *user)
{
    teff_silo *other = user;
    (void)task;
    tasks_run++;
    cr_expect_eq(teff_silo_stop(other), TEFF_EWOULDBLOCK); /* it is this loop that must run */
    cr_expect_eq(teff_silo_stop_then(other, count_stopped, &stopped_count), 0);
    return 0;
}

Test(silo_loop, several_silos_share_a_loop)
{
    teff_silo *other = NULL;
    const teff_silo_options options = { .struct_size = sizeof(options), .loop = &loop };
    cr_assert_eq(teff_silo_create(&options, &other), 0);
    cr_assert_eq(teff_silo_start(other), 0);
    spawn(0, call_the_other, other);
    cr_assert_eq(teff_silo_spawn(other, 0, call_the_other, silo, NULL, NULL), 0);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(tasks_run, 2);
    cr_assert_eq(stopped_count, 2);
    cr_assert_null(teff_silo_destroy(other));
}

/* --- Sharing the loop's time --------------------------------------------------------------- */

static int ticks;

static void tick_and_stop(uv_timer_t *timer)
{
    if (++ticks < 5)
        return;
    close_handle(timer);
    cr_expect_eq(teff_silo_stop_then(silo, count_stopped, &stopped_count), 0);
}

static int call_for_ever(teff_task *task, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    while (probe_get(task, &probe, NULL, &(struct told){ 0 }) == 0) {
    }
    return 0;
}

Test(silo_loop, grains_that_are_busy_for_ever_leave_the_programs_timers_their_time)
{
    uv_timer_t timer;
    cr_assert_eq(uv_timer_init(&loop, &timer), 0);
    cr_assert_eq(uv_timer_start(&timer, tick_and_stop, 1, 1), 0);
    for (uintptr_t i = 0; i < 10; i++)
        spawn(0, call_for_ever, (void *)(i + 1));
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(ticks, 5);
    cr_assert_eq(stopped_count, 1);
    cr_assert_gt(seen.turns, 1000);
}

static int call_many(teff_task *task, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    for (int i = 0; i < 10000; i++)
        cr_expect_eq(probe_get(task, &probe, NULL, &(struct told){ 0 }), 0);
    if (++tasks_run == 2)
        cr_expect_eq(teff_silo_stop_then(silo, count_stopped, &stopped_count), 0);
    return 0;
}

static void spawn_from_outside(void *user)
{
    (void)user;
    for (uintptr_t i = 1; i <= 2; i++)
        spawn(0, call_many, (void *)i);
}

Test(silo_loop, work_from_outside_that_takes_longer_than_a_slice_goes_on)
{
    teff__thread thread;
    while (teff__silo_park_count(silo) == 0)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(teff__thread_start(&thread, spawn_from_outside, NULL, "spawner"), 0);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    teff__thread_join(&thread);
    cr_assert_eq(tasks_run, 2);
}

static uint64_t times_round;

static void count_round(uv_prepare_t *prepare)
{
    (void)prepare;
    times_round++;
}

static void just_stop(uv_timer_t *timer)
{
    close_handle(timer);
    close_handle(timer->data);
    cr_expect_eq(teff_silo_stop_then(silo, count_stopped, &stopped_count), 0);
}

static void count_and_stop(uv_prepare_t *prepare)
{
    if (++times_round < 200)
        return;
    close_handle(prepare);
    cr_expect_eq(teff_silo_stop_then(silo, count_stopped, &stopped_count), 0);
}

Test(silo_loop, busy_grains_run_many_items_for_each_time_round_the_loop)
{
    uv_prepare_t prepare;
    cr_assert_eq(uv_prepare_init(&loop, &prepare), 0);
    cr_assert_eq(uv_prepare_start(&prepare, count_and_stop), 0);
    for (uintptr_t i = 0; i < 100; i++)
        spawn(0, call_for_ever, (void *)(i + 1));
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    /* more than one pass, which is 64 items: 32 turns, and what waits for them */
    cr_assert_gt(seen.turns, 200 * 40);
}

static int be_slow(teff_task *task, void *user)
{
    const int64_t until_ns = teff__silo_now_ns(silo) + MS / 10;
    while (teff__silo_now_ns(silo) < until_ns)
        teff__cpu_relax();
    return run_and_stop(task, user);
}

Test(silo_loop, few_slow_turns_run_for_each_time_round_the_loop)
{
    int64_t last = 300;
    uv_prepare_t prepare;
    cr_assert_eq(uv_prepare_init(&loop, &prepare), 0);
    cr_assert_eq(uv_prepare_start(&prepare, count_round), 0);
    uv_unref((uv_handle_t *)&prepare);
    for (int i = 0; i < 300; i++)
        spawn(0, be_slow, &last);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(tasks_run, 300);
    cr_assert_gt(times_round, 100);
    close_handle(&prepare);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}

Test(silo_loop, an_idle_silo_does_not_wake_the_loop)
{
    uv_timer_t timer;
    uv_prepare_t prepare;
    cr_assert_eq(uv_timer_init(&loop, &timer), 0);
    cr_assert_eq(uv_prepare_init(&loop, &prepare), 0);
    while (teff__silo_park_count(silo) == 0)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(uv_prepare_start(&prepare, count_round), 0);
    timer.data = &prepare;
    const uint64_t parked = teff__silo_park_count(silo);
    cr_assert_eq(uv_timer_start(&timer, just_stop, 200, 0), 0);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    /* until the timer, which may be a millisecond early for libuv, and with stop's phases */
    cr_assert_leq(times_round, 3);
    cr_assert_leq(teff__silo_park_count(silo) - parked, 3);
    cr_assert_eq(stopped_count, 1);
}

/* --- Time ---------------------------------------------------------------------------------- */

struct nap {
    int64_t ns, took_ns;
    int result;
};

static int take_nap(teff_task *task, void *user)
{
    struct nap *nap = user;
    const int64_t before_ns = teff__silo_now_ns(silo);
    nap->result = teff_sleep(task, nap->ns);
    nap->took_ns = teff__silo_now_ns(silo) - before_ns;
    if (++tasks_run == 4)
        cr_expect_eq(teff_silo_stop_then(silo, count_stopped, &stopped_count), 0);
    return 0;
}

Test(silo_loop, who_sleeps_is_woken_in_time)
{
    struct nap naps[4] = {
        { .ns = 40 * MS }, { .ns = 3 * MS }, { .ns = 20 * MS }, { .ns = MS / 10 }
    };
    for (int i = 0; i < 4; i++)
        spawn(0, take_nap, &naps[i]);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(tasks_run, 4);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(naps[i].result, 0);
        cr_assert_geq(naps[i].took_ns, naps[i].ns);
        cr_assert_lt(naps[i].took_ns, naps[i].ns + SECOND); /* other processes run here too */
    }
}

static int call_too_long(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    *(int *)user =
        probe_rest(teff_within(task, 2 * MS), &probe, &(struct ask){ .number = 20 * MS }, NULL);
    return teff_silo_stop_then(silo, count_stopped, &stopped_count);
}

Test(silo_loop, a_deadline_wakes_the_loop)
{
    int r = 4711;
    spawn(0, call_too_long, &r);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(r, TEFF_ETIMEDOUT);
    cr_assert_eq(stopped_count, 1);
}

static int sleep_for_ever(teff_task *task, void *user)
{
    *(int *)user = teff_sleep(task, 1000 * SECOND);
    return 0;
}

static void sleep_less(uv_timer_t *timer)
{
    static struct nap nap = { .ns = 5 * MS };
    tasks_run = 3; /* it is the fourth */
    spawn(0, take_nap, &nap);
    close_handle(timer);
}

Test(silo_loop, who_sleeps_less_than_another_is_woken_before_it)
{
    int r = 4711;
    uv_timer_t timer;
    spawn(0, sleep_for_ever, &r);
    cr_assert_eq(uv_timer_init(&loop, &timer), 0);
    cr_assert_eq(uv_timer_start(&timer, sleep_less, 2, 0), 0);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(tasks_run, 4);
    cr_assert_eq(r, TEFF_EUNAVAILABLE); /* stop ended it */
}
