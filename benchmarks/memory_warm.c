/* SPDX-License-Identifier: MIT */
/*
 * Each size has processes of its own, in turn with the other sizes' and again: a process makes the
 * grains and both tables, and passes over them several times, in turn. Accesses are drawn a batch
 * at a time, outside of the time, so that neither the drawing nor a long list of references counts.
 */
#include "benchmarks/memory_warm.h"

#include "benchmarks/access.h"
#include "benchmarks/apart.h"
#include "benchmarks/machine.h"
#include "benchmarks/plain_table.h"
#include "benchmarks/resident.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    PASSES = 4,  /* in each process, and a first one that is not kept */
    BATCH = 1024 /* accesses: keys and references fit the second-level cache */
};

/* What is accessed, and how. */
enum { FRESH, KEPT, TABLE, CHAIN, HUGE, HUGE_CHAIN, WAYS };
enum { CELLS = WAYS * ACCESS_PATTERNS };

static const char *const way_names[WAYS] = { "warm",        "warm.kept",  "table",
                                             "table.chain", "table.huge", "table.huge.chain" };
static const char *const pattern_names[ACCESS_PATTERNS] = { "uniform", "zipf" };

/* At most so many times what the plain table's cost grows by. */
static const double at_most = 1.5;

/* --- In the process ------------------------------------------------------------------------ */

typedef struct stage {
    const memory_warm *asked;
    uint64_t count;
    uint64_t *routes;       /* of each grain */
    plain_table *tables[2]; /* plain, huge */
    access access;
    uint64_t keys[BATCH];
    idler_ref refs[BATCH];
    double *ret; /* of each cell PASSES numbers */
} stage;

static int call_batch(teff_task *task, idler_ref *refs)
{
    for (unsigned i = 0; i < BATCH; i++) {
        const int r = idler_touch(task, &refs[i], NULL, NULL);
        if (r != 0)
            return r;
    }
    return 0;
}

static uint64_t touch_batch(stage *of, int way)
{
    plain_table *table = of->tables[way == HUGE || way == HUGE_CHAIN];
    return way == TABLE || way == HUGE ? plain_table_touch(table, of->keys, BATCH)
                                       : plain_table_chase(table, of->keys, BATCH);
}

static void draw_batch(stage *of, int way, access_pattern pattern)
{
    for (unsigned i = 0; i < BATCH; i++) {
        of->keys[i] = access_next(&of->access, pattern);
        of->refs[i] = idler_at(of->keys[i]);
        of->refs[i].ref.route = way == KEPT ? of->routes[of->keys[i]] : 0;
    }
}

/* One pass over one cell. */
static int pass(teff_task *task, stage *of, int way, access_pattern pattern, double *ret_ns)
{
    int64_t spent_ns = 0, done = 0;
    for (; done < of->asked->calls; done += BATCH) {
        int r = 0;
        draw_batch(of, way, pattern);
        const int64_t start_ns = machine_now_ns();
        if (way == FRESH || way == KEPT)
            r = call_batch(task, of->refs);
        else if (touch_batch(of, way) != BATCH)
            r = -1;
        spent_ns += machine_now_ns() - start_ns;
        if (r != 0)
            return r;
    }
    *ret_ns = (double)spent_ns / (double)done;
    return 0;
}

static int passes(teff_task *task, void *user)
{
    stage *of = user;
    for (int k = -1; k < PASSES; k++) {
        for (int cell = 0; cell < CELLS; cell++) {
            double ns;
            const int r = pass(task, of, cell % WAYS, (access_pattern)(cell / WAYS), &ns);
            if (r != 0)
                return r;
            if (k >= 0)
                of->ret[cell * PASSES + k] = ns;
        }
    }
    return 0;
}

/* All that was called or touched has counted so. */
static int check(const stage *of, const resident_house *house)
{
    const uint64_t batches = ((uint64_t)of->asked->calls + BATCH - 1) / BATCH;
    const uint64_t touched = batches * BATCH * (PASSES + 1) * ACCESS_PATTERNS * 2;
    if (plain_table_touched(of->tables[0]) != touched ||
        plain_table_touched(of->tables[1]) != touched)
        return -1;
    return resident_house_check(house, of->count, of->count);
}

typedef struct order {
    const memory_warm *asked;
    uint64_t count;
} order;

static int run(void *user, double *ret)
{
    const order *ordered = user;
    stage *of = calloc(1, sizeof(*of));
    resident_house house;
    if (of == NULL)
        return -1;
    of->asked = ordered->asked;
    of->count = ordered->count;
    of->ret = ret;
    of->routes = calloc(of->count, sizeof(*of->routes));
    machine_pin(1);
    if (of->routes == NULL || resident_house_open(&house) != 0 ||
        resident_house_touch(&house, (resident_keys){ 0, of->count, of->routes }) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        of->tables[i] = plain_table_create(of->count, i != 0);
        if (of->tables[i] == NULL)
            return -1;
    }
    access_init(&of->access, of->count);
    return resident_house_run(&house, passes, of) == 0 ? check(of, &house) : -1;
}

/* --- What is shown ------------------------------------------------------------------------- */

typedef struct sizes_samples {
    bench_samples cells[CELLS];
} sizes_samples;

