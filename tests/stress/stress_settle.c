/* SPDX-License-Identifier: MIT */
/*
 * The settle point: four threads race to end the same callbacks of a client's stripe.
 *
 *   stress_settle [callbacks=1000000] [seed=1] [seconds_max=300]
 *
 * A response, a timeout, a cancellation and a stop, each on a thread of its own; the timeout's is
 * the owner's, as in a client. A round opens 1 to 64 callbacks and releases all four at once; each
 * goes through them in its own order, lingering and yielding at random. The owner takes what is
 * handed over, sleeping meanwhile as a client does, frees the slots and opens the next round's
 * callbacks in them while response and cancellation come again with the old ids: late events, which
 * must end nothing.
 *
 * Each callback has one winner and is handed over once, with the winner's answer or code; an answer
 * is what was written before it won. Every kind wins some; nothing is open at the end.
 */
#include "stress_calls_common.h"

#include "messaging/count.h"
#include "messaging/registry.h"
#include "runtime/chance.h"
#include "runtime/thread.h"

#include "teff/status.h"

#include <sched.h>

enum { BATCH_MAX = 64, BATCH_BITS_MAX = 6, SPINS_PER_YIELD = 16, DUE_NS = 1 };

#define QUIT UINT64_MAX /* instead of a round */

typedef enum end { BY_RESPONSE, BY_TIMEOUT, BY_CANCEL, BY_STOP, ENDS } end;
static const char *const end_names[ENDS] = { "response", "timeout", "cancellation", "stop" };

/* What a response brings: plain words, which the hand-over alone makes safe to read. */
typedef struct answer {
    uint64_t id, check;
} answer;

/* The callbacks of a round. There are two sets, since late events name the last one's. */
typedef struct batch {
    uint64_t ids[BATCH_MAX];         /* owner, before the round; all racers */
    uint32_t count;                  /* a power of two; as ids */
    answer answers[BATCH_MAX];       /* the response's thread; owner, when it is handed over */
    bool won[ENDS][BATCH_MAX];       /* each kind's own thread; owner, after the round */
    uint32_t handed_over[BATCH_MAX]; /* owner */
    end ended_by[BATCH_MAX];         /* owner: as the hand-over says */
} batch;

typedef struct race {
    teff__registry registry;
    teff__memory memory;
    teff__stripe *stripe;
    batch batches[2];
    uint32_t position[BATCH_MAX]; /* by slot: of its callback in the batch. Owner */
    uint64_t opened, ended[ENDS], rounds, mixed, sleeps;      /* owner */
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u64 round;        /* owner; racers */
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u64 at_start;     /* in all rounds: all four */
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u64 passed[ENDS]; /* rounds: that racer; owner */
} race;

typedef struct racer {
    race *race;
    end kind;
    teff__thread thread;
    teff__chance chance;
} racer;

static const race *watched;

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs in round %llu",
         (unsigned long long)teff__atomic_u64_load_relaxed(&watched->round));
}

/* --- Racing ----------------------------------------------------------------------------------- */

/* There are more racers than cores: who waits must let the others run. */
static void wait_a_little(uint64_t *spins)
{
    if (++*spins % SPINS_PER_YIELD == 0)
        (void)sched_yield();
    else
        teff__cpu_relax();
}

static void yield_at_times(teff__chance *chance, uint64_t once_in)
{
    if (teff__chance_next(chance) % once_in == 0)
        (void)sched_yield();
}

/*
 * All four leave this together, or as many as there are cores; then each lingers for up to a
 * microsecond and lets others go first, or they would always meet in the same order.
 */
static void start_together(race *self, uint64_t round, teff__chance *chance)
{
    uint64_t spins = 0;
    (void)teff__atomic_u64_add_acq_rel(&self->at_start, 1);
    while (teff__atomic_u64_load_acquire(&self->at_start) < round * ENDS)
        wait_a_little(&spins);
    for (volatile uint64_t left = teff__chance_next(chance) % 1024; left > 0; left--)
        ;
    for (uint64_t left = teff__chance_next(chance) % ENDS; left > 0; left--)
        (void)sched_yield();
}

static bool end_one(const racer *self, batch *of, uint32_t position)
{
    const uint64_t id = of->ids[position];
    if (self->kind == BY_CANCEL)
        return teff__stripe_claim(self->race->stripe, id, NULL, TEFF_ECANCELED);
    answer *brings = &of->answers[position];
    *brings = (answer){ .id = id, .check = ~id };
    return teff__stripe_claim(self->race->stripe, id, brings, 0);
}

/* Ends all, each at most once, in an order of its own; then comes again, too late. */
static void end_each(racer *self, batch *of)
{
    const uint64_t start = teff__chance_next(&self->chance);
    const uint64_t step = teff__chance_next(&self->chance) | 1; /* odd: it meets every position */
    for (uint32_t i = 0; i < of->count; i++) {
        const uint32_t position = (uint32_t)(start + i * step) & (of->count - 1);
        yield_at_times(&self->chance, 16);
        of->won[self->kind][position] = end_one(self, of, position);
    }
    for (uint32_t i = 0; i < of->count; i++) {
        yield_at_times(&self->chance, 16);
        if (teff__stripe_claim(self->race->stripe, of->ids[i], NULL, TEFF_ECANCELED))
            fail("a late %s ended a callback", end_names[self->kind]);
    }
}

