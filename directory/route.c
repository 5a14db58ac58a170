/* SPDX-License-Identifier: MIT */
/*
 * What routes are for: found, added, bound, waited for and removed. Their index is in
 * route_index.c, their order and their age in route_order.c.
 */
#include "directory/route.h"

#include "directory/route_index.h"
#include "directory/route_order.h"

#include "teff/status.h"

enum {
    SEGMENT_ENTRIES = 1 << TEFF__ROUTES_SEGMENT_BITS,
    SEGMENTS_FIRST = 4,
    SEGMENT_BYTES = SEGMENT_ENTRIES * sizeof(teff__route)
};

/* As far as ages can be told apart while a sweep's round, which is as long, has yet to come by. */
#define TTL_MOST_NS (INT64_C(10) * 24 * 3600 * 1000000000)

/* Four fifths are warm, the rest is shared by hot and cold, which have at least one each. */
static void divide(teff__routes *routes, uint32_t capacity)
{
    const uint32_t warm = (uint32_t)(capacity * UINT64_C(4) / 5);
    const uint32_t outer = (capacity - warm) / 2 > 0 ? (capacity - warm) / 2 : 1;
    routes->capacity = capacity;
    if (capacity == 0)
        return;
    routes->lines_max[TEFF__ROUTE_HOT] = routes->lines_max[TEFF__ROUTE_COLD] = outer;
    routes->lines_max[TEFF__ROUTE_WARM] = capacity - 2 * outer;
}

int teff__routes_init(teff__routes *routes, teff__memory *memory,
                      const teff__routes_options *options)
{
    if ((options->capacity != 0 && options->capacity < TEFF__ROUTES_LEAST) ||
        options->capacity > TEFF__ROUTES_MOST || options->ttl_ns <= 0)
        return TEFF_EINVAL;
    memset(routes, 0, sizeof(*routes));
    routes->memory = memory;
    routes->first = teff__address_tag(options->worker, TEFF__ADDRESS_ROUTE) << TEFF__SLOT_BITS;
    routes->generation_max = TEFF__ROUTE_GENERATION_MASK - 2; /* the next must not carry */
    routes->may_go = options->may_go;
    routes->user = options->user;
    divide(routes, options->capacity);
    routes->ttl_ns = options->ttl_ns;
    routes->ttl = options->ttl_ns > TTL_MOST_NS
                      ? UINT32_MAX
                      : (uint32_t)((options->ttl_ns + (1 << 20) - 1) >> 20) << 1 | 1;
    teff__routes_set_now(routes, 0);
    return TEFF_OK;
}

void teff__routes_finish(teff__routes *routes)
{
    teff__memory *memory = routes->memory;
    teff__routes_clear(routes);
    for (uint32_t link; (link = routes->lines[TEFF__ROUTE_WAITING].first) != 0;) {
        teff__queue messages;
        teff__routes_go_on(routes, teff__routes_at(routes, link - 1), 0, &messages);
        teff_assert(messages.head == NULL);
    }
    for (uint32_t i = 0; i < routes->made; i += SEGMENT_ENTRIES)
        teff__memory_free(memory, routes->segments[i / SEGMENT_ENTRIES], SEGMENT_BYTES);
    teff__memory_free(memory, routes->segments, routes->segments_max * sizeof(teff__route *));
    teff__memory_free(memory, routes->index, routes->index_size * sizeof(*routes->index));
    memset(routes, 0, sizeof(*routes));
}

/* ---- slots ---- */

/* Makes room for one more segment in the list of them. */
static int reserve_segment(teff__routes *routes)
{
    const uint32_t max = routes->segments_max == 0 ? SEGMENTS_FIRST : routes->segments_max * 2;
    if (routes->made < routes->segments_max * (uint32_t)SEGMENT_ENTRIES)
        return TEFF_OK;
    teff__route **segments = teff__memory_alloc(routes->memory, max * sizeof(*segments));
    if (segments == NULL)
        return TEFF_ENOMEM;
    if (routes->segments_max != 0)
        memcpy(segments, routes->segments, routes->segments_max * sizeof(*segments));
    teff__memory_free(routes->memory, routes->segments, routes->segments_max * sizeof(*segments));
    routes->segments = segments;
    routes->segments_max = max;
    return TEFF_OK;
}

