/* SPDX-License-Identifier: MIT */
/*
 * Counts and dumps while calls run and the silo stops.
 *
 *   stress_inspect [askers=3] [rounds=20] [calls=2000] [workers=2] [callers=8] [seconds_max=300]
 *
 * In each round tasks and a client call grains, each other's too, until so many calls have been
 * made; `askers` threads meanwhile count by every kind of condition and dump, again and again,
 * until the silo has stopped beneath them. What a function is shown makes sense, a part is never
 * more than the whole can be, and after stop nothing is open and all workers have ended.
 */
#include "stress_calls_common.h"

#include "runtime/silo.h"
#include "runtime/thread.h"

#include "teff.h"

enum { ASKERS_MAX = 16, CALLERS_MAX = 64, GRAINS = 20 };

typedef struct stress {
    teff_silo *silo;
    unsigned long long askers, rounds, calls, workers, callers, seconds_max;
    teff__atomic_u32 stopped, made; /* of this round */
    teff__atomic_u64 counts, dumps, lines, shown, late;
} stress;

static stress all = {
    .askers = 3, .rounds = 20, .calls = 2000, .workers = 2, .callers = 8, .seconds_max = 300
};

static void add(teff__atomic_u64 *to, uint64_t count)
{
    (void)teff__atomic_u64_add_relaxed(to, count);
}

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs: %llu callbacks are open", (unsigned long long)teff__silo_open_count(all.silo));
}

/* --- The grain -------------------------------------------------------------------------------- */

struct hop {
    uint32_t left, to;
};
#define HOP_METHODS(METHOD, SELF) METHOD(SELF, go, struct hop, teff_none, 0)
TEFF_INTERFACE(hop, HOP_METHODS);
struct hop_state {
    uint64_t turns;
};
TEFF_INTERFACE_DEFINE(hop, HOP_METHODS);
TEFF_HANDLERS(hop, struct hop_state, hop, HOP_METHODS);
static const teff_handlers *const hop_implements[] = { &hop_handlers, NULL };
static const teff_grain_type hop_grain = { .struct_size = sizeof(teff_grain_type),
                                           .name = { "hop" },
                                           .state_size = sizeof(struct hop_state),
                                           .implements = hop_implements };

/* Calls on, always a grain of a higher number, so that nobody waits for himself. */
static int hop_on_go(teff_turn *turn, struct hop_state *self, const struct hop *arg, teff_none *ret)
{
    (void)ret;
    self->turns++;
    if (arg->left == 0 || arg->to + 1 >= GRAINS)
        return teff_sleep(turn, 20000);
    hop_ref next = hop_at(arg->to + 1);
    const struct hop on = { arg->left - 1, arg->to + 1 };
    (void)hop_go(turn, &next, &on, NULL);
    return 0;
}

static bool enough(void)
{
    return teff__atomic_u32_add_relaxed(&all.made, 1) >= all.calls;
}

static int call_often(teff_task *task, void *user)
{
    uint32_t number = (uint32_t)(uintptr_t)user;
    while (!enough()) {
        const uint32_t from = number++ % GRAINS;
        const struct hop first = { 3, from };
        hop_ref to = hop_at(from);
        const teff_future futures[2] = { hop_go_start(task, &to, &first),
                                         hop_go_start(task, &to, &first) };
        size_t index;
        if (teff_await_any(task, futures, 2, &index) != 0)
            fail("await_any");
        (void)hop_go_claim(task, futures[0], NULL);
        (void)hop_go_claim(task, futures[1], NULL);
        if (hop_go(task, &to, &first, NULL) == TEFF_EUNAVAILABLE)
            break;
    }
    return 0;
}

/* --- Who asks ---------------------------------------------------------------------------------- */

static bool makes_sense(void *user, const teff_open_call *call)
{
    if (user != &all || call->age_ns < 0 || call->worker < -1 || call->worker >= (int)all.workers ||
        call->id == 0 || (call->left_ns > 31 * INT64_C(1000000000) && call->left_ns != INT64_MAX))
        fail("a function is shown a call that cannot be");
    add(&all.shown, 1);
    return (call->id & 1) != 0;
}

static void take_line(void *user, const char *text)
{
    if (user != &all || text[0] == '\0' || strchr(text, '\n') != NULL)
        fail("a line that is none: %s", text);
    add(&all.lines, 1);
}

static void check(int code, const char *what)
{
    if (code == TEFF_ETIMEDOUT)
        add(&all.late, 1);
    else if (code != 0)
        fail("%s: %s", what, teff_status_text(code));
}

