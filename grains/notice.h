/* SPDX-License-Identifier: MIT */
/*
 * Notices: what a worker lets the program know; see teff_notice.
 *
 * Threads: the worker's.
 */
#ifndef TEFF_GRAINS_NOTICE_H
#define TEFF_GRAINS_NOTICE_H

#include "grains/catalog.h"

#include "teff/inspect.h"

/* `activation` NULL: it is about no grain. `count` is what the kind counts, or 0. */
TEFF__INTERNAL void teff__notice(teff__catalog *catalog, teff_notice_kind kind,
                                 const teff__activation *activation, uint64_t count);

#endif