/* Sees to it that there is a free slot. */
static int reserve_slot(teff__routes *routes)
{
    if (routes->free != 0)
        return TEFF_OK;
    if (routes->made == TEFF__ROUTES_MOST)
        return TEFF_ELIMIT;
    if (routes->made % SEGMENT_ENTRIES == 0) {
        const int r = reserve_segment(routes);
        if (r != 0)
            return r;
        teff__route *segment = teff__memory_alloc(routes->memory, SEGMENT_BYTES);
        if (segment == NULL)
            return TEFF_ENOMEM;
        routes->segments[routes->made / SEGMENT_ENTRIES] = segment;
    }
    routes->free = ++routes->made;
    return TEFF_OK;
}

void teff__routes_drop(teff__routes *routes, uint32_t slot)
{
    teff__route *route = teff__routes_at(routes, slot);
    teff_assert((route->state & 1) != 0 && !teff__route_waits(route));
    route->state++;
    route->address = 0;
    teff__routes_line_take(routes, slot);
    teff__routes_index_remove(routes, route->hash, slot);
    routes->count--;
    if ((route->state & TEFF__ROUTE_GENERATION_MASK) + 1 > routes->generation_max)
        return; /* retired: the next generation would not fit into a name */
    route->next = routes->free & TEFF__ROUTES_MOST;
    routes->free = slot + 1;
}

static uint64_t name_of(const teff__routes *routes, const teff__route *route, uint32_t slot)
{
    return (routes->first + slot) << TEFF__SLOT_GENERATION_BITS |
           (route->state & TEFF__ROUTE_GENERATION_MASK);
}

uint64_t teff__route_name(const teff__routes *routes, const teff__route *route)
{
    return name_of(routes, route, teff__routes_slot_of(routes, route));
}

/* ---- found and added ---- */

teff__route *teff__routes_find(teff__routes *routes, uint64_t hash, uint32_t type,
                               const teff_key *key, uint64_t *ret_name)
{
    const uint32_t slot = teff__routes_index_find(routes, hash, type, key);
    if (slot == TEFF__ROUTES_MOST)
        return NULL;
    teff__route *route = teff__routes_hit(routes, teff__routes_at(routes, slot), slot);
    if (route != NULL)
        *ret_name = name_of(routes, route, slot);
    return route;
}

/* An entry that stands in no queue yet. */
static int add(teff__routes *routes, uint64_t hash, uint32_t type, const teff_key *key,
               uint64_t address, uint32_t *ret_slot)
{
    teff_assert(type <= UINT16_MAX);
    teff_assert_slow(teff__routes_index_find(routes, hash, type, key) == TEFF__ROUTES_MOST);
    int r = teff__routes_index_reserve(routes);
    if (r == 0)
        r = reserve_slot(routes);
    if (r != 0)
        return r;
    const uint32_t slot = routes->free - 1;
    teff__route *route = teff__routes_at(routes, slot);
    routes->free = (uint32_t)route->next;
    if (routes->count++ == 0) {
        routes->hand = 0;
        routes->due_ns = teff__time_add(routes->now_ns, routes->ttl_ns);
    }
    route->state++;
    route->key = *key;
    route->type = type & UINT16_MAX;
    route->hash = hash;
    route->address = address;
    route->used = routes->now & ~1u; /* the first use is no second one */
    teff__routes_index_add(routes, hash, slot);
    *ret_slot = slot;
    return TEFF_OK;
}

int teff__routes_add(teff__routes *routes, uint64_t hash, uint32_t type, const teff_key *key,
                     uint64_t address, teff__route **ret)
{
    uint32_t slot;
    if (routes->capacity == 0) {
        *ret = NULL;
        return TEFF_OK;
    }
    teff__routes_make_room(routes);
    const int r = add(routes, hash, type, key, address, &slot);
    if (r != 0)
        return r;
    teff__routes_line_push(routes, TEFF__ROUTE_HOT, slot);
    *ret = teff__routes_at(routes, slot);
    return TEFF_OK;
}

int teff__routes_add_waiting(teff__routes *routes, uint64_t hash, uint32_t type,
                             const teff_key *key, teff__route **ret)
{
    uint32_t slot;
    teff__route_wait *wait = teff__memory_alloc(routes->memory, sizeof(*wait));
    if (wait == NULL)
        return TEFF_ENOMEM;
    const int r = add(routes, hash, type, key, 0, &slot);
    if (r != 0) {
        teff__memory_free(routes->memory, wait, sizeof(*wait));
        return r;
    }
    teff__queue_init(&wait->messages);
    *ret = teff__routes_at(routes, slot);
    (*ret)->wait = wait;
    teff__routes_line_push(routes, TEFF__ROUTE_WAITING, slot);
    return TEFF_OK;
}

/* ---- bound ---- */

