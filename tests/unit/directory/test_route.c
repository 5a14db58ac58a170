/* SPDX-License-Identifier: MIT */
/* The route cache: names that go stale, and eviction by second chance. */
#include "directory/route.h"

#include "runtime/chance.h"

#include "teff/status.h"

#include <criterion/criterion.h>
#include <stdio.h>

static teff__memory memory;
static teff__routes routes;

static void begin(void)
{
    teff__memory_init(&memory, 0);
    teff__routes_init(&routes, &memory, 2, 4); /* worker 2, four entries */
}

/* teff_assert: Criterion's own asserts count for nothing after the test. */
static void end(void)
{
    teff__routes_finish(&routes);
    teff_assert(teff__atomic_u64_load_relaxed(&memory.bytes) == 0);
}

TestSuite(route, .init = begin, .fini = end);

static teff__route *find(uint64_t grain)
{
    const teff_key key = teff_key_u64(grain);
    return teff__routes_find(&routes, grain * 16, 1, &key);
}

static teff__route *add(uint64_t grain)
{
    teff__route *route = NULL;
    const teff_key key = teff_key_u64(grain);
    cr_assert_eq(teff__routes_add(&routes, grain * 16, 1, &key, 1000 + grain, &route), 0);
    return route;
}

Test(route, it_is_found_by_grain_and_by_name)
{
    teff__route *route = add(5);
    const teff_key key = teff_key_u64(5);
    cr_assert_eq(find(5), route);
    cr_assert_eq(teff__routes_get(&routes, route->name), route);
    cr_assert_eq(route->record.address, 1005);
    cr_assert_null(find(6));
    cr_assert_null(teff__routes_find(&routes, 80, 2, &key)); /* another type's */
}

Test(route, its_name_says_whose_cache_and_which_slot)
{
    /* Worker 2 and kind 1 in the upper 9 bits, then slot, then the first generation. */
    cr_assert_eq(add(5)->name, UINT64_C(7) << 55 | UINT64_C(0) << 28 | 1);
    cr_assert_eq(add(6)->name, UINT64_C(7) << 55 | UINT64_C(1) << 28 | 1);
    cr_assert_eq(teff__address_worker(find(6)->name), 2);
    cr_assert_eq(teff__address_slot(find(6)->name), 1);
    cr_assert_eq(teff__address_generation(find(6)->name), 1);
}

Test(route, no_name_and_other_workers_names_lead_nowhere)
{
    teff__route *route = add(5);
    cr_assert_null(teff__routes_get(&routes, 0));
    cr_assert_null(teff__routes_get(&routes, route->name + (UINT64_C(2) << 55))); /* worker 3's */
    cr_assert_null(
        teff__routes_get(&routes, route->name - (UINT64_C(1) << 55))); /* an activation */
    cr_assert_null(teff__routes_get(&routes, route->name + (UINT64_C(1) << 28))); /* not made */
    cr_assert_null(teff__routes_get(&routes, route->name + 2));
}

Test(route, a_stale_name_does_not_lead_to_the_slots_next_route)
{
    teff__route *route = add(5);
    const uint64_t stale = route->name;
    teff__routes_remove(&routes, route);
    cr_assert_null(find(5));
    cr_assert_null(teff__routes_get(&routes, stale));
    route = add(6);
    cr_assert_eq(teff__address_slot(route->name), 0);
    cr_assert_null(teff__routes_get(&routes, stale));
    cr_assert_eq(teff__routes_get(&routes, route->name), route);
}

static void expect_there(const char *grains)
{
    char found[16] = "";
    for (uint64_t i = 1; i <= 9; i++)
        if (find(i) != NULL)
            (void)snprintf(found + strlen(found), sizeof(found) - strlen(found), "%d", (int)i);
    cr_assert_str_eq(found, grains);
}

Test(route, a_full_cache_evicts_one_that_was_not_used)
{
    for (uint64_t i = 1; i <= 4; i++)
        add(i)->used = i != 3;
    add(5);
    expect_there("1245");
    cr_assert_eq(routes.table.count, 4);
}

Test(route, one_that_was_used_gets_a_second_chance_and_no_third)
{
    for (uint64_t i = 1; i <= 4; i++)
        add(i)->used = true;
    add(5)->used = true; /* the hand took the mark from all, then found slot 1 without one */
    expect_there("1345");
    add(6); /* slot 2 is next */
    expect_there("1456");
    find(4)->used = true;
    add(7);
    expect_there("4567");
}

Test(route, one_that_waits_for_its_probe_is_never_evicted)
{
    for (uint64_t i = 1; i <= 4; i++)
        add(i)->switching = i != 4;
    add(5);
    expect_there("1235");
    find(5)->switching = true;
    add(6); /* none can go: there is one more for a while */
    expect_there("12356");
}

Test(route, whatever_comes_and_goes_the_cache_keeps_its_bounds_and_its_names)
{
    teff__chance chance;
    uint64_t names[100] = { 0 };
    teff__chance_init(&chance, 1);
    for (int step = 0; step < 20000; step++) {
        const uint64_t grain = teff__chance_next(&chance) % 100;
        teff__route *route = find(grain);
        if (route == NULL) {
            cr_assert_null(teff__routes_get(&routes, names[grain]));
            route = add(grain);
        }
        cr_assert_eq(route->record.address, 1000 + grain);
        names[grain] = route->name;
        route->used = teff__chance_next(&chance) % 2;
        if (teff__chance_next(&chance) % 10 == 0)
            teff__routes_remove(&routes, route);
        cr_assert_leq(routes.table.count, 4);
        cr_assert_eq(routes.table.count, routes.slots.count);
    }
    cr_assert_eq(routes.slots.made, 4);
}

Test(route, without_memory_none_is_added_and_none_is_left_half_made)
{
    teff__route *route = NULL;
    const teff_key key = teff_key_u64(5);
    static const uint64_t which[] = { 1, 2,
                                      2 }; /* the table; the route; with the table, the slots */
    for (int i = 0; i < 3; i++) {
        teff__memory_fail_at(&memory, which[i]);
        cr_assert_eq(teff__routes_add(&routes, 80, 1, &key, 1005, &route), TEFF_ENOMEM);
        cr_assert_null(route);
        cr_assert_null(find(5));
    }
    cr_assert_eq(routes.slots.count, 0);
    cr_assert_eq(add(5), find(5));
}
