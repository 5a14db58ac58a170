/* SPDX-License-Identifier: MIT */
/*
 * The benchmark `activation`: what does the first call to a grain cost that is nowhere, and what
 * does it cost everybody else?
 *
 *   activation.cold          first calls: place, register, activate, run, answer; each awaited by a
 *                            task on the same worker
 *   activation.warm          second ones, the same way
 *   activation.deactivate    third ones, in which the grain asks to go; and it goes
 *   activation.reactivate    first calls to those: memory and tables are there by now
 *   activation.cold.client   first calls from a client on the other core, so many under way
 *   activation.warm.client   second ones, the same way
 *   activation.pause         the longest single pass of the worker while a task on it makes all the
 *                            cold calls, in processor time, so that what others run in between does
 *                            not count; .wall: by the clock
 *   activation.pause.warm    the same while it makes warm ones
 *   collect.*                what it costs that idle ones go; see activation_collect.h
 *
 * Each round of each has a process of its own, so that a cold call pays for its memory.
 */
#include "benchmarks/activation_collect.h"
#include "benchmarks/apart.h"
#include "benchmarks/harness.h"
#include "benchmarks/machine.h"
#include "benchmarks/resident.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

enum {
    WARM_UP_GRAINS = 1000,
    IN_FLIGHT_MAX = 1024,
    COLD_NS_MAX = 600 /* the bar */
};

static int64_t grains = 1000000, collected = 100000, rounds = 5, in_flight = 256;

/* The numbers that the processes of one round give. */
enum {
    COLD,
    WARM,
    DEACTIVATE,
    REACTIVATE,
    COLD_CLIENT,
    WARM_CLIENT,
    PAUSE,
    PAUSE_WALL,
    PAUSE_AT,
    PAUSE_WARM,
    PAUSE_WARM_WALL,
    PAUSE_WARM_AT,
    NUMBERS
};

typedef struct line {
    const char *name, *unit;
    double at_most; /* NAN: nothing */
    const char *what;
} line;

static const line lines[NUMBERS] = {
    [COLD] = { "activation.cold", "ns", COLD_NS_MAX, "first call, from a task" },
    [WARM] = { "activation.warm", "ns", NAN, "second call" },
    [DEACTIVATE] = { "activation.deactivate", "ns", NAN, "third call, and deactivated" },
    [REACTIVATE] = { "activation.reactivate", "ns", NAN, "first call to one that was there" },
    [COLD_CLIENT] = { "activation.cold.client", "ns", COLD_NS_MAX, "first call, from a client" },
    [WARM_CLIENT] = { "activation.warm.client", "ns", NAN, "second call, from a client" },
    [PAUSE] = { "activation.pause", "ns", NAN, "longest pass, cold calls" },
    [PAUSE_WALL] = { "activation.pause.wall", "ns", NAN, "the same by the clock" },
    [PAUSE_AT] = { "activation.pause.at", "count", NAN, "grains that were there by then" },
    [PAUSE_WARM] = { "activation.pause.warm", "ns", NAN, "longest pass, warm calls" },
    [PAUSE_WARM_WALL] = { "activation.pause.warm.wall", "ns", NAN, "the same by the clock" },
};

static bench_samples samples[NUMBERS];

static resident_keys all(void)
{
    return (resident_keys){ WARM_UP_GRAINS, (uint64_t)grains, NULL };
}

static int open_warmed(resident_house *ret)
{
    const int r = resident_house_open(ret);
    return r == 0 ? resident_house_touch(ret, (resident_keys){ 0, WARM_UP_GRAINS, NULL }) : r;
}

/* --- From a task --------------------------------------------------------------------------- */

static int leave_all(teff_task *task, void *user)
{
    const resident_keys *keys = user;
    for (uint64_t i = 0; i < keys->count; i++) {
        idler_ref one = idler_at(keys->first + i);
        const int r = idler_leave(task, &one, NULL, NULL);
        if (r != 0)
            return r;
    }
    return 0;
}

static int timed_touch(const resident_house *house, double *ret_ns)
{
    const int64_t start_ns = machine_now_ns();
    const int r = resident_house_touch(house, all());
    *ret_ns = (double)(machine_now_ns() - start_ns) / (double)grains;
    return r;
}

