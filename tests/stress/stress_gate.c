/* SPDX-License-Identifier: MIT */
/*
 * The gate of a client's stripe: who opens a callback publishes it and then looks at the gate; stop
 * closes the gate and then sweeps. Neither may miss the other.
 *
 *   stress_gate [opens=2000000] [lost=0] [seed=1] [seconds_max=300]
 *
 * Two threads, on two cores where there are two, go through the stripes side by side: one opens a
 * callback in each, the other closes its gate and sweeps it. Every other callback is in a slot that
 * was never there, so that a sweep must see the stripe grow. Where the opener found the gate open
 * and the sweep found nothing, the call is lost: nobody would ever end it. Where the gate was
 * closed, the opener takes the callback back, unless the sweep has it.
 *
 * lost=1 asks whether this program can fail, of a build with weaker orders: it passes as soon as a
 * callback is lost, and fails where none is.
 */
#include "stress_calls_common.h"

#include "messaging/count.h"
#include "messaging/registry.h"
#include "runtime/chance.h"
#include "runtime/thread.h"

#include "teff/status.h"

#include <sched.h>

enum {
    STRIPES = TEFF__STRIPES - TEFF__STRIPES_WORKERS, /* of clients */
    SPINS_PER_YIELD = 256,
    SKIPPED = 77 /* an exit code that meson knows */
};

/* What the opener saw of each stripe's gate. */
typedef enum saw { SAW_OPEN, TOOK_BACK, WAS_SWEPT, OUTCOMES } saw;

typedef struct litmus {
    teff__registry registry;
    teff__memory memory;
    teff__stripe *stripes;
    uint64_t ids[STRIPES];
    saw seen[STRIPES]; /* opener */
    uint64_t swept_open, swept_closed, taken_back, lost, opens;
    uint64_t lag; /* how much slower the opener goes, to stay beside the sweeper */
    teff__chance chances[2];
    /* rounds begun and ended by each side; that side; the other one */
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u64 opener_at;
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u64 sweeper_at;
    teff__atomic_u32 quit;
} litmus;

static const litmus *watched;

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs in round %llu",
         (unsigned long long)teff__atomic_u64_load_relaxed(&watched->opener_at));
}

/* --- Side by side ----------------------------------------------------------------------------- */

/* Says that this side has come there, and waits for the other one. */
static void meet(teff__atomic_u64 *mine, const teff__atomic_u64 *yours, uint64_t at)
{
    uint64_t spins = 0;
    teff__atomic_u64_store_release(mine, at);
    while (teff__atomic_u64_load_acquire(yours) < at) /* pairs with the other side's release */
        if (++spins % SPINS_PER_YIELD == 0)
            (void)sched_yield();
        else
            teff__cpu_relax();
}

/* Some ten nanoseconds at random, beyond `least`: what a store needs to reach another core. */
static void linger(teff__chance *chance, uint64_t least)
{
    for (volatile uint64_t left = least + teff__chance_next(chance) % 32; left > 0; left--)
        ;
}

static void pin(uint32_t side)
{
    cpu_set_t usable, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0 || CPU_COUNT(&usable) < 2)
        return;
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &usable) && side-- == 0) {
            CPU_SET(core, &one);
            (void)sched_setaffinity(0, sizeof(one), &one);
            return;
        }
}

static void sweep_all(litmus *self)
{
    for (uint32_t i = 0; i < STRIPES; i++) {
        linger(&self->chances[1], 0);
        teff__stripe_close_gate(&self->stripes[i]);
        teff__stripe_claim_all(&self->stripes[i], TEFF_EUNAVAILABLE);
    }
}

static void sweeper_main(void *user)
{
    litmus *self = user;
    pin(1);
    for (uint64_t at = 1;; at += 2) {
        meet(&self->sweeper_at, &self->opener_at, at);
        if (teff__atomic_u32_load_relaxed(&self->quit))
            return;
        sweep_all(self);
        meet(&self->sweeper_at, &self->opener_at, at + 1);
    }
}

/* --- The opener ------------------------------------------------------------------------------- */

static saw open_one(teff__stripe *stripe, uint64_t *ret_id)
{
    const teff__callback_terms terms = { .deadline_ns = INT64_MAX };
    int r = 0;
    teff__callback *callback = teff__stripe_take(stripe, &r);
    if (callback == NULL)
        fail("no slot: %s", teff_status_name(r));
    if (teff__stripe_open_shared(stripe, callback, &terms, 0, ret_id))
        return SAW_OPEN;
    return teff__stripe_retract(stripe, *ret_id) ? TOOK_BACK : WAS_SWEPT;
}

