/* SPDX-License-Identifier: MIT */
/*
 * The list of a caller's unclaimed futures.
 */
#include "messaging/future.h"

#include "messaging/client.h"
#include "runtime/worker.h"

void teff__future_add(const teff__registry *registry, teff_caller *caller, uint64_t id,
                      const teff_method *method)
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

teff__callback *teff__future_find(const teff__registry *registry, const teff_caller *caller,
                                  uint64_t id)
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

uint64_t teff__future_first(const teff__registry *registry, const teff_caller *caller)
{
    if (caller->futures == 0)
        return 0;
    const uint32_t at = caller->futures - 1;
    return teff__stripe_open_id(teff__registry_stripe(registry, at),
                                at & (TEFF__CALLBACKS_MAX - 1));
}

void teff__future_remove(const teff__registry *registry, teff_caller *caller, uint64_t id)
{
    const teff__callback_detail *detail = teff__registry_linked(registry, teff__callback_link(id));
    if (detail->previous != 0)
        teff__registry_linked(registry, detail->previous)->next = detail->next;
    else
        caller->futures = detail->next;
    if (detail->next != 0)
        teff__registry_linked(registry, detail->next)->previous = detail->previous;
}

int teff__future_take(const teff__registry *registry, teff_caller *caller, uint64_t id,
                      teff__message **ret_answer)
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
