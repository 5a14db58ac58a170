/* SPDX-License-Identifier: MIT */
/*
 * One silo with one worker, two types of grains: those that stay, and those that go when they were
 * idle for a while. The former are called once; the latter once in each round.
 */
#include "benchmarks/activation_collect.h"

#include "benchmarks/machine.h"

#include "teff.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUANTUM_NS  INT64_C(10000000)
#define BASE_NS     INT64_C(300000000) /* how long calls are timed before */
#define PATIENCE_NS INT64_C(120000000000)
#define POLL_NS     INT64_C(100000)

enum {
    TIMED_MAX = 1 << 16, /* nanoseconds with a counter each */
    CALLS_PER_LOOK = 64
};

#define RESIDENT_METHODS(METHOD, SELF) METHOD(SELF, touch, teff_none, teff_none, 0)
TEFF_INTERFACE(resident, RESIDENT_METHODS);
TEFF_INTERFACE_DEFINE(resident, RESIDENT_METHODS);

struct resident {
    uint64_t touched, unused;
};
TEFF_HANDLERS(resident, struct resident, resident, RESIDENT_METHODS);

static int resident_on_touch(teff_turn *turn, struct resident *self, const teff_none *arg,
                             teff_none *ret)
{
    (void)turn, (void)arg, (void)ret;
    self->touched++;
    return 0;
}

static const teff_handlers *const resident_implements[] = { &resident_handlers, NULL };
static const teff_name staying = { "staying" }, going = { "going" };

/* How long calls took. */
typedef struct times {
    uint64_t counts[TIMED_MAX], count;
    int64_t longest_ns;
    int64_t longest_cpu_ns; /* of CALLS_PER_LOOK calls together, in the worker's own time */
} times;

typedef struct scene {
    teff_silo *silo;
    teff_client *client;
    int64_t collected;
    times before, meanwhile;
    int64_t took_ns; /* the collection beside the calls */
} scene;

static void times_clear(times *in)
{
    memset(in, 0, sizeof(*in));
}

static void times_add(times *in, int64_t ns)
{
    in->counts[ns < TIMED_MAX ? ns : TIMED_MAX - 1]++;
    in->count++;
    if (ns > in->longest_ns)
        in->longest_ns = ns;
}

static double times_p99(const times *in)
{
    uint64_t left = in->count - in->count / 100;
    for (int ns = 0; ns < TIMED_MAX; ns++) {
        if (left <= in->counts[ns])
            return ns;
        left -= in->counts[ns];
    }
    return TIMED_MAX;
}

static uint64_t gone(teff_silo *silo)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    (void)teff_silo_grain_counts(silo, &counts);
    return counts.gone[TEFF_DEACTIVATED_IDLE];
}

static int scene_open(scene *in, int64_t age_ns)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 1,
                                        .idle_ns = INT64_MAX,
                                        .idle_quantum_ns = QUANTUM_NS };
    teff_grain_type type = { .struct_size = sizeof(type),
                             .name = staying,
                             .state_size = sizeof(struct resident),
                             .implements = resident_implements,
                             .idle_ns = INT64_C(86400000000000) };
    int r = teff_silo_create(&options, &in->silo);
    if (r == 0)
        r = teff_silo_register(in->silo, &type, NULL);
    type.name = going;
    type.idle_ns = age_ns;
    if (r == 0)
        r = teff_silo_register(in->silo, &type, NULL);
    if (r == 0)
        r = teff_silo_start(in->silo);
    if (r == 0)
        r = teff_client_create(in->silo, NULL, &in->client);
    return r;
}

static void scene_close(scene *in)
{
    in->client = teff_client_destroy(in->client);
    in->silo = teff_silo_destroy(in->silo);
}

/* Runs a task on the worker to its end. */
static int run(scene *in, int (*task)(teff_task *task, void *user), void *user)
{
    teff_future future;
    int result = 0;
    int r = teff_silo_spawn(in->silo, 0, task, user, in->client, &future);
    if (r == 0)
        r = teff_task_claim(in->client, future, &result);
    return r != 0 ? r : result;
}

typedef struct keys {
    const teff_name *type;
    int64_t count;
} keys;

static int touch_all(teff_task *task, void *user)
{
    const keys *range = user;
    int r = 0;
    for (int64_t key = 0; r == 0 && key < range->count; key++) {
        resident_ref one = resident_of(range->type, teff_key_u64((uint64_t)key));
        r = resident_touch(task, &one, NULL, NULL);
    }
    return r;
}

/* Of this thread: what others took from the core is not in it. */
static int64_t thread_cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Times calls to one grain until so many have gone in all, or the time is over. */
static int ping(teff_task *task, scene *in, times *ret, uint64_t until_gone, int64_t until_ns)
{
    resident_ref one = resident_of(&staying, teff_key_u64(0));
    int64_t before_ns = machine_now_ns(), cpu_ns = thread_cpu_ns();
    for (uint64_t calls = 1;; calls++) {
        const int r = resident_touch(task, &one, NULL, NULL);
        if (r != 0)
            return r;
        const int64_t now_ns = machine_now_ns();
        if (ret != NULL)
            times_add(ret, now_ns - before_ns);
        before_ns = now_ns;
        if (calls % CALLS_PER_LOOK != 0)
            continue;
        const int64_t cpu_now_ns = thread_cpu_ns();
        if (ret != NULL && cpu_now_ns - cpu_ns > ret->longest_cpu_ns)
            ret->longest_cpu_ns = cpu_now_ns - cpu_ns;
        cpu_ns = cpu_now_ns;
        if (gone(in->silo) >= until_gone || now_ns >= until_ns)
            return 0;
    }
}

