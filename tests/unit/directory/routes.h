/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the route cache share: worker 2's cache, a clock that they move, and grains that
 * are numbers. Grain n is at address 1000 + n of worker 0 unless a test says otherwise.
 */
#ifndef TEFF_TESTS_ROUTES_H
#define TEFF_TESTS_ROUTES_H

#include "directory/route.h"

#include "teff/status.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define MS  INT64_C(1048576) /* a unit of the coarse time */
#define MIN INT64_C(60000000000)

static teff__memory memory;
static teff__routes routes;
static int64_t now_ns;

static inline uint64_t address_of(uint64_t grain)
{
    return 1000 + grain;
}

static inline int init_routes(uint32_t capacity, int64_t ttl_ns)
{
    const teff__routes_options options = { .worker = 2, .capacity = capacity, .ttl_ns = ttl_ns };
    return teff__routes_init(&routes, &memory, &options);
}

static inline void set_now(int64_t ns)
{
    now_ns = ns;
    teff__routes_set_now(&routes, ns);
}

/* In the place of the cache that there was. */
static inline void begin_routes(uint32_t capacity, int64_t ttl_ns)
{
    teff__routes_finish(&routes);
    cr_assert_eq(init_routes(capacity, ttl_ns), 0);
    set_now(INT64_C(1000000000));
}

/* teff_assert: Criterion's own asserts count for nothing before and after the test. */
static inline void begin_four(void)
{
    teff__memory_init(&memory, 0);
    teff_assert(init_routes(4, INT64_MAX) == 0);
    set_now(INT64_C(1000000000));
}

static inline void end_routes(void)
{
    teff__routes_finish(&routes);
    teff_assert(teff__atomic_u64_load_relaxed(&memory.bytes) == 0);
}

static inline uint64_t hash_of(uint64_t grain)
{
    return grain * UINT64_C(0x9e3779b97f4a7c15);
}

static inline teff__route *find(uint64_t grain)
{
    uint64_t name = 0;
    const teff_key key = teff_key_u64(grain);
    teff__route *route = teff__routes_find(&routes, hash_of(grain), 1, &key, &name);
    if (route != NULL)
        cr_assert_eq(name, teff__route_name(&routes, route));
    else
        cr_assert_eq(name, 0);
    return route;
}

static inline teff__route *get(uint64_t name, uint64_t grain)
{
    const teff_key key = teff_key_u64(grain);
    return teff__routes_get(&routes, name, &key);
}

static inline teff__route *add_at(uint64_t grain, uint64_t address)
{
    teff__route *route = NULL;
    const teff_key key = teff_key_u64(grain);
    cr_assert_eq(teff__routes_add(&routes, hash_of(grain), 1, &key, address, &route), 0);
    return route;
}

static inline teff__route *add(uint64_t grain)
{
    return add_at(grain, address_of(grain));
}

static inline uint64_t name_of(const teff__route *route)
{
    return teff__route_name(&routes, route);
}

static inline uint32_t remove_grain(uint64_t grain)
{
    const teff_key key = teff_key_u64(grain);
    return teff__routes_remove_grain(&routes, hash_of(grain), 1, &key);
}

/* The grains of a queue, each a digit or a letter from 10 on, the first one first. No hits. */
static inline const char *line(teff__route_queue queue)
{
    static char grains[64];
    size_t count = 0;
    for (uint32_t link = routes.lines[queue].first; link != 0 && count < sizeof(grains) - 1;) {
        const teff__route *route = teff__routes_at(&routes, link - 1);
        uint64_t grain = 99;
        cr_assert_eq(teff_key_get_u64(&route->key, &grain), 0);
        grains[count++] = "0123456789abcdefghijklmnopqrstuvwxyz"[grain];
        link = (uint32_t)route->next;
    }
    grains[count] = 0;
    cr_assert_eq(routes.lines[queue].count, count);
    return grains;
}

static inline void expect_lines(const char *hot, const char *warm, const char *cold)
{
    cr_assert_str_eq(line(TEFF__ROUTE_HOT), hot);
    cr_assert_str_eq(line(TEFF__ROUTE_WARM), warm);
    cr_assert_str_eq(line(TEFF__ROUTE_COLD), cold);
}

#endif
