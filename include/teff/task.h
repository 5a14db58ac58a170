/* SPDX-License-Identifier: MIT */
/*
 * Tasks: functions that run on a worker outside any grain, on a stack of their own, and may wait
 * there as a turn may. They call grains as a client does, at a fraction of its price.
 */
#ifndef TEFF_TASK_H
#define TEFF_TASK_H

#include "teff/call.h"
#include "teff/caller.h"
#include "teff/export.h"
#include "teff/silo.h"

#include <stdint.h>

/* In place of a worker's number: the silo chooses. */
enum { TEFF_WORKER_ANY = -1 };

/*
 * Runs `run` as a task on that worker (from 0), or on one that the silo chooses (TEFF_WORKER_ANY).
 * With `caller` and `ret` the caller can claim what it returns; with NULL for both nobody waits for
 * it. A task that nobody claims runs to its end all the same.
 *
 * Ownership: borrows `user` until `run` has returned.
 * Threads:   any where `caller` is NULL, else the caller's.
 * Suspends:  no.
 * Errors:    TEFF_EINVAL: no such worker, `run` is NULL, only one of `caller` and `ret` is, or
 *            `caller` is another silo's.
 *            TEFF_EINVALIDSTATE: the silo is not active. TEFF_ELIMIT, TEFF_EOVERLOADED,
 *            TEFF_ENOMEM.
 */
TEFF_EXPORT int teff_silo_spawn(teff_silo *silo, int worker,
                                int (*run)(teff_task *task, void *user), void *user,
                                teff_caller *caller, teff_future *ret);

/*
 * Waits until the task has returned, and gives what it returned. A future is claimed once, by the
 * caller that it was given to. *ret_result is untouched on failure.
 *
 * Threads:  the caller's.
 * Suspends: a turn or task; blocks a client.
 * Errors:   TEFF_EINVAL: no task's future, another caller's, or claimed already.
 *           TEFF_EUNAVAILABLE: the silo stopped first. TEFF_EWOULDBLOCK, TEFF_ELIMIT, TEFF_ENOMEM:
 *           the task runs still, and the caller cannot wait; the future stays.
 */
TEFF_EXPORT int teff_task_claim(teff_caller *caller, teff_future future, int *ret_result);

/*
 * Waits for a while, at least `duration_ns`. 0 lets others run that can.
 *
 * Threads:  the caller's.
 * Suspends: a turn or task; blocks a client.
 * Errors:   TEFF_EINVAL: `duration_ns` is negative. TEFF_EUNAVAILABLE: the silo stops, and it ended
 *           early. TEFF_ECANCELED: the source that the turn's request was sent under has fired, and
 *           it ended early, or did not begin. TEFF_ELIMIT, TEFF_ENOMEM: no stack is left to go on with meanwhile; it did not
 *           wait, so return rather than try again: only that gives the worker back.
 */
TEFF_EXPORT int teff_sleep(teff_caller *caller, int64_t duration_ns);

#endif