static void open_all(litmus *self)
{
    uint64_t found_open = 0;
    for (uint32_t i = 0; i < STRIPES; i++) {
        linger(&self->chances[0], self->lag);
        self->seen[i] = open_one(&self->stripes[i], &self->ids[i]);
        found_open += self->seen[i] == SAW_OPEN;
    }
    if (found_open > STRIPES / 2)
        self->lag++;
    else if (self->lag != 0)
        self->lag--;
}

/* What has become of it, when both have passed; the stripe is then as it was. */
static void look(litmus *self, uint32_t i, bool fresh)
{
    teff__stripe *stripe = &self->stripes[i];
    uint32_t done = teff__stripe_take_done(stripe);
    const bool swept = done != 0;
    if (self->seen[i] == TOOK_BACK ? swept : self->seen[i] == WAS_SWEPT && !swept)
        fail("a callback was %s", swept ? "swept and taken back" : "neither swept nor taken back");
    self->swept_open += self->seen[i] == SAW_OPEN && swept;
    self->swept_closed += self->seen[i] == WAS_SWEPT;
    self->taken_back += self->seen[i] == TOOK_BACK;
    if (self->seen[i] == SAW_OPEN && !swept) {
        self->lost++;
        (void)teff__stripe_claim(stripe, self->ids[i], NULL, TEFF_ECANCELED);
        done = teff__stripe_take_done(stripe);
    }
    if (done != 0) {
        teff__callback *callback = &stripe->callbacks[done - 1];
        if (callback->done != 0 || teff__stripe_open_id(stripe, done - 1) != self->ids[i])
            fail("more was swept than was open");
        teff__stripe_received(stripe, done - 1);
        teff__callback_become(callback, TEFF__CALLBACK_SETTLED);
        teff__stripe_free(stripe, callback);
    }
    teff__atomic_u32_store_relaxed(&stripe->gate, TEFF__GATE_OPEN);
    if (fresh) { /* a stripe that is to grow again */
        stripe->free = 0;
        teff__atomic_u32_store_relaxed(&stripe->made, 0);
    }
}

static void run(litmus *self, uint64_t opens, bool lost_wanted)
{
    teff__thread sweeper;
    if (teff__thread_start(&sweeper, sweeper_main, self, "sweeper") != 0)
        fail("no thread");
    pin(0);
    uint64_t at = 1;
    for (; self->opens < opens && !(lost_wanted && self->lost != 0); at += 2) {
        meet(&self->opener_at, &self->sweeper_at, at);
        open_all(self);
        meet(&self->opener_at, &self->sweeper_at, at + 1);
        for (uint32_t i = 0; i < STRIPES; i++)
            look(self, i, (at / 2 + i) % 2 == 0);
        self->opens += STRIPES;
    }
    teff__atomic_u32_store_relaxed(&self->quit, 1);
    meet(&self->opener_at, &self->sweeper_at, at);
    teff__thread_join(&sweeper);
}

int main(int count, char **given)
{
    static litmus self;
    unsigned long long opens = 2000000, lost = 0, seed = 1, seconds_max = 300;
    const argument known[] = {
        { "opens", &opens, 1, UINT64_C(1) << 40 },
        { "lost", &lost, 0, 1 },
        { "seed", &seed, 1, UINT32_MAX },
        { "seconds_max", &seconds_max, 1, 86400 },
    };
    arguments_read("stress_gate", known, sizeof(known) / sizeof(known[0]), count, given);
    if (lost != 0 && teff__thread_cores() < 2) {
        printf("stress_gate: skipped: orders do not show on one core\n");
        return SKIPPED;
    }
    watched = &self;
    watchdog_start(seconds_max, on_watchdog);
    teff__chance_init(&self.chances[0], seed * 2);
    teff__chance_init(&self.chances[1], seed * 2 + 1);
    teff__memory_init(&self.memory, 0);
    if (teff__registry_init(&self.registry, &self.memory, 1) != 0)
        fail("no registry");
    self.stripes = &self.registry.stripes[TEFF__STRIPES_WORKERS];
    run(&self, opens, lost != 0);
    printf("%12llu opened\n", (unsigned long long)self.opens);
    printf("%12llu through the open gate, and swept\n", (unsigned long long)self.swept_open);
    printf("%12llu found the gate closed, and were swept\n", (unsigned long long)self.swept_closed);
    printf("%12llu found the gate closed, and were taken back\n",
           (unsigned long long)self.taken_back);
    printf("%12llu lost\n", (unsigned long long)self.lost);
    if ((self.lost != 0) != (lost != 0))
        fail(lost != 0 ? "the weaker orders lose no callback" : "callbacks were lost");
    if (lost == 0 && (self.swept_open == 0 || self.taken_back == 0))
        fail("the same side was always first");
    if (teff__registry_open_count(&self.registry) != 0)
        fail("callbacks are open");
    teff__registry_finish(&self.registry);
    printf("stress_gate: passed: seed %llu\n", seed);
    return 0;
}
