/* SPDX-License-Identifier: MIT */
/*
 * Rounds and statistics of the benchmarks. What is printed for people and for programs lies in
 * report.c, arguments and signals in this file.
 */
#include "benchmarks/harness.h"

#include "benchmarks/machine.h"
#include "benchmarks/report.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How many came. A handler has nothing else to reach. */
static volatile sig_atomic_t interrupted;

/* A wrapper may pass on one key press twice; the third ends a benchmark that hangs. */
static void on_interrupt(int number)
{
    (void)number;
    if (interrupted >= 2)
        _exit(130);
    interrupted = interrupted + 1;
}

bool bench_interrupted(void)
{
    return interrupted != 0;
}

static void watch_interrupt(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_interrupt;
    (void)sigaction(SIGINT, &action, NULL);
}

static void print_help(const char *name, const char *question, const bench_option *options,
                       size_t option_count)
{
    (void)printf("usage: %s [name=value ...] [--json FILE]\n\n%s\n\n", name, question);
    for (size_t i = 0; i < option_count; i++)
        (void)printf("  %s=%lld%*s %s (%lld to %lld)\n", options[i].name,
                     (long long)*options[i].value, (int)(16 - strlen(options[i].name)), "",
                     options[i].help, (long long)options[i].min, (long long)options[i].max);
    (void)puts("  --json FILE        writes the rows there, too");
}

static _Noreturn void refuse(const char *name, const char *argument, const char *why)
{
    (void)fprintf(stderr, "%s: %s: %s (see --help)\n", name, argument, why);
    exit(2);
}

static void read_option(const char *name, const char *argument, const bench_option *options,
                        size_t option_count)
{
    const size_t size = strcspn(argument, "=");
    for (size_t i = 0; i < option_count; i++) {
        char *end;
        if (strlen(options[i].name) != size || strncmp(options[i].name, argument, size) != 0)
            continue;
        if (argument[size] != '=')
            refuse(name, argument, "a value is missing");
        errno = 0;
        const long long value = strtoll(argument + size + 1, &end, 10);
        if (errno != 0 || end == argument + size + 1 || *end != '\0')
            refuse(name, argument, "that is no number");
        if (value < options[i].min || value > options[i].max)
            refuse(name, argument, "that is out of range");
        *options[i].value = value;
        return;
    }
    refuse(name, argument, "there is no such argument");
}

void bench_begin(bench_program *bench, const char *name, const char *question,
                 const bench_option *options, size_t option_count, int argc, char **argv)
{
    memset(bench, 0, sizeof(*bench));
    bench->name = name;
    bench->progress = isatty(STDERR_FILENO) == 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help(name, question, options, option_count);
            exit(0);
        }
        if (strcmp(argv[i], "--json") != 0)
            read_option(name, argv[i], options, option_count);
        else if (++i < argc)
            bench->json = argv[i];
        else
            refuse(name, "--json", "a file is missing");
    }
    watch_interrupt();
    report_run();
    (void)printf("%s: %s\n\n", name, question);
    (void)fflush(stdout);
}

int bench_end(bench_program *bench)
{
    if (bench->progress)
        (void)fputs("\r\033[K", stderr);
    if (bench->json != NULL && report_json(bench, bench->json) != 0)
        bench_fail(bench, "%s: cannot be written: %s", bench->json, strerror(errno));
    if (fflush(stdout) != 0)
        bench->failed = true;
    if (bench->failed)
        return 1;
    return bench_interrupted() ? 130 : 0;
}

void bench_fail(bench_program *bench, const char *format, ...)
{
    va_list arguments;
    bench->failed = true;
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s%s: failed: ", bench->progress ? "\r\033[K" : "", bench->name);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
}

void bench_progress(bench_program *bench, const char *format, ...)
{
    va_list arguments;
    if (!bench->progress)
        return;
    (void)fputs("\r\033[K", stderr);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fflush(stderr);
}

void bench_rounds(bench_program *bench, bench_measurement *measurements, size_t count,
                  int64_t rounds)
{
    for (int64_t round = 0; round <= rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            double value = NAN;
            if (bench_interrupted() || bench->failed)
                return;
            bench_progress(bench, "round %lld of %lld: %s", (long long)round, (long long)rounds,
                           measurements[i].label);
            if (measurements[i].run(measurements[i].user, &value) != 0) {
                bench_fail(bench, "%s", measurements[i].label);
                return;
            }
            if (round > 0)
                bench_samples_add(&measurements[i].samples, value);
        }
    }
}

void bench_samples_add(bench_samples *samples, double value)
{
    if (samples->count == samples->max) {
        const size_t max = samples->max > 0 ? samples->max * 2 : 64;
        double *values = realloc(samples->values, max * sizeof(*values));
        if (values == NULL) {
            (void)fputs("out of memory for samples\n", stderr);
            exit(1);
        }
        samples->values = values;
        samples->max = max;
    }
    samples->values[samples->count++] = value;
}

void bench_samples_finish(bench_samples *samples)
{
    free(samples->values);
    memset(samples, 0, sizeof(*samples));
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of sorted samples; the definition of R's and numpy's default. */
static double percentile_sorted(const bench_samples *samples, double rank)
{
    if (samples->count == 0)
        return NAN;
    const double place = rank * (double)(samples->count - 1);
    const size_t below = (size_t)place;
    const size_t above = below + 1 < samples->count ? below + 1 : below;
    const double low = samples->values[below], high = samples->values[above];
    return low + (high - low) * (place - (double)below);
}

double bench_samples_percentile(bench_samples *samples, double rank)
{
    if (samples->count > 0)
        qsort(samples->values, samples->count, sizeof(*samples->values), compare);
    return percentile_sorted(samples, rank);
}

double bench_samples_ratio(const bench_samples *a, const bench_samples *b)
{
    bench_samples ratios = { NULL, 0, 0 };
    for (size_t i = 0; i < a->count && i < b->count; i++)
        bench_samples_add(&ratios, a->values[i] / b->values[i]);
    const double median = bench_samples_percentile(&ratios, 0.5);
    bench_samples_finish(&ratios);
    return median;
}

bench_row *bench_add(bench_program *bench, bench_samples *samples, const char *unit,
                     const char *format, ...)
{
    va_list arguments;
    if (samples->count == 0)
        return NULL;
    if (bench->row_count == BENCH_ROWS_MAX) {
        bench_fail(bench, "more than %d rows", (int)BENCH_ROWS_MAX);
        return NULL;
    }
    bench_row *row = &bench->rows[bench->row_count++];
    memset(row, 0, sizeof(*row));
    va_start(arguments, format);
    (void)vsnprintf(row->name, sizeof(row->name), format, arguments);
    va_end(arguments);
    row->unit = unit;
    row->samples = samples->count;
    row->median = row->p50 = bench_samples_percentile(samples, 0.5);
    row->min = percentile_sorted(samples, 0);
    row->max = percentile_sorted(samples, 1);
    row->p95 = percentile_sorted(samples, 0.95);
    row->p99 = percentile_sorted(samples, 0.99);
    return row;
}

void bench_row_extra(bench_row *row, const char *name, double value)
{
    if (row != NULL && row->extra_count < BENCH_EXTRAS_MAX)
        row->extras[row->extra_count++] = (bench_extra){ name, value };
}
