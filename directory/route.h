/* SPDX-License-Identifier: MIT */
/*
 * Routes: the ways from one worker to grains that live on others. An entry of the cache *is* the
 * route.
 *
 *     bound ──► switching ──► bound        the grain was found to live elsewhere
 *
 * All messages that a worker sends or forwards to one grain take the grain's route, so that one
 * sender's messages stay in order. When an answer shows that the grain lives at another address than the route's, messages
 * of ours may still be under way by the old address. The route then sends a *probe* after them,
 * which the workers pass on like any message, and keeps what is sent meanwhile until the probe has
 * come back with the address that it found.
 *
 * A reference's `route` may name an entry of the cache by slot and generation: a hint that costs no
 * look-up. A full cache evicts by second chance.
 *
 * Threads: the worker's only.
 */
#ifndef TEFF_DIRECTORY_ROUTE_H
#define TEFF_DIRECTORY_ROUTE_H

#include "directory/address.h"
#include "directory/table.h"
#include "messaging/message.h"

/* entries for each worker: about 160 MB; as the field's reference */
enum { TEFF__ROUTES_MAX = 1000000 };

typedef struct teff__route {
    teff__grain_record record; /* its address is the activation's */
    uint64_t name;             /* the entry's own address, for references */
    teff__queue waiting;       /* messages that wait for the probe */
    bool switching;
    bool used; /* since the hand of the clock came by */
} teff__route;

typedef struct teff__routes {
    teff__memory *memory;
    teff__table table;
    teff__slotmap slots;
    uint64_t tag; /* of the entries' addresses */
    uint32_t capacity;
    uint32_t hand; /* the slot at which the next eviction begins to look */
} teff__routes;

TEFF__INTERNAL void teff__routes_init(teff__routes *routes, teff__memory *memory, uint32_t worker,
                                      uint32_t capacity);
TEFF__INTERNAL void teff__routes_finish(teff__routes *routes);

/* The route to that grain, or NULL. */
TEFF__INTERNAL teff__route *teff__routes_find(teff__routes *routes, uint64_t hash, uint32_t type,
                                              const teff_key *key);

/* Adds a route to a grain that has none, bound to `address`. TEFF_ENOMEM, TEFF_ELIMIT. */
TEFF__INTERNAL int teff__routes_add(teff__routes *routes, uint64_t hash, uint32_t type,
                                    const teff_key *key, uint64_t address, teff__route **ret);

/* Removes a route that has nothing waiting. */
TEFF__INTERNAL void teff__routes_remove(teff__routes *routes, teff__route *route);

/* The route that the word names, or NULL when it names another worker's, a stale one or none. */
static inline teff__route *teff__routes_get(const teff__routes *routes, uint64_t name)
{
    return teff__address_tag_of(name) == routes->tag
               ? teff__slotmap_get(&routes->slots, teff__address_slot(name),
                                   teff__address_generation(name))
               : NULL;
}

#endif
