/* SPDX-License-Identifier: MIT */
/*
 * Turns: what a handler or hook of a grain can ask and do while it runs. A turn is given to the
 * handler and is gone when that returns; keep no pointer to it.
 *
 * All of these belong to the thread that runs the turn, none suspends, and each that takes a `turn`
 * answers another kind of caller with TEFF_EINVALIDSTATE, NULL, or zeroes.
 */
#ifndef TEFF_TURN_H
#define TEFF_TURN_H

#include "teff/caller.h"
#include "teff/export.h"
#include "teff/reference.h"

#include <stddef.h>
#include <stdint.h>

typedef struct teff_cancel teff_cancel; /* teff/cancel.h */

/* My grain's key. Ownership: borrows it until the turn ends. Threads: the turn's. */
TEFF_EXPORT const teff_key *teff_turn_key(const teff_turn *turn);

/*
 * A reference to my own grain; `hello_self(turn)` gives it typed. A grain that awaits a call to
 * itself waits for its own turn to end; send instead. Threads: the turn's.
 */
TEFF_EXPORT teff_ref teff_turn_self(const teff_turn *turn);

/*
 * What was given to teff_silo_register with my type.
 *
 * Ownership: whose it was; borrowed by the silo until stopped.
 * Threads:   the turn's; what is behind it, all workers' at once.
 */
TEFF_EXPORT void *teff_turn_context(const teff_turn *turn);

/*
 * What worker_start (teff_silo_options) gave on the worker that runs this turn, or NULL.
 *
 * Ownership: that of worker_start, until worker_stop.
 * Threads:   the turn's; no other worker gets it.
 */
TEFF_EXPORT void *teff_turn_worker_context(const teff_turn *turn);

/*
 * Zeroed memory for what is too large for the stack, aligned for any type. NULL: there is none, or
 * `size` is 0.
 *
 * Ownership: borrowed until the turn ends.
 * Threads:   the turn's.
 */
TEFF_EXPORT void *teff_turn_alloc(teff_turn *turn, size_t size);

/*
 * Sets what my caller finds in its outcome: a positive `code` of my interface and a text, cut where
 * it is too long for a response. Returns `code`:
 *
 *     return teff_turn_fail(turn, ROOM_FULL, "%u members", count);
 *
 * Ownership: copies the text.
 * Threads:   the turn's.
 * Errors:    a `code` of 0 or less is not the grain's to give: TEFF_EINVAL is returned.
 */
TEFF_EXPORT int teff_turn_fail(teff_turn *turn, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Hands the failure of my last call on to my own caller, with its text and its origin; `code` is
 * what that call returned, and is returned. 0 is handed through. Comes before the turn's next call,
 * whose outcome takes the place of this one; after it only the code is left.
 *
 * Threads: the turn's.
 * Errors:  `code`; TEFF_EINVALIDSTATE: not a turn of a grain.
 */
TEFF_EXPORT int teff_turn_pass(teff_turn *turn, int code);

/*
 * When my caller stops waiting, in nanoseconds of the silo's monotonic clock (CLOCK_MONOTONIC, but
 * for a simulated silo); INT64_MAX: it does not wait. Threads: the turn's.
 */
TEFF_EXPORT int64_t teff_turn_deadline_ns(const teff_turn *turn);

/*
 * The source that my request was sent under, or NULL. Ask whether it has fired (teff_cancel_fired);
 * give it to calls of my own (teff_call_options), so that they end with mine; take a count of it
 * (teff_cancel_ref) to know it for longer. A hook has none, nor has a completion function.
 *
 * Ownership: borrows it until the turn ends.
 * Threads:   the turn's.
 */
TEFF_EXPORT teff_cancel *teff_turn_cancel(const teff_turn *turn);

/*
 * Has `canceled` called when my source fires: once, on the turn's worker, while the turn is
 * suspended; never inside this function, and never after the turn has ended. Of several the newest
 * comes first. Where there is no source it is never called. It has no caller, so it calls no grain
 * and waits for nothing; what it does with the state of the grain or with the turn's own variables
 * is the turn's affair. My caller's outcome does not depend on it.
 *
 * Ownership: borrows `user` until `canceled` has returned or the turn has ended.
 * Threads:   the turn's.
 * Errors:    TEFF_ECANCELED: it has fired, and `canceled` will not be called. TEFF_EINVAL:
 *            `canceled` is NULL. TEFF_EINVALIDSTATE: not a turn of a grain, or another thread's.
 *            TEFF_ENOMEM.
 */
TEFF_EXPORT int teff_turn_on_cancel(teff_turn *turn, void (*canceled)(void *user), void *user);

/*
 * Asks for my activation to be deactivated as soon as no turn of it runs any more. Mail that waits
 * by then is served by the next activation, in its order. Asking twice is asking once.
 *
 * Threads: the turn's.
 * Errors:  TEFF_EINVALIDSTATE: not a turn of a grain.
 */
TEFF_EXPORT int teff_turn_deactivate(teff_turn *turn);

/*
 * Keeps my activation, however idle, for `duration_ns` from now at least; INT64_MAX: for good. 0 or
 * less takes the wish back. The last wish counts, until the grain is deactivated. Memory that is
 * short does not heed it, nor does teff_silo_collect.
 *
 * Threads: the turn's.
 * Errors:  TEFF_EINVALIDSTATE: not a turn of a grain.
 */
TEFF_EXPORT int teff_turn_delay_deactivation(teff_turn *turn, int64_t duration_ns);

#endif