static void race_once(racer *self, batch *of)
{
    if (self->kind == BY_STOP) {
        teff__stripe_close_gate(self->race->stripe);
        teff__stripe_claim_all(self->race->stripe, TEFF_EUNAVAILABLE);
        uint64_t open; /* the owner opens no more until this thread has passed */
        if (teff__registry_open_count_exact(&self->race->registry, &open) && open > of->count)
            fail("%llu callbacks are open of %u", (unsigned long long)open, of->count);
    } else {
        end_each(self, of);
    }
}

static void racer_main(void *user)
{
    racer *self = user;
    race *of = self->race;
    for (uint64_t next = 1;; next++) {
        uint64_t spins = 0, round;
        while ((round = teff__atomic_u64_load_acquire(&of->round)) < next) /* pairs with release */
            wait_a_little(&spins);
        if (round == QUIT)
            return;
        start_together(of, next, &self->chance);
        race_once(self, &of->batches[next % 2]);
        teff__atomic_u64_store_release(&of->passed[self->kind], next); /* pairs with wait_for */
    }
}

/* --- The owner -------------------------------------------------------------------------------- */

static void wait_for(race *self, end kind, uint64_t round)
{
    uint64_t spins = 0;
    while (teff__atomic_u64_load_acquire(&self->passed[kind]) < round)
        wait_a_little(&spins);
}

static void open_batch(race *self, batch *to, uint32_t count)
{
    memset(to, 0, sizeof(*to));
    to->count = count;
    for (uint32_t i = 0; i < count; i++) {
        int r = 0;
        teff__callback *callback = teff__stripe_take(self->stripe, &r);
        if (callback == NULL)
            fail("no slot: %s", teff_status_name(r));
        if (teff__stripe_index(self->stripe, callback) >= BATCH_MAX)
            fail("a slot is lost");
        self->position[teff__stripe_index(self->stripe, callback)] = i;
        const teff__callback_terms terms = { .deadline_ns = DUE_NS };
        const uint32_t flags = i % 2 == 0 ? 0 : TEFF__CALLBACK_DEFAULT;
        if (!teff__stripe_open_shared(self->stripe, callback, &terms, flags, &to->ids[i]))
            fail("the gate is closed");
    }
    self->opened += count;
}

/* The owner's part of the race. */
static void time_out(race *self, batch *of)
{
    uint32_t slot = 0;
    int64_t low_ns = INT64_MAX;
    for (uint64_t id; (id = teff__stripe_next_due(self->stripe, DUE_NS, &slot, &low_ns)) != 0;)
        if (teff__stripe_claim(self->stripe, id, NULL, TEFF_ETIMEDOUT))
            of->won[BY_TIMEOUT][self->position[slot - 1]] = true;
}

static end which_end(const batch *of, uint32_t position, const answer *brought, int code)
{
    switch (code) {
    case 0:
        if (brought != &of->answers[position])
            fail("a callback has the answer of another one");
        if (brought->id != of->ids[position] || brought->check != ~brought->id)
            fail("an answer is not what was written");
        return BY_RESPONSE;
    case TEFF_ETIMEDOUT:
        return BY_TIMEOUT;
    case TEFF_ECANCELED:
        return BY_CANCEL;
    case TEFF_EUNAVAILABLE:
        return BY_STOP;
    default:
        fail("a callback ended with %s", teff_status_name(code));
    }
}

/* As a client receives what was claimed and then takes its answer. Returns how many there were. */
static uint32_t receive(race *self, batch *of)
{
    uint32_t received = 0;
    for (uint32_t next = teff__stripe_take_done(self->stripe); next != 0; received++) {
        const uint32_t slot = next - 1, position = self->position[slot];
        teff__callback *callback = &self->stripe->callbacks[slot];
        next = callback->done;
        if (teff__stripe_open_id(self->stripe, slot) != of->ids[position])
            fail("another callback was handed over");
        teff__stripe_received(self->stripe, slot);
        teff__callback_become(callback, TEFF__CALLBACK_SETTLED);
        of->handed_over[position]++;
        of->ended_by[position] = which_end(of, position, callback->value, callback->code);
        teff__stripe_free(self->stripe, callback);
    }
    return received;
}

/* As a client that waits: it says so, and looks once more. */
static void sleep_until_news(race *self)
{
    teff__stripe *stripe = self->stripe;
    teff__atomic_u32_store_seq_cst(&stripe->sleeping, 1); /* pairs with claim's push */
    if (teff__atomic_u32_load_seq_cst(&stripe->done) == 0) {
        teff__futex_wait(&stripe->sleeping, 1, INT64_MAX);
        self->sleeps++;
    }
    teff__atomic_u32_store_relaxed(&stripe->sleeping, 0);
}

