/* SPDX-License-Identifier: MIT */
/*
 * Futures: callbacks whose result stays in its slot until the caller claims it.
 *
 * A caller's unclaimed futures are linked through their slots' details, so that a turn that ends can
 * cancel what it left behind.
 *
 * A call that could not be made has a future too: its id is the status, below all ids of slots,
 * whose generation is never 0. That of a one-way call is `done` in the same way. Such a future
 * belongs to whoever holds it, and can be claimed again and again.
 *
 * Threads: the owner of the stripe, which is the one that runs the caller.
 */
#ifndef TEFF_MESSAGING_FUTURE_H
#define TEFF_MESSAGING_FUTURE_H

#include "messaging/caller.h"
#include "messaging/message.h"

enum { TEFF__FUTURE_DONE = (1 << TEFF__GENERATION_SHIFT) - 1 };

/* The future of a call that ended at once with that status, 0 or negative. */
static inline uint64_t teff__future_of_status(int status)
{
    return status != 0 ? (uint64_t)-status : TEFF__FUTURE_DONE;
}

/* Whether the future is such a one, and its status. */
static inline bool teff__future_is_status(uint64_t id, int *ret_status)
{
    if (id == 0 || id > TEFF__FUTURE_DONE)
        return false;
    *ret_status = id != TEFF__FUTURE_DONE ? -(int)id : 0;
    return true;
}

/*
 * Links a callback that was opened with TEFF__CALLBACK_FUTURE to its caller. `method` NULL: a
 * task's.
 */
TEFF__INTERNAL void teff__future_add(const teff__registry *registry, teff_caller *caller,
                                     uint64_t id, const teff_method *method);

/*
 * The callback of a future of `caller` that was not claimed yet; NULL: another's, claimed before,
 * or made up.
 */
TEFF__INTERNAL teff__callback *teff__future_find(const teff__registry *registry,
                                                 const teff_caller *caller, uint64_t id);

/* The id of the caller's newest unclaimed future, or 0. */
TEFF__INTERNAL uint64_t teff__future_first(const teff__registry *registry,
                                           const teff_caller *caller);

/* Unlinks a future, whose slot is to be freed. */
TEFF__INTERNAL void teff__future_remove(const teff__registry *registry, teff_caller *caller,
                                        uint64_t id);

/* Unlinks a settled future and frees its slot; gives its answer, or NULL and a code. */
TEFF__INTERNAL int teff__future_take(const teff__registry *registry, teff_caller *caller,
                                     uint64_t id, teff__message **ret_answer);

#endif
