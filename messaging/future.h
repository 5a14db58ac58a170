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

#include "messaging/client.h"
#include "messaging/message.h"
#include "runtime/worker.h"

#include "teff/status.h"

enum { TEFF__FUTURE_DONE = (1 << TEFF__GENERATION_SHIFT) - 1 };

/* The future of a call that ended at once with that status, 0 or negative. */
static inline uint64_t teff__future_of_status(int status)
{
    return status != 0 ? (uint64_t)-status : TEFF__FUTURE_DONE;
}

/* Whether the future is such a one, and its status. */
static inline bool teff__future_is_status(uint64_t id, int *ret_status)
{
    const bool failed = id >= (uint64_t)-TEFF_EINVAL && id <= (uint64_t)-TEFF_ESTUCK;
    if (!failed && id != TEFF__FUTURE_DONE)
        return false;
    *ret_status = failed ? -(int)id : 0;
    return true;
}

/*
 * Links a callback that was opened with TEFF__CALLBACK_FUTURE to its caller. `method` NULL: a
 * task's.
 */
TEFF__HOT_INLINE void teff__future_add(const teff__registry *registry, teff_caller *caller,
                                       uint64_t id, const teff_method *method)
{
    const uint32_t link = teff__callback_link(id);
    teff__callback_detail *detail = teff__registry_linked(registry, link);
    detail->caller = caller;
    detail->method = method;
    detail->next = caller->futures;
    detail->previous = 0;
    if (caller->futures != 0)
        teff__registry_linked(registry, caller->futures)->previous = link;
    caller->futures = link;
}

/*
 * The callback of a future of `caller` that was not claimed yet; NULL: another's, claimed before,
 * or made up.
 */
TEFF__HOT_INLINE teff__callback *teff__future_find(const teff__registry *registry,
                                                   const teff_caller *caller, uint64_t id)
{
    const teff__stripe *stripe = teff__registry_stripe(registry, id);
    /* First whose it is: the slots of another thread's stripe are not this caller's to read. */
    if (teff__caller_outside(caller) ? stripe != ((const teff__client *)caller->home)->stripe
                                     : stripe->worker != ((teff__worker *)caller->home)->index)
        return NULL;
    if ((id & (TEFF__CALLBACKS_MAX - 1)) >= teff__atomic_u32_load_relaxed(&stripe->made))
        return NULL;
    teff__callback *callback = teff__stripe_at(stripe, id);
    const uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
    if (word >> TEFF__CALLBACK_SHIFT != id >> TEFF__GENERATION_SHIFT ||
        (word & TEFF__CALLBACK_FUTURE) == 0 ||
        (word & TEFF__CALLBACK_STATE) == TEFF__CALLBACK_FREE ||
        teff__stripe_detail(stripe, id)->caller != caller)
        return NULL;
    return callback;
}

/* The id of the caller's newest unclaimed future, or 0. */
static inline uint64_t teff__future_first(const teff__registry *registry, const teff_caller *caller)
{
    if (caller->futures == 0)
        return 0;
    const uint32_t at = caller->futures - 1;
    return teff__stripe_open_id(teff__registry_stripe(registry, at),
                                at & (TEFF__CALLBACKS_MAX - 1));
}

/* Unlinks a future, whose slot is to be freed. */
TEFF__HOT_INLINE void teff__future_remove(const teff__registry *registry, teff_caller *caller,
                                          uint64_t id)
{
    const teff__callback_detail *detail = teff__registry_linked(registry, teff__callback_link(id));
    if (detail->previous != 0)
        teff__registry_linked(registry, detail->previous)->next = detail->next;
    else
        caller->futures = detail->next;
    if (detail->next != 0)
        teff__registry_linked(registry, detail->next)->previous = detail->previous;
}

/* Unlinks a settled future and frees its slot; gives its answer, or NULL and a code. */
TEFF__HOT_INLINE int teff__future_take(const teff__registry *registry, teff_caller *caller,
                                       uint64_t id, teff__message **ret_answer)
{
    teff__stripe *stripe = teff__registry_stripe(registry, id);
    teff__callback *callback = teff__stripe_at(stripe, id);
    teff_assert(teff__callback_state_of(callback) == TEFF__CALLBACK_SETTLED);
    teff__future_remove(registry, caller, id);
    *ret_answer = callback->value;
    const int code = callback->code;
    teff__stripe_free(stripe, callback);
    return code;
}

#endif
