/* SPDX-License-Identifier: MIT */
/*
 * The grain of the ping, its callers, and the window in which they are counted.
 *
 * Each caller checks every answer: it must be the next one of its grain. So a call that was lost,
 * ran twice or was answered by another grain is seen at once. Calls are counted per worker, in a
 * line of its own, by plain increments.
 */
#include "benchmarks/ping_stage.h"

#include "benchmarks/machine.h"
#include "runtime/atomic.h"
#include "runtime/memory.h"
#include "runtime/silo.h"
#include "teff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARM_UP_PART = 5,         /* of the duration */
    KEYS_PER_STAGE = 1 << 20, /* grains of different stages are different */
    WINDOWS_MAX = 100,        /* without a call, then the run has failed */
    CALLS_PER_LOOK = 64,      /* an outside caller's, between two looks at the clock */
    LATENCIES_MAX = 1 << 17,  /* of all callers of a stage in one run */
    WRONG_ANSWER = 1          /* a positive code: the call itself went well */
};

struct ping_arg {
    uint64_t add;
    uint8_t rest[56];
};

struct ping_ret {
    uint64_t turns, sum;
    uint8_t rest[48];
};

_Static_assert(sizeof(struct ping_arg) == 64 && sizeof(struct ping_ret) == 64,
               "the ping is 64 bytes each way");

struct ping_count {
    uint64_t turns;
};

#define PONG_METHODS(METHOD, SELF)                                                                 \
    METHOD(SELF, ping, struct ping_arg, struct ping_ret, 0)                                        \
    METHOD(SELF, turns, teff_none, struct ping_count, 0)
TEFF_INTERFACE(pong, PONG_METHODS);

struct pong {
    uint64_t turns, sum;
};
TEFF_GRAIN(pong, PONG_METHODS);

static int pong_on_ping(teff_turn *turn, struct pong *self, const struct ping_arg *arg,
                        struct ping_ret *ret)
{
    (void)turn;
    self->turns++;
    self->sum += arg->add;
    ret->turns = self->turns;
    ret->sum = self->sum;
    return 0;
}

static int pong_on_turns(teff_turn *turn, struct pong *self, const teff_none *arg,
                         struct ping_count *ret)
{
    (void)turn;
    (void)arg;
    ret->turns = self->turns;
    return 0;
}

/* Calls that were answered, of one worker's callers. */
typedef struct ping_meter {
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u64 calls; /* that worker; main reads */
} ping_meter;

/* A task's own while it runs, main's otherwise. */
typedef struct ping_caller {
    _Alignas(TEFF__CACHE_LINE) pong_ref grains[2];
    uint64_t turns[2];  /* that each must have run */
    unsigned alternate; /* 1: calls both in turn */
    uint32_t until_sample;
    ping_meter *meter;
    const teff__atomic_u32 *running;
    int64_t *latencies_ns;
    uint32_t latency_count, latency_max;
    teff_future task;
    char failure[96];
} ping_caller;

struct ping_stage {
    ping_host *host;
    ping_caller *callers;
    int64_t *latencies_ns;
    uint64_t first_key;
    unsigned caller_count;
    bool outside;
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u32 running; /* main; tasks read */
    ping_meter meters[PING_WORKERS_MAX];
};

/* What one worker has to activate. */
typedef struct activation_job {
    ping_stage *stage;
    unsigned worker;
} activation_job;

static int complain(const char *what, int r)
{
    (void)fprintf(stderr, "ping: %s: %d\n", what, r);
    return -1;
}

static int pin_worker(void *user, uint32_t worker, void **ret_context)
{
    (void)user;
    (void)ret_context;
    machine_pin(worker);
    return 0;
}

int ping_host_init(ping_host *host, unsigned workers)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = workers,
                                        .worker_start = pin_worker };
    *host = (ping_host){ .workers = workers };
    int r = teff_silo_create(&options, &host->silo);
    if (r == 0)
        r = teff_silo_register(host->silo, &pong_grain, NULL);
    if (r == 0)
        r = teff_silo_start(host->silo);
    if (r == 0)
        r = teff_client_create(host->silo, NULL, &host->client);
    if (r == 0)
        return 0;
    ping_host_finish(host);
    return complain("the silo does not start", r);
}

