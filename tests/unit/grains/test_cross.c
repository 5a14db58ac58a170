/* SPDX-License-Identifier: MIT */
/*
 * Several workers: routes from one to grains of another, forwarding, and order while a grain moves.
 */
#include "fixture.h"

#include "grains/catalog.h"
#include "grains/dispatch.h"
#include "runtime/chance.h"

TestSuite(cross, .init = begin_four_workers, .fini = end);

static teff__catalog *catalog(uint32_t worker)
{
    return teff__silo_grains(silo)->catalogs[worker];
}

static teff__route *route_to(uint32_t worker, uint64_t key_number)
{
    const teff_key key = teff_key_u64(key_number);
    const teff__grains *grains = teff__silo_grains(silo);
    uint64_t name;
    return teff__routes_find(&catalog(worker)->routes, teff__key_hash(&grains->seed, 1, &key), 1,
                             &key, &name);
}

static uint64_t name_of_route(uint32_t worker)
{
    return teff__route_name(&catalog(worker)->routes, route_to(worker, 1));
}

/* One reference on each worker. */
static probe_ref refs[4];

/* Calls probe 1 by this worker's reference; the worker that answered. */
static int where(teff_task *task, void *user)
{
    struct told told = { .route = 0 };
    cr_expect_eq(probe_get(task, user, NULL, &told), 0);
    return (int)teff__address_worker(told.route);
}

static int where_from(int worker)
{
    if (refs[worker].ref.type == NULL)
        refs[worker] = probe_at(1);
    return in_task(worker, where, &refs[worker]);
}

static int make_leave(teff_task *task, void *user)
{
    cr_expect_eq(probe_leave(task, user, NULL, NULL), 0);
    return teff_sleep(task, 0);
}

static void leave_from(int worker)
{
    cr_assert_eq(in_task(worker, make_leave, &refs[worker]), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
}

Test(cross, a_grain_lives_where_it_was_first_called_and_all_workers_find_it_there)
{
    cr_assert_eq(where_from(2), 2);
    for (int worker = 0; worker < 4; worker++)
        cr_assert_eq(where_from(worker), 2);
    cr_assert_eq(seen.activated, 1);
    cr_assert_eq(teff__silo_grain_count(silo), 1);
}

Test(cross, a_reference_remembers_its_own_workers_way)
{
    cr_assert_eq(where_from(2), 2);
    cr_assert_eq(where_from(1), 2);
    cr_assert_eq(teff__address_worker(refs[2].ref.route), 2);
    cr_assert_eq(refs[2].ref.route, route_to(1, 1)->address);
    cr_assert_eq(refs[1].ref.route, name_of_route(1));
    cr_assert_null(route_to(2, 1));
    cr_assert_null(route_to(0, 1));
}

Test(cross, a_way_that_another_worker_remembered_is_no_way_here)
{
    cr_assert_eq(where_from(2), 2);
    cr_assert_eq(where_from(1), 2);
    refs[3] = refs[1]; /* as if sent in a message */
    refs[0] = refs[2];
    cr_assert_eq(where_from(3), 2);
    cr_assert_eq(where_from(0), 2);
    cr_assert_eq(refs[3].ref.route, name_of_route(3));
    cr_assert_eq(seen.activated, 1);
}

Test(cross, a_way_to_another_grain_is_not_taken)
{
    probe_ref other = probe_at(2);
    cr_assert_eq(where_from(2), 2);
    cr_assert_eq(where_from(1), 2);
    cr_assert_eq(in_task(1, where, &other), 1);
    refs[1].ref.route = other.ref.route; /* forged: it leads to grain 2 */
    cr_assert_eq(where_from(1), 2);
    other.ref.route = refs[1].ref.route;
    cr_assert_eq(in_task(1, where, &other), 1);
}

static int call_at_once(teff_task *task, void *user)
{
    struct told told = { 0 };
    probe_ref probe = probe_at(1);
    cr_expect_eq(probe_get(task, &probe, NULL, &told), 0);
    *(uint64_t *)user = told.route;
    return 0;
}

Test(cross, many_that_call_a_new_grain_at_once_meet_one_activation)
{
    static uint64_t routes[40];
    for (int i = 0; i < 40; i++)
        spawn(i % 4, call_at_once, &routes[i]);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(seen.activated, 1);
    for (int i = 0; i < 40; i++)
        cr_assert_eq(routes[i], routes[0]);
}

/* --- Moving -------------------------------------------------------------------------------- */

Test(cross, calls_by_an_old_way_are_forwarded_and_learn_the_new_one)
{
    cr_assert_eq(where_from(1), 1);
    cr_assert_eq(where_from(0), 1);
    leave_from(1);
    cr_assert_eq(where_from(2), 2); /* it has no way to it, so it comes to live there */
    const uint64_t address = refs[2].ref.route;
    cr_assert_neq(teff__route_address(route_to(0, 1)), address);
    cr_assert_eq(where_from(0), 2);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff__route_address(route_to(0, 1)), address); /* the probe came back */
    cr_assert_not(teff__route_waits(route_to(0, 1)));
    cr_assert_eq(where_from(0), 2);
    cr_assert_eq(where_from(1), 2);
    cr_assert_eq(seen.activated, 2);
    cr_assert_eq(seen.deactivated, 1);
}

