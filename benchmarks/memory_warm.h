/* SPDX-License-Identifier: MIT */
/*
 * What a warm call costs while so many grains are resident, beside a plain hash table of the same
 * size with the same accesses in the same minutes.
 *
 *   warm.{uniform,zipf}.N         by a reference that knows nothing: the grain is found by its id
 *   warm.kept.{uniform,zipf}.N    by a reference that was kept, and has a hint
 *   table.{uniform,zipf}.N        found and touched in the table, in a loop
 *   table.chain.{uniform,zipf}.N  the same where each look-up waits for the one before, as an awaited
 *                                 call does
 *   table.huge.*, .huge.chain.*   both with objects and entries in huge pages, not from malloc
 *   *.ratio                       to what the first size costs
 *
 * A call is awaited by a task on the grain's worker.
 */
#ifndef TEFF_BENCHMARKS_MEMORY_WARM_H
#define TEFF_BENCHMARKS_MEMORY_WARM_H

#include "benchmarks/harness.h"

enum { MEMORY_SIZES_MAX = 4 };

typedef struct memory_warm {
    int64_t sizes[MEMORY_SIZES_MAX]; /* ascending */
    unsigned size_count;
    int64_t rounds; /* processes for each size */
    int64_t calls;  /* of one pass in it */
} memory_warm;

/* Measures, adds the rows, and prints how they compare. */
void memory_warm_measure(bench_program *bench, const memory_warm *asked);

#endif