void ping_host_finish(ping_host *host)
{
    host->client = teff_client_destroy(host->client);
    host->silo = teff_silo_destroy(host->silo);
}

static unsigned worker_of(const ping_stage *stage, unsigned caller, unsigned which)
{
    return (caller + which) % stage->host->workers;
}

static inline __attribute__((always_inline)) int ask(teff_caller *by, ping_caller *caller,
                                                     unsigned which, const struct ping_arg *arg)
{
    struct ping_ret ret;
    const int r = pong_ping(by, &caller->grains[which], arg, &ret);
    if (TEFF__UNLIKELY(r != 0))
        return r;
    return TEFF__LIKELY(ret.turns == ++caller->turns[which]) ? 0 : WRONG_ANSWER;
}

/* Keeps what happened for main to print. */
static int caller_failed(teff_caller *by, ping_caller *caller, int r)
{
    const char *text =
        r == WRONG_ANSWER ? "not the next answer of its grain" : teff_outcome_last(by)->text;
    (void)snprintf(caller->failure, sizeof(caller->failure), "%d: %s", r, text != NULL ? text : "");
    return r;
}

/*
 * One call of a caller, which goes on with the other grain if it has two. 0, or what teff or the
 * check said.
 */
typedef int step(teff_caller *by, ping_caller *caller, unsigned *which, const struct ping_arg *arg);

static inline __attribute__((always_inline)) int plain_step(teff_caller *by, ping_caller *caller,
                                                            unsigned *which,
                                                            const struct ping_arg *arg)
{
    const int r = ask(by, caller, *which, arg);
    if (TEFF__UNLIKELY(r != 0))
        return caller_failed(by, caller, r);
    teff__atomic_u64_increment_owner(&caller->meter->calls);
    *which ^= caller->alternate;
    return 0;
}

/*
 * The same, and times every PING_SAMPLE_EVERY-th call, or the one after, so that both grains get
 * their share.
 */
static int sampling_step(teff_caller *by, ping_caller *caller, unsigned *which,
                         const struct ping_arg *arg)
{
    if (--caller->until_sample != 0 || caller->latency_count == caller->latency_max)
        return plain_step(by, caller, which, arg);
    const int64_t start_ns = machine_now_ns();
    const int r = plain_step(by, caller, which, arg);
    caller->latencies_ns[caller->latency_count++] = machine_now_ns() - start_ns;
    caller->until_sample = PING_SAMPLE_EVERY + (caller->latency_count & 1);
    return r;
}

static int caller_main(teff_task *task, void *user)
{
    ping_caller *caller = user;
    const struct ping_arg arg = { .add = 1 };
    unsigned which = 0;
    int r = 0;
    while (r == 0 && teff__atomic_u32_load_relaxed(caller->running) != 0)
        r = plain_step(task, caller, &which, &arg);
    return r;
}

static int sampling_main(teff_task *task, void *user)
{
    ping_caller *caller = user;
    const struct ping_arg arg = { .add = 1 };
    unsigned which = 0;
    int r = 0;
    while (r == 0 && teff__atomic_u32_load_relaxed(caller->running) != 0)
        r = sampling_step(task, caller, &which, &arg);
    return r;
}

/* The first call of each grain decides where it lives: on the worker that this task runs on. */
static int activate_main(teff_task *task, void *user)
{
    const activation_job *job = user;
    const ping_stage *stage = job->stage;
    const struct ping_arg arg = { .add = 1 };
    for (unsigned i = 0; i < stage->caller_count; i++) {
        for (unsigned which = 0; which <= stage->callers[i].alternate; which++) {
            ping_caller copy =
                stage->callers[i]; /* its references stay untouched for their own user */
            if (worker_of(stage, i, which) != job->worker)
                continue;
            const int r = ask(task, &copy, which, &arg);
            if (r != 0)
                return r;
        }
    }
    return 0;
}

static int activate(ping_stage *stage)
{
    for (unsigned worker = 0; worker < stage->host->workers; worker++) {
        activation_job job = { stage, worker };
        teff_future task;
        int result = 0;
        int r = teff_silo_spawn(stage->host->silo, (int)worker, activate_main, &job,
                                stage->host->client, &task);
        if (r == 0)
            r = teff_task_claim(stage->host->client, task, &result);
        if (r != 0 || result != 0)
            return complain("a grain cannot be activated", r != 0 ? r : result);
    }
    for (unsigned i = 0; i < stage->caller_count; i++) {
        for (unsigned which = 0; which <= stage->callers[i].alternate; which++)
            stage->callers[i].turns[which] = 1;
    }
    return 0;
}

