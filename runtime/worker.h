/* SPDX-License-Identifier: MIT */
/*
 * A worker: one thread, one uv loop, a run queue, an inbox, timers, and fibers to run turns on.
 * Thread and loop are its own, or the program's (runtime/hosted.h).
 *
 * A pass takes what lies in the inbox, runs the timers and sweeps that are due, runs items of the
 * run queue until the budget is spent or none is left, and posts what they sent. Items run on a
 * fiber, never on the host's stack. The host is whoever drives the passes: the worker's own thread,
 * callbacks of the program's loop, or the program that simulates it. uv_run is beneath the host at
 * most, never beneath an item: no callback waits for one that is suspended.
 *
 * An item is called as a plain function on the loop's fiber. When it must wait it suspends: its
 * fiber keeps the frames, and the loop goes on upon another fiber of the pool. When it is ready
 * again it goes through the run queue like everything else, and the loop's fiber of that moment
 * returns to the pool.
 *
 *   host ── pass ──► fiber A: loop ─► item ─► suspends ┐
 *                    fiber B: loop ◄───────────────────┘ … ─► A is ready: B to the pool, A goes on
 *
 * What the mail means, what is to be swept and when the worker may end is not the worker's to know:
 * see teff__worker_ops.
 *
 * Threads: everything belongs to the worker's thread, except teff__worker_post_chain and the fields
 * marked otherwise.
 */
#ifndef TEFF_RUNTIME_WORKER_H
#define TEFF_RUNTIME_WORKER_H

#include "runtime/clock.h"
#include "runtime/fiber.h"
#include "runtime/inbox.h"
#include "runtime/thread.h"
#include "runtime/timers.h"

#include <string.h>
#include <uv.h>

typedef struct teff__worker teff__worker;

/*
 * Something to run. `run` NULL: the item is the waiter of a suspended fiber. Behind every item
 * stand two pointers to what a run of it touches first, as a waiter's fiber and answer, or the ends
 * of an activation's mailbox: see prefetch.
 */
typedef struct teff__item {
    teff__link link;
    void (*run)(teff__worker *worker, struct teff__item *item);
} teff__item;

/* Stands in the frame that is suspended. */
typedef struct teff__waiter {
    teff__item item;
    teff__fiber *fiber;
    void *answer; /* what it waits for; for the one that suspends to use */
} teff__waiter;

/* The parts that stand above the worker. None of these may suspend. */
typedef struct teff__worker_ops {
    /* One piece of mail from the inbox; the callee owns it. */
    void (*deliver)(teff__worker *worker, teff__link *mail);
    /* Once a pass, after the mail: ends what is due by worker->now_ns. */
    void (*sweep)(teff__worker *worker);
    /*
     * Once a pass, at its end: posts what was sent meanwhile. False: nothing is left to do, ever.
     */
    bool (*flush)(teff__worker *worker);
    /* When the next sweep is due at the latest; INT64_MAX: not before something happens. */
    int64_t (*due_ns)(teff__worker *worker);
    /* On the worker's thread, before the first pass and after the last one. */
    int (*begin)(teff__worker *worker);
    void (*end)(teff__worker *worker);
} teff__worker_ops;

/*
 * How many threads of a silo are awake and for how many there are cores: only while they all fit
 * does waiting by spinning pay. A worker counts until it parks; a blocking client from its first
 * wait until one that was longer than its spinning.
 */
typedef struct teff__spinners {
    teff__atomic_u32 threads;
    uint32_t cores; /* set at start */
} teff__spinners;

static inline bool teff__spinners_fit(const teff__spinners *spinners)
{
    return teff__atomic_u32_load_relaxed(&spinners->threads) <= spinners->cores;
}

static inline void teff__spinners_add(teff__spinners *spinners)
{
    (void)teff__atomic_u32_add_relaxed(&spinners->threads, 1);
}

static inline void teff__spinners_remove(teff__spinners *spinners)
{
    (void)teff__atomic_u32_add_relaxed(&spinners->threads, UINT32_MAX);
}

enum {
    TEFF__PASS_BUDGET_MAX = 64, /* items: a clock read of 22 ns is then 0.3 ns an item */
    TEFF__PASS_SLOW_NS = 1000000,
    /*
     * On the program's loop: how long passes go on before its callbacks get their turn, and what a
     * slow one is there. Polling costs about half a microsecond, a hundredth of it.
     */
    TEFF__SLICE_NS = 50000,
    TEFF__SPIN_NS = 50000, /* twice what waking a halted core costs (25 us) */
    /* Stacks to be looked at before one sleep: giving one back may take up to a millisecond. */
    TEFF__TRIM_AT_ONCE = 8
};

/* What a worker keeps on a loop of the program's, beside what wakes it. The loop's thread only. */
typedef struct teff__hosting {
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;   /* active: the loop is not to block */
    uint32_t open;    /* handles, the two that wake it included, that are not closed yet */
    int64_t alarm_ns; /* what the wake timer was last set for */
} teff__hosting;

