/* SPDX-License-Identifier: MIT */
/* Calls: from clients, tasks and turns; what comes back, and sends. */
#include "fixture.h"

TestSuite(call, .init = begin, .fini = end);

/* Sets and gets through any caller; gives what it got. */
static int set_and_get(teff_caller *caller, void *user)
{
    struct told told = { 0 };
    probe_ref probe = probe_at(1);
    const struct ask ask = { .number = *(int *)user };
    cr_expect_eq(probe_set(caller, &probe, &ask, NULL), 0);
    cr_expect_eq(probe_get(caller, &probe, NULL, &told), 0);
    cr_expect_eq(teff_outcome_last(caller)->code, 0);
    cr_expect_eq(teff_outcome_last(caller)->may_have_run, true);
    cr_expect_str_eq(teff_outcome_last(caller)->method->name, "get");
    return (int)told.number;
}

Test(call, a_client_reads_back_what_it_set)
{
    int number = 23;
    cr_assert_eq(set_and_get(client, &number), 23);
    cr_assert_eq(seen.turns, 2);
}

Test(call, a_task_reads_back_what_it_set)
{
    int number = 24;
    cr_assert_eq(in_task(0, set_and_get, &number), 24);
}

static int act_on_another(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    int number = (int)arg->number;
    (void)self;
    ret->number = set_and_get(turn, &number);
    return 0;
}

Test(call, a_turn_reads_back_what_it_set)
{
    struct told told;
    probe_ref probe = probe_at(2);
    acting = act_on_another;
    cr_assert_eq(probe_act(client, &probe, &(struct ask){ .number = 25 }, &told), 0);
    cr_assert_eq(told.number, 25);
    cr_assert_eq(seen.activated, 2);
}

Test(call, each_key_is_a_grain_of_its_own)
{
    for (uint64_t key = 0; key < 100; key++) {
        probe_ref probe = probe_at(key);
        cr_assert_eq(probe_set(client, &probe, &(struct ask){ .number = (int)key * 3 }, NULL), 0);
    }
    for (uint64_t key = 0; key < 100; key++)
        cr_assert_eq(number_of(key), (int64_t)key * 3);
    cr_assert_eq(teff__silo_grain_count(silo), 100);
}

Test(call, null_as_argument_sends_zeroes_and_null_as_result_drops_it)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_set(client, &probe, &(struct ask){ .number = 5 }, NULL), 0);
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), 0);
    cr_assert_eq(probe_set(client, &probe, NULL, NULL), 0);
    cr_assert_eq(number_of(1), 0);
}

/* The result's memory served other messages before: it must be zeroes all the same. */
static int leave_result(teff_turn *turn, struct probe *self, const struct ask *arg,
                        struct told *ret)
{
    (void)turn, (void)self;
    if (arg->number != 0)
        *ret = (struct told){ -1, UINT64_MAX };
    return 0;
}

Test(call, a_result_that_the_handler_leaves_alone_is_zero)
{
    struct told told;
    probe_ref probe = probe_at(1);
    acting = leave_result;
    cr_assert_eq(probe_act(client, &probe, &(struct ask){ .number = 1 }, &told), 0);
    cr_assert_eq(told.number, -1);
    cr_assert_eq(probe_act(client, &probe, &(struct ask){ .number = 0 }, &told), 0);
    cr_assert_eq(told.number, 0);
    cr_assert_eq(told.route, 0);
}

Test(call, the_grains_own_code_and_text_reach_the_caller_and_the_result_is_untouched)
{
    struct told told = { 1, 2 };
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_fail(client, &probe, &(struct ask){ 7, "the room is full" }, &told), 7);
    cr_assert_eq(told.number, 1);
    cr_assert_eq(told.route, 2);
    const teff_outcome *outcome = teff_outcome_last(client);
    cr_assert_eq(outcome->code, 7);
    cr_assert(outcome->may_have_run);
    cr_assert_str_eq(outcome->text, "the room is full");
    cr_assert_str_eq(outcome->method->name, "fail");
}

Test(call, a_code_without_a_text_has_a_sentence_all_the_same)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_fail(client, &probe, &(struct ask){ .number = 9 }, NULL), 9);
    cr_assert_str_eq(teff_outcome_last(client)->text, teff_status_text(9));
}

/* Fails by turn_fail with one code, but returns another. */
static int fail_otherwise(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    (void)teff_turn_fail(turn, 3, "of code 3");
    return 4;
}

Test(call, a_text_belongs_to_its_code)
{
    probe_ref probe = probe_at(1);
    acting = fail_otherwise;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 4);
    cr_assert_str_eq(teff_outcome_last(client)->text, teff_status_text(4));
}

/* Calls probe 1's `fail` and passes on what comes, or fails with its own text. */
static int pass_on(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    probe_ref probe = probe_at(1);
    (void)self;
    const int r = probe_fail(turn, &probe, arg, ret);
    (void)teff_turn_pass(turn, r);
    return strcmp(arg->text, "again") == 0 ? teff_turn_fail(turn, r, "told %s", arg->text) : r;
}

