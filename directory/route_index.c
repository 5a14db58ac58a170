/* SPDX-License-Identifier: MIT */
/*
 * The low bits of a hash say where an entry's word belongs, its top byte lies in the word. Growing
 * walks the entries in the order of their slots, which is the order in memory.
 */
#include "directory/route_index.h"

#include "teff/status.h"

enum { SIZE_FIRST = 16 };

static uint32_t word_of(uint64_t hash, uint32_t slot)
{
    return (uint32_t)(hash >> 56) << TEFF__ROUTES_INDEX_SHIFT | (slot + 1);
}

int teff__routes_index_reserve(teff__routes *routes)
{
    if ((routes->count + 1) * UINT64_C(4) <= routes->index_size * UINT64_C(3))
        return TEFF_OK;
    const uint32_t size = routes->index_size == 0 ? SIZE_FIRST : routes->index_size * 2;
    uint32_t *index = teff__memory_alloc(routes->memory, size * sizeof(*index));
    if (index == NULL)
        return TEFF_ENOMEM;
    teff__memory_free(routes->memory, routes->index, routes->index_size * sizeof(*index));
    routes->index = index;
    routes->index_size = size;
    for (uint32_t slot = 0; slot < routes->made; slot++) {
        const teff__route *route = teff__routes_at(routes, slot);
        if (route->state & 1)
            teff__routes_index_add(routes, route->hash, slot);
    }
    return TEFF_OK;
}

void teff__routes_index_add(teff__routes *routes, uint64_t hash, uint32_t slot)
{
    const uint32_t mask = routes->index_size - 1;
    uint32_t place = (uint32_t)hash & mask;
    while (routes->index[place] != 0)
        place = (place + 1) & mask;
    routes->index[place] = word_of(hash, slot);
}

void teff__routes_index_remove(teff__routes *routes, uint64_t hash, uint32_t slot)
{
    const uint32_t mask = routes->index_size - 1;
    uint32_t *index = routes->index;
    uint32_t hole = (uint32_t)hash & mask;
    while (index[hole] != word_of(hash, slot)) {
        teff_assert(index[hole] != 0);
        hole = (hole + 1) & mask;
    }
    for (uint32_t place = (hole + 1) & mask; index[place] != 0; place = (place + 1) & mask) {
        /* A word may fill the hole when its own place is not between the hole and where it is. */
        const teff__route *route = teff__routes_at(routes, (index[place] & TEFF__ROUTES_MOST) - 1);
        const uint32_t own = (uint32_t)route->hash & mask;
        if (((place - own) & mask) >= ((place - hole) & mask)) {
            index[hole] = index[place];
            hole = place;
        }
    }
    index[hole] = 0;
}
