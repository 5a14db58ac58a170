/* SPDX-License-Identifier: MIT */
/*
 * What the stress programs share: arguments of the form name=value, the first failure ends the
 * program, and a watchdog that ends a hang.
 */
#ifndef TEFF_TESTS_STRESS_COMMON_H
#define TEFF_TESTS_STRESS_COMMON_H

#include "runtime/atomic.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct argument {
    const char *name;
    unsigned long long *value, low, high;
} argument;

/* Exits where an argument asks for help, is unknown, no number, or out of its range. */
static inline void arguments_read(const char *program, const argument *known, size_t known_count,
                                  int count, char **given)
{
    for (int i = 1; i < count; i++) {
        const char *equals = strchr(given[i], '=');
        const size_t length = equals != NULL ? (size_t)(equals - given[i]) : 0;
        size_t k = 0;
        while (k < known_count &&
               (strlen(known[k].name) != length || memcmp(known[k].name, given[i], length) != 0))
            k++;
        char *end = NULL;
        const unsigned long long value = k < known_count ? strtoull(equals + 1, &end, 0) : 0;
        if (k < known_count && end != equals + 1 && *end == '\0' && value >= known[k].low &&
            value <= known[k].high) {
            *known[k].value = value;
            continue;
        }
        const bool help = strcmp(given[i], "--help") == 0;
        FILE *to = help ? stdout : stderr;
        if (help)
            fprintf(to, "%s takes\n", program);
        else
            fprintf(to, "%s: what is %s? It takes\n", program, given[i]);
        for (k = 0; k < known_count; k++)
            fprintf(to, "  %s=%llu   (%llu to %llu)\n", known[k].name, *known[k].value,
                    known[k].low, known[k].high);
        exit(help ? 0 : 2);
    }
}

/* Says what was violated and ends the program. Only the first one speaks. */
__attribute__((format(printf, 1, 2))) _Noreturn static inline void fail(const char *format, ...)
{
    static teff__atomic_u32 failed;
    va_list arguments;
    while (teff__atomic_u32_exchange_acq_rel(&failed, 1) != 0)
        (void)pause();
    printf("\nFAILED: ");
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    (void)fflush(stdout);
    _exit(1);
}

/* After `seconds` runs `hung`, which says what is outstanding by fail. */
static inline void watchdog_start(unsigned long long seconds, void (*hung)(int number))
{
    (void)signal(SIGALRM, hung);
    (void)alarm((unsigned)seconds);
}

#endif
