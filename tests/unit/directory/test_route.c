/* SPDX-License-Identifier: MIT */
/* The route cache: what finds an entry, what waits in one, and what is left without memory. */
#include "tests/unit/directory/routes.h"

TestSuite(route, .init = begin_four, .fini = end_routes);

Test(route, it_is_found_by_grain_and_by_name)
{
    teff__route *route = add(5);
    uint64_t name = 4711;
    const teff_key key = teff_key_u64(5);
    cr_assert_eq(find(5), route);
    cr_assert_eq(get(name_of(route), 5), route);
    cr_assert_eq(teff__routes_peek(&routes, name_of(route)), route);
    cr_assert_eq(teff__route_address(route), 1005);
    cr_assert_null(find(6));
    cr_assert_null(teff__routes_find(&routes, hash_of(5), 2, &key, &name)); /* another type's */
    cr_assert_eq(name, 4711);
}

Test(route, its_name_says_whose_cache_and_which_slot)
{
    /* Worker 2 and kind 1 in the upper 9 bits, then slot, then the first generation. */
    cr_assert_eq(name_of(add(5)), UINT64_C(7) << 55 | UINT64_C(0) << 28 | 1);
    cr_assert_eq(name_of(add(6)), UINT64_C(7) << 55 | UINT64_C(1) << 28 | 1);
    cr_assert_eq(teff__address_worker(name_of(find(6))), 2);
    cr_assert_eq(teff__address_slot(name_of(find(6))), 1);
    cr_assert_eq(teff__address_generation(name_of(find(6))), 1);
}

Test(route, no_name_and_other_workers_names_lead_nowhere)
{
    const uint64_t name = name_of(add(5));
    cr_assert_null(get(0, 5));
    cr_assert_null(get(name + (UINT64_C(2) << 55), 5));   /* worker 3's */
    cr_assert_null(get(name - (UINT64_C(1) << 55), 5));   /* an activation */
    cr_assert_null(get(name + (UINT64_C(1) << 28), 5));   /* not taken yet */
    cr_assert_null(get(name + (UINT64_C(300) << 28), 5)); /* not made yet */
    cr_assert_null(get(name + 2, 5));
}

Test(route, a_name_that_was_never_given_does_not_lead_to_a_free_slot)
{
    teff__route *route = add(5);
    const uint64_t name = name_of(route);
    teff__routes_remove(&routes, route);
    cr_assert_null(get(name, 5));
    cr_assert_null(get(name + 1, 5)); /* the generation that the slot has now, which is even */
}

Test(route, a_name_does_not_lead_to_another_grain)
{
    teff__route *route = add(5);
    const uint32_t used = route->used;
    set_now(now_ns + 5 * MS);
    cr_assert_null(get(name_of(route), 6));
    cr_assert_eq(route->used, used); /* it was no hit */
}

Test(route, a_stale_name_does_not_lead_to_the_slots_next_route)
{
    teff__route *route = add(5);
    const uint64_t stale = name_of(route);
    teff__routes_remove(&routes, route);
    cr_assert_null(find(5));
    cr_assert_null(get(stale, 5));
    route = add(5); /* the same grain, and still another entry */
    cr_assert_eq(teff__address_slot(name_of(route)), 0);
    cr_assert_null(get(stale, 5));
    cr_assert_eq(get(name_of(route), 5), route);
    cr_assert_eq(name_of(route), stale + 2);
}

Test(route, a_slot_whose_generations_are_used_up_is_retired)
{
    routes.generation_max = 5;
    for (int i = 0; i < 3; i++) {
        teff__route *route = add(5);
        cr_assert_eq(name_of(route), UINT64_C(7) << 55 | (uint64_t)(2 * i + 1));
        teff__routes_remove(&routes, route);
    }
    cr_assert_eq(name_of(add(5)), UINT64_C(7) << 55 | UINT64_C(1) << 28 | 1);
    cr_assert_eq(routes.made, 2);
}

