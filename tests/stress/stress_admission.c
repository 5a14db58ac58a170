/* SPDX-License-Identifier: MIT */
/*
 * Calls that are opened while the silo stops.
 *
 *   stress_admission [rounds=1000] [threads=8] [workers=2] [seed=1] [seconds_max=300]
 *
 * In each round `threads` threads, each with a client, open calls of every form until one is
 * refused, while the silo stops; now and then one of them stops it, or goes before it stops. What a
 * thread does when it is refused differs:
 *
 *   DRAIN      claims its futures and runs its completions, while stop goes on
 *   LINGER     does so only when stop has returned: nothing of its is open by then
 *   GO         is gone at once, with all that is open
 *   STOP       stops the silo itself: its completions have run when stop returns
 *
 * Each call that was taken ends once, with its own answer, or as refused by stop (cancelled, if its
 * client went; timed out, if it had a timeout); none of those that were refused ends. A completion
 * that is told of a failure calls again: refused at once, wherever stop was what failed it, and so
 * the retries end. No completion runs inside a call, or within another one. As many turns run as
 * the outcomes allow, and none when stop has returned.
 */
#include "stress_calls_common.h"

#include "messaging/client.h"
#include "runtime/chance.h"
#include "runtime/silo.h"
#include "runtime/thread.h"

#include "teff.h"

#include <sched.h>
#include <semaphore.h>
#include <time.h>

enum {
    THREADS_MAX = 32,
    GRAINS = 16,
    THENS_MAX = 512,  /* calls with a completion, of a thread in a round */
    STARTED_MAX = 16, /* futures of a thread that are not claimed yet */
    RETRIES_MAX = 3,
    SWING_NS_MAX = 400000
};
#define UNTOUCHED  UINT64_C(0xdeadbeef)
#define TIMEOUT_NS INT64_C(30000)

typedef enum role { DRAIN, LINGER, GO, STOP, ROLES } role;

struct opener;

/* A call with a completion. */
typedef struct then {
    struct opener *opener;
    uint64_t stamp;
    uint32_t ended; /* how often */
    bool taken, hurried;
} then;

typedef struct started {
    teff_future future;
    uint64_t stamp;
    bool hurried;
} started;

typedef struct stress {
    unsigned long long threads, workers, rounds, seed, seconds_max;
    teff_silo *silo;
    sem_t ready, ended;
    teff__atomic_u64 turns, turns_at_stop; /* of the round */
    teff__atomic_u32 stopped;              /* stop has returned, to somebody */
    teff__atomic_u32 all_there;            /* every thread has its client */
} stress;

typedef struct opener {
    stress *stress;
    teff__thread thread;
    teff__chance chance;
    sem_t begin;
    teff_client *client;
    role role;
    bool quit;
    bool completes; /* completions may run here: not inside a call */
    bool going;     /* the client is being destroyed */
    uint32_t depth; /* of completions that run */
    uint32_t then_count, started_count;
    uint64_t stamp;
    /* of the round: calls that succeeded; that did not, but may have run; that were sent */
    uint64_t succeeded, uncertain, dropped; /* dropped: futures, with their client */
    uint64_t opened, completed, refused, retried, late, by_itself; /* of all rounds */
    started started[STARTED_MAX];
    then thens[THENS_MAX];
} opener;

static unsigned long long stage_round;

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs in round %llu", stage_round);
}

static void check(int r, const char *what)
{
    if (r != 0)
        fail("round %llu: %s: %s", stage_round, what, teff_status_name(r));
}

/* --- The grain -------------------------------------------------------------------------------- */

struct question {
    uint64_t stamp;
    int64_t nap_ns; /* -1: none */
};
#define DESK_METHODS(METHOD, SELF) METHOD(SELF, ask, struct question, uint64_t, 0)
TEFF_INTERFACE(desk, DESK_METHODS);
struct desk {
    uint64_t asked;
};
TEFF_GRAIN(desk, DESK_METHODS);

static int desk_on_ask(teff_turn *turn, struct desk *self, const struct question *arg,
                       uint64_t *ret)
{
    stress *of = teff_turn_context(turn);
    (void)teff__atomic_u64_add_relaxed(&of->turns, 1);
    self->asked++;
    *ret = arg->stamp;
    return arg->nap_ns >= 0 ? teff_sleep(turn, arg->nap_ns) : 0;
}

