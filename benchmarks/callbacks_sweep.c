/* SPDX-License-Identifier: MIT */
#include "benchmarks/callbacks_sweep.h"

#include "benchmarks/callbacks_memory.h"
#include "benchmarks/callbacks_stage.h"
#include "benchmarks/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const callbacks_stripes *const counts[] = { &callbacks_stripes_3, &callbacks_stripes_4,
                                                   &callbacks_stripes_5, &callbacks_stripes_6,
                                                   &callbacks_stripes_7, &callbacks_stripes_8 };
enum { COUNTS = sizeof(counts) / sizeof(counts[0]) };

typedef enum what {
    MUTATION,
    MUTATION_CLIENTS,
    MUTATION_FORCED,
    LOOKUP,
    LOOKUP_FORCED,
    SCAN,
    SCAN_FORCED,
    WHATS
} what;

static const char *const names[WHATS] = {
    [MUTATION] = "mutation",
    [MUTATION_CLIENTS] = "mutation.clients",
    [MUTATION_FORCED] = "mutation.forced",
    [LOOKUP] = "lookup",
    [LOOKUP_FORCED] = "lookup.forced",
    [SCAN] = "scan",
    [SCAN_FORCED] = "scan.forced",
};

/* One number of stripes, with its registries. */
typedef struct row {
    const callbacks_stripes *stripes;
    callbacks_stage owners, clients, forced; /* nothing stays open in them */
    callbacks_stage spread, crowded;         /* with live callbacks */
} row;

typedef struct cell {
    row *row;
    what what;
    char name[BENCH_NAME_MAX];
    bench_samples waits;
} cell;

static row rows[COUNTS];
static cell cells[COUNTS][WHATS];
static bench_measurement measurements[COUNTS][WHATS];
static uint64_t run_lifecycles, run_lookups;
static uint64_t *order, *order_ids;

static int mutate(cell *of, callbacks_stage *stage, double *ret)
{
    double waits;
    const callbacks_work work = { 1, 1, run_lifecycles, 1 };
    const int r = callbacks_stage_run(stage, &work, CALLBACKS_STRIPES_THREADS, ret, &waits);
    bench_samples_add(&of->waits, waits);
    return r;
}

static int look_up(const callbacks_stage *live, double *ret)
{
    for (uint64_t i = 0; i < run_lookups; i++)
        order_ids[i] = live->ids[order[i]];
    const int64_t start_ns = machine_now_ns();
    const uint64_t open = live->subject->lookup(live->registry, order_ids, run_lookups);
    *ret = (double)(machine_now_ns() - start_ns) / (double)run_lookups;
    return open == run_lookups ? 0 : -1;
}

static int scan(const callbacks_stage *live, double *ret)
{
    enum { SCANS = 64 };
    const int64_t start_ns = machine_now_ns();
    for (int i = 0; i < SCANS; i++) {
        if (live->subject->due(live->registry, CALLBACKS_DEADLINE_NS - 1) != 0)
            return -1;
    }
    *ret = (double)(machine_now_ns() - start_ns) / SCANS;
    return 0;
}

static int run(void *user, double *ret)
{
    cell *of = user;
    switch (of->what) {
    case MUTATION:
        return mutate(of, &of->row->owners, ret);
    case MUTATION_CLIENTS:
        return mutate(of, &of->row->clients, ret);
    case MUTATION_FORCED:
        return mutate(of, &of->row->forced, ret);
    case LOOKUP:
        return look_up(&of->row->spread, ret);
    case LOOKUP_FORCED:
        return look_up(&of->row->crowded, ret);
    case SCAN:
        return scan(&of->row->spread, ret);
    case SCAN_FORCED:
        return scan(&of->row->crowded, ret);
    case WHATS:
        break;
    }
    return -1;
}

/* Half of the live callbacks are due at half of the time. */
static int fill(callbacks_stage *live, const callbacks_subject *subject)
{
    const int64_t half_ns = CALLBACKS_DEADLINE_NS + CALLBACKS_LIVE / 2 - 1;
    if (callbacks_stage_init(live, subject, 0) != 0 ||
        callbacks_stage_fill(live, CALLBACKS_LIVE) != 0)
        return -1;
    return subject->due(live->registry, half_ns) == CALLBACKS_LIVE / 2 ? 0 : -1;
}

