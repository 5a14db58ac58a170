/* SPDX-License-Identifier: MIT */
/*
 * Cancellation: a source that a program keeps for something that may end early, such as a
 * connection, and that it gives to the calls made for it (teff_call_options). Fired, it ends all of
 * them that are still open, once, with TEFF_ECANCELED, and every later one before it is sent. What
 * was sent knows of it too: a request that waits for its turn never runs, and a turn that runs sees
 * the source that its request was sent under (teff_turn_cancel), and may act on it.
 *
 *     const teff_call_options options = { .struct_size = sizeof(options), .cancel = it->gone };
 *     r = counter_add_then(teff_with(client, &options), &counter, &step, on_added, it);
 *
 * A turn that runs is told, not stopped: it may still do all that it was asked for, so the outcome
 * says that the call may have run. With `cancel_waits` the caller goes on waiting for what the turn
 * makes of it. Firing never activates a grain. A source stays fired; finished calls leave nothing
 * behind in it. Like a buffer it belongs to its silo and is freed before that.
 */
#ifndef TEFF_CANCEL_H
#define TEFF_CANCEL_H

#include "teff/export.h"
#include "teff/silo.h"

#include <stdbool.h>

/* A source, known by its pointer. */
typedef struct teff_cancel teff_cancel;

/*
 * Makes a source that has not fired.
 *
 * Ownership: gives a count, free with teff_cancel_unref.
 * Threads:   any.
 * Errors:    TEFF_EINVAL: an argument is NULL. TEFF_EINVALIDSTATE: in a child that forked.
 *            TEFF_ENOMEM.
 */
TEFF_EXPORT int teff_cancel_create(teff_silo *silo, teff_cancel **ret);

/*
 * Fires a source; a second time does nothing, nor does NULL. No function of the program's runs inside
 * it: its open calls end a moment later, each once, with TEFF_ECANCELED or with an answer that came
 * first; and a moment later turns that serve such calls are told.
 *
 * Threads:  any that holds a count.
 * Suspends: no.
 */
TEFF_EXPORT void teff_cancel_fire(teff_cancel *cancel);

/*
 * Whether it has fired. False for NULL. True never becomes false again; what this thread did before
 * it fired the source is seen by whoever sees true.
 *
 * Threads:  any that holds a count, and that of a turn whose source it is.
 * Suspends: no.
 */
TEFF_EXPORT bool teff_cancel_fired(const teff_cancel *cancel);

/*
 * Takes one more count, for one more holder, and returns `cancel`. NULL is allowed.
 *
 * Ownership: gives a count, free with teff_cancel_unref.
 * Threads:   any that holds a count.
 */
TEFF_EXPORT teff_cancel *teff_cancel_ref(teff_cancel *cancel);

/*
 * Gives a count back. Calls under the source go on, and can then not be cancelled any more, except
 * through a turn's (teff_turn_cancel). NULL is allowed. Returns NULL.
 *
 * Ownership: takes a count.
 * Threads:   any.
 */
TEFF_EXPORT teff_cancel *teff_cancel_unref(teff_cancel *cancel);

#endif
