/* SPDX-License-Identifier: MIT */
/* Waiting for several futures; their deadlines; and very many of them. */
#include "calls.h"

TestSuite(await, .init = begin, .fini = end);

/* --- All, and any -------------------------------------------------------------------------- */

static int give_seven(teff_task *task, void *user)
{
    (void)user;
    return teff_sleep(task, 15 * MS) == 0 ? 7 : 8;
}

/* Rests of 30, 10 and 0 ms, one that failed to start, a one-way one, and a task of 15 ms. */
static void start_six(teff_caller *caller, teff_future futures[6])
{
    probe_ref nowhere = probe_of(&(teff_name){ "nobody" }, teff_key_u64(1)), probe = probe_at(9);
    futures[0] = start_rest(caller, 10, 30 * MS);
    futures[1] = start_rest(caller, 11, 10 * MS);
    futures[2] = start_rest(caller, 12, 0);
    futures[3] = probe_rest_start(caller, &nowhere, NULL);
    futures[4] = probe_note_start(caller, &probe, NULL);
    cr_expect_eq(teff_silo_spawn(silo, 0, give_seven, NULL, caller, &futures[5]), 0);
}

static int claim_six(teff_caller *caller, const teff_future futures[6])
{
    int result = -1;
    for (int i = 0; i < 3; i++)
        cr_expect_eq(probe_rest_claim(caller, futures[i], NULL), 0);
    cr_expect_eq(probe_rest_claim(caller, futures[3], NULL), TEFF_EINVAL);
    cr_expect_eq(probe_note_claim(caller, futures[4], NULL), 0);
    cr_expect_eq(teff_task_claim(caller, futures[5], &result), 0);
    return result;
}

static int await_six(teff_caller *caller, void *user)
{
    teff_future futures[6];
    const int64_t before_ns = teff_now_ns(caller);
    (void)user;
    start_six(caller, futures);
    cr_expect_eq(teff_await_all(caller, futures, 6), 0);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 30 * MS);
    cr_expect_eq(teff_await_all(caller, futures, 6), 0); /* they stay */
    const int result = claim_six(caller, futures);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 30 * MS);
    return result;
}

Test(await, all_waits_for_the_last_of_calls_and_tasks_and_leaves_them_to_be_claimed)
{
    by_each(await_six, 7);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(silo_counts().unclaimed, 0);
}

/* Waits for any of the open ones, each time without those that were settled. */
static int await_in_order(teff_caller *caller, void *user)
{
    teff_future futures[6];
    size_t index = 4711;
    const int64_t before_ns = teff_now_ns(caller);
    (void)user;
    start_six(caller, futures);
    const teff_future open[3] = { futures[0], futures[1], futures[5] };
    cr_expect_eq(teff_await_any(caller, open, 3, &index), 0);
    cr_expect_eq(index, 1);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 10 * MS);
    cr_expect_eq(teff_await_any(caller, open, 3, &index), 0); /* it stays the first */
    cr_expect_eq(index, 1);
    const teff_future rest[2] = { futures[0], futures[5] };
    cr_expect_eq(teff_await_any(caller, rest, 2, &index), 0);
    cr_expect_eq(index, 1);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 15 * MS);
    cr_expect_eq(teff_await_any(caller, rest, 1, &index), 0);
    cr_expect_eq(index, 0);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 30 * MS);
    return claim_six(caller, futures);
}

Test(await, any_says_which_one_was_settled_first)
{
    by_each(await_in_order, 7);
}

static int await_any_of_settled(teff_caller *caller, void *user)
{
    teff_future futures[6];
    size_t index = 4711;
    const int64_t before_ns = teff_now_ns(caller);
    (void)user;
    start_six(caller, futures);
    cr_expect_eq(teff_await_any(caller, futures, 6, &index), 0);
    cr_expect_eq(index, 3); /* a status, settled at once */
    cr_expect_eq(teff_await_all(caller, futures, 6), 0);
    cr_expect_eq(teff_await_any(caller, futures, 6, &index), 0);
    cr_expect_eq(index, 0); /* the first where there are several */
    cr_expect_eq(teff_await_any(caller, futures + 1, 5, &index), 0);
    cr_expect_eq(index, 0);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 30 * MS);
    return claim_six(caller, futures);
}

