/* SPDX-License-Identifier: MIT */
/*
 * Clients that come and go, and their short timeouts.
 *
 *   stress_clients [threads=8] [rounds=300] [workers=2] [seed=1] [seconds_max=300]
 *
 * First one thread makes clients up to the limit of 64 and beyond. Then each of `threads` threads,
 * `rounds` times, makes a few clients (together more than the limit), calls with timeouts from a
 * microsecond to a millisecond, so that they race the answers, spawns tasks and claims some, and
 * destroys the clients, also with unclaimed futures and with calls under way that timed out: what
 * comes late must not reach the next client of the stripe. An answer is its own call's, a result is
 * untouched where there is none, as many turns ran as the outcomes allow, and each task ran to its
 * end.
 */
#include "stress_calls_common.h"

#include "runtime/chance.h"
#include "runtime/silo.h"
#include "runtime/thread.h"

#include "teff.h"

#include <time.h>

enum {
    CLIENTS_MAX = 64, /* as teff/client.h says */
    THREADS_MAX = 64,
    HELD_MAX = 12, /* clients of one thread at a time */
    CALLS_MAX = 6, /* of a client */
    TASKS_MAX = 4,
    GRAINS = 50
};
#define UNTOUCHED UINT64_C(0xdeadbeef)

typedef struct stress {
    teff_silo *silo;
    unsigned long long threads, rounds, workers, seed, seconds_max;
    teff__atomic_u64 turns, tasks_ended;
    teff__atomic_u64 asked,
        gone; /* clients: counted before create, and after destroy or a refusal */
    teff__atomic_u64 rounds_ended;
} stress;

typedef struct holder {
    stress *stress;
    teff__thread thread;
    teff__chance chance;
    uint64_t stamp; /* of the last call; no two of the program are equal */
    uint64_t created, refused, succeeded, timed_out, uncertain, sent, spawned, claimed;
} holder;

static const stress *watched;

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs: %llu of %llu rounds ended, %llu callbacks are open, %llu clients are there",
         (unsigned long long)teff__atomic_u64_load_relaxed(&watched->rounds_ended),
         watched->rounds * watched->threads,
         (unsigned long long)teff__silo_open_count(watched->silo),
         (unsigned long long)(teff__atomic_u64_load_relaxed(&watched->asked) -
                              teff__atomic_u64_load_relaxed(&watched->gone)));
}

/* --- The grain -------------------------------------------------------------------------------- */

struct stamped {
    uint64_t stamp;
    int64_t nap_ns; /* -1: none */
};
#define ECHO_METHODS(METHOD, SELF) METHOD(SELF, say, struct stamped, uint64_t, 0)
TEFF_INTERFACE(echo, ECHO_METHODS);
struct echo {
    uint64_t said;
};
TEFF_GRAIN(echo, ECHO_METHODS);

static int echo_on_say(teff_turn *turn, struct echo *self, const struct stamped *arg, uint64_t *ret)
{
    stress *of = teff_turn_context(turn);
    (void)teff__atomic_u64_add_relaxed(&of->turns, 1);
    self->said++;
    *ret = arg->stamp;
    return arg->nap_ns >= 0 ? teff_sleep(turn, arg->nap_ns) : 0;
}

static int task_main(teff_task *task, void *user)
{
    stress *of = user;
    const int r = teff_sleep(task, 20000);
    (void)teff__atomic_u64_add_relaxed(&of->tasks_ended, 1);
    return r == 0 ? 42 : r;
}

/* --- Swarming --------------------------------------------------------------------------------- */

static uint64_t below(holder *self, uint64_t bound)
{
    return teff__chance_next(&self->chance) % bound;
}

static void call(holder *self, teff_client *client)
{
    static const int64_t timeouts_ns[] = { 1000, 5000, 20000, 100000, 1000000 };
    const struct stamped arg = { .stamp = ++self->stamp,
                                 .nap_ns =
                                     below(self, 4) == 0 ? (int64_t)below(self, 300000) : -1 };
    echo_ref to = echo_at(below(self, GRAINS));
    uint64_t ret = UNTOUCHED;
    if (below(self, 8) == 0) {
        if (echo_say_send(client, &to, &arg) != 0)
            fail("a one-way message is refused");
        self->sent++;
        return;
    }
    const bool patient = below(self, 4) == 0;
    const int64_t timeout_ns = timeouts_ns[below(self, 5)];
    const int r = echo_say(patient ? client : teff_within(client, timeout_ns), &to, &arg, &ret);
    if (r == 0 && ret != arg.stamp)
        fail("a call got the answer %llu instead of %llu", (unsigned long long)ret,
             (unsigned long long)arg.stamp);
    if (r != 0 && ret != UNTOUCHED)
        fail("a call that failed touched its result");
    if (r != 0 && (r != TEFF_ETIMEDOUT || patient))
        fail("a call %s: %s: %s", patient ? "without a timeout" : "with a timeout",
             teff_status_name(r), teff_outcome_last(client)->text);
    self->succeeded += r == 0;
    self->timed_out += r != 0;
    self->uncertain += r != 0 && teff_outcome_last(client)->may_have_run;
}

