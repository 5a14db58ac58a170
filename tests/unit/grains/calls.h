/* SPDX-License-Identifier: MIT */
/*
 * What the tests of started calls and of completions share: one body run by each kind of caller,
 * and a look at what the workers counted.
 */
#ifndef TEFF_TESTS_UNIT_GRAINS_CALLS_H
#define TEFF_TESTS_UNIT_GRAINS_CALLS_H

#include "grains/catalog.h"
#include "messaging/future.h"

#include "fixture.h"

typedef int body_of_caller(teff_caller *caller, void *user);

/* What a turn of `act` runs, by the number in its argument. */
static body_of_caller *bodies[4];

static int act_body(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self;
    ret->number = bodies[arg->number](turn, NULL);
    return 0;
}

/* Runs the body in a turn of that probe and gives what it returned; -4711: the call failed. */
TEFF__INLINE int in_turn(uint64_t key, body_of_caller *body)
{
    struct told told = { .number = -4711 };
    probe_ref probe = probe_at(key);
    acting = act_body;
    bodies[0] = body;
    (void)probe_act(client, &probe, &(struct ask){ 0 }, &told);
    return (int)told.number;
}

/* The same, and does not wait for it. */
TEFF__INLINE void send_turn(uint64_t key, int number, body_of_caller *body)
{
    probe_ref probe = probe_at(key);
    acting = act_body;
    bodies[number] = body;
    cr_assert_eq(probe_act_send(client, &probe, &(struct ask){ .number = number }), 0);
}

/* Runs it by the client, a task, and a turn, each of which is to give `result`. */
TEFF__INLINE void by_each(body_of_caller *body, int result)
{
    cr_assert_eq(body(client, NULL), result, "by the client");
    cr_assert_eq(in_task(0, body, NULL), result, "by a task");
    cr_assert_eq(in_turn(77, body), result, "by a turn");
}

TEFF__INLINE const teff__catalog *catalog_of_worker(int worker)
{
    return teff__silo_grains(silo)->catalogs[worker];
}

/* What the silo has counted. */
TEFF__INLINE teff_counts silo_counts(void)
{
    teff_counts counts = { .struct_size = sizeof(counts) };
    cr_assert_eq(teff_silo_counts(silo, &counts), 0);
    return counts;
}

/* A call of that probe that sleeps for so long and then says so in the story. */
TEFF__INLINE teff_future start_rest(teff_caller *caller, uint64_t key, int64_t duration_ns)
{
    probe_ref probe = probe_at(key);
    return probe_rest_start(caller, &probe, &(struct ask){ .number = duration_ns });
}

#endif
