/* SPDX-License-Identifier: MIT */
/*
 * Whoever may call: the part that turns, tasks and clients have in common, first in each of their
 * structures.
 *
 * Threads: the one that runs the caller.
 */
#ifndef TEFF_MESSAGING_CALLER_H
#define TEFF_MESSAGING_CALLER_H

#include "messaging/registry.h"
#include "runtime/clock.h"

#include "teff/call.h"
#include "teff/interface.h"
#include "teff/silo.h"

typedef enum teff__caller_kind {
    TEFF__CALLER_TURN = 1,
    TEFF__CALLER_TASK,
    TEFF__CALLER_CLIENT,
    TEFF__CALLER_OBSERVER /* a turn of a client's observer */
} teff__caller_kind;

enum {
    /* of a failure, with its NUL: a line; what a message has room for may be less */
    TEFF__TEXT_MAX = 256,

    TEFF__NEXT_TIMEOUT = 1, /* what teff_with and teff_within ask of the next call */
    TEFF__NEXT_DETACHED = 2,
    TEFF__NEXT_CANCEL = 4,
    TEFF__NEXT_INVALID = 8,
    TEFF__NEXT_WAITS = 16, /* with TEFF__NEXT_CANCEL: for the callee's answer */
    TEFF__NEXT_PLACE = 32
};

struct teff_caller {
    uint8_t kind;
    uint8_t next;   /* TEFF__NEXT_…: options that wait for the next call */
    uint16_t place; /* with TEFF__NEXT_PLACE. Zeroed with its neighbours, by one store */
    /* the newest unclaimed future's slot + 1, or 0; a list through the slots' links */
    uint32_t futures;
    int64_t next_timeout_ns;   /* with TEFF__NEXT_TIMEOUT */
    teff_cancel *next_cancel;  /* with TEFF__NEXT_CANCEL; borrowed */
    int64_t deadline_ns;       /* of the turn; INT64_MAX for tasks and clients */
    void *home;                /* turn, task: the catalog of its worker; else the client */
    teff_outcome outcome;      /* complete where its code is not 0 */
    char text[TEFF__TEXT_MAX]; /* of the outcome, where it came with an answer; not initialised */
};

static inline void teff__caller_init(teff_caller *caller, teff__caller_kind kind, void *home,
                                     int64_t deadline_ns)
{
    caller->kind = (uint8_t)kind;
    caller->next = 0;
    caller->place = 0;
    caller->futures = 0;
    caller->deadline_ns = deadline_ns;
    caller->home = home;
    caller->outcome.code = 0;
    caller->outcome.method = NULL;
}

/* Whether it is a client's thread that runs the caller, not a worker. */
static inline bool teff__caller_outside(const teff_caller *caller)
{
    return caller->kind >= TEFF__CALLER_CLIENT;
}

/*
 * Notes that the last call ended well; the rest of the outcome is filled in when somebody asks for
 * it.
 */
static inline int teff__caller_succeed(teff_caller *caller, const teff_method *method)
{
    caller->outcome.code = 0;
    caller->outcome.method = method;
    return 0;
}

/*
 * Notes how the last call failed and returns the code. `text` NULL: the status' own. Static, or
 * caller->text.
 */
TEFF__INTERNAL int teff__caller_fail(teff_caller *caller, int code, bool may_have_run,
                                     const teff_method *method, const char *text);

/* The same with a text that does not last: copies it. */
TEFF__INTERNAL int teff__caller_fail_copy(teff_caller *caller, int code, bool may_have_run,
                                          const teff_method *method, const char *text);

/* What the silo decides for the calls of its callers: a worker's copy, or a client's. */
typedef struct teff__call_defaults {
    int64_t response_timeout_ns;
    const teff__clock *clock;
} teff__call_defaults;

/*
 * The deadline of the caller's next call to `method`; uses up the options that waited for it.
 * *ret_flags says whether its timeout is the silo's, and whether it outlives the caller's turn then;
 * TEFF_EINVAL where the options were invalid.
 * `now_ns` is a cached time: a timeout below 100 ms that somebody asked for reads the clock
 * instead.
 */
TEFF__INTERNAL int teff__caller_deadline(teff_caller *caller, const teff_method *method,
                                         int64_t now_ns, const teff__call_defaults *defaults,
                                         int64_t *ret_deadline_ns, uint32_t *ret_flags);

/*
 * Whether the caller's next call to `method` is a plain one: nothing was asked for with teff_with,
 * and the row has neither a timeout nor buffers, nor is it one way.
 */
static inline bool teff__caller_plain(const teff_caller *caller, const teff_method *method)
{
    return caller->next == 0 &&
           (method->options & ~(uint64_t)(TEFF_READ_ONLY | TEFF_INTERLEAVE)) == 0;
}

/* The same, but for buffers. */
static inline bool teff__caller_plain_bytes(const teff_caller *caller, const teff_method *method)
{
    return caller->next == 0 && (method->options & ~(TEFF_READ_ONLY | TEFF_INTERLEAVE |
                                                     TEFF_ARG_BYTES(15) | TEFF_RET_BYTES(15))) == 0;
}

/* The deadline of a plain call, whose timeout is the silo's: TEFF__CALLBACK_DEFAULT. */
static inline int64_t teff__caller_deadline_plain(const teff_caller *caller, int64_t now_ns,
                                                  const teff__call_defaults *defaults)
{
    const int64_t deadline_ns = now_ns + defaults->response_timeout_ns;
    return deadline_ns <= caller->deadline_ns ? deadline_ns : caller->deadline_ns;
}

#endif
