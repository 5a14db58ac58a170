/* SPDX-License-Identifier: MIT */
/*
 * Answers that nobody waits for: late, twice, made up, after stop. They are dropped and counted, and
 * touch no call that has their slot by then. And slots that have been used up.
 */
#include "messaging/client.h"

#include "calls.h"

#include "teff/bytes.h"

static void begin_two(void)
{
    begin_with((teff_silo_options){ .workers = 2, .stop_timeout_ns = 100 * MS });
}

TestSuite(late, .init = begin_two, .fini = end);

static teff__registry *registry(void)
{
    return &teff__silo_exchange(silo)->registry;
}

/* Puts an answer on its way that no grain has given. */
static void make_up(uint64_t id, int64_t number)
{
    teff__catalog *from = teff__silo_grains(silo)->catalogs[1];
    teff__message *message = teff__postbox_take(&from->postbox, &probe_interface, probe_number_get);
    teff_assert(message != NULL);
    message->correlation = id;
    *(struct told *)teff__message_value(message) = (struct told){ .number = number };
    teff__message_answer(message, 0, 0);
    teff__exchange_respond(teff__silo_exchange(silo), message);
}

/* The id of the only call that is open. */
static uint64_t open_id(void)
{
    uint64_t id = 0, found;
    for (uint32_t i = 0; i < TEFF__STRIPES; i++) {
        for (uint32_t slot = 0;
             (found = teff__stripe_next_open(&registry()->stripes[i], &slot)) != 0; id = found)
            cr_assert_eq(id, 0, "several are open");
    }
    cr_assert_neq(id, 0, "none is open");
    return id;
}

static void expect_counts(uint64_t open, uint64_t late, uint64_t unknown)
{
    const teff_counts counts = silo_counts();
    cr_assert_eq(counts.open, open);
    cr_assert_eq(counts.late, late);
    cr_assert_eq(counts.unknown, unknown);
}

/* --- Twice --------------------------------------------------------------------------------- */

static int rest_twice(teff_task *task, void *user)
{
    (void)user;
    for (uint64_t i = 1; i <= 2; i++) {
        struct told told = { .number = -1 };
        probe_ref probe = probe_at(i);
        const struct ask ask = { .number = 10 * SECOND };
        tell("%d", probe_rest(task, &probe, &ask, &told));
        tell(":%d ", (int)told.number);
    }
    return 0;
}

Test(late, a_second_answer_does_not_reach_the_next_call_in_the_slot)
{
    spawn(0, rest_twice, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    const uint64_t first = open_id();
    make_up(first, 11);
    make_up(first, 22);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "0:11 ");
    expect_counts(1, 1, 0);
    const uint64_t second = open_id();
    cr_assert_eq(second, first + (UINT64_C(1) << TEFF__GENERATION_SHIFT)); /* the same slot */
    make_up(first, 33);
    cr_assert_eq(teff_silo_run(silo), 0);
    expect_counts(1, 2, 0);
    cr_assert_eq(teff_silo_advance(silo, 20 * SECOND), 0);
    cr_assert_str_eq(story, "0:11 0:0 "); /* the grain's own */
    expect_counts(0, 3, 0);
}

static void expect_twice(teff_client *of)
{
    struct told told = { .number = -1 };
    const teff_future first = start_rest(of, 1, 10 * SECOND);
    cr_assert_eq(teff_silo_run(silo), 0);
    const uint64_t id = open_id();
    make_up(id, 11);
    make_up(id, 22);
    cr_assert_eq(probe_rest_claim(of, first, &told), 0);
    cr_assert_eq(told.number, 11);
    const teff_future second = start_rest(of, 2, 10 * SECOND);
    cr_assert_eq(open_id(), id + (UINT64_C(1) << TEFF__GENERATION_SHIFT));
    make_up(id, 33);
    cr_assert_eq(probe_rest_claim(of, second, &told), 0);
    cr_assert_eq(told.number, 0);
    expect_counts(0, 3, 0);
}

Test(late, a_clients_second_answer_neither)
{
    expect_twice(client);
}

/* --- Made up ------------------------------------------------------------------------------- */

static void expect_unknown(uint64_t id)
{
    const teff_counts before = silo_counts();
    make_up(id, 4711);
    cr_assert_eq(teff_silo_run(silo), 0);
    const teff_counts after = silo_counts();
    /* 0 is what a one-way request has: its answer is not even looked at. */
    cr_assert_eq(after.unknown, before.unknown + (id != 0), "%llx", (unsigned long long)id);
    cr_assert_eq(after.late, before.late);
    cr_assert_eq(after.open, before.open);
    cr_assert_eq(after.opened, before.opened);
}

enum { OTHER_STRIPE = 1 << TEFF__CALLBACK_BITS };

