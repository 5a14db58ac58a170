/* SPDX-License-Identifier: MIT */
/*
 * The harness of the benchmarks: arguments, interleaved rounds, statistics, tables and JSON.
 *
 * A benchmark's main fills a table of options, calls bench_begin, measures (by bench_rounds, or by
 * hand into samples), adds rows, and returns bench_end. The first line printed says what was
 * measured on; Ctrl-C ends the rounds, and what was measured by then is printed.
 *
 * Units: "ns", "bytes", "per_second", "count".
 */
#ifndef TEFF_BENCHMARKS_HARNESS_H
#define TEFF_BENCHMARKS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BENCH_NAME_MAX = 48,
    BENCH_ROWS_MAX = 256, /* the largest benchmark has some forty */
    BENCH_EXTRAS_MAX = 12
};

/* An argument `name=value`. `*value` holds the default before bench_begin. */
typedef struct bench_option {
    const char *name;
    const char *help;
    int64_t *value;
    int64_t min, max;
} bench_option;

/* A growing set of numbers; starts zeroed. */
typedef struct bench_samples {
    double *values;
    size_t count, max;
} bench_samples;

typedef struct bench_extra {
    const char *name;
    double value;
} bench_extra;

typedef struct bench_row {
    char name[BENCH_NAME_MAX];
    const char *unit;
    double median, min, max, p50, p95, p99;
    size_t samples, extra_count;
    bench_extra extras[BENCH_EXTRAS_MAX];
} bench_row;

typedef struct bench_program {
    const char *name;
    const char *json; /* the file asked for, or NULL */
    bool progress;    /* stderr is a terminal */
    bool failed;
    size_t row_count;
    bench_row rows[BENCH_ROWS_MAX];
} bench_program;

/* One thing to measure in rounds. */
typedef struct bench_measurement {
    const char *label;
    int (*run)(void *user, double *ret); /* 0, or the bench has failed */
    void *user;
    bench_samples samples; /* of all rounds but the first */
} bench_measurement;

/*
 * Reads the arguments and prints the first line and the question that the benchmark asks. Ends the
 * process after --help, and with status 2 when an argument is wrong.
 */
void bench_begin(bench_program *bench, const char *name, const char *question,
                 const bench_option *options, size_t option_count, int argc, char **argv);

/*
 * Writes the JSON file if one was asked for. The exit status: 0, 1 when anything failed, 130 after
 * Ctrl-C.
 */
int bench_end(bench_program *bench);

/* Ctrl-C came: measure nothing new. A third one ends the process. */
bool bench_interrupted(void);

/* Says so on stderr and makes bench_end return 1. */
void bench_fail(bench_program *bench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One line on stderr that replaces the one before, where that is a terminal. */
void bench_progress(bench_program *bench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Measures all in turn, and again, A B C A B C …, so that a disturbance does not fall on one of
 * them. A first round warms up and is dropped. Ends early on Ctrl-C and at the first failure.
 */
void bench_rounds(bench_program *bench, bench_measurement *measurements, size_t count,
                  int64_t rounds);

void bench_samples_add(bench_samples *samples, double value);
void bench_samples_finish(bench_samples *samples);

/*
 * The value below which the fraction `rank` (0 to 1) of the samples lies, interpolated; NAN when
 * there is none. Sorts.
 */
double bench_samples_percentile(bench_samples *samples, double rank);

/*
 * The median of a[i] / b[i]: how the two compare when both were disturbed alike. NAN when there is
 * none.
 */
double bench_samples_ratio(const bench_samples *a, const bench_samples *b);

/*
 * Adds a row, which borrows `unit`; the samples stay the caller's. NULL, and no row, when there
 * are none.
 */
bench_row *bench_add(bench_program *bench, bench_samples *samples, const char *unit,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

/* One more member of the row's object in JSON. Borrows `name`. Does nothing without a row. */
void bench_row_extra(bench_row *row, const char *name, double value);

/* Prints all rows as one table. */
void bench_print(const bench_program *bench);

#endif
