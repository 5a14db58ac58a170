/* SPDX-License-Identifier: MIT */
/*
 * Placement: on which worker a grain is made, by the call, its type, or the silo's options; for
 * calls of a turn, a task and a client.
 */
#include "fixture.h"

#include "grains/catalog.h"
#include "runtime/chance.h"

#include "teff/status.h"

/* The probe again, under names that say where it is to be made. */
static teff_grain_type placed_grain(const char *name, teff_placement placement)
{
    teff_grain_type grain = probe_grain;
    grain.name.text = name;
    grain.placement = placement;
    return grain;
}

static void begin_placing(uint32_t workers, teff_placement placement)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .simulated = true,
                                        .seed = 1,
                                        .workers = workers,
                                        .placement = placement };
    const teff_grain_type caller = placed_grain("caller", TEFF_PLACE_CALLER);
    const teff_grain_type hash = placed_grain("hash", TEFF_PLACE_HASH);
    const teff_grain_type least = placed_grain("least", TEFF_PLACE_LEAST_LOADED);
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_register(silo, &caller, &seen) == 0);
    teff_assert(teff_silo_register(silo, &hash, &seen) == 0);
    teff_assert(teff_silo_register(silo, &least, &seen) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

static void begin_three(void)
{
    begin_placing(3, TEFF_PLACE_DEFAULT);
}

TestSuite(place, .init = begin_three, .fini = end);
TestSuite(place_each, .fini = end);

/* A call of a grain of some type, and by which hint. */
typedef struct call {
    const char *type;
    uint64_t key;
    uint32_t hint;  /* as the option */
    int64_t worker; /* that answered, or the code */
} call;

static void make(teff_caller *caller, call *of)
{
    const teff_name name = { of->type };
    const teff_call_options options = { .struct_size = sizeof(options), .place = of->hint };
    probe_ref probe = { .ref = { .type = &name, .key = teff_key_u64(of->key) } };
    struct told told = { .route = 0 };
    const int r =
        probe_get(of->hint != 0 ? teff_with(caller, &options) : caller, &probe, NULL, &told);
    of->worker = r != 0 ? r : (int64_t)teff__address_worker(told.route);
}

static int make_in_task(teff_task *task, void *user)
{
    make(task, user);
    return 0;
}

static call *turns_call;

static int make_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                        struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    make(turn, turns_call);
    return 0;
}

/* A turn of a probe of that worker's. */
static int ask_turn(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1000 + *(const uint64_t *)user);
    turns_call = (call *)(uintptr_t)((const uint64_t *)user)[1];
    acting = make_in_turn;
    const teff_call_options here = { .struct_size = sizeof(here),
                                     .place = (uint32_t) * (const uint64_t *)user + 1 };
    return probe_act(teff_with(task, &here), &probe, &(struct ask){ 0 }, NULL);
}

enum { BY_TASK, BY_TURN, BY_CLIENT, KINDS };

/* Where a call of that kind, from that worker if it is one of a worker's, finds the grain. */
static int64_t placed(int kind, uint32_t from, const char *type, uint64_t key, uint32_t hint)
{
    call of = { .type = type, .key = key, .hint = hint, .worker = 4711 };
    uint64_t user[2] = { from, (uint64_t)(uintptr_t)&of };
    if (kind == BY_TASK)
        cr_assert_eq(in_task((int)from, make_in_task, &of), 0);
    else if (kind == BY_TURN)
        cr_assert_eq(in_task((int)from, ask_turn, user), 0);
    else
        make(client, &of);
    return of.worker;
}

/* The worker of the hash of a grain of the n-th type. */
static int64_t hash_worker(uint32_t type, uint64_t number)
{
    const teff_key key = teff_key_u64(number);
    const teff__grains *grains = teff__silo_grains(silo);
    return (int64_t)(teff__key_hash(&grains->seed, type, &key) % grains->exchange->workers_count);
}

enum { PROBE = 1, CALLER, HASH, LEAST }; /* the types' numbers */

static uint64_t resident(uint32_t worker)
{
    teff_grain_counts counts = { 0 };
    teff__catalog_count_grains(teff__silo_grains(silo)->catalogs[worker], &counts);
    return counts.resident;
}

