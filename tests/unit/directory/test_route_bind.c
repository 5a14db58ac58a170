/* SPDX-License-Identifier: MIT */
/*
 * What an entry is bound to. Whatever ends the binding ends it at once; and who asked for an address
 * before, and gets it after, binds nothing: the "slow bind". Each order is written out.
 */
#include "tests/unit/directory/routes.h"

static uint64_t name; /* of grain 5's entry, as it was in the beginning */
static teff__route_ticket ticket;

/* Grain 5's address is asked for by one who knows 1005. */
static void begin(void)
{
    begin_four();
    teff__route *route = add(5);
    name = name_of(route);
    ticket = teff__routes_ticket(&routes, route);
}

TestSuite(route_bind, .init = begin, .fini = end_routes);

static bool bind(uint64_t address)
{
    return teff__routes_bind(&routes, ticket, address);
}

static void evict(void)
{
    for (uint64_t grain = 10; grain < 14; grain++)
        add(grain);
}

/* Grain 5's slot is given to grain 6. */
static void reuse(void)
{
    cr_assert_eq(remove_grain(5), 1);
    cr_assert_eq(teff__address_slot(name_of(add(6))), teff__address_slot(name));
}

static void expire(void)
{
    set_now(now_ns + 2 * MIN);
    cr_assert_eq(teff__routes_sweep(&routes, 1000), 1);
}

static void expect_gone(void)
{
    cr_assert_null(get(name, 5));
    cr_assert_null(find(5));
    cr_assert_eq(remove_grain(5), 0);
    cr_assert_eq(teff__routes_remove_address(&routes, 1005), 0);
    cr_assert_eq(teff__routes_remove_address(&routes, 2005), 0);
}

static void expect_bound(uint64_t address)
{
    cr_assert_eq(teff__route_address(get(name, 5)), address);
    cr_assert_eq(teff__route_address(find(5)), address);
}

/* ---- nothing came between ---- */

Test(route_bind, an_answer_binds)
{
    cr_assert(bind(2005));
    expect_bound(2005);
}

Test(route_bind, the_first_of_two_answers_binds)
{
    cr_assert(bind(2005));
    cr_assert_not(bind(3005));
    expect_bound(2005);
}

Test(route_bind, an_answer_that_confirms_the_address_binds_and_so_does_the_next)
{
    cr_assert(bind(1005));
    cr_assert(bind(2005));
    expect_bound(2005);
}

Test(route_bind, an_unresolved_entry_is_bound_by_its_answer)
{
    teff__route *route = add_at(6, 0);
    ticket = teff__routes_ticket(&routes, route);
    cr_assert(bind(2006));
    cr_assert_eq(teff__route_address(find(6)), 2006);
}

Test(route_bind, a_hit_in_between_changes_nothing)
{
    set_now(now_ns + 100 * MS);
    cr_assert_not_null(find(5));
    cr_assert_not_null(get(name, 5));
    cr_assert(bind(2005));
    expect_bound(2005);
}

/* ---- one thing came between ---- */

Test(route_bind, after_a_replacement_an_answer_binds_nothing)
{
    teff__routes_rebind(&routes, find(5), 3005);
    cr_assert_not(bind(2005));
    expect_bound(3005);
}

Test(route_bind, after_the_address_was_dropped_an_answer_binds_nothing)
{
    teff__routes_rebind(&routes, find(5), 0);
    cr_assert_not(bind(2005));
    expect_bound(0);
}

Test(route_bind, after_an_eviction_an_answer_binds_nothing)
{
    evict();
    cr_assert_not(bind(2005));
    expect_gone();
}

Test(route_bind, after_its_memory_went_to_another_grain_an_answer_binds_nothing)
{
    reuse();
    cr_assert_not(bind(2005));
    expect_gone();
    cr_assert_eq(teff__route_address(find(6)), 1006);
}

Test(route_bind, after_its_memory_went_to_the_same_grain_again_an_answer_binds_nothing)
{
    cr_assert_eq(remove_grain(5), 1);
    cr_assert_eq(teff__address_slot(name_of(add(5))), teff__address_slot(name));
    cr_assert_not(bind(2005));
    cr_assert_null(get(name, 5));
    cr_assert_eq(teff__route_address(find(5)), 1005);
}

