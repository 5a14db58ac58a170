/* SPDX-License-Identifier: MIT */
/*
 * Statuses: how a call that takes long stands, as the callee's worker tells it to whoever waits.
 *
 *     sent ─► kept by the call's owner ─► dropped: a later one came, or the call has ended
 *                                └──────► the call's answer, where nobody else has one before its
 *                                         deadline: so the timeout's text says what was last known
 *
 * A status is a message of the middle class from its sender's pools. The call's owner, a worker or a
 * client, keeps the last one of each: the detail of the call's slot names it, and a ring lists all
 * of them. One whose call has ended stays where it is until later ones come, or the owner goes;
 * each that comes looks at two of the oldest, so that there are not many of those.
 *
 * Threads: the owner of the call's stripe, but for teff__status_take and teff__registry_opened_ns.
 */
#ifndef TEFF_MESSAGING_STATUS_H
#define TEFF_MESSAGING_STATUS_H

#include "messaging/exchange.h"

#include "teff/inspect.h"

typedef struct teff__status {
    teff__message message; /* correlation: of the call */
    teff__ring ring;       /* of those that its owner keeps */
    teff_long_call call;
} teff__status;

_Static_assert(sizeof(teff__status) <= TEFF__MESSAGE_MEDIUM, "it is a message of that class");

static inline teff__status *teff__status_of(teff__message *message)
{
    return (teff__status *)(void *)message;
}

/*
 * When an open call was made; false: it has ended. Any thread that holds the call's request. Where
 * the call ends meanwhile and the slot is the next one's, the time is that one's: a later one.
 */
static inline bool teff__registry_opened_ns(const teff__registry *registry, uint64_t id,
                                            int64_t *ret)
{
    const teff__stripe *stripe = teff__registry_stripe(registry, id);
    if (teff__stripe_look_up(stripe, id) != TEFF__CALLBACK_OPEN)
        return false;
    *ret =
        teff__atomic_i64_load_relaxed(&stripe->columns->opened_ns[id & (TEFF__CALLBACKS_MAX - 1)]);
    return true;
}

/* A status of that call, from the sender's pools; NULL: no memory. */
TEFF__INTERNAL teff__status *teff__status_take(teff__postbox *postbox, uint64_t id,
                                               const teff_long_call *call);

/*
 * Keeps a status as its call's last one; takes it. False: it was dropped, since the call has ended
 * or memory is short.
 */
TEFF__INTERNAL bool teff__status_keep(teff__ring *kept, const teff__registry *registry,
                                      teff__postbox *postbox, teff__status *status);

/*
 * What is to be the answer of an open call whose deadline has come: TEFF_ETIMEDOUT, with the text of
 * its last status. It is the owner's now. NULL: there is none.
 */
TEFF__INTERNAL teff__message *teff__status_answer(const teff__exchange *exchange, uint64_t id);

/* Drops all that is kept. */
TEFF__INTERNAL void teff__statuses_drop(teff__ring *kept, const teff__registry *registry,
                                        teff__postbox *postbox);

/* Writes a duration for people: 20 s, 1.5 s, 300 ms, 20 us. Returns `buffer`. */
enum { TEFF__DURATION_MAX = 32 };
TEFF__INTERNAL const char *teff__duration_print(int64_t duration_ns,
                                                char buffer[TEFF__DURATION_MAX]);

#endif
