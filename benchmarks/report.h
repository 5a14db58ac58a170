/* SPDX-License-Identifier: MIT */
/*
 * What the harness prints: the first line of a run, and its rows as JSON. For harness.c; tables are
 * in harness.h.
 */
#ifndef TEFF_BENCHMARKS_REPORT_H
#define TEFF_BENCHMARKS_REPORT_H

#include "benchmarks/harness.h"

/* The first line: compiler, flags, cores, processor, allocator, commit and date. */
void report_run(void);

/* 0, or -1 with errno when the file cannot be written. */
int report_json(const bench_program *bench, const char *path);

#endif