Test(place_each, kind_of_call_and_number_of_workers_places_as_the_type_says)
{
    uint64_t key = 1;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        for (int kind = 0; kind < KINDS; kind++) {
            begin_placing(workers, TEFF_PLACE_DEFAULT);
            for (uint32_t from = 0; from < workers; from++) {
                for (int i = 0; i < 5; i++, key++) {
                    const int64_t here = kind == BY_CLIENT ? hash_worker(CALLER, key) : from;
                    cr_assert_eq(placed(kind, from, "caller", key, 0), here);
                    cr_assert_eq(placed(kind, from, "hash", key, 0), hash_worker(HASH, key));
                    for (uint32_t hint = 1; hint <= workers; hint++)
                        cr_assert_eq(placed(kind, from, "hash", key * 100 + hint, hint), hint - 1);
                }
            }
            if (workers < 3 || kind < KINDS - 1)
                end();
        }
    }
}

Test(place_each, kind_of_call_finds_the_worker_with_the_fewest_activations)
{
    for (int kind = 0; kind < KINDS; kind++) {
        begin_placing(3, TEFF_PLACE_DEFAULT);
        for (uint64_t key = 1; key <= 10; key++) /* 1 in each, if of turns; 10 more on 1, 5 on 2 */
            cr_assert_eq(placed(BY_TASK, 0, "probe", key, key <= 5 ? 3 : 2), key <= 5 ? 2 : 1);
        for (uint64_t key = 11; key <= 15; key++)
            cr_assert_eq(placed(BY_TASK, 0, "probe", key, 2), 1);
        if (kind == BY_TURN)
            (void)placed(BY_TURN, 1, "caller", 1, 0); /* its own probe is made on 1 */
        for (uint64_t key = 1; key <= 4; key++)
            cr_assert_eq(placed(kind, 1, "least", key, 0), 0);
        while (resident(0) < resident(2)) /* as full as 2 */
            (void)placed(BY_TASK, 0, "caller", 100 + resident(0), 0);
        cr_assert_eq(placed(BY_TASK, 2, "least", 5, 0), 2, "of several the caller's own");
        cr_assert_eq(placed(BY_TASK, 2, "least", 6, 0), 0);
        cr_assert_eq(placed(BY_TASK, 0, "least", 7, 0), 0, "as full as 2 again");
        if (kind < KINDS - 1)
            end();
    }
}

static int start_many(teff_task *task, void *user)
{
    teff_future futures[30];
    const teff_name name = { "least" };
    for (uint64_t i = 0; i < 30; i++) {
        probe_ref probe = { .ref = { .type = &name, .key = teff_key_u64(i) } };
        futures[i] = probe_get_start(task, &probe, NULL);
    }
    for (int i = 0; i < 30; i++) {
        struct told told = { 0 };
        cr_expect_eq(probe_get_claim(task, futures[i], &told), 0);
        ((int *)user)[teff__address_worker(told.route)]++;
    }
    return 0;
}

Test(place, activations_that_are_still_to_be_made_count_as_load)
{
    int on[3] = { 0 };
    cr_assert_eq(in_task(1, start_many, on), 0);
    for (int worker = 0; worker < 3; worker++) {
        cr_assert_eq(on[worker], 10);
        cr_assert_eq(teff__directory_coming(&teff__silo_grains(silo)->directory, (uint32_t)worker),
                     0);
    }
}

Test(place_each, type_that_says_nothing_is_placed_as_the_silo_says)
{
    begin_placing(3, TEFF_PLACE_HASH);
    for (uint64_t key = 1; key <= 12; key++) {
        cr_assert_eq(placed(BY_TASK, 1, "probe", key, 0), hash_worker(PROBE, key));
        cr_assert_eq(placed(BY_TASK, 1, "caller", key, 0), 1);
    }
}

Test(place, a_hint_is_for_a_grain_that_is_made_and_no_order_to_move_one)
{
    for (int kind = 0; kind < KINDS; kind++) {
        const uint64_t key = 1 + (uint64_t)kind;
        cr_assert_eq(placed(BY_TASK, 1, "probe", key, 0), 1);
        cr_assert_eq(placed(kind, 0, "probe", key, 3), 1);
        cr_assert_eq(placed(kind, 1, "probe", key, 1), 1);
    }
}