Test(await, any_of_several_settled_ones_is_the_first_named)
{
    by_each(await_any_of_settled, 7);
}

static int await_none(teff_caller *caller, void *user)
{
    teff_future futures[2] = { { 0 }, { 0 } };
    size_t index = 4711;
    (void)user;
    cr_expect_eq(teff_await_all(caller, NULL, 0), 0);
    cr_expect_eq(teff_await_all(caller, NULL, 1), TEFF_EINVAL);
    cr_expect_eq(teff_await_any(caller, NULL, 0, &index), TEFF_EINVAL);
    cr_expect_eq(teff_await_any(caller, NULL, 1, &index), TEFF_EINVAL);
    cr_expect_eq(teff_await_any(caller, futures, 0, &index), TEFF_EINVAL);
    futures[0] = start_rest(caller, 10, 10 * MS);
    cr_expect_eq(teff_await_any(caller, futures, 1, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_await_all(caller, futures, 2), TEFF_EINVAL); /* {0} is none */
    cr_expect_eq(teff_await_any(caller, futures, 2, &index), TEFF_EINVAL);
    cr_expect_eq(index, 4711);
    return probe_rest_claim(caller, futures[0], NULL) == 0 ? 5 : 6;
}

Test(await, none_at_all_is_settled_for_all_and_invalid_for_any)
{
    by_each(await_none, 5);
}

static int await_twice_named(teff_caller *caller, void *user)
{
    size_t index = 4711;
    const int64_t before_ns = teff_now_ns(caller);
    (void)user;
    const teff_future a = start_rest(caller, 10, 10 * MS), b = start_rest(caller, 11, 20 * MS);
    const teff_future both[5] = { b, a, a, b, a };
    cr_expect_eq(teff_await_any(caller, both, 5, &index), 0);
    cr_expect_eq(index, 1);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 10 * MS);
    cr_expect_eq(teff_await_all(caller, both, 5), 0);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 20 * MS);
    cr_expect_eq(probe_rest_claim(caller, a, NULL), 0);
    cr_expect_eq(probe_rest_claim(caller, b, NULL), 0);
    return 5;
}

Test(await, a_future_may_be_named_twice)
{
    by_each(await_twice_named, 5);
}

/* One that was waited for before, and is open still, ends first. */
static int await_another(teff_caller *caller, void *user)
{
    size_t index = 4711;
    const int64_t before_ns = teff_now_ns(caller);
    (void)user;
    const teff_future both[2] = { start_rest(caller, 10, 10 * MS),
                                  start_rest(caller, 11, 20 * MS) };
    const teff_future another = start_rest(caller, 12, 30 * MS);
    cr_expect_eq(teff_await_any(caller, both, 2, &index), 0);
    cr_expect_eq(index, 0);
    cr_expect_eq(teff_await_any(caller, &another, 1, &index), 0);
    cr_expect_eq(index, 0);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 30 * MS);
    cr_expect_eq(probe_rest_claim(caller, both[0], NULL), 0);
    cr_expect_eq(probe_rest_claim(caller, both[1], NULL), 0);
    cr_expect_eq(probe_rest_claim(caller, another, NULL), 0);
    return 5;
}

Test(await, one_that_is_not_waited_for_any_more_wakes_nobody)
{
    by_each(await_another, 5);
}

/* Two end in the same moment, while the one that waits for any is woken. */
static int await_any_of_equals(teff_caller *caller, void *user)
{
    teff_future equals[3];
    size_t index = 4711;
    (void)user;
    for (int i = 0; i < 3; i++)
        equals[i] = start_rest(caller, 10 + (uint64_t)i, 10 * MS);
    cr_expect_eq(teff_await_any(caller, equals + 1, 2, &index), 0);
    cr_expect_eq(teff_await_all(caller, equals, 3), 0);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(probe_rest_claim(caller, equals[i], NULL), 0);
    return 5;
}

Test(await, others_may_end_in_the_moment_of_the_one_that_wakes)
{
    by_each(await_any_of_equals, 5);
}

/* --- Where it cannot wait ------------------------------------------------------------------ */

static void begin_two_suspended(void)
{
    begin_with((teff_silo_options){ .suspended_max = 2 });
}

