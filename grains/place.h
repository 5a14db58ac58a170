/* SPDX-License-Identifier: MIT */
/*
 * Placement: on which worker an activation is made that there is not.
 *
 * Threads: the worker's; the counts of other workers' activations are statistics.
 */
#ifndef TEFF_GRAINS_PLACE_H
#define TEFF_GRAINS_PLACE_H

#include "grains/catalog.h"

/*
 * The worker's number. `place`: what the call asked for (teff_call_options), or 0. Asked where a
 * call is routed first: on its caller's worker or, a client's, on that of the grain's hash.
 */
TEFF__INTERNAL uint32_t teff__place(const teff__catalog *catalog, const teff__type *type,
                                    uint64_t hash, uint32_t place);

#endif
