/* SPDX-License-Identifier: MIT */
/*
 * Tasks: functions that run on a worker outside any grain, and sleeping, for whoever can.
 *
 * Threads: the worker's, but for teff_silo_spawn.
 */
#ifndef TEFF_GRAINS_TASK_H
#define TEFF_GRAINS_TASK_H

#include "grains/catalog.h"

#include "teff/task.h"

/* What says whether a task has ended, to completions that outlive it. */
typedef struct teff__task_life {
    uint32_t count; /* the task, and its completions */
    bool ended;
} teff__task_life;

/* A task as a caller, and each of its completions. */
typedef struct teff__task_caller {
    teff_caller caller;    /* first: the public pointer is this one */
    teff__task_life *life; /* NULL until a completion needs it */
} teff__task_caller;

TEFF__INTERNAL void teff__task_begin(teff__task_caller *task, teff__catalog *catalog,
                                     teff__task_life *life);
/* Cancels its unclaimed futures. */
TEFF__INTERNAL void teff__task_end(teff__task_caller *task);

/* One more completion of the task; NULL: no memory. */
TEFF__INTERNAL teff__task_life *teff__task_life_ref(teff__task_caller *task);
/* NULL is allowed. */
TEFF__INTERNAL void teff__task_life_unref(teff__catalog *catalog, teff__task_life *life);

/* One that sleeps: stands in its frame. */
typedef struct teff__sleeper {
    teff__waiter waiter;
    teff__timer timer;
    teff__ring ring; /* of the catalog */
    teff__catalog *catalog;
    const teff_caller *caller;
    int64_t since_ns;
    int code;
} teff__sleeper;

/* A task that was posted to this worker; takes the message. */
TEFF__INTERNAL void teff__task_arrived(teff__catalog *catalog, teff__message *message);

/* Frees the tasks whose stacks were dropped. */
TEFF__INTERNAL void teff__tasks_drop(teff__catalog *catalog);

/* Ends one sleep early, unless it has ended. */
TEFF__INTERNAL void teff__sleeper_end(teff__sleeper *sleeper, int code);

/* Ends the sleeps of all callers of that kind with TEFF_EUNAVAILABLE. */
TEFF__INTERNAL void teff__sleepers_wake(teff__catalog *catalog, teff__caller_kind kind);

#endif
