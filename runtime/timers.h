/* SPDX-License-Identifier: MIT */
/*
 * Timers of one worker: an intrusive pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986),
 * ordered by deadline and, among equals, by the order in which they were started, so that a
 * simulated silo repeats itself. Starting one needs no memory and so cannot fail.
 *
 * Threads: the owner only.
 */
#ifndef TEFF_RUNTIME_TIMERS_H
#define TEFF_RUNTIME_TIMERS_H

#include "runtime/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct teff__timer {
    struct teff__timer *child, *sibling;
    struct teff__timer *previous; /* the left sibling; of a first child, its parent */
    int64_t deadline_ns;
    uint64_t number; /* the order of starting; 0: not started */
    void (*expired)(struct teff__timer *timer);
} teff__timer;

typedef struct teff__timers {
    teff__timer *first;
    uint64_t number;
} teff__timers;

static inline void teff__timers_init(teff__timers *timers)
{
    timers->first = NULL;
    timers->number = 0;
}

/*
 * Borrows `timer`, which is zeroed before its first start, until it expired or was stopped.
 * `expired` runs from teff__timers_run, may start and stop any timer, and must not suspend.
 */
TEFF__INTERNAL void teff__timers_start(teff__timers *timers, teff__timer *timer,
                                       int64_t deadline_ns, void (*expired)(teff__timer *timer));

/* True when the timer was started and has not expired. */
static inline bool teff__timer_started(const teff__timer *timer)
{
    return timer->number != 0;
}

/* Stops a started timer. */
TEFF__INTERNAL void teff__timers_stop(teff__timers *timers, teff__timer *timer);

/* Runs what is due at `now_ns`, in order of deadline; what is started meanwhile too, if due. */
TEFF__INTERNAL void teff__timers_run(teff__timers *timers, int64_t now_ns);

/* The earliest deadline, or INT64_MAX. */
static inline int64_t teff__timers_next_ns(const teff__timers *timers)
{
    return timers->first != NULL ? timers->first->deadline_ns : INT64_MAX;
}

#endif
