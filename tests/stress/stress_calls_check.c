/* SPDX-License-Identifier: MIT */
#include "stress_calls_check.h"

#include "stress_calls_common.h"

#include "runtime/silo.h"

#include <time.h>

void pause_ms(long ms)
{
    const struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
    (void)nanosleep(&pause, NULL);
}

static uint64_t total(const account *accounts, uint32_t count, size_t member)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += teff__atomic_u64_load_relaxed(
            (const teff__atomic_u64 *)(const void *)((const char *)&accounts[i] + member));
    return sum;
}
#define TOTAL(SELF, MEMBER)                                                                        \
    (total((SELF)->ledger.targets, (SELF)->ledger.target_count, offsetof(account, MEMBER)) +       \
     total((SELF)->ledger.leaves, (SELF)->ledger.leaf_count, offsetof(account, MEMBER)))

void check_turns(const stress *self)
{
    for (uint32_t k = 0; k < self->ledger.target_count; k++) {
        const account *target = &self->ledger.targets[k];
        uint64_t sent = 0;
        for (uint32_t i = 0; i < self->sender_count; i++) {
            sent += self->senders[i].numbers[k];
            if (target->seen[i] != self->senders[i].numbers[k])
                fail("target %u ran %u messages of sender %u, which sent %u", k, target->seen[i], i,
                     self->senders[i].numbers[k]);
        }
        if (teff__atomic_u64_load_relaxed(&target->turns) != sent)
            fail("target %u: %llu turns ran of %llu messages", k,
                 (unsigned long long)teff__atomic_u64_load_relaxed(&target->turns),
                 (unsigned long long)sent);
    }
    for (uint32_t k = 0; k < self->ledger.leaf_count; k++) {
        const account *leaf = &self->ledger.leaves[k];
        if (teff__atomic_u64_load_relaxed(&leaf->turns) !=
            teff__atomic_u64_load_relaxed(&leaf->asked))
            fail("leaf %u: %llu turns ran for %llu calls", k,
                 (unsigned long long)teff__atomic_u64_load_relaxed(&leaf->turns),
                 (unsigned long long)teff__atomic_u64_load_relaxed(&leaf->asked));
    }
}

/* Nobody calls any more; the last deactivations are under way. */
void check_left(const stress *self)
{
    uint64_t left = 0, registered = 0, open = 0;
    for (int tries = 0; tries < 500; tries++) {
        left = TOTAL(self, activated) - TOTAL(self, deactivated);
        registered = teff__silo_grain_count(self->silo);
        open = teff__silo_open_count(self->silo);
        if (left == registered && open == 0)
            return;
        pause_ms(10);
    }
    fail("%llu activations are left of those that came and went, %llu are registered; %llu "
         "callbacks are open",
         (unsigned long long)left, (unsigned long long)registered, (unsigned long long)open);
}

static void check_gone(const account *accounts, uint32_t count, const char *what)
{
    for (uint32_t k = 0; k < count; k++) {
        const account *each = &accounts[k];
        if (teff__atomic_u32_load_relaxed(&each->alive) != 0 ||
            teff__atomic_u32_load_relaxed(&each->busy) != 0)
            fail("%s %u is left after stop", what, k);
    }
}

void check_stop(stress *self)
{
    const int r = teff_silo_stop(self->silo);
    if (r != 0)
        fail("stop: %s", teff_status_name(r));
    check_gone(self->ledger.targets, self->ledger.target_count, "target");
    check_gone(self->ledger.leaves, self->ledger.leaf_count, "leaf");
    if (teff__silo_open_count(self->silo) != 0 || teff__silo_grain_count(self->silo) != 0)
        fail("after stop %llu callbacks are open and %llu grains registered",
             (unsigned long long)teff__silo_open_count(self->silo),
             (unsigned long long)teff__silo_grain_count(self->silo));
    if (teff_silo_destroy(self->silo) != NULL)
        fail("the silo was not destroyed");
}

void show(const stress *self, int64_t duration_ns)
{
    uint64_t calls = 0, sends = 0, leaves = 0;
    for (uint32_t i = 0; i < self->sender_count; i++) {
        calls += self->senders[i].calls;
        sends += self->senders[i].sends;
        leaves += self->senders[i].leaves;
    }
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        { "calls", calls },
        { "one-way messages", sends },
        { "of both, asking for deactivation", leaves },
        { "turns of targets",
          total(self->ledger.targets, self->ledger.target_count, offsetof(account, turns)) },
        { "turns of leaves",
          total(self->ledger.leaves, self->ledger.leaf_count, offsetof(account, turns)) },
        { "turns that suspended", teff__atomic_u64_load_relaxed(&self->ledger.suspended) },
        { "activations", TOTAL(self, activated) },
        { "of these, on another worker", teff__atomic_u64_load_relaxed(&self->ledger.moved) },
        { "deactivations", TOTAL(self, deactivated) },
        { "calls/s", (uint64_t)((double)calls * 1e9 / (double)duration_ns) },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("%-34s %12llu\n", rows[i].name, (unsigned long long)rows[i].value);
}
