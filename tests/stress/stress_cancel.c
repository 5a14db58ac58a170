/* SPDX-License-Identifier: MIT */
/*
 * Sources that fire while the calls under them are opened, answered, and end otherwise.
 *
 *   stress_cancel [threads=2] [rounds=1000] [calls=6] [workers=2] [seed=1] [seconds_max=300]
 *
 * Each of `threads` threads has a client and a companion. A round makes a source and gives it to the
 * companion, which fires it a random moment later and lets it go; meanwhile the thread makes up to
 * `calls` calls under it, awaited, started, with a completion, and one way, with a buffer there and
 * back, and spawns a task of a worker that does the same. Half of the calls wait for what the callee
 * says. Turns nap, some until the source fires, and have functions called when it does; some hand
 * the source on to a call of their own. Every call ends once: answered, with the very buffer, or
 * cancelled; one that certainly did not run did not. A call that is made after the source was seen
 * to have fired is refused. A function runs at most once, never after its turn has ended. Every
 * eighth round the client goes, with all that is open. At the end no callback, buffer or source is
 * left, calls were cancelled before they were sent, while they were queued, and while they ran, and
 * as many ended as were opened.
 */
#include "stress_calls_common.h"

#include "messaging/cancel.h"
#include "runtime/chance.h"
#include "runtime/silo.h"
#include "runtime/thread.h"

#include "teff.h"

#include <sched.h>
#include <time.h>

#define HOUR_NS INT64_C(3600000000000)

enum { THREADS_MAX = 32, CALLS_MAX = 64, GRAINS = 16, CLIENT_ROUNDS = 8 };

typedef struct stress {
    teff_silo *silo;
    unsigned long long threads, rounds, calls, workers, seed, seconds_max;
    teff__atomic_u64 turns, notes; /* that ran: of calls, and of one-way ones */
    teff__atomic_u64 told, cut;    /* functions that ran, naps that ended early */
    teff__atomic_u64 handed_on;    /* calls of turns */
    teff__atomic_u64 rounds_ended;
} stress;

/* What became of calls. A task's are written by its worker, and read when it has been claimed. */
typedef struct tally {
    uint64_t answered, cancelled, unsent, made, sent;
} tally;

typedef struct holder {
    stress *stress;
    teff__thread thread, companion;
    teff__chance chance, companion_chance;
    teff_client *client;
    teff_bytes *bytes;
    teff__atomic_pointer source; /* on its way to the companion */
    teff__atomic_u32 quit;
    tally own, tasks;
    uint64_t completions_due, completed, sources, dropped;
} holder;

static const stress *watched;

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs: %llu of %llu rounds ended, %llu callbacks are open",
         (unsigned long long)teff__atomic_u64_load_relaxed(&watched->rounds_ended),
         watched->rounds * watched->threads,
         (unsigned long long)teff__silo_open_count(watched->silo));
}

/* --- The grain -------------------------------------------------------------------------------- */

struct parcel {
    teff_bytes *bytes;
    int64_t nap_ns; /* -1: none */
};
#define DEPOT_METHODS(METHOD, SELF)                                                                \
    METHOD(SELF, pass, struct parcel, struct parcel, TEFF_ARG_BYTES(1) | TEFF_RET_BYTES(1))        \
    METHOD(SELF, note, struct parcel, teff_none, TEFF_ARG_BYTES(1) | TEFF_ONE_WAY)
TEFF_INTERFACE(depot, DEPOT_METHODS);
struct depot {
    uint64_t passed;
};
TEFF_GRAIN(depot, DEPOT_METHODS);

/* In the frame of a turn. */
typedef struct watch {
    stress *of;
    const teff_turn *turn; /* NULL: it has ended */
    uint64_t *passed;      /* of its grain, which nobody else touches meanwhile */
    unsigned told;
} watch;

static void on_told(void *user)
{
    watch *self = user;
    if (self->turn == NULL || self->told++ != 0)
        fail("a function ran twice, or after its turn");
    if (!teff_cancel_fired(teff_turn_cancel(self->turn)))
        fail("a function ran, and the source has not fired");
    (*self->passed)++;
    (void)teff__atomic_u64_add_relaxed(&self->of->told, 1);
}