static int timed_leave(const resident_house *house, double *ret_ns)
{
    resident_keys keys = all();
    const int64_t start_ns = machine_now_ns();
    const int r = resident_house_run(house, leave_all, &keys);
    *ret_ns = (double)(machine_now_ns() - start_ns) / (double)grains;
    return r;
}

static int run_task(void *user, double *ret)
{
    const uint64_t count = (uint64_t)grains + WARM_UP_GRAINS;
    resident_house house;
    (void)user;
    machine_pin(1);
    int r = open_warmed(&house);
    if (r == 0)
        r = timed_touch(&house, &ret[COLD]);
    if (r == 0)
        r = resident_house_check(&house, count, count);
    if (r == 0)
        r = timed_touch(&house, &ret[WARM]);
    if (r == 0)
        r = timed_leave(&house, &ret[DEACTIVATE]);
    if (r == 0)
        r = resident_house_check(&house, WARM_UP_GRAINS, count);
    if (r == 0)
        r = timed_touch(&house, &ret[REACTIVATE]);
    if (r == 0)
        r = resident_house_check(&house, count, count + (uint64_t)grains);
    return r;
}

/* --- From a client ------------------------------------------------------------------------- */

/* So many calls are under way, and are claimed in the order in which they were made. */
static int client_touch(teff_client *client, double *ret_ns)
{
    static teff_future futures[IN_FLIGHT_MAX];
    const int64_t start_ns = machine_now_ns();
    for (int64_t i = 0; i < grains + in_flight; i++) {
        teff_future *future = &futures[i % in_flight];
        if (i >= in_flight) {
            const int r = idler_touch_claim(client, *future, NULL);
            if (r != 0)
                return r;
        }
        if (i < grains) {
            idler_ref one = idler_at(WARM_UP_GRAINS + (uint64_t)i);
            *future = idler_touch_start(client, &one, NULL);
        }
    }
    *ret_ns = (double)(machine_now_ns() - start_ns) / (double)grains;
    return 0;
}

static int run_client(void *user, double *ret)
{
    const uint64_t count = (uint64_t)grains + WARM_UP_GRAINS;
    resident_house house;
    (void)user;
    int r = open_warmed(&house);
    if (r == 0)
        r = client_touch(house.client, &ret[COLD_CLIENT]);
    if (r == 0)
        r = client_touch(house.client, &ret[WARM_CLIENT]);
    return r == 0 ? resident_house_check(&house, count, count) : r;
}

/* --- How long a pass takes ----------------------------------------------------------------- */

/* A task that runs once a pass and looks how long it was since the one before. */
typedef struct watch {
    bool ready, ending;
    const uint64_t *made; /* calls so far */
    int64_t longest_ns, longest_wall_ns;
    uint64_t at;
} watch;

typedef struct watched {
    watch watch;
    resident_keys keys;
    uint64_t made;
} watched;

static int64_t worked_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int watch_passes(teff_task *task, void *user)
{
    watched *of = user;
    int64_t last_ns = worked_ns(), last_wall_ns = machine_now_ns();
    of->watch.ready = true;
    while (!of->watch.ending) {
        const int r = teff_sleep(task, 1); /* until the next pass looks at its timers */
        const int64_t now_ns = worked_ns(), wall_ns = machine_now_ns();
        if (r != 0)
            return r;
        if (now_ns - last_ns > of->watch.longest_ns) {
            of->watch.longest_ns = now_ns - last_ns;
            of->watch.at = of->made;
        }
        if (wall_ns - last_wall_ns > of->watch.longest_wall_ns)
            of->watch.longest_wall_ns = wall_ns - last_wall_ns;
        last_ns = now_ns;
        last_wall_ns = wall_ns;
    }
    return 0;
}

static int touch_watched(teff_task *task, void *user)
{
    watched *of = user;
    int r = 0;
    while (r == 0 && !of->watch.ready)
        r = teff_sleep(task, 0);
    for (; r == 0 && of->made < of->keys.count; of->made++) {
        idler_ref one = idler_at(of->keys.first + of->made);
        r = idler_touch(task, &one, NULL, NULL);
    }
    of->watch.ending = true;
    return r;
}