static void cell_name(int cell, int64_t count, const char *end, char *ret)
{
    char size[24];
    resident_count_name(count, size, sizeof(size));
    (void)snprintf(ret, BENCH_NAME_MAX, "%s.%s.%s%s", way_names[cell % WAYS],
                   pattern_names[cell / WAYS], size, end);
}

static double median(sizes_samples *of, int cell)
{
    return bench_samples_percentile(&of->cells[cell], 0.5);
}

static void add_row(bench_program *bench, bench_samples *samples, const char *unit, int cell,
                    int64_t size, const char *end)
{
    char name[BENCH_NAME_MAX];
    cell_name(cell, size, end, name);
    (void)bench_add(bench, samples, unit, "%s", name);
}

static void add_rows(bench_program *bench, const memory_warm *asked, sizes_samples *of)
{
    for (int cell = 0; cell < CELLS; cell++) {
        for (unsigned i = 0; i < asked->size_count; i++) {
            bench_samples ratio = { 0 };
            add_row(bench, &of[i].cells[cell], "ns", cell, asked->sizes[i], "");
            if (i == 0 || of[i].cells[cell].count == 0)
                continue;
            bench_samples_add(&ratio, median(&of[i], cell) / median(&of[0], cell));
            add_row(bench, &ratio, "ratio", cell, asked->sizes[i], ".ratio");
            bench_samples_finish(&ratio);
        }
    }
}

static void print_head(const char *what)
{
    (void)printf("%s\n%-14s", what, "");
    for (int way = 0; way < WAYS; way++)
        (void)printf(" %16s", way_names[way]);
    (void)putchar('\n');
}

static void print_label(const memory_warm *asked, unsigned i, int pattern)
{
    char size[24];
    resident_count_name(asked->sizes[i], size, sizeof(size));
    (void)printf("%-8s %-5s", pattern_names[pattern], size);
}

/* How many times what the first size costs. */
static double growth(sizes_samples *of, unsigned i, int pattern, int way)
{
    const int cell = pattern * WAYS + way;
    return median(&of[i], cell) / median(&of[0], cell);
}

static void print_costs(const memory_warm *asked, sizes_samples *of, unsigned i, int pattern)
{
    print_label(asked, i, pattern);
    for (int way = 0; way < WAYS; way++)
        (void)printf(" %7.1f %6.2f x", median(&of[i], pattern * WAYS + way),
                     growth(of, i, pattern, way));
    (void)putchar('\n');
}

static void print_growth(const memory_warm *asked, sizes_samples *of, unsigned i, int pattern)
{
    for (int way = FRESH; way <= KEPT; way++) {
        const double grown = growth(of, i, pattern, way);
        print_label(asked, i, pattern);
        (void)printf(" %16s", way_names[way]);
        for (int table = TABLE; table < WAYS; table++)
            (void)printf(" %16.2f", grown / growth(of, i, pattern, table));
        (void)printf("  %s\n", grown <= at_most * growth(of, i, pattern, TABLE) ? "PASS" : "over");
    }
}

static void print(const memory_warm *asked, sizes_samples *of)
{
    print_head("ns for each access, and how many times what it is in the first size");
    for (int n = 0; n < ACCESS_PATTERNS * (int)asked->size_count; n++) {
        if (of[n % (int)asked->size_count].cells[0].count != 0)
            print_costs(asked, of, (unsigned)n % asked->size_count, n / (int)asked->size_count);
    }
    (void)printf("\nhow many times a table's growth a call's is (beside `table` at most %.1f)\n",
                 at_most);
    for (int n = 0; n < ACCESS_PATTERNS * (int)asked->size_count; n++) {
        const unsigned i = (unsigned)n % asked->size_count;
        if (i != 0 && of[i].cells[0].count != 0)
            print_growth(asked, of, i, n / (int)asked->size_count);
    }
    (void)putchar('\n');
}

void memory_warm_measure(bench_program *bench, const memory_warm *asked)
{
    static sizes_samples samples[MEMORY_SIZES_MAX];
    double numbers[CELLS * PASSES];
    for (int64_t k = 0; k < asked->rounds; k++) {
        for (unsigned i = 0; i < asked->size_count && !bench_interrupted(); i++) {
            order ordered = { asked, (uint64_t)asked->sizes[i] };
            bench_progress(bench, "warm calls, round %lld of %lld: among %lld grains",
                           (long long)k + 1, (long long)asked->rounds, (long long)asked->sizes[i]);
            if (apart_run(run, &ordered, numbers, CELLS * PASSES) != 0) {
                if (!bench_interrupted())
                    bench_fail(bench, "warm calls among %lld grains", (long long)asked->sizes[i]);
                return;
            }
            for (int n = 0; n < CELLS * PASSES; n++)
                bench_samples_add(&samples[i].cells[n / PASSES], numbers[n]);
        }
    }
    if (samples[0].cells[0].count != 0) {
        add_rows(bench, asked, samples);
        print(asked, samples);
    }
    for (int n = 0; n < MEMORY_SIZES_MAX * CELLS; n++)
        bench_samples_finish(&samples[n / CELLS].cells[n % CELLS]);
}