void teff__routes_rebind(teff__routes *routes, teff__route *route, uint64_t address)
{
    if (teff__route_waits(route))
        route->wait->address = address;
    else
        route->address = address;
    route->used = routes->now;
}

teff__route_ticket teff__routes_ticket(const teff__routes *routes, const teff__route *route)
{
    return (teff__route_ticket){ teff__route_name(routes, route), teff__route_address(route) };
}

bool teff__routes_bind(teff__routes *routes, teff__route_ticket ticket, uint64_t address)
{
    teff__route *route = teff__routes_peek(routes, ticket.name);
    if (route == NULL || teff__route_address(route) != ticket.address)
        return false;
    route = teff__routes_hit(routes, route, teff__address_slot(ticket.name));
    if (route == NULL)
        return false;
    teff__routes_rebind(routes, route, address);
    return true;
}

/* ---- removed ---- */

/* Whatever the slot's entry was bound to, it is no longer. */
static void unbind(teff__routes *routes, uint32_t slot)
{
    teff__route *route = teff__routes_at(routes, slot);
    if (teff__route_waits(route))
        route->wait->address = 0;
    else
        teff__routes_drop(routes, slot);
}

void teff__routes_remove(teff__routes *routes, teff__route *route)
{
    teff__routes_drop(routes, teff__routes_slot_of(routes, route));
}

uint32_t teff__routes_remove_grain(teff__routes *routes, uint64_t hash, uint32_t type,
                                   const teff_key *key)
{
    const uint32_t slot = teff__routes_index_find(routes, hash, type, key);
    if (slot == TEFF__ROUTES_MOST)
        return 0;
    unbind(routes, slot);
    return 1;
}

/* Of those entries whose address agrees with `address` in the bits of `mask`. */
static uint32_t remove_bound(teff__routes *routes, uint64_t address, uint64_t mask)
{
    uint32_t removed = 0;
    for (uint32_t slot = 0; slot < routes->made; slot++) {
        const teff__route *route = teff__routes_at(routes, slot);
        if ((route->state & 1) == 0)
            continue;
        const uint64_t bound = teff__route_address(route);
        if (bound == 0 || ((bound ^ address) & mask) != 0)
            continue;
        unbind(routes, slot);
        removed++;
    }
    return removed;
}

uint32_t teff__routes_remove_address(teff__routes *routes, uint64_t address)
{
    return remove_bound(routes, address, UINT64_MAX);
}

uint32_t teff__routes_remove_worker(teff__routes *routes, uint32_t worker)
{
    const uint32_t shift = TEFF__ADDRESS_TAG_SHIFT + 1;
    return remove_bound(routes, (uint64_t)(worker + 1) << shift, UINT64_MAX << shift);
}

void teff__routes_clear(teff__routes *routes)
{
    for (uint32_t slot = 0; slot < routes->made; slot++)
        if (teff__routes_at(routes, slot)->state & 1)
            unbind(routes, slot);
}

/* ---- waited for ---- */

int teff__routes_wait(teff__routes *routes, teff__route *route)
{
    if (teff__route_waits(route))
        return TEFF_OK;
    teff__route_wait *wait = teff__memory_alloc(routes->memory, sizeof(*wait));
    if (wait == NULL)
        return TEFF_ENOMEM;
    const uint32_t slot = teff__routes_slot_of(routes, route);
    teff__queue_init(&wait->messages);
    wait->address = route->address;
    route->wait = wait;
    teff__routes_line_take(routes, slot);
    teff__routes_line_push(routes, TEFF__ROUTE_WAITING, slot);
    return TEFF_OK;
}

void teff__routes_go_on(teff__routes *routes, teff__route *route, uint64_t address,
                        teff__queue *ret)
{
    teff__route_wait *wait = route->wait;
    const uint32_t slot = teff__routes_slot_of(routes, route);
    teff_assert(teff__route_waits(route));
    *ret = wait->messages;
    teff__memory_free(routes->memory, wait, sizeof(*wait));
    route->address = address;
    route->used = routes->now;
    if (address == 0 || routes->capacity == 0) {
        route->state &= ~TEFF__ROUTE_WAITS;
        teff__routes_drop(routes, slot);
        return;
    }
    teff__routes_make_room(routes); /* while it is in none of the queues that are full */
    teff__routes_line_take(routes, slot);
    teff__routes_line_push(routes, TEFF__ROUTE_WARM, slot);
}

teff__route *teff__routes_next(const teff__routes *routes, uint32_t *slot)
{
    while (*slot < routes->made) {
        teff__route *route = teff__routes_at(routes, (*slot)++);
        if (route->state & 1)
            return route;
    }
    return NULL;
}
