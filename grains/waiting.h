/* SPDX-License-Identifier: MIT */
/*
 * What waits on a worker: turns and tasks that are suspended in a call, in a wait for futures or in
 * a sleep; and what waits in the mailbox behind such a turn.
 *
 * A walk looks at the slots that the worker's stripes have made and at its sleepers, never at the
 * resident grains. It allocates nothing and runs nobody's code. One whose wait has ended, and that
 * only has yet to go on, is not found.
 *
 *     teff__waiting_walk walk;
 *     teff__waiting waiting;
 *     teff__waiting_begin(&walk, catalog);
 *     while (teff__waiting_next(&walk, &waiting))
 *         …
 *
 * Threads: the worker's, outside its items; one walk at a time, and nothing may settle meanwhile.
 */
#ifndef TEFF_GRAINS_WAITING_H
#define TEFF_GRAINS_WAITING_H

#include "grains/catalog.h"

typedef enum teff__waiting_for {
    TEFF__WAITING_CALL,    /* for the answer of one call */
    TEFF__WAITING_FUTURES, /* for futures */
    TEFF__WAITING_SLEEP    /* for a moment to come */
} teff__waiting_for;

/* One that waits. What it points to is valid until the walk ends. */
typedef struct teff__waiting {
    const teff_caller *caller;
    teff__activation *activation; /* whose turn it is; NULL: a task */
    /* that its turn serves, and so who called; NULL: a hook, a completion, a task */
    const teff__message *request;
    teff__waiting_for what;
    uint32_t remaining; /* futures: how many more are to be settled */
    /* the call; of futures one that is open, and of which the following is said */
    uint64_t id;
    uint64_t target;     /* the hash of the grain that is called; 0: a task's, or an observer's */
    int64_t since_ns;    /* when that call was made, or the sleep began */
    int64_t deadline_ns; /* its deadline, TEFF__DEADLINE_NEVER perhaps; when the sleep ends */
} teff__waiting;

typedef struct teff__waiting_walk {
    teff__catalog *catalog;
    uint32_t number; /* marks the awaits that it has seen */
    uint32_t stripe, slot;
    const teff__ring *sleeper; /* the next one */
} teff__waiting_walk;

TEFF__INTERNAL void teff__waiting_begin(teff__waiting_walk *walk, teff__catalog *catalog);

/* The next one; false: that was all. */
TEFF__INTERNAL bool teff__waiting_next(teff__waiting_walk *walk, teff__waiting *ret);

/*
 * The requests in an activation's mailbox, in the order in which they will be served: the first
 * one, and the one after that; NULL: no more. Completions among them are left out.
 */
TEFF__INTERNAL const teff__message *teff__waiting_mail(const teff__activation *activation,
                                                       const teff__message *after);

#endif
