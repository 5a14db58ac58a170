/* SPDX-License-Identifier: MIT */
/*
 * The benchmark `callbacks`: what it costs to keep calls that wait for an answer, in the library's
 * registry and in four that others would take.
 *
 *   callbacks.lifecycle.*     opened with a deadline, found by id, closed; 1, 2 and 32 threads
 *   callbacks.lifecycle.cross opened here, answered on the other core; beside ring.cross
 *   callbacks.lookup, .scan, .count_if, .count      of live ones
 *   callbacks.allocs, .memory
 *   callbacks.sweep.*         other numbers of stripes; see callbacks_sweep.h
 *
 * A table's rows end in .mutex, .lfht, .ck or .striped. All of one run are measured in turn, round
 * after round; a ratio is the median of the rounds' ratios.
 */
#include "benchmarks/callbacks.h"

#include "benchmarks/callbacks_cross.h"
#include "benchmarks/callbacks_memory.h"
#include "benchmarks/callbacks_stage.h"
#include "benchmarks/callbacks_sweep.h"
#include "benchmarks/harness.h"
#include "benchmarks/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t rounds = 11, lifecycles = 1 << 20, crossings = 1 << 18, lookups = 1 << 18;
static int64_t outstanding = 1, depth = 100, duration_us = 1000, sweep = 1;

/* The columns of the tables. */
enum { OURS, MUTEX, LFHT, CK, STRIPED, COLUMNS };

static const callbacks_subject *const columns[COLUMNS] = {
    [OURS] = &callbacks_ours,       [MUTEX] = &callbacks_mutex,
#ifdef TEFF_HAVE_URCU
    [LFHT] = &callbacks_lfht,
#endif
#ifdef TEFF_HAVE_CK
    [CK] = &callbacks_ck,
#endif
    [STRIPED] = &callbacks_striped,
};

typedef enum what {
    CONSECUTIVE,
    STRIDE, /* for tables: ours makes its own ids */
    CROSS,
    LOOKUP,
    SCAN,
    SCAN_SKIPPED,
    COUNT_IF,
    COUNT_FUNCTION,
    COUNT,
    COUNT_EXACT,
    ALLOCS
} what;

/* A row and, of tables, its siblings. */
typedef struct line {
    const char *name;
    what what;
    unsigned threads;
    double published, at_most;     /* NAN: nothing */
    const callbacks_subject *only; /* in place of all columns */
} line;

#define LIFECYCLE "callbacks.lifecycle."

/* Published: .NET 10 on an EPYC 7763, 16 cores; of the whole run or walk, here for each. */
static const line lines[] = {
    { LIFECYCLE "consecutive.1", CONSECUTIVE, 1, 44.8, 8, NULL },
    { LIFECYCLE "stride.1", STRIDE, 1, 45.2, 8, NULL },
    { LIFECYCLE "consecutive.2", CONSECUTIVE, 2, NAN, 8, NULL },
    { LIFECYCLE "stride.2", STRIDE, 2, NAN, 8, NULL },
    { LIFECYCLE "consecutive.32", CONSECUTIVE, 32, 30.3, 8, NULL },
    { LIFECYCLE "stride.32", STRIDE, 32, NAN, 8, NULL },
    { LIFECYCLE "client.1", CONSECUTIVE, 1, NAN, NAN, &callbacks_client },
    { LIFECYCLE "client.2", CONSECUTIVE, 2, NAN, NAN, &callbacks_client },
    { LIFECYCLE "client.32", CONSECUTIVE, 32, NAN, NAN, &callbacks_client },
    { LIFECYCLE "slots.1", CONSECUTIVE, 1, NAN, NAN, &callbacks_slots },
    { LIFECYCLE "cross", CROSS, 2, NAN, NAN, NULL },
    { LIFECYCLE "cross.client", CROSS, 2, NAN, NAN, &callbacks_client },
    { LIFECYCLE "cross.inbox", CROSS, 2, NAN, NAN, &callbacks_inbox },
    { "ring.cross", CROSS, 2, NAN, NAN, &callbacks_slots },
    { "callbacks.lookup", LOOKUP, 1, 23.4, 3, NULL },
    { "callbacks.scan", SCAN, 1, 52430, 4000, NULL },
    { "callbacks.scan.skipped", SCAN_SKIPPED, 1, NAN, 100, NULL },
    { "callbacks.count_if", COUNT_IF, 1, 10170, 8000, NULL },
    { "callbacks.count_if.function", COUNT_FUNCTION, 1, 10170, 16000, NULL },
    { "callbacks.count", COUNT, 1, 759, 100, NULL },
    { "callbacks.count.exact", COUNT_EXACT, 1, NAN, 500, NULL },
    { "callbacks.allocs", ALLOCS, 1, 0, 0, NULL },
};
enum { LINES = sizeof(lines) / sizeof(lines[0]) };

