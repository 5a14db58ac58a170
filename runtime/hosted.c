/* SPDX-License-Identifier: MIT */
#include "runtime/hosted.h"

enum { HANDLES = 5 }; /* three of teff__hosting's, wake poll and wake timer */

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* that it is active is all it does */
}

static void keep_awake(teff__worker *worker)
{
    (void)uv_idle_start(&worker->hosting.idle, on_idle);
}

/* A program may start the silo on one thread and run the loop on another. */
static void set_thread(teff__worker *worker)
{
    teff__atomic_u64_store_relaxed(&worker->thread, teff__thread_self());
}

/* --- Sleeping ------------------------------------------------------------------------------ */

static void on_alarm(uv_timer_t *timer)
{
    (void)timer; /* the loop woke, and check follows */
}

/* An alarm that stands stays: most often only the program's own events came between. */
static void set_alarm(teff__worker *worker)
{
    const int64_t due_ns = teff__worker_due_ns(worker);
    if (due_ns == INT64_MAX) {
        (void)uv_timer_stop(&worker->wake_timer);
    } else if (due_ns != worker->hosting.alarm_ns ||
               !uv_is_active((const uv_handle_t *)&worker->wake_timer)) {
        teff__worker_set_alarm(worker, due_ns, on_alarm);
        worker->hosting.alarm_ns = due_ns;
    }
}

static void on_prepare(uv_prepare_t *prepare)
{
    teff__worker *worker = prepare->data;
    /* Before `sleeping` is set: whoever sees that compares itself with the thread. */
    set_thread(worker);
    if (uv_is_active((const uv_handle_t *)&worker->hosting.idle))
        return;
    teff__fiber_pool_trim(&worker->fibers, TEFF__TRIM_AT_ONCE);
    if (!teff__inbox_sleep(&worker->inbox)) {
        keep_awake(worker);
        return;
    }
    set_alarm(worker);
    teff__atomic_u64_increment_owner(&worker->parked);
}

void teff__hosted_wake(teff__worker *worker)
{
    if (teff__atomic_u64_load_relaxed(&worker->thread) == teff__thread_self())
        keep_awake(worker);
    else
        teff__wakeup_send(worker->wake_fd);
}

/* --- Running, and leaving ------------------------------------------------------------------ */

static void on_closed(uv_handle_t *handle)
{
    teff__worker *worker = handle->data;
    if (--worker->hosting.open == 0)
        worker->ops->end(worker); /* after which the worker may be gone */
}

/* The eventfd stays open until finish: a producer may be about to write to it. */
static void leave(teff__worker *worker)
{
    uv_close((uv_handle_t *)&worker->hosting.prepare, on_closed);
    uv_close((uv_handle_t *)&worker->hosting.check, on_closed);
    uv_close((uv_handle_t *)&worker->hosting.idle, on_closed);
    uv_close((uv_handle_t *)&worker->wake_timer, on_closed);
    uv_close((uv_handle_t *)&worker->wake_poll, on_closed);
}

static void on_check(uv_check_t *check)
{
    teff__worker *worker = check->data;
    set_thread(worker);
    teff__fiber_adopt(&worker->host);
    teff__inbox_awake(&worker->inbox);
    teff__pass pass = teff__worker_pass(worker);
    const int64_t end_ns = worker->now_ns + TEFF__SLICE_NS;
    while (pass == TEFF__PASS_MORE && worker->now_ns < end_ns)
        pass = teff__worker_pass(worker);
    switch (pass) {
    case TEFF__PASS_MORE:
        keep_awake(worker);
        break;
    case TEFF__PASS_IDLE:
        (void)uv_idle_stop(&worker->hosting.idle);
        break;
    case TEFF__PASS_ENDED:
        leave(worker);
        break;
    }
}

int teff__hosted_start(teff__worker *worker)
{
    teff__hosting *hosting = &worker->hosting;
    set_thread(worker);
    int r = worker->ops->begin(worker);
    if (r == 0)
        r = uv_poll_init(worker->loop, &worker->wake_poll, worker->wake_fd);
    if (r != 0) {
        worker->ops->end(worker);
        teff__atomic_u64_store_relaxed(&worker->thread, 0);
        return r;
    }
    /* None of what follows can fail: a handle on the loop is gone only once the loop has run. */
    (void)uv_timer_init(worker->loop, &worker->wake_timer);
    (void)uv_prepare_init(worker->loop, &hosting->prepare);
    (void)uv_check_init(worker->loop, &hosting->check);
    (void)uv_idle_init(worker->loop, &hosting->idle);
    hosting->open = HANDLES;
    hosting->prepare.data = hosting->check.data = hosting->idle.data = worker;
    worker->wake_timer.data = worker->wake_poll.data = worker;
    r = uv_poll_start(&worker->wake_poll, UV_READABLE, teff__worker_on_wake);
    teff_assert(r == 0);
    (void)uv_prepare_start(&hosting->prepare, on_prepare);
    (void)uv_check_start(&hosting->check, on_check);
    /*
     * Where the loop runs already, prepare may be over for this time round, and nobody would be
     * told to wake the worker: it must not block before the first check.
     */
    keep_awake(worker);
    return 0;
}
