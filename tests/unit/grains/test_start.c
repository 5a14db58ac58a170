/* SPDX-License-Identifier: MIT */
/* Futures of calls: starting, claiming, and whose they are. Waiting for several: test_await.c. */
#include "calls.h"

TestSuite(start, .init = begin, .fini = end);
TestSuite(start_on_four, .init = begin_four_workers, .fini = end);

/* --- Claiming ------------------------------------------------------------------------------ */

/* Ten grains at once, claimed from the last to the first. */
static int start_ten(teff_caller *caller, void *user)
{
    teff_future sets[10], gets[10];
    (void)user;
    for (int i = 0; i < 10; i++) {
        probe_ref probe = probe_at((uint64_t)i);
        sets[i] = probe_set_start(caller, &probe, &(struct ask){ .number = 100 + i });
        gets[i] = probe_get_start(caller, &probe, NULL);
        cr_expect_eq(teff_outcome_last(caller)->code, 0);
    }
    for (int i = 9; i >= 0; i--) {
        struct told told = { .number = -1 };
        cr_expect_eq(probe_get_claim(caller, gets[i], &told), 0);
        cr_expect_eq(told.number, 100 + i);
        cr_expect_eq(probe_set_claim(caller, sets[i], NULL), 0);
        cr_expect_eq(teff_outcome_last(caller)->code, 0);
        cr_expect(teff_outcome_last(caller)->may_have_run);
        cr_expect_str_eq(teff_outcome_last(caller)->method->name, "set");
    }
    return 5;
}

Test(start, a_claim_gives_what_the_call_would_have)
{
    by_each(start_ten, 5);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(silo_counts().unclaimed, 0);
}

Test(start_on_four, a_claim_gives_what_the_call_would_have_across_workers)
{
    by_each(start_ten, 5);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

/* Three sleeps of 10, 20 and 30 ms at once end after 30 ms. */
static int start_sleeps(teff_caller *caller, void *user)
{
    const int64_t before_ns = teff_now_ns(caller);
    teff_future rests[3];
    (void)user;
    for (int i = 0; i < 3; i++)
        rests[i] = start_rest(caller, 10 + (uint64_t)i, (i + 1) * 10 * MS);
    cr_expect_eq(probe_rest_claim(caller, rests[1], NULL), 0);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 20 * MS);
    cr_expect_eq(probe_rest_claim(caller, rests[0], NULL), 0); /* settled by now */
    cr_expect_eq(teff_now_ns(caller) - before_ns, 20 * MS);
    cr_expect_eq(probe_rest_claim(caller, rests[2], NULL), 0);
    return (int)((teff_now_ns(caller) - before_ns) / MS);
}

Test(start, several_calls_run_at_once_and_a_settled_one_is_claimed_at_once)
{
    by_each(start_sleeps, 30);
}

static int claim_failure(teff_caller *caller, void *user)
{
    struct told told = { 1, 2 };
    probe_ref probe = probe_at(1);
    (void)user;
    const teff_future future =
        probe_fail_start(caller, &probe, &(struct ask){ 7, "the room is full" });
    cr_expect_eq(teff_outcome_last(caller)->code, 0);
    cr_expect_eq(probe_fail_claim(caller, future, &told), 7);
    cr_expect_eq(told.number, 1);
    cr_expect_eq(told.route, 2);
    cr_expect_eq(teff_outcome_last(caller)->code, 7);
    cr_expect(teff_outcome_last(caller)->may_have_run);
    cr_expect_str_eq(teff_outcome_last(caller)->text, "the room is full");
    cr_expect_str_eq(teff_outcome_last(caller)->method->name, "fail");
    return 5;
}

Test(start, a_grains_failure_comes_with_the_claim_and_leaves_the_result)
{
    by_each(claim_failure, 5);
}

static int claim_nulls(teff_caller *caller, void *user)
{
    struct told told = { .number = -1 };
    probe_ref probe = probe_at(1);
    (void)user;
    const teff_future set = probe_set_start(caller, &probe, NULL),
                      get = probe_get_start(caller, &probe, NULL),
                      again = probe_get_start(caller, &probe, NULL);
    cr_expect_eq(probe_set_claim(caller, set, NULL), 0);
    cr_expect_eq(probe_get_claim(caller, get, NULL), 0);
    cr_expect_eq(probe_get_claim(caller, again, &told), 0);
    cr_expect_eq(told.number, 0);
    return 5;
}

Test(start, null_as_argument_sends_zeroes_and_null_as_result_drops_it)
{
    for (int i = 0; i < 3; i++) {
        probe_ref probe = probe_at(1);
        cr_assert_eq(probe_set(client, &probe, &(struct ask){ .number = 5 }, NULL), 0);
        by_each(claim_nulls, 5);
    }
}