static int longest_pass(const resident_house *house, double *ret_ns, double *ret_wall_ns,
                        double *ret_at)
{
    watched of = { .keys = all() };
    teff_future watching;
    int result = 0;
    int r = teff_silo_spawn(house->silo, 0, watch_passes, &of, house->client, &watching);
    if (r == 0)
        r = resident_house_run(house, touch_watched, &of);
    if (r == 0)
        r = teff_task_claim(house->client, watching, &result);
    *ret_ns = (double)of.watch.longest_ns;
    *ret_wall_ns = (double)of.watch.longest_wall_ns;
    *ret_at = (double)of.watch.at;
    return r != 0 ? r : result;
}

static int run_pause(void *user, double *ret)
{
    const uint64_t count = (uint64_t)grains + WARM_UP_GRAINS;
    resident_house house;
    (void)user;
    machine_pin(1);
    int r = open_warmed(&house);
    if (r == 0)
        r = longest_pass(&house, &ret[PAUSE], &ret[PAUSE_WALL], &ret[PAUSE_AT]);
    if (r == 0)
        r = longest_pass(&house, &ret[PAUSE_WARM], &ret[PAUSE_WARM_WALL], &ret[PAUSE_WARM_AT]);
    return r == 0 ? resident_house_check(&house, count, count) : r;
}

/* --- All of it ----------------------------------------------------------------------------- */

typedef struct stage {
    const char *what;
    int (*run)(void *user, double *ret);
    int first, end; /* of the numbers */
} stage;

static const stage stages[] = {
    { "calls from a task", run_task, COLD, COLD_CLIENT },
    { "calls from a client", run_client, COLD_CLIENT, PAUSE },
    { "pauses", run_pause, PAUSE, NUMBERS },
};

static void measure(bench_program *bench)
{
    double numbers[NUMBERS];
    for (int64_t k = 0; k < rounds; k++) {
        for (unsigned i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
            if (bench_interrupted())
                return;
            bench_progress(bench, "round %lld of %lld: %s", (long long)k + 1, (long long)rounds,
                           stages[i].what);
            if (apart_run(stages[i].run, NULL, numbers, NUMBERS) != 0) {
                if (!bench_interrupted())
                    bench_fail(bench, "%s", stages[i].what);
                return;
            }
            for (int n = stages[i].first; n < stages[i].end; n++)
                bench_samples_add(&samples[n], numbers[n]);
        }
    }
}

static void report(bench_program *bench)
{
    (void)printf("%-36s %12s %12s %12s %10s\n", "", "median", "min", "max", "at most");
    for (int n = 0; n < NUMBERS; n++) {
        bench_row *row = lines[n].name != NULL
                             ? bench_add(bench, &samples[n], lines[n].unit, "%s", lines[n].name)
                             : NULL;
        if (row == NULL)
            continue;
        bench_row_extra(row, "grains", (double)grains);
        (void)printf("%-36s %12.1f %12.1f %12.1f", lines[n].what, row->median, row->min, row->max);
        if (!isnan(lines[n].at_most)) {
            bench_row_extra(row, "at_most", lines[n].at_most);
            (void)printf(" %10.0f %s", lines[n].at_most,
                         row->median <= lines[n].at_most ? "PASS" : "over");
        }
        (void)putchar('\n');
    }
    (void)putchar('\n');
    for (int n = 0; n < NUMBERS; n++)
        bench_samples_finish(&samples[n]);
}

int main(int argc, char **argv)
{
    const bench_option options[] = {
        { "grains", "that are called first", &grains, 1, 100000000 },
        { "collected", "of them, in the end", &collected, 1, 100000000 },
        { "rounds", "processes of each kind", &rounds, 1, 1000 },
        { "in_flight", "calls of a client under way", &in_flight, 1, IN_FLIGHT_MAX },
    };
    static bench_program bench;
    bench_begin(&bench, "activation",
                "what does the first call to a grain cost that is nowhere, and what its going?",
                options, sizeof(options) / sizeof(options[0]), argc, argv);
    measure(&bench);
    report(&bench);
    if (!bench.failed && !bench_interrupted())
        (void)activation_collect(&bench, grains, collected < grains ? collected : grains, rounds);
    bench_print(&bench);
    return bench_end(&bench);
}
