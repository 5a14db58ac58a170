/* SPDX-License-Identifier: MIT */
/*
 * Calls: a request to a grain, how it is bounded, and what became of it. There are four forms;
 * users call through the stubs that TEFF_INTERFACE makes (teff/interface.h), each one line over a
 * function below.
 *
 *   account_add(caller, &account, &arg, &ret)               waits for the answer
 *   account_add_start(caller, &account, &arg)               a future: several calls run at once
 *   account_add_then(caller, &account, &arg, done, user)    a completion function
 *   account_add_send(caller, &account, &arg)                one way: no answer
 *
 * Who may wait: a turn or task suspends, and its worker goes on with other work; a blocking client
 * blocks its thread; a client on a loop may not wait (TEFF_EWOULDBLOCK), nor may an observer, or
 * any client inside a completion function.
 *
 * Every call returns a code: 0 done; negative: the runtime could not (teff/status.h); positive: the
 * grain said no, with a code of its interface. On failure the result is untouched, and
 * teff_outcome_last tells more. A negative code may also be what the handler returned, such as one
 * that a call of its own got: it passes through.
 *
 * The deadline of a call is, in this order: the timeout given with teff_with or teff_within; the
 * row's TEFF_TIMEOUT_MS; the silo's response_timeout_ns. A call made inside a turn ends no later
 * than that turn's own deadline, unless it is detached. A timeout fires at its deadline or within
 * one sweep period (1 ms) after it, never before. So a row that awaits calls of its own needs a
 * timeout longer than theirs: else its caller has given up when it could say what is in doubt.
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
typedef struct teff_method teff_method;       /* teff/interface.h */
typedef struct teff_cancel teff_cancel;       /* teff/cancel.h */

/* Names something that ends later; a plain value. {0} names nothing. */
typedef struct teff_future {
    uint64_t id; /* its caller's own; means nothing to another */
} teff_future;

/* What became of a caller's last call. */
typedef struct teff_outcome {
    int code; /* what the call returned */

    /*
     * False: it certainly did not run, so that it can be tried again safely. True after any code of
     * a handler's; a code of `activate`'s is false, for the call did not get to a turn.
     */
    bool may_have_run;

    /* The one that failed: the callee's, or one whose failure it passed on. NULL: none is known. */
    const teff_method *method;
    const char *text; /* never NULL; "" where there is nothing to say */
} teff_outcome;

