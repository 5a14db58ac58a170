/* SPDX-License-Identifier: MIT */
/* How much memory a subject of `callbacks` keeps. */
#ifndef TEFF_BENCHMARKS_CALLBACKS_MEMORY_H
#define TEFF_BENCHMARKS_CALLBACKS_MEMORY_H

#include "benchmarks/callbacks.h"

typedef struct callbacks_memory {
    double bytes;    /* asked for, and of reserved space touched; NAN: the subject does not know */
    double resident; /* more pages than before, of all of it; NAN where /proc does not tell */
} callbacks_memory;

/*
 * With so many live callbacks, a table's entries included; 0: just made. Measured in a process of its
 * own, which finds no pages that another measurement has left. 0, or -1.
 */
int callbacks_memory_measure(const callbacks_subject *subject, uint64_t live,
                             callbacks_memory *ret);

#endif
