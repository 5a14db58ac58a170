/* SPDX-License-Identifier: MIT */
/*
 * The benchmark `ping`, teff's main job: N callers, each awaiting a call to its own grain, 64 bytes there and back.
 *
 *   ping.local.N     one worker; beside ideal.N, the same by hand
 *   ping.cross.N     two workers, callers and grains spread, half the calls crossing; beside ideal.cross.N
 *   ping.outside.1   one blocking client outside the silo; beside line.round_trip
 *
 * A subject and its reference are measured in turn, round after round; a ratio is the median of the rounds' ratios.
 */
#include "benchmarks/harness.h"
#include "benchmarks/ideal.h"
#include "benchmarks/line.h"
#include "benchmarks/machine.h"
#include "benchmarks/ping_stage.h"

#include <math.h>
#include <stdio.h>

static const unsigned caller_counts[] = { 1, 16, 100, 250, 500 };

enum { COUNTS = sizeof(caller_counts) / sizeof(caller_counts[0]), POINTS_MAX = 2 * COUNTS + 1 };

typedef enum kind { KIND_LOCAL, KIND_CROSS, KIND_OUTSIDE } kind;

static const char *const subject_names[] = { "ping.local", "ping.cross", "ping.outside" };

static const char *const titles[] = {
    "one worker: callers, grains and their loop on one core",
    "two workers: callers and grains spread, half of the calls crossing",
    "one blocking client outside the silo, on another core; the reference is line.round_trip",
};

/* What the design asks for; NAN: nothing. */
typedef struct bar {
    kind kind;
    unsigned callers;
    double ns, ratio;
} bar;

static const bar bars[] = {
    { KIND_LOCAL, 1, 60, 1.6 },
    { KIND_LOCAL, 100, 60, 1.5 },
    { KIND_CROSS, 100, NAN, 1.6 },
    { KIND_OUTSIDE, 1, NAN, 8 },
};

/* One line of a table: a subject and its reference. */
typedef struct point {
    kind kind;
    unsigned callers;
    int64_t duration_ns;
    ping_stage *stage;
    bool warm; /* the first round is not kept */
    char name[BENCH_NAME_MAX], reference_name[BENCH_NAME_MAX];
    bench_measurement *subject, *reference;
    bench_samples cpu_ns, allocations, bytes, latency_ns;
} point;

static int64_t rounds = 15, duration_ms = 40, latency_ms = 150;
static int64_t callers = 0, local = 1, cross = 1, outside = 1;

static int run_subject(void *user, double *ret)
{
    point *point = user;
    ping_result result;
    const int r = ping_stage_run(point->stage, point->duration_ns, &result);
    if (r != 0)
        return r;
    *ret = result.ns;
    if (point->warm) {
        bench_samples_add(&point->cpu_ns, result.cpu_ns);
        bench_samples_add(&point->allocations, result.allocations);
        bench_samples_add(&point->bytes, result.bytes);
    }
    point->warm = true;
    return 0;
}

static int run_reference(void *user, double *ret)
{
    const point *point = user;
    switch (point->kind) {
    case KIND_LOCAL:
        return ideal_local(point->callers, point->duration_ns, ret);
    case KIND_CROSS:
        return ideal_cross(point->callers, point->duration_ns, ret);
    case KIND_OUTSIDE:
        break;
    }
    return line_round_trip(point->duration_ns, ret);
}

static void name_point(point *point)
{
    const int size = (int)sizeof(point->name);
    (void)snprintf(point->name, (size_t)size, "%s.%u", subject_names[point->kind], point->callers);
    if (point->kind == KIND_OUTSIDE)
        (void)snprintf(point->reference_name, (size_t)size, "line.round_trip");
    else
        (void)snprintf(point->reference_name, (size_t)size, "ideal.%s%u",
                       point->kind == KIND_CROSS ? "cross." : "", point->callers);
}

/* 0, or -1 when its grains cannot be activated. */
static int add_point(point *points, size_t *count, kind kind, unsigned caller_count, ping_host *host)
{
    point *point = &points[(*count)++];
    point->kind = kind;
    point->callers = caller_count;
    point->duration_ns = duration_ms * 1000000;
    name_point(point);
    point->stage = kind == KIND_OUTSIDE ? ping_stage_create_outside(host)
                                        : ping_stage_create(host, caller_count);
    return point->stage != NULL ? 0 : -1;
}

/* hosts[0] has one worker, hosts[1] two. */
static int add_points(point *points, size_t *count, ping_host *hosts)
{
    const size_t each = callers != 0 ? 1 : COUNTS;
    if ((local != 0 || outside != 0) && ping_host_init(&hosts[0], 1) != 0)
        return -1;
    if (cross != 0 && ping_host_init(&hosts[1], 2) != 0)
        return -1;
    for (size_t i = 0; i < 2 * each; i++) {
        const kind kind = i < each ? KIND_LOCAL : KIND_CROSS;
        const unsigned caller_count = callers != 0 ? (unsigned)callers : caller_counts[i % each];
        if ((kind == KIND_LOCAL ? local : cross) == 0)
            continue;
        if (add_point(points, count, kind, caller_count, &hosts[kind]) != 0)
            return -1;
    }
    return outside != 0 ? add_point(points, count, KIND_OUTSIDE, 1, &hosts[0]) : 0;
}

static void measure(bench_program *bench, point *points, size_t count,
                    bench_measurement *measurements)
{
    for (size_t i = 0; i < count; i++) {
        point *point = &points[i];
        point->subject = &measurements[2 * i];
        point->reference = &measurements[2 * i + 1];
        *point->subject = (bench_measurement){ point->name, run_subject, point, { 0 } };
        *point->reference =
            (bench_measurement){ point->reference_name, run_reference, point, { 0 } };
    }
    bench_rounds(bench, measurements, 2 * count, rounds);
    for (size_t i = 0; i < count && !bench->failed && !bench_interrupted(); i++) {
        bench_progress(bench, "latencies: %s", points[i].name);
        if (ping_stage_latency(points[i].stage, latency_ms * 1000000, &points[i].latency_ns) != 0)
            bench_fail(bench, "%s, while its latencies were sampled", points[i].name);
    }
}

/* A grain for every caller ran as many turns as it was called, and nothing is open. */
static void check(bench_program *bench, point *points, size_t count)
{
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t calls = 0;
        if (points[i].stage != NULL && ping_stage_check(points[i].stage, &calls) != 0)
            bench_fail(bench, "%s: the work was not done", points[i].name);
        all += calls;
    }
    if (!bench->failed)
        (void)printf("%llu calls: as many turns ran, and no callback is open\n",
                     (unsigned long long)all);
}
