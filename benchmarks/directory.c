/* SPDX-License-Identifier: MIT */
/*
 * The benchmark `directory`: what it costs to find the way to a grain.
 *
 *   route.handle      by the hint that a reference keeps: name and key compared, the use noted
 *   route.cache       by the route cache: hashed, looked up, noted
 *   route.directory   by the grain directory, with the lock of its shard
 *   route.array       a plain array of the same entries, by number: what memory itself costs
 *   route.table       a plain hash table of the same grains, hashed and looked up
 *   route.miss, .evict    not in the cache; added to a full one, for which another goes
 *   route.allocs      in all of these
 *   route.entry_bytes what a full cache has allocated for an entry
 *
 * Of 1,000 entries in random order; then of more, as .10k, .100k and .1m, where what counts is the
 * ratio to the array. All of one size are measured in turn, round after round.
 */
#include "benchmarks/directory_scene.h"
#include "benchmarks/harness.h"
#include "benchmarks/machine.h"

#include <math.h>
#include <stdio.h>

static int64_t rounds = 11, lookups = 1 << 20, entries_max = 1000000;

typedef struct way {
    const char *name;
    directory_way *run;
    bool finds;
    double published, at_most; /* of 1,000; NAN: nothing */
} way;

enum { HANDLE, CACHE, SHARDS, ARRAY, TABLE, MISS, EVICT, WAYS };

/* Published: .NET 10 on an EPYC 7763. */
static const way ways[WAYS] = {
    [HANDLE] = { "handle", directory_by_handle, true, 25.45, 3 },
    [CACHE] = { "cache", directory_by_cache, true, 34.67, 15 },
    [SHARDS] = { "directory", directory_by_shards, true, NAN, NAN },
    [ARRAY] = { "array", directory_by_array, true, NAN, NAN },
    [TABLE] = { "table", directory_by_table, true, NAN, NAN },
    [MISS] = { "miss", directory_miss, false, NAN, NAN },
    [EVICT] = { "evict", directory_evict, false, NAN, NAN },
};

typedef struct size {
    const char *suffix;
    uint32_t entries;
} size;

static const size sizes[] = {
    { "", 1000 }, { ".10k", 10000 }, { ".100k", 100000 }, { ".1m", 1000000 }
};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static directory_scene scene;
static uint64_t sum; /* of one pass that finds all */

static int run(void *user, double *ret)
{
    const way *of = user;
    const uint64_t passes = ((uint64_t)lookups + scene.entries - 1) / scene.entries;
    const int64_t start_ns = machine_now_ns();
    const uint64_t found = of->run(&scene, passes);
    *ret = (double)(machine_now_ns() - start_ns) / (double)(passes * scene.entries);
    return found == (of->finds ? passes * sum : 0) ? 0 : -1;
}

static void print_number(double value)
{
    if (isnan(value))
        (void)printf(" %10s", "-");
    else
        (void)printf(" %10.2f", value);
}

static void print_head(const char *title)
{
    (void)printf("%-24s %10s %10s %10s %10s %10s %10s\n", title, "median", "min", "max", "x array",
                 "published", "at most");
}

static void print_verdict(double median, double at_most)
{
    (void)printf("%s\n", isnan(at_most) ? "" : median <= at_most ? "  PASS" : "  over");
}

static void report_way(bench_program *bench, const size *of, int i, bench_samples *samples,
                       double ratio)
{
    char name[BENCH_NAME_MAX];
    const bool bar = of->entries == sizes[0].entries;
    const double published = bar ? ways[i].published : NAN, at_most = bar ? ways[i].at_most : NAN;
    (void)snprintf(name, sizeof(name), "route.%s%s", ways[i].name, of->suffix);
    bench_row *row = bench_add(bench, samples, "ns", "%s", name);
    if (row == NULL)
        return;
    bench_row_extra(row, "ratio_to_array", ratio);
    (void)printf("%-24s", name);
    print_number(row->median);
    print_number(row->min);
    print_number(row->max);
    print_number(ratio);
    print_number(published);
    print_number(at_most);
    print_verdict(row->median, at_most);
}

static uint64_t allocations(void)
{
    return teff__atomic_u64_load_relaxed(&scene.memory.allocations);
}

/* Measures one size. What was allocated meanwhile. */
static double measure(bench_program *bench, const size *of)
{
    bench_measurement measurements[WAYS] = { 0 };
    double ratios[WAYS], allocated = 0;
    if (directory_scene_init(&scene, of->entries) != 0) {
        bench_fail(bench, "no scene of %u entries", (unsigned)of->entries);
    } else {
        sum = directory_sum(&scene);
        for (int i = 0; i < WAYS; i++)
            measurements[i] = (bench_measurement){ .label = ways[i].name,
                                                   .run = run,
                                                   .user = (void *)(uintptr_t)&ways[i] };
        const uint64_t before = allocations();
        bench_rounds(bench, measurements, WAYS, rounds);
        allocated = (double)(allocations() - before);
        for (int i = 0; i < WAYS; i++) /* before the rows, which sort the samples */
            ratios[i] = bench_samples_ratio(&measurements[i].samples, &measurements[ARRAY].samples);
        for (int i = 0; i < WAYS; i++) {
            report_way(bench, of, i, &measurements[i].samples, ratios[i]);
            bench_samples_finish(&measurements[i].samples);
        }
    }
    directory_scene_finish(&scene);
    return allocated;
}

static void report_one(bench_program *bench, const char *unit, const char *name, double value,
                       double published, double at_most)
{
    bench_samples samples = { 0 };
    bench_samples_add(&samples, value);
    (void)bench_add(bench, &samples, unit, "%s", name);
    bench_samples_finish(&samples);
    (void)printf("%-24s %10.2f %10s %10s %10s", name, value, "", "", "");
    print_number(published);
    print_number(at_most);
    print_verdict(value, at_most);
}

/* Of a full cache, at the default and where the index or the segments have just grown. */
static void weigh(bench_program *bench)
{
    static const uint32_t capacities[] = { 1000000, 1000, 1537, 98305, 786433 };
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        char name[BENCH_NAME_MAX] = "route.entry_bytes";
        if (capacities[i] > entries_max)
            continue;
        if (i > 0)
            (void)snprintf(name, sizeof(name), "route.entry_bytes.%u", (unsigned)capacities[i]);
        const double bytes = directory_entry_bytes(capacities[i]);
        if (bytes == 0)
            bench_fail(bench, "a cache of %u was not filled", (unsigned)capacities[i]);
        report_one(bench, "bytes", name, bytes, 128, 96);
    }
}

int main(int argc, char **argv)
{
    const bench_option options[] = {
        { "rounds", "measurements of each", &rounds, 1, 10000 },
        { "lookups", "of one measurement, at least", &lookups, 1000, 1 << 28 },
        { "entries", "the largest set: 1000 to 1000000", &entries_max, 1000, 1000000 },
    };
    static bench_program bench;
    double allocated = 0;
    bench_begin(&bench, "directory", "finding the way to a grain: by hint, by cache, by directory",
                options, sizeof(options) / sizeof(options[0]), argc, argv);
    machine_pin(1);
    print_head("ns for each");
    for (int i = 0; i < SIZES && !bench_interrupted() && !bench.failed; i++) {
        if (sizes[i].entries <= entries_max)
            allocated += measure(&bench, &sizes[i]);
    }
    if (!bench.failed && !bench_interrupted()) {
        report_one(&bench, "count", "route.allocs", allocated, NAN, 0);
        weigh(&bench);
    }
    return bench_end(&bench);
}