TestSuite(await_with_two_stacks, .init = begin_two_suspended, .fini = end);

static int sleep_100_ms(teff_task *task, void *user)
{
    (void)user;
    return teff_sleep(task, 100 * MS);
}

static int claim_without_a_stack(teff_task *task, void *user)
{
    size_t index = 4711;
    struct told told = { .number = -1 };
    probe_ref probe = probe_at(10);
    (void)user;
    const teff_future future = probe_get_start(task, &probe, NULL);
    cr_expect_eq(probe_get_claim(task, future, &told), TEFF_ELIMIT);
    cr_expect_eq(teff_outcome_last(task)->code, TEFF_ELIMIT);
    cr_expect(teff_outcome_last(task)->may_have_run); /* it is under way */
    cr_expect_eq(teff_await_all(task, &future, 1), TEFF_ELIMIT);
    cr_expect_eq(teff_await_any(task, &future, 1, &index), TEFF_ELIMIT);
    cr_expect_eq(index, 4711);
    cr_expect_eq(told.number, -1);
    return 5;
}

Test(await_with_two_stacks, an_open_future_cannot_be_waited_for_without_a_stack_and_stays)
{
    spawn(0, sleep_100_ms, NULL);
    spawn(0, sleep_100_ms, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(in_task(0, claim_without_a_stack, NULL), 5);
    cr_assert_eq(silo_counts().unclaimed, 1);
    cr_assert_eq(teff_silo_advance(silo, 100 * MS), 0);
}

static int sleep_for_ever(teff_task *task, void *user)
{
    (void)user;
    return teff_sleep(task, INT64_MAX);
}

static int destroy_the_client(teff_task *task, void *user)
{
    (void)task, (void)user;
    return teff_client_destroy(client) == client;
}

Test(await, a_client_is_not_destroyed_beneath_what_it_waits_for)
{
    cr_assert_eq(in_task(0, destroy_the_client, NULL), 1);
}

Test(await, in_a_simulated_silo_time_comes_to_an_end)
{
    cr_assert_eq(teff_sleep(client, INT64_MAX), 0);
}

Test(await, what_nothing_can_end_is_a_deadlock_in_a_simulated_silo)
{
    int result;
    size_t index;
    teff_future future;
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_rest(teff_within(client, INT64_MAX), &probe,
                            &(struct ask){ .number = INT64_MAX }, NULL),
                 TEFF_EDEADLOCK);
    cr_assert_eq(teff_silo_spawn(silo, 0, sleep_for_ever, NULL, client, &future), 0);
    cr_assert_eq(teff_await_any(client, &future, 1, &index), TEFF_EDEADLOCK);
    cr_assert_eq(teff_task_claim(client, future, &result), TEFF_EDEADLOCK);
}

Test(await, a_number_that_is_no_status_is_no_future)
{
    const uint64_t made_up[] = { 1, 5, 10000, 10014, 12345, 0xfffffe, 0x1000000, UINT64_MAX };
    for (size_t i = 0; i < sizeof(made_up) / sizeof(made_up[0]); i++) {
        const teff_future future = { made_up[i] };
        cr_assert_eq(probe_rest_claim(client, future, NULL), TEFF_EINVAL);
        cr_assert_eq(teff_await_all(client, &future, 1), TEFF_EINVAL);
    }
}

static teff_future open_one, settled_one;

static void claim_inside(teff_caller *caller, void *user, const teff_outcome *outcome,
                         const struct told *ret)
{
    size_t index = 4711;
    const teff_future both[2] = { open_one, settled_one };
    (void)user, (void)outcome, (void)ret;
    cr_expect_eq(probe_rest_claim(caller, open_one, NULL), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_await_all(caller, both, 2), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_await_any(caller, both, 2, &index), 0);
    cr_expect_eq(index, 1);
    cr_expect_eq(probe_rest_claim(caller, settled_one, NULL), 0);
    const teff_future inside = start_rest(caller, 12, 0);
    cr_expect_eq(probe_rest_claim(caller, inside, NULL), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_run(silo), 0);
    cr_expect_eq(probe_rest_claim(caller, inside, NULL), 0); /* its answer lay there */
    tell("done");
}

