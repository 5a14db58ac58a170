/* SPDX-License-Identifier: MIT */
/*
 * The benchmark `ping`, teff's main job: N callers, each awaiting a call to its own grain, 64 bytes
 * there and back.
 *
 *   ping.local.N     one worker; beside ideal.N, the same by hand
 *   ping.cross.N     two workers, callers and grains spread, half the calls crossing; beside
 *                    ideal.cross.N
 *   ping.outside.1   one blocking client outside the silo; beside line.round_trip
 *
 * A subject and its reference are measured in turn, round after round; a ratio is the median of the
 * rounds' ratios.
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

typedef enum ping_kind { KIND_LOCAL, KIND_CROSS, KIND_OUTSIDE } ping_kind;

static const char *const subject_names[] = { "ping.local", "ping.cross", "ping.outside" };

static const char *const titles[] = {
    "one worker: callers, grains and their loop on one core",
    "two workers: callers and grains spread, half of the calls crossing",
    "one blocking client outside the silo, on another core; the reference is line.round_trip",
};

/* What the design asks for; NAN: nothing. */
typedef struct ping_bar {
    ping_kind kind;
    unsigned callers;
    double ns, ratio, allocations;
} ping_bar;

static const ping_bar bars[] = {
    { KIND_LOCAL, 1, 60, 1.6, NAN },
    { KIND_LOCAL, 100, 60, 1.5, 0 },
    { KIND_CROSS, 100, NAN, 1.6, NAN },
    { KIND_OUTSIDE, 1, NAN, 8, NAN },
};

/* One line of a table: a subject and its reference. */
typedef struct ping_point {
    ping_kind kind;
    unsigned callers;
    int64_t duration_ns;
    ping_stage *stage;
    bool warm; /* the first round is not kept */
    char name[BENCH_NAME_MAX], reference_name[BENCH_NAME_MAX];
    bench_measurement *subject, *reference;
    bench_samples cpu_ns, allocations, bytes, latency_ns;
} ping_point;

static int64_t rounds = 15, duration_ms = 40, latency_ms = 150;
static int64_t callers = 0, local = 1, cross = 1, outside = 1;

