/* SPDX-License-Identifier: MIT */
/*
 * The route cache beside a model: an array of routes in the order of their queues, searched from one
 * end to the other, with ages in units and no wrap. Whatever is done to both, they hold the same.
 */
#include "tests/unit/directory/routes.h"

#include "runtime/chance.h"

TestSuite(route_model, .init = begin_four, .fini = end_routes);

enum { GRAINS = 60, NONE = -1, TTL_UNITS = 300 };

typedef struct model_route {
    uint64_t address, name;
    int64_t used; /* in units of the coarse time */
    int queue;    /* NONE: not there */
    bool accessed;
    uint64_t since; /* the larger, the later it came into its queue */
} model_route;

static model_route model[GRAINS];
static uint64_t model_steps;
static int64_t units;
static uint32_t model_max[3], model_capacity;
static teff__chance chance;

static int draw(int below)
{
    return (int)(teff__chance_next(&chance) % (uint64_t)below);
}

static uint32_t model_count(int queue)
{
    uint32_t count = 0;
    for (int i = 0; i < GRAINS; i++)
        count += model[i].queue == queue;
    return count;
}

static void model_enter(model_route *route, int queue)
{
    route->queue = queue;
    route->since = ++model_steps;
}

static model_route *model_first(int queue)
{
    model_route *first = NULL;
    for (int i = 0; i < GRAINS; i++)
        if (model[i].queue == queue && (first == NULL || model[i].since < first->since))
            first = &model[i];
    return first;
}

static void model_settle(int queue)
{
    model_route *route = model_first(queue);
    const bool accessed = route->accessed;
    route->accessed = false;
    if (accessed)
        model_enter(route, TEFF__ROUTE_WARM);
    else if (queue != TEFF__ROUTE_COLD)
        model_enter(route, TEFF__ROUTE_COLD);
    else
        route->queue = NONE;
}

static bool model_full(void)
{
    return model_count(TEFF__ROUTE_HOT) + model_count(TEFF__ROUTE_WARM) +
               model_count(TEFF__ROUTE_COLD) >=
           model_capacity;
}

static void model_make_room(void)
{
    if (model_count(TEFF__ROUTE_HOT) == model_max[TEFF__ROUTE_HOT])
        model_settle(TEFF__ROUTE_HOT);
    for (int i = 0; i < 8; i++) {
        if (model_count(TEFF__ROUTE_WARM) > model_max[TEFF__ROUTE_WARM])
            model_settle(TEFF__ROUTE_WARM);
        else if (model_full())
            model_settle(TEFF__ROUTE_COLD);
    }
    if (model_count(TEFF__ROUTE_WARM) > model_max[TEFF__ROUTE_WARM]) {
        model_route *route = model_first(TEFF__ROUTE_WARM);
        route->accessed = false;
        model_enter(route, TEFF__ROUTE_COLD);
    }
    if (model_full())
        model_first(TEFF__ROUTE_COLD)->queue = NONE;
}

/* What a hit does; false: there is nothing to hit. */
static bool model_hit(model_route *route)
{
    if (route->queue == NONE)
        return false;
    if (route->queue != TEFF__ROUTE_WAITING && units - route->used > TTL_UNITS) {
        route->queue = NONE;
        return false;
    }
    route->used = units;
    route->accessed = true;
    return true;
}

static void model_begin(uint32_t capacity, uint32_t hot, uint32_t warm, uint32_t cold)
{
    begin_routes(capacity, TTL_UNITS * MS);
    memset(model, 0, sizeof(model));
    for (int i = 0; i < GRAINS; i++)
        model[i].queue = NONE;
    model_capacity = capacity;
    model_max[TEFF__ROUTE_HOT] = hot;
    model_max[TEFF__ROUTE_WARM] = warm;
    model_max[TEFF__ROUTE_COLD] = cold;
    units = (INT64_C(1) << 32) - 20000; /* the coarse time wraps on the way */
    set_now(units * MS);
}

/* The entry that is there, without a hit. */
static teff__route *entry_of(int grain)
{
    return teff__routes_peek(&routes, model[grain].name);
}

static void step_use(int grain)
{
    model_route *of = &model[grain];
    const bool there = model_hit(of);
    teff__route *route = draw(2) != 0 ? find((uint64_t)grain) : get(of->name, (uint64_t)grain);
    cr_assert_eq(route != NULL, there);
    if (there) {
        cr_assert_eq(teff__route_address(route), of->address);
        return;
    }
    cr_assert_null(find((uint64_t)grain));
    model_make_room();
    model_enter(of, TEFF__ROUTE_HOT);
    of->address = 1 + teff__chance_next(&chance) % 5;
    of->used = units;
    of->accessed = false;
    of->name = name_of(add_at((uint64_t)grain, of->address));
}

