/* SPDX-License-Identifier: MIT */
/*
 * A client: a thread outside the silo that calls grains and blocks until they have answered.
 *
 * A client owns one stripe of the callback registry and the message pools that go with it; pools
 * and stripe outlive it, since messages of its last calls may still be under way. Its calls are
 * settled by whoever comes first (a worker that answers, the client itself at the deadline, stop)
 * and handed over through the stripe's done list. It waits by spinning for a while, where there are
 * cores for it, then on the stripe's word `sleeping`. It ends its own calls at their deadlines:
 * nobody else needs to wake up for them.
 *
 * Threads: the one that created it; `create` and the stripe's choice are guarded by the silo's
 * lock.
 */
#ifndef TEFF_MESSAGING_CLIENT_H
#define TEFF_MESSAGING_CLIENT_H

#include "messaging/caller.h"
#include "messaging/exchange.h"

#include "teff/client.h"

typedef struct teff__client {
    teff_caller caller; /* first: the public pointer is this one */
    teff__exchange *exchange;
    teff__stripe *stripe;
    teff__postbox *postbox;
    uintptr_t thread;
    bool awake; /* counted among the spinners */
} teff__client;

static inline teff__client *teff__client_of(teff_caller *caller)
{
    return (teff__client *)(void *)caller;
}

/*
 * Whether this thread may make the client wait: 0, TEFF_EINVALIDSTATE (not its thread),
 * TEFF_EWOULDBLOCK (in an item).
 */
TEFF__INTERNAL int teff__client_check(const teff__client *client);

/*
 * Opens a callback for a request, to be waited for or, with TEFF__CALLBACK_FUTURE, claimed.
 * TEFF_EOVERLOADED, TEFF_ENOMEM. When the gate is closed it opens all the same, and is settled at
 * once with TEFF_EUNAVAILABLE: *ret_sendable is false.
 */
TEFF__INTERNAL int teff__client_open(teff__client *client, int64_t deadline_ns, uint32_t flags,
                                     uint64_t *ret_id, bool *ret_sendable);

/*
 * Blocks until the callback has been settled; gives its answer, or NULL and a code. Its slot is
 * free afterwards.
 */
TEFF__INTERNAL int teff__client_wait(teff__client *client, uint64_t id, teff__message **ret_answer);

/* Blocks until a future of this client has been settled. It stays settled. */
TEFF__INTERNAL void teff__client_settled(teff__client *client, uint64_t id);

/* Ends a future of this client without waiting for what it was for, and drops its answer. */
TEFF__INTERNAL void teff__client_drop_future(teff__client *client, uint64_t id);

/* Blocks for that long; TEFF_EUNAVAILABLE where the silo stops meanwhile. */
TEFF__INTERNAL int teff__client_sleep(teff__client *client, int64_t duration_ns);

/* The pools of a client's stripe, which the exchange keeps until the silo is destroyed. */
TEFF__INTERNAL void teff__clients_finish(teff__exchange *exchange);

#endif
