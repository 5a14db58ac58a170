/* SPDX-License-Identifier: MIT */
#include "stress_routes_check.h"

#include "stress_calls_common.h"

#include "runtime/silo.h"

#include <time.h>

enum { TRIES_MAX = 2000, TRY_MS = 5, STILL_MAX = 20, LOST_MAX = 10 };

void pause_ms(long ms)
{
    const struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
    (void)nanosleep(&pause, NULL);
}

uint64_t calls_ended(const stress *self)
{
    uint64_t ended = 0;
    for (uint32_t i = 0; i < self->notes.sender_count; i++)
        ended += teff__atomic_u64_load_relaxed(&self->senders[i].ended);
    return ended;
}

static uint64_t total(const stress *self, size_t member)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < self->notes.grain_count; k++)
        sum += teff__atomic_u64_load_relaxed((
            const teff__atomic_u64 *)(const void *)((const char *)&self->notes.grains[k] + member));
    return sum;
}
#define TOTAL(SELF, MEMBER) total(SELF, offsetof(account, MEMBER))

void check_settled(const stress *self)
{
    uint64_t due = 0, turns = 0;
    for (uint32_t i = 0; i < self->notes.sender_count; i++)
        for (uint32_t k = 0; k < self->notes.grain_count; k++)
            due +=
                self->senders[i].grains[k].calls.count + self->senders[i].grains[k].one_way.count;
    for (int tries = 0, still = 0; tries < TRIES_MAX; tries++) {
        const uint64_t before = turns;
        turns = TOTAL(self, turns);
        still = turns == before ? still + 1 : 0;
        if ((turns >= due + TOTAL(self, asked_min) || still >= STILL_MAX) &&
            teff__atomic_u64_load_relaxed(&self->notes.then_open) == 0 &&
            teff__silo_open_count(self->silo) == 0 &&
            TOTAL(self, activated) - TOTAL(self, deactivated) == teff__silo_grain_count(self->silo))
            return;
        pause_ms(TRY_MS);
    }
    fail("it does not come to rest: %llu turns for %llu messages, %llu callbacks and %llu "
         "completions are open, %llu activations of %llu that are registered",
         (unsigned long long)turns, (unsigned long long)(due + TOTAL(self, asked_min)),
         (unsigned long long)teff__silo_open_count(self->silo),
         (unsigned long long)teff__atomic_u64_load_relaxed(&self->notes.then_open),
         (unsigned long long)(TOTAL(self, activated) - TOTAL(self, deactivated)),
         (unsigned long long)teff__silo_grain_count(self->silo));
}

/* The silo has stopped: nothing runs any more. Returns how many one-way messages had no turn. */
static uint64_t check_grain(const stress *self, uint32_t k)
{
    const account *of = &self->notes.grains[k];
    uint64_t turns = of->asked, lost = 0;
    for (uint32_t i = 0; i < self->notes.sender_count; i++) {
        const acquaintance *sent = &self->senders[i].grains[k];
        const received *had = &of->senders[i];
        turns += had->calls.count + had->one_way.count;
        lost += sent->one_way.count - had->one_way.count;
        if (had->calls.count != sent->calls.count || had->calls.sum != sent->calls.sum)
            fail("grain %u had %u calls of sender %u, the last was %u; it was sent %u", k,
                 had->calls.count, i, had->last, sent->calls.count);
        if (had->one_way.count > sent->one_way.count || had->one_way.sum > sent->one_way.sum)
            fail("grain %u had %u one-way messages of sender %u, the last was %u; it was sent %u",
                 k, had->one_way.count, i, had->last, sent->one_way.count);
    }
    if (turns != teff__atomic_u64_load_relaxed(&of->turns))
        fail("grain %u had %llu turns for %llu messages", k,
             (unsigned long long)teff__atomic_u64_load_relaxed(&of->turns),
             (unsigned long long)turns);
    if (of->asked < teff__atomic_u64_load_relaxed(&of->asked_min) ||
        of->asked > teff__atomic_u64_load_relaxed(&of->asked_max))
        fail("grain %u was asked %llu times by others, which asked it %llu to %llu times", k,
             (unsigned long long)of->asked,
             (unsigned long long)teff__atomic_u64_load_relaxed(&of->asked_min),
             (unsigned long long)teff__atomic_u64_load_relaxed(&of->asked_max));
    if (teff__atomic_u64_load_relaxed(&of->valid) != 0 ||
        teff__atomic_u32_load_relaxed(&of->busy) != 0)
        fail("grain %u is left after stop", k);
    if (teff__atomic_u64_load_relaxed(&of->activated) !=
        teff__atomic_u64_load_relaxed(&of->deactivated))
        fail("grain %u was activated %llu times and deactivated %llu times", k,
             (unsigned long long)teff__atomic_u64_load_relaxed(&of->activated),
             (unsigned long long)teff__atomic_u64_load_relaxed(&of->deactivated));
    return lost;
}

