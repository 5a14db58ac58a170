/* SPDX-License-Identifier: MIT */
/* NULL where an object is due, for every public function, and callers of the wrong kind. */
#include "fixture.h"

TestSuite(misuse_null, .init = begin, .fini = end);

static void never(teff_caller *caller, void *user, const teff_outcome *outcome,
                  const struct told *ret)
{
    (void)caller, (void)user, (void)outcome, (void)ret;
    cr_expect_fail("never called");
}

static void never_stopped(void *user, int result)
{
    (void)user, (void)result;
    cr_expect_fail("never called");
}

static int never_runs(teff_task *task, void *user)
{
    (void)task, (void)user;
    cr_expect_fail("never called");
    return 0;
}

/* --- No caller ----------------------------------------------------------------------------------- */

Test(misuse_null, without_a_caller_a_call_is_invalid)
{
    probe_ref probe = probe_at(1);
    struct told told = { .number = 4711 };
    int result = 4711;
    size_t index = 4711;
    cr_assert_eq(probe_get(NULL, &probe, NULL, &told), TEFF_EINVAL);
    cr_assert_eq(probe_get_send(NULL, &probe, NULL), TEFF_EINVAL);
    cr_assert_eq(probe_get_then(NULL, &probe, NULL, never, NULL), TEFF_EINVAL);
    const teff_future future = probe_get_start(NULL, &probe, NULL);
    cr_assert_eq(probe_get_claim(client, future, &told), TEFF_EINVAL);
    cr_assert_eq(probe_get_claim(NULL, future, &told), TEFF_EINVAL);
    cr_assert_eq(teff_await_all(NULL, &future, 1), TEFF_EINVAL);
    cr_assert_eq(teff_await_any(NULL, &future, 1, &index), TEFF_EINVAL);
    cr_assert_eq(teff_task_claim(NULL, future, &result), TEFF_EINVAL);
    cr_assert_eq(teff_sleep(NULL, 1), TEFF_EINVAL);
    cr_assert_null(teff_with(NULL, NULL));
    cr_assert_null(teff_within(NULL, 1));
    cr_assert_eq(teff_now_ns(NULL), 0);
    cr_assert_eq(teff_outcome_last(NULL)->code, TEFF_EINVAL);
    cr_assert_str_eq(teff_outcome_last(NULL)->text, "no caller was given");
    cr_assert_eq(told.number, 4711);
    cr_assert_eq(result, 4711);
    cr_assert_eq(index, 4711);
    cr_assert_eq(teff__silo_grain_count(silo), 0);
}

/* --- No reference, interface, result ------------------------------------------------------------- */

