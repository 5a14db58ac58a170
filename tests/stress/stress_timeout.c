/* SPDX-License-Identifier: MIT */
/*
 * The silo's response timeout changes while calls wait, by several threads at once.
 *
 *   stress_timeout [threads=2] [setters=2] [sets=40] [rounds=300] [workers=2] [seed=1]
 *                  [seconds_max=300]
 *
 * In a round nothing is answered, and the timeout is 30 s at first. Each of `threads` threads has a
 * client and makes an awaited call, a started one, one with a completion, and spawns a task of a
 * worker that makes one; one more thread has a client on a loop, with a completion. Meanwhile
 * `setters` threads set the timeout to `sets` random values of 10 to 30 s each, and whoever is the
 * last to finish sets 1 ms. So every call ends soon after, not before 1 ms, and with TEFF_ETIMEDOUT;
 * one that waits longer has missed the last value.
 */
#include "stress_calls_common.h"

#include "runtime/chance.h"
#include "runtime/silo.h"
#include "runtime/thread.h"

#include "teff.h"

#include <sched.h>
#include <uv.h>

enum { THREADS_MAX = 32, KINDS = 5 };
#define MS     INT64_C(1000000)
#define SECOND INT64_C(1000000000)

static struct stress {
    teff_silo *silo;
    unsigned long long threads, setters, sets, rounds, workers, seed, seconds_max;
    teff__atomic_u64 round;    /* that has begun */
    teff__atomic_u64 released; /* calls of rounds up to this one are answered */
    teff__atomic_u64 ended;    /* threads that ended their part of the round */
    teff__atomic_u64 set;      /* setters that did theirs */
} stress = { .threads = 2,
             .setters = 2,
             .sets = 40,
             .rounds = 300,
             .workers = 2,
             .seed = 1,
             .seconds_max = 300 };

typedef struct holder {
    teff__thread thread;
    uint64_t index, calls;
    teff_client *client;
    bool completed;
} holder;

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs in round %llu: %llu callbacks are open",
         (unsigned long long)teff__atomic_u64_load_relaxed(&stress.round),
         (unsigned long long)teff__silo_open_count(stress.silo));
}

/* --- The grain -------------------------------------------------------------------------------- */

struct wait {
    uint64_t round;
};
#define SLOW_METHODS(METHOD, SELF) METHOD(SELF, wait, struct wait, teff_none, 0)
TEFF_INTERFACE(slow, SLOW_METHODS);
struct slow {
    uint64_t waits;
};
TEFF_GRAIN(slow, SLOW_METHODS);

static int slow_on_wait(teff_turn *turn, struct slow *self, const struct wait *arg, teff_none *ret)
{
    (void)ret;
    self->waits++;
    while (teff__atomic_u64_load_relaxed(&stress.released) < arg->round)
        (void)teff_sleep(turn, MS);
    return 0;
}

static slow_ref grain_of(const holder *one, uint64_t kind)
{
    return slow_at(one->index * KINDS + kind);
}

/* --- Calls ------------------------------------------------------------------------------------ */

static void check(const char *form, int code, int64_t took_ns)
{
    if (code != TEFF_ETIMEDOUT)
        fail("%s ended with %s", form, teff_status_name(code));
    if (took_ns < MS)
        fail("%s timed out after %lld ns", form, (long long)took_ns);
    if (took_ns > 8 * SECOND)
        fail("%s has missed the last timeout", form);
}

static int call_in_task(teff_task *task, void *user)
{
    const holder *one = user;
    slow_ref slow = grain_of(one, 0);
    const struct wait wait = { teff__atomic_u64_load_relaxed(&stress.round) };
    const int64_t before_ns = teff_now_ns(task);
    const int r = slow_wait(task, &slow, &wait, NULL);
    /* A worker measures from when its pass began, which was before. */
    check("a task's call", r, teff_now_ns(task) - before_ns + MS);
    return 0;
}

static void on_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                    const teff_none *ret)
{
    holder *one = user;
    (void)caller, (void)ret;
    if (one->completed)
        fail("a completion ran twice");
    one->completed = true;
    check("a call with a completion", outcome->code, MS);
}

static void expect(int r)
{
    if (r != 0)
        fail("unexpected %s", teff_status_name(r));
}

static void call_in_each_form(holder *one, uint64_t round)
{
    int result;
    teff_future task;
    const struct wait wait = { round };
    slow_ref started = grain_of(one, 1), then = grain_of(one, 2), awaited = grain_of(one, 3);
    const int64_t before_ns = teff_now_ns(one->client);
    one->completed = false;
    expect(teff_silo_spawn(stress.silo, TEFF_WORKER_ANY, call_in_task, one, one->client, &task));
    const teff_future future = slow_wait_start(one->client, &started, &wait);
    expect(slow_wait_then(one->client, &then, &wait, on_done, one));
    int r = slow_wait(one->client, &awaited, &wait, NULL);
    check("an awaited call", r, teff_now_ns(one->client) - before_ns);
    r = slow_wait_claim(one->client, future, NULL);
    check("a started call", r, teff_now_ns(one->client) - before_ns);
    while (!one->completed)
        expect(teff_client_run(one->client, SECOND));
    expect(teff_task_claim(one->client, task, &result));
    expect(result);
    one->calls += 4;
}