/* As many different questions as there are, one after the other. */
static void ask(uint32_t number)
{
    const hop_ref grain = hop_at(number % GRAINS);
    teff_call_filter filter = { .struct_size = sizeof(filter), .user = &all };
    uint64_t count = 0;
    if (number % 2 != 0)
        filter.grain = &grain.ref;
    if (number % 3 == 0)
        filter.older_ns = 1;
    if (number % 5 == 0)
        filter.matches = makes_sense;
    if (number % 7 == 0)
        filter.target = TEFF_TARGET_WORKER, filter.worker = number % (uint32_t)all.workers;
    if (number % 11 == 0)
        filter.timeout_ns = 1000; /* often late: what is asked is withdrawn */
    if (number % 13 == 0) {
        check(teff_silo_dump(all.silo, take_line, &all), "dump");
        add(&all.dumps, 1);
        return;
    }
    check(teff_silo_count_open(all.silo, number % 17 == 0 ? NULL : &filter, &count), "count");
    if (count > 10 * (all.callers + 1) * GRAINS)
        fail("%llu calls are open, which cannot be", (unsigned long long)count);
    add(&all.counts, 1);
}

static void asker(void *user)
{
    for (uint32_t i = (uint32_t)(uintptr_t)user;
         teff__atomic_u32_load_relaxed(&all.stopped) == 0 || i % 1000 != 0; i++)
        ask(i);
}

static void end_line(void *user, const char *text)
{
    *(uint32_t *)user += strncmp(text, "worker ", 7) == 0 && strstr(text, " has ended") != NULL;
}

static void check_end(void)
{
    uint32_t ended = 0;
    uint64_t count = 1;
    const teff_call_filter any = { .struct_size = sizeof(any) };
    check(teff_silo_count_open(all.silo, &any, &count), "count after stop");
    if (count != 0)
        fail("%llu calls are open after stop", (unsigned long long)count);
    check(teff_silo_dump(all.silo, end_line, &ended), "dump after stop");
    if (ended != all.workers)
        fail("%u workers have ended", ended);
}

static void round_of(unsigned long long number)
{
    teff_client *client;
    teff__thread askers[ASKERS_MAX];
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = (uint32_t)all.workers };
    teff__atomic_u32_store_relaxed(&all.made, 0);
    teff__atomic_u32_store_relaxed(&all.stopped, 0);
    if (teff_silo_create(&options, &all.silo) != 0 ||
        teff_silo_register(all.silo, &hop_grain, NULL) != 0 || teff_silo_start(all.silo) != 0 ||
        teff_client_create(all.silo, NULL, &client) != 0)
        fail("no silo");
    for (uintptr_t i = 0; i < all.callers; i++)
        if (teff_silo_spawn(all.silo, TEFF_WORKER_ANY, call_often, (void *)i, NULL, NULL) != 0)
            fail("no task");
    for (uintptr_t i = 0; i < all.askers; i++)
        if (teff__thread_start(&askers[i], asker, (void *)(number * 100 + i * 29), "asker") != 0)
            fail("no thread");
    hop_ref to = hop_at(0);
    const struct hop first = { 2, 0 };
    while (!enough())
        (void)hop_go(client, &to, &first, NULL);
    if (teff_silo_stop(all.silo) != 0)
        fail("it does not stop");
    check_end();
    teff__atomic_u32_store_relaxed(&all.stopped, 1);
    for (uintptr_t i = 0; i < all.askers; i++)
        teff__thread_join(&askers[i]);
    if (teff_client_destroy(client) != NULL || teff_silo_destroy(all.silo) != NULL)
        fail("it is not destroyed");
}

int main(int count, char **given)
{
    const argument known[] = {
        { "askers", &all.askers, 1, ASKERS_MAX },    { "rounds", &all.rounds, 1, 1000000 },
        { "calls", &all.calls, 1, 1000000000 },      { "workers", &all.workers, 1, 64 },
        { "callers", &all.callers, 1, CALLERS_MAX }, { "seconds_max", &all.seconds_max, 1, 100000 },
    };
    arguments_read("stress_inspect", known, sizeof(known) / sizeof(*known), count, given);
    watchdog_start(all.seconds_max, on_watchdog);
    for (unsigned long long i = 0; i < all.rounds; i++)
        round_of(i);
    printf("%llu rounds: %llu counts, %llu dumps of %llu lines, %llu calls shown, %llu late\n",
           all.rounds, (unsigned long long)teff__atomic_u64_load_relaxed(&all.counts),
           (unsigned long long)teff__atomic_u64_load_relaxed(&all.dumps),
           (unsigned long long)teff__atomic_u64_load_relaxed(&all.lines),
           (unsigned long long)teff__atomic_u64_load_relaxed(&all.shown),
           (unsigned long long)teff__atomic_u64_load_relaxed(&all.late));
    return 0;
}
