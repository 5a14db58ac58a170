/* SPDX-License-Identifier: MIT */
/*
 * The list of a caller's unclaimed futures: doubly linked by the low 24 bits of their ids, plus
 * one.
 */
#include "messaging/future.h"

#include "runtime/worker.h"

enum { SLOT_MASK = (1 << TEFF__GENERATION_SHIFT) - 1 };

/* The callback that a link names. */
static teff__callback *linked(const teff__registry *registry, uint32_t link)
{
    return teff__stripe_at(teff__registry_stripe(registry, link - 1), link - 1);
}

/*
 * Tells a claim by the wrong caller from one by the right: pointers that are shifted cannot meet
 * within 64 GiB.
 */
static uint32_t tag(const teff_caller *caller)
{
    return (uint32_t)((uintptr_t)caller >> 4);
}

void teff__future_add(const teff__registry *registry, teff_caller *caller, uint64_t id)
{
    const uint32_t link = ((uint32_t)id & SLOT_MASK) + 1;
    teff__callback *callback = linked(registry, link);
    callback->next = caller->futures;
    callback->previous = 0;
    if (caller->futures != 0)
        linked(registry, caller->futures)->previous = link;
    caller->futures = link;
    if (caller->kind != TEFF__CALLER_CLIENT) /* a client's stripe is all its own */
        callback->done = tag(caller);
}

teff__callback *teff__future_find(const teff__registry *registry, const teff_caller *caller,
                                  uint64_t id)
{
    const teff__stripe *stripe = teff__registry_stripe(registry, id);
    if ((id & (TEFF__CALLBACKS_MAX - 1)) >= teff__atomic_u32_load_acquire(&stripe->made))
        return NULL;
    /* First whose it is: the slots of another thread's stripe are not this caller's to read. */
    if (caller->kind == TEFF__CALLER_CLIENT
            ? stripe->owner != caller
            : stripe->worker != ((teff__worker *)caller->home)->index)
        return NULL;
    teff__callback *callback = teff__stripe_at(stripe, id);
    const uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
    if (word >> TEFF__CALLBACK_SHIFT != id >> TEFF__GENERATION_SHIFT ||
        (word & TEFF__CALLBACK_FUTURE) == 0 ||
        (word & TEFF__CALLBACK_STATE) == TEFF__CALLBACK_FREE ||
        (caller->kind != TEFF__CALLER_CLIENT && callback->done != tag(caller)))
        return NULL;
    return callback;
}

uint64_t teff__future_first(const teff__registry *registry, const teff_caller *caller)
{
    if (caller->futures == 0)
        return 0;
    const teff__callback *callback = linked(registry, caller->futures);
    return (teff__atomic_u64_load_relaxed(&callback->word) >> TEFF__CALLBACK_SHIFT)
               << TEFF__GENERATION_SHIFT |
           (caller->futures - 1);
}

int teff__future_take(const teff__registry *registry, teff_caller *caller, uint64_t id,
                      teff__message **ret_answer)
{
    teff__stripe *stripe = teff__registry_stripe(registry, id);
    teff__callback *callback = teff__stripe_at(stripe, id);
    const uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
    teff_assert((word & TEFF__CALLBACK_STATE) == TEFF__CALLBACK_SETTLED);
    if (callback->previous != 0)
        linked(registry, callback->previous)->next = callback->next;
    else
        caller->futures = callback->next;
    if (callback->next != 0)
        linked(registry, callback->next)->previous = callback->previous;
    *ret_answer = callback->value;
    const int code = callback->code;
    teff__stripe_free(stripe, callback);
    return code;
}