static int ping_before(teff_task *task, void *user)
{
    scene *in = user;
    return ping(task, in, &in->before, UINT64_MAX, machine_now_ns() + BASE_NS);
}

static int ping_meanwhile(teff_task *task, void *user)
{
    scene *in = user;
    const uint64_t first = gone(in->silo);
    const int64_t until_ns = machine_now_ns() + PATIENCE_NS;
    int r = ping(task, in, NULL, first + 1, until_ns);
    const int64_t began_ns = machine_now_ns();
    if (r == 0)
        r = ping(task, in, &in->meanwhile, first + (uint64_t)in->collected, until_ns);
    in->took_ns = machine_now_ns() - began_ns;
    return r;
}

/* What it takes alone: seen from here. */
static int alone(scene *in, double *ret_ns)
{
    keys range = { &going, in->collected };
    const uint64_t first = gone(in->silo), last = first + (uint64_t)in->collected;
    int r = run(in, touch_all, &range);
    const int64_t until_ns = machine_now_ns() + PATIENCE_NS;
    uint64_t seen = first;
    while (r == 0 && (seen = gone(in->silo)) == first && machine_now_ns() < until_ns)
        machine_sleep_ns(POLL_NS);
    const int64_t began_ns = machine_now_ns();
    const uint64_t rest = last - seen;
    while (r == 0 && gone(in->silo) < last && machine_now_ns() < until_ns)
        machine_sleep_ns(POLL_NS);
    *ret_ns = (double)(machine_now_ns() - began_ns) / (double)(rest > 0 ? rest : 1);
    return r != 0 || gone(in->silo) < last ? -1 : 0;
}

static int beside(scene *in)
{
    keys range = { &going, in->collected };
    const uint64_t first = gone(in->silo);
    times_clear(&in->before);
    times_clear(&in->meanwhile);
    int r = run(in, ping_before, in);
    if (r == 0)
        r = run(in, touch_all, &range);
    if (r == 0)
        r = run(in, ping_meanwhile, in);
    return r != 0 || gone(in->silo) != first + (uint64_t)in->collected ? -1 : 0;
}

typedef struct results {
    bench_samples pause, pause_before, cpu, cpu_before, ratio, p99, ns, share;
} results;

static void add_rows(bench_program *bench, results *of)
{
    bench_row *row = bench_add(bench, &of->pause, "ns", "collect.pause");
    bench_row_extra(row, "before_ns", bench_samples_percentile(&of->pause_before, 0.5));
    row = bench_add(bench, &of->cpu, "ns", "collect.pause_cpu");
    bench_row_extra(row, "before_ns", bench_samples_percentile(&of->cpu_before, 0.5));
    row = bench_add(bench, &of->ratio, "count", "collect.ping_p99_ratio");
    bench_row_extra(row, "p99_ns", bench_samples_percentile(&of->p99, 0.5));
    row = bench_add(bench, &of->ns, "ns", "collect.ns");
    bench_row_extra(row, "beside_calls_ns", bench_samples_percentile(&of->share, 0.5));
    bench_samples_finish(&of->pause);
    bench_samples_finish(&of->pause_before);
    bench_samples_finish(&of->cpu);
    bench_samples_finish(&of->cpu_before);
    bench_samples_finish(&of->ratio);
    bench_samples_finish(&of->p99);
    bench_samples_finish(&of->ns);
    bench_samples_finish(&of->share);
}

int activation_collect(bench_program *bench, int64_t grains, int64_t collected, int64_t rounds)
{
    results of = { 0 };
    keys range = { &staying, grains > collected ? grains - collected : 1 };
    scene *in = calloc(1, sizeof(*in));
    if (in == NULL)
        return -1;
    in->collected = collected;
    /* So long that none goes before all are there. */
    int r = scene_open(in, INT64_C(500000000) + collected * 2000);
    if (r == 0)
        r = run(in, touch_all, &range);
    for (int64_t round = 0; r == 0 && round < rounds && !bench_interrupted(); round++) {
        double ns;
        bench_progress(bench, "collect: round %lld of %lld", (long long)round + 1,
                       (long long)rounds);
        r = beside(in);
        if (r == 0)
            r = alone(in, &ns);
        if (r != 0)
            break;
        bench_samples_add(&of.pause, (double)in->meanwhile.longest_ns);
        bench_samples_add(&of.pause_before, (double)in->before.longest_ns);
        bench_samples_add(&of.cpu, (double)in->meanwhile.longest_cpu_ns);
        bench_samples_add(&of.cpu_before, (double)in->before.longest_cpu_ns);
        bench_samples_add(&of.p99, times_p99(&in->meanwhile));
        bench_samples_add(&of.ratio, times_p99(&in->meanwhile) / times_p99(&in->before));
        bench_samples_add(&of.share, (double)in->took_ns / (double)collected);
        bench_samples_add(&of.ns, ns);
    }
    if (r != 0)
        bench_fail(bench, "collect: %d, or not all went", r);
    add_rows(bench, &of);
    scene_close(in);
    free(in);
    return r;
}