Test(place, a_hint_is_for_one_call)
{
    cr_assert_eq(placed(BY_TASK, 0, "probe", 1, 3), 2);
    cr_assert_eq(placed(BY_TASK, 0, "probe", 2, 0), 0);
}

static int call_by_each_form(teff_task *task, void *user)
{
    const teff_call_options there = { .struct_size = sizeof(there), .place = 3 };
    const teff_call_options nowhere = { .struct_size = sizeof(nowhere), .place = 4 };
    probe_ref one = probe_at(1), two = probe_at(2);
    struct told told = { 0 };
    (void)user;
    cr_expect_eq(probe_note_send(teff_with(task, &there), &one, &(struct ask){ 0 }), 0);
    cr_expect_eq(probe_get(task, &one, NULL, &told), 0);
    cr_expect_eq(teff__address_worker(told.route), 2);
    const teff_future future = probe_get_start(teff_with(task, &there), &two, NULL);
    cr_expect_eq(probe_get_claim(task, future, &told), 0);
    cr_expect_eq(teff__address_worker(told.route), 2);
    cr_expect_eq(probe_note_send(teff_with(task, &nowhere), &two, &(struct ask){ 0 }), TEFF_EINVAL);
    cr_expect_eq(
        probe_get_claim(task, probe_get_start(teff_with(task, &nowhere), &two, NULL), &told),
        TEFF_EINVAL);
    cr_expect_eq(probe_get(teff_within(teff_with(task, &nowhere), SECOND), &two, NULL, &told),
                 TEFF_EINVAL);
    cr_expect_eq(probe_get(task, &two, NULL, &told), 0, "it is used up");
    return 0;
}

Test(place, every_form_of_call_takes_a_hint)
{
    cr_assert_eq(in_task(0, call_by_each_form, NULL), 0);
}

