/* SPDX-License-Identifier: MIT */
/* The route cache's order and age: hot, warm and cold, time to live, and what the owner may refuse. */
#include "tests/unit/directory/routes.h"

TestSuite(route_order, .init = begin_four, .fini = end_routes);

/* ---- bounds ---- */

static void expect_division(uint32_t capacity, uint32_t hot, uint32_t warm, uint32_t cold)
{
    begin_routes(capacity, INT64_MAX);
    cr_assert_eq(routes.lines_max[TEFF__ROUTE_HOT], hot);
    cr_assert_eq(routes.lines_max[TEFF__ROUTE_WARM], warm);
    cr_assert_eq(routes.lines_max[TEFF__ROUTE_COLD], cold);
}

Test(route_order, case_96_four_fifths_are_warm)
{
    expect_division(10, 1, 8, 1);
    expect_division(4, 1, 2, 1);
    expect_division(3, 1, 1, 1);
    expect_division(20, 2, 16, 2);
    expect_division(1000000, 100000, 800000, 100000);
}

Test(route_order, case_96_sizes_and_times_that_make_no_sense_are_refused)
{
    teff__routes_finish(&routes);
    cr_assert_eq(init_routes(1, MIN), TEFF_EINVAL);
    cr_assert_eq(init_routes(2, MIN), TEFF_EINVAL);
    cr_assert_eq(init_routes(16777216, MIN), TEFF_EINVAL);
    cr_assert_eq(init_routes(4, 0), TEFF_EINVAL);
    cr_assert_eq(init_routes(4, -1), TEFF_EINVAL);
    cr_assert_eq(init_routes(0, 0), TEFF_EINVAL);
    cr_assert_eq(init_routes(16777215, 1), 0);
}

Test(route_order, case_98_without_a_capacity_nothing_is_kept)
{
    begin_routes(0, MIN);
    teff__route *route = find(5);
    const teff_key key = teff_key_u64(5);
    cr_assert_null(route);
    route = (teff__route *)&routes;
    cr_assert_eq(teff__routes_add(&routes, hash_of(5), 1, &key, 1005, &route), 0);
    cr_assert_null(route);
    cr_assert_null(find(5));
    cr_assert_eq(teff__routes_due_ns(&routes), INT64_MAX);
    cr_assert_eq(teff__routes_sweep(&routes, 10), 0);
    cr_assert_eq(teff__routes_remove_address(&routes, 1005), 0);
    teff__routes_clear(&routes);
    cr_assert_eq(teff__atomic_u64_load_relaxed(&memory.bytes), 0);
}

Test(route_order, without_a_capacity_a_route_is_there_only_while_it_waits)
{
    static const uint64_t addresses[] = { 0, 77 };
    begin_routes(0, MIN);
    for (int i = 0; i < 2; i++) {
        teff__route *route = NULL;
        teff__queue messages;
        const teff_key key = teff_key_u64(5);
        cr_assert_eq(teff__routes_add_waiting(&routes, hash_of(5), 1, &key, &route), 0);
        cr_assert_eq(find(5), route);
        cr_assert_eq(routes.count, 1);
        teff__routes_go_on(&routes, route, addresses[i], &messages);
        cr_assert_null(find(5));
        cr_assert_eq(routes.count, 0);
    }
}

/* ---- hot, warm and cold ---- */

Test(route_order, a_new_one_is_hot_and_goes_to_cold_when_nobody_used_it)
{
    add(1);
    expect_lines("1", "", "");
    add(2);
    expect_lines("2", "", "1");
    add(3);
    expect_lines("3", "", "12");
    add(4);
    expect_lines("4", "", "123"); /* warm has room still, so cold takes more than its part */
    add(5);
    expect_lines("5", "", "234");
    cr_assert_null(find(1));
}

Test(route_order, one_that_was_used_goes_to_warm)
{
    add(1);
    cr_assert_not_null(find(1));
    add(2);
    expect_lines("2", "1", "");
    cr_assert_not_null(get(name_of(find(2)), 2));
    add(3);
    expect_lines("3", "12", "");
    add(4);
    expect_lines("4", "12", "3");
}

Test(route_order, one_use_by_name_is_as_good_as_one_by_grain)
{
    const uint64_t name = name_of(add(1));
    cr_assert_not_null(get(name, 1));
    add(2);
    expect_lines("2", "1", "");
}

