/* SPDX-License-Identifier: MIT */
/*
 * Abandoning: giving up an activation whose turn, or hook, waits for something that does not come.
 * One that runs cannot be given up: its worker is busy with it.
 *
 *   activate, over its limit      unregistered; what waits for it is TEFF_ECANCELED, and the next
 *                                 call tries again
 *   deactivate, over its limit    replaced by another activation, which gets the mail
 *   a turn, after stuck_ns        replaced likewise; and the turn's caller gets TEFF_ESTUCK
 *
 * The one that is abandoned has no address any more and no place in the directory: nothing reaches
 * it. Its memory and the turn's stack are kept until the turn ends; what that answers then is late
 * and dropped. It may call, sleep, and whatever else meanwhile. Its completions run alone
 * (grains/complete.h).
 *
 * What is stuck is found by a look (grains/long_call.h): at the turns that are suspended, by the
 * coarse time at which their activations were last used. No call pays for it, and nothing that is
 * idle is looked at. Where memory is short for what takes its place, or for the answer to its
 * caller, an activation stays as it is until the next look.
 *
 * Threads: the worker's.
 */
#ifndef TEFF_GRAINS_ABANDON_H
#define TEFF_GRAINS_ABANDON_H

#include "grains/waiting.h"

/* What those are told who waited for an activation. */
extern TEFF__INTERNAL const char teff__activate_over[];

/* A hook of the activation is suspended, and its limit is over. */
TEFF__INTERNAL void teff__abandon_hook(teff__catalog *catalog, teff__activation *activation);

/* The last turn of an abandoned activation has ended: frees it. */
TEFF__INTERNAL void teff__abandoned_end(teff__catalog *catalog, teff__activation *activation);

/* Frees those whose stacks were dropped. */
TEFF__INTERNAL void teff__abandoned_drop(teff__catalog *catalog);

/* A look for stuck turns; part of one for long calls. */
typedef struct teff__stuck {
    teff__catalog *catalog;
    teff__queue answers; /* to be sent once the walk is over: it must not settle anything */
    int64_t next_ns;     /* when the first turn will be stuck; INT64_MAX: none */
} teff__stuck;

TEFF__INTERNAL void teff__stuck_begin(teff__stuck *stuck, teff__catalog *catalog);

/* Looks at one that waits, and abandons its activation where it is time. */
TEFF__INTERNAL void teff__stuck_consider(teff__stuck *stuck, const teff__waiting *waiting);

/* The walk is over: answers the callers. */
TEFF__INTERNAL void teff__stuck_end(teff__stuck *stuck);

#endif
