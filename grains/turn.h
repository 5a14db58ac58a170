/* SPDX-License-Identifier: MIT */
/*
 * A turn: one request of one activation, or one of its hooks, on a worker's fiber; or one request to
 * an observer, on its client's thread.
 *
 *     queued ─► running ◄─► suspended ─► ended
 *
 * Its structure stands in the frame of whoever runs it, and with it on a fiber where the turn
 * suspends.
 *
 * Threads: its activation's worker, or the client's.
 */
#ifndef TEFF_GRAINS_TURN_H
#define TEFF_GRAINS_TURN_H

#include "grains/catalog.h"
#include "messaging/client.h"

#include "teff/turn.h"

/* Something to be given back when the turn ends, or when its stack is dropped. */
typedef struct teff__turn_block {
    struct teff__turn_block *next; /* of the same turn */
    teff__ring ring;               /* of the catalog, should the turn never end */
    size_t bytes;                  /* of teff_turn_alloc; 0: what `message` holds */
    teff__message *message;        /* the turn's request */
} teff__turn_block;

/* Whether a turn is a hook's, and if so whether that is within its limit; see grains/hook.h. */
typedef enum teff__turn_hook {
    TEFF__HOOK_NONE,
    TEFF__HOOK_IN_TIME,
    TEFF__HOOK_OVER
} teff__turn_hook;

typedef struct teff__turn {
    teff_caller caller; /* first: the public pointer is this one */
    union {
        teff__activation *activation;
        const teff_ref *observer; /* a reference to it */
    };
    const teff__message *request; /* NULL: of a hook, or of a completion */
    teff__turn_block *blocks;     /* newest first */
    /* of a request with buffers or a source: the one that gives these back */
    teff__turn_block held;
    /* of a request with a source, else not initialised: */
    struct teff__canceling *canceling; /* functions to run when it fires, or NULL */
    struct teff__sleeper *sleeper;     /* the sleep that it ends, or NULL; a hook has that, too */
    void *result;                      /* the handler's */
    int failed;                        /* the code that `text` and `origin` belong to; 0: none */
    uint32_t hook;                     /* teff__turn_hook */
    const teff_method *origin;         /* whose failure it was; with `failed` only */
    char text[TEFF__TEXT_MAX];         /* not initialised */
} teff__turn;

static inline void teff__turn_begin(teff__turn *turn, teff__catalog *catalog,
                                    teff__activation *activation, const teff__message *request,
                                    int64_t deadline_ns)
{
    teff__caller_init(&turn->caller, TEFF__CALLER_TURN, catalog, deadline_ns);
    turn->activation = activation;
    turn->request = request;
    turn->blocks = NULL;
    turn->failed = 0;
    turn->hook = TEFF__HOOK_NONE;
}

static inline void teff__turn_begin_observer(teff__turn *turn, teff__client *client,
                                             const teff_ref *observer, const teff__message *request,
                                             int64_t deadline_ns)
{
    teff__caller_init(&turn->caller, TEFF__CALLER_OBSERVER, client, deadline_ns);
    turn->observer = observer;
    turn->request = request;
    turn->blocks = NULL;
    turn->failed = 0;
    turn->hook = TEFF__HOOK_NONE;
}

/*
 * The method of the request has buffers, or it was sent under a source: the turn gives back the
 * argument's when it ends and notes the result's, and leaves the source. False: that has fired, and
 * the request must not run.
 */
TEFF__INTERNAL bool teff__turn_hold(teff__turn *turn, teff__message *message, void *result);

/*
 * Frees what the turn allocated and held, and cancels its unclaimed futures. `code`: of its handler.
 * Gives the code of the answer: another one where the request's source has fired.
 */
TEFF__INTERNAL int teff__turn_end_slow(teff__turn *turn, int code);

static inline int teff__turn_end(teff__turn *turn, int code)
{
    return TEFF__UNLIKELY(turn->blocks != NULL || turn->caller.futures != 0)
               ? teff__turn_end_slow(turn, code)
               : code;
}

/* The text that goes with a failure of that code, or NULL. */
static inline const char *teff__turn_text(const teff__turn *turn, int code)
{
    return turn->failed == code ? turn->text : NULL;
}

/* Makes a message the answer of a handler that failed. Its argument is dead by now. */
TEFF__INTERNAL void teff__turn_answer_failure(const teff__turn *turn, teff__message *message,
                                              int code);

/* Runs a request that was taken out of the mailbox, and answers it. */
TEFF__INTERNAL void teff__turn_run(teff__catalog *catalog, teff__activation *activation,
                                   teff__message *message);

/* Frees what turns allocated and held whose stacks were dropped. */
TEFF__INTERNAL void teff__turns_drop(teff__catalog *catalog);

/* Cancels an unclaimed future of a turn or task; all of one that ends. */
TEFF__INTERNAL void teff__caller_drop_future(teff__catalog *catalog, teff_caller *caller,
                                             uint64_t id);
TEFF__INTERNAL void teff__caller_drop_futures(teff__catalog *catalog, teff_caller *caller);

#endif
