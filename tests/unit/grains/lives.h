/* SPDX-License-Identifier: MIT */
/* What the tests of activations' lives share: counts of grains, notices, and something to wait for. */
#ifndef TEFF_TESTS_UNIT_GRAINS_LIVES_H
#define TEFF_TESTS_UNIT_GRAINS_LIVES_H

#include "calls.h"

/* The last notice, and how many there were. */
static struct {
    int count;
    teff_notice_kind kind;
    char text[256];
} noticed;

TEFF__INLINE void on_notice(void *user, const teff_notice *notice)
{
    (void)user;
    noticed.count++;
    noticed.kind = notice->kind;
    (void)snprintf(noticed.text, sizeof(noticed.text), "%s", notice->text);
}

TEFF__INLINE teff_grain_counts grain_counts(void)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    cr_assert_eq(teff_silo_grain_counts(silo, &counts), 0);
    return counts;
}

/* That so many went for that reason, and none for another. */
TEFF__INLINE void expect_gone(int reason, uint64_t count)
{
    const teff_grain_counts counts = grain_counts();
    for (int i = 0; i < TEFF_DEACTIVATED_REASONS; i++)
        cr_expect_eq(counts.gone[i], i == reason ? count : 0, "%d: %d", i, (int)counts.gone[i]);
    cr_expect_eq(counts.made, counts.resident + count);
}

static int64_t task_ns = 1000 * SECOND;

TEFF__INLINE int sleep_in_task(teff_task *task, void *user)
{
    (void)user;
    return teff_sleep(task, task_ns);
}

/* Waits for a task, for which there is no limit. */
TEFF__INLINE int wait_for_task(teff_caller *caller)
{
    int result = 0;
    teff_future future;
    const int r = teff_silo_spawn(silo, 0, sleep_in_task, NULL, caller, &future);
    cr_expect_eq(r, 0);
    return teff_task_claim(caller, future, &result);
}

/* How long the body takes, in simulated nanoseconds. */
TEFF__INLINE int64_t since(int64_t began_ns)
{
    return teff__silo_now_ns(silo) - began_ns;
}

TEFF__INLINE int get_number(teff_caller *caller, uint64_t key)
{
    struct told told = { .number = -1 };
    probe_ref probe = probe_at(key);
    const int r = probe_get(caller, &probe, NULL, &told);
    return r != 0 ? r : (int)told.number;
}

#endif
