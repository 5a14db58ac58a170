/* SPDX-License-Identifier: MIT */
/*
 * The benchmark `memory`: what does a grain weigh that does nothing, and what a silo that comes and
 * goes?
 *
 *   memory.grain      resident bytes for each idle activation with 16 bytes of state, called once,
 *                     all tables included
 *   silo.start_stop   create, register, start, and stop and destroy, of a silo with one worker; the
 *                     call in between, which shows that it works, is not counted. A thousand rounds
 *                     must leave memory, threads and descriptors as they were.
 *
 * Each weighing has a process of its own: memory that an allocator kept from the one before would
 * hide the next one's.
 */
#include "benchmarks/harness.h"
#include "benchmarks/machine.h"

#include "runtime/memory.h"
#include "teff.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WARM_UP_GRAINS = 1000,
    WARM_UP_ROUNDS = 200,
    RSS_SLACK_BYTES = 128 * 1024, /* what 1000 rounds may leave: 131 bytes each would be seen */
    SAMPLE_BYTES = 24             /* that the harness itself keeps of a round, at most */
};

static int64_t grains = 1000000, grain_rounds = 10, silo_rounds = 1000;

#define RESIDENT_METHODS(METHOD, SELF) METHOD(SELF, touch, teff_none, teff_none, 0)
TEFF_INTERFACE(resident, RESIDENT_METHODS);

struct resident {
    uint64_t touched, unused;
};
_Static_assert(sizeof(struct resident) == 16, "the design's bar is for 16 bytes of state");
TEFF_GRAIN(resident, RESIDENT_METHODS);

static int resident_on_touch(teff_turn *turn, struct resident *self, const teff_none *arg,
                             teff_none *ret)
{
    (void)turn;
    (void)arg;
    (void)ret;
    self->touched++;
    return 0;
}

/* A silo with one worker and this thread's client of it. */
typedef struct silo_house {
    teff_silo *silo;
    teff_client *client;
} silo_house;

static int house_start(silo_house *ret)
{
    const teff_silo_options options = { .struct_size = sizeof(options), .workers = 1 };
    int r = teff_silo_create(&options, &ret->silo);
    if (r == 0)
        r = teff_silo_register(ret->silo, &resident_grain, NULL);
    if (r == 0)
        r = teff_silo_start(ret->silo);
    return r;
}

static void house_finish(silo_house *house)
{
    house->client = teff_client_destroy(house->client);
    house->silo = teff_silo_destroy(house->silo);
}

/* Grains with the keys from first on. */
typedef struct keys {
    uint64_t first, count;
} keys;

static int touch_all(teff_task *task, void *user)
{
    const keys *range = user;
    for (uint64_t key = range->first; key < range->first + range->count; key++) {
        resident_ref one = resident_at(key);
        const int r = resident_touch(task, &one, NULL, NULL);
        if (r != 0)
            return r;
    }
    return 0;
}

static int touch(const silo_house *in, uint64_t first, uint64_t count)
{
    keys range = { first, count };
    teff_future task;
    int result = 0;
    int r = teff_silo_spawn(in->silo, 0, touch_all, &range, in->client, &task);
    if (r == 0)
        r = teff_task_claim(in->client, task, &result);
    return r != 0 ? r : result;
}

static int weigh_grains(double *ret_bytes)
{
    silo_house house = { NULL, NULL };
    int64_t before = 0;
    int r = house_start(&house);
    if (r == 0)
        r = teff_client_create(house.silo, NULL, &house.client);
    if (r == 0)
        r = touch(&house, 0, WARM_UP_GRAINS);
    if (r == 0) {
        before = machine_rss_bytes();
        r = touch(&house, WARM_UP_GRAINS, (uint64_t)grains);
    }
    if (r == 0) {
        teff__memory_purge();
        *ret_bytes = (double)(machine_rss_bytes() - before) / (double)grains;
    } else {
        (void)fprintf(stderr, "memory: a grain was not called: %d\n", r);
    }
    house_finish(&house);
    return r;
}

/* In a process of its own. */
static int run_grains(void *user, double *ret)
{
    int ends[2], status = 1;
    (void)user;
    if (pipe(ends) != 0)
        return -1;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        double bytes;
        const int r = weigh_grains(&bytes);
        _exit(r != 0 || write(ends[1], &bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes));
    }
    (void)close(ends[1]);
    const ssize_t size = child > 0 ? read(ends[0], ret, sizeof(*ret)) : -1;
    (void)close(ends[0]);
    if (child > 0)
        (void)waitpid(child, &status, 0);
    return size == (ssize_t)sizeof(*ret) && status == 0 ? 0 : -1;
}

/* Its call is the proof that it works, and is not counted. */
static int start_stop(double *ret_ns)
{
    silo_house house = { NULL, NULL };
    const int64_t start_ns = machine_now_ns();
    int r = house_start(&house);
    const int64_t started_ns = machine_now_ns();
    if (r == 0)
        r = teff_client_create(house.silo, NULL, &house.client);
    if (r == 0) {
        resident_ref one = resident_at(1);
        r = resident_touch(house.client, &one, NULL, NULL);
    }
    house.client = teff_client_destroy(house.client);
    const int64_t stop_ns = machine_now_ns();
    if (r == 0)
        r = teff_silo_stop(house.silo);
    house_finish(&house);
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
    bench_measurement measurement = { .label = "memory.grain", .run = run_grains };
    bench_rounds(bench, &measurement, 1, grain_rounds);
    bench_row *row = bench_add(bench, &measurement.samples, "bytes", "memory.grain");
    bench_row_extra(row, "grains", (double)grains);
    bench_samples_finish(&measurement.samples);
}

int main(int argc, char **argv)
{
    const bench_option options[] = {
        { "grains", "idle activations to weigh", &grains, 1, 100000000 },
        { "grain_rounds", "weighings", &grain_rounds, 1, 1000 },
        { "silo_rounds", "silos that come and go", &silo_rounds, 1, 1000000 },
    };
    static bench_program bench;
    bench_begin(&bench, "memory",
                "what does an idle grain weigh, and what a silo that comes and goes?", options,
                sizeof(options) / sizeof(options[0]), argc, argv);
    measure_grains(&bench);
    if (!bench.failed)
        measure_silo(&bench);
    bench_print(&bench);
    return bench_end(&bench);
}