/* What is measured of a subject, in a run of its own and with live callbacks. */
typedef struct stages {
    callbacks_stage runs, live;
} stages;

/* A cell of the tables. */
typedef struct cell {
    const line *line;
    const callbacks_subject *subject;
    stages *stages;
    char name[BENCH_NAME_MAX];
    bench_measurement *measurement; /* NULL: the subject cannot */
    bench_samples waits;
    bool warm; /* the first round is not kept */
} cell;

enum { SUBJECTS = COLUMNS + 3 };

static const callbacks_subject *subjects[SUBJECTS];
static stages all_stages[SUBJECTS];
static cell cells[LINES][COLUMNS];
static bench_measurement measurements[LINES * COLUMNS];
static size_t measurement_count;
static uint64_t *order; /* numbers of live callbacks to look up */
static uint64_t *order_ids;

static int run_lifecycles(cell *of, uint64_t stride, double *ret)
{
    double waits;
    const callbacks_work work = { 1, stride, (uint64_t)lifecycles, (unsigned)outstanding };
    const int r = callbacks_stage_run(&of->stages->runs, &work, of->line->threads, ret, &waits);
    if (r == 0 && of->warm)
        bench_samples_add(&of->waits, waits);
    of->warm = true;
    return r;
}

static int run_lookups(const cell *of, double *ret)
{
    const callbacks_stage *live = &of->stages->live;
    for (int64_t i = 0; i < lookups; i++)
        order_ids[i] = live->ids[order[i]];
    const int64_t start_ns = machine_now_ns();
    const uint64_t open = of->subject->lookup(live->registry, order_ids, (size_t)lookups);
    *ret = (double)(machine_now_ns() - start_ns) / (double)lookups;
    return open == (uint64_t)lookups ? 0 : -1;
}

/* One walk; whether it found what is there. */
static bool walk(const cell *of)
{
    void *registry = of->stages->live.registry;
    const callbacks_subject *subject = of->subject;
    switch (of->line->what) {
    case SCAN: /* nothing is due */
        return subject->due(registry, CALLBACKS_DEADLINE_NS - 1) == 0;
    case SCAN_SKIPPED:
        return subject->due_skipping(registry, CALLBACKS_DEADLINE_NS - 1) == 0;
    case COUNT_IF:
        return subject->count_target(registry, 3) == CALLBACKS_LIVE / CALLBACKS_TARGETS;
    case COUNT_FUNCTION:
        return subject->count_function(registry, 3) == CALLBACKS_LIVE / CALLBACKS_TARGETS;
    case COUNT:
        return subject->count(registry) == CALLBACKS_LIVE;
    case COUNT_EXACT:
        return subject->count_exact(registry) == CALLBACKS_LIVE;
    default:
        return false;
    }
}

static int run_walks(const cell *of, double *ret)
{
    enum { WALKS_PER_LOOK = 16 }; /* at the clock, which costs a walk's time */
    const int64_t start_ns = machine_now_ns();
    int64_t passed_ns, walks = 0;
    do {
        for (int i = 0; i < WALKS_PER_LOOK; i++) {
            if (!walk(of))
                return -1;
        }
        walks += WALKS_PER_LOOK;
        passed_ns = machine_now_ns() - start_ns;
    } while (passed_ns < duration_us * 1000);
    *ret = (double)passed_ns / (double)walks;
    return 0;
}

/* How often a run of lifecycles and a scan allocate together. */
static int run_allocations(cell *of, double *ret)
{
    const callbacks_subject *subject = of->subject;
    const callbacks_work work = { 1, 1, (uint64_t)lifecycles, (unsigned)outstanding };
    void *runs = of->stages->runs.registry, *live = of->stages->live.registry;
    double ns;
    const uint64_t before = subject->allocations(runs) + subject->allocations(live);
    if (callbacks_stage_run(&of->stages->runs, &work, 1, &ns, NULL) != 0)
        return -1;
    (void)subject->due(live, CALLBACKS_DEADLINE_NS - 1);
    *ret = (double)(subject->allocations(runs) + subject->allocations(live) - before);
    return 0;
}

