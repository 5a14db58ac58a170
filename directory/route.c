/* SPDX-License-Identifier: MIT */
/*
 * The route cache of a worker: a table by grain id, a slot map by name, and the hand of a clock for
 * eviction.
 */
#include "directory/route.h"

#include "teff/status.h"

void teff__routes_init(teff__routes *routes, teff__memory *memory, uint32_t worker,
                       uint32_t capacity)
{
    memset(routes, 0, sizeof(*routes));
    routes->memory = memory;
    routes->tag = teff__address_tag(worker, TEFF__ADDRESS_ROUTE);
    routes->capacity = capacity;
    teff__slotmap_init(&routes->slots, memory);
}

void teff__routes_finish(teff__routes *routes)
{
    teff__route *route;
    for (uint32_t slot = 0; (route = teff__slotmap_next(&routes->slots, &slot)) != NULL;)
        teff__memory_free(routes->memory, route, sizeof(*route));
    teff__table_finish(&routes->table, routes->memory);
    teff__slotmap_finish(&routes->slots);
}

teff__route *teff__routes_find(teff__routes *routes, uint64_t hash, uint32_t type,
                               const teff_key *key)
{
    teff__grain_record *record = teff__table_find(&routes->table, hash, type, key);
    return record != NULL ? teff__container_of(record, teff__route, record) : NULL;
}

/*
 * Second chance: the first idle route that was not used since the hand came by. At most two rounds.
 */
static void evict(teff__routes *routes)
{
    for (uint32_t looked = 0; looked < 2 * routes->slots.made; looked++) {
        routes->hand = routes->hand + 1 < routes->slots.made ? routes->hand + 1 : 0;
        const teff__slot *at = teff__slotmap_at(&routes->slots, routes->hand);
        teff__route *route = at->value;
        if ((at->generation & 1) == 0 || route->switching)
            continue;
        if (!route->used) {
            teff__routes_remove(routes, route);
            return;
        }
        route->used = false;
    }
}

int teff__routes_add(teff__routes *routes, uint64_t hash, uint32_t type, const teff_key *key,
                     uint64_t address, teff__route **ret)
{
    uint32_t slot, generation;
    if (routes->table.count >= routes->capacity)
        evict(routes);
    int r = teff__table_reserve(&routes->table, routes->memory);
    if (r != 0)
        return r;
    teff__route *route = teff__memory_alloc(routes->memory, sizeof(*route));
    if (route == NULL)
        return TEFF_ENOMEM;
    r = teff__slotmap_add(&routes->slots, route, &slot, &generation);
    if (r != 0) {
        teff__memory_free(routes->memory, route, sizeof(*route));
        return r;
    }
    route->record.key = *key;
    route->record.type = type;
    route->record.hash = hash;
    route->record.address = address;
    route->name = teff__address_make(routes->tag, slot, generation);
    teff__table_add(&routes->table, &route->record);
    *ret = route;
    return 0;
}

void teff__routes_remove(teff__routes *routes, teff__route *route)
{
    teff_assert(!route->switching && route->wait.messages.head == NULL);
    teff__table_remove(&routes->table, &route->record);
    teff__slotmap_remove(&routes->slots, teff__address_slot(route->name),
                         teff__address_generation(route->name));
    teff__memory_free(routes->memory, route, sizeof(*route));
}
