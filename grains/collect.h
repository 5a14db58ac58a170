/* SPDX-License-Identifier: MIT */
/*
 * The collector: which of a worker's activations are idle for so long that they go.
 *
 * A call marks its activation with the pass's coarse time, and that is all it pays. When an
 * activation might be old enough it is looked at: it goes, or it was used meanwhile and is looked
 * at again when it might be. So what is spent is in proportion to what goes and to what is used, not
 * to what is there.
 *
 * Threads: the worker's, but for teff__collect_post.
 */
#ifndef TEFF_GRAINS_COLLECT_H
#define TEFF_GRAINS_COLLECT_H

#include "grains/activation.h"

typedef struct teff__catalog teff__catalog;

typedef struct teff__collector {
    teff__ring idle;
} teff__collector;

TEFF__INTERNAL void teff__collector_init(teff__catalog *catalog);

/* An activation became valid; it goes, for whatever reason. */
TEFF__INTERNAL void teff__collect_enter(teff__catalog *catalog, teff__activation *activation);
TEFF__INTERNAL void teff__collect_leave(teff__catalog *catalog, teff__activation *activation);

/* Once a pass. */
TEFF__INTERNAL void teff__collect_pass(teff__catalog *catalog);

/* When it has something to do at the latest; INT64_MAX: nothing. */
TEFF__INTERNAL int64_t teff__collect_due_ns(const teff__catalog *catalog);

/* See teff_turn_delay_deactivation. */
TEFF__INTERNAL void teff__collect_delay(teff__catalog *catalog, teff__activation *activation,
                                        int64_t duration_ns);

#endif