/* --- Calls ------------------------------------------------------------------------------------ */

static uint64_t below(opener *self, uint64_t bound)
{
    return teff__chance_next(&self->chance) % bound;
}

static struct question next_question(opener *self)
{
    return (struct question){ ++self->stamp,
                              below(self, 16) == 0 ? (int64_t)below(self, 200000) : -1 };
}

static bool is_refusal(int r)
{
    return r == TEFF_EUNAVAILABLE || r == TEFF_EINVALIDSTATE;
}

/* A call was not even opened: only stop and the client's end do that. */
static bool was_refused(opener *self, int r)
{
    if (r == 0)
        return false;
    if (!is_refusal(r))
        fail("round %llu: a call is refused with %s", stage_round, teff_status_name(r));
    self->refused++;
    return true;
}

/* How a call that was opened has ended. */
static void count_end(opener *self, int r, bool may_have_run, bool hurried)
{
    const bool allowed = r == 0 || r == TEFF_EUNAVAILABLE || (hurried && r == TEFF_ETIMEDOUT) ||
                         (self->going && r == TEFF_ECANCELED);
    if (!allowed)
        fail("round %llu: a call ended with %s", stage_round, teff_status_name(r));
    self->succeeded += r == 0;
    self->uncertain += r != 0 && may_have_run;
    self->completed++;
}

static void completed(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const uint64_t *ret);

/* False: refused. */
static bool open_then(opener *self)
{
    if (self->then_count == THENS_MAX)
        return true;
    then *record = &self->thens[self->then_count++];
    desk_ref to = desk_at(below(self, GRAINS));
    const struct question arg = next_question(self);
    *record = (then){ .opener = self, .stamp = arg.stamp, .hurried = below(self, 8) == 0 };
    const bool completes = self->completes;
    self->completes = false;
    const int r =
        desk_ask_then(record->hurried ? teff_within(self->client, TIMEOUT_NS) : self->client, &to,
                      &arg, completed, record);
    self->completes = completes;
    record->taken = r == 0;
    self->opened += record->taken;
    return !was_refused(self, r);
}

/* A future that was refused holds its status, and is claimed like any. */
static bool claim_first(opener *self)
{
    const started first = self->started[0];
    uint64_t ret = UNTOUCHED;
    memmove(self->started, self->started + 1, --self->started_count * sizeof(first));
    const int r = desk_ask_claim(self->client, first.future, &ret);
    if (ret != (r == 0 ? first.stamp : UNTOUCHED))
        fail("round %llu: a claim has another call's result", stage_round);
    count_end(self, r, teff_outcome_last(self->client)->may_have_run, first.hurried);
    if (desk_ask_claim(self->client, first.future, &ret) == 0)
        fail("round %llu: a future was claimed twice", stage_round);
    return r == 0;
}

static bool open_start(opener *self)
{
    desk_ref to = desk_at(below(self, GRAINS));
    const struct question arg = next_question(self);
    const bool hurried = below(self, 8) == 0;
    if (self->started_count == STARTED_MAX)
        (void)claim_first(self);
    self->started[self->started_count++] =
        (started){ .future = desk_ask_start(
                       hurried ? teff_within(self->client, TIMEOUT_NS) : self->client, &to, &arg),
                   .stamp = arg.stamp,
                   .hurried = hurried };
    self->opened++;
    return true; /* its claim tells */
}

static bool open_await(opener *self)
{
    desk_ref to = desk_at(below(self, GRAINS));
    const struct question arg = next_question(self);
    uint64_t ret = UNTOUCHED;
    const int r = desk_ask(self->client, &to, &arg, &ret);
    if (ret != (r == 0 ? arg.stamp : UNTOUCHED))
        fail("round %llu: an awaited call has another one's result", stage_round);
    self->opened++;
    count_end(self, r, teff_outcome_last(self->client)->may_have_run, false);
    return r == 0;
}

static bool open_send(opener *self)
{
    desk_ref to = desk_at(below(self, GRAINS));
    const struct question arg = next_question(self);
    const int r = desk_ask_send(self->client, &to, &arg);
    self->uncertain += r == 0;
    return !was_refused(self, r);
}

/* Runs what is ready. TEFF_EUNAVAILABLE: and nothing more will be. */
static int run_completions(opener *self, int64_t timeout_ns)
{
    self->completes = true;
    const int r = teff_client_run(self->client, timeout_ns);
    self->completes = false;
    return r;
}

