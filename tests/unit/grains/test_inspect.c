/* SPDX-License-Identifier: MIT */
/*
 * Counting open calls: all of them, and those that a filter lets through.
 */
#include "calls.h"

TestSuite(inspect, .init = begin_four_workers, .fini = end);

/* What a filter counts; 4711: it failed, with `failed`. */
static int failed;
static uint64_t count_of_filter(teff_call_filter filter)
{
    uint64_t count = 4711;
    filter.struct_size = sizeof(filter);
    failed = teff_silo_count_open(silo, &filter, &count);
    return count;
}

static uint64_t count_all(void)
{
    uint64_t count = 4711;
    cr_assert_eq(teff_silo_count_open(silo, NULL, &count), 0);
    return count;
}

/* Where the grain lives. */
static uint32_t worker_of(uint64_t key)
{
    struct told told = { 0 };
    probe_ref probe = probe_at(key);
    cr_assert_eq(probe_get(client, &probe, NULL, &told), 0);
    return teff__address_worker(told.route);
}

/* Calls probes 1, 2 and 2, which sleep for ten seconds, and waits for them. */
static int call_three(teff_task *task, void *user)
{
    (void)user;
    const teff_future futures[] = { start_rest(task, 1, 10 * SECOND),
                                    start_rest(task, 2, 5 * SECOND),
                                    start_rest(task, 2, 5 * SECOND) };
    return teff_await_all(task, futures, 3);
}

Test(inspect, nothing_is_open_in_a_silo_at_rest)
{
    cr_assert_eq(count_all(), 0);
    cr_assert_eq(count_of_filter((teff_call_filter){ 0 }), 0);
}