static int prepare_row(int i)
{
    row *of = &rows[i];
    of->stripes = counts[i];
    for (int k = 0; k < WHATS; k++) {
        cell *each = &cells[i][k];
        each->row = of;
        each->what = (what)k;
        (void)snprintf(each->name, sizeof(each->name), "callbacks.sweep.%u.%s", of->stripes->count,
                       names[k]);
        measurements[i][k] = (bench_measurement){ each->name, run, each, { 0 } };
    }
    if (callbacks_stage_init(&of->owners, &of->stripes->owners, 0) != 0 ||
        callbacks_stage_init(&of->clients, &of->stripes->clients, 0) != 0 ||
        callbacks_stage_init(&of->forced, &of->stripes->forced, 0) != 0 ||
        fill(&of->spread, &of->stripes->owners) != 0)
        return -1;
    return fill(&of->crowded, &of->stripes->forced);
}

static int prepare(void)
{
    uint64_t dice = UINT64_C(88172645463325252);
    order = malloc(run_lookups * sizeof(*order));
    order_ids = malloc(run_lookups * sizeof(*order_ids));
    if (order == NULL || order_ids == NULL)
        return -1;
    for (uint64_t i = 0; i < run_lookups; i++) {
        dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
        order[i] = dice % CALLBACKS_LIVE;
    }
    for (int i = 0; i < COUNTS; i++) {
        if (prepare_row(i) != 0)
            return -1;
    }
    return 0;
}

static double add_memory(bench_program *bench, const callbacks_subject *subject, uint64_t live,
                         unsigned count)
{
    callbacks_memory memory;
    bench_samples samples = { 0 };
    if (callbacks_memory_measure(subject, live, &memory) != 0) {
        bench_fail(bench, "memory with %u stripes", count);
        return NAN;
    }
    bench_samples_add(&samples, memory.bytes);
    bench_row *added = bench_add(bench, &samples, "bytes", "callbacks.sweep.%u.memory.%llu%s",
                                 count, (unsigned long long)live, subject->name);
    bench_row_extra(added, "resident", memory.resident);
    bench_samples_finish(&samples);
    return memory.bytes;
}

static void report_row(bench_program *bench, int i)
{
    const callbacks_stripes *stripes = counts[i];
    (void)printf("%7u", stripes->count);
    for (int k = 0; k < WHATS; k++) {
        bench_samples *samples = &measurements[i][k].samples;
        (void)printf(" %8.2f", bench_samples_percentile(samples, 0.5));
        bench_row *added = bench_add(bench, samples, "ns", "%s", cells[i][k].name);
        if (cells[i][k].waits.count != 0)
            bench_row_extra(added, "waits", bench_samples_percentile(&cells[i][k].waits, 0.5));
    }
    (void)printf(" %10.0f", add_memory(bench, &stripes->owners, 0, stripes->count));
    (void)printf(" %10.0f", add_memory(bench, &stripes->owners, CALLBACKS_LIVE, stripes->count));
    (void)printf(" %10.0f\n", add_memory(bench, &stripes->forced, CALLBACKS_LIVE, stripes->count));
}

static void report(bench_program *bench)
{
    (void)printf(
        "\nother numbers of stripes; mutation: 4 threads, ns of wall time each; forced: on "
        "one stripe, clients under a lock\n%7s %26s %17s %17s %32s\n",
        "", "mutation", "look-up, ns", "scan of 8,192", "bytes");
    (void)printf("%7s %8s %8s %8s %8s %8s %8s %8s %10s %10s %10s\n", "stripes", "workers",
                 "clients", "forced", "spread", "forced", "spread", "forced", "empty", "spread",
                 "forced");
    for (int i = 0; i < COUNTS; i++)
        report_row(bench, i);
}

static void finish(void)
{
    for (int i = 0; i < COUNTS; i++) {
        for (int k = 0; k < WHATS; k++) {
            bench_samples_finish(&measurements[i][k].samples);
            bench_samples_finish(&cells[i][k].waits);
        }
        callbacks_stage_finish(&rows[i].owners);
        callbacks_stage_finish(&rows[i].clients);
        callbacks_stage_finish(&rows[i].forced);
        callbacks_stage_finish(&rows[i].spread);
        callbacks_stage_finish(&rows[i].crowded);
    }
    free(order);
    free(order_ids);
}

void callbacks_sweep(bench_program *bench, int64_t rounds, uint64_t lifecycles, uint64_t lookups)
{
    run_lifecycles = lifecycles;
    run_lookups = lookups;
    if (prepare() != 0) {
        bench_fail(bench, "sweep: what was opened is not there");
    } else {
        bench_rounds(bench, &measurements[0][0], (size_t)COUNTS * WHATS, rounds);
        report(bench);
    }
    finish();
}
