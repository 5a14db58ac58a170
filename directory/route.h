/* SPDX-License-Identifier: MIT */
/*
 * Routes: the ways from one worker to grains that live on others. An entry of the cache *is* the
 * route.
 *
 *     add ──► bound ◄──────► waiting       wait: a probe is under way, or the address is not known
 *     add ──► unresolved ──►   │
 *               │              │ go_on with no address
 *               └──────────────┴──► gone   removed, evicted, expired, cleared, closed
 *
 * All messages that a worker sends or forwards to one grain take the grain's route, so that one
 * sender's messages stay in order. While they cannot be sent (the address is unknown, or others are
 * still under way by an older one, which a probe follows) they wait in the route.
 *
 * What leads to an entry is its *name*: worker, slot and generation, the word that a reference
 * keeps as its hint. It costs no look-up. An entry that goes leaves the index and takes its next
 * generation before anything else happens, so no name and no ticket of before leads to it, or to
 * what its memory is used for next; nothing is kept for the sake of a reference.
 *
 * The order is that of three queues, hot, warm and cold, as Orleans' cache has it (ConcurrentLru,
 * of BitFaster.Caching by Alex Peck). A new entry enters hot. A hit stores the coarse time in the
 * entry, nothing else; whoever is at the head of a queue that overflows is *settled*: used since it
 * was settled last, it goes to warm, else to cold, and from cold away. A waiting entry is in none
 * of them: it is never evicted, does not expire, and stands beyond the capacity.
 *
 * An entry has 80 bytes, and 5.3 to 10.7 bytes of the index, which is at most 3/4 full. Entries lie
 * in segments that never move.
 *
 * Threads: the worker's only.
 */
#ifndef TEFF_DIRECTORY_ROUTE_H
#define TEFF_DIRECTORY_ROUTE_H

#include "directory/address.h"
#include "directory/key.h"
#include "runtime/clock.h"
#include "runtime/list.h"

enum {
    TEFF__ROUTES_LEAST = 3,            /* one for each queue */
    TEFF__ROUTES_MOST = (1 << 24) - 1, /* a slot's number and "none" in 24 bits */
    TEFF__ROUTES_SEGMENT_BITS = 6      /* 64 entries, 5 KiB, are made at a time */
};
#define TEFF__ROUTES_RECENT_NS INT64_C(10000000000) /* see may_go */

/* Where an entry stands. */
typedef enum teff__route_queue {
    TEFF__ROUTE_HOT,
    TEFF__ROUTE_WARM,
    TEFF__ROUTE_COLD,
    TEFF__ROUTE_WAITING,
    TEFF__ROUTE_QUEUES
} teff__route_queue;

/* What a route has while messages wait for it. */
typedef struct teff__route_wait {
    teff__queue messages; /* the owner's: pushed by it, given back by go_on */
    uint64_t address;     /* the old one, to which nothing is sent any more; 0: none is known */
    bool leaving;         /* the owner's: nobody needs the route once this has drained */
} teff__route_wait;

typedef struct teff__route {
    teff_key key;
    uint64_t hash; /* of type and key */
    union {
        uint64_t address;       /* of the activation; 0: unresolved */
        teff__route_wait *wait; /* while it is waiting */
    };
    uint32_t used;  /* coarse time of the last hit, times two; odd: not settled since */
    uint32_t state; /* generation, odd: taken; the queue; and whether it is waiting */
    uint64_t type : 16;
    uint64_t next : 24, previous : 24; /* in its queue, or of the free ones: a slot + 1, or 0 */
} teff__route;

_Static_assert(sizeof(teff__route) == 80, "what an entry may take");

/* A line of entries, from the one that came first. */
typedef struct teff__route_line {
    uint32_t first, last; /* slot + 1, or 0 */
    uint32_t count;
} teff__route_line;

typedef struct teff__routes_options {
    uint32_t worker;
    uint32_t capacity; /* 0: nothing is ever kept; else 3 to 16,777,215 */
    int64_t ttl_ns;    /* for how long an entry is kept that is not used; over 10 days: for ever */
    /*
     * Whether an entry that was used in the last 10 s may be evicted or expire; NULL: always.
     * false: it stays for now, since the owner has made it wait for what is under way (leaving), or
     * could not. May call teff__routes_wait for this route; else nothing of this header that
     * changes any.
     */
    bool (*may_go)(void *user, teff__route *route);
    void *user;
} teff__routes_options;

