/* SPDX-License-Identifier: MIT */
/*
 * Limits: how many messages may wait for a grain, and how many activations there may be.
 *
 * A call compares its grain's mailbox with one number of its worker's, the lower of mailbox_warn and
 * mailbox_max; what lies behind that number is decided here. Activations are counted together only
 * where there is a limit: the counter is a line that all workers write.
 *
 * Threads: the worker's.
 */
#ifndef TEFF_GRAINS_LIMIT_H
#define TEFF_GRAINS_LIMIT_H

#include "grains/catalog.h"

/* The text of a request that a full mailbox refuses. */
extern TEFF__INTERNAL const char teff__mailbox_full[];

/* The number that calls compare with. */
TEFF__INTERNAL uint32_t teff__limit_mailbox_look(const teff__grains *grains);

/*
 * A place for one more activation. TEFF_EOVERLOADED, with catalog->refused: there is none. Whoever
 * takes the last one gives a notice.
 */
TEFF__INTERNAL int teff__limit_take_slow(teff__catalog *catalog);
TEFF__INTERNAL void teff__limit_give_slow(teff__catalog *catalog);

static inline int teff__limit_take(teff__catalog *catalog)
{
    return TEFF__LIKELY(catalog->grains->activations_max == 0) ? 0 : teff__limit_take_slow(catalog);
}

/* As if there were always a place: for one that comes in another's, which is given back then. */
static inline void teff__limit_add(teff__catalog *catalog)
{
    if (TEFF__UNLIKELY(catalog->grains->activations_max != 0))
        (void)teff__atomic_u64_add_relaxed(&catalog->grains->activations, 1);
}

static inline void teff__limit_give(teff__catalog *catalog)
{
    if (TEFF__UNLIKELY(catalog->grains->activations_max != 0))
        teff__limit_give_slow(catalog);
}

#endif
