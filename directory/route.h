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

typedef struct teff__route_wait {
    teff__queue messages;
    bool leaving;
} teff__route_wait;

typedef struct teff__route {
    union {
        teff__grain_record record; /* its address is the activation's */
        struct {
            teff_key key;
            uint32_t type, used_;
            uint64_t hash, address;
        };
    };
    uint64_t name; /* the entry's own address, for references */
    teff__route_wait wait;
    bool switching;
    bool used; /* since the hand of the clock came by */
} teff__route;

static inline bool teff__route_waits(const teff__route *route)
{
    return route->switching;
}
static inline teff__route_wait *teff__route_wait_of(teff__route *route)
{
    return &route->wait;
}
#define teff__route_wait(route) teff__route_wait_of(route)

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

static inline uint64_t teff__route_name(const teff__routes *routes, const teff__route *route)
{
    (void)routes;
    return route->name;
}
static inline int teff__routes_wait(teff__routes *routes, teff__route *route)
{
    (void)routes;
    route->switching = true;
    route->wait.leaving = false;
    teff__queue_init(&route->wait.messages);
    return 0;
}
static inline void teff__routes_go_on(teff__routes *routes, teff__route *route, uint64_t address,
                                      teff__queue *ret)
{
    (void)routes;
    *ret = route->wait.messages;
    teff__queue_init(&route->wait.messages);
    route->switching = false;
    route->address = address;
}
static inline int teff__routes_add_waiting(teff__routes *routes, uint64_t hash, uint32_t type,
                                           const teff_key *key, teff__route **ret)
{
    int r = teff__routes_add(routes, hash, type, key, 0, ret);
    if (r == 0)
        r = teff__routes_wait(routes, *ret);
    return r;
}
static inline void teff__routes_rebind(teff__routes *routes, teff__route *route, uint64_t address)
{
    (void)routes;
    route->address = address;
}
#endif
