/* SPDX-License-Identifier: MIT */
/*
 * How a worker learns that the silo's response timeout has changed: by a message, one for each
 * worker, which is posted where it is not under way already. See messaging/deadline.h.
 *
 * The silo sets the word, and then looks whether the message is posted; the worker says that it is
 * not, and then looks at the word: all four seq_cst. So the last word reaches every worker, however
 * quickly one follows another.
 */
#ifndef TEFF_GRAINS_TIMEOUT_H
#define TEFF_GRAINS_TIMEOUT_H

#include "grains/catalog.h"

/*
 * Sets the response timeout of calls to come, and of those in flight that have the silo's. Any
 * thread, with the silo's lock held; the silo runs.
 */
TEFF__INTERNAL void teff__timeout_set(teff__grains *grains, int64_t timeout_ns);

/* A worker has been told. */
TEFF__INTERNAL void teff__timeout_told(teff__catalog *catalog);

/*
 * Once a pass: up to which deadline its requests are looked at more closely before they get a turn.
 */
static inline void teff__timeout_pass(teff__catalog *catalog)
{
    const int64_t now_ns = catalog->worker.now_ns;
    catalog->doubt_ns = now_ns > catalog->moved_ns ? now_ns : catalog->moved_ns;
}

#endif