/* Zero in a member means its default. Set struct_size to sizeof(teff_call_options). */
typedef struct teff_call_options {
    size_t struct_size;  /* sizeof(teff_call_options) */
    int64_t timeout_ns;  /* from now; 0: the row's or the silo's */
    teff_cancel *cancel; /* ends the call early; borrowed until the call has been made */

    /* A deadline and a chain of its own: may outlive the turn's. Compensation needs it. */
    bool detached;

    /*
     * What firing `cancel` does to this call once it was sent. False: the call ends at once, the
     * callee is told, and no answer that it gives after that counts. True: the callee is told, and
     * its answer ends the call: TEFF_ECANCELED where the request had not begun, else what the turn
     * makes of it. The deadline holds. (Aligned, since it came later: it stands behind what used to
     * be the whole structure.)
     */
    __attribute__((aligned(8))) bool cancel_waits;

    /*
     * On which worker the grain is made, if this call is the one that makes it: its number + 1. 0:
     * as the type says. A worker that knows the way to where the grain was before does not make it:
     * then the one does that asks. Where there is no such worker the call answers TEFF_EINVAL.
     */
    __attribute__((aligned(8))) uint32_t place;
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
 *            wrong, timeout_ns is negative, or `cancel` is another silo's.
 */
TEFF_EXPORT teff_caller *teff_with(teff_caller *caller, const teff_call_options *options);

/*
 * Another timeout for the next call; what else teff_with asked for stays:
 * teff_within(teff_with(turn, &detached), t). Returns `caller`.
 *
 * Ownership: borrows nothing.
 * Threads:   the caller's.
 * Suspends:  no.
 * Errors:    of its own none: the call answers TEFF_EINVAL when `timeout_ns` is 0 or negative.
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
 *            TEFF_EWOULDBLOCK: the caller may not wait. TEFF_ECANCELED: its source has fired.
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

/*
 * Sends a request and returns at once; the future is claimed with teff_call_claim. Unclaimed ones
 * are cancelled when the turn or task returns, or the client goes; a client that lives on claims
 * each of them, or has no more than 131,072. There is always a future: where
 * the call could not be made it holds the status, and needs no memory; its claim gives the status'
 * own text, while teff_outcome_last has the reason until the next call. That of a one-way row is
 * settled when the request is sent.
 *
 * Ownership: copies *arg; takes a count of each buffer in it; borrows `to` until it returns.
 * Threads:   the caller's.
 * Suspends:  no.
 * Time:      the deadline runs from here; see the top of this file.
 * Errors:    through the claim: as teff_call. An observer's is TEFF_EWOULDBLOCK.
 */
TEFF_EXPORT teff_future teff_call_start(teff_caller *caller, teff_ref *to, const teff_interface *of,
                                        uint32_t method, const void *arg);

/*
 * Takes the answer to a call that was started, waiting for it where it is still open. Returns what
 * teff_call would have. A future is claimed once, by its caller, with the method that it was
 * started with.
 *
 * Ownership: borrows `ret` until it returns; gives the buffers in it.
 * Threads:   the caller's.
 * Suspends:  where the call is open: a turn or task; blocks a client.
 * Errors:    as teff_call. TEFF_EINVAL: no future of this caller's and of that method, or claimed
 *            already. TEFF_EWOULDBLOCK, TEFF_ELIMIT, TEFF_ENOMEM: it is open, and the caller cannot
 *            wait; it stays.
 */
TEFF_EXPORT int teff_call_claim(teff_caller *caller, teff_future future, const teff_interface *of,
                                uint32_t method, void *ret);

/*
 * Waits until all the futures are settled, of calls and of tasks; they stay to be claimed. How each
 * ended its claim tells.
 *
 * Ownership: borrows `futures` until it returns.
 * Threads:   the caller's.
 * Suspends:  where any is open: a turn or task; blocks a client.
 * Errors:    TEFF_EINVAL: one is not this caller's, or was claimed. TEFF_EWOULDBLOCK, TEFF_ELIMIT,
 *            TEFF_ENOMEM: one is open, and the caller cannot wait.
 */
TEFF_EXPORT int teff_await_all(teff_caller *caller, const teff_future *futures, size_t count);

/*
 * The same until any of them is settled: *ret_index says which, the first where there are several.
 *
 * Ownership: as teff_await_all.
 * Threads:   the caller's.
 * Suspends:  where all are open: a turn or task; blocks a client.
 * Errors:    as teff_await_all. TEFF_EINVAL: `count` is 0.
 */
TEFF_EXPORT int teff_await_any(teff_caller *caller, const teff_future *futures, size_t count,
                               size_t *ret_index);

/* A completion function of any signature; its thunk knows which. */
typedef void teff__any(void);

/* Calls `done` as what it is; the stubs' own (hello_greet_thunk). */
typedef void teff_thunk(teff__any *done, teff_caller *caller, void *user,
                        const teff_outcome *outcome, const void *ret);

/*
 * Sends a request and returns at once; `done` is called when it has ended. Non-zero: `done` is
 * never called. 0: it is called once, never inside this function:
 *
 *   of a turn       as a turn of its activation, `caller` being that turn; if the activation is
 *                   gone, with `caller` NULL and TEFF_EGONE
 *   of a task       on its worker, as a task of its own; if the task has ended, with `caller` NULL
 *                   and TEFF_EGONE
 *   of a client     on the client's loop, or in teff_client_run; at the latest when it is closed
 *   of an observer  as of its client
 *
 * `ret` is the result, or NULL where outcome->code is not 0, or the row is one way.
 *
 * Ownership: copies *arg; borrows `to` until it returns, and `user` until `done` has returned, also
 *            after a cancellation. `done` borrows `outcome` and `ret`, and is given the buffers in
 *            the result: unref them.
 * Threads:   the caller's.
 * Suspends:  no. `done` may, where its caller is a turn or task.
 * Time:      ends at its deadline; see the top of this file.
 * Errors:    as teff_call, but only what is seen here; then through `done`. TEFF_EINVAL: `thunk`
 *            or `done` is NULL.
 */
TEFF_EXPORT int teff_call_then(teff_caller *caller, teff_ref *to, const teff_interface *of,
                               uint32_t method, const void *arg, teff_thunk *thunk, teff__any *done,
                               void *user);

#endif
