/* SPDX-License-Identifier: MIT */
/*
 * A measurement in a process of its own: memory that an allocator kept from the one before would
 * hide the next one's, and pages that are there already cost no fault.
 *
 * Threads: the main one, and while there is no other.
 */
#ifndef TEFF_BENCHMARKS_APART_H
#define TEFF_BENCHMARKS_APART_H

#include <stddef.h>

/*
 * Forks, and has `run` fill in `count` numbers there. The process ends as soon as it returns, so it
 * need not take anything down. 0; -1: there was no process, it ended otherwise, or `run` returned
 * something else than 0; what is in `ret` then means nothing.
 */
int apart_run(int (*run)(void *user, double *ret), void *user, double *ret, size_t count);

#endif
