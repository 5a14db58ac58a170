/* SPDX-License-Identifier: MIT */
/*
 * A whole life with every form of call, buffers, sources of cancellation and observers, again and
 * again, with its n-th allocation failing, until one life needs fewer. Each time every call ends
 * once, with success or TEFF_ENOMEM; what failed has written no result; and the silo stops, and
 * leaves nothing behind.
 */
#include "life.h"

#include <criterion/criterion.h>

enum {
    /* up to here each n, from there on every STRIDE-th */
    EVERY = 2000,
    STRIDE = 17,
    LIVES_MAX = 100000,
    /*
     * One failure spoils one call, or what a turn was to answer with and the one that waits for it;
     * or all that wait for one activation, or in one mailbox.
     */
    FAILED_MAX = 30
};

static uint64_t nth;
static bool hit;

static bool honest(int r)
{
    return r == TEFF_ENOMEM;
}

static void begin_failing(void)
{
    teff__memory_fail_at(teff__silo_memory(silo), nth);
}

static void end_failing(void)
{
    hit = teff__atomic_u64_load_relaxed(&teff__silo_memory(silo)->fail_at) == 0;
    teff__memory_fail_at(teff__silo_memory(silo), 0);
}

static bool live_with_failure(uint64_t n)
{
    const teff_silo_options options = {
        .struct_size = sizeof(options), .workers = 2, .simulated = true, .seed = 1
    };
    nth = n;
    live(&options, begin_failing, end_failing);
    cr_assert_eq(count_of(&seen.wrong), 0, "n = %llu: %s", (unsigned long long)n, seen.text);
    cr_assert_leq(count_of(&seen.failed), FAILED_MAX, "n = %llu", (unsigned long long)n);
    return hit;
}

Test(nth_allocation_forms, whichever_fails_each_call_ends_once_and_nothing_is_left)
{
    uint64_t n = 1;
    while (live_with_failure(n)) {
        n += n < EVERY ? 1 : STRIDE;
        cr_assert_lt(n, LIVES_MAX);
    }
    /* So many there are at least, or the scenario has lost its point. */
    cr_assert_gt(n, 400);
    cr_assert_eq(count_of(&seen.failed), 0);
    cr_assert_geq(count_of(&seen.made), 3 * 100 + 2 * WATCHES);
    cr_assert_eq(count_of(&seen.sent), 100);
    cr_assert_eq(count_of(&seen.observed), 2 * WATCHES * 3);
    cr_assert_geq(count_of(&seen.cancelled), 4 * 5); /* of each caller those that came later */
    cr_assert_geq(count_of(&seen.told), 3);          /* running by then; others were queued */
    cr_assert_geq(seen.queued, 3);
}