static void expect_made_up(uint64_t id)
{
    expect_unknown(id + 1);                                       /* a slot that is not made */
    expect_unknown(id | (TEFF__CALLBACKS_MAX - 1));               /* the last one */
    expect_unknown(id ^ OTHER_STRIPE);                            /* a stripe without any */
    expect_unknown(id + (UINT64_C(1) << TEFF__GENERATION_SHIFT)); /* what comes next there */
    expect_unknown(id | TEFF__GENERATION_MAX << TEFF__GENERATION_SHIFT);
    expect_unknown(id & ((UINT64_C(1) << TEFF__GENERATION_SHIFT) - 1)); /* what never was */
}

Test(late, an_answer_with_a_made_up_id_is_dropped_and_counted_as_unknown)
{
    spawn(0, rest_twice, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    expect_made_up(open_id());
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    expect_made_up(open_id());
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    cr_assert_str_eq(story, "0:0 0:0 ");
    const teff_future future = start_rest(client, 3, 10 * SECOND);
    const uint64_t of_client = open_id();
    expect_made_up(of_client);
    cr_assert_eq(probe_rest_claim(client, future, NULL), 0);
    expect_counts(0, 0, 16);
}

/* --- Slots that are used up ---------------------------------------------------------------- */

static int get_often(teff_caller *caller, void *user)
{
    int r = 0;
    for (int i = 0; i < 300 && r == 0; i++) {
        struct told told = { .number = -1 };
        probe_ref probe = probe_at((uint64_t)i % 3);
        r = probe_get(caller, &probe, NULL, &told);
        cr_expect_eq(told.number, 0);
    }
    (void)user;
    return r;
}

/* Late answers to each generation that the slot of that stripe had, and to those it never had. */
static void expect_retired(const teff__stripe *stripe, uint32_t slot, uint64_t generations)
{
    const teff_counts before = silo_counts();
    for (uint64_t generation = 1; generation <= generations; generation++)
        make_up(teff__stripe_id(stripe, slot, generation), 4711);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(silo_counts().late, before.late + generations);
    expect_unknown(teff__stripe_id(stripe, slot, 0)); /* as if it had wrapped */
    expect_unknown(teff__stripe_id(stripe, slot, generations + 1));
    cr_assert_eq(silo_counts().open, before.open);
    cr_assert_eq(teff__atomic_u64_load_relaxed(&stripe->callbacks[slot].word),
                 generations << TEFF__CALLBACK_SHIFT | TEFF__CALLBACK_FREE);
}

Test(late, hundreds_of_calls_go_through_slots_of_three_generations_each)
{
    teff__stripe *of_worker = teff__silo_grains(silo)->catalogs[0]->stripe;
    teff__stripe *of_client = teff__client_of(client)->stripe;
    of_worker->generation_max = of_client->generation_max = 3;
    cr_assert_eq(get_often(client, NULL), 0);
    cr_assert_eq(in_task(0, get_often, NULL), 0);
    cr_assert_eq(teff__atomic_u32_load_relaxed(&of_worker->made), 100);
    cr_assert_eq(teff__atomic_u32_load_relaxed(&of_client->made), 101); /* and the task's future */
    for (uint32_t slot = 0; slot < 100; slot += 33) {
        expect_retired(of_worker, slot, 3);
        expect_retired(of_client, slot, 3);
    }
    cr_assert_eq(get_often(client, NULL), 0);
    cr_assert_eq(in_task(0, get_often, NULL), 0);
    cr_assert_eq(silo_counts().open, 0);
}

/* As if all of a stripe's slots but ten had been used up. */
static void use_up(teff__stripe *stripe)
{
    const uint32_t made = teff__atomic_u32_load_relaxed(&stripe->made);
    cr_assert_gt(made, 0);
    stripe->generation_max = 1;
    stripe->free = 0;
    for (uint32_t slot = made; slot < TEFF__CALLBACKS_MAX; slot++)
        teff__atomic_i64_store_relaxed(&stripe->columns->deadline_ns[slot], INT64_MAX);
    teff__atomic_u32_store_relaxed(&stripe->made, TEFF__CALLBACKS_MAX - 10);
}

static int get_until_refused(teff_caller *caller, void *user)
{
    int *count = user, r;
    probe_ref probe = probe_at(1);
    for (*count = 0; (r = probe_get(caller, &probe, NULL, NULL)) == 0; ++*count) {
    }
    cr_expect_not(teff_outcome_last(caller)->may_have_run);
    return r;
}

/* 64 workers have one stripe each. */
static void begin_64(void)
{
    begin_with((teff_silo_options){ .workers = 64 });
}

TestSuite(late_on_64, .init = begin_64, .fini = end);

Test(late_on_64, when_all_slots_are_used_up_calls_are_refused_as_overload)
{
    int count = 0;
    cr_assert_eq(in_task(0, get_often, NULL), 0);
    use_up(teff__silo_grains(silo)->catalogs[0]->stripe);
    cr_assert_eq(in_task(0, get_until_refused, &count), TEFF_EOVERLOADED);
    cr_assert_eq(count, 10);
    cr_assert_eq(in_task(1, get_often, NULL), 0); /* the others go on, and so does it as callee */
    use_up(teff__client_of(client)->stripe);
    cr_assert_eq(get_until_refused(client, &count), TEFF_EOVERLOADED);
    cr_assert_eq(count, 10);
    cr_assert_eq(silo_counts().open, 0);
}

/* --- After stop ---------------------------------------------------------------------------- */

Test(late_after_stop, what_lies_in_the_inbox_of_a_worker_that_has_ended_is_counted_and_dropped)
{
    begin_two();
    teff_bytes *bytes = NULL;
    cr_assert_eq(teff_bytes_create(silo, "left", 4, &bytes), 0);
    cr_assert_eq(in_task(0, get_often, NULL), 0);
    const teff__stripe *stripe = teff__silo_grains(silo)->catalogs[0]->stripe;
    cr_assert_eq(teff_silo_stop(silo), 0);
    const teff_counts before = silo_counts();
    make_up(teff__stripe_id(stripe, 0, 1), 4711);
    make_up(teff__stripe_id(stripe, 9, 1), 4711);
    make_up(teff__stripe_id(teff__client_of(client)->stripe, 0, 1), 4711);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(teff_silo_destroy(silo), silo); /* a buffer is left; the inboxes are drained */
    const teff_counts after = silo_counts();
    cr_assert_eq(after.late, before.late + 2);
    cr_assert_eq(after.unknown, before.unknown + 1);
    cr_assert_eq(after.opened, before.opened);
    cr_assert_eq(after.open, 0);
    teff_bytes_unref(bytes);
    cr_assert_null(teff_silo_destroy(silo));
}

static struct shared {
    teff__atomic_u32 asked, stopped, ready;
    teff_ref ear;
} shared;

/* The observer answers when the silo has stopped. */
static int answer_late(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)turn, (void)self, (void)arg;
    teff__atomic_u32_store_seq_cst(&shared.asked, 1);
    while (teff__atomic_u32_load_seq_cst(&shared.stopped) == 0)
        teff__cpu_relax();
    ret->number = 99;
    return 0;
}

