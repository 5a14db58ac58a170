/* SPDX-License-Identifier: MIT */
/*
 * The worker's passes, its loop on fibers, and how it goes to sleep.
 *
 * Sleeping is dear (about 25 us to wake a halted core), so a worker first spins on its inbox for
 * twice that long, but only while all workers and blocking clients together fit the cores. Then it
 * says that it sleeps, looks once more, and waits in uv_run for its eventfd or its timer. Only a
 * sleeper is ever written to.
 */
#include "runtime/worker.h"

#include "runtime/hosted.h"

#include "teff/status.h"

#include <string.h>

/* How often a spinning worker looks at its inbox between two looks at the clock. */
enum { SPINS_PER_LOOK = 64 };

enum { LOOP_NONE = 0, LOOP_WAKEUP, LOOP_LOOP, LOOP_POLL };

/* The loop that every fiber of the pool runs. */
static void scheduler(void *argument)
{
    teff__worker *worker = argument;
    for (;;) {
        teff__item *item = (teff__item *)worker->run_queue.head;
        teff__fiber *self = worker->current;
        if (TEFF__UNLIKELY(item == NULL || worker->budget == 0)) {
            /* this fiber stays `current` for the next pass */
            teff__fiber_switch(self, &worker->host);
            continue;
        }
        worker->budget--;
        worker->run_queue.head = item->link.next;
        teff__worker_prefetch(worker);
        if (item->run != NULL) {
            item->run(worker, item);
        } else {
            teff__fiber *ready = ((teff__waiter *)item)->fiber;
            worker->current = ready;
            teff__fiber_pool_put(&worker->fibers, self);
            teff__fiber_switch(self, ready);
        }
    }
}

static void run_items(teff__worker *worker)
{
    if (worker->run_queue.head == NULL)
        return;
    worker->running = worker->stirred = true;
    teff__fiber_switch(&worker->host, worker->current);
    worker->running = false;
}

teff__pass teff__worker_pass(teff__worker *worker)
{
    const int64_t before = worker->now_ns;
    worker->now_ns = teff__clock_now_ns(worker->clock);
    /*
     * A slow pass makes the clock and the inbox wait: so few items that `now` is renewed after each
     * slow one.
     */
    if (TEFF__UNLIKELY(worker->now_ns - before > worker->slow_ns))
        worker->budget_next = worker->budget_next > 1 ? worker->budget_next / 2 : 1;
    else if (worker->budget_next < TEFF__PASS_BUDGET_MAX)
        worker->budget_next *= 2;
    worker->budget = worker->budget_next;

    teff__link *mail = teff__inbox_take(&worker->inbox);
    if (mail != NULL)
        worker->stirred = true;
    while (mail != NULL) {
        teff__link *next = mail->next;
        worker->ops->deliver(worker, mail);
        mail = next;
    }
    teff__timers_run(&worker->timers, worker->now_ns);
    worker->ops->sweep(worker);
    run_items(worker);
    if (!worker->ops->flush(worker))
        return TEFF__PASS_ENDED;
    return worker->run_queue.head != NULL || !teff__inbox_empty(&worker->inbox) ? TEFF__PASS_MORE
                                                                                : TEFF__PASS_IDLE;
}

int64_t teff__worker_due_ns(teff__worker *worker)
{
    const int64_t sweep = worker->ops->due_ns(worker),
                  timer = teff__timers_next_ns(&worker->timers);
    return sweep < timer ? sweep : timer;
}

/* Spins until mail arrives. False: it did not, in time. */
static bool spin(teff__worker *worker, int64_t due_ns)
{
    if (!teff__spinners_fit(worker->spinners))
        return false;
    int64_t end = teff__clock_now_ns(worker->clock) + TEFF__SPIN_NS;
    if (due_ns < end)
        end = due_ns;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (!teff__inbox_empty(&worker->inbox))
                return true;
            teff__cpu_relax();
        }
    } while (teff__clock_now_ns(worker->clock) < end);
    return false;
}

/*
 * uv_run returns, and the next pass finds what is due. Stopped, since libuv before 1.45 runs due
 * timers ahead of its poll too: one that comes due between its start and then would be over, and
 * the poll wait for mail alone.
 */
