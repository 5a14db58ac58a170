/* SPDX-License-Identifier: MIT */
/*
 * The benchmark `ideal`: what does a hosted-local call cost that is written by hand? ideal.h says
 * what is in it.
 */
#include "benchmarks/harness.h"
#include "benchmarks/ideal.h"
#include "benchmarks/line.h"

#include <stdio.h>

static const unsigned caller_counts[] = { 1, 16, 100, 250, 500 };

enum { COUNTS = sizeof(caller_counts) / sizeof(caller_counts[0]) };

static int64_t rounds = 15, duration_ms = 50, callers = 0;

static int run_local(void *user, double *ret)
{
    return ideal_local(*(const unsigned *)user, duration_ms * 1000000, ret);
}

static int run_cross(void *user, double *ret)
{
    return ideal_cross(*(const unsigned *)user, duration_ms * 1000000, ret);
}

static int run_line(void *user, double *ret)
{
    (void)user;
    return line_round_trip(duration_ms * 1000000, ret);
}

static void add_row(bench_program *bench, bench_measurement *measurement)
{
    bench_row *row = bench_add(bench, &measurement->samples, "ns", "%s", measurement->label);
    if (row != NULL)
        bench_row_extra(row, "per_second", 1e9 / row->median);
    bench_samples_finish(&measurement->samples);
}

int main(int argc, char **argv)
{
    const bench_option options[] = {
        { "rounds", "measurements of each", &rounds, 1, 10000 },
        { "duration_ms", "of one measurement", &duration_ms, 1, 60000 },
        { "callers", "only so many; 0: 1, 16, 100, 250 and 500", &callers, 0, IDEAL_CALLERS_MAX },
    };
    static bench_program bench;
    bench_measurement measurements[2 * COUNTS + 1] = { { 0 } };
    static char names[2 * COUNTS][BENCH_NAME_MAX];
    unsigned counts[COUNTS];
    size_t count = 0;

    bench_begin(&bench, "ideal", "what does a hosted-local call cost that is written by hand?",
                options, sizeof(options) / sizeof(options[0]), argc, argv);
    const size_t points = callers != 0 ? 1 : COUNTS;
    for (size_t i = 0; i < points; i++) {
        counts[i] = callers != 0 ? (unsigned)callers : caller_counts[i];
        (void)snprintf(names[i], sizeof(names[i]), "ideal.%u", counts[i]);
        (void)snprintf(names[COUNTS + i], sizeof(names[i]), "ideal.cross.%u", counts[i]);
        measurements[i] =
            (bench_measurement){ .label = names[i], .run = run_local, .user = &counts[i] };
        measurements[points + i] =
            (bench_measurement){ .label = names[COUNTS + i], .run = run_cross, .user = &counts[i] };
    }
    count = 2 * points;
    measurements[count++] = (bench_measurement){ .label = "line.round_trip", .run = run_line };
    bench_rounds(&bench, measurements, count, rounds);
    for (size_t i = 0; i < count; i++)
        add_row(&bench, &measurements[i]);
    bench_print(&bench);
    return bench_end(&bench);
}
