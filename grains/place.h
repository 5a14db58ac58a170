/* SPDX-License-Identifier: MIT */
/*
 * Placement: on which worker an activation is made that there is not.
 *
 * Threads: the worker's; the counts of other workers' activations are statistics.
 */
#ifndef TEFF_GRAINS_PLACE_H
#define TEFF_GRAINS_PLACE_H

#include "grains/catalog.h"

/* As a message's `place`: it was decided, and is counted. */
enum { TEFF__PLACE_COUNTED = UINT8_MAX };

/*
 * The worker's number. `place`: what the call asked for (teff_call_options), or 0. Asked where a
 * call is routed first: on its caller's worker or, a client's, on that of the grain's hash.
 */
TEFF__INTERNAL uint32_t teff__place(const teff__catalog *catalog, const teff__type *type,
                                    uint64_t hash, uint32_t place);

/*
 * A request makes an activation on another worker, and has come there: in between it counts as one
 * of that worker's, or many calls at once would all find the same worker with the fewest.
 */
TEFF__INTERNAL void teff__place_sent(const teff__catalog *catalog, uint32_t worker,
                                     teff__message *message);
TEFF__INTERNAL void teff__place_arrived(teff__catalog *catalog, teff__message *message);

#endif