/* One call, or one look at the completions. False: refused, for good. */
static bool open_any(opener *self)
{
    switch (below(self, 8)) {
    case 0:
        return open_await(self);
    case 1:
        return open_send(self);
    case 2:
        return run_completions(self, 0) != TEFF_EUNAVAILABLE;
    case 3:
        if (self->started_count != 0)
            (void)claim_first(self);
        return true;
    case 4:
    case 5:
        return open_start(self);
    default:
        return open_then(self);
    }
}

/* Code that tries again when it is told of a failure; stop is what ends it. */
static void retry(opener *self, bool stopped)
{
    bool refused = false;
    for (int i = 0; i < RETRIES_MAX && !refused; i++) {
        const bool waits = self->then_count < THENS_MAX && below(self, 2) == 0;
        refused = !(waits ? open_then(self) : open_send(self));
        self->retried++;
        if (stopped && !refused)
            fail("round %llu: a retry is taken after stop refused a call", stage_round);
    }
}

static void completed(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const uint64_t *ret)
{
    then *record = user;
    opener *self = record->opener;
    if (caller != self->client)
        fail("round %llu: a completion has another caller", stage_round);
    if (!self->completes || self->depth != 0)
        fail("round %llu: a completion runs inside a call or another one", stage_round);
    if (!record->taken || record->ended++ != 0)
        fail("round %llu: a completion runs %s", stage_round,
             record->taken ? "twice" : "and its call was refused");
    if (ret != NULL ? outcome->code != 0 || *ret != record->stamp : outcome->code == 0)
        fail("round %llu: a completion has another call's result", stage_round);
    count_end(self, outcome->code, outcome->may_have_run, record->hurried);
    self->depth++;
    if (outcome->code != 0)
        retry(self, outcome->code != TEFF_ETIMEDOUT);
    else if (below(self, 2) == 0)
        (void)open_then(self);
    self->depth--;
}

/* --- A round of a thread ---------------------------------------------------------------------- */

static uint32_t thens_ended(const opener *self)
{
    uint32_t ended = 0;
    for (uint32_t i = 0; i < self->then_count; i++)
        ended += self->thens[i].ended;
    return ended;
}

static void check_refusals(opener *self)
{
    while (self->started_count != 0)
        (void)claim_first(self);
    if (open_await(self) || open_send(self))
        fail("round %llu: a call is taken after one was refused", stage_round);
    (void)open_start(self);
    if (claim_first(self))
        fail("round %llu: a call is started after one was refused", stage_round);
    if (self->then_count < THENS_MAX && open_then(self))
        fail("round %llu: a call is taken after one was refused", stage_round);
}

static void drain(opener *self)
{
    check_refusals(self);
    for (int r; (r = run_completions(self, INT64_MAX)) != TEFF_EUNAVAILABLE;)
        check(r, "run");
    for (uint32_t i = 0; i < self->then_count; i++)
        if (self->thens[i].ended != self->thens[i].taken)
            fail("round %llu: a completion has not run when none will come", stage_round);
}

static void wait_for_stop(const opener *self)
{
    while (teff__atomic_u32_load_acquire(&self->stress->stopped) == 0)
        (void)sched_yield();
}

/* Stop has returned: whatever this thread opened has ended, though it may not know yet. */
static void check_nothing_open(opener *self)
{
    uint32_t slot = 0;
    if (teff__stripe_next_open(teff__client_of(self->client)->stripe, &slot) != 0)
        fail("round %llu: a call is open, and stop has returned", stage_round);
    const uint32_t ended = thens_ended(self);
    drain(self);
    self->late += thens_ended(self) - ended;
}

static void note_stopped(stress *self)
{
    const uint64_t turns = teff__atomic_u64_load_acquire(&self->turns);
    teff__atomic_u64_store_relaxed(&self->turns_at_stop, turns);
    teff__atomic_u32_store_release(&self->stopped, 1); /* pairs with wait_for_stop */
}

/* Its own completions run while it waits for stop, and none is left then. */
static void stop_it(opener *self)
{
    self->completes = true;
    check(teff_silo_stop(self->stress->silo), "stop");
    self->completes = false;
    note_stopped(self->stress);
    const uint32_t ended = thens_ended(self);
    check_nothing_open(self);
    if (thens_ended(self) != ended)
        fail("round %llu: a completion ran when stop had returned to its thread", stage_round);
    self->by_itself++;
}

