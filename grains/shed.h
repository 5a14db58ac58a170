/* SPDX-License-Identifier: MIT */
/*
 * Shedding: how many grains are to go where memory is short. Every worker looks for itself, and
 * sheds its own share: of its activations as many stay as the target is of what is used.
 *
 * Threads: decide: any; the rest: the worker's.
 */
#ifndef TEFF_GRAINS_SHED_H
#define TEFF_GRAINS_SHED_H

#include "runtime/assert.h"

#include <stdint.h>

typedef struct teff__catalog teff__catalog;
typedef struct teff__grains teff__grains;

/* What is used, of how much. */
typedef struct teff__memory_use {
    uint64_t used_bytes, max_bytes;
} teff__memory_use;

/*
 * How many of `count` activations are to go: 0 where less than at_percent is used, else all but
 * floor(count x target / used).
 */
TEFF__INTERNAL uint64_t teff__shed_decide(const teff__memory_use *use, uint32_t at_percent,
                                          uint32_t to_percent, uint64_t count);

/*
 * Of what the silo may allocate (memory_bytes_max); where that has no limit, of what the system
 * lets this process have: of its control group's memory what the process has, or of all memory
 * what is not available. Takes about 20 us in the latter case. What teff__grains.memory_use is.
 */
TEFF__INTERNAL teff__memory_use teff__shed_memory_use(const teff__grains *grains);

/* How many of this worker's activations are to go now. Reads no memory where there are none. */
TEFF__INTERNAL uint64_t teff__shed_look(teff__catalog *catalog);

#endif
