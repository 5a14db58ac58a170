/* SPDX-License-Identifier: MIT */
/*
 * Calls: a request to a grain, waited for or one way, how it is bounded, and what became of it.
 *
 * Users call through the stubs that TEFF_INTERFACE makes (teff/interface.h); each is one line over
 * a function below.
 *
 * Every call returns a code: 0 done; negative: the runtime could not (teff/status.h); positive: the
 * grain said no, with a code of its interface. On failure the result is untouched, and
 * teff_outcome_last tells more.
 *
 * The deadline of a call is, in this order: the timeout given with teff_with or teff_within; the
 * row's TEFF_TIMEOUT_MS; the silo's response_timeout_ns. A call made inside a turn ends no later
 * than that turn's own deadline, unless it is detached. A timeout fires at its deadline or within
 * one sweep period after it, never before.
 */
#ifndef TEFF_CALL_H
#define TEFF_CALL_H

#include "teff/caller.h"
#include "teff/export.h"
#include "teff/reference.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct teff_interface teff_interface; /* teff/interface.h */
typedef struct teff_method teff_method;
typedef struct teff_cancel teff_cancel; /* a source of cancellation; nothing gives one yet */

/* What became of a caller's last call. */
typedef struct teff_outcome {
    int code;
    bool may_have_run; /* false: it certainly did not run, so that it can be tried again safely */

    /* The one that failed: the callee's, or one whose failure it passed on. NULL: none is known. */
    const teff_method *method;
    const char *text; /* never NULL; "" where there is nothing to say */
} teff_outcome;

/* Zero in a member means its default. Set struct_size to sizeof(teff_call_options). */
typedef struct teff_call_options {
    size_t struct_size;
    int64_t timeout_ns;  /* from now; 0: the row's or the silo's */
    teff_cancel *cancel; /* NULL, for now */

    /* A deadline and a chain of its own: may outlive the turn's. Compensation needs it. */
    bool detached;
} teff_call_options;

/*
 * Options for the caller's next call only; they are used up also when that call fails. Returns
 * `caller`, so that it stands where the caller does:
 *
 *     r = room_say(teff_with(turn, &options), &room, &say, &said);
 *
 * Ownership: copies *options.
 * Threads:   the caller's.
 * Suspends:  no.
 * Errors:    of its own none: the call answers TEFF_EINVAL when `options` is NULL, struct_size is
 *            wrong, timeout_ns is negative, or `cancel` is not NULL (cancellation is not
 *            implemented).
 */
TEFF_EXPORT teff_caller *teff_with(teff_caller *caller, const teff_call_options *options);

/*
 * Another timeout for the next call; what else teff_with asked for stays:
 * teff_within(teff_with(turn, &detached), t). 0 or negative: the call answers TEFF_EINVAL.
 */
TEFF_EXPORT teff_caller *teff_within(teff_caller *caller, int64_t timeout_ns);

/*
 * The caller's time: nanoseconds of the silo's monotonic clock, which stands still in a simulated
 * silo until it is advanced. What deadlines are compared with. 0 for NULL.
 *
 * Threads: the caller's.
 */
TEFF_EXPORT int64_t teff_now_ns(const teff_caller *caller);

/*
 * What became of the caller's last call: its code, its text, whose failure it was, and whether it
 * may have run.
 *
 * Ownership: borrows the answer until the caller's next call, or until the caller is gone. Never
 *            NULL.
 * Threads:   the caller's.
 * Suspends:  no.
 */
TEFF_EXPORT const teff_outcome *teff_outcome_last(const teff_caller *caller);

/*
 * Sends a request to `to` and waits for its response. `method` is the number of a row of `of`;
 * `arg` and `ret` are as that row declares. NULL as `arg` sends zeroes; NULL as `ret` drops the
 * result. A one-way row is sent as by teff_call_send, and *ret is left alone.
 *
 * Ownership: copies *arg; borrows `to` and `ret` until it returns. The route found is stored in
 *            *to.
 * Threads:   the caller's.
 * Suspends:  a turn or task; blocks a client. In a turn its grain starts no other turn meanwhile.
 * Time:      ends at its deadline; see the top of this file.
 * Errors:    TEFF_EINVAL: a bad argument, key, or option; no grain type of that name, or it lacks
 *            the interface.
 *            TEFF_EINVALIDSTATE: another thread's caller, or the silo is not active.
 *            TEFF_ETIMEDOUT, TEFF_EOVERLOADED, TEFF_EREJECTED, TEFF_EUNAVAILABLE, TEFF_EGONE,
 *            TEFF_ENOMEM, TEFF_ELIMIT.
 *            Positive: the grain's own.
 */
TEFF_EXPORT int teff_call(teff_caller *caller, teff_ref *to, const teff_interface *of,
                          uint32_t method, const void *arg, void *ret);

/*
 * Sends a request and returns at once; whatever the handler answers is dropped. One caller's sends
 * and calls to one grain arrive in the order made.
 *
 * Ownership: copies *arg; borrows `to` until it returns.
 * Threads:   the caller's.
 * Suspends:  no.
 * Errors:    as teff_call, but only what is seen here; 0 does not say that the grain got it. Never
 *            positive.
 */
TEFF_EXPORT int teff_call_send(teff_caller *caller, teff_ref *to, const teff_interface *of,
                               uint32_t method, const void *arg);

#endif