/* Spawns tasks, claims some of them, and one of those twice. */
static void spawn(holder *self, teff_client *client, teff_client *other)
{
    teff_future futures[TASKS_MAX];
    const uint64_t count = below(self, TASKS_MAX + 1);
    for (uint64_t i = 0; i < count; i++) {
        if (teff_silo_spawn(self->stress->silo, TEFF_WORKER_ANY, task_main, self->stress, client,
                            &futures[i]) != 0)
            fail("a task is refused");
        self->spawned++;
    }
    for (uint64_t i = 0; i < count; i++) {
        int result = 0;
        if (below(self, 2) == 0)
            continue;
        if (other != client && teff_task_claim(other, futures[i], &result) != TEFF_EINVAL)
            fail("a client claims the future of another");
        const int r = teff_task_claim(client, futures[i], &result);
        if (r != 0 || result != 42)
            fail("a claim: %s, result %d", teff_status_name(r), result);
        if (teff_task_claim(client, futures[i], &result) != TEFF_EINVAL)
            fail("a future is claimed twice");
        self->claimed++;
    }
}

/* One more client, or NULL where there is no stripe for it. */
static teff_client *create(holder *self)
{
    teff_client *client = NULL;
    stress *of = self->stress;
    const uint64_t gone = teff__atomic_u64_add_seq_cst(&of->gone, 0);
    (void)teff__atomic_u64_add_seq_cst(&of->asked, 1);
    const int r = teff_client_create(of->silo, NULL, &client);
    if (r == 0) {
        self->created++;
        return client;
    }
    /* Whoever held one at that moment had asked for it, and was not gone before. */
    const uint64_t others = teff__atomic_u64_add_seq_cst(&of->asked, 0) - gone - 1;
    if (r != TEFF_ELIMIT || others < CLIENTS_MAX)
        fail("a client is refused with %s, though there were at most %llu", teff_status_name(r),
             (unsigned long long)others);
    (void)teff__atomic_u64_add_seq_cst(&of->gone, 1);
    self->refused++;
    return NULL;
}

static void destroy(holder *self, teff_client *client)
{
    if (teff_client_destroy(client) != NULL)
        fail("a client was not destroyed by its own thread");
    (void)teff__atomic_u64_add_seq_cst(&self->stress->gone, 1);
}

static void holder_main(void *user)
{
    holder *self = user;
    for (uint64_t round = 0; round < self->stress->rounds; round++) {
        teff_client *held[HELD_MAX];
        uint64_t count = 0;
        for (uint64_t wanted = below(self, HELD_MAX) + 1; count < wanted; count++)
            if ((held[count] = create(self)) == NULL)
                break;
        for (uint64_t i = 0; i < count; i++) {
            for (uint64_t left = below(self, CALLS_MAX + 1); left > 0; left--)
                call(self, held[i]);
            if (below(self, 4) == 0)
                spawn(self, held[i], held[(i + 1) % count]);
        }
        for (uint64_t i = 0; i < count; i++)
            destroy(self, held[i]);
        (void)teff__atomic_u64_add_relaxed(&self->stress->rounds_ended, 1);
    }
}

/* --- The limit -------------------------------------------------------------------------------- */

typedef struct foreigner {
    teff_client *client;
    int called;
    bool destroyed;
} foreigner;

static void foreign_main(void *user)
{
    foreigner *self = user;
    echo_ref to = echo_at(1);
    self->called = echo_say(self->client, &to, &(struct stamped){ 1, -1 }, NULL);
    self->destroyed = teff_client_destroy(self->client) == NULL;
}

static void check_limit(const stress *self)
{
    teff_client *clients[CLIENTS_MAX], *beyond = NULL;
    teff__thread thread;
    for (int times = 0; times < 3; times++) {
        for (int i = 0; i < CLIENTS_MAX; i++)
            if (teff_client_create(self->silo, NULL, &clients[i]) != 0)
                fail("client %d of %d is refused", i + 1, CLIENTS_MAX);
        if (teff_client_create(self->silo, NULL, &beyond) != TEFF_ELIMIT || beyond != NULL)
            fail("there are more than %d clients", CLIENTS_MAX);
        foreigner foreign = { .client = clients[times] };
        if (teff__thread_start(&thread, foreign_main, &foreign, "foreign") != 0)
            fail("no thread");
        teff__thread_join(&thread);
        if (foreign.called != TEFF_EINVALIDSTATE || foreign.destroyed)
            fail("another thread uses a client: its call answers %s, it was%s destroyed",
                 teff_status_name(foreign.called), foreign.destroyed ? "" : " not");
        for (int i = 0; i < CLIENTS_MAX; i++)
            if (teff_client_destroy(clients[i]) != NULL)
                fail("client %d was not destroyed", i + 1);
    }
}