Test(route_order, one_that_is_only_looked_at_is_not_used)
{
    const uint64_t name = name_of(add(1));
    cr_assert_not_null(teff__routes_peek(&routes, name));
    add(2);
    expect_lines("2", "", "1");
}

Test(route_order, from_warm_it_goes_to_cold_unless_it_was_used_again)
{
    for (uint64_t grain = 1; grain <= 2; grain++)
        cr_assert_not_null(find((add(grain), grain)));
    add(3);
    expect_lines("3", "12", "");
    cr_assert_not_null(find(3));
    cr_assert_not_null(find(1));
    add(4); /* 3 to warm, which overflows: 1 stays there, behind 3, and 2 goes */
    expect_lines("4", "31", "2");
}

Test(route_order, from_cold_one_that_was_used_goes_to_warm_and_another_goes_away)
{
    for (uint64_t grain = 1; grain <= 4; grain++)
        add(grain);
    expect_lines("4", "", "123");
    cr_assert_not_null(find(1));
    add(5);
    expect_lines("5", "1", "34");
}

Test(route_order, where_all_are_used_the_oldest_of_warm_gives_way)
{
    for (uint64_t grain = 1; grain <= 20; grain++) {
        cr_assert_not_null(find((add(grain), grain)));
        for (uint64_t other = 1; other < grain; other++)
            (void)find(other);
        cr_assert_leq(routes.count, 4);
        cr_assert_not_null(find(grain));
    }
}

Test(route_order, a_walk_over_many_that_are_used_once_does_not_drive_out_those_in_use)
{
    begin_routes(10, INT64_MAX);
    for (uint64_t grain = 1; grain <= 8; grain++)
        cr_assert_not_null(find((add(grain), grain)));
    for (uint64_t grain = 100; grain < 1000; grain++) {
        teff__route *route = NULL;
        const teff_key key = teff_key_u64(grain);
        cr_assert_eq(teff__routes_add(&routes, hash_of(grain), 1, &key, 1, &route), 0);
    }
    for (uint64_t grain = 1; grain <= 8; grain++)
        cr_assert_not_null(find(grain));
}

Test(route_order, one_that_goes_leaves_its_place_to_the_next_at_once)
{
    begin_routes(10, INT64_MAX);
    for (uint64_t grain = 1; grain <= 8; grain++)
        cr_assert_not_null(find((add(grain), grain)));
    add(9);
    expect_lines("9", "12345678", "");
    cr_assert_eq(remove_grain(1), 1);
    expect_lines("9", "2345678", "");
    cr_assert_eq(remove_grain(5), 1);
    expect_lines("9", "234678", "");
    cr_assert_eq(remove_grain(8), 1);
    expect_lines("9", "23467", "");
    cr_assert_eq(remove_grain(9), 1);
    expect_lines("", "23467", "");
    add(10);
    expect_lines("a", "23467", "");
    cr_assert_eq(routes.made, 9);
}

/* ---- age ---- */

Test(route_order, case_94_a_sweep_removes_one_that_was_not_used_for_longer_than_the_time_to_live)
{
    uint32_t slot = 0;
    begin_routes(10, MIN);
    add(5);
    cr_assert_not_null(teff__routes_next(&routes, &slot));
    set_now(now_ns + 2 * MIN);
    cr_assert_eq(teff__routes_sweep(&routes, 1000), 1);
    cr_assert_null(find(5));
    slot = 0;
    cr_assert_null(teff__routes_next(&routes, &slot));
    cr_assert_eq(routes.count, 0);
}

Test(route_order, an_age_that_equals_the_time_to_live_is_kept)
{
    begin_routes(10, MIN);
    const uint64_t name = name_of(add(5));
    set_now(now_ns + MIN);
    cr_assert_eq(teff__routes_sweep(&routes, 1000), 0);
    cr_assert_not_null(get(name, 5));
    set_now(now_ns + MIN);
    cr_assert_not_null(find(5));
    set_now(now_ns + MIN + 2 * MS);
    cr_assert_null(find(5));
    cr_assert_null(get(name, 5));
    cr_assert_eq(routes.count, 0); /* who finds it too old removes it */
}

Test(route_order, one_that_is_too_old_is_removed_by_who_looks_by_name)
{
    begin_routes(10, MIN);
    const uint64_t name = name_of(add(5));
    set_now(now_ns + MIN + 2 * MS);
    cr_assert_null(get(name, 5));
    cr_assert_eq(routes.count, 0);
}

