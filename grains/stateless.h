/* SPDX-License-Identifier: MIT */
/*
 * Stateless workers: grains that may have several activations at once, and none of their own.
 *
 *     silo      a *crew* for each such grain that has any activation: how many, and where
 *     worker    its *shift*: the members that are this worker's
 *     member    an activation like any other, but in no directory
 *
 * A request gets an idle member of this worker's; or else a new one, while the crew may have more;
 * or else the one of this worker's with the least mail. Where the worker has none and may make none,
 * the request goes to a worker that has one, which does the same. Members come and go under the
 * crews' lock, so there are never more than the type allows. A crew goes with its last member: what
 * is under way, and references, name the grain alone, and no route or hint leads to a member.
 *
 * Threads: the worker's; crews are shared, and locked.
 */
#ifndef TEFF_GRAINS_STATELESS_H
#define TEFF_GRAINS_STATELESS_H

#include "grains/catalog.h"

TEFF__INTERNAL void teff__crews_init(teff__crews *crews);
TEFF__INTERNAL void teff__crews_finish(teff__crews *crews, teff__memory *memory);

/*
 * Who is to have a request: *ret_member of this worker, or NULL and *ret_worker. TEFF_ENOMEM,
 * TEFF_ELIMIT, TEFF_EUNAVAILABLE: there is nobody, and nobody can be made.
 */
TEFF__INTERNAL int teff__stateless_choose(teff__catalog *catalog, const teff__type *type,
                                          const teff_key *key, uint64_t hash,
                                          teff__activation **ret_member, uint32_t *ret_worker);

/* A member goes: it is about to be freed. */
TEFF__INTERNAL void teff__stateless_leave(teff__catalog *catalog, teff__activation *activation);

/* A run of a member. */
TEFF__INTERNAL void teff__stateless_run(teff__worker *worker, teff__item *item);

#endif
