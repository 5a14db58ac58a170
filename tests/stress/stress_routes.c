/* SPDX-License-Identifier: MIT */
/*
 * Calls by old ways to grains that come and go, while the ways are evicted, expire, are replaced
 * and removed all the time.
 *
 *   stress_routes [seconds=20] [round_ms=2000] [seed=1] [first=0] [workers=0] [routes=0]
 *                 [grains=0] [order=1]
 *
 * Rounds of `round_ms`, until `seconds` are over; each has a silo of its own. What kind of silo the
 * number of the round and the seed say, 0 meaning that: how many workers, how many routes each of
 * them keeps (3 to a million; none at all: TEFF_ROUTES_NONE, and then no order is checked) and for
 * how long, how many grains, and when and how they go. `first` is the first round's number: a round
 * that failed runs again with it.
 *
 * Tasks on each worker, threads with blocking clients and one with a client on a loop call in all
 * forms (stress_routes_senders.c); some messages ask their grain to go, and have it made on another
 * worker at once; and all grains without work are collected all the time. What must hold is checked
 * inside the grains (stress_routes_grains.c): at most one valid activation each, no turn of one that
 * is gone, each sender's messages in order. What comes back is checked by the senders; and at the
 * end of each round that every message had exactly one turn, and that nothing is left.
 */
#include "stress_routes_check.h"

#include "stress_calls_common.h"

#include "runtime/clock.h"
#include "runtime/silo.h"

#define MS INT64_C(1000000)

enum { TASKS = 4, BLOCKING = 2, LOOPS = 1 };

static stress whole;
static volatile sig_atomic_t interrupted;

/* --- Hanging, and being interrupted ----------------------------------------------------------- */

/* Where it hangs it is the end of the program all the same: so it may print. */
static void on_watchdog(int number)
{
    const stress *self = &whole;
    (void)number;
    printf("\n");
    for (uint32_t i = 0; i < self->notes.sender_count; i++) {
        const uint64_t waits = teff__atomic_u64_load_relaxed(&self->senders[i].waiting);
        if (waits != 0)
            printf("sender %u waits for its call %u to grain %u, whose valid activation is %llu\n",
                   i, (uint32_t)waits, (uint32_t)(waits >> 32),
                   (unsigned long long)teff__atomic_u64_load_relaxed(
                       &self->notes.grains[waits >> 32].valid));
    }
    fail("it hangs: %llu calls have ended, %llu callbacks are open",
         (unsigned long long)calls_ended(self),
         (unsigned long long)teff__silo_open_count(self->silo));
}

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static int64_t now_ns(void)
{
    const teff__clock clock = { 0 };
    return teff__clock_now_ns(&clock);
}

/* --- A round's silo --------------------------------------------------------------------------- */

static int worker_start(void *user, uint32_t worker, void **ret_context)
{
    stress *self = user;
    self->numbers[worker] = (int)worker + 1; /* 0 is a state's before it was activated */
    *ret_context = &self->numbers[worker];
    return 0;
}

static void choose_round(stress *self, uint64_t number)
{
    static const uint32_t routes[] = { 8, 3, 0, 64, TEFF_ROUTES_NONE };
    static const int64_t ttls_ns[] = { 0, MS, MS, 20 * MS };
    static const uint32_t workers[] = { 4, 2, 3, 1, 4 };
    static const uint32_t grains[] = { 64, 16, 512 };
    static const uint32_t leaving[] = { 100, 10, 300 };
    static const uint32_t moving[] = { 1, 2, 0, 4 };
    static const uint32_t collect_ms[] = { 2, 20, 1, 7 };
    teff__chance chance;
    teff__chance_init(&chance, self->seed * 1000003 + number + 1);
#define ANY(OF) OF[teff__chance_next(&chance) % (sizeof(OF) / sizeof(OF[0]))]
    self->options = (teff_silo_options){
        .struct_size = sizeof(teff_silo_options),
        .worker_start = worker_start,
        .user = self,
        .seed = self->seed * 1000003 + number + 1,
        .routes_max = routes[number % (sizeof(routes) / sizeof(routes[0]))],
        .routes_ttl_ns = ANY(ttls_ns),
        .workers = ANY(workers),
        .idle_ns = teff__chance_next(&chance) % 2 == 0 ? MS : 0,
        .idle_quantum_ns = MS,
    };
    self->leaving = ANY(leaving);
    self->moving = ANY(moving);
    self->collect_ms = ANY(collect_ms);
    /* Of two, the first half calls the other. */
    self->notes.grain_count = self->grains > 1    ? (uint32_t)self->grains
                              : self->grains == 1 ? 2
                                                  : ANY(grains);
#undef ANY
    if (self->workers != 0)
        self->options.workers = (uint32_t)self->workers;
    if (self->routes != 0)
        self->options.routes_max = (uint32_t)self->routes;
    self->notes.ordered = self->order != 0 && self->options.routes_max != TEFF_ROUTES_NONE;
    printf("round %llu: %u workers, %u grains, routes: ", (unsigned long long)number,
           self->options.workers, self->notes.grain_count);
    if (self->options.routes_max == TEFF_ROUTES_NONE)
        printf("none");
    else
        printf("%u for %lld ms", self->options.routes_max,
               (long long)(self->options.routes_ttl_ns / MS));
    printf(", idle after %lld ms, collected each %u ms, %u of 1000 leave, %u of 16 move%s: ",
           (long long)(self->options.idle_ns / MS), self->collect_ms, self->leaving, self->moving,
           self->notes.ordered ? "" : ", in any order");
    (void)fflush(stdout);
}