Test(route_order, an_age_is_told_to_a_unit_of_the_coarse_time)
{
    begin_routes(10, 100 * MS);
    set_now(1000 * MS);
    add(5);
    set_now(1100 * MS);
    cr_assert_not_null(find(5)); /* settled or not */
    teff__routes_at(&routes, 0)->used &= ~1u;
    set_now(1200 * MS);
    cr_assert_eq(teff__routes_sweep(&routes, 100), 0);
    set_now(1201 * MS);
    cr_assert_eq(teff__routes_sweep(&routes, 100), 1);
}

Test(route_order, an_update_restarts_the_age)
{
    begin_routes(10, MIN);
    add(5);
    set_now(now_ns + MIN);
    teff__routes_rebind(&routes, teff__routes_at(&routes, 0), 77);
    set_now(now_ns + MIN);
    cr_assert_not_null(find(5));
}

Test(route_order, one_that_waits_does_not_expire)
{
    begin_routes(10, MIN);
    const uint64_t name = name_of(add(5));
    teff__queue messages;
    cr_assert_eq(teff__routes_wait(&routes, find(5)), 0);
    set_now(now_ns + 5 * MIN);
    cr_assert_eq(teff__routes_sweep(&routes, 1000), 0);
    cr_assert_not_null(get(name, 5));
    set_now(now_ns + 5 * MIN);
    teff__routes_go_on(&routes, teff__routes_peek(&routes, name), 77, &messages);
    cr_assert_not_null(get(name, 5)); /* its age begins now */
    set_now(now_ns + 2 * MIN);
    cr_assert_eq(teff__routes_sweep(&routes, 1000), 1);
}

Test(route_order, for_ever_is_for_ever_and_so_is_more_than_ten_days)
{
    static const int64_t never[] = { INT64_MAX, 14401 * MIN };
    for (int i = 0; i < 2; i++) {
        begin_routes(10, never[i]);
        add(5);
        set_now(now_ns + 30000 * MIN);
        cr_assert_eq(teff__routes_due_ns(&routes), INT64_MAX);
        cr_assert_eq(teff__routes_sweep(&routes, 1000), 0);
        cr_assert_not_null(find(5));
    }
    begin_routes(10, 14400 * MIN);
    add(5);
    set_now(now_ns + 14400 * MIN);
    cr_assert_not_null(find(5));
    set_now(now_ns + 14401 * MIN);
    cr_assert_null(find(5));
}

Test(route_order, the_coarse_time_may_wrap)
{
    static const uint64_t wraps[] = { UINT64_C(1) << 51, UINT64_C(1) << 52 };
    for (int i = 0; i < 2; i++) {
        const int64_t wrap = (int64_t)wraps[i]; /* 2^31 and 2^32 units */
        begin_routes(10, MIN);
        set_now(wrap - MIN / 2);
        const uint64_t name = name_of(add(5));
        set_now(wrap + MIN / 2 - MS);
        cr_assert_eq(teff__routes_sweep(&routes, 100), 0);
        cr_assert_not_null(get(name, 5));
        set_now(wrap + 2 * MIN);
        cr_assert_null(get(name, 5));
        set_now(wrap - MIN / 2);
        add(6);
        set_now(wrap + MIN);
        cr_assert_eq(teff__routes_sweep(&routes, 100), 1);
    }
}

/* ---- the sweep ---- */

Test(route_order, a_sweep_goes_on_where_its_budget_ended)
{
    begin_routes(10, MIN);
    const int64_t began = now_ns;
    for (uint64_t grain = 1; grain <= 7; grain++)
        add(grain);
    cr_assert_eq(teff__routes_due_ns(&routes), began + MIN);
    set_now(began + 2 * MIN);
    cr_assert_eq(teff__routes_sweep(&routes, 3), 3);
    cr_assert_eq(routes.count, 4);
    cr_assert_eq(teff__routes_due_ns(&routes), began + 2 * MIN); /* go on at once */
    set_now(began + 2 * MIN + MIN / 2);
    cr_assert_eq(teff__routes_sweep(&routes, 3), 3);
    add(8); /* in a slot that was swept */
    cr_assert_eq(teff__routes_sweep(&routes, 3), 1);
    /* The round is over; it began at 2 minutes. */
    cr_assert_eq(teff__routes_due_ns(&routes), began + 3 * MIN);
    cr_assert_not_null(find(8));
}

