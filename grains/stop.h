/* SPDX-License-Identifier: MIT */
/*
 * A worker's part in stopping. The silo asks for one phase after the other, by a message to each
 * worker, and for the next when all have acknowledged:
 *
 *   drain        no new calls; until nothing runs or is suspended, or the stop limit has passed
 *   deactivate   every activation serves its mail and goes; until none is left, or a second later
 *   settle       what still waits is told TEFF_EUNAVAILABLE; until all have gone, or a second later
 *
 * All that a worker posted before it acknowledged lies in the inboxes before the next phase's
 * message does.
 *
 * Threads: the worker's.
 */
#ifndef TEFF_GRAINS_STOP_H
#define TEFF_GRAINS_STOP_H

#include "grains/catalog.h"

TEFF__INTERNAL void teff__stop_begin_phase(teff__catalog *catalog, teff__stop_phase phase);

/*
 * At the end of a pass in a phase: acknowledges it where it is done. False: the worker has nothing
 * left to do.
 */
TEFF__INTERNAL bool teff__stop_go_on(teff__catalog *catalog);

/* When the phase ends at the latest; INT64_MAX: none, or acknowledged. */
TEFF__INTERNAL int64_t teff__stop_due_ns(const teff__catalog *catalog);

#endif
