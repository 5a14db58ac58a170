/* SPDX-License-Identifier: MIT */
/*
 * Cancellation: a source that a program keeps for something that may end early, such as a
 * connection, and that it gives to the calls made for it (teff_call_options). Fired, it ends all of
 * them that are still open, once, with TEFF_ECANCELED, and every later one before it is sent.
 *
 *     const teff_call_options options = { .struct_size = sizeof(options), .cancel = it->gone };
 *     r = counter_add_then(teff_with(client, &options), &counter, &step, on_added, it);
 *
 * It ends the waiting only: a request that was sent may still run, which the outcome says. A source
 * stays fired; finished calls leave nothing behind in it. Like a buffer it belongs to its silo and
 * is freed before that.
 */
#ifndef TEFF_CANCEL_H
#define TEFF_CANCEL_H

#include "teff/export.h"
#include "teff/silo.h"

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
 * Fires a source; a second time does nothing, nor does NULL. No completion function runs inside it:
 * its open calls end a moment later, each once, with TEFF_ECANCELED or with an answer that came
 * first.
 *
 * Threads:  any that holds a count.
 * Suspends: no.
 */
TEFF_EXPORT void teff_cancel_fire(teff_cancel *cancel);

/*
 * Takes one more count, for one more holder, and returns `cancel`. NULL is allowed.
 *
 * Ownership: gives a count, free with teff_cancel_unref.
 * Threads:   any that holds a count.
 */
TEFF_EXPORT teff_cancel *teff_cancel_ref(teff_cancel *cancel);

/*
 * Gives a count back. Calls under the source go on, and can then not be cancelled any more. NULL is
 * allowed. Returns NULL.
 *
 * Ownership: takes a count.
 * Threads:   any.
 */
TEFF_EXPORT teff_cancel *teff_cancel_unref(teff_cancel *cancel);

#endif