static int lacking(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    const teff_interface *const of = &probe_interface;
    teff__any *const done = (teff__any *)never;
    int result = 4711;
    size_t index = 4711;
    (void)user;
    cr_expect_eq(teff_call(caller, NULL, of, 1, NULL, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call(caller, &probe.ref, NULL, 1, NULL, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call(caller, &probe.ref, of, probe_number_count, NULL, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call_send(caller, NULL, of, 1, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call_send(caller, &probe.ref, NULL, 1, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call_send(caller, &probe.ref, of, UINT32_MAX, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call_then(caller, NULL, of, 1, NULL, probe_get_thunk, done, NULL),
                 TEFF_EINVAL);
    cr_expect_eq(teff_call_then(caller, &probe.ref, NULL, 1, NULL, probe_get_thunk, done, NULL),
                 TEFF_EINVAL);
    cr_expect_eq(teff_call_then(caller, &probe.ref, of, 99, NULL, probe_get_thunk, done, NULL),
                 TEFF_EINVAL);
    cr_expect_eq(teff_call_then(caller, &probe.ref, of, 1, NULL, NULL, done, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call_then(caller, &probe.ref, of, 1, NULL, probe_get_thunk, NULL, NULL),
                 TEFF_EINVAL);
    const teff_future wrong[] = { teff_call_start(caller, NULL, of, 1, NULL),
                                  teff_call_start(caller, &probe.ref, NULL, 1, NULL),
                                  teff_call_start(caller, &probe.ref, of, 99, NULL) };
    for (int i = 0; i < 3; i++)
        cr_expect_eq(teff_call_claim(caller, wrong[i], of, 1, NULL), TEFF_EINVAL, "%d", i);

    const teff_future good = probe_get_start(caller, &probe, NULL);
    cr_expect_eq(teff_call_claim(caller, good, NULL, 1, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call_claim(caller, good, of, 99, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call_claim(caller, good, of, 2, NULL), TEFF_EINVAL); /* another method */
    cr_expect_eq(teff_task_claim(caller, good, &result), TEFF_EINVAL);     /* a call's */
    cr_expect_eq(teff_task_claim(caller, good, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call_claim(caller, (teff_future){ 0 }, of, 1, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_await_all(caller, NULL, 1), TEFF_EINVAL);
    cr_expect_eq(teff_await_all(caller, NULL, 0), 0);
    cr_expect_eq(teff_await_all(caller, &(teff_future){ 0 }, 1), TEFF_EINVAL);
    cr_expect_eq(teff_await_any(caller, NULL, 1, &index), TEFF_EINVAL);
    cr_expect_eq(teff_await_any(caller, &good, 0, &index), TEFF_EINVAL);
    cr_expect_eq(teff_await_any(caller, &good, 1, NULL), TEFF_EINVAL);
    cr_expect_eq(probe_get_claim(caller, good, NULL), 0); /* it stayed, in spite of all that */
    cr_expect_eq(probe_get_claim(caller, good, NULL), TEFF_EINVAL); /* twice */
    cr_expect_eq(result, 4711);
    cr_expect_eq(index, 4711);
    return 0;
}

static int lacking_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                           struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    return lacking(turn, NULL);
}

Test(misuse_null, without_what_a_call_needs_it_is_invalid_for_a_client)
{
    lacking(client, NULL);
    cr_assert_eq(seen.turns, 1);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

Test(misuse_null, without_what_a_call_needs_it_is_invalid_for_a_task)
{
    cr_assert_eq(in_task(0, lacking, NULL), 0);
    cr_assert_eq(seen.turns, 1);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

Test(misuse_null, without_what_a_call_needs_it_is_invalid_for_a_turn)
{
    probe_ref probe = probe_at(2);
    acting = lacking_in_turn;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    cr_assert_eq(seen.turns, 2);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

/* --- The silo and what belongs to it ------------------------------------------------------------- */

Test(misuse_null, without_a_silo_or_a_place_for_the_result_nothing_is_made)
{
    teff_client *other = NULL;
    teff_future future = { 4711 };
    teff_bytes *bytes = NULL;
    teff_cancel *cancel = NULL;
    cr_assert_eq(teff_silo_create(NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_register(NULL, &probe_grain, NULL), TEFF_EINVAL);
    cr_assert_str_eq(teff_silo_register_reason(NULL), "");
    cr_assert_eq(teff_silo_start(NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_stop(NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_stop_then(NULL, never_stopped, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_stop_then(silo, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_run(NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_advance(NULL, 1), TEFF_EINVAL);
    cr_assert_null(teff_silo_destroy(NULL));
    cr_assert_eq(teff_client_create(NULL, NULL, &other), TEFF_EINVAL);
    cr_assert_eq(teff_client_create(silo, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_client_run(NULL, 1), TEFF_EINVAL);
    cr_assert_eq(teff_client_close_then(NULL, NULL, NULL), TEFF_EINVAL);
    cr_assert_null(teff_client_destroy(NULL));
    cr_assert_eq(teff_silo_spawn(NULL, 0, never_runs, NULL, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_spawn(silo, 0, NULL, NULL, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_spawn(silo, 0, never_runs, NULL, NULL, &future), TEFF_EINVAL);
    cr_assert_eq(teff_silo_spawn(silo, 0, never_runs, NULL, client, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_bytes_create(NULL, "x", 1, &bytes), TEFF_EINVAL);
    cr_assert_eq(teff_cancel_create(NULL, &cancel), TEFF_EINVAL);
    cr_assert_null(other);
    cr_assert_null(bytes);
    cr_assert_null(cancel);
    cr_assert_eq(future.id, 4711);
    cr_assert_eq(number_of(1), 0);
}

Test(misuse_null, a_grain_type_that_is_null_is_refused_with_its_reason)
{
    teff_silo *other = NULL;
    cr_assert_eq(teff_silo_create(NULL, &other), 0);
    cr_assert_eq(teff_silo_register(other, NULL, NULL), TEFF_EINVAL);
    cr_assert_str_eq(teff_silo_register_reason(other), "there is no grain type");
    cr_assert_eq(teff_silo_register(other, &probe_grain, NULL), 0);
    cr_assert_str_eq(teff_silo_register_reason(other), "");
    cr_assert_eq(teff_silo_register(other, &probe_grain, NULL), TEFF_EINVALIDSTATE); /* twice */
    cr_assert_str_eq(teff_silo_register_reason(other), "a grain type of that name is registered");
    cr_assert_null(teff_silo_destroy(other));
}

/* --- Plain values -------------------------------------------------------------------------------- */

Test(misuse_null, keys_and_references)
{
    teff_key key = teff_key_u64(5);
    uint64_t number = 4711;
    const teff_ref none = { 0 };
    probe_ref probe = probe_at(1), untouched = probe;
    char text[47];
    memset(text, 'x', sizeof(text));
    cr_assert_eq(teff_key_get_u64(NULL, &number), TEFF_EINVAL);
    cr_assert_eq(teff_key_get_u64(&key, NULL), TEFF_EINVAL);
    key = teff_key_u128(0, 5);
    cr_assert_eq(teff_key_get_u64(&key, &number), TEFF_EINVAL);
    cr_assert_eq(number, 4711);
    cr_assert_eq(teff_key_text("a", 1, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_key_text(NULL, 1, &key), TEFF_EINVAL);
    cr_assert_eq(teff_key_text("", 0, &key), TEFF_EINVAL);
    cr_assert_eq(teff_key_text(text, 47, &key), TEFF_EINVAL);
    cr_assert_eq(probe_at_text(text, 47, &probe), TEFF_EINVAL);
    cr_assert_eq(probe_at_text("", 0, &probe), TEFF_EINVAL);
    cr_assert(teff_ref_equal(&probe.ref, &untouched.ref));
    cr_assert_not(teff_ref_equal(NULL, &none));
    cr_assert_not(teff_ref_equal(&none, NULL));
    cr_assert_eq(teff_key_digest(NULL, 0).size, 16);
}

/* --- A caller that is no turn -------------------------------------------------------------------- */

static void is_no_turn(teff_caller *caller)
{
    static const teff_ref none = { 0 };
    const teff_ref self = teff_turn_self(caller);
    cr_expect_null(teff_turn_key(caller));
    cr_expect_eq(memcmp(&self, &none, sizeof(self)), 0);
    cr_expect_null(teff_turn_context(caller));
    cr_expect_null(teff_turn_alloc(caller, 16));
    cr_expect_eq(teff_turn_fail(caller, 5, "%s", "no"), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_turn_pass(caller, 5), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_turn_deadline_ns(caller), INT64_MAX);
    cr_expect_eq(teff_turn_deactivate(caller), TEFF_EINVALIDSTATE);
    const probe_ref typed = probe_self(caller);
    cr_expect_null(typed.ref.type);
}

static int is_a_task(teff_task *task, void *user)
{
    (void)user;
    is_no_turn(task);
    cr_expect_eq(teff_client_run(task, 1), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_client_close_then(task, NULL, NULL), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_client_destroy(task), task);
    cr_expect_null(teff_turn_worker_context(task));
    return 0;
}

Test(misuse_null, what_is_no_turn_cannot_do_what_only_a_turn_does)
{
    is_no_turn(NULL);
    is_no_turn(client);
    cr_assert_null(teff_turn_worker_context(NULL));
    cr_assert_null(teff_turn_worker_context(client));
    cr_assert_eq(in_task(0, is_a_task, NULL), 0);
    cr_assert_eq(teff_client_close_then(client, NULL, NULL), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_client_run(client, -1), TEFF_EINVAL);
    cr_assert_eq(teff_sleep(client, -1), TEFF_EINVAL);
    cr_assert_eq(teff_silo_advance(silo, -1), TEFF_EINVAL);
}

static int wrong_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                         struct told *ret)
{
    const char *no_format = NULL;
    (void)self, (void)arg, (void)ret;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
    cr_expect_eq(teff_turn_fail(turn, 5, no_format), TEFF_EINVAL);
#pragma GCC diagnostic pop
    cr_expect_eq(teff_turn_fail(turn, 0, "zero"), TEFF_EINVAL);
    cr_expect_eq(teff_turn_fail(turn, TEFF_EGONE, "not the grain's"), TEFF_EINVAL);
    cr_expect_null(teff_turn_alloc(turn, 0));
    cr_expect_null(teff_turn_alloc(turn, SIZE_MAX));
    cr_expect_null(teff_turn_alloc(turn, SIZE_MAX / 2));
    cr_expect_eq(teff_client_run(turn, 1), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_client_run(client, 1), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_client_destroy(turn), turn);
    return 0;
}

Test(misuse_null, what_a_turn_cannot_do_either)
{
    probe_ref probe = probe_at(1);
    acting = wrong_in_turn;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
}

/* --- Sizes of structures ------------------------------------------------------------------------- */

Test(misuse_null, structures_of_another_size_are_refused)
{
    struct {
        teff_silo_options options;
        char newer[64];
    } silos = { .options = { .simulated = true } };
    struct {
        teff_call_options options;
        char newer[64];
    } calls = { .options = { .timeout_ns = SECOND } };
    teff_silo *other = NULL;
    probe_ref probe = probe_at(1);
    static const size_t nonsense[] = { 0, 1, 7, 5000, SIZE_MAX };
    for (int i = 0; i < 5; i++) {
        silos.options.struct_size = calls.options.struct_size = nonsense[i];
        cr_assert_eq(teff_silo_create(&silos.options, &other), TEFF_EINVAL, "%d", i);
        cr_assert_eq(probe_get(teff_with(client, &calls.options), &probe, NULL, NULL), TEFF_EINVAL,
                     "%d", i);
    }
    /* A newer layout that asks for nothing new is taken, and one that does is not. */
    silos.options.struct_size = sizeof(silos);
    calls.options.struct_size = sizeof(calls);
    cr_assert_eq(teff_silo_create(&silos.options, &other), 0);
    cr_assert_null(teff_silo_destroy(other));
    cr_assert_eq(probe_get(teff_with(client, &calls.options), &probe, NULL, NULL), 0);
    silos.newer[63] = calls.newer[63] = 1;
    cr_assert_eq(teff_silo_create(&silos.options, &other), TEFF_EINVAL);
    cr_assert_eq(probe_get(teff_with(client, &calls.options), &probe, NULL, NULL), TEFF_EINVAL);
}

/* --- Before the start, and where one may not wait ------------------------------------------------ */

static void stop_in_completion(teff_caller *caller, void *user, const teff_outcome *outcome,
                               const struct told *ret)
{
    probe_ref probe = probe_at(1);
    (void)outcome, (void)ret;
    ++*(int *)user;
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    cr_expect_eq(teff_client_destroy(caller), caller);
    cr_expect_eq(teff_client_run(caller, 1), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_sleep(caller, 1), TEFF_EWOULDBLOCK);
    cr_expect_eq(probe_get(caller, &probe, NULL, NULL), TEFF_EWOULDBLOCK);
}

Test(misuse_null, in_a_completion_nothing_blocks_and_nothing_stops)
{
    probe_ref probe = probe_at(1);
    int calls = 0;
    cr_assert_eq(probe_get_then(client, &probe, NULL, stop_in_completion, &calls), 0);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    cr_assert_eq(calls, 1);
    cr_assert_eq(number_of(1), 0);
}
