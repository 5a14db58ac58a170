/* SPDX-License-Identifier: MIT */
#include "messaging/deadline.h"

#include "messaging/completion.h"

/* The end of the turn that made an open call. */
static int64_t bound_of(const teff__stripe *stripe, uint32_t slot, uint64_t word,
                        int64_t (*bound_ns)(const void *waiter))
{
    if (word & TEFF__CALLBACK_DETACHED)
        return INT64_MAX;
    if (word & TEFF__CALLBACK_FUTURE)
        return teff__stripe_detail(stripe, slot)->caller->deadline_ns;
    if (word & TEFF__CALLBACK_THEN)
        return teff__stripe_detail(stripe, slot)->completion->message.deadline_ns;
    return bound_ns != NULL ? bound_ns(stripe->callbacks[slot].value) : INT64_MAX;
}

void teff__stripe_move_deadlines(teff__stripe *stripe, int64_t timeout_ns,
                                 int64_t (*bound_ns)(const void *waiter))
{
    enum { MOVES = TEFF__CALLBACK_DEFAULT | TEFF__CALLBACK_OPEN };
    const uint32_t made = teff__atomic_u32_load_relaxed(&stripe->made);
    int64_t low_ns = INT64_MAX;
    for (uint32_t slot = 0; slot < made; slot++) {
        teff__atomic_i64 *deadline = &stripe->columns->deadline_ns[slot];
        int64_t deadline_ns = teff__atomic_i64_load_relaxed(deadline);
        const uint64_t word = teff__atomic_u64_load_relaxed(&stripe->callbacks[slot].word);
        if ((word & (TEFF__CALLBACK_DEFAULT | TEFF__CALLBACK_STATE)) == MOVES) {
            const int64_t end_ns = bound_of(stripe, slot, word, bound_ns);
            deadline_ns = teff__time_add(
                teff__atomic_i64_load_relaxed(&stripe->columns->opened_ns[slot]), timeout_ns);
            if (deadline_ns > end_ns)
                deadline_ns = end_ns;
            teff__atomic_i64_store_relaxed(deadline, deadline_ns);
        }
        if (deadline_ns < low_ns)
            low_ns = deadline_ns;
    }
    stripe->low_ns = low_ns;
}

bool teff__message_expired(const teff__registry *registry, teff__message *message, int64_t now_ns)
{
    const uint64_t id = message->correlation;
    const teff__stripe *stripe = teff__registry_stripe(registry, id);
    if (id == 0)
        return false; /* a one-way request never expires, nor does a completion in a mailbox */
    if (teff__stripe_look_up(stripe, id) != TEFF__CALLBACK_OPEN)
        return true;
    /*
     * The call may end between these two looks, and the slot be another call's then: so the request
     * gets a turn whose answer nobody takes, as it might have a moment before.
     */
    const int64_t deadline_ns = teff__atomic_i64_load_relaxed(
        &stripe->columns->deadline_ns[id & (TEFF__CALLBACKS_MAX - 1)]);
    if (deadline_ns <= now_ns || deadline_ns == INT64_MAX)
        return true;
    message->deadline_ns = deadline_ns;
    return false;
}