Test(route, there_are_as_many_slots_as_a_word_of_the_index_can_name)
{
    begin_routes(16777215, INT64_MAX);
    add(5);
    const uint32_t free = routes.free;
    routes.made = 16777215; /* as if all were there, and taken */
    routes.free = 0;
    teff__route *route = NULL;
    const teff_key key = teff_key_u64(6);
    cr_assert_eq(teff__routes_add(&routes, hash_of(6), 1, &key, 1006, &route), TEFF_ELIMIT);
    cr_assert_null(route);
    routes.made = 1;
    routes.free = free;
    cr_assert_null(find(6));
    cr_assert_not_null(find(5));
}

Test(route, a_slot_has_generations_up_to_the_last_that_a_name_can_hold)
{
    teff__route *route = add(5);
    teff__routes_remove(&routes, route);
    route->state = (1u << 28) - 6; /* as after 134,217,725 lives */
    route = add(5);
    cr_assert_eq(teff__address_generation(name_of(route)), (1u << 28) - 5);
    teff__routes_remove(&routes, route);
    route = add(5);
    cr_assert_eq(name_of(route), UINT64_C(7) << 55 | ((1u << 28) - 3));
    teff__routes_remove(&routes, route);
    cr_assert_null(get(UINT64_C(7) << 55 | ((1u << 28) - 3), 5));
    cr_assert_eq(teff__address_slot(name_of(add(5))), 1);
}

/* ---- waiting ---- */

static void push(teff__route *route, teff__link *link)
{
    teff__queue_push(&route->wait->messages, link);
}

Test(route, what_waits_comes_out_in_order_with_the_address)
{
    teff__route *route = add_at(5, 0);
    const uint64_t name = name_of(route);
    teff__link links[3];
    teff__queue messages;
    cr_assert_not(teff__route_waits(route));
    cr_assert_eq(teff__routes_wait(&routes, route), 0);
    cr_assert(teff__route_waits(route));
    cr_assert_eq(teff__route_address(route), 0);
    cr_assert_not(route->wait->leaving);
    for (int i = 0; i < 3; i++)
        push(route, &links[i]);
    cr_assert_eq(find(5), route);
    teff__routes_go_on(&routes, route, 77, &messages);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(teff__queue_pop(&messages), &links[i]);
    cr_assert_null(teff__queue_pop(&messages));
    cr_assert_not(teff__route_waits(route));
    cr_assert_eq(get(name, 5), route);
    cr_assert_eq(teff__route_address(route), 77);
    expect_lines("", "5", "");
}

Test(route, while_it_waits_its_old_address_is_known)
{
    teff__route *route = add(5);
    cr_assert_eq(teff__routes_wait(&routes, route), 0);
    cr_assert_eq(teff__route_address(route), 1005);
    route->wait->leaving = true;
    cr_assert_eq(teff__routes_wait(&routes, route), 0); /* it does already */
    cr_assert(route->wait->leaving);
    teff__queue messages;
    teff__routes_go_on(&routes, route, 1005, &messages);
    cr_assert_null(messages.head);
}

Test(route, one_that_goes_on_to_nowhere_is_removed)
{
    teff__route *route = add(5);
    const uint64_t name = name_of(route);
    teff__queue messages;
    cr_assert_eq(teff__routes_wait(&routes, route), 0);
    teff__routes_go_on(&routes, route, 0, &messages);
    cr_assert_null(get(name, 5));
    cr_assert_null(find(5));
    cr_assert_eq(routes.count, 0);
    expect_lines("", "", "");
}

Test(route, those_that_wait_stand_beyond_the_capacity_and_are_never_evicted)
{
    for (uint64_t grain = 1; grain <= 5; grain++)
        cr_assert_eq(teff__routes_wait(&routes, add(grain)), 0);
    for (uint64_t grain = 10; grain < 30; grain++)
        add(grain);
    cr_assert_str_eq(line(TEFF__ROUTE_WAITING), "12345");
    cr_assert_eq(routes.count, 9);
    for (uint64_t grain = 1; grain <= 5; grain++) {
        teff__queue messages;
        cr_assert(teff__route_waits(find(grain)));
        teff__routes_go_on(&routes, find(grain), address_of(grain), &messages);
        cr_assert_eq(teff__route_address(find(grain)), address_of(grain));
        cr_assert_leq(routes.count, 9 - grain); /* it takes another one's place */
    }
    cr_assert_eq(routes.count, 4);
}

