/* SPDX-License-Identifier: MIT */
/*
 * Long calls: those that have not been answered for `long_call_ns`, by default 20 s.
 *
 * Nobody times a call. A worker that has suspended turns looks at them now and then: at the request
 * that each serves, and at those that wait in its activation's mailbox. How old a request is its
 * callback says, which any thread may look up by the correlation id; so a call carries no time of
 * its own, and one-way requests have no age. The request itself remembers (`warned`) how many
 * periods the last look has seen.
 *
 * A look comes a quarter of the period after the last one; earlier, where a request that was seen
 * becomes long, so that most are told of at that very moment; but never in quicker succession than
 * 64 to a period, whatever the requests' ages. Where nothing has happened on the worker since the
 * last look only requests that it saw can have become long, and where it saw none, no look is due:
 * a silo at rest stays so.
 *
 *     callee's worker: look ──► caller on this worker ──────────────► hook here, kept
 *                          ├──► caller on another ── status ──► hook there, kept
 *                          └──► a client: hook here ── status, as mail ──► kept
 *
 * The hook runs where the caller's identity is known, and so what it is told is complete.
 *
 * Threads: the worker's.
 */
#ifndef TEFF_GRAINS_LONG_CALL_H
#define TEFF_GRAINS_LONG_CALL_H

#include "grains/catalog.h"
#include "messaging/status.h"

/* In a pass, outside of its items. */
TEFF__INTERNAL void teff__long_calls_look(teff__catalog *catalog);

/* When an idle worker has to look; INT64_MAX: not before something happens. */
static inline int64_t teff__long_calls_due_ns(const teff__catalog *catalog)
{
    if (catalog->suspended == 0)
        return INT64_MAX;
    return catalog->worker.stirred ? catalog->look_ns : catalog->long_ns;
}

/* A status came from a callee's worker; takes it. */
TEFF__INTERNAL void teff__long_call_arrived(teff__catalog *catalog, teff__status *status);

/* Tells of it in a line, in the past tense with `past`. Any thread. */
TEFF__INTERNAL void teff__long_call_print(const teff_long_call *call, bool past, char *buffer,
                                          size_t size);

#endif
