/* SPDX-License-Identifier: MIT */
/*
 * A silo of two threads, a uv loop, and a client on it: `guest`. What its calls came to is told to
 * a `struct heard` each.
 */
#ifndef TEFF_TESTS_UNIT_GRAINS_FIXTURE_LOOP_H
#define TEFF_TESTS_UNIT_GRAINS_FIXTURE_LOOP_H

#include "messaging/client.h"

#include "fixture.h"

#include <uv.h>

static uv_loop_t loop;
static teff_client *guest;

struct heard {
    int count, code;
    int64_t number;
    uintptr_t thread;
    teff_caller *caller;
};
static bool opening; /* a _then is being called */
static int heard_all, closed_count;

static __attribute__((unused)) void on_told(teff_caller *caller, void *user,
                                            const teff_outcome *outcome, const struct told *ret)
{
    struct heard *heard = user;
    cr_expect_not(opening, "inside its opener");
    heard->count++;
    heard_all++;
    heard->code = outcome->code;
    heard->number = ret != NULL ? ret->number : -1;
    heard->thread = teff__thread_self();
    heard->caller = caller;
}

static __attribute__((unused)) void on_none(teff_caller *caller, void *user,
                                            const teff_outcome *outcome, const teff_none *ret)
{
    (void)ret;
    on_told(caller, user, outcome, NULL);
}

static void on_client_closed(void *user)
{
    closed_count++;
    if (user != NULL)
        *(int *)user = heard_all;
}

/* Asks the probe of that number to rest for so long, and tells `heard`. */
TEFF__INLINE int rest_then(teff_caller *caller, uint64_t key, int64_t duration_ns,
                           struct heard *heard)
{
    probe_ref probe = probe_at(key);
    opening = true;
    const int r =
        probe_rest_then(caller, &probe, &(struct ask){ .number = duration_ns }, on_told, heard);
    opening = false;
    return r;
}

TEFF__INLINE teff_client *on_loop(void)
{
    teff_client *made = NULL;
    teff_assert(teff_client_create(silo, &loop, &made) == 0);
    return made;
}

TEFF__INLINE void begin_threads(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 2,
                                        .stop_timeout_ns = 100 * MS };
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_start(silo) == 0);
}

TEFF__INLINE void begin_loop(void)
{
    begin_threads();
    teff_assert(uv_loop_init(&loop) == 0);
    guest = on_loop();
}

TEFF__INLINE void close_guest(void)
{
    teff_assert(teff_client_close_then(guest, on_client_closed, NULL) == 0);
    guest = NULL;
    teff_assert(uv_run(&loop, UV_RUN_DEFAULT) == 0);
}

/* Nothing may be left on the loop, nor of the silo. */
TEFF__INLINE void end_loop(void)
{
    if (guest != NULL)
        close_guest();
    teff_assert(uv_loop_close(&loop) == 0);
    teff_assert(teff_silo_destroy(silo) == NULL);
}

/* --- What a program has on its loop beside ------------------------------------------------- */

/* A guard: where nothing else ends the poll, it does, and the test sees how long that took. */
static uv_timer_t guard;

static void on_guard(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Runs the loop until it has nothing left, which must be before the guard. */
TEFF__INLINE void run_loop(void)
{
    const int64_t began_ns = (int64_t)uv_hrtime();
    cr_assert_eq(uv_timer_init(&loop, &guard), 0);
    cr_assert_eq(uv_timer_start(&guard, on_guard, 10000, 0), 0);
    uv_unref((uv_handle_t *)&guard);
    const int left = uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_lt((int64_t)uv_hrtime() - began_ns, 10 * SECOND, "the loop waits for nothing");
    cr_assert_eq(left, 0);
    uv_close((uv_handle_t *)&guard, NULL);
    cr_assert_eq(uv_run(&loop, UV_RUN_NOWAIT), 0);
}

/* Calls `step` once, by a timer, after so many milliseconds. */
static void (*step)(void);

static void on_step(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, NULL);
    step();
}

TEFF__INLINE void step_after(uint64_t after_ms, void (*run)(void))
{
    static uv_timer_t timer;
    step = run;
    cr_assert_eq(uv_timer_init(&loop, &timer), 0);
    cr_assert_eq(uv_timer_start(&timer, on_step, after_ms, 0), 0);
}

#endif