/* False: there are no more. */
static bool next_round(uint64_t *round)
{
    if (*round == stress.rounds)
        return false;
    ++*round;
    while (teff__atomic_u64_load_acquire(&stress.round) < *round)
        (void)sched_yield();
    return true;
}

static void end_round(void)
{
    (void)teff__atomic_u64_add_acq_rel(&stress.ended, 1);
}

static void holder_main(void *user)
{
    holder *one = user;
    expect(teff_client_create(stress.silo, NULL, &one->client));
    for (uint64_t round = 0; next_round(&round); end_round())
        call_in_each_form(one, round);
    if (teff_client_destroy(one->client) != NULL)
        fail("a client is not destroyed");
}

static void looper_main(void *user)
{
    uv_loop_t loop;
    holder *one = user;
    expect(uv_loop_init(&loop));
    expect(teff_client_create(stress.silo, &loop, &one->client));
    for (uint64_t round = 0; next_round(&round); end_round()) {
        slow_ref slow = grain_of(one, 0);
        const int64_t before_ns = (int64_t)uv_hrtime();
        one->completed = false;
        expect(slow_wait_then(one->client, &slow, &(struct wait){ round }, on_done, one));
        while (!one->completed)
            (void)uv_run(&loop, UV_RUN_ONCE);
        check("a loop's call", TEFF_ETIMEDOUT, (int64_t)uv_hrtime() - before_ns);
        one->calls++;
    }
    expect(teff_client_close_then(one->client, NULL, NULL));
    expect(uv_run(&loop, UV_RUN_DEFAULT));
    expect(uv_loop_close(&loop));
}

/* --- Setting it ------------------------------------------------------------------------------- */

static void setter_main(void *user)
{
    const holder *one = user;
    teff__chance chance;
    teff__chance_init(&chance, stress.seed * 1013 + one->index);
    for (uint64_t round = 0; next_round(&round); end_round()) {
        for (uint64_t i = 0; i < stress.sets; i++)
            expect(teff_silo_set_response_timeout(
                stress.silo,
                10 * SECOND + (int64_t)(teff__chance_next(&chance) % (uint64_t)(20 * SECOND))));
        if (teff__atomic_u64_add_acq_rel(&stress.set, 1) == round * stress.setters - 1)
            expect(teff_silo_set_response_timeout(stress.silo, MS));
    }
}

static void begin(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = (uint32_t)stress.workers };
    expect(teff_silo_create(&options, &stress.silo));
    expect(teff_silo_register(stress.silo, &slow_grain, NULL));
    expect(teff_silo_start(stress.silo));
}

int main(int count_given, char **given)
{
    static holder holders[2 * THREADS_MAX + 1];
    const argument known[] = {
        { "threads", &stress.threads, 1, THREADS_MAX },
        { "setters", &stress.setters, 1, THREADS_MAX },
        { "sets", &stress.sets, 1, 1000000 },
        { "rounds", &stress.rounds, 1, 10000000 },
        { "workers", &stress.workers, 1, 64 },
        { "seed", &stress.seed, 1, UINT32_MAX },
        { "seconds_max", &stress.seconds_max, 1, 86400 },
    };
    uint64_t calls = 0;
    arguments_read("stress_timeout", known, sizeof(known) / sizeof(known[0]), count_given, given);
    begin();
    watchdog_start(stress.seconds_max, on_watchdog);
    const uint64_t threads = stress.threads + 1 + stress.setters;
    for (uint64_t i = 0; i < threads; i++) {
        holders[i].index = i;
        if (teff__thread_start(&holders[i].thread,
                               i < stress.threads    ? holder_main
                               : i == stress.threads ? looper_main
                                                     : setter_main,
                               &holders[i], "stress"))
            fail("no thread");
    }
    for (uint64_t round = 1; round <= stress.rounds; round++) {
        expect(teff_silo_set_response_timeout(stress.silo, 0));
        teff__atomic_u64_store_release(&stress.round, round);
        while (teff__atomic_u64_load_acquire(&stress.ended) < round * threads)
            (void)sched_yield();
        teff__atomic_u64_store_relaxed(&stress.released, round);
    }
    for (uint64_t i = 0; i < threads; i++) {
        teff__thread_join(&holders[i].thread);
        calls += holders[i].calls;
    }
    expect(teff_silo_stop(stress.silo));
    if (teff__silo_open_count(stress.silo) != 0)
        fail("callbacks are open");
    if (teff_silo_destroy(stress.silo) != NULL)
        fail("something is left");
    printf("stress_timeout: passed: %llu calls timed out in %llu rounds, seed %llu\n",
           (unsigned long long)calls, stress.rounds, stress.seed);
    return 0;
}