static int run_subject(void *user, double *ret)
{
    ping_point *point = user;
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
    const ping_point *point = user;
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

static void name_point(ping_point *point)
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
static int add_point(ping_point *points, size_t *count, ping_kind kind, unsigned caller_count,
                     ping_host *host)
{
    ping_point *point = &points[(*count)++];
    point->kind = kind;
    point->callers = caller_count;
    point->duration_ns = duration_ms * 1000000;
    name_point(point);
    point->stage = kind == KIND_OUTSIDE ? ping_stage_create_outside(host)
                                        : ping_stage_create(host, caller_count);
    return point->stage != NULL ? 0 : -1;
}

/* hosts[0] has one worker, hosts[1] two. */
static int add_points(ping_point *points, size_t *count, ping_host *hosts)
{
    const size_t each = callers != 0 ? 1 : COUNTS;
    if ((local != 0 || outside != 0) && ping_host_init(&hosts[0], 1) != 0)
        return -1;
    if (cross != 0 && ping_host_init(&hosts[1], 2) != 0)
        return -1;
    for (size_t i = 0; i < 2 * each; i++) {
        const ping_kind kind = i < each ? KIND_LOCAL : KIND_CROSS;
        const unsigned caller_count = callers != 0 ? (unsigned)callers : caller_counts[i % each];
        if ((kind == KIND_LOCAL ? local : cross) == 0)
            continue;
        if (add_point(points, count, kind, caller_count, &hosts[kind]) != 0)
            return -1;
    }
    return outside != 0 ? add_point(points, count, KIND_OUTSIDE, 1, &hosts[0]) : 0;
}

static void measure(bench_program *bench, ping_point *points, size_t count,
                    bench_measurement *measurements)
{
    for (size_t i = 0; i < count; i++) {
        ping_point *point = &points[i];
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

/* Every grain ran as many turns as it was called, and nothing is open. */
static void check(bench_program *bench, ping_point *points, size_t count)
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

/* What is shown and written of a point; NAN where Ctrl-C came first. */
typedef struct summary {
    double ns, min_ns, max_ns, cpu_ns, p50_ns, p95_ns, p99_ns, allocations, bytes, reference_ns,
        ratio;
} summary;

static summary summarize(ping_point *point)
{
    bench_samples *ns = &point->subject->samples, *reference_ns = &point->reference->samples;
    /* First: it pairs the rounds, and every percentile sorts. */
    const double ratio = bench_samples_ratio(ns, reference_ns);
    return (summary){ .ns = bench_samples_percentile(ns, 0.5),
                      .min_ns = bench_samples_percentile(ns, 0),
                      .max_ns = bench_samples_percentile(ns, 1),
                      .cpu_ns = bench_samples_percentile(&point->cpu_ns, 0.5),
                      .p50_ns = bench_samples_percentile(&point->latency_ns, 0.5),
                      .p95_ns = bench_samples_percentile(&point->latency_ns, 0.95),
                      .p99_ns = bench_samples_percentile(&point->latency_ns, 0.99),
                      .allocations = bench_samples_percentile(&point->allocations, 0.5),
                      .bytes = bench_samples_percentile(&point->bytes, 0.5),
                      .reference_ns = bench_samples_percentile(reference_ns, 0.5),
                      .ratio = ratio };
}

static void add_rows(bench_program *bench, ping_point *point, const summary *of)
{
    bench_row *row = bench_add(bench, &point->subject->samples, "ns", "%s", point->name);
    bench_row_extra(row, "callers", point->callers);
    bench_row_extra(row, "per_second", 1e9 / of->ns);
    bench_row_extra(row, "cpu_ns", of->cpu_ns);
    bench_row_extra(row, "allocs", of->allocations);
    bench_row_extra(row, "alloc_bytes", of->bytes);
    bench_row_extra(row, "latency_p50", of->p50_ns);
    bench_row_extra(row, "latency_p95", of->p95_ns);
    bench_row_extra(row, "latency_p99", of->p99_ns);
    bench_row_extra(row, "ratio", of->ratio);
    (void)bench_add(bench, &point->allocations, "count", "%s.allocs", point->name);
    row = bench_add(bench, &point->latency_ns, "ns", "%s.latency", point->name);
    bench_row_extra(row, "sampled_every", PING_SAMPLE_EVERY);
    (void)bench_add(bench, &point->reference->samples, "ns", "%s", point->reference_name);
}

/* NAN asks for nothing, and what was not measured meets nothing. */
static bool within(double value, double at_most)
{
    return isnan(at_most) || value <= at_most;
}

/* "60 ns, 1.5 x: PASS", or nothing where the design asks for nothing. */
static void print_bar(const ping_point *point, const summary *of)
{
    for (size_t i = 0; i < sizeof(bars) / sizeof(bars[0]); i++) {
        const ping_bar *bar = &bars[i];
        if (bar->kind != point->kind || bar->callers != point->callers)
            continue;
        const bool met = within(of->ns, bar->ns) && within(of->ratio, bar->ratio) &&
                         within(of->allocations, bar->allocations);
        if (!isnan(bar->ns))
            (void)printf("%.0f ns, ", bar->ns);
        if (!isnan(bar->allocations))
            (void)printf("%.0f allocs, ", bar->allocations);
        (void)printf("%.1f x: %s", bar->ratio, met ? "PASS" : "over");
    }
}

static void print_head(ping_kind kind)
{
    (void)printf("%s\n", titles[kind]);
    (void)printf("%7s %11s %8s %8s %8s %8s %8s %8s %8s %7s %7s %9s %6s  %s\n", "callers", "calls/s",
                 "ns/call", "min", "max", "CPU ns", "p50", "p95", "p99", "allocs", "bytes",
                 kind == KIND_OUTSIDE ? "line" : "ideal", "ratio", "at most");
}

static void print_point(const ping_point *point, const summary *of)
{
    (void)printf("%7u %11.0f %8.1f %8.1f %8.1f %8.1f %8.0f %8.0f %8.0f %7.3f %7.1f %9.1f %6.2f  ",
                 point->callers, 1e9 / of->ns, of->ns, of->min_ns, of->max_ns, of->cpu_ns,
                 of->p50_ns, of->p95_ns, of->p99_ns, of->allocations, of->bytes, of->reference_ns,
                 of->ratio);
    print_bar(point, of);
    (void)putchar('\n');
}

static void report(bench_program *bench, ping_point *points, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ping_point *point = &points[i];
        if (point->subject->samples.count == 0)
            continue;
        const summary of = summarize(point);
        if (i == 0 || points[i - 1].kind != point->kind)
            print_head(point->kind);
        print_point(point, &of);
        if (i + 1 == count || points[i + 1].kind != point->kind)
            (void)putchar('\n');
        add_rows(bench, point, &of);
    }
    (void)printf("p50, p95, p99: one caller's wait in ns, in a run of their own in which every "
                 "%dth call of each caller\nis timed, the clock's own 10 to 25 ns included; ratio: "
                 "median of the rounds' ratios\n",
                 (int)PING_SAMPLE_EVERY);
}

static void point_finish(ping_point *point)
{
    ping_stage_destroy(point->stage);
    bench_samples_finish(&point->cpu_ns);
    bench_samples_finish(&point->allocations);
    bench_samples_finish(&point->bytes);
    bench_samples_finish(&point->latency_ns);
    if (point->subject == NULL)
        return;
    bench_samples_finish(&point->subject->samples);
    bench_samples_finish(&point->reference->samples);
}

int main(int argc, char **argv)
{
    const bench_option options[] = {
        { "rounds", "measurements of each", &rounds, 1, 10000 },
        { "duration_ms", "of one measurement", &duration_ms, 1, 60000 },
        { "latency_ms", "of one run that samples latencies", &latency_ms, 1, 60000 },
        { "callers", "only so many; 0: 1, 16, 100, 250 and 500", &callers, 0, PING_CALLERS_MAX },
        { "local", "0: not on one worker", &local, 0, 1 },
        { "cross", "0: not on two workers", &cross, 0, 1 },
        { "outside", "0: not from outside", &outside, 0, 1 },
    };
    static bench_program bench;
    static ping_point points[POINTS_MAX];
    static bench_measurement measurements[2 * POINTS_MAX];
    ping_host hosts[2] = { { 0 } };
    size_t count = 0;

    bench_begin(&bench, "ping",
                "N callers, each awaiting a call to its own grain; 64 bytes each way", options,
                sizeof(options) / sizeof(options[0]), argc, argv);
    if (add_points(points, &count, hosts) != 0) {
        bench_fail(&bench, "the grains are not there");
    } else {
        machine_pin(1); /* only now: the silos look at how many cores they may use */
        measure(&bench, points, count, measurements);
        report(&bench, points, count);
        check(&bench, points, count);
    }
    for (size_t i = 0; i < count; i++)
        point_finish(&points[i]);
    ping_host_finish(&hosts[0]);
    ping_host_finish(&hosts[1]);
    return bench_end(&bench);
}
