/* SPDX-License-Identifier: MIT */
/*
 * Futures: callbacks whose result stays in its slot until the caller claims it.
 *
 * A caller's unclaimed futures are linked through their slots, by the 24 bits of the id that do not
 * change, so that a turn that ends can cancel what it left behind.
 *
 * Threads: the owner of the stripe, which is the one that runs the caller.
 */
#ifndef TEFF_MESSAGING_FUTURE_H
#define TEFF_MESSAGING_FUTURE_H

#include "messaging/caller.h"
#include "messaging/message.h"

/* Links a callback that was opened with TEFF__CALLBACK_FUTURE to its caller. */
TEFF__INTERNAL void teff__future_add(const teff__registry *registry, teff_caller *caller,
                                     uint64_t id);

/*
 * The callback of a future of `caller` that was not claimed yet; NULL: another's, claimed before,
 * or made up.
 */
TEFF__INTERNAL teff__callback *teff__future_find(const teff__registry *registry,
                                                 const teff_caller *caller, uint64_t id);

/* The id of the caller's newest unclaimed future, or 0. */
TEFF__INTERNAL uint64_t teff__future_first(const teff__registry *registry,
                                           const teff_caller *caller);

/* Unlinks a settled future and frees its slot; gives its answer, or NULL and a code. */
TEFF__INTERNAL int teff__future_take(const teff__registry *registry, teff_caller *caller,
                                     uint64_t id, teff__message **ret_answer);

#endif
