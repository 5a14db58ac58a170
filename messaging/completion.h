/* SPDX-License-Identifier: MIT */
/*
 * Completions: what is left of a call that was made with a completion function, while it is open and
 * until that function has run.
 *
 *     open ─► settled: has its answer or code ─► run: `done` is called once, and all is dropped
 *
 * A completion is a message of the smallest class, from its caller's own pools, so that it can wait
 * in a mailbox like a request and goes home like one. Its slot's detail names it while it is open.
 *
 * Threads: the caller's worker, or its client's thread.
 */
#ifndef TEFF_MESSAGING_COMPLETION_H
#define TEFF_MESSAGING_COMPLETION_H

#include "messaging/caller.h"
#include "messaging/message.h"
#include "runtime/worker.h"

typedef struct teff__completion {
    teff__message
        message; /* address: the activation whose turn it is to be; code: without answer */
    teff__message *answer;
    teff_thunk *thunk;
    teff__any *done;
    void *user;
    const teff_method *method;
    teff__ring ring;     /* of the worker's or client's completions, until it has run */
    teff__item item;     /* on a worker's run queue, where it has no mailbox to wait in … */
    void *prefetched[2]; /* … and what stands behind every item */
    void *life;          /* of the task that made it; see grains/task.c */
    bool begun;          /* `done` has been called */
} teff__completion;

_Static_assert(sizeof(teff__completion) <= TEFF__MESSAGE_SMALL, "it is a message of that class");

static inline teff__completion *teff__completion_of(teff__message *message)
{
    return (teff__completion *)(void *)message;
}

/* From the postbox of whoever opens the call; NULL: no memory. */
TEFF__INTERNAL teff__completion *teff__completion_take(teff__postbox *postbox, teff_thunk *thunk,
                                                       teff__any *done, void *user,
                                                       const teff_method *method);

/*
 * Calls `done`, once, and drops answer and completion. `caller` NULL: whoever it was for is gone,
 * and it hears TEFF_EGONE.
 */
TEFF__INTERNAL void teff__completion_run(teff__completion *completion, teff__postbox *postbox,
                                         teff_caller *caller);

#endif
