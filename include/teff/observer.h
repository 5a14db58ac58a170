/* SPDX-License-Identifier: MIT */
/*
 * Observers: objects of a client's that grains can call by reference, as they call grains. This is
 * how a silo speaks to a thread outside it.
 *
 *     TEFF_HANDLERS(screen, struct screen, listener, LISTENER_METHODS);    as for a grain
 *     r = teff_observer_begin(client, &screen_handlers, &screen, &join.who.ref);
 *
 * Calls to an observer run one at a time, each caller's in the order made, on the client's own
 * thread: on its loop; or, of a blocking client, while it waits for a call of its own and in
 * teff_client_run. The `turn` that its handlers get may send, open calls with a completion function
 * (which then run on the client) and fail with a text; it may not wait: calls that would are
 * TEFF_EWOULDBLOCK. Between an observer's calls the client is free for others.
 *
 * The reference is a plain value like a grain's: send it, keep it. When the observer is gone, a
 * call to it is TEFF_EGONE at once.
 */
#ifndef TEFF_OBSERVER_H
#define TEFF_OBSERVER_H

#include "teff/caller.h"
#include "teff/export.h"
#include "teff/interface.h"
#include "teff/reference.h"

/*
 * Makes `self` callable through *ret, by one interface.
 *
 * Ownership: borrows `handlers` and `self` until teff_observer_end returns, or the client is gone.
 * Threads:   the client's.
 * Suspends:  no.
 * Errors:    TEFF_EINVAL: an argument is NULL, or `handlers` is not well formed (as for
 *            teff_silo_register). TEFF_EINVALIDSTATE: not a client, another thread's, or the silo
 *            is not active. TEFF_ELIMIT: 65,536 observers of one client. TEFF_ENOMEM.
 */
TEFF_EXPORT int teff_observer_begin(teff_client *client, const teff_handlers *handlers, void *self,
                                    teff_ref *ret);

/*
 * Ends an observer at once: no call to it begins any more, those that wait are TEFF_EGONE. May be
 * called from one of its own handlers.
 *
 * Threads:  the client's.
 * Suspends: no.
 * Errors:   TEFF_EINVAL: an argument is NULL. TEFF_EGONE: no observer of this client, or ended
 *           already. TEFF_EINVALIDSTATE: not a client, or another thread's.
 */
TEFF_EXPORT int teff_observer_end(teff_client *client, const teff_ref *observer);

#endif