static void callers_init(ping_stage *stage)
{
    for (unsigned i = 0; i < stage->caller_count; i++) {
        ping_caller *caller = &stage->callers[i];
        caller->alternate = stage->host->workers > 1;
        caller->running = &stage->running;
        caller->meter = &stage->meters[worker_of(stage, i, 0)];
        for (unsigned which = 0; which < 2; which++)
            caller->grains[which] = pong_at(stage->first_key + 2 * i + which);
        caller->latency_max = LATENCIES_MAX / stage->caller_count;
        caller->latencies_ns = &stage->latencies_ns[(size_t)i * caller->latency_max];
    }
}

static ping_stage *create(ping_host *host, unsigned callers, bool outside)
{
    ping_stage *stage = aligned_alloc(4096, (sizeof(*stage) + 4095) / 4096 * 4096);
    if (stage == NULL)
        return NULL;
    memset(stage, 0, sizeof(*stage));
    stage->host = host;
    stage->caller_count = callers;
    stage->outside = outside;
    stage->first_key = outside ? 0 : (uint64_t)callers * KEYS_PER_STAGE;
    stage->latencies_ns = calloc(LATENCIES_MAX, sizeof(*stage->latencies_ns));
    stage->callers = aligned_alloc(TEFF__CACHE_LINE, callers * sizeof(*stage->callers));
    if (stage->latencies_ns != NULL && stage->callers != NULL) {
        memset(stage->callers, 0, callers * sizeof(*stage->callers));
        callers_init(stage);
        if (activate(stage) == 0)
            return stage;
    }
    ping_stage_destroy(stage);
    return NULL;
}

ping_stage *ping_stage_create(ping_host *host, unsigned callers)
{
    return create(host, callers, false);
}

ping_stage *ping_stage_create_outside(ping_host *host)
{
    return create(host, 1, true);
}

void ping_stage_destroy(ping_stage *stage)
{
    if (stage == NULL)
        return;
    free(stage->latencies_ns);
    free(stage->callers);
    free(stage);
}

/* The counters of a moment. */
typedef struct snapshot {
    uint64_t calls, allocations, bytes;
    int64_t now_ns, cpu_ns;
} snapshot;

static snapshot look(ping_stage *stage)
{
    const teff__memory *memory = teff__silo_memory(stage->host->silo);
    snapshot at = { .allocations = teff__atomic_u64_load_relaxed(&memory->allocations),
                    .bytes = teff__atomic_u64_load_relaxed(&memory->bytes),
                    .cpu_ns = machine_cpu_ns() };
    for (unsigned worker = 0; worker < stage->host->workers; worker++)
        at.calls += teff__atomic_u64_load_relaxed(&stage->meters[worker].calls);
    at.now_ns = machine_now_ns();
    return at;
}

static int spawn_all(ping_stage *stage, int (*run)(teff_task *task, void *user))
{
    teff__atomic_u32_store_relaxed(&stage->running, 1);
    for (unsigned i = 0; i < stage->caller_count; i++) {
        const int r =
            teff_silo_spawn(stage->host->silo, (int)worker_of(stage, i, 0), run, &stage->callers[i],
                            stage->host->client, &stage->callers[i].task);
        if (r != 0) {
            teff__atomic_u32_store_relaxed(&stage->running, 0);
            for (unsigned k = 0; k < i; k++)
                (void)teff_task_claim(stage->host->client, stage->callers[k].task, &(int){ 0 });
            return complain("a task cannot be spawned", r);
        }
    }
    return 0;
}

static int claim_all(ping_stage *stage)
{
    int failed = 0;
    teff__atomic_u32_store_relaxed(&stage->running, 0);
    for (unsigned i = 0; i < stage->caller_count; i++) {
        int result = 0;
        const int r = teff_task_claim(stage->host->client, stage->callers[i].task, &result);
        if (r != 0)
            failed = complain("a task cannot be claimed", r);
        else if (result != 0)
            failed = complain(stage->callers[i].failure, result);
    }
    return failed;
}

