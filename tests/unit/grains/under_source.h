/* SPDX-License-Identifier: MIT */
/*
 * What the tests of cancellation as the callee sees it share: a simulated silo of two workers, a
 * source, and probes that live on the one or the other.
 */
#ifndef TEFF_TESTS_UNIT_GRAINS_UNDER_SOURCE_H
#define TEFF_TESTS_UNIT_GRAINS_UNDER_SOURCE_H

#include "messaging/cancel.h"

#include "calls.h"

enum {
    HERE = 1,  /* a probe of worker 0, where the callers of most tests are */
    THERE = 2, /* one of worker 1 */
    NEW = 100  /* from here on: nobody has called them */
};

static teff_cancel *cancel;

TEFF__INLINE int settle_probe(teff_task *task, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    return probe_get(task, &probe, NULL, NULL);
}

TEFF__INLINE void begin_canceling_with(teff_silo_options options)
{
    options.workers = 2;
    begin_with(options);
    teff_assert(teff_cancel_create(silo, &cancel) == 0);
    for (uint64_t key = HERE; key <= THERE; key++) {
        int result = -1;
        teff_future future = { 0 };
        teff_assert(teff_silo_spawn(silo, (int)key - 1, settle_probe, (void *)(uintptr_t)key,
                                    client, &future) == 0);
        teff_assert(teff_task_claim(client, future, &result) == 0 && result == 0);
    }
    memset(&seen, 0, sizeof(seen));
}

TEFF__INLINE void begin_canceling(void)
{
    begin_canceling_with((teff_silo_options){ 0 });
}

/* No request, branch or message may hold the source any more. */
TEFF__INLINE void end_canceling(void)
{
    teff_assert(teff_silo_advance(silo, 7200 * SECOND) == 0);
    (void)teff_client_run(client, 0); /* its mail */
    teff_assert(teff__atomic_u32_load_relaxed(&cancel->count) == 1);
    teff_assert(teff_cancel_unref(cancel) == NULL);
    end();
}

/* The caller, whose next call stands under the source; it waits for the callee, or does not. */
TEFF__INLINE teff_caller *under(teff_caller *caller)
{
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = cancel };
    return teff_with(caller, &options);
}

TEFF__INLINE teff_caller *waiting(teff_caller *caller)
{
    const teff_call_options options = { .struct_size = sizeof(options),
                                        .cancel = cancel,
                                        .cancel_waits = true };
    return teff_with(caller, &options);
}

TEFF__INLINE uint32_t holders(void)
{
    return teff__atomic_u32_load_relaxed(&cancel->count);
}

static const struct ask an_hour = { .number = 3600 * SECOND };

/* A turn of that probe begins, and sleeps for an hour; nobody can cancel it. */
TEFF__INLINE void keep_busy(uint64_t key)
{
    probe_ref probe = probe_at(key);
    cr_assert_eq(probe_rest_send(client, &probe, &an_hour), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    seen.turns = 0;
}

/* The source fires from a task of that worker after so many nanoseconds. */
static int64_t fire_after_ns = MS;

TEFF__INLINE int fire(teff_task *task, void *user)
{
    (void)user;
    cr_expect_eq(teff_sleep(task, fire_after_ns), 0);
    teff_cancel_fire(cancel);
    return 0;
}

TEFF__INLINE void expect_canceled(const teff_caller *caller, bool may_have_run)
{
    cr_expect_eq(teff_outcome_last(caller)->code, TEFF_ECANCELED);
    cr_expect_eq(teff_outcome_last(caller)->may_have_run, may_have_run);
}

TEFF__INLINE uint64_t ended_as(teff_end end_of)
{
    return silo_counts().ended[end_of];
}

TEFF__INLINE void tell_of(void *user)
{
    tell("%s ", (const char *)user);
}

#endif