/* ---- without memory ---- */

static uint64_t allocations(void)
{
    return teff__atomic_u64_load_relaxed(&memory.allocations);
}

static int try_to_add(uint64_t grain, uint64_t fail_at)
{
    teff__route *route = NULL;
    const teff_key key = teff_key_u64(grain);
    teff__memory_fail_at(&memory, fail_at);
    const int r = teff__routes_add(&routes, hash_of(grain), 1, &key, address_of(grain), &route);
    teff__memory_fail_at(&memory, 0);
    cr_assert_eq(r == 0, route != NULL);
    return r;
}

Test(route, without_memory_none_is_added_and_none_is_left_half_made)
{
    int failed = 0;
    begin_routes(2000, INT64_MAX);
    for (uint64_t grain = 1; grain <= 1500; grain++) {
        for (uint64_t n = 1; try_to_add(grain, n) != 0; n++) {
            cr_assert_null(find(grain));
            cr_assert_eq(routes.count, grain - 1);
            failed++;
        }
        cr_assert_eq(find(grain)->address, address_of(grain));
    }
    /* The index 8 times (16 to 2,048), 24 segments, their list 4 times; some hide behind others. */
    cr_assert_geq(failed, 24);
    for (uint64_t grain = 1; grain <= 1500; grain++)
        cr_assert_eq(find(grain)->address, address_of(grain));
}

Test(route, each_allocation_of_the_first_one_may_fail)
{
    const uint64_t before = allocations();
    add(5);
    cr_assert_eq(allocations() - before, 3); /* index, list of segments, segment */
    for (uint64_t n = 1; n <= 3; n++) {
        begin_routes(4, INT64_MAX);
        cr_assert_eq(try_to_add(5, n), TEFF_ENOMEM);
        cr_assert_null(find(5));
        cr_assert_eq(routes.count, 0);
        cr_assert_eq(add(5), find(5));
    }
}

Test(route, without_memory_to_wait_it_stays_as_it_was)
{
    teff__route *route = add(5);
    teff__memory_fail_at(&memory, 1);
    cr_assert_eq(teff__routes_wait(&routes, route), TEFF_ENOMEM);
    cr_assert_not(teff__route_waits(route));
    cr_assert_eq(teff__route_address(route), 1005);
    expect_lines("5", "", "");
}

Test(route, what_is_found_evicted_and_reused_allocates_nothing)
{
    begin_routes(100, MIN);
    for (uint64_t grain = 0; grain < 200; grain++)
        add(grain);
    const uint64_t before = allocations();
    for (uint64_t grain = 200; grain < 1000; grain++) {
        const uint64_t name = name_of(add(grain));
        cr_assert_not_null(find(grain));
        cr_assert_not_null(get(name, grain));
    }
    cr_assert_eq(allocations(), before);
    cr_assert_eq(routes.made, 100);
}

Test(route, an_entry_takes_at_most_96_bytes_with_all_that_belongs_to_it)
{
    static const uint32_t capacities[] = { 1000, 1537, 3000, 12289, 50000, 98305, 200000 };
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        begin_routes(capacities[i], INT64_MAX);
        for (uint64_t grain = 0; grain < capacities[i]; grain++)
            add(grain);
        cr_assert_eq(routes.count, capacities[i]);
        const uint64_t bytes = teff__atomic_u64_load_relaxed(&memory.bytes);
        cr_assert_leq(bytes, 96 * (uint64_t)capacities[i], "%d: %d", (int)capacities[i],
                      (int)bytes);
    }
}