Test(await, a_client_inside_a_completion_claims_what_is_settled_and_may_not_wait_for_the_rest)
{
    probe_ref probe = probe_at(1);
    open_one = start_rest(client, 10, 10 * MS);
    settled_one = start_rest(client, 11, 0);
    cr_assert_eq(probe_get_then(client, &probe, NULL, claim_inside, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_str_eq(story, "done");
    cr_assert_eq(probe_rest_claim(client, open_one, NULL), 0); /* it stayed */
}

/* --- Deadlines ----------------------------------------------------------------------------- */

static int outwait(teff_caller *caller, void *user)
{
    static const int64_t expected_ms[4] = { 20, 500, 30000, 10 };
    const teff_call_options twenty = { .struct_size = sizeof(twenty), .timeout_ns = 20 * MS };
    const struct ask hour = { .number = 3600 * SECOND };
    probe_ref probes[4];
    teff_future futures[4];
    const int64_t before_ns = teff_now_ns(caller);
    size_t index;
    (void)user;
    for (uint64_t i = 0; i < 4; i++)
        probes[i] = probe_at(5000 + (uint64_t)seen.activated + i);
    futures[0] = probe_rest_start(teff_with(caller, &twenty), &probes[0], &hour);
    futures[1] = probe_brief_start(caller, &probes[1], &hour);
    futures[2] = probe_rest_start(caller, &probes[2], &hour);
    futures[3] = probe_rest_start(teff_within(caller, 10 * MS), &probes[3], &hour);
    const size_t order[4] = { 3, 0, 1, 2 };
    teff_future left[4] = { futures[0], futures[1], futures[2], futures[3] };
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(teff_await_any(caller, left, 4 - (size_t)i, &index), 0);
        const int64_t late_ns = teff_now_ns(caller) - before_ns - expected_ms[order[i]] * MS;
        cr_expect(late_ns >= 0 && late_ns <= MS, "%zu is %d us late", order[i],
                  (int)(late_ns / 1000));
        cr_expect_eq(left[index].id, futures[order[i]].id);
        left[index] = left[3 - i];
        const int r = order[i] == 1 ? probe_brief_claim(caller, futures[1], NULL)
                                    : probe_rest_claim(caller, futures[order[i]], NULL);
        cr_expect_eq(r, TEFF_ETIMEDOUT);
        cr_expect(teff_outcome_last(caller)->may_have_run);
    }
    return 5;
}

Test(await, a_started_call_times_out_from_its_start_whether_somebody_waits_or_not)
{
    cr_assert_eq(outwait(client, NULL), 5);
    cr_assert_eq(in_task(0, outwait, NULL), 5);
}

/* A turn with 100 ms left starts calls that take longer: as they are, and detached. */
static int start_in_100_ms(teff_caller *caller, void *user)
{
    const teff_call_options detached = { .struct_size = sizeof(detached), .detached = true },
                            both = { .struct_size = sizeof(both),
                                     .detached = true,
                                     .timeout_ns = 300 * MS };
    const struct ask half = { .number = 500 * MS };
    const int64_t before_ns = teff_now_ns(caller);
    probe_ref probes[4] = { probe_at(20), probe_at(21), probe_at(22), probe_at(23) };
    const teff_future inherited = probe_rest_start(caller, &probes[0], &half),
                      longer = probe_rest_start(teff_within(caller, SECOND), &probes[1], &half),
                      bounded = probe_rest_start(teff_with(caller, &both), &probes[2], &half),
                      free_one = probe_rest_start(teff_with(caller, &detached), &probes[3], &half);
    (void)user;
    cr_expect_eq(probe_rest_claim(caller, inherited, NULL), TEFF_ETIMEDOUT);
    cr_expect_leq(teff_now_ns(caller) - before_ns, 101 * MS);
    cr_expect_eq(probe_rest_claim(caller, longer, NULL), TEFF_ETIMEDOUT);
    cr_expect_leq(teff_now_ns(caller) - before_ns, 101 * MS);
    cr_expect_eq(probe_rest_claim(caller, bounded, NULL), TEFF_ETIMEDOUT);
    const int64_t bounded_ns = teff_now_ns(caller) - before_ns;
    cr_expect(bounded_ns >= 300 * MS && bounded_ns <= 301 * MS);
    cr_expect_eq(probe_rest_claim(caller, free_one, NULL), 0);
    cr_expect_eq(teff_now_ns(caller) - before_ns, 500 * MS);
    tell("claimed");
    return 5;
}

Test(await, a_started_call_ends_with_its_turns_deadline_unless_it_is_detached)
{
    probe_ref probe = probe_at(1);
    acting = act_body;
    bodies[0] = start_in_100_ms;
    cr_assert_eq(probe_act(teff_within(client, 100 * MS), &probe, NULL, NULL), TEFF_ETIMEDOUT);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "claimed");
}

