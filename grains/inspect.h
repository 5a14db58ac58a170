/* SPDX-License-Identifier: MIT */
/*
 * Inspecting a silo that runs: each worker is asked by message, and looks at what is its own on its
 * own thread. One that does not answer is named, and not waited for.
 *
 *     not asked ─► asked ─► walks ─► done
 *         ▲          │
 *         └──────────┘ withdrawn when time is over: the message, which lies in the inbox still,
 *                      means nothing then, or the next inspection
 *
 * So what a worker walks for is there as long as it walks, whoever is late. One inspection at a
 * time; the others wait their turn. A simulated silo, and one on a loop whose thread asks, is walked
 * by the asker: nothing else runs meanwhile.
 *
 * Threads: ask: any but the silo's own, see teff__inspect_check. All else: the worker's.
 */
#ifndef TEFF_GRAINS_INSPECT_H
#define TEFF_GRAINS_INSPECT_H

#include "messaging/message.h"
#include "runtime/thread.h"

#include "teff/silo.h"

typedef struct teff__catalog teff__catalog;
typedef struct teff__grains teff__grains;

/* What a worker does when it is asked. May not suspend; runs under no lock. */
typedef void teff__inspect_visit(teff__catalog *catalog, void *user);

typedef enum teff__asked {
    TEFF__ASKED_NOT,
    TEFF__ASKED_YES,
    TEFF__ASKED_WALKS,
    TEFF__ASKED_DONE
} teff__asked;

/* A worker's part; guarded by the inspection's lock. */
typedef struct teff__inspected {
    teff__message message;
    teff__asked asked;
    bool posted; /* the message lies in the inbox */
    bool ended;  /* the worker has: it is left out */
} teff__inspected;

/* Of a silo; all guarded by its lock. */
typedef struct teff__inspection {
    teff__mutex lock;
    teff__condition changed;
    bool busy;
    teff__inspect_visit *visit;
    void *user;
} teff__inspection;

TEFF__INTERNAL void teff__inspection_init(teff__inspection *inspection);
TEFF__INTERNAL void teff__inspection_finish(teff__inspection *inspection);

/* Whether this thread may inspect: 0, TEFF_EINVALIDSTATE, TEFF_EWOULDBLOCK. */
TEFF__INTERNAL int teff__inspect_check(teff__grains *grains);

/*
 * Asks the workers (bit k: worker k) and returns when they have answered or `until_ns` has come,
 * and nobody walks any more. *ret_silent: those that have not answered.
 */
TEFF__INTERNAL void teff__inspect(teff__grains *grains, uint64_t workers,
                                  teff__inspect_visit *visit, void *user, int64_t until_ns,
                                  uint64_t *ret_silent);

/* Which workers have ended. */
TEFF__INTERNAL uint64_t teff__inspect_ended(teff__grains *grains);

/* The message has come. */
TEFF__INTERNAL void teff__inspect_answer(teff__catalog *catalog);

/* The worker ends: it is not asked any more, and whoever has asked goes on. */
TEFF__INTERNAL void teff__inspect_end(teff__catalog *catalog);

/* In runtime/silo.c: in a word, for a dump; NULL where the silo was never started. */
TEFF__INTERNAL const char *teff__silo_state_text(teff_silo *silo);

#endif
