/* SPDX-License-Identifier: MIT */
/*
 * Calls: from a turn, a task or a client to a grain. See include/teff/call.h for what they promise.
 *
 * Threads: the caller's.
 */
#ifndef TEFF_GRAINS_CALL_H
#define TEFF_GRAINS_CALL_H

#include "grains/catalog.h"
#include "messaging/client.h"

/*
 * Whether this thread may use the caller: 0, TEFF_EINVALIDSTATE, or TEFF_EWOULDBLOCK for a client
 * inside the silo.
 */
static inline int teff__caller_check(const teff_caller *caller)
{
    if (TEFF__UNLIKELY(caller->kind == TEFF__CALLER_CLIENT))
        return teff__client_check((const teff__client *)(const void *)caller);
    const teff__catalog *catalog = caller->home;
    return TEFF__LIKELY(teff__worker_here(&catalog->worker)) ? 0 : TEFF_EINVALIDSTATE;
}

static inline teff__exchange *teff__caller_exchange(teff_caller *caller)
{
    return caller->kind == TEFF__CALLER_CLIENT ? teff__client_of(caller)->exchange
                                               : ((teff__catalog *)caller->home)->exchange;
}

static inline teff__postbox *teff__caller_postbox(teff_caller *caller)
{
    return caller->kind == TEFF__CALLER_CLIENT ? teff__client_of(caller)->postbox
                                               : &((teff__catalog *)caller->home)->postbox;
}

#endif
