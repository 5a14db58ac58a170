/* SPDX-License-Identifier: MIT */
/*
 * The first line, the table and the JSON file.
 *
 * The build says with which flags it compiled (TEFF_BUILD_FLAGS) and may say of which commit
 * (TEFF_BUILD_COMMIT); the environment's TEFF_COMMIT, set by ./run, comes first, since it is true
 * without building anew.
 */
#include "benchmarks/report.h"

#include "benchmarks/machine.h"
#include "runtime/memory.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef TEFF_BUILD_FLAGS
#define TEFF_BUILD_FLAGS "unknown"
#endif
#ifndef TEFF_BUILD_COMMIT
#define TEFF_BUILD_COMMIT "unknown"
#endif
#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

typedef struct origin {
    char cpu[128], date[32];
    const char *commit;
    unsigned cores;
} origin;

static void origin_read(origin *ret)
{
    struct tm utc;
    const time_t now = time(NULL);
    const char *commit = getenv("TEFF_COMMIT");
    ret->commit = commit != NULL && commit[0] != '\0' ? commit : TEFF_BUILD_COMMIT;
    ret->cores = machine_cores();
    machine_cpu_name(ret->cpu, sizeof(ret->cpu));
    ret->date[0] = '\0';
    if (gmtime_r(&now, &utc) != NULL)
        (void)strftime(ret->date, sizeof(ret->date), "%Y-%m-%dT%H:%M:%SZ", &utc);
}

void report_run(void)
{
    origin from;
    origin_read(&from);
    (void)printf("%s | %s | %u cores | %s | %s | commit %s | %s\n", COMPILER, TEFF_BUILD_FLAGS,
                 from.cores, from.cpu, teff__memory_allocator(), from.commit, from.date);
}

void bench_print(const bench_program *bench)
{
    int width = 4;
    for (size_t i = 0; i < bench->row_count; i++)
        width = (int)strlen(bench->rows[i].name) > width ? (int)strlen(bench->rows[i].name) : width;
    (void)printf("%-*s  %-10s %12s %12s %12s %12s %12s %12s %8s\n", width, "name", "unit", "median",
                 "min", "max", "p50", "p95", "p99", "samples");
    for (size_t i = 0; i < bench->row_count; i++) {
        const bench_row *row = &bench->rows[i];
        (void)printf("%-*s  %-10s %12.1f %12.1f %12.1f %12.1f %12.1f %12.1f %8zu\n", width,
                     row->name, row->unit, row->median, row->min, row->max, row->p50, row->p95,
                     row->p99, row->samples);
    }
}

static void json_text(FILE *file, const char *name, const char *text)
{
    (void)fprintf(file, "\"%s\": \"", name);
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte < 0x20)
            (void)fprintf(file, "\\u%04x", (unsigned)byte);
        else
            (void)fprintf(file, byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
    }
    (void)fputc('"', file);
}

/* JSON has no word for a number that is none. */
static void json_number(FILE *file, const char *name, double value)
{
    if (isfinite(value))
        (void)fprintf(file, ", \"%s\": %.12g", name, value);
    else
        (void)fprintf(file, ", \"%s\": null", name);
}

static void json_run(FILE *file)
{
    origin from;
    origin_read(&from);
    json_text(file, "compiler", COMPILER);
    (void)fputs(", ", file);
    json_text(file, "flags", TEFF_BUILD_FLAGS);
    (void)fprintf(file, ", \"cores\": %u, ", from.cores);
    json_text(file, "cpu", from.cpu);
    (void)fputs(", ", file);
    json_text(file, "allocator", teff__memory_allocator());
    (void)fputs(", ", file);
    json_text(file, "commit", from.commit);
    (void)fputs(", ", file);
    json_text(file, "date", from.date);
}

static void json_row(FILE *file, const bench_row *row)
{
    json_text(file, "name", row->name);
    (void)fputs(", ", file);
    json_text(file, "unit", row->unit);
    json_number(file, "median", row->median);
    json_number(file, "min", row->min);
    json_number(file, "max", row->max);
    json_number(file, "p50", row->p50);
    json_number(file, "p95", row->p95);
    json_number(file, "p99", row->p99);
    json_number(file, "samples", (double)row->samples);
    for (size_t i = 0; i < row->extra_count; i++)
        json_number(file, row->extras[i].name, row->extras[i].value);
}

int report_json(const bench_program *bench, const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return -1;
    (void)fputs("{\"run\": {", file);
    json_run(file);
    (void)fputs("}, \"rows\": [", file);
    for (size_t i = 0; i < bench->row_count; i++) {
        (void)fputs(i == 0 ? "\n  {" : ",\n  {", file);
        json_row(file, &bench->rows[i]);
        (void)fputc('}', file);
    }
    (void)fputs("\n]}\n", file);
    const int broken = ferror(file);
    if (fclose(file) != 0 || broken != 0) {
        errno = errno != 0 ? errno : EIO;
        return -1;
    }
    return 0;
}
