/* SPDX-License-Identifier: MIT */
/*
 * The clock of a silo: monotonic nanoseconds, or simulated ones that stand still until they are
 * advanced.
 *
 * Threads: now is for any thread; set belongs to the one that runs the simulation.
 */
#ifndef TEFF_RUNTIME_CLOCK_H
#define TEFF_RUNTIME_CLOCK_H

#include "runtime/atomic.h"

#include <time.h>

typedef struct teff__clock {
    bool simulated;
    int64_t simulated_ns; /* only the simulating thread */
} teff__clock;

/* A simulated clock begins at one second, so that no deadline is 0 or negative. */
static inline void teff__clock_init(teff__clock *clock, bool simulated)
{
    clock->simulated = simulated;
    clock->simulated_ns = INT64_C(1000000000);
}

static inline int64_t teff__clock_now_ns(const teff__clock *clock)
{
    struct timespec now;
    if (clock->simulated)
        return clock->simulated_ns;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/*
 * Coarse time, to mark what is used: units of 2^20 ns, about a millisecond, modulo 2^32, which is 52
 * days. Only differences mean anything.
 */
static inline uint32_t teff__coarse(int64_t now_ns)
{
    return (uint32_t)((uint64_t)now_ns >> 20);
}

/* a + b, which stays at INT64_MAX where it would overflow; b is not negative. */
static inline int64_t teff__time_add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

#endif
