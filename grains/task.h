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

/* A task that was posted to this worker; takes the message. */
TEFF__INTERNAL void teff__task_arrived(teff__catalog *catalog, teff__message *message);

/* Frees the tasks whose stacks were dropped. */
TEFF__INTERNAL void teff__tasks_drop(teff__catalog *catalog);

/* Ends the sleeps of all callers of that kind with TEFF_EUNAVAILABLE. */
TEFF__INTERNAL void teff__sleepers_wake(teff__catalog *catalog, teff__caller_kind kind);

#endif
