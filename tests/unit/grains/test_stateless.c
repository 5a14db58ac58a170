/* SPDX-License-Identifier: MIT */
/*
 * Stateless workers: several activations of one grain at once, as many as its type allows, made only
 * while all are busy. Cases 74 to 77 of the reference.
 */
#include "fixture.h"

#include "grains/catalog.h"

#include "teff/status.h"

/* The probe again, under names that say how many there may be. */
static teff_grain_type stateless_grain(const char *name, uint32_t max)
{
    teff_grain_type grain = probe_grain;
    grain.name.text = name;
    grain.stateless_max = max;
    return grain;
}

static void begin_pool(uint32_t workers)
{
    const teff_silo_options options = {
        .struct_size = sizeof(options), .simulated = true, .seed = 1, .workers = workers
    };
    const teff_grain_type one = stateless_grain("one", 1), four = stateless_grain("four", 4),
                          many = stateless_grain("many", 65535);
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_register(silo, &one, &seen) == 0);
    teff_assert(teff_silo_register(silo, &four, &seen) == 0);
    teff_assert(teff_silo_register(silo, &many, &seen) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

static void begin_one_worker(void)
{
    begin_pool(1);
}

static void begin_two_workers(void)
{
    begin_pool(2);
}

TestSuite(stateless, .init = begin_one_worker, .fini = end);
TestSuite(stateless_two, .init = begin_two_workers, .fini = end);
TestSuite(stateless_each, .fini = end);

static const teff_name one_name = { "one" }, four_name = { "four" }, many_name = { "many" };

static probe_ref worker_at(const teff_name *type, uint64_t key)
{
    return (probe_ref){ .ref = { .type = type, .key = teff_key_u64(key) } };
}

static uint64_t resident(void)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    cr_assert_eq(teff_silo_grain_counts(silo, &counts), 0);
    return counts.resident;
}

static uint64_t resident_on(uint32_t worker)
{
    teff_grain_counts counts = { 0 };
    teff__catalog_count_grains(teff__silo_grains(silo)->catalogs[worker], &counts);
    return counts.resident;
}

/* --- The cases ------------------------------------------------------------------------------- */

Test(stateless, case_74_calls_one_after_another_have_one_activation)
{
    probe_ref grain = worker_at(&four_name, 1);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(probe_set(client, &grain, &(struct ask){ .number = i }, NULL), 0);
        cr_assert_eq(resident(), 1);
    }
    cr_assert_eq(seen.activated, 1);
    cr_assert_eq(seen.turns, 100);
}

/* Those that run sleep until they are let go. */
static int running, running_max;
static bool let_go;

static int block(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)arg;
    ret->number = ++self->number;
    running++;
    running_max = running > running_max ? running : running_max;
    while (!let_go)
        cr_expect_eq(teff_sleep(turn, MS), 0);
    running--;
    return 0;
}

Test(stateless, case_75_another_is_made_only_while_all_are_busy_and_never_more_than_may_be)
{
    teff_future futures[8];
    probe_ref grain = worker_at(&four_name, 1);
    acting = block;
    for (uint64_t i = 1; i <= 4; i++) {
        futures[i - 1] = probe_act_start(client, &grain, &(struct ask){ 0 });
        cr_assert_eq(teff_silo_run(silo), 0);
        cr_assert_eq(resident(), i);
        cr_assert_eq(running, (int)i);
    }
    for (int i = 4; i < 8; i++) {
        futures[i] = probe_act_start(client, &grain, &(struct ask){ 0 });
        cr_assert_eq(teff_silo_run(silo), 0);
        cr_assert_eq(resident(), 4);
        cr_assert_eq(running, 4);
        cr_assert_eq(seen.turns, 4, "the others wait");
    }
    let_go = true;
    for (int i = 0; i < 8; i++) {
        struct told told = { 0 };
        cr_assert_eq(probe_act_claim(client, futures[i], &told), 0);
        cr_assert_eq(told.number, i < 4 ? 1 : 2, "each member had one more");
    }
    cr_assert_eq(resident(), 4);
    cr_assert_eq(seen.turns, 8);
}

Test(stateless, case_77_a_single_one_serves_many_calls_at_once_without_a_failure)
{
    static teff_future futures[100][10];
    acting = block;
    let_go = true;
    for (uint64_t key = 0; key < 100; key++) {
        probe_ref grain = worker_at(&one_name, key);
        for (int i = 0; i < 10; i++)
            futures[key][i] = probe_act_start(client, &grain, &(struct ask){ 0 });
    }
    for (int key = 0; key < 100; key++)
        for (int i = 0; i < 10; i++)
            cr_assert_eq(probe_act_claim(client, futures[key][i], NULL), 0);
    cr_assert_eq(seen.activated, 100);
    cr_assert_eq(resident(), 100);
}

