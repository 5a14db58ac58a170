/* SPDX-License-Identifier: MIT */
/*
 * The library's registry with other numbers of stripes: 8, 16, 32, 64, 128 and 256.
 *
 * The number is fixed where the library is compiled. callbacks_stripes.c is compiled once for each,
 * the registry's source with it, so each number is measured with the code that it would have.
 */
#ifndef TEFF_BENCHMARKS_CALLBACKS_SWEEP_H
#define TEFF_BENCHMARKS_CALLBACKS_SWEEP_H

#include "benchmarks/callbacks.h"
#include "benchmarks/harness.h"

enum {
    CALLBACKS_STRIPES_THREADS = 4 /* the fewest stripes give four to workers, four to clients */
};

/* The three ways to use a registry with so many stripes. */
typedef struct callbacks_stripes {
    unsigned count;
    callbacks_subject owners;  /* workers, each with its stripes */
    callbacks_subject clients; /* each with its stripe */
    callbacks_subject forced;  /* clients that share one stripe, under a lock */
} callbacks_stripes;

extern const callbacks_stripes callbacks_stripes_3, callbacks_stripes_4, callbacks_stripes_5,
    callbacks_stripes_6, callbacks_stripes_7, callbacks_stripes_8; /* by bits */

/* Measures and prints all of it, and adds its rows. */
void callbacks_sweep(bench_program *bench, int64_t rounds, uint64_t lifecycles, uint64_t lookups);

#endif
