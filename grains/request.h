/* SPDX-License-Identifier: MIT */
/*
 * Requests on their way out: the one piece of code behind every form of call and every kind of
 * caller, but for a worker's plain awaited call, which has a shorter one of its own (call.c).
 *
 *     what was asked for ─► message ─► callback open ─► under its source ─► sent
 *
 * What fails is undone, and nothing of the call is left but the caller's outcome.
 *
 * Threads: the caller's.
 */
#ifndef TEFF_GRAINS_REQUEST_H
#define TEFF_GRAINS_REQUEST_H

#include "grains/call.h"
#include "messaging/completion.h"

typedef struct teff__request {
    teff_caller *caller;
    teff_ref *to;
    const teff_interface *of;
    uint32_t number;
    const void *argument;
    bool one_way;
    /* TEFF__CALLBACK_FUTURE or _THEN, or 0: awaited. A one-way request opens no callback */
    uint32_t flags;
    void *waiter;                 /* awaited on a worker: the await */
    teff__completion *completion; /* with _THEN */
    uint64_t id;                  /* of the callback: set by send */
} teff__request;

/*
 * Sends it. Uses up the caller's options. Non-zero: noted as the caller's outcome, and the
 * completion, if any, is still the caller's.
 */
TEFF__INTERNAL int teff__request_send(teff__request *request);

/* Opens a future for a task: nothing is sent. *ret_sendable false: it is settled already. */
TEFF__INTERNAL int teff__request_future(teff_caller *caller, uint64_t *ret_id, bool *ret_sendable);

#endif