static int run(void *user, double *ret)
{
    cell *of = user;
    switch (of->line->what) {
    case CONSECUTIVE:
        return run_lifecycles(of, 1, ret);
    case STRIDE:
        return run_lifecycles(of, 128, ret);
    case CROSS:
        return callbacks_cross_run(&of->stages->runs, (uint64_t)crossings, (unsigned)depth, ret);
    case LOOKUP:
        return run_lookups(of, ret);
    case ALLOCS:
        return run_allocations(of, ret);
    default:
        return run_walks(of, ret);
    }
}

static bool can(const callbacks_subject *subject, what asked)
{
    switch (asked) {
    case CONSECUTIVE:
        return subject->lifecycles != NULL;
    case STRIDE: /* the same loop gives ours both rows */
        return subject->needs_entries;
    case CROSS:
        return subject->cross != NULL;
    case LOOKUP:
        return subject->lookup != NULL;
    case SCAN:
        return subject->due != NULL;
    case SCAN_SKIPPED:
        return subject->due_skipping != NULL;
    case COUNT_IF:
        return subject->count_target != NULL;
    case COUNT_FUNCTION:
        return subject->count_function != NULL;
    case COUNT:
        return subject->count != NULL;
    case COUNT_EXACT:
        return subject->count_exact != NULL;
    case ALLOCS:
        return subject->allocations != NULL;
    }
    return false;
}

/* Everything that is there is found, and half of it where half is due. */
static bool found(const callbacks_subject *subject, const callbacks_stage *live)
{
    void *registry = live->registry;
    return subject->lookup(registry, live->ids, CALLBACKS_LIVE) == CALLBACKS_LIVE &&
           subject->due(registry, CALLBACKS_DEADLINE_NS - 1) == 0 &&
           subject->due(registry, CALLBACKS_DEADLINE_NS + CALLBACKS_LIVE / 2 - 1) ==
               CALLBACKS_LIVE / 2;
}

static int prepare_subject(const callbacks_subject *subject, stages *of)
{
    const int64_t calls = lifecycles > crossings ? lifecycles : crossings;
    if (callbacks_stage_init(&of->runs, subject, (uint64_t)calls) != 0)
        return -1;
    if (subject->lookup == NULL)
        return 0;
    if (callbacks_stage_init(&of->live, subject, 0) != 0 ||
        callbacks_stage_fill(&of->live, CALLBACKS_LIVE) != 0)
        return -1;
    return found(subject, &of->live) ? 0 : -1;
}

static void add_cell(const line *of, cell *ret, const callbacks_subject *subject)
{
    size_t i = 0;
    ret->line = of;
    ret->subject = subject;
    if (subject == NULL || !can(subject, of->what))
        return;
    while (subjects[i] != subject)
        i++;
    ret->stages = &all_stages[i];
    (void)snprintf(ret->name, sizeof(ret->name), "%s%s", of->name,
                   of->only == NULL ? subject->name : "");
    ret->measurement = &measurements[measurement_count++];
    *ret->measurement = (bench_measurement){ ret->name, run, ret, { 0 } };
}

static int prepare(bench_program *bench)
{
    uint64_t dice = UINT64_C(88172645463325252); /* xorshift's usual seed: the same order always */
    memcpy(subjects, columns, sizeof(columns));
    subjects[COLUMNS] = &callbacks_client;
    subjects[COLUMNS + 1] = &callbacks_inbox;
    subjects[COLUMNS + 2] = &callbacks_slots;
    order = malloc((size_t)lookups * sizeof(*order));
    order_ids = malloc((size_t)lookups * sizeof(*order_ids));
    if (order == NULL || order_ids == NULL)
        return -1;
    for (int64_t i = 0; i < lookups; i++) {
        dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
        order[i] = dice % CALLBACKS_LIVE;
    }
    for (int i = 0; i < SUBJECTS; i++) {
        if (subjects[i] == NULL || prepare_subject(subjects[i], &all_stages[i]) == 0)
            continue;
        bench_fail(bench, "%s: what was opened is not there", subjects[i]->name);
        return -1;
    }
    for (int i = 0; i < LINES; i++) {
        for (int k = 0; k < (lines[i].only == NULL ? COLUMNS : 1); k++)
            add_cell(&lines[i], &cells[i][k], lines[i].only != NULL ? lines[i].only : columns[k]);
    }
    return 0;
}

/* --- What is shown ----------------------------------------------------------------------------- */

static void print_number(double value)
{
    if (isnan(value))
        (void)printf(" %10s", "-");
    else
        (void)printf(value < 1000 ? " %10.2f" : " %10.0f", value);
}