static uint64_t rejections(const stress *self)
{
    uint64_t rejected = 0;
    for (uint32_t i = 0; i < self->notes.sender_count; i++)
        rejected += self->senders[i].rejected;
    return rejected;
}

/*
 * Who is sent one way is passed on as often as who is called: so no more of those may be lost than
 * calls were rejected, by far.
 */
static void check_lost(const stress *self, uint64_t lost)
{
    const uint64_t rejected = rejections(self);
    if (lost > 10 * rejected + LOST_MAX)
        fail("%llu one-way messages are lost, while %llu calls were passed on too often",
             (unsigned long long)lost, (unsigned long long)rejected);
}

/* What the silo has counted is what the grains have seen. */
static void check_counts(const stress *self)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    if (teff_silo_grain_counts(self->silo, &counts) != 0)
        fail("no counts");
    uint64_t gone = 0, heard = 0;
    for (int i = 0; i < TEFF_DEACTIVATED_REASONS; i++)
        gone += counts.gone[i];
    for (int i = TEFF_DEACTIVATED_REQUEST; i <= TEFF_DEACTIVATED_COLLECT; i++)
        heard += counts.gone[i];
    if (counts.resident != 0 || counts.made != gone)
        fail("the silo counts %llu activations made, %llu gone, %llu resident",
             (unsigned long long)counts.made, (unsigned long long)gone,
             (unsigned long long)counts.resident);
    if (heard != TOTAL(self, deactivated) ||
        counts.gone[TEFF_DEACTIVATED_FAILED] != TOTAL(self, refused))
        fail("the silo counts %llu deactivated and %llu failed, the grains %llu and %llu",
             (unsigned long long)heard, (unsigned long long)counts.gone[TEFF_DEACTIVATED_FAILED],
             (unsigned long long)TOTAL(self, deactivated),
             (unsigned long long)TOTAL(self, refused));
}

void check_stop(stress *self)
{
    uint64_t lost = 0;
    const int r = teff_silo_stop(self->silo);
    if (r != 0)
        fail("stop: %s", teff_status_name(r));
    for (uint32_t k = 0; k < self->notes.grain_count; k++)
        lost += check_grain(self, k);
    check_lost(self, lost);
    check_counts(self);
    if (teff__silo_open_count(self->silo) != 0 || teff__silo_grain_count(self->silo) != 0)
        fail("after stop %llu callbacks are open and %llu grains registered",
             (unsigned long long)teff__silo_open_count(self->silo),
             (unsigned long long)teff__silo_grain_count(self->silo));
    if (teff_silo_destroy(self->silo) != NULL)
        fail("the silo was not destroyed");
    self->silo = NULL;
}

/* --- The sums of all rounds ------------------------------------------------------------------- */

void add_up(const stress *self, totals *all)
{
    uint64_t sent = 0, had = 0;
    printf("%llu calls, %llu activations\n", (unsigned long long)calls_ended(self),
           (unsigned long long)TOTAL(self, activated));
    all->activations += TOTAL(self, activated);
    all->refused += TOTAL(self, refused);
    all->turns += TOTAL(self, turns);
    all->moved += teff__atomic_u64_load_relaxed(&self->notes.moved);
    all->rejected += rejections(self);
    for (uint32_t i = 0; i < self->notes.sender_count; i++) {
        for (int form = 0; form < FORMS; form++)
            all->calls[form] += self->senders[i].calls[form];
        sent += self->senders[i].calls[ONE_WAY];
        for (uint32_t k = 0; k < self->notes.grain_count; k++)
            had += self->notes.grains[k].senders[i].one_way.count;
    }
    all->lost += sent - had;
}

void show(const totals *all)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        { "calls awaited", all->calls[AWAITED] },
        { "started and claimed", all->calls[STARTED] },
        { "with a completion", all->calls[COMPLETED] },
        { "one way", all->calls[ONE_WAY] },
        { "passed on too often", all->rejected },
        { "one way, passed on too often", all->lost },
        { "turns", all->turns },
        { "activations", all->activations },
        { "of these, on another worker", all->moved },
        { "that failed", all->refused },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("%-28s %12llu\n", rows[i].name, (unsigned long long)rows[i].value);
}