/* --- Before and after ------------------------------------------------------------------------- */

static void start(stress *self)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = (uint32_t)self->workers,
                                        .seed = self->seed,
                                        /* statuses come and are kept beside all else */
                                        .long_call_ns = 1 };
    int r = teff_silo_create(&options, &self->silo);
    if (r == 0)
        r = teff_silo_register(self->silo, &echo_grain, self);
    if (r == 0)
        r = teff_silo_start(self->silo);
    if (r != 0)
        fail("no silo: %s", teff_status_name(r));
}

static void pause_ms(long ms)
{
    const struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
    (void)nanosleep(&pause, NULL);
}

/* Requests whose callers gave up, one-way messages and unclaimed tasks may still be under way. */
static void check_end(const stress *self, const holder *sum)
{
    uint64_t ended = 0, open = 0;
    for (int tries = 0; tries < 500 && (ended != sum->spawned || open != 0 || tries == 0);
         tries++) {
        if (tries > 0)
            pause_ms(10);
        ended = teff__atomic_u64_load_relaxed(&self->tasks_ended);
        open = teff__silo_open_count(self->silo);
    }
    if (ended != sum->spawned || open != 0)
        fail("%llu of %llu tasks ended, %llu callbacks are open", (unsigned long long)ended,
             (unsigned long long)sum->spawned, (unsigned long long)open);
    if (teff_silo_stop(self->silo) != 0)
        fail("the silo does not stop");
    const uint64_t turns = teff__atomic_u64_load_relaxed(&self->turns);
    if (turns < sum->succeeded + sum->sent || turns > sum->succeeded + sum->sent + sum->uncertain)
        fail("%llu turns ran of %llu calls that succeeded, %llu one-way messages and %llu calls "
             "that may have run",
             (unsigned long long)turns, (unsigned long long)sum->succeeded,
             (unsigned long long)sum->sent, (unsigned long long)sum->uncertain);
    if (teff_silo_destroy(self->silo) != NULL)
        fail("the silo was not destroyed");
}

static void add(holder *sum, const holder *each)
{
    sum->created += each->created;
    sum->refused += each->refused;
    sum->succeeded += each->succeeded;
    sum->timed_out += each->timed_out;
    sum->uncertain += each->uncertain;
    sum->sent += each->sent;
    sum->spawned += each->spawned;
    sum->claimed += each->claimed;
}

static void show(const stress *self, const holder *sum)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        { "clients", sum->created },
        { "refused at the limit", sum->refused },
        { "calls that succeeded", sum->succeeded },
        { "calls that timed out", sum->timed_out },
        { "one-way messages", sum->sent },
        { "turns", teff__atomic_u64_load_relaxed(&self->turns) },
        { "tasks", sum->spawned },
        { "of these, claimed", sum->claimed },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("%-24s %10llu\n", rows[i].name, (unsigned long long)rows[i].value);
}

int main(int count, char **given)
{
    static stress self = {
        .threads = 8, .rounds = 300, .workers = 2, .seed = 1, .seconds_max = 300
    };
    static holder holders[THREADS_MAX];
    const argument known[] = {
        { "threads", &self.threads, 1, THREADS_MAX },
        { "rounds", &self.rounds, 1, 1000000 },
        { "workers", &self.workers, 1, 64 },
        { "seed", &self.seed, 1, UINT32_MAX },
        { "seconds_max", &self.seconds_max, 1, 86400 },
    };
    holder sum = { 0 };
    arguments_read("stress_clients", known, sizeof(known) / sizeof(known[0]), count, given);
    start(&self);
    watched = &self;
    watchdog_start(self.seconds_max, on_watchdog);
    check_limit(&self);
    for (uint32_t i = 0; i < self.threads; i++) {
        holders[i].stress = &self;
        holders[i].stamp = (uint64_t)i << 40;
        teff__chance_init(&holders[i].chance, self.seed * 1013 + i + 1);
        if (teff__thread_start(&holders[i].thread, holder_main, &holders[i], "holder") != 0)
            fail("no thread");
    }
    for (uint32_t i = 0; i < self.threads; i++) {
        teff__thread_join(&holders[i].thread);
        add(&sum, &holders[i]);
    }
    check_end(&self, &sum);
    show(&self, &sum);
    printf("stress_clients: passed: seed %llu, %llu threads\n", self.seed, self.threads);
    return 0;
}
