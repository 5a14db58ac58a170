/* SPDX-License-Identifier: MIT */
/*
 * Deadlines that move: the silo's response timeout changes while calls are open.
 *
 * The silo's value is one word of the exchange. Each owner of stripes, a worker or a client, keeps a
 * copy, by which it opens calls. An owner that learns of a new value takes it over and moves the
 * deadlines of those of its open calls that have the silo's timeout: to when they were opened and
 * the new timeout, but not beyond the end of the turn that made them.
 *
 *   a worker    is told by a message; see grains/timeout.h
 *   a client    looks when it opens a call, when it computes when it is due, and before it sleeps;
 *               whoever sets the word wakes it where it sleeps
 *
 * A request carries the deadline that its call had when it was sent. Only where that matters, and
 * may have moved, its receiver looks at the caller's slot.
 */
#ifndef TEFF_MESSAGING_DEADLINE_H
#define TEFF_MESSAGING_DEADLINE_H

#include "messaging/message.h"
#include "messaging/registry.h"
#include "runtime/clock.h"

/*
 * Moves the deadlines of a stripe's open calls that have the silo's timeout, and finds the earliest
 * of all. `bound_ns` says when the turn of an awaited call ends, by its waiter; NULL: it has no end.
 *
 * Threads: the owner's.
 */
TEFF__INTERNAL void teff__stripe_move_deadlines(teff__stripe *stripe, int64_t timeout_ns,
                                                int64_t (*bound_ns)(const void *waiter));

/*
 * Whether nobody waits for the answer of a request any more, by the caller's slot. Where somebody
 * does, the request has that call's deadline of now afterwards.
 *
 * Threads: any.
 */
TEFF__INTERNAL bool teff__message_expired(const teff__registry *registry, teff__message *message,
                                          int64_t now_ns);

/*
 * Until when a request's own deadline may be wrong, where the timeout was `before_ns` until now:
 * whoever sent one by it did so a second from now at the latest.
 */
static inline int64_t teff__deadline_doubt_ns(int64_t now_ns, int64_t before_ns)
{
    return teff__time_add(now_ns + INT64_C(1000000000), before_ns);
}

#endif