Test(place, a_hint_to_a_worker_that_is_not_there_is_refused)
{
    static const uint32_t wrong[] = { 4, 65, 256, 257, 65536, 65537, UINT32_MAX };
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
            cr_assert_eq(placed(kind, 0, "probe", 1, wrong[i]), TEFF_EINVAL);
    cr_assert_eq(seen.turns, 7, "only the turns that called");
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

static int leave_probe(teff_task *task, void *user)
{
    cr_expect_eq(probe_leave(task, user, NULL, NULL), 0);
    return teff_sleep(task, 0);
}

Test(place, a_grain_that_went_is_placed_anew_by_who_knows_no_way_to_it)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(placed(BY_TASK, 0, "probe", 1, 2), 1);
    cr_assert_eq(in_task(1, leave_probe, &probe), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(placed(BY_TASK, 0, "probe", 1, 3), 1, "it takes its way");
    cr_assert_eq(in_task(1, leave_probe, &probe), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(placed(BY_TASK, 2, "probe", 1, 1), 2, "0 knows a way, so it does not make it");
    for (uint32_t from = 0; from < 3; from++)
        cr_assert_eq(placed(BY_TASK, from, "probe", 1, 0), 2);
}

static int fail_to_activate(teff_turn *turn, struct probe *self)
{
    (void)self;
    return teff_turn_fail(turn, 7, "not today");
}

Test(place, what_activate_says_reaches_a_caller_on_another_worker)
{
    activating = fail_to_activate;
    for (uint64_t key = 1; key <= 3; key++)
        cr_assert_eq(placed(BY_TASK, 0, "probe", key, (uint32_t)key), 7);
    activating = NULL;
    for (uint64_t key = 1; key <= 3; key++)
        cr_assert_eq(placed(BY_TASK, 0, "probe", key, 0), (int64_t)key - 1);
}

/* --- Two that place one grain ---------------------------------------------------------------- */

static int arrived, wrong;
static int64_t last[8];

/* The number is sender * 1000 + the how-manieth. */
static int check_order(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    int64_t *before = &last[arg->number / 1000];
    (void)self, (void)ret;
    arrived++;
    wrong += arg->number != *before + 1;
    *before = arg->number;
    return arg->text[0] == 'l' ? teff_turn_deactivate(turn) : 0;
}

/* Each places it on the next worker. */
static int place_next(teff_task *task, void *user)
{
    const uint32_t sender = (uint32_t)(uintptr_t)user;
    const teff_call_options next = { .struct_size = sizeof(next), .place = (sender + 1) % 3 + 1 };
    last[sender] = (int64_t)sender * 1000;
    for (int i = 1; i <= 200; i++) {
        probe_ref probe = probe_at(1); /* knows no way */
        struct ask ask = { .number = (int64_t)sender * 1000 + i };
        cr_expect_eq(probe_act_send(teff_with(task, &next), &probe, &ask), 0);
        if (i % 3 == 0)
            cr_expect_eq(probe_act(teff_with(task, &next), &probe,
                                   &(struct ask){ .number = (int64_t)sender * 1000 + ++i }, NULL),
                         0, "%s", teff_outcome_last(task)->text);
        cr_expect_eq(teff_sleep(task, 0), 0);
    }
    return 0;
}

Test(place, workers_that_place_one_grain_differently_at_once_make_one_and_keep_the_order)
{
    acting = check_order;
    for (uintptr_t sender = 0; sender < 3; sender++)
        spawn((int)sender, place_next, (void *)sender);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(seen.activated, 1);
    cr_assert_eq(arrived, last[0] + last[1] - 1000 + last[2] - 2000);
    cr_assert_geq(arrived, 600);
    cr_assert_eq(wrong, 0);
}

static uint64_t chance_seed;

/* Sends and calls with any hint or none, by old and new references; the grain leaves at times. */
static void send_some(teff_caller *caller, uint32_t sender)
{
    teff__chance chance;
    probe_ref kept = probe_at(1);
    teff__chance_init(&chance, chance_seed * 100 + sender + 1);
    last[sender] = (int64_t)sender * 1000;
    for (int i = 1; i <= 60; i++) {
        const uint64_t kind = teff__chance_next(&chance) % 16;
        const teff_call_options where = { .struct_size = sizeof(where),
                                          .place = (uint32_t)(teff__chance_next(&chance) % 4) };
        probe_ref fresh = probe_at(1), *ref = kind % 2 == 0 ? &fresh : &kept;
        struct ask ask = { .number = (int64_t)sender * 1000 + i };
        ask.text[0] = kind < 3 ? 'l' : '\0';
        (void)teff_with(caller, &where);
        if (kind < 12)
            cr_expect_eq(probe_act_send(caller, ref, &ask), 0);
        else
            cr_expect_eq(probe_act(caller, ref, &ask, NULL), 0, "seed %d: %s", (int)chance_seed,
                         teff_outcome_last(caller)->text);
        if (teff__chance_next(&chance) % 3 == 0)
            cr_expect_eq(teff_sleep(caller, (int64_t)(teff__chance_next(&chance) % 3)), 0);
    }
}

static int send_in_task(teff_task *task, void *user)
{
    send_some(task, (uint32_t)(uintptr_t)user);
    return 0;
}

static void rest_a_while(teff_turn *turn, struct probe *self, int reason)
{
    (void)self, (void)reason;
    cr_expect_eq(teff_sleep(turn, 1), 0);
}

Test(place_each, grain_that_comes_and_goes_under_any_hints_loses_nothing_and_keeps_the_order)
{
    acting = check_order;
    for (chance_seed = 1; chance_seed <= 300; chance_seed++) {
        deactivating = chance_seed % 2 == 0 ? rest_a_while : NULL;
        arrived = 0;
        begin_three();
        for (uintptr_t sender = 0; sender < 6; sender++)
            spawn((int)sender % 3, send_in_task, (void *)sender);
        send_some(client, 6);
        cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
        cr_assert_eq(arrived, 7 * 60, "seed %d", (int)chance_seed);
        cr_assert_eq(wrong, 0, "seed %d: %d", (int)chance_seed, wrong);
        if (chance_seed < 300)
            end();
    }
}
