/* SPDX-License-Identifier: MIT */
/* The fixture's silo, on a loop of the test's. */
#ifndef TEFF_TESTS_UNIT_GRAINS_LOOP_H
#define TEFF_TESTS_UNIT_GRAINS_LOOP_H

#include "fixture.h"

#include "messaging/exchange.h"
#include "runtime/thread.h"

#include <uv.h>

/* A loop that nothing wakes hangs: better for seconds than for the runner's minutes. */
enum { HANGS_S = 30 };

static uv_loop_t loop;
static int stopped_count;

TEFF__INLINE void create_on_loop(teff_silo_options options)
{
    options.struct_size = sizeof(options);
    options.loop = &loop;
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
}

TEFF__INLINE void begin_on_loop(void)
{
    teff_assert(uv_loop_init(&loop) == 0);
    create_on_loop((teff_silo_options){ 0 });
    teff_assert(teff_silo_start(silo) == 0);
}

static __attribute__((unused)) void count_stopped(void *user, int result)
{
    teff_assert(result == 0);
    ++*(int *)user;
}

/* Runs the loop until the silo has stopped. */
TEFF__INLINE void run_until_stopped(void)
{
    const int before = stopped_count;
    teff_assert(teff_silo_stop_then(silo, count_stopped, &stopped_count) == 0);
    teff_assert(uv_run(&loop, UV_RUN_DEFAULT) == 0);
    teff_assert(stopped_count == before + 1);
}

/* Nothing may be left: neither of a silo that the test did not destroy itself, nor on the loop. */
TEFF__INLINE void end_on_loop(void)
{
    if (silo != NULL) {
        /* it runs, or has stopped */
        if (teff_silo_stop_then(silo, count_stopped, &stopped_count) == 0)
            teff_assert(uv_run(&loop, UV_RUN_DEFAULT) == 0);
        teff_assert(teff__silo_open_count(silo) == 0);
        teff_assert(teff__silo_grain_count(silo) == 0);
        silo = teff_silo_destroy(silo);
        teff_assert(silo == NULL);
    }
    teff_assert(uv_loop_alive(&loop) == 0);
    teff_assert(uv_loop_close(&loop) == 0);
}

/* Closes a handle of the test's own. */
TEFF__INLINE void close_handle(void *handle)
{
    uv_close((uv_handle_t *)handle, NULL);
}

#endif
