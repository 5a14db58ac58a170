/* SPDX-License-Identifier: MIT */
/*
 * Clients: how a thread outside the silo calls grains. A client belongs to the thread that created
 * it and is used by no other; a thread may have several. Clients are destroyed before their silo.
 */
#ifndef TEFF_CLIENT_H
#define TEFF_CLIENT_H

#include "teff/caller.h"
#include "teff/export.h"
#include "teff/silo.h"

/*
 * Makes a client whose calls block this thread until they are answered. `loop` must be NULL:
 * clients on a uv loop are not implemented.
 *
 * Ownership: gives a client, free with teff_client_destroy. Borrows the silo until then.
 * Threads:   any; the client is then this thread's. In a simulated silo, the one that started it.
 * Errors:    TEFF_EINVAL: `loop` is not NULL. TEFF_EINVALIDSTATE: the silo is not active, or this
 *            is a thread of its.
 *            TEFF_ELIMIT: as many clients as there are stripes for them (64). TEFF_ENOMEM.
 */
TEFF_EXPORT int teff_client_create(teff_silo *silo, struct uv_loop_s *loop, teff_client **ret);

/*
 * Frees a client; NULL is allowed. Returns NULL; or the client, with nothing freed, if this thread
 * does not own it.
 *
 * Ownership: takes `client`, if it returns NULL.
 * Threads:   the client's; once the silo has stopped, any one.
 */
TEFF_EXPORT teff_client *teff_client_destroy(teff_client *client);

#endif
