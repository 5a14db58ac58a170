/* SPDX-License-Identifier: MIT */
/*
 * Resolving: where a grain is, or is to be, when neither a hint nor a route says so.
 *
 *     find ─► registered: there            an address of this worker that is dead: as none
 *        └──► none ─► placed elsewhere: there, to be made when the message arrives
 *                └──► made here ─► enter ─► valid here
 *                                      └──► another was quicker: there
 *
 * Where the locator needs time (directory/locator.h) the message waits at the grain's route, and so
 * does what comes for the grain meanwhile; all of it goes on in order once the answer is there. What
 * was made and was not the first never runs.
 *
 * Threads: the worker's.
 */
#ifndef TEFF_GRAINS_RESOLVE_H
#define TEFF_GRAINS_RESOLVE_H

#include "grains/catalog.h"

/* Which grain; all of it borrowed. */
typedef struct teff__grain_id {
    const teff__type *type;
    const teff_key *key;
    uint64_t hash;
} teff__grain_id;

/* How its activation is to be placed. */
typedef enum teff__resolve_at {
    TEFF__RESOLVE_PLACED, /* as placement says: here it is routed first */
    TEFF__RESOLVE_HERE,   /* on this worker: somebody placed it */
    TEFF__RESOLVE_FOUND   /* nowhere: only an activation that there is */
} teff__resolve_at;

/*
 * Resolves a grain for `message`. *ret_address: of the activation, or of a worker without one; 0:
 * there is none, and none was wanted. TEFF__LOCATOR_LATER: the message was taken, and waits. Else
 * an error of teff__activation_create's or of the locator's.
 */
TEFF__INTERNAL int teff__resolve(teff__catalog *catalog, const teff__grain_id *id,
                                 teff__message *message, teff__resolve_at at,
                                 uint64_t *ret_address);

/*
 * An activation that has another address than `previous`, by which it was registered, and waits to
 * be so by its own: its mail waits at a route meanwhile. TEFF_ENOMEM, TEFF_ELIMIT.
 */
TEFF__INTERNAL int teff__resolve_again(teff__catalog *catalog, teff__activation *activation,
                                       uint64_t previous);

/* An activation goes, and is registered no more. */
TEFF__INTERNAL void teff__resolve_leave(teff__catalog *catalog, teff__activation *activation);

/* An answer of the locator; takes it. */
TEFF__INTERNAL void teff__resolve_answered(teff__catalog *catalog, teff__message *message);

#endif
