/* SPDX-License-Identifier: MIT */
/*
 * The benchmark `memory`: what does a grain weigh that does nothing, and what a silo that comes and
 * goes?
 *
 *   memory.grain.N    resident bytes for each idle activation with 16 bytes of state, called once,
 *                     all tables included, of 1 million and of 10, as far as `grains` goes
 *   warm.*, table.*   what a call costs while so many are there; see memory_warm.h
 *   silo.start_stop   create, register, start, and stop and destroy, of a silo with one worker; the
 *                     call in between, which shows that it works, is not counted. A thousand rounds
 *                     must leave memory, threads and descriptors as they were.
 *
 * Each weighing has a process of its own: memory that an allocator kept from the one before would
 * hide the next one's.
 */
#include "benchmarks/apart.h"
#include "benchmarks/harness.h"
#include "benchmarks/machine.h"
#include "benchmarks/memory_warm.h"
#include "benchmarks/resident.h"

#include "runtime/memory.h"

#include <stdio.h>

enum {
    WARM_UP_GRAINS = 1000,
    GRAIN_BYTES_MAX = 256, /* the design's bar */
    WARM_UP_ROUNDS = 200,
    RSS_SLACK_BYTES = 128 * 1024, /* what 1000 rounds may leave: 131 bytes each would be seen */
    SAMPLE_BYTES = 24             /* that the harness itself keeps of a round, at most */
};

static int64_t grains = 1000000, grain_rounds = 3, silo_rounds = 1000;
static int64_t warm_rounds = 3, calls = 1000000;

/* The sizes that are named in the issue, as far as they are asked for, or the one asked for. */
static unsigned sizes_up_to_grains(int64_t from, int64_t ret[MEMORY_SIZES_MAX])
{
    static const int64_t usual[] = { 1000, 1000000, 10000000 };
    unsigned count = 0;
    for (unsigned i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        if (usual[i] >= from && usual[i] <= grains)
            ret[count++] = usual[i];
    }
    if (count == 0 || ret[count - 1] != grains)
        ret[count++] = grains;
    return count;
}

static int weigh_grains(void *user, double *ret_bytes)
{
    const int64_t count = *(const int64_t *)user;
    resident_house house;
    int r = resident_house_open(&house);
    if (r == 0)
        r = resident_house_touch(&house, (resident_keys){ 0, WARM_UP_GRAINS, NULL });
    if (r != 0)
        return r;
    const int64_t before = machine_rss_bytes();
    r = resident_house_touch(&house, (resident_keys){ WARM_UP_GRAINS, (uint64_t)count, NULL });
    if (r == 0)
        r = resident_house_check(&house, (uint64_t)count + WARM_UP_GRAINS,
                                 (uint64_t)count + WARM_UP_GRAINS);
    teff__memory_purge();
    *ret_bytes = (double)(machine_rss_bytes() - before) / (double)count;
    return r;
}

static int run_grains(void *user, double *ret)
{
    return apart_run(weigh_grains, user, ret, 1);
}

/* Its call is the proof that it works, and is not counted. */
static int start_stop(double *ret_ns)
{
    resident_house house;
    const int64_t start_ns = machine_now_ns();
    int r = resident_house_start(&house);
    const int64_t started_ns = machine_now_ns();
    if (r == 0)
        r = teff_client_create(house.silo, NULL, &house.client);
    if (r == 0) {
        idler_ref one = idler_at(1);
        r = idler_touch(house.client, &one, NULL, NULL);
    }
    house.client = teff_client_destroy(house.client);
    const int64_t stop_ns = machine_now_ns();
    if (r == 0)
        r = teff_silo_stop(house.silo);
    resident_house_finish(&house);
    *ret_ns = (double)(started_ns - start_ns + machine_now_ns() - stop_ns);
    return r;
}

typedef struct belongings {
    int64_t rss_bytes, threads, descriptors;
} belongings;

static belongings look(void)
{
    teff__memory_purge();
    return (belongings){ machine_rss_bytes(), machine_threads(), machine_descriptors() };
}

static int start_stops(bench_program *bench, int64_t count, bench_samples *samples)
{
    for (int64_t i = 0; i < count && !bench_interrupted(); i++) {
        double ns;
        const int r = start_stop(&ns);
        if (r != 0) {
            bench_fail(bench, "silo.start_stop: round %lld: %d", (long long)i, r);
            return r;
        }
        if (samples != NULL)
            bench_samples_add(samples, ns);
        if (i % 100 == 0)
            bench_progress(bench, "silo.start_stop: %lld of %lld", (long long)i, (long long)count);
    }
    return 0;
}

