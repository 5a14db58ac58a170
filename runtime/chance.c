/* SPDX-License-Identifier: MIT */
/*
 * Chance: a seed, and splitmix64 from there on.
 *
 * Guy L. Steele, Doug Lea, Christine H. Flood: "Fast splittable pseudorandom number generators",
 * OOPSLA 2014; the constants are those of Sebastiano Vigna's version, which are David Stafford's
 * "Mix13".
 */
#include "runtime/chance.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <time.h>

/*
 * A sandbox may forbid getrandom. The kernel has also left 16 random bytes in every process; they
 * are the same for all silos of it, so the clock is added to tell them apart.
 */
static uint64_t seed_without_getrandom(void)
{
    struct timespec now = { 0, 0 };
    uint64_t seed = 0;
    const void *given = (const void *)getauxval(AT_RANDOM);
    if (given != NULL)
        memcpy(&seed, given, sizeof(seed));
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return seed + (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t seed_from_kernel(void)
{
    uint64_t seed;
    ssize_t got;
    do
        got = getrandom(&seed, sizeof(seed), 0);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof(seed) ? seed : seed_without_getrandom();
}

void teff__chance_init(teff__chance *chance, uint64_t seed)
{
    chance->state = seed != 0 ? seed : seed_from_kernel();
}

uint64_t teff__chance_next(teff__chance *chance)
{
    chance->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = chance->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