/* The next grain naps, under the same source. Never in a circle. */
static void hand_on(teff_turn *turn, stress *of, const struct parcel *arg)
{
    const teff_call_options options = { .struct_size = sizeof(options),
                                        .cancel = teff_turn_cancel(turn),
                                        .cancel_waits = arg->nap_ns % 4 == 0 };
    depot_ref next = depot_at(GRAINS + (uint64_t)arg->nap_ns % GRAINS);
    const struct parcel parcel = { arg->bytes, arg->nap_ns | 1 };
    struct parcel ret = { 0 };
    (void)teff__atomic_u64_add_relaxed(&of->handed_on, 1);
    const int r = depot_pass(teff_with(turn, &options), &next, &parcel, &ret);
    if (r != 0 && r != TEFF_ECANCELED)
        fail("a turn's call ended with %s", teff_status_name(r));
    if ((r == 0 ? arg->bytes : NULL) != ret.bytes)
        fail("a turn's call has another result");
    teff_bytes_unref(ret.bytes);
}

static int depot_on_pass(teff_turn *turn, struct depot *self, const struct parcel *arg,
                         struct parcel *ret)
{
    stress *of = teff_turn_context(turn);
    watch watched_turn = { of, turn, &self->passed, 0 };
    (void)teff__atomic_u64_add_relaxed(&of->turns, 1);
    self->passed++;
    int r = teff_turn_on_cancel(turn, on_told, &watched_turn);
    if (r != 0 && r != TEFF_ECANCELED)
        fail("a function: %s", teff_status_name(r));
    if (arg->nap_ns > 0 && arg->nap_ns % 2 == 0)
        hand_on(turn, of, arg);
    else if (arg->nap_ns >= 0 && (r = teff_sleep(turn, arg->nap_ns)) == TEFF_ECANCELED)
        (void)teff__atomic_u64_add_relaxed(&of->cut, 1);
    watched_turn.turn = NULL;
    /* Some give up when they are told to, others do what they were asked for. */
    if (r == TEFF_ECANCELED && arg->nap_ns % 3 == 0)
        return r;
    ret->bytes = teff_bytes_ref(arg->bytes);
    return 0;
}

static int depot_on_note(teff_turn *turn, struct depot *self, const struct parcel *arg,
                         teff_none *ret)
{
    stress *of = teff_turn_context(turn);
    (void)ret;
    (void)teff__atomic_u64_add_relaxed(&of->notes, 1);
    self->passed += teff_bytes_size(arg->bytes) != 0;
    return 0;
}

/* --- Calls ------------------------------------------------------------------------------------ */

static uint64_t below(teff__chance *chance, uint64_t bound)
{
    return teff__chance_next(chance) % bound;
}

/* What the next call is made with: half of them wait for the callee. */
static teff_caller *with(teff_caller *caller, const teff_call_options *options,
                         teff__chance *chance)
{
    teff_call_options changed = *options;
    changed.cancel_waits = below(chance, 2) == 0;
    return teff_with(caller, &changed);
}

/* Most do not nap; of those that do some would for an hour, and end only since the source fires. */
static struct parcel parcel_of(teff__chance *chance, teff_bytes *bytes)
{
    const uint64_t kind = below(chance, 12);
    const int64_t nap_ns = kind == 0  ? HOUR_NS + (int64_t)below(chance, 2)
                           : kind < 4 ? (int64_t)below(chance, 100000)
                                      : -1;
    return (struct parcel){ bytes, nap_ns };
}

static void count(tally *to, const teff_caller *caller, int r, const struct parcel *ret,
                  const teff_bytes *bytes)
{
    if (r == 0 && ret->bytes != bytes)
        fail("an answer has another buffer");
    if (r != 0 && r != TEFF_ECANCELED)
        fail("a call ended with %s", teff_status_name(r));
    if (r != 0 && ret->bytes != NULL)
        fail("a cancelled call touched its result");
    to->answered += r == 0;
    to->cancelled += r != 0;
    to->unsent += r != 0 && !teff_outcome_last(caller)->may_have_run;
    to->made++;
    teff_bytes_unref(ret->bytes);
}

/* Whether the source had fired before the call: then it must be refused. */
static void check_refused(bool fired, int r, const teff_caller *caller)
{
    if (fired && (r != TEFF_ECANCELED || teff_outcome_last(caller)->may_have_run))
        fail("a call under a source that had fired ended with %s", teff_status_name(r));
}

static void await(teff_caller *caller, const teff_call_options *options, teff__chance *chance,
                  teff_bytes *bytes, tally *to)
{
    depot_ref depot = depot_at(below(chance, GRAINS));
    struct parcel ret = { 0 };
    const struct parcel arg = parcel_of(chance, bytes);
    const bool fired = teff__cancel_fired(options->cancel);
    const int r = depot_pass(with(caller, options, chance), &depot, &arg, &ret);
    check_refused(fired, r, caller);
    count(to, caller, r, &ret, bytes);
}