Test(inspect, calls_are_counted_by_grain)
{
    const probe_ref one = probe_at(1), two = probe_at(2), three = probe_at(3);
    (void)number_of(3);
    spawn(2, call_three, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    const teff_future own = start_rest(client, 1, 10 * SECOND);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(count_all(), 4);
    cr_assert_eq(count_of_filter((teff_call_filter){ 0 }), 4);
    cr_assert_eq(count_of_filter((teff_call_filter){ .grain = &one.ref }), 2);
    cr_assert_eq(count_of_filter((teff_call_filter){ .grain = &two.ref }), 2);
    cr_assert_eq(count_of_filter((teff_call_filter){ .grain = &three.ref }), 0);
    cr_assert_eq(teff_await_all(client, &own, 1), 0);
    cr_assert_eq(count_all(), 0);
    cr_assert_eq(count_of_filter((teff_call_filter){ .grain = &one.ref }), 0);
}

Test(inspect, calls_are_counted_by_age)
{
    spawn(2, call_three, NULL);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    const teff_future own = start_rest(client, 1, SECOND);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(count_of_filter((teff_call_filter){ .older_ns = 1 }), 4);
    cr_assert_eq(count_of_filter((teff_call_filter){ .older_ns = SECOND }), 4);
    cr_assert_eq(count_of_filter((teff_call_filter){ .older_ns = SECOND + 1 }), 3);
    cr_assert_eq(count_of_filter((teff_call_filter){ .older_ns = 2 * SECOND }), 3);
    cr_assert_eq(count_of_filter((teff_call_filter){ .older_ns = 2 * SECOND + 1 }), 0);
    cr_assert_eq(count_of_filter((teff_call_filter){ .older_ns = INT64_MAX }), 0);
    cr_assert_eq(teff_await_all(client, &own, 1), 0);
}

Test(inspect, calls_are_counted_by_the_worker_that_their_grain_lives_on)
{
    const uint32_t first = worker_of(1), second = worker_of(2);
    cr_assert_neq(first, second, "the test needs two grains apart");
    spawn(2, call_three, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t count =
            count_of_filter((teff_call_filter){ .target = TEFF_TARGET_WORKER, .worker = i });
        cr_assert_eq(count, i == first ? 1 : i == second ? 2 : 0, "worker %u", i);
    }
    cr_assert_eq(count_of_filter((teff_call_filter){ .target = TEFF_TARGET_OBSERVER }), 0);
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
}

static int watch(teff_caller *caller, void *user)
{
    return teff_call(caller, user, &probe_interface, probe_number_get, NULL, NULL);
}

Test(inspect, calls_to_observers_are_counted)
{
    teff_ref observer;
    struct probe self = { 0 };
    cr_assert_eq(teff_observer_begin(client, &probe_handlers, &self, &observer), 0);
    spawn(1, watch, &observer);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(count_of_filter((teff_call_filter){ .target = TEFF_TARGET_OBSERVER }), 1);
    cr_assert_eq(count_of_filter((teff_call_filter){ .grain = &observer }), 1);
    cr_assert_eq(count_of_filter((teff_call_filter){ .target = TEFF_TARGET_WORKER }), 0);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(count_of_filter((teff_call_filter){ .target = TEFF_TARGET_OBSERVER }), 0);
    cr_assert_eq(teff_observer_end(client, &observer), 0);
}

static teff_open_call shown[8];
static int shown_count;

static bool of_worker_two(void *user, const teff_open_call *call)
{
    cr_expect_eq(user, &shown);
    shown[shown_count++] = *call;
    return call->worker == 2;
}

static bool always(void *user, const teff_open_call *call)
{
    (void)user, (void)call;
    return true;
}

Test(inspect, a_function_sees_what_meets_the_other_conditions)
{
    const probe_ref one = probe_at(1);
    spawn(2, call_three, NULL);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    const teff_future own = start_rest(client, 1, SECOND);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(count_of_filter((teff_call_filter){
                     .grain = &one.ref, .matches = of_worker_two, .user = &shown }),
                 1);
    cr_assert_eq(shown_count, 2);
    cr_assert_eq(shown[0].worker, 2);
    cr_assert_eq(shown[0].age_ns, 2 * SECOND);
    cr_assert_eq(shown[0].left_ns, 28 * SECOND);
    cr_assert_eq(shown[1].worker, -1);
    cr_assert_eq(shown[1].age_ns, SECOND);
    cr_assert_eq(shown[1].left_ns, 29 * SECOND);
    cr_assert_eq(shown[1].id, own.id);
    cr_assert_eq(count_of_filter((teff_call_filter){ .older_ns = 2 * SECOND, .matches = always }),
                 3);
    cr_assert_eq(teff_await_all(client, &own, 1), 0);
}

static int sleep_long(teff_task *task, void *user)
{
    (void)user;
    return teff_sleep(task, SECOND);
}

Test(inspect, a_tasks_future_has_no_deadline_and_no_grain)
{
    int result = 4711;
    teff_future future;
    cr_assert_eq(teff_silo_spawn(silo, 0, sleep_long, NULL, client, &future), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(count_of_filter((teff_call_filter){ .matches = of_worker_two, .user = &shown }),
                 0);
    cr_assert_eq(shown_count, 1);
    cr_assert_eq(shown[0].left_ns, INT64_MAX);
    cr_assert_eq(count_of_filter((teff_call_filter){ .target = TEFF_TARGET_WORKER }), 0);
    cr_assert_eq(teff_task_claim(client, future, &result), 0);
}

Test(inspect, counting_allocates_nothing)
{
    const probe_ref one = probe_at(1);
    spawn(2, call_three, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    const uint64_t before = bytes_allocated();
    teff__memory_fail_at(teff__silo_memory(silo), 1);
    cr_assert_eq(count_all(), 3);
    cr_assert_eq(count_of_filter((teff_call_filter){ .grain = &one.ref, .matches = always }), 1);
    teff__memory_fail_at(teff__silo_memory(silo), 0);
    cr_assert_eq(bytes_allocated(), before);
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
}

/* --- Misuse ---------------------------------------------------------------------------------- */

Test(inspect, a_filter_that_is_wrong)
{
    uint64_t count = 4711;
    const teff_call_filter unsized = { 0 };
    const teff_ref nowhere = { 0 }, bad_key = { .type = &probe_grain.name };
    cr_assert_eq(teff_silo_count_open(NULL, NULL, &count), TEFF_EINVAL);
    cr_assert_eq(teff_silo_count_open(silo, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_count_open(silo, &unsized, &count), TEFF_EINVAL);
    const teff_call_filter wrong[] = {
        { .older_ns = -1 },           { .timeout_ns = -1 },
        { .target = (teff_target)3 }, { .target = TEFF_TARGET_WORKER, .worker = 4 },
        { .grain = &nowhere },        { .grain = &bad_key },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        cr_assert_eq(count_of_filter(wrong[i]), 4711, "%zu", i);
        cr_assert_eq(failed, TEFF_EINVAL, "%zu", i);
    }
    cr_assert_eq(count, 4711);
}

static int count_inside(teff_caller *caller, void *user)
{
    (void)caller, (void)user;
    uint64_t count = 4711;
    const teff_call_filter any = { .struct_size = sizeof(any) };
    cr_expect_eq(teff_silo_count_open(silo, &any, &count), TEFF_EWOULDBLOCK);
    cr_expect_eq(count, 4711);
    cr_expect_eq(teff_silo_count_open(silo, NULL, &count), 0);
    cr_expect_neq(count, 4711);
    return 7;
}

Test(inspect, inside_the_silo_only_all_are_counted)
{
    cr_assert_eq(in_turn(1, count_inside), 7);
    cr_assert_eq(in_task(0, count_inside, NULL), 7);
}

static int completions;
static void count_in_completion(teff_caller *caller, void *user, const teff_outcome *outcome,
                                const struct told *ret)
{
    (void)outcome, (void)ret;
    completions++;
    (void)count_inside(caller, user);
}

Test(inspect, nor_is_it_counted_in_a_completion)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_get_then(client, &probe, NULL, count_in_completion, NULL), 0);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    cr_assert_eq(completions, 1);
}

Test(inspect, before_start_and_after_stop)
{
    teff_silo *other;
    uint64_t count = 4711;
    teff_silo_options options = { .struct_size = sizeof(options), .simulated = true };
    const teff_call_filter any = { .struct_size = sizeof(any) };
    cr_assert_eq(teff_silo_create(&options, &other), 0);
    cr_assert_eq(teff_silo_count_open(other, &any, &count), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_count_open(other, NULL, &count), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_start(other), 0);
    cr_assert_eq(teff_silo_stop(other), 0);
    cr_assert_eq(teff_silo_count_open(other, &any, &count), 0);
    cr_assert_eq(count, 0);
    cr_assert_null(teff_silo_destroy(other));
}