static void check_batch(race *self, const batch *of)
{
    uint64_t winners = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        const end by = of->ended_by[i];
        if (of->handed_over[i] != 1)
            fail("a callback was handed over %u times", of->handed_over[i]);
        for (end kind = BY_RESPONSE; kind < BY_STOP; kind++) /* a sweep does not say what it won */
            if (of->won[kind][i] != (by == kind))
                fail("a callback ended by %s, and %s %s", end_names[by], end_names[kind],
                     of->won[kind][i] ? "won as well" : "did not win");
        self->ended[by]++;
        winners |= UINT64_C(1) << by;
    }
    self->rounds++;
    self->mixed += (winners & (winners - 1)) != 0;
}

static void run_round(race *self, teff__chance *chance, uint64_t round, uint32_t next_count)
{
    batch *of = &self->batches[round % 2];
    teff__atomic_u64_store_release(&self->round, round); /* pairs with racer_main */
    start_together(self, round, chance);
    if (teff__chance_next(chance) % 4 == 0) /* its time comes when another end has been first */
        sleep_until_news(self);
    time_out(self, of);
    for (uint32_t received = 0; received < of->count;) {
        const uint32_t some = receive(self, of);
        received += some;
        if (some == 0)
            sleep_until_news(self);
    }
    wait_for(self, BY_STOP, round);
    if (teff__registry_open_count(&self->registry) != 0)
        fail("callbacks are open when all were received");
    teff__atomic_u32_store_relaxed(&self->stripe->gate, TEFF__GATE_OPEN);
    if (next_count != 0)
        open_batch(self, &self->batches[(round + 1) % 2], next_count);
    wait_for(self, BY_RESPONSE, round);
    wait_for(self, BY_CANCEL, round);
    if (teff__atomic_u32_load_relaxed(&self->stripe->done) != 0)
        fail("more was handed over than was open");
    check_batch(self, of);
}

/* --- The whole -------------------------------------------------------------------------------- */

/* The next batch: a random power of two, or what is left of it. */
static uint32_t next_count(const race *self, teff__chance *chance, uint64_t callbacks)
{
    const uint64_t left = callbacks - self->opened;
    uint32_t count = 1U << teff__chance_next(chance) % (BATCH_BITS_MAX + 1);
    while (count > left)
        count /= 2;
    return count;
}

static void run(race *self, racer *racers, uint64_t callbacks, uint64_t seed)
{
    teff__chance chance;
    teff__chance_init(&chance, seed);
    teff__memory_init(&self->memory, 0);
    if (teff__registry_init(&self->registry, &self->memory, 1) != 0)
        fail("no registry");
    self->stripe = &self->registry.stripes[TEFF__STRIPES_WORKERS];
    for (end kind = BY_RESPONSE; kind < ENDS; kind++) {
        racers[kind] = (racer){ .race = self, .kind = kind };
        teff__chance_init(&racers[kind].chance, seed * 1009 + kind + 1);
        if (kind != BY_TIMEOUT &&
            teff__thread_start(&racers[kind].thread, racer_main, &racers[kind], "racer") != 0)
            fail("no thread");
    }
    uint64_t round = 1;
    open_batch(self, &self->batches[round % 2], next_count(self, &chance, callbacks));
    for (uint32_t next = 1; next != 0; round++) {
        next = next_count(self, &chance, callbacks);
        run_round(self, &chance, round, next);
    }
    teff__atomic_u64_store_release(&self->round, QUIT);
    for (end kind = BY_RESPONSE; kind < ENDS; kind++)
        if (kind != BY_TIMEOUT)
            teff__thread_join(&racers[kind].thread);
}

int main(int count, char **given)
{
    static race self;
    static racer racers[ENDS];
    unsigned long long callbacks = 1000000, seed = 1, seconds_max = 300;
    const argument known[] = {
        { "callbacks", &callbacks, 1, UINT64_C(1) << 40 },
        { "seed", &seed, 1, UINT32_MAX },
        { "seconds_max", &seconds_max, 1, 86400 },
    };
    arguments_read("stress_settle", known, sizeof(known) / sizeof(known[0]), count, given);
    watched = &self;
    watchdog_start(seconds_max, on_watchdog);
    run(&self, racers, callbacks, seed);
    const uint64_t open = teff__registry_open_count(&self.registry);
    uint64_t ended = 0;
    for (end kind = BY_RESPONSE; kind < ENDS; kind++) {
        printf("%-14s %10llu\n", end_names[kind], (unsigned long long)self.ended[kind]);
        ended += self.ended[kind];
    }
    printf("%-14s %10llu, in %llu of them several kinds won; the owner slept %llu times\n",
           "rounds", (unsigned long long)self.rounds, (unsigned long long)self.mixed,
           (unsigned long long)self.sleeps);
    if (open != 0 || ended != callbacks || self.opened != callbacks)
        fail("%llu callbacks ended of %llu; %llu are open", (unsigned long long)ended, callbacks,
             (unsigned long long)open);
    for (end kind = BY_RESPONSE; kind < ENDS; kind++)
        if (self.ended[kind] == 0)
            fail("a %s never won", end_names[kind]);
    teff__registry_finish(&self.registry);
    printf("stress_settle: passed: %llu callbacks, seed %llu\n", callbacks, seed);
    return 0;
}