Test(route_bind, after_its_memory_went_to_another_grain_at_the_same_address_an_answer_binds_nothing)
{
    cr_assert_eq(remove_grain(5), 1);
    cr_assert_eq(teff__address_slot(name_of(add_at(6, 1005))), teff__address_slot(name));
    cr_assert_not(bind(2005));
    cr_assert_eq(teff__route_address(find(6)), 1005);
}

Test(route_bind, after_a_removal_by_grain_an_answer_binds_nothing)
{
    cr_assert_eq(remove_grain(5), 1);
    cr_assert_not(bind(2005));
    expect_gone();
}

Test(route_bind, after_a_removal_by_address_an_answer_binds_nothing)
{
    cr_assert_eq(teff__routes_remove_address(&routes, 1005), 1);
    cr_assert_not(bind(2005));
    expect_gone();
}

Test(route_bind, after_its_worker_was_removed_an_answer_binds_nothing)
{
    const uint64_t of_worker_3 =
        teff__address_make(teff__address_tag(3, TEFF__ADDRESS_ACTIVATION), 9, 1);
    ticket = teff__routes_ticket(&routes, add_at(6, of_worker_3));
    cr_assert_eq(teff__routes_remove_worker(&routes, 4), 0);
    cr_assert_eq(teff__routes_remove_worker(&routes, 3), 1);
    cr_assert_not(bind(2006));
    cr_assert_null(find(6));
    cr_assert_not_null(find(5));
}

Test(route_bind, after_it_expired_an_answer_binds_nothing)
{
    begin_routes(4, MIN);
    ticket = teff__routes_ticket(&routes, add(5));
    expire();
    cr_assert_not(bind(2005));
    expect_gone();
}

Test(route_bind, an_answer_that_comes_first_after_the_time_is_over_binds_nothing)
{
    begin_routes(4, MIN);
    ticket = teff__routes_ticket(&routes, add(5));
    set_now(now_ns + MIN + 2 * MS); /* nobody looked, and no sweep came by */
    cr_assert_not(bind(2005));
    expect_gone();
}

Test(route_bind, after_a_clear_an_answer_binds_nothing)
{
    teff__routes_clear(&routes);
    cr_assert_not(bind(2005));
    expect_gone();
}

Test(route_bind, after_a_clear_and_reuse_an_answer_binds_nothing)
{
    teff__routes_clear(&routes);
    cr_assert_eq(teff__address_slot(name_of(add(6))), teff__address_slot(name));
    cr_assert_not(bind(2005));
    cr_assert_eq(teff__route_address(find(6)), 1006);
}

Test(route_bind, after_a_close_an_answer_binds_nothing)
{
    teff__routes_finish(&routes);
    cr_assert_not(bind(2005));
    cr_assert_null(get(name, 5));
    cr_assert_eq(teff__atomic_u64_load_relaxed(&memory.bytes), 0);
}

/* ---- two things came between ---- */

Test(route_bind, replaced_and_replaced_by_the_first_again_it_is_what_was_asked_about)
{
    teff__routes_rebind(&routes, find(5), 3005);
    teff__routes_rebind(&routes, find(5), 1005);
    cr_assert(bind(2005));
    expect_bound(2005);
}

Test(route_bind, removed_by_its_new_address_after_a_replacement)
{
    teff__routes_rebind(&routes, find(5), 3005);
    cr_assert_eq(teff__routes_remove_address(&routes, 1005), 0);
    expect_bound(3005);
    cr_assert_eq(teff__routes_remove_address(&routes, 3005), 1);
    cr_assert_not(bind(2005));
    expect_gone();
}

Test(route_bind, replaced_then_evicted)
{
    teff__routes_rebind(&routes, find(5), 3005);
    evict(); /* the update was a use: it goes to warm */
    cr_assert_not(bind(2005));
    expect_bound(3005);
    cr_assert_eq(remove_grain(5), 1);
    cr_assert_not(bind(2005));
    expect_gone();
}

Test(route_bind, evicted_then_its_memory_reused)
{
    evict();
    teff__route *route = find(13);
    cr_assert_eq(teff__address_slot(name_of(route)), teff__address_slot(name));
    cr_assert_not(bind(2005));
    cr_assert_eq(teff__route_address(route), 1013);
}

