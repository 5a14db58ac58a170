/* SPDX-License-Identifier: MIT */
/*
 * Notices: what a worker lets the program know; see teff_notice.
 *
 * The program's function runs on the host's stack, between turns and outside of locks. What comes
 * up in a turn is kept for the next pass, which is at most so far away as this one is long.
 *
 * Threads: the worker's.
 */
#ifndef TEFF_GRAINS_NOTICE_H
#define TEFF_GRAINS_NOTICE_H

#include "grains/catalog.h"

#include "teff/inspect.h"

/*
 * `activation` NULL: it is about no grain. `count` is what the kind counts, or 0. False: nobody will
 * be told, as too many are kept already; where nobody wants to know that is no failure.
 */
TEFF__INTERNAL bool teff__notice(teff__catalog *catalog, teff_notice_kind kind,
                                 const teff__activation *activation, uint64_t count);

/* Once a pass: gives those that were kept. */
TEFF__INTERNAL void teff__notices_tell(teff__catalog *catalog);

#endif
