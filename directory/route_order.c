/* SPDX-License-Identifier: MIT */
/*
 * Queues are doubly linked by slot numbers, so an entry that goes leaves its place at once, and the
 * queues hold nothing but live entries. As long as the cache as a whole is not full nobody is
 * evicted, and cold takes what it must.
 */
#include "directory/route_order.h"

_Static_assert(TEFF__ROUTE_QUEUES == 4, "two bits");

enum {
    LINK_MASK = (1 << 24) - 1,
    /*
     * So many are settled for one new entry. Where all were used, those settled longest ago give
     * way: none is so much better than another that looking further would pay.
     */
    SETTLED_MAX = 8
};

/* Intervals are told in twice the coarse time, rounded up; the odd bit counts for nothing. */
#define RECENT ((uint32_t)((TEFF__ROUTES_RECENT_NS + (1 << 20) - 1) >> 20) << 1 | 1)

static teff__route *at_link(const teff__routes *routes, uint32_t link)
{
    return teff__routes_at(routes, link - 1);
}

static uint32_t queue_of(const teff__route *route)
{
    return route->state >> TEFF__SLOT_GENERATION_BITS & (TEFF__ROUTE_QUEUES - 1);
}

uint32_t teff__routes_slot_of(const teff__routes *routes, const teff__route *route)
{
    const uint32_t link = route->previous != 0 ? at_link(routes, (uint32_t)route->previous)->next
                                               : routes->lines[queue_of(route)].first;
    teff_assert(at_link(routes, link) == route);
    return link - 1;
}

void teff__routes_line_push(teff__routes *routes, teff__route_queue queue, uint32_t slot)
{
    teff__route *route = teff__routes_at(routes, slot);
    teff__route_line *line = &routes->lines[queue];
    route->state &= TEFF__ROUTE_GENERATION_MASK;
    route->state |= (uint32_t)queue << TEFF__SLOT_GENERATION_BITS;
    if (queue == TEFF__ROUTE_WAITING)
        route->state |= TEFF__ROUTE_WAITS;
    route->next = 0;
    route->previous = line->last & LINK_MASK;
    if (line->last != 0)
        at_link(routes, line->last)->next = (slot + 1) & LINK_MASK;
    else
        line->first = slot + 1;
    line->last = slot + 1;
    line->count++;
}

void teff__routes_line_take(teff__routes *routes, uint32_t slot)
{
    const teff__route *route = teff__routes_at(routes, slot);
    teff__route_line *line = &routes->lines[queue_of(route)];
    if (route->previous != 0)
        at_link(routes, (uint32_t)route->previous)->next = route->next;
    else
        line->first = (uint32_t)route->next;
    if (route->next != 0)
        at_link(routes, (uint32_t)route->next)->previous = route->previous;
    else
        line->last = (uint32_t)route->previous;
    line->count--;
}

static void move(teff__routes *routes, teff__route_queue queue, uint32_t slot)
{
    teff__routes_at(routes, slot)->used &= ~1u;
    teff__routes_line_take(routes, slot);
    teff__routes_line_push(routes, queue, slot);
}

/* Removes an entry that must go, if its owner lets it. */
static bool let_go(teff__routes *routes, uint32_t slot)
{
    teff__route *route = teff__routes_at(routes, slot);
    if (routes->may_go != NULL && routes->now - route->used <= RECENT &&
        !routes->may_go(routes->user, route))
        return false;
    teff__routes_drop(routes, slot);
    return true;
}

/* Evicts an entry from cold, unless its owner does not let it: then it goes on, or waits. */
static void evict(teff__routes *routes, uint32_t slot)
{
    if (!let_go(routes, slot) && !teff__route_waits(teff__routes_at(routes, slot)))
        move(routes, TEFF__ROUTE_WARM, slot);
}

static void settle(teff__routes *routes, uint32_t slot)
{
    const teff__route *route = teff__routes_at(routes, slot);
    if (route->used & 1)
        move(routes, TEFF__ROUTE_WARM, slot);
    else if (queue_of(route) != TEFF__ROUTE_COLD)
        move(routes, TEFF__ROUTE_COLD, slot);
    else
        evict(routes, slot);
}

static bool over(const teff__routes *routes, teff__route_queue queue)
{
    return routes->lines[queue].count > routes->lines_max[queue];
}

void teff__routes_make_room(teff__routes *routes)
{
    const teff__route_line *hot = &routes->lines[TEFF__ROUTE_HOT];
    const teff__route_line *warm = &routes->lines[TEFF__ROUTE_WARM];
    const teff__route_line *cold = &routes->lines[TEFF__ROUTE_COLD];
    if (hot->count == routes->lines_max[TEFF__ROUTE_HOT])
        settle(routes, hot->first - 1);
    for (int settled = 0; settled < SETTLED_MAX; settled++) {
        if (over(routes, TEFF__ROUTE_WARM))
            settle(routes, warm->first - 1);
        else if (hot->count + warm->count + cold->count >= routes->capacity)
            settle(routes, cold->first - 1);
        else
            return;
    }
    if (over(routes, TEFF__ROUTE_WARM))
        move(routes, TEFF__ROUTE_COLD, warm->first - 1);
    if (hot->count + warm->count + cold->count >= routes->capacity)
        evict(routes, cold->first - 1);
}

teff__route *teff__routes_hit_old(teff__routes *routes, uint32_t slot)
{
    teff__route *route = teff__routes_at(routes, slot);
    if (!teff__route_waits(route) && let_go(routes, slot))
        return NULL;
    route->used = routes->now;
    return route;
}

uint32_t teff__routes_sweep(teff__routes *routes, uint32_t budget)
{
    uint32_t removed = 0;
    if (routes->ttl == UINT32_MAX)
        return 0;
    if (routes->hand == 0)
        routes->due_ns = routes->now_ns; /* and stays so until the round is over */
    for (; budget > 0 && routes->hand < routes->made; budget--, routes->hand++) {
        const teff__route *route = teff__routes_at(routes, routes->hand);
        if ((route->state & 1) != 0 && !teff__route_waits(route) &&
            routes->now - route->used > routes->ttl)
            removed += let_go(routes, routes->hand);
    }
    if (routes->hand >= routes->made) {
        routes->hand = 0;
        routes->due_ns = teff__time_add(routes->due_ns, routes->ttl_ns);
    }
    return removed;
}

int64_t teff__routes_due_ns(const teff__routes *routes)
{
    return routes->count == 0 || routes->ttl == UINT32_MAX ? INT64_MAX : routes->due_ns;
}