typedef struct teff__routes {
    uint64_t first; /* the first slot, with the tag of the entries' names above it */
    teff__route **segments;
    uint32_t made;       /* entries that exist, taken or not */
    uint32_t now;        /* as an entry's `used` */
    uint32_t ttl;        /* an entry whose `used` is further from `now` has expired */
    uint32_t index_size; /* a power of two, or 0 */
    uint32_t *index;     /* 0: free; else a slot + 1, and eight bits of the hash above it */
    uint32_t count;      /* entries taken, those that wait among them */
    uint32_t free;       /* the first free entry's slot + 1, or 0 */
    teff__route_line lines[TEFF__ROUTE_QUEUES];
    uint32_t lines_max[TEFF__ROUTE_WAITING]; /* of hot, warm and cold; together the capacity */
    uint32_t capacity, segments_max;
    uint32_t generation_max;        /* the last generation of a slot; lower in tests */
    uint32_t hand;                  /* of the sweep: the slot at which it goes on */
    int64_t now_ns, due_ns, ttl_ns; /* due_ns: when the sweep's round began, or is to begin */
    teff__memory *memory;
    bool (*may_go)(void *user, teff__route *route);
    void *user;
} teff__routes;

/* Of an entry's state: generation, then two bits for the queue, and one at the top. */
#define TEFF__ROUTE_GENERATION_MASK ((uint32_t)TEFF__ADDRESS_GENERATION_MASK)
#define TEFF__ROUTE_WAITS           (UINT32_C(1) << 31)

/*
 * TEFF_EINVAL: a capacity of 1, of 2 or above the most, or a TTL of 0 or less. Allocates nothing.
 */
TEFF__INTERNAL int teff__routes_init(teff__routes *routes, teff__memory *memory,
                                     const teff__routes_options *options);
/* Closes: names lead nowhere from now on, all is freed. No message may be waiting any more. */
TEFF__INTERNAL void teff__routes_finish(teff__routes *routes);

/* Removes all; one that waits stays, without an address. */
TEFF__INTERNAL void teff__routes_clear(teff__routes *routes);

/* What hits store, and ages are told by. Once a pass. */
static inline void teff__routes_set_now(teff__routes *routes, int64_t now_ns)
{
    routes->now_ns = now_ns;
    routes->now = teff__coarse(now_ns) << 1 | 1;
}

static inline teff__route *teff__routes_at(const teff__routes *routes, uint32_t slot)
{
    enum { IN_SEGMENT = (1 << TEFF__ROUTES_SEGMENT_BITS) - 1 };
    return &routes->segments[slot >> TEFF__ROUTES_SEGMENT_BITS][slot & IN_SEGMENT];
}

static inline bool teff__route_waits(const teff__route *route)
{
    return (route->state & TEFF__ROUTE_WAITS) != 0;
}

/* The address that it is bound to, or was while it waits; 0: unresolved. */
static inline uint64_t teff__route_address(const teff__route *route)
{
    return TEFF__UNLIKELY(teff__route_waits(route)) ? route->wait->address : route->address;
}

/* The entry that the word names, without being a hit; NULL: another worker's, a stale one, none. */
static inline teff__route *teff__routes_peek(const teff__routes *routes, uint64_t name)
{
    /* Of another tag it is beyond all slots that there may be, as it stands above the slot. */
    const uint64_t slot = (name >> TEFF__SLOT_GENERATION_BITS) - routes->first;
    if (TEFF__UNLIKELY(slot >= routes->made))
        return NULL;
    /* A word that nobody was given may have the even generation of an entry that is free. */
    teff__route *route = teff__routes_at(routes, (uint32_t)slot);
    const uint32_t differs = route->state ^ ((uint32_t)name | 1);
    return TEFF__LIKELY((differs & TEFF__ROUTE_GENERATION_MASK) == 0) ? route : NULL;
}

/* An entry that was looked for, and is too old: removes it and returns NULL, or refreshes it. */
TEFF__INTERNAL teff__route *teff__routes_hit_old(teff__routes *routes, uint32_t slot);

/* A hit: the route of that slot, or NULL if it has expired. */
static inline teff__route *teff__routes_hit(teff__routes *routes, teff__route *route, uint32_t slot)
{
    if (TEFF__UNLIKELY(routes->now - route->used > routes->ttl))
        return teff__routes_hit_old(routes, slot);
    route->used = routes->now;
    return route;
}

/*
 * The route that the word names, where it leads to a grain of that key; its type is not compared.
 */