/* The caller of an outside stage is this thread. */
static int call_outside(ping_stage *stage, step *take, int64_t duration_ns)
{
    ping_caller *caller = &stage->callers[0];
    const struct ping_arg arg = { .add = 1 };
    const int64_t end_ns = machine_now_ns() + duration_ns;
    unsigned which = 0;
    do {
        for (int i = 0; i < CALLS_PER_LOOK; i++) {
            const int r = take(stage->host->client, caller, &which, &arg);
            if (r != 0)
                return complain(caller->failure, r);
        }
    } while (machine_now_ns() < end_ns);
    return 0;
}

/*
 * Measures a window of running callers: longer than asked for where the machine had no time for a
 * single call.
 */
static int run_tasks(ping_stage *stage, int64_t duration_ns, snapshot *ret_from, snapshot *ret_to)
{
    if (spawn_all(stage, caller_main) != 0)
        return -1;
    machine_sleep_ns(duration_ns / WARM_UP_PART);
    *ret_from = look(stage);
    for (int windows = 0; windows < WINDOWS_MAX; windows++) {
        machine_sleep_ns(duration_ns);
        *ret_to = look(stage);
        if (ret_to->calls != ret_from->calls)
            break;
    }
    return claim_all(stage);
}

static int run_outside(ping_stage *stage, int64_t duration_ns, snapshot *ret_from, snapshot *ret_to)
{
    int r = call_outside(stage, plain_step, duration_ns / WARM_UP_PART);
    *ret_from = look(stage);
    if (r == 0)
        r = call_outside(stage, plain_step, duration_ns);
    *ret_to = look(stage);
    return r;
}

int ping_stage_run(ping_stage *stage, int64_t duration_ns, ping_result *ret)
{
    snapshot from, to;
    const int r = stage->outside ? run_outside(stage, duration_ns, &from, &to)
                                 : run_tasks(stage, duration_ns, &from, &to);
    if (r != 0)
        return r;
    if (to.calls == from.calls)
        return complain("not one call was answered", 0);
    const double calls = (double)(to.calls - from.calls);
    *ret = (ping_result){ .ns = (double)(to.now_ns - from.now_ns) / calls,
                          .cpu_ns = (double)(to.cpu_ns - from.cpu_ns) / calls,
                          .allocations = (double)(to.allocations - from.allocations) / calls,
                          .bytes = ((double)to.bytes - (double)from.bytes) / calls };
    return 0;
}

int ping_stage_latency(ping_stage *stage, int64_t duration_ns, bench_samples *samples)
{
    int r;
    for (unsigned i = 0; i < stage->caller_count; i++) {
        stage->callers[i].latency_count = 0;
        stage->callers[i].until_sample = 1 + i % PING_SAMPLE_EVERY; /* not all in the same moment */
    }
    if (stage->outside) {
        r = call_outside(stage, sampling_step, duration_ns);
    } else {
        r = spawn_all(stage, sampling_main);
        if (r == 0) {
            machine_sleep_ns(duration_ns);
            r = claim_all(stage);
        }
    }
    for (unsigned i = 0; i < stage->caller_count; i++) {
        /* The first of each caller may have found cold memory. */
        for (uint32_t k = 1; k < stage->callers[i].latency_count; k++)
            bench_samples_add(samples, (double)stage->callers[i].latencies_ns[k]);
    }
    return r;
}

int ping_stage_check(ping_stage *stage, uint64_t *ret_calls)
{
    uint64_t calls = 0, turns = 0;
    for (unsigned i = 0; i < stage->caller_count; i++) {
        ping_caller *caller = &stage->callers[i];
        for (unsigned which = 0; which <= caller->alternate; which++) {
            struct ping_count count;
            const int r = pong_turns(stage->host->client, &caller->grains[which], NULL, &count);
            if (r != 0)
                return complain("a grain does not say how many turns it ran", r);
            calls += caller->turns[which];
            turns += count.turns;
        }
    }
    *ret_calls = calls;
    const uint64_t open = teff__silo_open_count(stage->host->silo);
    if (calls == turns && open == 0)
        return 0;
    (void)fprintf(stderr, "ping: %llu calls of %u callers, but %llu turns; %llu callbacks open\n",
                  (unsigned long long)calls, stage->caller_count, (unsigned long long)turns,
                  (unsigned long long)open);
    return -1;
}