/* --- Who gets a call ------------------------------------------------------------------------- */

static int ask_number(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    if (self->number == 0)
        self->number = arg->number; /* its name is the first call's number */
    ret->number = self->number;
    return arg->text[0] == 's' ? teff_sleep(turn, SECOND) : 0;
}

static teff_future start_named(probe_ref *grain, int number, bool sleeps)
{
    struct ask ask = { .number = number };
    ask.text[0] = sleeps ? 's' : '\0';
    const teff_future future = probe_act_start(client, grain, &ask);
    cr_assert_eq(teff_silo_run(silo), 0);
    return future;
}

static int64_t name_of(teff_future future)
{
    struct told told = { .number = -1 };
    cr_assert_eq(probe_act_claim(client, future, &told), 0);
    return told.number;
}

Test(stateless, the_one_that_became_idle_last_gets_the_next_call)
{
    probe_ref grain = worker_at(&four_name, 1);
    acting = ask_number;
    const teff_future one = start_named(&grain, 1, true);
    cr_assert_eq(teff_silo_advance(silo, SECOND / 2), 0);
    const teff_future two = start_named(&grain, 2, true);
    cr_assert_eq(name_of(one), 1);
    cr_assert_eq(name_of(two), 2);
    for (int i = 3; i < 6; i++)
        cr_assert_eq(name_of(start_named(&grain, i, false)), 2);
    const teff_future busy = start_named(&grain, 6, true);
    cr_assert_eq(name_of(start_named(&grain, 7, false)), 1);
    cr_assert_eq(name_of(busy), 2);
    cr_assert_eq(resident(), 2);
}

Test(stateless, when_all_are_busy_the_one_with_the_least_mail_gets_it)
{
    teff_future futures[12];
    int served[5] = { 0 };
    probe_ref grain = worker_at(&four_name, 1);
    acting = ask_number;
    for (int i = 0; i < 12; i++)
        futures[i] = start_named(&grain, i + 1, true);
    for (int i = 0; i < 12; i++)
        served[name_of(futures[i])]++;
    for (int name = 1; name <= 4; name++)
        cr_assert_eq(served[name], 3);
    cr_assert_eq(resident(), 4);
}

Test(stateless, grains_of_one_type_have_members_of_their_own)
{
    acting = ask_number;
    for (uint64_t key = 1; key <= 3; key++) {
        probe_ref grain = worker_at(&four_name, key);
        (void)start_named(&grain, (int)key, true);
    }
    cr_assert_eq(resident(), 3);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    for (uint64_t key = 1; key <= 3; key++) {
        probe_ref grain = worker_at(&four_name, key);
        cr_assert_eq(name_of(start_named(&grain, 9, false)), (int64_t)key);
    }
}

Test(stateless, more_members_than_are_compared_at_once_all_get_their_share)
{
    enum { MEMBERS = 200 };
    static teff_future futures[2 * MEMBERS];
    static int served[MEMBERS + 1];
    probe_ref grain = worker_at(&many_name, 1);
    acting = ask_number;
    for (int i = 0; i < MEMBERS; i++)
        futures[i] = start_named(&grain, i + 1, true);
    cr_assert_eq(resident(), MEMBERS);
    teff__silo_grains(silo)->catalogs[0]->defaults.response_timeout_ns = 60 * SECOND;
    /* as if the type allowed no more */
    ((teff__type *)(uintptr_t)teff__types_find_text(&teff__silo_grains(silo)->types, "many"))
        ->def.stateless_max = MEMBERS;
    for (int i = MEMBERS; i < 2 * MEMBERS; i++)
        futures[i] = start_named(&grain, i + 1, false);
    for (int i = 0; i < 2 * MEMBERS; i++)
        served[name_of(futures[i])]++;
    for (int name = 1; name <= MEMBERS; name++)
        cr_assert_eq(served[name], 2, "%d: %d", name, served[name]);
}

/* --- References ------------------------------------------------------------------------------ */

static int get_twice(teff_task *task, void *user)
{
    struct told told = { .route = 4711 };
    probe_ref *grain = user;
    cr_expect_eq(probe_get(task, grain, NULL, &told), 0);
    cr_expect_eq(told.route, 0, "a turn's own reference names no activation");
    cr_expect_eq(grain->ref.route, 0, "nor does the caller's");
    return probe_get(task, grain, NULL, &told);
}

