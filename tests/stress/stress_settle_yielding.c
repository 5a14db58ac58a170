/* SPDX-License-Identifier: MIT */
/*
 * The registry with other threads let in, at random, before any access to a word that they share:
 * so stress_settle meets on two cores what many cores meet, such as a callback that was claimed and
 * is not handed over yet. The linker takes this registry before the library's.
 */
#include <sched.h>
#include <stdint.h>

static void yield_at_times(void)
{
    static _Thread_local uint64_t state;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    if (state >> 59 == 0)
        (void)sched_yield();
}
#define TEFF__YIELD_POINT() yield_at_times()

#include "messaging/registry.c"