Test(cross, a_grain_that_went_comes_again_where_its_callers_look_for_it)
{
    cr_assert_eq(where_from(1), 1);
    cr_assert_eq(where_from(0), 1);
    leave_from(0);
    cr_assert_eq(where_from(0), 1);
    cr_assert_eq(seen.activated, 2);
}

Test(cross, a_clients_reference_finds_it_wherever_it_goes)
{
    struct told told;
    probe_ref probe = probe_at(1);
    for (int worker = 0; worker < 4; worker++) {
        refs[worker] = probe_at(1);
        const int lives = where_from(worker);
        cr_assert_eq(probe_get(client, &probe, NULL, &told), 0);
        cr_assert_eq((int)teff__address_worker(told.route), lives);
        cr_assert_eq(probe.ref.route, told.route);
        leave_from(worker);
    }
    cr_assert_eq(seen.activated, 4);
}

/* Two workers each believe that the grain is with the other. It does not come to that by itself. */
static void forge_route(uint32_t from, uint32_t to)
{
    teff__route *route;
    const teff_key key = teff_key_u64(1);
    const teff__grains *grains = teff__silo_grains(silo);
    const uint64_t address =
        teff__address_make(teff__address_tag(to, TEFF__ADDRESS_ACTIVATION), 9, 1);
    cr_assert_eq(teff__routes_add(&catalog(from)->routes, teff__key_hash(&grains->seed, 1, &key), 1,
                                  &key, address, &route),
                 0);
}

static int fail_to_forward(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    const int r = probe_get(task, &probe, NULL, NULL);
    cr_expect_not_null(strstr(teff_outcome_last(task)->text, "Forwarding failed"), "%s",
                       teff_outcome_last(task)->text);
    cr_expect_not(teff_outcome_last(task)->may_have_run);
    return r;
}