static void observe(void *argument)
{
    static struct probe self;
    teff_client *own = NULL;
    (void)argument;
    teff_assert(teff_client_create(silo, NULL, &own) == 0);
    teff_assert(teff_observer_begin(own, &probe_handlers, &self, &shared.ear) == 0);
    teff__atomic_u32_store_seq_cst(&shared.ready, 1);
    while (teff_client_run(own, SECOND) == 0) {
    }
    teff_assert(teff_client_destroy(own) == NULL);
}

static int asked_code;

static int ask_the_ear(teff_task *task, void *user)
{
    probe_ref probe = { shared.ear };
    (void)user;
    asked_code = probe_act(task, &probe, &(struct ask){ 0 }, NULL);
    return 0;
}

Test(late_after_stop, an_observers_answer_is_dropped)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 1,
                                        .stop_timeout_ns = MS };
    teff__thread thread;
    teff_bytes *bytes = NULL;
    acting = answer_late;
    cr_assert_eq(teff_silo_create(&options, &silo), 0);
    cr_assert_eq(teff_silo_register(silo, &probe_grain, &seen), 0);
    cr_assert_eq(teff_silo_start(silo), 0);
    cr_assert_eq(teff_bytes_create(silo, "left", 4, &bytes), 0);
    cr_assert_eq(teff__thread_start(&thread, observe, NULL, "observer"), 0);
    while (teff__atomic_u32_load_seq_cst(&shared.ready) == 0)
        teff__cpu_relax();
    spawn(0, ask_the_ear, NULL);
    while (teff__atomic_u32_load_seq_cst(&shared.asked) == 0)
        teff__cpu_relax();
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(asked_code, TEFF_EUNAVAILABLE);
    cr_assert_eq(silo_counts().late, 0);
    teff__atomic_u32_store_seq_cst(&shared.stopped, 1);
    teff__thread_join(&thread);
    cr_assert_eq(teff_silo_destroy(silo), silo); /* a buffer is left */
    const teff_counts counts = silo_counts();
    cr_assert_eq(counts.late, 1);
    cr_assert_eq(counts.open, 0);
    cr_assert_eq(counts.ended[TEFF_END_STOPPED], 1);
    teff_bytes_unref(bytes);
    cr_assert_null(teff_silo_destroy(silo));
}