static void print_head(const char *title)
{
    (void)printf("%s\n%-30s", title, "");
    for (int k = 0; k < COLUMNS; k++)
        (void)printf(" %10s", k == OURS ? "teff" : columns[k] != NULL ? columns[k]->name + 1 : "-");
    (void)printf(" %10s %10s %10s %10s\n", "teff min", "teff max", "published", "at most");
}

/* The cell that answers for this one: ours has one loop for both patterns of ids. */
static cell *answering(int i, int k)
{
    if (lines[i].what != STRIDE || k != OURS)
        return &cells[i][k];
    return &cells[i - 1][k];
}

static void print_waits(int i)
{
    if (cells[i][MUTEX].waits.count == 0 || lines[i].threads == 1)
        return;
    (void)printf("  %-28s", "… waits for a lock, of 1,000");
    for (int k = 0; k < COLUMNS; k++)
        print_number(bench_samples_percentile(&answering(i, k)->waits, 0.5) * 1000 /
                     (double)lifecycles);
    (void)putchar('\n');
}

static void print_line(int i)
{
    const line *of = &lines[i];
    (void)printf("%-30s", of->name + (strncmp(of->name, "callbacks.", 10) == 0 ? 10 : 0));
    for (int k = 0; k < COLUMNS; k++) {
        bench_measurement *measured = answering(i, k)->measurement;
        print_number(measured != NULL ? bench_samples_percentile(&measured->samples, 0.5) : NAN);
    }
    bench_measurement *ours = answering(i, OURS)->measurement;
    for (int end = 0; end < 2; end++)
        print_number(ours != NULL ? bench_samples_percentile(&ours->samples, end) : NAN);
    print_number(of->published);
    print_number(of->at_most);
    (void)putchar('\n');
    print_waits(i);
}

static void add_rows(bench_program *bench, int i)
{
    for (int k = 0; k < COLUMNS; k++) {
        cell *of = answering(i, k);
        if (of->measurement == NULL)
            continue;
        const bool own = of == &cells[i][k];
        bench_row *row =
            bench_add(bench, &of->measurement->samples, lines[i].what == ALLOCS ? "count" : "ns",
                      "%s", own ? of->name : lines[i].name);
        bench_row_extra(row, "threads", lines[i].threads);
        if (!isnan(lines[i].published))
            bench_row_extra(row, "published", lines[i].published);
        if (!isnan(lines[i].at_most) && k == OURS)
            bench_row_extra(row, "at_most", lines[i].at_most);
        if (of->waits.count != 0)
            bench_row_extra(row, "waits", bench_samples_percentile(&of->waits, 0.5));
    }
}

static int line_of(what asked, const callbacks_subject *only)
{
    int i = 0;
    while (lines[i].what != asked || lines[i].only != only)
        i++;
    return i;
}

/* Before the rows: those sort their samples. */
static void report_cross(bench_program *bench)
{
    const bench_samples *ring = &cells[line_of(CROSS, &callbacks_slots)][OURS].measurement->samples;
    const callbacks_subject *ways[] = { NULL, &callbacks_client, &callbacks_inbox };
    static const char *const names[] = { "the same rings", "its done list", "inboxes" };
    double ratios[3];
    for (int i = 0; i < 3; i++) {
        const bench_samples *ours = &cells[line_of(CROSS, ways[i])][OURS].measurement->samples;
        bench_samples samples = { 0 };
        ratios[i] = bench_samples_ratio(ours, ring);
        if (!isnan(ratios[i]))
            bench_samples_add(&samples, ratios[i]);
        (void)bench_add(bench, &samples, "ratio", "callbacks.lifecycle.cross%s.ratio",
                        ways[i] != NULL ? ways[i]->name : "");
        bench_samples_finish(&samples);
    }
    (void)printf("opened here, answered on the other core, %lld in flight, beside ring.cross:",
                 (long long)depth);
    for (int i = 0; i < 3; i++)
        (void)printf(" %.2f x by %s%s", ratios[i], names[i],
                     i == 0   ? " (at most 1.30);"
                     : i == 1 ? ";"
                              : "");
    (void)putchar('\n');
}

