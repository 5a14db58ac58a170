/* SPDX-License-Identifier: MIT */
/*
 * The floor of everything that crosses cores: one cache line, there and back between two pinned
 * threads. On a virtual machine it changes by a factor of ten with where the host puts the cores,
 * so whatever crosses is compared with the figure of the same minute.
 */
#ifndef TEFF_BENCHMARKS_LINE_H
#define TEFF_BENCHMARKS_LINE_H

#include <stdint.h>

/*
 * Nanoseconds of one round trip, over `duration_ns` after a short warm-up. 0, or -1 when no thread
 * could be started.
 */
int line_round_trip(int64_t duration_ns, double *ret_ns);

#endif
