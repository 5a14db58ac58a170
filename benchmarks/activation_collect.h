/* SPDX-License-Identifier: MIT */
/*
 * What does it cost that idle grains go, and who notices?
 *
 *   collect.pause           the longest time that a worker had nothing for others: the longest call
 *                           of a task to a grain beside it, one after the other, while `collected`
 *                           of `grains` are collected on that worker
 *   collect.pause_cpu       the same of 64 calls together in the worker's own CPU time, so without what
 *                           other processes took from its core
 *   collect.ping_p99_ratio  the 99th percentile of those calls as a ratio to that of the same calls
 *                           before, of the same round
 *   collect.ns              for each that goes, where the worker has nothing else to do
 */
#ifndef TEFF_BENCHMARKS_ACTIVATION_COLLECT_H
#define TEFF_BENCHMARKS_ACTIVATION_COLLECT_H

#include "benchmarks/harness.h"

/* Adds the rows. 0, or the bench has failed. */
int activation_collect(bench_program *bench, int64_t grains, int64_t collected, int64_t rounds);

#endif