static void report(bench_program *bench)
{
    report_cross(bench);
    (void)putchar('\n');
    for (int i = 0; i < LINES; i++) {
        if (i == 0)
            print_head("opened, found by id and closed; ns of wall time each");
        else if (lines[i].what == LOOKUP)
            print_head("\nof 8,192 live: ns for each look-up, ns for a walk or a count over all");
        print_line(i);
    }
    for (int i = 0; i < LINES; i++)
        add_rows(bench, i);
    (void)printf(
        "\nstride.*: the library makes its own ids, so one loop gives both of its rows. "
        "client: open_shared, claim, take_done.\nslots: a slot of its own by hand. allocs: "
        "in %lld lifecycles and a scan.\n",
        (long long)lifecycles);
    if (columns[LFHT] == NULL || columns[CK] == NULL)
        (void)printf("Left out, since absent when this was built:%s%s\n",
                     columns[LFHT] == NULL ? " (liburcu)" : "",
                     columns[CK] == NULL ? " (Concurrency Kit)" : "");
}

/* Before anything else: later, the allocator has pages at hand. */
static void measure_memory(bench_program *bench, callbacks_memory memory[COLUMNS][2])
{
    for (int k = 0; k < COLUMNS; k++) {
        for (int full = 0; columns[k] != NULL && full < 2; full++) {
            if (callbacks_memory_measure(columns[k], full != 0 ? CALLBACKS_LIVE : 0,
                                         &memory[k][full]) != 0)
                bench_fail(bench, "memory%s", columns[k]->name);
        }
    }
}

static void report_memory(bench_program *bench, callbacks_memory memory[COLUMNS][2])
{
    (void)printf("\nbytes kept, a table's entries included%14s %12s %12s %12s\n", "empty",
                 "resident", "8,192", "resident");
    for (int k = 0; k < COLUMNS; k++) {
        if (columns[k] == NULL)
            continue;
        (void)printf("%-40s", k == OURS ? "teff (at most 1,048,576)" : columns[k]->name + 1);
        for (int full = 0; full < 2; full++) {
            const callbacks_memory *of = &memory[k][full];
            bench_samples samples = { 0 };
            bench_samples_add(&samples, isnan(of->bytes) ? of->resident : of->bytes);
            bench_row *row = bench_add(bench, &samples, "bytes", "callbacks.memory.%d%s",
                                       full != 0 ? CALLBACKS_LIVE : 0, columns[k]->name);
            bench_row_extra(row, "resident", of->resident);
            if (isnan(of->bytes))
                (void)printf(" %12s %12.0f", "-", of->resident);
            else
                (void)printf(" %12.0f %12.0f", of->bytes, of->resident);
            bench_samples_finish(&samples);
        }
        (void)putchar('\n');
    }
}

static void finish(void)
{
    for (size_t i = 0; i < measurement_count; i++)
        bench_samples_finish(&measurements[i].samples);
    for (int i = 0; i < LINES; i++) {
        for (int k = 0; k < COLUMNS; k++)
            bench_samples_finish(&cells[i][k].waits);
    }
    for (int i = 0; i < SUBJECTS; i++) {
        callbacks_stage_finish(&all_stages[i].live);
        callbacks_stage_finish(&all_stages[i].runs);
    }
    free(order);
    free(order_ids);
}

int main(int argc, char **argv)
{
    const bench_option options[] = {
        { "rounds", "measurements of each", &rounds, 1, 10000 },
        { "lifecycles", "of one run, all threads together", &lifecycles, 1024, 1 << 24 },
        { "outstanding", "open at a time, of each thread; a power of two", &outstanding, 1,
          CALLBACKS_OUTSTANDING_MAX },
        { "crossings", "of one run over two cores", &crossings, 1024, 1 << 24 },
        { "depth", "of those under way", &depth, 1, CALLBACKS_OUTSTANDING_MAX },
        { "lookups", "of one run", &lookups, 1024, 1 << 24 },
        { "duration_us", "of repeated walks", &duration_us, 1, 1000000 },
        { "sweep", "0: not over other numbers of stripes", &sweep, 0, 1 },
    };
    static bench_program bench;
    callbacks_memory memory[COLUMNS][2] = { 0 };
    bench_begin(&bench, "callbacks", "calls that wait for an answer: opened, found, closed, swept",
                options, sizeof(options) / sizeof(options[0]), argc, argv);
    machine_pin(1);
    measure_memory(&bench, memory);
    if (!bench.failed && prepare(&bench) == 0) {
        bench_rounds(&bench, measurements, measurement_count, rounds);
        report(&bench);
        report_memory(&bench, memory);
    }
    finish();
    if (sweep != 0 && !bench.failed && !bench_interrupted())
        callbacks_sweep(&bench, rounds, (uint64_t)lifecycles, (uint64_t)lookups);
    return bench_end(&bench);
}