struct teff__worker {
    teff__queue run_queue;
    teff__fiber *current; /* the fiber that runs now, or would */
    teff__fiber_pool fibers;
    teff__fiber host;
    uint32_t budget, budget_next;
    int64_t now_ns;  /* read once a pass */
    int64_t slow_ns; /* a pass that took longer halves the next one's budget, down to one item */
    const teff__worker_ops *ops;
    teff__timers timers;
    const teff__clock *clock;
    teff__spinners *spinners;
    teff__atomic_u64 thread; /* which thread runs passes; 0: it has ended. That thread; anybody */
    uint32_t index;
    bool running;    /* items run at the moment */
    bool stirred;    /* mail came or items ran, since whoever wants to know cleared it */
    bool guest;      /* the thread is the program's: the worker's while items run, and only then */
    bool hosted;     /* on a loop of the program's; then it is a guest too */
    uv_loop_t *loop; /* NULL: simulated */
    uv_loop_t own_loop;
    uv_poll_t wake_poll;
    uv_timer_t wake_timer;
    int wake_fd;
    int loop_state; /* how much of the above exists, for finish */
    teff__hosting hosting;
    teff__thread own_thread;
    teff__atomic_u64 parked; /* statistic: how often the worker went to sleep */
    teff__inbox inbox;       /* any thread pushes */
};

typedef struct teff__worker_options {
    uint32_t index;
    teff__memory *memory;
    const teff__clock *clock;
    teff__spinners *spinners;
    const teff__worker_ops *ops;
    uv_loop_t *loop;        /* the program's; NULL: one of its own, unless simulated */
    size_t stack_bytes;     /* 0: the default */
    uint32_t suspended_max; /* 0: the default */
} teff__worker_options;

/*
 * In given memory. What fails is undone. A simulated clock makes a worker without loop and wake-up;
 * a loop of the program's is not touched before teff__hosted_start.
 */
TEFF__INTERNAL int teff__worker_init(teff__worker *worker, const teff__worker_options *options);
TEFF__INTERNAL void teff__worker_finish(teff__worker *worker);

/* The worker's thread: passes until flush says that nothing is left. */
TEFF__INTERNAL void teff__worker_main(void *worker);

/* What a pass leaves behind. */
typedef enum teff__pass {
    TEFF__PASS_MORE, /* something is runnable, or lies in the inbox, right now */
    TEFF__PASS_IDLE, /* nothing to do before the next mail or teff__worker_due_ns */
    TEFF__PASS_ENDED /* nothing to do, ever: flush said so */
} teff__pass;

TEFF__INTERNAL teff__pass teff__worker_pass(teff__worker *worker);

/* The next moment at which something is due: a timer or a sweep. INT64_MAX: none. */
TEFF__INTERNAL int64_t teff__worker_due_ns(teff__worker *worker);

/* Sets the wake timer for `due_ns`, in whole milliseconds: the loop has no finer ones. */
TEFF__INTERNAL void teff__worker_set_alarm(teff__worker *worker, int64_t due_ns,
                                           uv_timer_cb on_alarm);

/* The wake poll's callback. */
TEFF__INTERNAL void teff__worker_on_wake(uv_poll_t *poll, int status, int events);

/* Posts a chain to the worker's inbox, newest first, and wakes it where it sleeps. Any thread. */
TEFF__INTERNAL void teff__worker_post_chain(teff__worker *worker, teff__link *newest,
                                            teff__link *oldest);

/* Makes sure that an item may suspend: 0, TEFF_ELIMIT (too many are suspended) or TEFF_ENOMEM. */
static inline int teff__worker_reserve(teff__worker *worker)
{
    return teff__fiber_pool_reserve(&worker->fibers);
}

static inline void teff__worker_push(teff__worker *worker, teff__item *item)
{
    teff__queue_push(&worker->run_queue, &item->link);
}

/*
 * With many callers nothing that an item needs is in the first-level cache when its turn comes. So
 * while one runs, what the next one needs first is fetched, and the item after that.
 */
static inline void teff__worker_prefetch(const teff__worker *worker)
{
    const teff__item *next = (const teff__item *)worker->run_queue.head;
    if (next == NULL)
        return;
    void *needs[2];
    memcpy(needs, next + 1, sizeof(needs));
    __builtin_prefetch(needs[0]);
    __builtin_prefetch(needs[1]);
    __builtin_prefetch(next->link.next);
}

/*
 * Suspends the running item after a successful reserve; returns once teff__worker_ready was called
 * and its turn came.
 *
 * Where the next item is a suspended fiber too, this one hands over to it directly; the loop, on a
 * fiber of its own, is needed only for items that are yet to be called.
 */
static inline void teff__worker_suspend(teff__worker *worker, teff__waiter *waiter)
{
    teff__fiber *self = worker->current, *next;
    teff__item *item = (teff__item *)worker->run_queue.head;
    waiter->item.run = NULL;
    waiter->fiber = self;
    if (item != NULL && item->run == NULL && worker->budget > 0) {
        worker->budget--;
        worker->run_queue.head = item->link.next;
        teff__worker_prefetch(worker);
        next = ((teff__waiter *)item)->fiber;
    } else {
        next = teff__fiber_pool_take(&worker->fibers);
    }
    worker->current = next;
    teff__fiber_switch(self, next);
}

/* Lets a suspended item go on, once. */
static inline void teff__worker_ready(teff__worker *worker, teff__waiter *waiter)
{
    teff__worker_push(worker, &waiter->item);
}

/*
 * True when called from the worker's own thread or, where that is the program's, from one of its
 * items.
 */
static inline bool teff__worker_here(const teff__worker *worker)
{
    return teff__atomic_u64_load_relaxed(&worker->thread) == teff__thread_self() &&
           (worker->running || !worker->guest);
}

#endif