static void measure_silo(bench_program *bench)
{
    bench_samples samples = { NULL, 0, 0 };
    /*
     * The first look purges what the allocator then takes back once: warm up on both sides of it.
     */
    if (start_stops(bench, WARM_UP_ROUNDS, NULL) != 0)
        return;
    (void)look();
    if (start_stops(bench, WARM_UP_ROUNDS, NULL) != 0)
        return;
    const belongings before = look();
    (void)start_stops(bench, silo_rounds, &samples);
    const belongings after = look();
    bench_row *row = bench_add(bench, &samples, "ns", "silo.start_stop");
    bench_row_extra(row, "rss_before", (double)before.rss_bytes);
    bench_row_extra(row, "rss_after", (double)after.rss_bytes);
    bench_row_extra(row, "threads_before", (double)before.threads);
    bench_row_extra(row, "threads_after", (double)after.threads);
    bench_row_extra(row, "descriptors_before", (double)before.descriptors);
    bench_row_extra(row, "descriptors_after", (double)after.descriptors);
    (void)printf(
        "silos that came and went: %zu; resident bytes %lld before, %lld after; threads %lld, "
        "%lld; descriptors %lld, %lld\n\n",
        samples.count, (long long)before.rss_bytes, (long long)after.rss_bytes,
        (long long)before.threads, (long long)after.threads, (long long)before.descriptors,
        (long long)after.descriptors);
    if (after.rss_bytes > before.rss_bytes + RSS_SLACK_BYTES + SAMPLE_BYTES * silo_rounds ||
        after.threads > before.threads || after.descriptors > before.descriptors)
        bench_fail(bench, "silo.start_stop: something is left behind");
    bench_samples_finish(&samples);
}

static void measure_grains(bench_program *bench)
{
    int64_t sizes[MEMORY_SIZES_MAX];
    char names[MEMORY_SIZES_MAX][BENCH_NAME_MAX];
    bench_measurement measurements[MEMORY_SIZES_MAX] = { 0 };
    const unsigned count = sizes_up_to_grains(1000000, sizes);
    for (unsigned i = 0; i < count; i++) {
        char size[24];
        resident_count_name(sizes[i], size, sizeof(size));
        (void)snprintf(names[i], sizeof(names[i]), "memory.grain.%s", size);
        measurements[i] = (bench_measurement){ names[i], run_grains, &sizes[i], { 0 } };
    }
    bench_rounds(bench, measurements, count, grain_rounds);
    for (unsigned i = 0; i < count; i++) {
        bench_samples *samples = &measurements[i].samples;
        bench_row *row = bench_add(bench, samples, "bytes", "%s", names[i]);
        bench_row_extra(row, "grains", (double)sizes[i]);
        bench_row_extra(row, "at_most", GRAIN_BYTES_MAX);
        if (row != NULL && sizes[i] >= 1000000) /* a few grains share what there is but once */
            (void)printf("%s: %.1f bytes (at most %d): %s\n", names[i], row->median,
                         GRAIN_BYTES_MAX, row->median <= GRAIN_BYTES_MAX ? "PASS" : "over");
        bench_samples_finish(samples);
    }
    (void)putchar('\n');
}

static void measure_warm(bench_program *bench)
{
    memory_warm asked = { .rounds = warm_rounds, .calls = calls };
    asked.size_count = sizes_up_to_grains(1000, asked.sizes);
    memory_warm_measure(bench, &asked);
}

int main(int argc, char **argv)
{
    const bench_option options[] = {
        { "grains", "as many as this; 10 million take 7 GB with the tables", &grains, 1,
          100000000 },
        { "grain_rounds", "weighings", &grain_rounds, 1, 1000 },
        { "warm_rounds", "of warm calls, each with all sizes", &warm_rounds, 0, 1000 },
        { "calls", "warm calls of one pass", &calls, 1, 1000000000 },
        { "silo_rounds", "silos that come and go", &silo_rounds, 1, 1000000 },
    };
    static bench_program bench;
    bench_begin(&bench, "memory",
                "what does an idle grain weigh, and what a silo that comes and goes?", options,
                sizeof(options) / sizeof(options[0]), argc, argv);
    measure_grains(&bench);
    if (!bench.failed && !bench_interrupted())
        measure_warm(&bench);
    if (!bench.failed && !bench_interrupted())
        measure_silo(&bench);
    bench_print(&bench);
    return bench_end(&bench);
}