Test(stateless, no_reference_remembers_a_member)
{
    probe_ref grain = worker_at(&four_name, 1);
    struct told told = { .route = 4711 };
    cr_assert_eq(in_task(0, get_twice, &grain), 0);
    cr_assert_eq(probe_get(client, &grain, NULL, &told), 0);
    cr_assert_eq(told.route, 0);
    cr_assert_eq(grain.ref.route, 0);
    cr_assert_eq(teff__silo_grain_count(silo), 0, "the directory knows none");
}

/* --- Life ------------------------------------------------------------------------------------ */

static int fail_to_activate(teff_turn *turn, struct probe *self)
{
    (void)self;
    return teff_turn_fail(turn, 7, "not today");
}

Test(stateless, what_activate_says_reaches_the_callers_and_the_next_call_tries_again)
{
    probe_ref grain = worker_at(&one_name, 1);
    activating = fail_to_activate;
    const uint64_t before = bytes_allocated();
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(probe_get(client, &grain, NULL, NULL), 7);
        cr_assert_str_eq(teff_outcome_last(client)->text, "not today");
        cr_assert_eq(resident(), 0);
    }
    activating = NULL;
    cr_assert_eq(probe_get(client, &grain, NULL, NULL), 0);
    cr_assert_eq(seen.activated, 4);
    cr_assert_gt(bytes_allocated(), before);
}

static int leave_at_once(teff_turn *turn, struct probe *self, const struct ask *arg,
                         struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    return teff_turn_deactivate(turn);
}

Test(stateless, a_member_that_leaves_makes_room_and_nothing_of_the_last_one_stays)
{
    uint64_t before = 0;
    acting = leave_at_once;
    for (int i = 0; i < 10; i++) {
        probe_ref grain = worker_at(&one_name, 1);
        cr_assert_eq(probe_act(client, &grain, &(struct ask){ 0 }, NULL), 0);
        cr_assert_eq(teff_silo_run(silo), 0);
        cr_assert_eq(resident(), 0);
        cr_assert_eq(teff__silo_grains(silo)->catalogs[0]->shifts.count, 0);
        if (i == 0)
            before = bytes_allocated(); /* the tables are there */
        cr_assert_eq(bytes_allocated(), before);
    }
    cr_assert_eq(seen.deactivated, 10);
    cr_assert_eq(seen.reason, TEFF_DEACTIVATED_REQUEST);
}

static void rest_a_while(teff_turn *turn, struct probe *self, int reason)
{
    (void)self, (void)reason;
    cr_expect_eq(teff_sleep(turn, SECOND), 0);
}

Test(stateless, mail_for_a_member_that_goes_is_served_by_the_next_in_its_place)
{
    teff_future futures[5];
    probe_ref grain = worker_at(&one_name, 1);
    acting = leave_at_once;
    deactivating = rest_a_while;
    for (int i = 0; i < 5; i++)
        futures[i] = probe_act_start(client, &grain, &(struct ask){ 0 });
    for (int i = 0; i < 5; i++)
        cr_assert_eq(probe_act_claim(client, futures[i], NULL), 0);
    cr_assert_eq(seen.activated, 5);
    cr_assert_leq(resident(), 1);
}

static int then_done;

static void done(teff_caller *caller, void *user, const teff_outcome *outcome,
                 const struct told *ret)
{
    (void)user, (void)ret;
    cr_expect_not_null(caller, "its member is there, and runs it");
    then_done += outcome->code == 0;
}

static int call_then(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    probe_ref other = probe_at(5);
    return probe_get_then(turn, &other, NULL, done, NULL);
}