Test(route_order, nothing_is_due_while_nothing_is_there)
{
    begin_routes(10, MIN);
    cr_assert_eq(teff__routes_due_ns(&routes), INT64_MAX);
    add(5);
    cr_assert_eq(teff__routes_due_ns(&routes), now_ns + MIN);
    cr_assert_eq(remove_grain(5), 1);
    cr_assert_eq(teff__routes_due_ns(&routes), INT64_MAX);
    set_now(now_ns + 10 * MIN);
    add(5);
    cr_assert_eq(teff__routes_due_ns(&routes), now_ns + MIN);
}

/* ---- who may go ---- */

static uint64_t asked[8];
static int asked_count;
static enum { GO, STAY, WAIT } answer;

static bool may_go(void *user, teff__route *route)
{
    cr_assert_eq(user, &answer);
    cr_assert_lt(asked_count, 8);
    cr_assert_eq(teff_key_get_u64(&route->key, &asked[asked_count++]), 0);
    if (answer == WAIT)
        cr_assert_eq(teff__routes_wait(&routes, route), 0);
    return answer == GO;
}

static void begin_asking(uint32_t capacity, int64_t ttl_ns)
{
    begin_routes(capacity, ttl_ns);
    routes.may_go = may_go;
    routes.user = &answer;
    asked_count = 0;
}

Test(route_order, the_owner_is_asked_before_one_is_evicted_that_was_used_lately)
{
    begin_asking(4, INT64_MAX);
    answer = GO;
    for (uint64_t grain = 1; grain <= 4; grain++)
        add(grain);
    add(5);
    cr_assert_eq(asked_count, 1);
    cr_assert_eq(asked[0], 1);
    expect_lines("5", "", "234");
    set_now(now_ns + INT64_C(10000000000));
    add(6);
    cr_assert_eq(asked_count, 2);
    cr_assert_eq(asked[1], 2);
    set_now(now_ns + 2 * MS); /* more than 10 s after their last use */
    add(7);
    cr_assert_eq(asked_count, 2);
    expect_lines("7", "", "456");
}

Test(route_order, one_that_is_to_drain_waits_and_another_one_is_asked_about_next_time)
{
    teff__queue messages;
    begin_asking(4, INT64_MAX);
    answer = WAIT;
    for (uint64_t grain = 1; grain <= 5; grain++)
        add(grain);
    expect_lines("5", "", "234");
    cr_assert_str_eq(line(TEFF__ROUTE_WAITING), "1");
    add(6);
    expect_lines("6", "", "345");
    cr_assert_str_eq(line(TEFF__ROUTE_WAITING), "12");
    teff__routes_go_on(&routes, find(1), 0, &messages); /* nobody needs it */
    cr_assert_null(find(1));
    answer = GO;
    teff__routes_go_on(&routes, find(2), 77, &messages); /* somebody does */
    expect_lines("", "2", "456");                        /* its place is another one's */
    cr_assert_eq(asked_count, 3);
    cr_assert_eq(asked[2], 3);
}

Test(route_order, one_that_may_not_go_stays_and_the_next_goes)
{
    begin_asking(4, INT64_MAX);
    answer = STAY;
    for (uint64_t grain = 1; grain <= 4; grain++)
        add(grain);
    add(5); /* eight are settled, and all that were asked about stay */
    cr_assert_eq(routes.count, 5);
    for (uint64_t grain = 1; grain <= 5; grain++)
        cr_assert_not_null(find(grain));
    routes.may_go = NULL;
    add(6);
    cr_assert_eq(routes.count, 4);
    cr_assert_not_null(find(6));
}

Test(route_order, the_owner_is_asked_before_one_expires_that_was_used_lately)
{
    begin_asking(4, 1000 * MS);
    answer = WAIT;
    const uint64_t name = name_of(add(5));
    set_now(now_ns + 1001 * MS);
    teff__route *route = get(name, 5);
    cr_assert_not_null(route); /* there, and waiting */
    cr_assert(teff__route_waits(route));
    cr_assert_eq(asked_count, 1);
    teff__queue messages;
    teff__routes_go_on(&routes, route, 77, &messages);
    set_now(now_ns + 1001 * MS);
    cr_assert_eq(teff__routes_sweep(&routes, 10), 0);
    cr_assert(teff__route_waits(teff__routes_peek(&routes, name)));
    teff__routes_go_on(&routes, teff__routes_peek(&routes, name), 77, &messages);
    answer = GO;
    set_now(now_ns + 1001 * MS);
    cr_assert_eq(teff__routes_sweep(&routes, 10), 1);
    cr_assert_eq(asked_count, 3);
}