static inline teff__route *teff__routes_get(teff__routes *routes, uint64_t name,
                                            const teff_key *key)
{
    teff__route *route = teff__routes_peek(routes, name);
    return TEFF__LIKELY(route != NULL) && TEFF__LIKELY(teff__key_equal_settled(&route->key, key))
               ? teff__routes_hit(routes, route, teff__address_slot(name))
               : NULL;
}

/* The route to that grain, and its name; or NULL. */
TEFF__INTERNAL teff__route *teff__routes_find(teff__routes *routes, uint64_t hash, uint32_t type,
                                              const teff_key *key, uint64_t *ret_name);

/*
 * The entry's own address: what a reference keeps as its hint. An entry does not keep its slot: its
 * neighbour in the queue, which is read for it, does.
 */
TEFF__INTERNAL uint64_t teff__route_name(const teff__routes *routes, const teff__route *route);

/*
 * Adds a route to a grain that has none, bound to `address` (0: unresolved). *ret is NULL where
 * nothing is kept, by a capacity of 0. May evict.
 *
 * Errors: TEFF_ENOMEM; TEFF_ELIMIT: no slot is left. *ret is then untouched.
 */
TEFF__INTERNAL int teff__routes_add(teff__routes *routes, uint64_t hash, uint32_t type,
                                    const teff_key *key, uint64_t address, teff__route **ret);

/* Adds an unresolved route that waits, whatever the capacity. TEFF_ENOMEM, TEFF_ELIMIT. */
TEFF__INTERNAL int teff__routes_add_waiting(teff__routes *routes, uint64_t hash, uint32_t type,
                                            const teff_key *key, teff__route **ret);

/* Gives a route another address (0: none); an update restarts its age, as a hit does. */
TEFF__INTERNAL void teff__routes_rebind(teff__routes *routes, teff__route *route, uint64_t address);

/* What whoever asks for an address keeps meanwhile: the name, and the address as it was. */
typedef struct teff__route_ticket {
    uint64_t name, address;
} teff__route_ticket;

TEFF__INTERNAL teff__route_ticket teff__routes_ticket(const teff__routes *routes,
                                                      const teff__route *route);

/*
 * Binds the entry to the address that was asked for, if it is there still and its address is still
 * the ticket's. Otherwise it was replaced, removed or evicted meanwhile, its memory perhaps given
 * to another grain: then nothing is bound, and the answer is false. Messages that wait go on
 * waiting.
 */
TEFF__INTERNAL bool teff__routes_bind(teff__routes *routes, teff__route_ticket ticket,
                                      uint64_t address);

/* Removes a route that does not wait. */
TEFF__INTERNAL void teff__routes_remove(teff__routes *routes, teff__route *route);

/*
 * Removes the route to that grain; or all that are bound to exactly that activation; or to any of
 * that worker. One that waits stays, and forgets its old address. Return how many were bound. By
 * address they walk all entries: for what is rare.
 */
TEFF__INTERNAL uint32_t teff__routes_remove_grain(teff__routes *routes, uint64_t hash,
                                                  uint32_t type, const teff_key *key);
TEFF__INTERNAL uint32_t teff__routes_remove_address(teff__routes *routes, uint64_t address);
TEFF__INTERNAL uint32_t teff__routes_remove_worker(teff__routes *routes, uint32_t worker);

/* Begins to wait: from now on route->wait is there. TEFF_ENOMEM: then nothing has changed. */
TEFF__INTERNAL int teff__routes_wait(teff__routes *routes, teff__route *route);

/*
 * Ends the wait. Bound to `address`, the route goes to warm, which may evict others; where that is
 * 0, or the capacity is, it is removed. *ret is what waited, in order.
 */
TEFF__INTERNAL void teff__routes_go_on(teff__routes *routes, teff__route *route, uint64_t address,
                                       teff__queue *ret);

/*
 * Looks at up to `budget` slots, from where it stopped, and removes what has expired: so many. A
 * round over all begins every TTL, so an entry may outlive its own up to twice; until then its
 * names and its grain find nothing. Ages are told modulo 26 days: while a TTL is set, sweep.
 */
TEFF__INTERNAL uint32_t teff__routes_sweep(teff__routes *routes, uint32_t budget);

/* From when on to sweep; INT64_MAX: there is nothing that could expire. */
TEFF__INTERNAL int64_t teff__routes_due_ns(const teff__routes *routes);

/* The first entry from *slot on, which is moved behind it; NULL: there is none. */
TEFF__INTERNAL teff__route *teff__routes_next(const teff__routes *routes, uint32_t *slot);

#endif