Test(stateless, a_members_completions_are_its_turns)
{
    probe_ref grain = worker_at(&four_name, 1);
    acting = call_then;
    for (int i = 0; i < 3; i++)
        cr_assert_eq(probe_act(client, &grain, &(struct ask){ 0 }, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(then_done, 3);
    cr_assert_eq(resident(), 2);
}

Test(stateless, a_silo_that_stops_lets_busy_members_end_and_deactivates_all)
{
    probe_ref grain = worker_at(&four_name, 1);
    acting = ask_number;
    for (int i = 0; i < 6; i++)
        cr_assert_eq(probe_act_send(client, &grain, &(struct ask){ .text = "s" }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(resident(), 4);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(seen.deactivated, 4);
    cr_assert_eq(seen.reason, TEFF_DEACTIVATED_STOP);
}

/* Nobody wakes it, also not stop. */
static int wait_for_ever(teff_turn *turn, struct probe *self, const struct ask *arg,
                         struct told *ret)
{
    teff__catalog *catalog = turn->home;
    static teff__waiter waiters[8];
    (void)self, (void)arg, (void)ret;
    cr_expect_eq(teff__worker_reserve(&catalog->worker), 0);
    teff__catalog_suspend(catalog, &waiters[seen.turns - 1]);
    return 0;
}

Test(stateless_each, member_whose_turn_never_ends_is_freed_with_the_silo)
{
    begin_pool(2);
    probe_ref grain = worker_at(&four_name, 1);
    acting = wait_for_ever;
    for (int i = 0; i < 6; i++)
        cr_assert_eq(probe_act_send(client, &grain, &(struct ask){ 0 }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_client_destroy(client), NULL);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(seen.turns, 4);
    silo = teff_silo_destroy(silo);
    cr_assert_null(silo);
}

/* --- Two workers ----------------------------------------------------------------------------- */

struct start {
    const teff_name *type;
    int count, failed;
};

static int start_all(teff_task *task, void *user)
{
    teff_future futures[16];
    struct start *of = user;
    probe_ref grain = worker_at(of->type, 1);
    for (int i = 0; i < of->count; i++)
        futures[i] = probe_act_start(task, &grain, &(struct ask){ 0 });
    for (int i = 0; i < of->count; i++)
        of->failed += probe_act_claim(task, futures[i], NULL) != 0;
    return 0;
}

Test(stateless_two, each_worker_makes_its_own_and_together_they_are_no_more_than_may_be)
{
    static struct start first = { &four_name, 3, 0 }, second = { &four_name, 3, 0 };
    acting = block;
    spawn(0, start_all, &first);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(resident_on(0), 3);
    spawn(1, start_all, &second);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(resident_on(0), 3);
    cr_assert_eq(resident_on(1), 1);
    cr_assert_eq(running, 4, "two wait on worker 1");
    let_go = true;
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(seen.turns, 6);
    cr_assert_eq(running_max, 4);
    cr_assert_eq(first.failed + second.failed, 0);
}

Test(stateless_two, a_worker_that_may_make_none_sends_its_calls_to_one_that_has_one)
{
    static struct start first = { &one_name, 1, 0 }, second = { &one_name, 4, 0 };
    acting = block;
    spawn(0, start_all, &first);
    cr_assert_eq(teff_silo_run(silo), 0);
    spawn(1, start_all, &second);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(resident_on(0), 1);
    cr_assert_eq(resident_on(1), 0);
    let_go = true;
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(seen.turns, 5);
    cr_assert_eq(running_max, 1);
    cr_assert_eq(first.failed + second.failed, 0);
}

static int leave_there(teff_task *task, void *user)
{
    probe_ref grain = worker_at(&one_name, 1);
    (void)user;
    return probe_leave(task, &grain, NULL, NULL);
}

Test(stateless_two, the_place_of_one_that_went_is_free_for_any_worker)
{
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(in_task(i % 2, leave_there, NULL), 0);
        cr_assert_eq(teff_silo_run(silo), 0);
        cr_assert_eq(resident(), 0);
    }
    cr_assert_eq(seen.activated, 6);
}

static int make_one(teff_task *task, void *user)
{
    probe_ref grain = worker_at(&one_name, 1);
    *(int *)user = probe_get(task, &grain, NULL, NULL);
    return 0;
}

/* The call is on its way to worker 0 when its only member has gone: worker 0 makes another. */
Test(stateless_two, a_call_that_comes_where_the_last_member_has_gone_is_served_there)
{
    static int first = 4711, second = 4711;
    acting = leave_at_once;
    cr_assert_eq(in_task(0, make_one, &first), 0);
    cr_assert_eq(first, 0);
    spawn(0, leave_there, NULL);
    spawn(1, make_one, &second);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(second, 0);
    cr_assert_leq(resident(), 1);
}

/* --- Memory ---------------------------------------------------------------------------------- */

Test(stateless, where_no_other_can_be_made_one_that_is_there_gets_the_call)
{
    teff_future futures[3];
    probe_ref grain = worker_at(&four_name, 1);
    teff__memory *memory = teff__silo_memory(silo);
    acting = block;
    futures[0] = probe_act_start(client, &grain, &(struct ask){ 0 });
    futures[1] = probe_act_start(client, &grain, &(struct ask){ 0 });
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(resident(), 2);
    memory->bytes_max = bytes_allocated();
    futures[2] = probe_act_start(client, &grain, &(struct ask){ 0 });
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(resident(), 2);
    memory->bytes_max = 0;
    let_go = true;
    for (int i = 0; i < 3; i++)
        cr_assert_eq(probe_act_claim(client, futures[i], NULL), 0);
    cr_assert_eq(seen.turns, 3);
}