Test(cross, a_call_that_is_forwarded_again_and_again_is_rejected)
{
    forge_route(0, 1);
    forge_route(1, 0);
    cr_assert_eq(in_task(0, fail_to_forward, NULL), TEFF_EREJECTED);
    cr_assert_eq(seen.activated, 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

/* --- Order while grains move --------------------------------------------------------------- */

static int arrived, wrong;

static int expect_next(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)turn, (void)self, (void)ret;
    wrong += arg->number != ++arrived;
    return 0;
}

/* Sends 1 to 500 by one reference, with others running in between: so many take several passes. */
static int send_many(teff_task *task, void *user)
{
    for (int i = 1; i <= 500; i++) {
        cr_expect_eq(probe_act_send(task, user, &(struct ask){ .number = i }), 0);
        cr_expect_eq(teff_sleep(task, 0), 0);
    }
    return 0;
}

Test(cross, while_a_way_is_corrected_what_took_the_old_one_is_not_overtaken)
{
    int moves = 0;
    acting = expect_next;
    for (int sender = 0; sender < 4; sender++) {
        for (int old = 0; old < 4; old++) {
            for (int next = 0; next < 4; next++) {
                if (sender == old || old == next || next == sender)
                    continue;
                probe_ref from_sender = probe_at(1), from_old = from_sender,
                          from_next = from_sender;
                end();
                begin_four_workers(); /* nobody knows a way */
                cr_assert_eq(in_task(old, where, &from_old), old);
                cr_assert_eq(in_task(sender, where, &from_sender), old);
                cr_assert_eq(in_task(old, make_leave, &from_old), 0);
                cr_assert_eq(in_task(next, where, &from_next), next);
                probe_ref asker = from_sender;
                arrived = 0;
                spawn(sender, where, &asker); /* its answer corrects the way */
                spawn(sender, send_many, &from_sender);
                cr_assert_eq(teff_silo_run(silo), 0);
                cr_assert_eq(arrived, 500);
                cr_assert_eq(wrong, 0, "%d: %d to %d", sender, old, next);
                cr_assert_eq(route_to((uint32_t)sender, 1)->address, from_next.ref.route);
                moves++;
            }
        }
    }
    cr_assert_eq(moves, 24);
}

enum { GRAINS = 8, SENDERS = 8, SENDS = 60 };

static uint64_t chance_seed;
static int valid[GRAINS];
static int64_t last[SENDERS + 1][GRAINS]; /* the last of them is the client */

static uint64_t key_of(const teff_turn *turn)
{
    uint64_t key;
    memcpy(&key, teff_turn_key(turn)->bytes, sizeof(key));
    return key;
}

static int come(teff_turn *turn, struct probe *self)
{
    (void)self;
    wrong += ++valid[key_of(turn)] != 1;
    return key_of(turn) == 0 ? teff_sleep(turn, 1) : 0;
}

static void go(teff_turn *turn, struct probe *self, int reason)
{
    (void)self, (void)reason;
    if (key_of(turn) != 1)
        cr_expect_eq(teff_sleep(turn, 1), 0);
    wrong += --valid[key_of(turn)] != 0;
}

/* The number is sender * 1000 + the how-manieth. */
static int check_order(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    int64_t *before = &last[arg->number / 1000][key_of(turn)];
    (void)self, (void)ret;
    arrived++;
    wrong += arg->number <= *before;
    *before = arg->number;
    if (arg->text[0] == 'l')
        (void)teff_turn_deactivate(turn);
    return arg->text[0] == 's' ? teff_sleep(turn, 1) : 0;
}

/* Sends and calls at random, by old and new references. */
static void send_some(teff_caller *caller, int sender)
{
    teff__chance chance;
    probe_ref kept[GRAINS];
    teff__chance_init(&chance, chance_seed * 100 + (uint64_t)sender + 1);
    for (uint64_t key = 0; key < GRAINS; key++)
        kept[key] = probe_at(key);
    for (int i = 1; i <= SENDS; i++) {
        const uint64_t key = teff__chance_next(&chance) % GRAINS;
        const uint64_t kind = teff__chance_next(&chance) % 16;
        probe_ref fresh = probe_at(key), *ref = kind % 2 == 0 ? &fresh : &kept[key];
        struct ask ask = { .number = sender * 1000 + i };
        ask.text[0] = kind < 3 ? 'l' : kind < 5 ? 's' : '\0';
        if (kind < 12)
            cr_expect_eq(probe_act_send(caller, ref, &ask), 0);
        else
            cr_expect_eq(probe_act(caller, ref, &ask, NULL), 0, "%s",
                         teff_outcome_last(caller)->text);
        if (teff__chance_next(&chance) % 4 == 0)
            cr_expect_eq(teff_sleep(caller, (int64_t)(teff__chance_next(&chance) % 3)), 0);
    }
}

static int send_in_task(teff_task *task, void *user)
{
    send_some(task, (int)(intptr_t)user);
    return 0;
}

/* As if all workers had been made with a cache of that size. */
static void bound_routes(uint32_t routes_max)
{
    for (uint32_t worker = 0; worker < 4; worker++) {
        teff__routes *routes = &catalog(worker)->routes;
        const teff__routes_options options = { .worker = worker,
                                               .capacity = routes_max,
                                               .ttl_ns = INT64_MAX,
                                               .may_go = teff__dispatch_let_go,
                                               .user = catalog(worker) };
        cr_assert_eq(teff__routes_init(routes, routes->memory, &options), 0);
    }
}

static void move_around(uint32_t routes_max)
{
    activating = come;
    deactivating = go;
    acting = check_order;
    for (chance_seed = 1; chance_seed <= 60; chance_seed++) {
        memset(last, 0, sizeof(last));
        arrived = 0;
        begin_with((teff_silo_options){ .workers = 4, .seed = chance_seed });
        bound_routes(routes_max);
        for (int sender = 0; sender < SENDERS; sender++)
            spawn(sender % 4, send_in_task, (void *)(intptr_t)sender);
        send_some(client, SENDERS);
        cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
        cr_assert_eq(arrived, (SENDERS + 1) * SENDS, "seed %d: %d", (int)chance_seed, arrived);
        cr_assert_eq(wrong, 0, "seed %d", (int)chance_seed);
        end();
        cr_assert_eq(wrong, 0, "seed %d", (int)chance_seed);
        for (int i = 0; i < GRAINS; i++)
            cr_assert_eq(valid[i], 0);
    }
}

Test(moving, what_one_sends_to_one_grain_arrives_once_and_in_the_order_sent_wherever_it_goes)
{
    move_around(1000);
}

Test(moving, also_where_routes_are_evicted_all_the_time)
{
    move_around(3);
}

Test(cross, the_ways_that_workers_keep_are_counted)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    cr_assert_eq(teff_silo_grain_counts(silo, &counts), 0);
    cr_assert_eq(counts.routes, 0);
    for (int worker = 0; worker < 4; worker++)
        (void)where_from(worker);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_silo_grain_counts(silo, &counts), 0);
    cr_assert_eq(counts.routes, 3);
}
