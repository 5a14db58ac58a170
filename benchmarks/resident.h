/* SPDX-License-Identifier: MIT */
/*
 * A grain with 16 bytes of state that is called and otherwise only there, and a silo for millions
 * of them: one worker, and a client of this thread's.
 *
 * Threads: the one that starts the house; tasks run on the worker.
 */
#ifndef TEFF_BENCHMARKS_RESIDENT_H
#define TEFF_BENCHMARKS_RESIDENT_H

#include "teff.h"

#include <stddef.h>
#include <stdint.h>

#define IDLER_METHODS(METHOD, SELF)                                                                \
    METHOD(SELF, touch, teff_none, teff_none, 0)                                                   \
    METHOD(SELF, leave, teff_none, teff_none, 0)
TEFF_INTERFACE(idler, IDLER_METHODS);

extern const teff_grain_type idler_grain;

typedef struct resident_house {
    teff_silo *silo;
    teff_client *client;
} resident_house;

/* A silo that is active; 0 or a status. */
int resident_house_start(resident_house *ret);

/* The same, and this thread's client of it. */
int resident_house_open(resident_house *ret);

void resident_house_finish(resident_house *house);

/* Runs a task on the worker; its result, or why there is none. */
int resident_house_run(const resident_house *house, int (*run)(teff_task *task, void *user),
                       void *user);

/* Grains of consecutive keys. */
typedef struct resident_keys {
    uint64_t first, count;
    uint64_t *routes; /* NULL, or takes the hint of each */
} resident_keys;

/* Calls each of them once, from a task on the worker. 0 or the first failure. */
int resident_house_touch(const resident_house *house, resident_keys keys);

/*
 * Whether just so many activations are there, and just so many were ever made; complains on stderr
 * where not. 0 or -1.
 */
int resident_house_check(const resident_house *house, uint64_t resident, uint64_t made);

/* "1k", "10m", or the number itself. */
void resident_count_name(int64_t count, char *ret, size_t size);

#endif