static void *make(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        fail("out of memory");
    return memory;
}

static void begin(stress *self)
{
    ledger *notes = &self->notes;
    const uint32_t task_count = self->options.workers * TASKS;
    notes->sender_count = task_count + BLOCKING + LOOPS;
    notes->grains = make(notes->grain_count, sizeof(account));
    for (uint32_t k = 0; k < notes->grain_count; k++)
        notes->grains[k].senders = make(notes->sender_count, sizeof(received));
    teff__atomic_u64_store_relaxed(&notes->stamps, 0);
    teff__atomic_u64_store_relaxed(&notes->moved, 0);
    teff__atomic_u64_store_relaxed(&notes->then_open, 0);
    teff__atomic_u32_store_relaxed(&self->over, 0);
    int r = teff_silo_create(&self->options, &self->silo);
    if (r == 0)
        r = teff_silo_register(self->silo, &target_type, notes);
    if (r == 0)
        r = teff_silo_start(self->silo);
    if (r != 0)
        fail("no silo: %s", teff_status_name(r));
    self->senders = make(notes->sender_count, sizeof(sender));
    for (uint32_t i = 0; i < notes->sender_count; i++) {
        sender *each = &self->senders[i];
        each->notes = notes;
        each->silo = self->silo;
        each->over = &self->over;
        each->index = i;
        each->worker = i < task_count ? (int)(i / TASKS) : -1;
        each->workers = self->options.workers;
        each->leaving = self->leaving;
        each->moving = self->moving;
        teff__chance_init(&each->chance, self->options.seed * 1000003 + i + 1);
        each->grains = make(notes->grain_count, sizeof(acquaintance));
        for (uint32_t k = 0; k < notes->grain_count; k++)
            each->grains[k].own = each->grains[k].old = target_at(k);
    }
}

static void run(stress *self, int64_t until_ns)
{
    teff_client *client;
    const uint32_t count = self->notes.sender_count;
    int r = teff_client_create(self->silo, NULL, &client);
    for (uint32_t i = 0; r == 0 && i < count; i++) {
        sender *each = &self->senders[i];
        r = each->worker >= 0
                ? teff_silo_spawn(self->silo, each->worker, sender_task_main, each, client,
                                  &each->future)
                : teff__thread_start(&each->thread,
                                     i < count - LOOPS ? sender_client_main : sender_loop_main,
                                     each, "client");
    }
    if (r != 0)
        fail("a sender does not start: %s", teff_status_name(r));
    while (!interrupted && now_ns() < until_ns) {
        pause_ms((long)self->collect_ms);
        if (teff_silo_collect(self->silo, 0) != 0)
            fail("the silo does not collect");
    }
    teff__atomic_u32_store_relaxed(&self->over, 1);
    for (uint32_t i = 0; i < count; i++) {
        sender *each = &self->senders[i];
        int result = -1;
        if (each->worker < 0)
            teff__thread_join(&each->thread);
        else if ((r = teff_task_claim(client, each->future, &result)) != 0 || result != 0)
            fail("the task of sender %u: %s, result %d", i, teff_status_name(r), result);
    }
    if (teff_client_destroy(client) != NULL)
        fail("the client was not destroyed by its own thread");
}

static void free_round(stress *self)
{
    for (uint32_t i = 0; i < self->notes.sender_count; i++)
        free(self->senders[i].grains);
    for (uint32_t k = 0; k < self->notes.grain_count; k++)
        free(self->notes.grains[k].senders);
    free(self->notes.grains);
    free(self->senders);
}

int main(int count, char **given)
{
    enum { SLACK_S = 60 };
    stress *self = &whole;
    totals all = { 0 };
    self->seconds = 20, self->round_ms = 2000, self->seed = 1, self->order = 1;
    const argument known[] = {
        { "seconds", &self->seconds, 1, 86400 },       { "round_ms", &self->round_ms, 10, 3600000 },
        { "seed", &self->seed, 1, UINT32_MAX },        { "first", &self->first, 0, UINT32_MAX },
        { "workers", &self->workers, 0, WORKERS_MAX }, { "routes", &self->routes, 0, UINT32_MAX },
        { "grains", &self->grains, 0, 100000 },        { "order", &self->order, 0, 1 },
    };
    arguments_read("stress_routes", known, sizeof(known) / sizeof(known[0]), count, given);
    (void)signal(SIGINT, on_interrupt);
    printf("stress_routes: seed %llu\n", self->seed);
    const int64_t end_ns = now_ns() + (int64_t)self->seconds * 1000 * MS;
    uint64_t number = self->first;
    while (!interrupted && now_ns() < end_ns) {
        const int64_t round_end_ns = now_ns() + (int64_t)self->round_ms * MS;
        watchdog_start(self->round_ms / 1000 + SLACK_S, on_watchdog);
        choose_round(self, number++);
        begin(self);
        run(self, round_end_ns < end_ns ? round_end_ns : end_ns);
        check_settled(self);
        check_stop(self);
        add_up(self, &all);
        free_round(self);
    }
    show(&all);
    printf("stress_routes: %s: seed %llu, %llu rounds\n", interrupted ? "interrupted" : "passed",
           self->seed, (unsigned long long)(number - self->first));
    return interrupted ? 130 : 0;
}
