/* SPDX-License-Identifier: MIT */
/* Tasks: where they run, who may claim what they return; and sleeping. */
#include "fixture.h"

static int give_number(void *user, uint32_t worker, void **ret_context)
{
    (void)user;
    *ret_context = (void *)(uintptr_t)(worker + 100);
    return 0;
}

static void begin_numbered(void)
{
    begin_with((teff_silo_options){ .workers = 4, .worker_start = give_number });
}

TestSuite(task, .init = begin_numbered, .fini = end);

static int which_worker(teff_task *task, void *user)
{
    (void)user;
    return (int)(intptr_t)teff_turn_worker_context(task);
}

static int give(teff_task *task, void *user)
{
    (void)task;
    tell("%d ", (int)(intptr_t)user);
    return (int)(intptr_t)user;
}

static int give_later(teff_task *task, void *user)
{
    const int r = teff_sleep(task, (intptr_t)user * MS);
    tell("%d%s ", (int)(intptr_t)user, r == 0 ? "" : r == TEFF_EUNAVAILABLE ? "!" : "?");
    return (int)(intptr_t)user;
}

static teff_future start(teff_caller *caller, int worker, int (*run)(teff_task *, void *), int user)
{
    teff_future future = { 0 };
    cr_expect_eq(teff_silo_spawn(silo, worker, run, (void *)(intptr_t)user, caller, &future), 0);
    cr_expect_neq(future.id, 0);
    return future;
}

static int claim(teff_caller *caller, teff_future future)
{
    int result = 4711;
    const int r = teff_task_claim(caller, future, &result);
    if (r != 0)
        cr_expect_eq(result, 4711);
    return r != 0 ? r : result;
}

Test(task, it_runs_on_the_worker_that_was_named)
{
    for (int worker = 0; worker < 4; worker++)
        cr_assert_eq(in_task(worker, which_worker, NULL), 100 + worker);
}

Test(task, where_none_is_named_the_workers_take_turns)
{
    for (int i = 0; i < 8; i++)
        cr_assert_eq(in_task(TEFF_WORKER_ANY, which_worker, NULL), 100 + i % 4);
}

Test(task, it_does_not_begin_before_spawn_returns)
{
    spawn(0, give, (void *)1);
    cr_assert_str_eq(story, "");
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "1 ");
}

/* Starts three on different workers and claims them in another order. */
static int claim_three(teff_caller *caller, void *user)
{
    (void)user;
    const teff_future a = start(caller, 0, give_later, 30), b = start(caller, 1, give_later, 10),
                      c = start(caller, 2, give, 5);
    cr_expect_eq(claim(caller, b), 10);
    cr_expect_eq(claim(caller, a), 30);
    cr_expect_eq(claim(caller, c), 5);
    cr_expect_eq(claim(caller, a), TEFF_EINVAL);
    cr_expect_eq(claim(caller, c), TEFF_EINVAL);
    return 77;
}

Test(task, a_client_claims_what_tasks_return_in_any_order_and_once)
{
    cr_assert_eq(claim_three(client, NULL), 77);
    cr_assert_str_eq(story, "5 10 30 ");
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

Test(task, a_task_claims_what_tasks_return_in_any_order_and_once)
{
    cr_assert_eq(in_task(3, claim_three, NULL), 77);
    cr_assert_eq(in_task(0, claim_three, NULL), 77); /* one of the three on its own worker */
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

static int claim_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                         struct told *ret)
{
    (void)self, (void)arg;
    ret->number = claim_three(turn, NULL);
    return 0;
}

Test(task, a_turn_claims_what_tasks_return_in_any_order_and_once)
{
    struct told told;
    probe_ref probe = probe_at(1);
    acting = claim_in_turn;
    cr_assert_eq(probe_act(client, &probe, NULL, &told), 0);
    cr_assert_eq(told.number, 77);
}

static int claim_of_another(teff_task *task, void *user)
{
    int result = 0;
    return teff_task_claim(task, *(const teff_future *)user, &result);
}

Test(task, only_the_caller_that_started_it_can_claim_it)
{
    teff_client *other = NULL;
    teff_future future = start(client, 0, give, 5);
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    cr_assert_eq(claim(other, future), TEFF_EINVAL);
    cr_assert_eq(in_task(0, claim_of_another, &future), TEFF_EINVAL);
    cr_assert_eq(claim(client, future), 5);
    cr_assert_null(teff_client_destroy(other));
}

Test(task, what_is_no_future_cannot_be_claimed)
{
    int result = 0;
    const teff_future future = start(client, 0, give, 5);
    cr_assert_eq(claim(client, (teff_future){ 0 }), TEFF_EINVAL);
    cr_assert_eq(claim(client, (teff_future){ UINT64_MAX }), TEFF_EINVAL);
    cr_assert_eq(claim(client, (teff_future){ future.id + (1 << 24) }), TEFF_EINVAL);
    cr_assert_eq(teff_task_claim(NULL, future, &result), TEFF_EINVAL);
    cr_assert_eq(teff_task_claim(client, future, NULL), TEFF_EINVAL);
    cr_assert_eq(claim(client, future), 5);
}

static int spawn_and_end(teff_caller *caller, void *user)
{
    (void)user;
    (void)start(caller, 0, give_later, 10);
    (void)start(caller, 1, give, 1);
    return teff_sleep(caller, MS);
}

Test(task, it_runs_to_its_end_also_when_its_caller_has_gone)
{
    teff_client *other = NULL;
    cr_assert_eq(in_task(0, spawn_and_end, NULL), 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "1 10 ");
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    cr_assert_eq(spawn_and_end(other, NULL), 0);
    cr_assert_null(teff_client_destroy(other));
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "1 10 1 10 ");
}

