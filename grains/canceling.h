/* SPDX-License-Identifier: MIT */
/*
 * What the callee knows of a cancellation: requests that were sent under a source, in the mailboxes
 * and turns of a worker.
 *
 *     taken in ─► queued ─► running ─► answered
 *        │          │          └ fired: its sleep ends, its functions run as an item of their own
 *        │          └ fired: answered at once, also behind a turn that is suspended; never runs
 *        └ fired: not taken in
 *
 * See messaging/cancel.h for how requests and sources are linked. Nothing here runs for a request
 * without one.
 *
 * Threads: the worker's.
 */
#ifndef TEFF_GRAINS_CANCELING_H
#define TEFF_GRAINS_CANCELING_H

#include "grains/catalog.h"
#include "grains/turn.h"

/*
 * Puts a request that was sent under a source into the mailbox. TEFF_EOVERLOADED; TEFF_ECANCELED
 * where it has fired: an activation that was made for this request alone then goes again without
 * having run. The message is then still the caller's.
 */
TEFF__INTERNAL int teff__canceling_deliver(teff__catalog *catalog, teff__activation *activation,
                                           teff__message *message);

/* A source has fired: deals with this worker's branch, whose message this is. */
TEFF__INTERNAL void teff__canceling_fired(teff__catalog *catalog, teff__message *message);

/* The turn is to run a request that carries a source. False: that has fired, and it must not run. */
TEFF__INTERNAL bool teff__canceling_begin(teff__turn *turn, teff__message *message, void *result);

/*
 * It has run, and its handler returned `code`. Gives the code of the answer: TEFF_ECANCELED where the
 * source has fired and its caller does not wait for what the turn makes of it. That caller is being
 * told so, and must not hear of anything that the turn did for the same reason before that.
 */
TEFF__INTERNAL int teff__canceling_end(teff__turn *turn, int code);

/* The turn of a grain whose request carries a source, or NULL. */
static inline teff__turn *teff__canceling_turn(teff_caller *caller)
{
    teff__turn *turn = (teff__turn *)(void *)caller;
    return caller->kind == TEFF__CALLER_TURN && turn->request != NULL &&
                   (turn->request->held & TEFF__HELD_SOURCE) != 0
               ? turn
               : NULL;
}

#endif
