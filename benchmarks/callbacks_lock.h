/* SPDX-License-Identifier: MIT */
/*
 * A spin lock that lets its holder run, for what stands beside the registry; counts who waited.
 *
 * Threads: any.
 */
#ifndef TEFF_BENCHMARKS_CALLBACKS_LOCK_H
#define TEFF_BENCHMARKS_CALLBACKS_LOCK_H

#include "runtime/assert.h"
#include "runtime/atomic.h"

#include <sched.h>

enum { LOCK_TRIES = 64 /* of pauses, before the core is given away */ };

static __attribute__((noinline)) void lock_wait(teff__atomic_u32 *locked, uint64_t *waits)
{
    ++*waits;
    for (int tries = 1;; tries++) {
        if (teff__atomic_u32_load_relaxed(locked) == 0 &&
            teff__atomic_u32_exchange_acquire(locked, 1) == 0)
            return;
        if (tries % LOCK_TRIES == 0)
            (void)sched_yield();
        else
            teff__cpu_relax();
    }
}

static inline void lock_take(teff__atomic_u32 *locked, uint64_t *waits)
{
    if (TEFF__UNLIKELY(teff__atomic_u32_exchange_acquire(locked, 1) != 0))
        lock_wait(locked, waits);
}

static inline void lock_give(teff__atomic_u32 *locked)
{
    teff__atomic_u32_store_release(locked, 0); /* pairs with the exchanges */
}

#endif