/* --- Very many ----------------------------------------------------------------------------- */

enum { MANY = 100000 };

static void begin_wide(void)
{
    begin_with((teff_silo_options){ .mailbox_max = 200000 });
}

TestSuite(await_many, .init = begin_wide, .fini = end);

static teff_future many[TEFF__CALLBACKS_MAX + 1];

static int claim_many(teff_caller *caller, void *user)
{
    struct told told;
    size_t index = 4711;
    probe_ref probe = probe_at(1);
    int right = 0;
    (void)user;
    for (int i = 0; i < MANY; i++)
        many[i] = probe_get_start(caller, &probe, NULL);
    cr_expect_eq(teff__silo_open_count(silo) - (caller == client ? 0 : 1), MANY);
    cr_expect_eq(teff_await_any(caller, many, MANY, &index), 0);
    cr_expect_eq(index, 0);
    cr_expect_eq(teff_await_all(caller, many, MANY), 0);
    for (int i = 0; i < MANY; i++)
        right += probe_get_claim(caller, many[(i * 7) % MANY], &told) == 0;
    return right;
}

Test(await_many, a_client_claims_100000_futures)
{
    cr_assert_eq(claim_many(client, NULL), MANY);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

Test(await_many, a_turn_claims_100000_futures)
{
    cr_assert_eq(in_turn(2, claim_many), MANY);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(silo_counts().unclaimed, 0);
}

static int leave_many(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    for (int i = 0; i < MANY; i++)
        (void)probe_get_start(caller, &probe, NULL);
    return 5;
}

Test(await_many, a_turn_leaves_100000_futures)
{
    cr_assert_eq(in_turn(2, leave_many), 5);
    cr_assert_eq(silo_counts().unclaimed, MANY);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(silo_counts().late, MANY);
}

Test(await_many, a_client_has_131072_open_and_the_next_is_refused_until_one_is_claimed)
{
    probe_ref probe = probe_at(1);
    for (int i = 0; i <= TEFF__CALLBACKS_MAX; i++)
        many[i] = probe_get_start(client, &probe, NULL);
    cr_assert_eq(teff_outcome_last(client)->code, TEFF_EOVERLOADED);
    cr_assert_eq(probe_get_claim(client, many[TEFF__CALLBACKS_MAX], NULL), TEFF_EOVERLOADED);
    cr_assert_not(teff_outcome_last(client)->may_have_run);
    cr_assert_eq(teff__silo_open_count(silo), 131072);
    cr_assert_eq(probe_get_claim(client, many[131071], NULL), 0);
    cr_assert_eq(probe_get_claim(client, probe_get_start(client, &probe, NULL), NULL), 0);
    for (int i = 0; i < 131071; i++)
        cr_assert_eq(probe_get_claim(client, many[i], NULL), 0);
    cr_assert_eq(seen.turns, 131073);
}

static int completed;

static void count_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct told *ret)
{
    (void)caller, (void)user;
    completed += outcome->code == 0 && ret != NULL;
}

Test(await_many, a_client_has_131072_completions_and_the_next_is_refused_as_overload)
{
    probe_ref probe = probe_at(1);
    for (int i = 0; i < 131072; i++)
        cr_assert_eq(probe_get_then(client, &probe, NULL, count_done, NULL), 0);
    cr_assert_eq(probe_get_then(client, &probe, NULL, count_done, NULL), TEFF_EOVERLOADED);
    cr_assert_not(teff_outcome_last(client)->may_have_run);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_eq(completed, 131072);
    cr_assert_eq(probe_get_then(client, &probe, NULL, count_done, NULL), 0);
}
