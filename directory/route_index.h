/* SPDX-License-Identifier: MIT */
/*
 * The index of a route cache: grain id → slot. Open addressing with linear probing in words of 32
 * bits, a slot and eight bits of the hash, so that a probe touches an entry only where it very
 * likely matches. Removal shifts back: there are no tombstones.
 */
#ifndef TEFF_DIRECTORY_ROUTE_INDEX_H
#define TEFF_DIRECTORY_ROUTE_INDEX_H

#include "directory/route.h"

/* Makes room for one more. TEFF_ENOMEM. */
TEFF__INTERNAL int teff__routes_index_reserve(teff__routes *routes);

/* Adds an entry whose grain is not there, after a successful reserve. */
TEFF__INTERNAL void teff__routes_index_add(teff__routes *routes, uint64_t hash, uint32_t slot);

/* Removes the word of exactly this slot, which is there. */
TEFF__INTERNAL void teff__routes_index_remove(teff__routes *routes, uint64_t hash, uint32_t slot);

/* The slot of that grain's entry, or TEFF__ROUTES_MOST, which none has. */
TEFF__INTERNAL uint32_t teff__routes_index_find(const teff__routes *routes, uint64_t hash,
                                                uint32_t type, const teff_key *key);

#endif
