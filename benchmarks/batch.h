/* SPDX-License-Identifier: MIT */
/*
 * Messages that go to another core together, as the runtime's workers post them.
 *
 * Threads: the sender's.
 */
#ifndef TEFF_BENCHMARKS_BATCH_H
#define TEFF_BENCHMARKS_BATCH_H

#include "runtime/inbox.h"

enum { CHAIN = 32 /* pushed at once */ };

/* Newest first. */
typedef struct chain {
    teff__link *newest, *oldest;
    unsigned count;
} chain;

static inline void chain_push(chain *of, teff__inbox *to)
{
    if (of->newest != NULL)
        (void)teff__inbox_push_chain(to, of->newest, of->oldest);
    *of = (chain){ NULL, NULL, 0 };
}

static inline void chain_add(chain *of, teff__inbox *to, teff__link *link)
{
    if (of->newest == NULL)
        of->oldest = link;
    link->next = of->newest;
    of->newest = link;
    if (++of->count == CHAIN)
        chain_push(of, to);
}

#endif
