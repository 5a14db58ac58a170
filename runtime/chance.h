/* SPDX-License-Identifier: MIT */
/*
 * Chance: the one source of random numbers, hash seeds included. A seed of the user's makes all of
 * them repeat; without one the seed comes from the kernel.
 *
 * The generator is splitmix64 (Steele, Lea, Flood 2014). Threads: the owner only.
 */
#ifndef TEFF_RUNTIME_CHANCE_H
#define TEFF_RUNTIME_CHANCE_H

#include "runtime/assert.h"

#include <stdint.h>

typedef struct teff__chance {
    uint64_t state;
} teff__chance;

/* `seed` 0: from the kernel. */
TEFF__INTERNAL void teff__chance_init(teff__chance *chance, uint64_t seed);
TEFF__INTERNAL uint64_t teff__chance_next(teff__chance *chance);

#endif