Test(call, a_failure_passed_on_keeps_its_text_and_its_origin)
{
    probe_ref probe = probe_at(2);
    acting = pass_on;
    cr_assert_eq(probe_act(client, &probe, &(struct ask){ 7, "deep" }, NULL), 7);
    cr_assert_str_eq(teff_outcome_last(client)->text, "deep");
    cr_assert_str_eq(teff_outcome_last(client)->method->name, "fail");
}

Test(call, a_failure_told_anew_is_the_tellers_own)
{
    probe_ref probe = probe_at(2);
    acting = pass_on;
    cr_assert_eq(probe_act(client, &probe, &(struct ask){ 7, "again" }, NULL), 7);
    cr_assert_str_eq(teff_outcome_last(client)->text, "told again");
    cr_assert_str_eq(teff_outcome_last(client)->method->name, "act");
}

static int use_turns_functions(teff_turn *turn, struct probe *self, const struct ask *arg,
                               struct told *ret)
{
    const teff_key key = teff_key_u64(6);
    const probe_ref probe = probe_self(turn);
    (void)self, (void)arg, (void)ret;
    cr_expect_eq(teff_turn_fail(turn, 0, "not the grain's"), TEFF_EINVAL);
    cr_expect_eq(teff_turn_fail(turn, TEFF_EGONE, "not the grain's"), TEFF_EINVAL);
    cr_expect_eq(teff_turn_pass(turn, 0), 0);
    cr_expect_arr_eq(teff_turn_key(turn), &key, sizeof(key));
    cr_expect_arr_eq(&probe.ref.key, &key, sizeof(key));
    cr_expect_str_eq(probe.ref.type->text, "probe");
    cr_expect_eq(teff_turn_context(turn), &seen);
    cr_expect_null(teff_turn_worker_context(turn));
    cr_expect_eq(teff_turn_deadline_ns(turn), teff__silo_now_ns(silo) + 30 * SECOND);
    cr_expect_null(teff_turn_alloc(turn, 0));
    cr_expect_null(teff_turn_alloc(turn, SIZE_MAX));
    unsigned char *memory = teff_turn_alloc(turn, 100000);
    cr_expect_eq((uintptr_t)memory % 16, 0);
    for (size_t i = 0; i < 100000; i++)
        cr_expect_eq(memory[i], 0);
    memset(memory, 1, 100000);
    return teff_turn_alloc(turn, 1) != NULL ? 0 : 1;
}

Test(call, a_turn_knows_its_grain_and_may_allocate)
{
    probe_ref probe = probe_at(6);
    acting = use_turns_functions;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    const uint64_t bytes = bytes_allocated();
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    cr_assert_eq(bytes_allocated(), bytes); /* all of it is given back */
}

static int is_no_turn(teff_task *task, void *user)
{
    (void)user;
    cr_expect_null(teff_turn_key(task));
    cr_expect_eq(teff_turn_self(task).route, 0);
    cr_expect_null(teff_turn_self(task).type);
    cr_expect_null(teff_turn_context(task));
    cr_expect_null(teff_turn_alloc(task, 8));
    cr_expect_eq(teff_turn_fail(task, 1, "no turn"), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_turn_pass(task, 1), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_turn_deactivate(task), TEFF_EINVALIDSTATE);
    return 0;
}

Test(call, tasks_and_clients_are_told_that_they_are_no_turns)
{
    cr_assert_eq(in_task(0, is_no_turn, NULL), 0);
    cr_assert_eq(is_no_turn(client, NULL), 0);
    cr_assert_null(teff_turn_worker_context(client));
}

/* --- One way ------------------------------------------------------------------------------- */

Test(call, a_send_returns_before_its_turn_runs_and_nothing_is_open)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ .number = 1 }), 0);
    cr_assert_eq(probe_note(client, &probe, &(struct ask){ .number = 2 }, NULL), 0);
    cr_assert_eq(probe_set_send(client, &probe, &(struct ask){ .number = 3 }), 0);
    cr_assert_eq(seen.turns, 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "1 2 ");
    cr_assert_eq(number_of(1), 3);
}

Test(call, a_send_whose_turn_fails_is_a_success_and_the_grain_goes_on)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_fail_send(client, &probe, &(struct ask){ 7, "no" }), 0);
    cr_assert_eq(teff_outcome_last(client)->code, 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(seen.turns, 1);
    cr_assert_eq(number_of(1), 0);
}

static int send_and_call(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    for (int i = 0; i < 5; i++)
        cr_expect_eq(probe_note_send(task, &probe, &(struct ask){ .number = i }), 0);
    cr_expect_eq(probe_rest(task, &probe, &(struct ask){ 0, "rest" }, NULL), 0);
    return 0;
}

Test(call, sends_and_calls_of_one_caller_run_in_the_order_made)
{
    cr_assert_eq(in_task(0, send_and_call, NULL), 0);
    cr_assert_str_eq(story, "0 1 2 3 4 rest(rest)");
}