static void leave(opener *self)
{
    self->completes = self->going = true;
    if (teff_client_destroy(self->client) != NULL)
        fail("round %llu: a client does not go", stage_round);
    self->completes = self->going = false;
    for (uint32_t i = 0; i < self->then_count; i++)
        if (self->thens[i].ended != self->thens[i].taken)
            fail("round %llu: a client went, and a completion had not run", stage_round);
    self->uncertain += self->started_count;
    self->dropped += self->started_count;
    self->completed += self->started_count;
    self->started_count = self->then_count = 0;
}

/* Who stops the silo, or goes, may do so before it is refused. */
static void open_until_refused(opener *self)
{
    const bool early = self->role == STOP || self->role == GO;
    while (open_any(self) && !(early && below(self, 256) == 0))
        continue;
    while (teff__atomic_u32_load_acquire(&self->stress->all_there) == 0)
        (void)sched_yield();
}

static void take_part(opener *self)
{
    const int r = teff_client_create(self->stress->silo, NULL, &self->client);
    (void)sem_post(&self->stress->ready);
    check(r, "a client");
    open_until_refused(self);
    switch (self->role) {
    case DRAIN:
        drain(self);
        break;
    case LINGER:
        wait_for_stop(self);
        check_nothing_open(self);
        break;
    case STOP:
        stop_it(self);
        break;
    default:
        break;
    }
    leave(self);
}

static void opener_main(void *user)
{
    opener *self = user;
    for (;;) {
        while (sem_wait(&self->begin) != 0) {
        }
        if (self->quit)
            return;
        take_part(self);
        (void)sem_post(&self->stress->ended);
    }
}

/* --- A round ---------------------------------------------------------------------------------- */

static void await_all(sem_t *posts, unsigned long long count)
{
    while (count > 0)
        count -= sem_wait(posts) == 0;
}

static void begin(stress *self, opener *openers, teff__chance *chance)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = (uint32_t)self->workers,
                                        .seed = teff__chance_next(chance) | 1 };
    check(teff_silo_create(&options, &self->silo), "create");
    check(teff_silo_register(self->silo, &desk_grain, self), "register");
    check(teff_silo_start(self->silo), "start");
    teff__atomic_u64_store_relaxed(&self->turns, 0);
    teff__atomic_u32_store_relaxed(&self->stopped, 0);
    teff__atomic_u32_store_relaxed(&self->all_there, 0);
    for (uint32_t i = 0; i < self->threads; i++) {
        openers[i].role = (role)(teff__chance_next(chance) % STOP);
        openers[i].succeeded = openers[i].uncertain = openers[i].dropped = 0;
    }
    if (teff__chance_next(chance) % 4 == 0)
        openers[teff__chance_next(chance) % self->threads].role = STOP;
    for (uint32_t i = 0; i < self->threads; i++)
        (void)sem_post(&openers[i].begin);
    await_all(&self->ready, self->threads);
    teff__atomic_u32_store_release(&self->all_there, 1); /* pairs with open_until_refused */
}

/*
 * The silo's own account of the round. Only a future that was dropped may have been answered and
 * nobody saw it.
 */
static void check_counts(const stress *self, uint64_t succeeded, uint64_t dropped)
{
    static const teff_end allowed[] = { TEFF_END_RESPONSE, TEFF_END_TIMED_OUT,
                                        TEFF_END_CANCELED_RUNNING, TEFF_END_STOPPED };
    teff_counts counts = { .struct_size = sizeof(counts) };
    check(teff_silo_counts(self->silo, &counts), "counts");
    uint64_t ended = 0;
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
        ended += counts.ended[allowed[i]];
    if (counts.open != 0 || ended != counts.opened)
        fail("round %llu: of %llu calls %llu ended as they may, %llu are open", stage_round,
             (unsigned long long)counts.opened, (unsigned long long)ended,
             (unsigned long long)counts.open);
    const uint64_t answered = counts.ended[TEFF_END_RESPONSE];
    if (answered < succeeded || answered > succeeded + dropped || counts.unclaimed > dropped)
        fail("round %llu: %llu calls counted as answered, %llu were; %llu futures left, of %llu",
             stage_round, (unsigned long long)answered, (unsigned long long)succeeded,
             (unsigned long long)counts.unclaimed, (unsigned long long)dropped);
    if (counts.unknown != 0)
        fail("round %llu: an answer to no call", stage_round);
}

