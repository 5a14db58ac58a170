/* SPDX-License-Identifier: MIT */
/*
 * Observers: the objects of clients that can be called like grains.
 *
 * A reference to one names the type `(observer)`, which no grain type may have, and a key of 128
 * bits: silo and client (each client has another number), then the client's stripe, and slot and
 * generation in the client's slot map. So a sender finds the client by an index, and the client the
 * observer; nothing of it is registered anywhere. A request goes into the mail of the client's
 * stripe (messaging/client.h), whoever sends it.
 *
 * Threads: send: any. All else: the client's.
 */
#ifndef TEFF_GRAINS_OBSERVER_H
#define TEFF_GRAINS_OBSERVER_H

#include "grains/catalog.h"
#include "messaging/client.h"

#include "teff/observer.h"

/* The type's name of all references to observers. */
extern TEFF__INTERNAL const teff_name teff__observer_type;

static inline bool teff__observer_is(const teff_ref *to)
{
    return to->type != NULL && to->type->text != NULL &&
           (to->type == &teff__observer_type ||
            strcmp(to->type->text, teff__observer_type.text) == 0);
}

/*
 * What stands for an observer where a call has the hash of its grain: its client's stripe, and so
 * far below any hash. 0: no reference to one.
 */
TEFF__INTERNAL uint64_t teff__observer_target(const teff_ref *to);

static inline bool teff__target_is_observer(uint64_t target)
{
    return target - 1 < TEFF__STRIPES - 1;
}

/* Sends a request to an observer; takes the message unless it fails. TEFF_EGONE, TEFF_EINVAL. */
TEFF__INTERNAL int teff__observer_send(teff__exchange *exchange, const teff_ref *to,
                                       teff__message *message);

/* Runs a request that came to the client, and answers it; takes the message. */
TEFF__INTERNAL void teff__observer_run(teff__client *client, teff__message *message);

/* Ends all observers of a client that goes. */
TEFF__INTERNAL void teff__observers_end(teff__client *client);

#endif