static teff_future start(teff_caller *caller, const teff_call_options *options,
                         teff__chance *chance, teff_bytes *bytes)
{
    depot_ref depot = depot_at(below(chance, GRAINS));
    const struct parcel arg = parcel_of(chance, bytes);
    return depot_pass_start(with(caller, options, chance), &depot, &arg);
}

static void send_note(teff_caller *caller, const teff_call_options *options, teff__chance *chance,
                      teff_bytes *bytes, tally *to)
{
    depot_ref depot = depot_at(below(chance, GRAINS));
    const struct parcel arg = { bytes, -1 };
    const bool fired = teff__cancel_fired(options->cancel);
    const int r = depot_note_send(with(caller, options, chance), &depot, &arg);
    if (r != 0 && r != TEFF_ECANCELED)
        fail("a send: %s", teff_status_name(r));
    check_refused(fired, r, caller);
    to->sent += r == 0;
}

static void claim(teff_caller *caller, teff_future future, const teff_bytes *bytes, tally *to)
{
    struct parcel ret = { 0 };
    const int r = depot_pass_claim(caller, future, &ret);
    count(to, caller, r, &ret, bytes);
}

static void completed(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct parcel *ret)
{
    holder *self = user;
    if (caller != self->client)
        fail("a completion has another caller");
    if (outcome->code != 0 && outcome->code != TEFF_ECANCELED)
        fail("a completion was told %s", teff_status_name(outcome->code));
    if ((outcome->code == 0) != (ret != NULL))
        fail("a completion has a result and failed, or none and did not");
    self->completed++;
    self->own.answered += outcome->code == 0;
    self->own.cancelled += outcome->code != 0;
    self->own.unsent += outcome->code != 0 && !outcome->may_have_run;
    self->own.made++;
    if (ret != NULL)
        teff_bytes_unref(ret->bytes);
}

static void then(holder *self, const teff_call_options *options)
{
    depot_ref depot = depot_at(below(&self->chance, GRAINS));
    const struct parcel arg = parcel_of(&self->chance, self->bytes);
    const bool fired = teff__cancel_fired(options->cancel);
    const int r =
        depot_pass_then(with(self->client, options, &self->chance), &depot, &arg, completed, self);
    if (r != 0 && r != TEFF_ECANCELED)
        fail("a call with a completion: %s", teff_status_name(r));
    if (fired && r == 0)
        fail("a call under a source that had fired was sent");
    self->completions_due += r == 0;
    self->own.made += r != 0;
    self->own.cancelled += r != 0;
    self->own.unsent += r != 0;
}

/* --- A worker's ------------------------------------------------------------------------------- */

typedef struct job {
    holder *holder;
    teff_cancel *cancel; /* a count of its own */
    teff__chance chance;
    tally tally;
} job;

static int run_job(teff_task *task, void *user)
{
    job *self = user;
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = self->cancel };
    teff_future futures[3];
    for (int i = 0; i < 3; i++)
        futures[i] = start(task, &options, &self->chance, self->holder->bytes);
    send_note(task, &options, &self->chance, self->holder->bytes, &self->tally);
    await(task, &options, &self->chance, self->holder->bytes, &self->tally);
    for (int i = 0; i < 3; i++)
        claim(task, futures[i], self->holder->bytes, &self->tally);
    self->cancel = teff_cancel_unref(self->cancel);
    return 42;
}

/* --- The companion ---------------------------------------------------------------------------- */

static void companion_main(void *user)
{
    holder *self = user;
    while (teff__atomic_u32_load_acquire(&self->quit) == 0) {
        teff_cancel *cancel = teff__atomic_pointer_exchange_acq_rel(&self->source, NULL);
        if (cancel == NULL) {
            (void)sched_yield();
            continue;
        }
        for (uint64_t spins = below(&self->companion_chance, 20000); spins > 0; spins--)
            teff__cpu_relax();
        teff_cancel_fire(cancel);
        teff_cancel_unref(cancel);
    }
}

static void hand_over(holder *self, teff_cancel *cancel)
{
    void *none = NULL;
    (void)teff_cancel_ref(cancel);
    while (!teff__atomic_pointer_cas_acq_rel(&self->source, &none, cancel)) {
        none = NULL;
        (void)sched_yield();
    }
}

/* --- A round ---------------------------------------------------------------------------------- */

static void come(holder *self)
{
    const int r = teff_client_create(self->stress->silo, NULL, &self->client);
    if (r != 0)
        fail("no client: %s", teff_status_name(r));
}