Test(route_bind, evicted_then_added_again)
{
    evict();
    add_at(5, 1005);
    cr_assert_not(bind(2005));
    cr_assert_null(get(name, 5));
    cr_assert_eq(teff__route_address(find(5)), 1005);
}

/* ---- it came after ---- */

Test(route_bind, bound_then_replaced)
{
    cr_assert(bind(2005));
    teff__routes_rebind(&routes, find(5), 3005);
    expect_bound(3005);
}

Test(route_bind, bound_then_evicted)
{
    cr_assert(bind(2005)); /* an update is a use, so it goes by warm and cold */
    for (uint64_t grain = 10; grain < 14; grain++) {
        add(grain);
        cr_assert_not_null(find(grain)); /* they fill warm */
    }
    cr_assert_null(find(5));
    expect_gone();
}

Test(route_bind, bound_then_removed_by_grain)
{
    cr_assert(bind(2005));
    cr_assert_eq(remove_grain(5), 1);
    expect_gone();
}

Test(route_bind, bound_then_removed_by_address)
{
    cr_assert(bind(2005));
    cr_assert_eq(teff__routes_remove_address(&routes, 1005), 0);
    cr_assert_eq(teff__routes_remove_address(&routes, 2005), 1);
    expect_gone();
}

Test(route_bind, bound_then_expired)
{
    begin_routes(4, MIN);
    ticket = teff__routes_ticket(&routes, add(5));
    cr_assert(bind(2005));
    expire();
    expect_gone();
}

Test(route_bind, an_answer_that_binds_restarts_the_age)
{
    begin_routes(4, MIN);
    teff__route *route = add(5);
    name = name_of(route);
    ticket = teff__routes_ticket(&routes, route);
    set_now(now_ns + MIN / 2);
    cr_assert(bind(2005));
    set_now(now_ns + MIN);
    expect_bound(2005);
}

Test(route_bind, bound_then_cleared)
{
    cr_assert(bind(2005));
    teff__routes_clear(&routes);
    expect_gone();
}

Test(route_bind, bound_then_closed)
{
    cr_assert(bind(2005));
    teff__routes_finish(&routes);
    cr_assert_null(get(name, 5));
}

/* ---- while it waits ---- */

static teff__queue go_on(uint64_t address)
{
    teff__queue messages;
    teff__routes_go_on(&routes, find(5), address, &messages);
    return messages;
}

Test(route_bind, what_waits_goes_on_waiting_when_its_answer_binds)
{
    teff__link link;
    cr_assert_eq(teff__routes_wait(&routes, find(5)), 0);
    teff__queue_push(&find(5)->wait->messages, &link);
    cr_assert(bind(2005));
    expect_bound(2005);
    cr_assert(teff__route_waits(find(5)));
    cr_assert_eq(go_on(2005).head, &link);
    expect_bound(2005);
}

Test(route_bind, one_that_waits_forgets_the_address_that_is_removed_and_keeps_what_waits)
{
    teff__link link;
    for (int how = 0; how < 3; how++) {
        teff__routes_rebind(&routes, find(5), 1005);
        cr_assert_eq(teff__routes_wait(&routes, find(5)), 0);
        teff__queue_push(&find(5)->wait->messages, &link);
        if (how == 0)
            cr_assert_eq(teff__routes_remove_address(&routes, 1005), 1);
        else if (how == 1)
            cr_assert_eq(remove_grain(5), 1);
        else
            teff__routes_clear(&routes);
        expect_bound(0);
        cr_assert_not(bind(2005));
        cr_assert_eq(go_on(3005).head, &link);
        expect_bound(3005);
    }
}

Test(route_bind, after_what_waited_went_on_to_another_address_an_answer_binds_nothing)
{
    cr_assert_eq(teff__routes_wait(&routes, find(5)), 0);
    (void)go_on(3005);
    cr_assert_not(bind(2005));
    expect_bound(3005);
}

Test(route_bind, after_what_waited_went_on_to_nowhere_an_answer_binds_nothing)
{
    cr_assert_eq(teff__routes_wait(&routes, find(5)), 0);
    (void)go_on(0);
    cr_assert_not(bind(2005));
    expect_gone();
}
