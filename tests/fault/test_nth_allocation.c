/* SPDX-License-Identifier: MIT */
/*
 * A silo's whole life, again and again, with its n-th allocation failing, for n = 1, 2, 3 … until
 * one life needs fewer. Each time: every call ends once, with success or an honest error; and the
 * silo stops, and leaves nothing behind.
 */
#include "tests/unit/grains/fixture.h"

enum { CALLS = 100, TASKS = 4, LIVES_MAX = 100000 };

/* The codes that a lack of memory may have. */
static bool honest(int r)
{
    return r == 0 || r == TEFF_ENOMEM;
}

static int calls_ended, tasks_ended, failed, long_calls;

static void on_long(void *user, const teff_long_call *call)
{
    (void)user, (void)call;
    long_calls++;
}

static void ended(int r)
{
    calls_ended++;
    failed += r != 0;
    cr_expect(honest(r), "%d", r);
}

/* Rests, calls another probe, or asks for memory, by turns. */
static int do_something(teff_turn *turn, struct probe *self, const struct ask *arg,
                        struct told *ret)
{
    probe_ref next = probe_at((uint64_t)arg->number * 7 + 1000);
    self->number++;
    switch (arg->number % 5) {
    case 0:
        return teff_sleep(turn, MS);
    case 1:
        return teff_turn_pass(turn, probe_rest(turn, &next, &(struct ask){ .number = 1 }, ret));
    case 2:
        return teff_turn_alloc(turn, 5000) != NULL ? 0 : TEFF_ENOMEM;
    case 3:
        return teff_turn_deactivate(turn);
    default:
        return 0;
    }
}

static int call_some(teff_task *task, void *user)
{
    const int first = (int)(intptr_t)user;
    for (int i = first; i < CALLS; i += TASKS) {
        struct told told = { .route = 4711 };
        probe_ref probe = probe_at((uint64_t)(i % 30));
        const int r = probe_act(task, &probe, &(struct ask){ .number = i }, &told);
        if (r != 0)
            cr_expect_eq(told.route, 4711);
        ended(r);
        cr_expect(honest(probe_note_send(task, &probe, NULL)));
    }
    tasks_ended++;
    return first;
}

static void live_on_clients(void)
{
    teff_future futures[TASKS];
    int started = 0;
    teff_client *own = NULL;
    const int r = teff_client_create(silo, NULL, &own);
    cr_expect(honest(r));
    if (r != 0)
        return;
    for (int i = 0; i < TASKS; i++) {
        const int s =
            teff_silo_spawn(silo, i % 2, call_some, (void *)(intptr_t)i, own, &futures[i]);
        cr_expect(honest(s));
        if (s != 0)
            futures[i].id = 0;
        started += s == 0;
    }
    for (int i = 0; i < TASKS - 1; i++) { /* the last one is left to the client's end */
        int result = 4711;
        if (futures[i].id == 0)
            continue;
        cr_expect_eq(teff_task_claim(own, futures[i], &result), 0);
        cr_expect_eq(result, i);
    }
    for (uint64_t key = 0; key < 5; key++) {
        probe_ref probe = probe_at(key);
        ended(probe_leave(own, &probe, NULL, NULL));
        ended(probe_get(own, &probe, NULL, NULL));
    }
    (void)teff_silo_spawn(silo, 1, call_some, (void *)1, NULL, NULL);
    cr_expect_eq(teff_silo_run(silo), 0);
    cr_expect_eq(teff_silo_advance(silo, SECOND), 0);
    cr_expect_geq(tasks_ended, started);
    cr_expect_null(teff_client_destroy(own));
    cr_expect_eq(teff__silo_open_count(silo), 0);
}

static void on_stopped(void *user, int result)
{
    cr_expect_eq(result, 0);
    ++*(int *)user;
}

/* One life. True: it was hit by the failure. */
static bool live(uint64_t n)
{
    int told = 0, asked;
    const teff_silo_options options = {
        .struct_size = sizeof(options),
        .workers = 2,
        .simulated = true,
        .seed = 1,
        .long_call_ns = 1, /* all that wait for a turn that rests take long */
        .long_call = on_long,
    };
    calls_ended = tasks_ended = failed = long_calls = 0;
    cr_assert_eq(teff_silo_create(&options, &silo), 0);
    teff__memory *memory = teff__silo_memory(silo);
    teff__memory_fail_at(memory, n);

    const int registered = teff_silo_register(silo, &probe_grain, NULL);
    const int started = teff_silo_start(silo);
    cr_expect(honest(registered));
    cr_expect(honest(started));
    if (registered == 0 && started == 0) {
        live_on_clients();
        cr_expect_leq(failed,
                      2); /* one failure spoils one call, or one and the one that waits for it */
    }
    if (started == 0) {
        asked = teff_silo_stop_then(silo, on_stopped, &told);
        cr_expect(honest(asked));
        cr_expect_eq(teff_silo_stop(silo), 0);
        cr_expect_eq(told, asked == 0 ? 1 : 0);
        cr_expect_eq(teff__silo_grain_count(silo), 0);
    }
    const bool hit = teff__atomic_u64_load_relaxed(&memory->fail_at) == 0;
    teff__memory_fail_at(memory, 0);
    cr_assert_null(teff_silo_destroy(silo)); /* in debug builds it asserts that no byte is left */
    return hit;
}

Test(nth_allocation, whichever_fails_the_silo_lives_on_and_leaves_nothing)
{
    uint64_t n = 1;
    acting = do_something;
    while (live(n)) {
        n++;
        cr_assert_lt(n, LIVES_MAX);
    }
    cr_assert_gt(n, 100); /* so many there are at least, or the scenario has lost its point */
    cr_assert_eq(failed, 0);
    cr_assert_eq(calls_ended, 100 + 25 + 10);
    cr_assert_eq(tasks_ended, TASKS + 1);
    cr_assert_gt(long_calls, 10);
}