static void end(stress *self, const opener *openers)
{
    uint64_t succeeded = 0, uncertain = 0, dropped = 0;
    await_all(&self->ended, self->threads);
    const uint64_t turns = teff__atomic_u64_load_relaxed(&self->turns);
    if (turns != teff__atomic_u64_load_relaxed(&self->turns_at_stop))
        fail("round %llu: turns ran when stop had returned", stage_round);
    for (uint32_t i = 0; i < self->threads; i++) {
        succeeded += openers[i].succeeded;
        uncertain += openers[i].uncertain;
        dropped += openers[i].dropped;
    }
    check_counts(self, succeeded, dropped);
    if (turns < succeeded || turns > succeeded + uncertain)
        fail("round %llu: %llu turns ran of %llu calls that succeeded and %llu that may have run",
             stage_round, (unsigned long long)turns, (unsigned long long)succeeded,
             (unsigned long long)uncertain);
    if (teff__silo_open_count(self->silo) != 0)
        fail("round %llu: %llu callbacks are open", stage_round,
             (unsigned long long)teff__silo_open_count(self->silo));
    if (teff_silo_destroy(self->silo) != NULL)
        fail("round %llu: the silo is not destroyed", stage_round);
}

static void run_round(stress *self, opener *openers, teff__chance *chance)
{
    begin(self, openers, chance);
    const struct timespec swing = { 0, (long)(teff__chance_next(chance) % SWING_NS_MAX) };
    (void)nanosleep(&swing, NULL);
    check(teff_silo_stop(self->silo), "stop");
    note_stopped(self);
    end(self, openers);
}

static void show(const char *name, uint64_t value)
{
    printf("%-44s %10llu\n", name, (unsigned long long)value);
}

static void check_sums(const stress *self, const opener *openers)
{
    uint64_t opened = 0, completed = 0, refused = 0, retried = 0, late = 0, by_itself = 0;
    for (uint32_t i = 0; i < self->threads; i++) {
        opened += openers[i].opened;
        completed += openers[i].completed;
        refused += openers[i].refused;
        retried += openers[i].retried;
        late += openers[i].late;
        by_itself += openers[i].by_itself;
    }
    show("calls", opened);
    show("refused at once", refused);
    show("retries in completions that were told failure", retried);
    show("completions after stop, settled before", late);
    show("rounds stopped by one of the openers", by_itself);
    if (opened != completed)
        fail("%llu calls ended of %llu", (unsigned long long)completed, (unsigned long long)opened);
}

int main(int count, char **given)
{
    static stress self = {
        .threads = 8, .workers = 2, .rounds = 1000, .seed = 1, .seconds_max = 300
    };
    static opener openers[THREADS_MAX];
    const argument known[] = {
        { "rounds", &self.rounds, 1, 10000000 },
        { "threads", &self.threads, 1, THREADS_MAX },
        { "workers", &self.workers, 1, 64 },
        { "seed", &self.seed, 1, UINT32_MAX },
        { "seconds_max", &self.seconds_max, 1, 86400 },
    };
    teff__chance chance;
    arguments_read("stress_admission", known, sizeof(known) / sizeof(known[0]), count, given);
    watchdog_start(self.seconds_max, on_watchdog);
    teff__chance_init(&chance, self.seed);
    check(sem_init(&self.ready, 0, 0) + sem_init(&self.ended, 0, 0), "semaphores");
    for (uint32_t i = 0; i < self.threads; i++) {
        openers[i].stress = &self;
        teff__chance_init(&openers[i].chance, self.seed * 1009 + i + 1);
        check(sem_init(&openers[i].begin, 0, 0), "semaphore");
        check(teff__thread_start(&openers[i].thread, opener_main, &openers[i], "opener"), "thread");
    }
    for (; stage_round < self.rounds; stage_round++)
        run_round(&self, openers, &chance);
    for (uint32_t i = 0; i < self.threads; i++) {
        openers[i].quit = true;
        (void)sem_post(&openers[i].begin);
        teff__thread_join(&openers[i].thread);
    }
    check_sums(&self, openers);
    printf("stress_admission: passed: %llu rounds, seed %llu\n", self.rounds, self.seed);
    return 0;
}