static void on_wake_timer(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

void teff__worker_on_wake(uv_poll_t *poll, int status, int events)
{
    teff__worker *worker = poll->data;
    (void)status;
    (void)events;
    teff__wakeup_clear(worker->wake_fd);
}

void teff__worker_set_alarm(teff__worker *worker, int64_t due_ns, uv_timer_cb on_alarm)
{
    const int64_t wait_ns = due_ns - teff__clock_now_ns(worker->clock);
    const uint64_t wait_ms = wait_ns > 0 ? ((uint64_t)wait_ns + 999999) / 1000000 : 0;
    uv_update_time(worker->loop);
    (void)uv_timer_start(&worker->wake_timer, on_alarm, wait_ms, 0);
}

static void park(teff__worker *worker)
{
    const int64_t due_ns = teff__worker_due_ns(worker);
    if (spin(worker, due_ns) || teff__clock_now_ns(worker->clock) >= due_ns)
        return;
    teff__fiber_pool_trim(&worker->fibers, TEFF__TRIM_AT_ONCE);
    if (!teff__inbox_sleep(&worker->inbox))
        return;
    if (due_ns != INT64_MAX)
        teff__worker_set_alarm(worker, due_ns, on_wake_timer);
    teff__atomic_u64_increment_owner(&worker->parked);
    teff__spinners_remove(worker->spinners);
    (void)uv_run(worker->loop, UV_RUN_ONCE);
    teff__spinners_add(worker->spinners);
    teff__inbox_awake(&worker->inbox);
    if (due_ns != INT64_MAX)
        (void)uv_timer_stop(&worker->wake_timer);
}

void teff__worker_main(void *argument)
{
    teff__worker *worker = argument;
    teff__atomic_u64_store_relaxed(&worker->thread, teff__thread_self());
    teff__fiber_adopt(&worker->host);
    teff__spinners_add(worker->spinners);
    if (worker->ops->begin(worker) == 0) {
        teff__pass pass;
        while ((pass = teff__worker_pass(worker)) != TEFF__PASS_ENDED) {
            if (pass == TEFF__PASS_IDLE)
                park(worker);
        }
    }
    worker->ops->end(worker);
    teff__atomic_u64_store_relaxed(&worker->thread, 0); /* a later thread may be called the same */
}

void teff__worker_post_chain(teff__worker *worker, teff__link *newest, teff__link *oldest)
{
    if (TEFF__LIKELY(!teff__inbox_push_chain(&worker->inbox, newest, oldest)))
        return;
    if (worker->hosted)
        teff__hosted_wake(worker);
    else
        teff__wakeup_send(worker->wake_fd);
}

static int loop_init(teff__worker *worker)
{
    int r = teff__wakeup_open(&worker->wake_fd);
    if (r != 0)
        return r;
    worker->loop_state = LOOP_WAKEUP;
    if (worker->hosted)
        return 0;
    r = uv_loop_init(&worker->own_loop);
    if (r != 0)
        return r;
    worker->loop_state = LOOP_LOOP;
    worker->loop = &worker->own_loop;
    (void)uv_timer_init(worker->loop, &worker->wake_timer);
    r = uv_poll_init(worker->loop, &worker->wake_poll, worker->wake_fd);
    if (r != 0)
        return r;
    worker->loop_state = LOOP_POLL;
    worker->wake_poll.data = worker;
    return uv_poll_start(&worker->wake_poll, UV_READABLE, teff__worker_on_wake);
}

static void loop_finish(teff__worker *worker)
{
    teff_assert(worker->hosting.open == 0);
    if (worker->loop_state >= LOOP_LOOP) {
        uv_close((uv_handle_t *)&worker->wake_timer, NULL);
        if (worker->loop_state >= LOOP_POLL)
            uv_close((uv_handle_t *)&worker->wake_poll, NULL);
        (void)uv_run(worker->loop, UV_RUN_DEFAULT);
        teff_assert(uv_loop_close(worker->loop) == 0);
    }
    if (worker->loop_state >= LOOP_WAKEUP)
        teff__wakeup_close(worker->wake_fd);
    worker->loop_state = LOOP_NONE;
    worker->wake_fd = -1;
}

int teff__worker_init(teff__worker *worker, const teff__worker_options *options)
{
    memset(worker, 0, sizeof(*worker));
    worker->index = options->index;
    worker->clock = options->clock;
    worker->spinners = options->spinners;
    worker->ops = options->ops;
    worker->loop = options->loop;
    worker->hosted = options->loop != NULL;
    worker->slow_ns = worker->hosted ? TEFF__SLICE_NS : TEFF__PASS_SLOW_NS;
    worker->guest = worker->hosted || options->clock->simulated;
    worker->wake_fd = -1;
    worker->budget_next = TEFF__PASS_BUDGET_MAX;
    worker->now_ns = teff__clock_now_ns(options->clock);
    teff__queue_init(&worker->run_queue);
    teff__timers_init(&worker->timers);
    teff__inbox_init(&worker->inbox);
    /*
     * Beside what is suspended, one for the loop to go on upon; beyond all numbers it is the
     * default again.
     */
    const uint32_t fibers_max = options->suspended_max != 0 ? options->suspended_max + 1 : 0;
    int r = teff__fiber_pool_init(&worker->fibers, options->memory, options->stack_bytes,
                                  fibers_max, scheduler, worker);
    if (r != 0)
        return r;
    r = teff__worker_reserve(worker);
    if (r == 0) {
        worker->current = teff__fiber_pool_take(&worker->fibers);
        if (!options->clock->simulated)
            r = loop_init(worker);
    }
    if (r != 0)
        teff__worker_finish(worker);
    return r;
}

void teff__worker_finish(teff__worker *worker)
{
    loop_finish(worker);
    teff__fiber_pool_finish(&worker->fibers);
}
