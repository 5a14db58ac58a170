/* SPDX-License-Identifier: MIT */
/*
 * The index of a route cache: grain id → slot. Open addressing with linear probing in words of 32
 * bits, a slot and eight bits of the hash, so that a probe touches an entry only where it very
 * likely matches. Removal shifts back: there are no tombstones.
 */
#ifndef TEFF_DIRECTORY_ROUTE_INDEX_H
#define TEFF_DIRECTORY_ROUTE_INDEX_H

#include "directory/route.h"

enum { TEFF__ROUTES_INDEX_SHIFT = 24 }; /* of the hash's bits in a word, above slot + 1 */

/* Makes room for one more. TEFF_ENOMEM. */
TEFF__INTERNAL int teff__routes_index_reserve(teff__routes *routes);

/* Adds an entry whose grain is not there, after a successful reserve. */
TEFF__INTERNAL void teff__routes_index_add(teff__routes *routes, uint64_t hash, uint32_t slot);

/* Removes the word of exactly this slot, which is there. */
TEFF__INTERNAL void teff__routes_index_remove(teff__routes *routes, uint64_t hash, uint32_t slot);

/* The slot of that grain's entry, or TEFF__ROUTES_MOST, which none has. */
static inline uint32_t teff__routes_index_find(const teff__routes *routes, uint64_t hash,
                                               uint32_t type, const teff_key *key)
{
    if (TEFF__UNLIKELY(routes->count == 0))
        return TEFF__ROUTES_MOST;
    const uint32_t mask = routes->index_size - 1;
    const uint32_t filter = (uint32_t)(hash >> 56);
    for (uint32_t place = (uint32_t)hash & mask;; place = (place + 1) & mask) {
        const uint32_t word = routes->index[place];
        if (word == 0)
            return TEFF__ROUTES_MOST;
        if (word >> TEFF__ROUTES_INDEX_SHIFT != filter)
            continue;
        const uint32_t slot = (word & TEFF__ROUTES_MOST) - 1;
        const teff__route *route = teff__routes_at(routes, slot);
        if (TEFF__LIKELY(route->hash == hash && route->type == type &&
                         teff__key_equal(&route->key, key)))
            return slot;
    }
}

#endif
