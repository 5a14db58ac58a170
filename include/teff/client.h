/* SPDX-License-Identifier: MIT */
/*
 * Clients: how a thread outside the silo calls grains. A client belongs to one thread and is used
 * by no other; a thread may have several. There are two kinds:
 *
 *   blocking    created without a loop, belongs to the thread that created it: its calls block that
 *               thread. Completions run in teff_client_run, observers there and while it waits
 *   on a loop   belongs to the thread that runs the loop: its calls never block
 *               (TEFF_EWOULDBLOCK), completions and observers run on the loop. It keeps uv_run
 *               going while it has calls under way, completions to run, or observers, but not idle
 *
 * Clients are gone before their silo is destroyed.
 */
#ifndef TEFF_CLIENT_H
#define TEFF_CLIENT_H

#include "teff/caller.h"
#include "teff/export.h"
#include "teff/silo.h"

/*
 * Makes a client: blocking where `loop` is NULL, else on that loop.
 *
 * Ownership: gives a client: free a blocking one with teff_client_destroy, one on a loop with
 *            teff_client_close_then. Borrows the silo, and the loop, until then.
 * Threads:   any; the client is then this thread's, or that of its loop, which may not run
 *            elsewhere meanwhile: the thread that runs it, and before that the first that uses the
 *            client. In a simulated silo, the one that started it.
 * Errors:    TEFF_EINVAL: `silo` or `ret` is NULL. TEFF_EINVALIDSTATE: the silo is not active, or
 *            this is a thread of its.
 *            TEFF_ELIMIT: as many clients as there are stripes for them (64). TEFF_ENOMEM, a code
 *            of libuv's.
 */
TEFF_EXPORT int teff_client_create(teff_silo *silo, struct uv_loop_s *loop, teff_client **ret);

/*
 * Runs the completions and observers of a blocking client that are ready at this moment, each once,
 * and waits for some where there are none. 0: at least one has run. What becomes ready meanwhile is
 * left to the next run, also the completion of a one-way row that one of these opened; so whoever
 * wants all runs until it is not 0. While a call is open under a deadline its end comes here.
 *
 * Threads:  the client's.
 * Suspends: blocks for at most `timeout_ns`; 0 only looks; INT64_MAX waits as long as it takes.
 * Errors:   TEFF_ETIMEDOUT: none came. TEFF_EUNAVAILABLE: none came, and none will: the silo
 *           stops, and no call of this client's is open. TEFF_EINVAL: `timeout_ns` is negative, or
 *           `client` is NULL.
 *           TEFF_EINVALIDSTATE: another thread's client, as any is on a worker's own thread; or one
 *           on a loop. TEFF_EWOULDBLOCK: called from a completion function or an observer, on the
 *           silo's own loop, or in a turn or task of a simulated silo.
 */
TEFF_EXPORT int teff_client_run(teff_client *client, int64_t timeout_ns);

/*
 * Closes a client on a loop and returns at once: its open calls end with TEFF_ECANCELED, its
 * completions run, its observers end, and `closed` is called last, on the loop. The client is gone
 * by then, and takes no calls (TEFF_EINVALIDSTATE) from now on. May be called in one of its own
 * completions or observers' handlers.
 *
 * Ownership: takes `client`, if it returns 0; borrows `user` until `closed` has returned. `closed`
 *            may be NULL.
 * Threads:   the client's; once the silo has stopped, any one that runs the loop from now on.
 * Suspends:  no.
 * Errors:    TEFF_EINVAL: `client` is NULL. TEFF_EINVALIDSTATE: not a client on a loop, another
 *            thread's, or closing already.
 */
TEFF_EXPORT int teff_client_close_then(teff_client *client, void (*closed)(void *user), void *user);

/*
 * Frees a blocking client; NULL is allowed. Its open calls end with TEFF_ECANCELED, and its
 * completions run, inside. Returns NULL; or the client, with nothing freed, if it is on a loop,
 * this thread does not own it, or one of its completions or observers, or of a silo that this
 * thread runs a turn or task, is at work.
 *
 * Ownership: takes `client`, if it returns NULL.
 * Threads:   the client's; once the silo has stopped, any one.
 * Suspends:  no.
 */
TEFF_EXPORT teff_client *teff_client_destroy(teff_client *client);

#endif