static void step_rebind(int grain)
{
    model_route *of = &model[grain];
    const teff__route_ticket ticket = { of->name, 1 + (uint64_t)draw(5) };
    const bool same = of->queue != NONE && of->address == ticket.address;
    const bool binds = same && model_hit(of);
    cr_assert_eq(teff__routes_bind(&routes, ticket, 3), binds);
    if (binds)
        of->address = 3;
}

static void step_remove(int grain)
{
    const uint64_t address = draw(10) == 0 ? 1 + (uint64_t)draw(5) : 0;
    uint32_t expected = 0;
    for (int i = 0; i < GRAINS; i++) {
        const bool hit = address != 0 ? model[i].address == address : i == grain;
        if (model[i].queue == NONE || !hit)
            continue;
        expected++;
        model[i].address = 0;
        if (model[i].queue != TEFF__ROUTE_WAITING)
            model[i].queue = NONE;
    }
    cr_assert_eq(address != 0 ? teff__routes_remove_address(&routes, address)
                              : remove_grain((uint64_t)grain),
                 expected);
}

static void step_wait(int grain)
{
    model_route *of = &model[grain];
    teff__queue messages;
    if (of->queue == NONE)
        return;
    if (of->queue != TEFF__ROUTE_WAITING) {
        cr_assert_eq(teff__routes_wait(&routes, entry_of(grain)), 0);
        model_enter(of, TEFF__ROUTE_WAITING);
        return;
    }
    of->address = (uint64_t)draw(6);
    if (of->address != 0)
        model_make_room();
    model_enter(of, of->address != 0 ? TEFF__ROUTE_WARM : NONE);
    of->used = units;
    of->accessed = true;
    teff__routes_go_on(&routes, entry_of(grain), of->address, &messages);
    cr_assert_null(messages.head);
}

static void step_sweep(void)
{
    uint32_t expected = 0;
    for (int i = 0; i < GRAINS; i++) {
        if (model[i].queue == NONE || model[i].queue == TEFF__ROUTE_WAITING ||
            units - model[i].used <= TTL_UNITS)
            continue;
        model[i].queue = NONE;
        expected++;
    }
    cr_assert_eq(teff__routes_sweep(&routes, UINT32_MAX), expected);
}

static void step(int grain)
{
    const int what = draw(100);
    if (what < 80)
        step_use(grain);
    else if (what < 85)
        step_rebind(grain);
    else if (what < 90)
        step_remove(grain);
    else if (what < 96)
        step_wait(grain);
    else if (what == 96)
        step_sweep();
    else
        set_now((units += draw(100)) * MS);
}

static void expect_the_same(uint32_t slots_max)
{
    uint32_t count = 0;
    for (int i = 0; i < GRAINS; i++) {
        const teff__route *route = entry_of(i);
        cr_assert_eq(route != NULL, model[i].queue != NONE);
        if (route == NULL)
            continue;
        count++;
        cr_assert_eq(teff__route_address(route), model[i].address);
        cr_assert_eq((int)(route->state >> 28 & 3), model[i].queue);
        cr_assert_eq(teff__route_waits(route), model[i].queue == TEFF__ROUTE_WAITING);
    }
    cr_assert_eq(routes.count, count);
    cr_assert_leq(count, model_capacity + model_count(TEFF__ROUTE_WAITING));
    cr_assert_leq(routes.made, slots_max);
}

static void run(int grains, int steps)
{
    uint32_t waiting_most = 0;
    for (int i = 0; i < steps; i++) {
        step(draw(draw(2) != 0 ? grains : 5)); /* some are used more */
        if (model_count(TEFF__ROUTE_WAITING) > waiting_most)
            waiting_most = model_count(TEFF__ROUTE_WAITING);
        expect_the_same(model_capacity + waiting_most);
    }
}

Test(route_model, the_smallest_cache)
{
    teff__chance_init(&chance, 1);
    model_begin(3, 1, 1, 1);
    run(12, 20000);
}

Test(route_model, a_small_cache)
{
    teff__chance_init(&chance, 2);
    model_begin(10, 1, 8, 1);
    run(40, 20000);
}

Test(route_model, a_larger_cache_of_few_grains)
{
    teff__chance_init(&chance, 3);
    model_begin(30, 3, 24, 3);
    run(35, 20000);
}

Test(route_model, a_cache_of_many_grains)
{
    teff__chance_init(&chance, 4);
    model_begin(20, 2, 16, 2);
    run(GRAINS, 20000);
}