static int claim_one_way(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1), nowhere = probe_of(&(teff_name){ "nobody" }, teff_key_u64(1));
    (void)user;
    cr_expect_eq(probe_fail(caller, &nowhere, NULL, NULL), TEFF_EINVAL);
    const teff_future future = probe_note_start(caller, &probe, &(struct ask){ .number = 1 });
    cr_expect_eq(teff_outcome_last(caller)->code, 0); /* of the send, not of the call before */
    cr_expect_str_eq(teff_outcome_last(caller)->method->name, "note");
    cr_expect_eq(teff_await_all(caller, &future, 1), 0);
    cr_expect_eq(probe_note_claim(caller, future, NULL), 0);
    cr_expect_eq(teff_outcome_last(caller)->code, 0);
    const teff_future bad = probe_note_start(caller, &nowhere, NULL);
    cr_expect_eq(probe_note_claim(caller, bad, NULL), TEFF_EINVAL);
    return 5;
}

Test(start, the_future_of_a_one_way_row_is_settled_when_it_was_sent)
{
    cr_assert_eq(claim_one_way(client, NULL), 5);
    cr_assert_eq(seen.turns, 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    by_each(claim_one_way, 5);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(number_of(1), 4);
}

/* --- Whose it is --------------------------------------------------------------------------- */

#define OTHER_METHODS(METHOD, SELF)                                                                \
    METHOD(SELF, set, struct ask, teff_none, 0)                                                    \
    METHOD(SELF, get, teff_none, struct told, 0)
TEFF_INTERFACE(other, OTHER_METHODS);
TEFF_INTERFACE_DEFINE(other, OTHER_METHODS);

static int claim_wrongly(teff_caller *caller, void *user)
{
    struct told told = { .number = -1 };
    int result = -1;
    probe_ref probe = probe_at(1);
    (void)user;
    const teff_future get = probe_get_start(caller, &probe, NULL);
    cr_expect_eq(probe_rest_claim(caller, get, &told), TEFF_EINVAL);
    cr_expect_str_eq(teff_outcome_last(caller)->text,
                     "no future of this caller and method, or claimed already");
    cr_expect_not(teff_outcome_last(caller)->may_have_run);
    cr_expect_eq(other_get_claim(caller, get, &told), TEFF_EINVAL);
    cr_expect_eq(teff_task_claim(caller, get, &result), TEFF_EINVAL);
    cr_expect_eq(teff_call_claim(caller, get, NULL, 0, &told), TEFF_EINVAL);
    cr_expect_eq(teff_call_claim(caller, get, &probe_interface, probe_number_count, &told),
                 TEFF_EINVAL);
    cr_expect_eq(told.number, -1);
    cr_expect_eq(result, -1);
    cr_expect_eq(probe_get_claim(caller, get, &told), 0); /* it stayed */
    cr_expect_eq(told.number, 0);
    cr_expect_eq(probe_get_claim(caller, get, &told), TEFF_EINVAL); /* but only once */
    cr_expect_eq(teff_await_all(caller, &get, 1), TEFF_EINVAL);
    return 5;
}

Test(start, a_claim_by_another_method_or_interface_or_a_second_one_is_invalid)
{
    by_each(claim_wrongly, 5);
}

static int give_seven(teff_task *task, void *user)
{
    (void)task, (void)user;
    return 7;
}

static int claim_task_as_call(teff_caller *caller, void *user)
{
    int result = -1;
    teff_future future = { 0 };
    (void)user;
    cr_expect_eq(teff_silo_spawn(silo, 0, give_seven, NULL, caller, &future), 0);
    cr_expect_eq(probe_get_claim(caller, future, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_task_claim(caller, future, &result), 0);
    return result;
}

Test(start, a_tasks_future_is_not_a_calls)
{
    by_each(claim_task_as_call, 7);
}

static int claim_forged(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    const teff_future real = probe_get_start(caller, &probe, NULL);
    size_t index = 4711;
    (void)user;
    for (unsigned bit = 0; bit < 64; bit++) {
        const teff_future forged = { real.id ^ UINT64_C(1) << bit };
        int status;
        if (teff__future_is_status(forged.id, &status))
            continue;
        cr_expect_eq(probe_get_claim(caller, forged, NULL), TEFF_EINVAL, "bit %u", bit);
        cr_expect_eq(teff_await_all(caller, &forged, 1), TEFF_EINVAL);
        cr_expect_eq(teff_await_any(caller, &forged, 1, &index), TEFF_EINVAL);
    }
    const uint64_t ids[] = { 0, UINT64_MAX, UINT64_C(0xFFFFFFFFFF) << 24 };
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
        cr_expect_eq(probe_get_claim(caller, (teff_future){ ids[i] }, NULL), TEFF_EINVAL);
    cr_expect_eq(index, 4711);
    return probe_get_claim(caller, real, NULL) == 0 ? 5 : 6;
}

Test(start, forged_ids_and_none_name_no_future)
{
    by_each(claim_forged, 5);
}

static teff_future kept;

static int start_and_keep(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    kept = probe_get_start(caller, &probe, NULL);
    return 5;
}

static int claim_kept(teff_caller *caller, void *user)
{
    (void)user;
    return probe_get_claim(caller, kept, NULL);
}

static int keep_while_others_claim(teff_task *task, void *user)
{
    (void)user;
    cr_expect_eq(start_and_keep(task, NULL), 5);
    cr_expect_eq(teff_sleep(task, 10 * MS), 0);
    return claim_kept(task, NULL);
}

Test(start, another_caller_cannot_claim_it)
{
    teff_client *other = NULL;
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    spawn(0, keep_while_others_claim, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(claim_kept(client, NULL), TEFF_EINVAL);
    cr_assert_eq(in_task(0, claim_kept, NULL), TEFF_EINVAL);
    cr_assert_eq(in_turn(2, claim_kept), TEFF_EINVAL);
    cr_assert_eq(silo_counts().unclaimed, 0);
    cr_assert_eq(teff_silo_advance(silo, 10 * MS), 0);
    cr_assert_eq(silo_counts().unclaimed, 0); /* its own caller could */
    cr_assert_eq(start_and_keep(client, NULL), 5);
    cr_assert_eq(claim_kept(other, NULL), TEFF_EINVAL);
    cr_assert_eq(claim_kept(client, NULL), 0);
    cr_assert_null(teff_client_destroy(other));
}

Test(start, a_later_turn_of_the_same_grain_cannot_claim_it)
{
    cr_assert_eq(in_turn(2, start_and_keep), 5);
    cr_assert_eq(in_turn(2, claim_kept), TEFF_EINVAL);
    cr_assert_eq(silo_counts().unclaimed, 1);
}

/* --- What nobody claims -------------------------------------------------------------------- */

static int leave_three(teff_caller *caller, void *user)
{
    (void)user;
    (void)start_rest(caller, 10, 10 * MS);
    (void)start_rest(caller, 11, 20 * MS);
    const teff_future settled = start_rest(caller, 12, 0);
    cr_expect_eq(teff_await_all(caller, &settled, 1), 0);
    return 5;
}

Test(start, futures_that_a_turn_leaves_are_cancelled_and_their_late_answers_dropped)
{
    cr_assert_eq(in_turn(1, leave_three), 5);
    cr_assert_eq(silo_counts().unclaimed, 3);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(silo_counts().late, 0);
    cr_assert_eq(teff_silo_advance(silo, 20 * MS), 0);
    cr_assert_eq(seen.turns, 4); /* they ran all the same */
    cr_assert_eq(silo_counts().late, 2);
}

Test(start, futures_that_a_task_leaves_are_cancelled_and_their_late_answers_dropped)
{
    cr_assert_eq(in_task(0, leave_three, NULL), 5);
    cr_assert_eq(silo_counts().unclaimed, 3);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff_silo_advance(silo, 20 * MS), 0);
    cr_assert_eq(silo_counts().late, 2);
}

Test(start, futures_that_a_client_leaves_are_cancelled_and_their_late_answers_dropped)
{
    teff_client *other = NULL;
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    cr_assert_eq(leave_three(other, NULL), 5);
    cr_assert_eq(teff__silo_open_count(silo), 2);
    cr_assert_null(teff_client_destroy(other));
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff_silo_advance(silo, 20 * MS), 0);
    cr_assert_eq(silo_counts().late, 2);
}

static int leave_in_activate(teff_turn *turn, struct probe *self)
{
    (void)self;
    if (seen.activated == 1)
        (void)start_rest(turn, 10, 10 * MS);
    return 0;
}

Test(start, futures_that_a_hook_leaves_are_cancelled)
{
    activating = leave_in_activate;
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(silo_counts().unclaimed, 1);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

/* --- Where it cannot be made --------------------------------------------------------------- */

static int start_invalid(teff_caller *caller, void *user)
{
    const teff_call_options wrong = { .struct_size = 1 };
    probe_ref probe = probe_at(1), nowhere = probe_of(&(teff_name){ "nobody" }, teff_key_u64(1)),
              nameless = probe_of(NULL, teff_key_u64(1)), keyless = probe_at(1);
    (void)user;
    memset(&keyless.ref.key, 0xFF, sizeof(keyless.ref.key));
    const teff_future futures[] = {
        probe_get_start(caller, &nowhere, NULL),
        probe_get_start(caller, &nameless, NULL),
        probe_get_start(caller, &keyless, NULL),
        teff_call_start(caller, NULL, &probe_interface, probe_number_get, NULL),
        teff_call_start(caller, &probe.ref, NULL, 0, NULL),
        teff_call_start(caller, &probe.ref, &probe_interface, probe_number_count, NULL),
        probe_get_start(teff_with(caller, NULL), &probe, NULL),
        probe_get_start(teff_with(caller, &wrong), &probe, NULL),
        probe_get_start(teff_within(caller, 0), &probe, NULL),
        probe_get_start(teff_within(caller, -1), &probe, NULL),
    };
    enum { COUNT = sizeof(futures) / sizeof(*futures) };
    const int64_t before_ns = teff_now_ns(caller);
    cr_expect_eq(teff_outcome_last(caller)->code, TEFF_EINVAL);
    cr_expect_not(teff_outcome_last(caller)->may_have_run);
    cr_expect_eq(teff_await_all(caller, futures, COUNT), 0);
    cr_expect_eq(teff_now_ns(caller), before_ns);
    for (size_t i = 0; i < COUNT; i++) {
        struct told told = { .number = -1 };
        cr_expect_eq(probe_get_claim(caller, futures[i], &told), TEFF_EINVAL, "future %zu", i);
        cr_expect_eq(told.number, -1);
        cr_expect_eq(teff_outcome_last(caller)->code, TEFF_EINVAL);
        cr_expect_not(teff_outcome_last(caller)->may_have_run);
    }
    return probe_get(caller, &probe, NULL, NULL) == 0 ? 5 : 6;
}

Test(start, a_start_that_is_invalid_gives_a_settled_future_that_says_so)
{
    by_each(start_invalid, 5);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(silo_counts().unclaimed, 0);
}

Test(start, without_a_caller_the_future_is_invalid_and_nothing_crashes)
{
    probe_ref probe = probe_at(1);
    const teff_future future = probe_get_start(NULL, &probe, NULL);
    cr_assert_eq(probe_get_claim(client, future, NULL), TEFF_EINVAL);
    cr_assert_eq(probe_get_claim(NULL, future, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_await_all(NULL, &future, 1), TEFF_EINVAL);
}

/* Fails each allocation of a start in its turn, until one start needs no more of them. */
static int start_without_memory(teff_caller *caller, void *user)
{
    int failures = 0;
    (void)user;
    for (uint64_t n = 1; n < 100; n++) {
        probe_ref probe = probe_at(1000 + (uint64_t)seen.activated);
        teff__memory_fail_at(teff__silo_memory(silo), n);
        const teff_future future = probe_get_start(caller, &probe, NULL);
        const bool failed = teff__atomic_u64_load_relaxed(&teff__silo_memory(silo)->fail_at) == 0;
        teff__memory_fail_at(teff__silo_memory(silo), 0);
        const int r = probe_get_claim(caller, future, NULL);
        cr_expect(r == 0 || r == TEFF_ENOMEM, "%d", r);
        if (!failed)
            return r == 0 && failures > 0 ? 5 : 6;
        failures += r == TEFF_ENOMEM;
    }
    return 7;
}

Test(start, a_start_without_memory_gives_a_future_that_says_so)
{
    cr_assert_eq(start_without_memory(client, NULL), 5);
}

Test(start, a_tasks_start_without_memory_gives_a_future_that_says_so)
{
    cr_assert_eq(in_task(0, start_without_memory, NULL), 5);
}

static int start_and_claim(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    const teff_future future = probe_get_start(caller, &probe, NULL);
    cr_expect_eq(teff_await_all(caller, &future, 1), 0);
    return probe_get_claim(caller, future, NULL);
}

static void start_when_deactivated(teff_turn *turn, struct probe *self, int reason)
{
    (void)self, (void)reason;
    tell("%d", start_and_claim(turn, NULL));
    cr_expect_not(teff_outcome_last(turn)->may_have_run);
}

Test(start, when_the_silo_stops_a_start_gives_a_future_that_says_so)
{
    cr_assert_eq(number_of(2), 0);
    deactivating = start_when_deactivated;
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_str_eq(story, "-10010");
    cr_assert_eq(start_and_claim(client, NULL), TEFF_EUNAVAILABLE);
    cr_assert_not(teff_outcome_last(client)->may_have_run);
}
