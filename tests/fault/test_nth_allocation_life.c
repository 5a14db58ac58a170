/* SPDX-License-Identifier: MIT */
/*
 * Activations that are given up, again and again, with the n-th allocation failing, for n = 1, 2, 3 …
 * until one round needs fewer: a stuck turn, an `activate` and a `deactivate` that do not end, each
 * with mail behind it. Every call ends once, with success, with what it was to hear, or for lack of
 * memory; later calls find a new activation; and the silo leaves nothing behind.
 *
 * A stuck one for whose replacement, or for whose caller's answer, there is no memory stays, and is
 * given up a little later. The mail of one whose `deactivate` is over its limit is then refused.
 */
#include "grains/key.h"
#include "tests/unit/grains/fixture.h"

enum { STUCK = 1, ACTIVATE = 2, DEACTIVATE = 3, BEHIND = 4, ROUNDS_MAX = 10000 };

static int failed, ended, hangs;

static void outcome(int r, int expected)
{
    ended++;
    failed += r != expected;
    cr_expect(r == expected || r == TEFF_ENOMEM, "%d, not %d", r, expected);
}

static int sleep_in_task(teff_task *task, void *user)
{
    (void)user;
    return teff_sleep(task, 20 * SECOND);
}

/* Waits for a task once, which no limit ends. */
static int hang(teff_turn *turn)
{
    int result = 0;
    teff_future future;
    if (hangs++ > 0)
        return 0;
    const int r = teff_silo_spawn(silo, 0, sleep_in_task, NULL, turn, &future);
    return r != 0 ? r : teff_task_claim(turn, future, &result);
}

static bool is(const teff_turn *turn, uint64_t number)
{
    const teff_key key = teff_key_u64(number);
    return teff__key_equal(teff_turn_key(turn), &key);
}

static int hang_in_act(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    return hang(turn);
}

static int hang_in_activate(teff_turn *turn, struct probe *self)
{
    (void)self;
    return is(turn, ACTIVATE) ? hang(turn) : 0;
}

static void hang_in_deactivate(teff_turn *turn, struct probe *self, int reason)
{
    (void)self;
    if (is(turn, DEACTIVATE) && reason == TEFF_DEACTIVATED_REQUEST)
        (void)hang(turn);
}

static int get(uint64_t key)
{
    probe_ref probe = probe_at(key);
    return probe_get(client, &probe, NULL, NULL);
}

/* Calls it so that it hangs, and some behind it; gives how those end. */
static void give_up(uint64_t key, int first, int others)
{
    teff_future futures[BEHIND];
    probe_ref probe = probe_at(key);
    hangs = 0;
    const teff_future hanging = key == STUCK        ? probe_act_start(client, &probe, NULL)
                                : key == DEACTIVATE ? probe_leave_start(client, &probe, NULL)
                                                    : probe_get_start(client, &probe, NULL);
    for (int i = 0; i < BEHIND; i++)
        futures[i] = probe_get_start(client, &probe, NULL);
    outcome(key == STUCK        ? probe_act_claim(client, hanging, NULL)
            : key == DEACTIVATE ? probe_leave_claim(client, hanging, NULL)
                                : probe_get_claim(client, hanging, NULL),
            first);
    for (int i = 0; i < BEHIND; i++)
        outcome(probe_get_claim(client, futures[i], NULL), others);
}

static void live(void)
{
    give_up(STUCK, TEFF_ESTUCK, 0);
    give_up(ACTIVATE, TEFF_ECANCELED, TEFF_ECANCELED);
    give_up(DEACTIVATE, 0, 0);
    cr_expect_eq(teff_silo_advance(silo, 30 * SECOND), 0);
    for (uint64_t key = STUCK; key <= DEACTIVATE; key++)
        outcome(get(key), 0);
}

/* One round. True: it was hit by the failure. */
static bool hit_by(uint64_t n)
{
    failed = ended = 0;
    begin_with((teff_silo_options){ .stuck_ns = 3 * SECOND,
                                    .activate_timeout_ns = 2 * SECOND,
                                    .deactivate_timeout_ns = 2 * SECOND });
    acting = hang_in_act;
    activating = hang_in_activate;
    deactivating = hang_in_deactivate;
    for (uint64_t key = STUCK; key <= DEACTIVATE; key += 2)
        cr_assert_eq(get(key), 0);
    teff__memory *memory = teff__silo_memory(silo);
    teff__memory_fail_at(memory, n);
    live();
    const bool hit = teff__atomic_u64_load_relaxed(&memory->fail_at) == 0;
    teff__memory_fail_at(memory, 0);
    cr_expect_eq(ended, 3 * (1 + BEHIND) + 3);
    /* where all of one's mail is refused, or the failure is what was to hang */
    cr_expect_leq(failed, 1 + BEHIND);
    for (uint64_t key = STUCK; key <= DEACTIVATE; key++)
        cr_expect_eq(get(key), 0);
    end();
    return hit;
}

Test(nth_allocation_life, whichever_fails_what_was_given_up_is_replaced_and_nothing_is_left)
{
    uint64_t n = 1;
    while (hit_by(n)) {
        n++;
        cr_assert_lt(n, ROUNDS_MAX);
    }
    cr_assert_gt(n, 5); /* so many there are at least, or the scenario has lost its point */
    cr_assert_eq(failed, 0);
}