static void run_completions(holder *self)
{
    while (self->completed < self->completions_due)
        if (teff_client_run(self->client, INT64_C(10000000000)) != 0)
            fail("completions do not come");
}

static void round_of(holder *self, bool leaving)
{
    stress *of = self->stress;
    teff_cancel *cancel = NULL;
    teff_future futures[CALLS_MAX], task = { 0 };
    uint64_t started = 0;
    if (teff_cancel_create(of->silo, &cancel) != 0)
        fail("no source");
    self->sources++;
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = cancel };
    job work = { .holder = self, .cancel = teff_cancel_ref(cancel) };
    teff__chance_init(&work.chance, teff__chance_next(&self->chance));
    hand_over(self, cancel);
    if (teff_silo_spawn(of->silo, TEFF_WORKER_ANY, run_job, &work, self->client, &task) != 0)
        fail("a task is refused");
    for (uint64_t left = below(&self->chance, of->calls) + 1; left > 0; left--) {
        switch (below(&self->chance, 4)) {
        case 0:
            await(self->client, &options, &self->chance, self->bytes, &self->own);
            break;
        case 1:
            futures[started++] = start(self->client, &options, &self->chance, self->bytes);
            break;
        case 2:
            send_note(self->client, &options, &self->chance, self->bytes, &self->own);
            break;
        default:
            then(self, &options);
            break;
        }
    }
    cancel = teff_cancel_unref(cancel); /* the calls go on under it, and the companion fires it */
    int result = 0;
    if (teff_task_claim(self->client, task, &result) != 0 || result != 42)
        fail("a task was lost");
    self->tasks.answered += work.tally.answered;
    self->tasks.cancelled += work.tally.cancelled;
    self->tasks.unsent += work.tally.unsent;
    self->tasks.made += work.tally.made;
    self->tasks.sent += work.tally.sent;
    if (leaving) {
        self->dropped += started;
        if (teff_client_destroy(self->client) != NULL)
            fail("a client does not go");
        if (self->completed != self->completions_due)
            fail("a client went, and a completion did not run");
        come(self);
        return;
    }
    for (uint64_t i = 0; i < started; i++)
        claim(self->client, futures[i], self->bytes, &self->own);
    run_completions(self);
}

static void holder_main(void *user)
{
    holder *self = user;
    if (teff_bytes_create(self->stress->silo, "cancelled or not", 16, &self->bytes) != 0)
        fail("no buffer");
    come(self);
    for (uint64_t i = 0; i < self->stress->rounds; i++) {
        round_of(self, i % CLIENT_ROUNDS == CLIENT_ROUNDS - 1);
        (void)teff__atomic_u64_add_relaxed(&self->stress->rounds_ended, 1);
    }
    if (teff_client_destroy(self->client) != NULL)
        fail("a client does not go");
    while (teff__atomic_pointer_load_acquire(&self->source) != NULL)
        (void)sched_yield();
    teff__atomic_u32_store_release(&self->quit, 1);
    teff__thread_join(&self->companion);
    teff_bytes_unref(self->bytes);
}

/* --- Before and after ------------------------------------------------------------------------- */

static void begin(stress *self)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = (uint32_t)self->workers,
                                        .seed = self->seed };
    int r = teff_silo_create(&options, &self->silo);
    if (r == 0)
        r = teff_silo_register(self->silo, &depot_grain, self);
    if (r == 0)
        r = teff_silo_start(self->silo);
    if (r != 0)
        fail("no silo: %s", teff_status_name(r));
}

static void show(const char *name, uint64_t value)
{
    printf("%-24s %10llu\n", name, (unsigned long long)value);
}

/* Every call that was opened ended in one of the ways that there are, and in each that we want. */
static void check_counts(const stress *self)
{
    static const teff_end wanted[] = { TEFF_END_RESPONSE, TEFF_END_CANCELED_UNSENT,
                                       TEFF_END_CANCELED_QUEUED, TEFF_END_CANCELED_RUNNING };
    teff_counts counts = { .struct_size = sizeof(counts) };
    uint64_t ended = 0;
    if (teff_silo_counts(self->silo, &counts) != 0)
        fail("no counts");
    for (int i = 0; i < TEFF_ENDS; i++)
        ended += counts.ended[i];
    if (ended != counts.opened || counts.open != 0 || counts.unknown != 0)
        fail("%llu calls were opened, %llu ended, %llu are open, %llu answers are to none",
             (unsigned long long)counts.opened, (unsigned long long)ended,
             (unsigned long long)counts.open, (unsigned long long)counts.unknown);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (self->rounds >= 500 && counts.ended[wanted[i]] == 0)
            fail("no call ended in way %d", (int)wanted[i]);
    show("ended: not sent", counts.ended[TEFF_END_CANCELED_UNSENT]);
    show("ended: queued", counts.ended[TEFF_END_CANCELED_QUEUED]);
    show("ended: running", counts.ended[TEFF_END_CANCELED_RUNNING]);
    show("late answers", counts.late);
}