static int spawn_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                         struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    return spawn_and_end(turn, NULL);
}

Test(task, a_turn_that_ends_leaves_no_future_open)
{
    probe_ref probe = probe_at(1);
    acting = spawn_in_turn;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "1 10 ");
}

Test(task, a_wrong_argument_starts_none)
{
    teff_future future = { 4711 };
    cr_assert_eq(teff_silo_spawn(NULL, 0, give, NULL, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_spawn(silo, 0, NULL, NULL, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_spawn(silo, 4, give, NULL, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_spawn(silo, -2, give, NULL, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_spawn(silo, 0, give, NULL, client, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_spawn(silo, 0, give, NULL, NULL, &future), TEFF_EINVAL);
    cr_assert_eq(future.id, 4711);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "");
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

static int spawn_in_another_silo(teff_task *task, void *user)
{
    teff_future future;
    return teff_silo_spawn(user, 0, give, NULL, task, &future);
}

Test(task, a_caller_of_another_silo_cannot_wait_for_it)
{
    teff_future future;
    const teff_silo_options options = { .struct_size = sizeof(options), .simulated = true };
    teff_silo *other = NULL;
    cr_assert_eq(teff_silo_create(&options, &other), 0);
    cr_assert_eq(teff_silo_start(other), 0);
    cr_assert_eq(teff_silo_spawn(other, 0, give, NULL, client, &future), TEFF_EINVAL);
    cr_assert_eq(in_task(0, spawn_in_another_silo, other), TEFF_EINVAL);
    cr_assert_null(teff_silo_destroy(other));
}

Test(task, without_memory_there_is_none_and_no_future)
{
    teff_future future = { 4711 };
    const uint64_t bytes = bytes_allocated();
    for (uint64_t n = 1; n <= 3; n++) { /* the task; the client's slots and deadlines */
        teff__memory_fail_at(teff__silo_memory(silo), n);
        cr_assert_eq(teff_silo_spawn(silo, 0, give, NULL, client, &future), TEFF_ENOMEM);
        cr_assert_eq(bytes_allocated(), bytes);
    }
    cr_assert_eq(future.id, 4711);
    cr_assert_eq(claim(client, start(client, 0, give, 5)), 5);
}

/* --- Sleeping ------------------------------------------------------------------------------ */

static int sleep_in_order(teff_task *task, void *user)
{
    static const int milliseconds[] = { 30, 10, 20, 10, 30, 1 };
    const int i = (int)(intptr_t)user;
    cr_expect_eq(teff_sleep(task, milliseconds[i] * MS), 0);
    tell("%d:%d ", i, milliseconds[i]);
    return 0;
}

Test(task, sleepers_wake_in_the_order_of_their_times_and_at_equal_ones_in_that_of_their_sleep)
{
    for (int i = 0; i < 6; i++)
        spawn(0, sleep_in_order, (void *)(intptr_t)i);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "");
    cr_assert_eq(teff_silo_advance(silo, 20 * MS), 0);
    cr_assert_str_eq(story, "5:1 1:10 3:10 2:20 ");
    cr_assert_eq(teff_silo_advance(silo, 10 * MS), 0);
    cr_assert_str_eq(story, "5:1 1:10 3:10 2:20 0:30 4:30 ");
}

static int sleep_exactly(teff_caller *caller, void *user)
{
    static const int64_t durations_ns[] = { 1, 999, MS, 3 * SECOND, 1000000 * SECOND };
    (void)user;
    for (int i = 0; i < 5; i++) {
        const int64_t before_ns = teff__silo_now_ns(silo);
        cr_expect_eq(teff_sleep(caller, durations_ns[i]), 0);
        cr_expect_eq(teff__silo_now_ns(silo) - before_ns, durations_ns[i]);
    }
    cr_expect_eq(teff_sleep(caller, -1), TEFF_EINVAL);
    return 0;
}

Test(task, sleep_takes_as_long_as_was_asked)
{
    cr_assert_eq(in_task(0, sleep_exactly, NULL), 0);
    cr_assert_eq(sleep_exactly(client, NULL), 0);
    cr_assert_eq(teff_sleep(NULL, 1), TEFF_EINVAL);
}

static int take_turns(teff_task *task, void *user)
{
    for (int i = 0; i < 3; i++) {
        tell("%s", (const char *)user);
        cr_expect_eq(teff_sleep(task, 0), 0);
    }
    return 0;
}

Test(task, a_sleep_of_0_lets_others_run_and_takes_no_time)
{
    const int64_t before_ns = teff__silo_now_ns(silo);
    spawn(0, take_turns, (void *)(uintptr_t) "a");
    spawn(0, take_turns, (void *)(uintptr_t) "b");
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "ababab");
    cr_assert_eq(teff__silo_now_ns(silo), before_ns);
}

static int sleep_on(teff_task *task, void *user)
{
    (void)user;
    cr_expect_eq(teff_sleep(task, 1000 * SECOND), TEFF_EUNAVAILABLE);
    cr_expect_eq(teff_sleep(task, 1000 * SECOND), TEFF_EUNAVAILABLE);
    cr_expect_eq(teff_sleep(task, 0), TEFF_EUNAVAILABLE);
    tell("ended ");
    return 0;
}

Test(task, stop_ends_a_tasks_sleep_at_once)
{
    const int64_t before_ns = teff__silo_now_ns(silo);
    spawn(0, sleep_on, NULL);
    spawn(3, sleep_on, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_str_eq(story, "ended ended ");
    cr_assert_eq(teff__silo_now_ns(silo), before_ns);
}

static void stopped(void *user, int result)
{
    tell("%s:%d ", (const char *)user, result);
}

static int stop_later(teff_task *task, void *user)
{
    (void)user;
    cr_expect_eq(teff_sleep(task, 10 * MS), 0);
    return teff_silo_stop_then(silo, stopped, (void *)(uintptr_t) "stopped");
}

Test(task, stop_ends_a_clients_sleep)
{
    const int64_t before_ns = teff__silo_now_ns(silo);
    spawn(0, stop_later, NULL);
    cr_assert_eq(teff_sleep(client, 1000 * SECOND), TEFF_EUNAVAILABLE);
    cr_assert_eq(teff__silo_now_ns(silo) - before_ns, 10 * MS);
    cr_assert_eq(teff_sleep(client, 0), TEFF_EUNAVAILABLE);
}

static int call_for_ever(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    return probe_rest(teff_within(task, INT64_MAX), &probe,
                      &(struct ask){ .number = INT64_C(1) << 60 }, NULL);
}

static int claim_for_ever(teff_task *task, void *user)
{
    (void)user;
    const teff_future future = start(task, 1, call_for_ever, 0);
    tell("%d ", claim(task, future) == TEFF_EUNAVAILABLE);
    return 0;
}

Test(task, stop_ends_a_claim_that_nothing_else_would)
{
    spawn(0, claim_for_ever, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_str_eq(story, "1 ");
}

/* --- How many may wait --------------------------------------------------------------------- */

static void begin_two(void)
{
    begin_with((teff_silo_options){ .suspended_max = 2 });
}

TestSuite(two_suspended, .init = begin_two, .fini = end);

static int try_to_wait(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(teff_sleep(task, 1), TEFF_ELIMIT);
    cr_expect_eq(probe_get(task, &probe, NULL, NULL), TEFF_ELIMIT);
    cr_expect_eq(claim(task, start(task, 0, give, 5)), TEFF_ELIMIT);
    cr_expect_eq(probe_get_send(task, &probe, NULL), 0); /* what does not wait goes on */
    tell("tried ");
    return 0;
}

Test(two_suspended, as_many_wait_as_may_and_the_next_is_told)
{
    spawn(0, give_later, (void *)10);
    spawn(0, give_later, (void *)11);
    spawn(0, try_to_wait, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "tried 5 10 11 ");
    cr_assert_eq(in_task(0, give_later, (void *)12), 12);
}