static void check_end(const stress *self, const tally *sum, uint64_t dropped)
{
    const uint64_t handed_on = teff__atomic_u64_load_relaxed(&self->handed_on);
    if (teff_silo_stop(self->silo) != 0)
        fail("the silo does not stop");
    const uint64_t open = teff__silo_open_count(self->silo);
    if (open != 0)
        fail("%llu callbacks are open", (unsigned long long)open);
    const uint64_t turns = teff__atomic_u64_load_relaxed(&self->turns);
    if (sum->answered + sum->cancelled != sum->made)
        fail("%llu calls ended of %llu", (unsigned long long)(sum->answered + sum->cancelled),
             (unsigned long long)sum->made);
    if (turns < sum->answered || turns > sum->made - sum->unsent + dropped + handed_on)
        fail("%llu turns ran of %llu calls that were answered and %llu that may have run",
             (unsigned long long)turns, (unsigned long long)sum->answered,
             (unsigned long long)(sum->made - sum->unsent + dropped + handed_on));
    const uint64_t notes = teff__atomic_u64_load_relaxed(&self->notes);
    if (notes > sum->sent)
        fail("%llu one-way turns ran of %llu sent", (unsigned long long)notes,
             (unsigned long long)sum->sent);
    check_counts(self);
    if (teff_silo_destroy(self->silo) != NULL)
        fail("a buffer or a source is left");
}

static void add(tally *sum, const tally *each)
{
    sum->answered += each->answered;
    sum->cancelled += each->cancelled;
    sum->unsent += each->unsent;
    sum->made += each->made;
    sum->sent += each->sent;
}

int main(int count_given, char **given)
{
    static stress self = {
        .threads = 2, .rounds = 1000, .calls = 6, .workers = 2, .seed = 1, .seconds_max = 300
    };
    static holder holders[THREADS_MAX];
    const argument known[] = {
        { "threads", &self.threads, 1, THREADS_MAX },
        { "rounds", &self.rounds, 1, 10000000 },
        { "calls", &self.calls, 1, CALLS_MAX },
        { "workers", &self.workers, 1, 64 },
        { "seed", &self.seed, 1, UINT32_MAX },
        { "seconds_max", &self.seconds_max, 1, 86400 },
    };
    tally clients = { 0 }, tasks = { 0 }, sum = { 0 };
    uint64_t sources = 0, dropped = 0;
    arguments_read("stress_cancel", known, sizeof(known) / sizeof(known[0]), count_given, given);
    begin(&self);
    watched = &self;
    watchdog_start(self.seconds_max, on_watchdog);
    for (uint32_t i = 0; i < self.threads; i++) {
        holders[i].stress = &self;
        teff__chance_init(&holders[i].chance, self.seed * 1013 + i + 1);
        teff__chance_init(&holders[i].companion_chance, self.seed * 2027 + i + 1);
        if (teff__thread_start(&holders[i].companion, companion_main, &holders[i], "companion") ||
            teff__thread_start(&holders[i].thread, holder_main, &holders[i], "holder"))
            fail("no thread");
    }
    for (uint32_t i = 0; i < self.threads; i++) {
        teff__thread_join(&holders[i].thread);
        add(&clients, &holders[i].own);
        add(&tasks, &holders[i].tasks);
        sources += holders[i].sources;
        dropped += holders[i].dropped;
    }
    add(&sum, &clients);
    add(&sum, &tasks);
    check_end(&self, &sum, dropped);
    show("sources", sources);
    show("calls of clients", clients.made);
    show("  answered", clients.answered);
    show("  cancelled", clients.cancelled);
    show("  of these, not sent", clients.unsent);
    show("calls of tasks", tasks.made);
    show("  answered", tasks.answered);
    show("  cancelled", tasks.cancelled);
    show("  of these, not sent", tasks.unsent);
    show("futures left", dropped);
    show("one way", sum.sent);
    show("  that ran", teff__atomic_u64_load_relaxed(&self.notes));
    show("functions that ran", teff__atomic_u64_load_relaxed(&self.told));
    show("naps that ended early", teff__atomic_u64_load_relaxed(&self.cut));
    printf("stress_cancel: passed: seed %llu, %llu threads\n", self.seed, self.threads);
    return 0;
}
