/* SPDX-License-Identifier: MIT */
/*
 * A turn: one request of one activation, or one of its hooks, on a worker's fiber.
 *
 *     queued ─► running ◄─► suspended ─► ended
 *
 * Its structure stands in the frame of whoever runs it, and with it on a fiber where the turn
 * suspends.
 *
 * Threads: its activation's worker.
 */
#ifndef TEFF_GRAINS_TURN_H
#define TEFF_GRAINS_TURN_H

#include "grains/catalog.h"

#include "teff/turn.h"

typedef struct teff__turn_block teff__turn_block;

typedef struct teff__turn {
    teff_caller caller; /* first: the public pointer is this one */
    teff__activation *activation;
    teff__turn_block *blocks;  /* of teff_turn_alloc, newest first */
    int failed;                /* the code that `text` and `origin` belong to; 0: none */
    const teff_method *origin; /* whose failure it was; with `failed` only */
    char text[TEFF__TEXT_MAX]; /* not initialised */
} teff__turn;

static inline void teff__turn_begin(teff__turn *turn, teff__catalog *catalog,
                                    teff__activation *activation, int64_t deadline_ns)
{
    teff__caller_init(&turn->caller, TEFF__CALLER_TURN, catalog, deadline_ns);
    turn->activation = activation;
    turn->blocks = NULL;
    turn->failed = 0;
}

/* Frees what the turn allocated and cancels its unclaimed futures. */
TEFF__INTERNAL void teff__turn_end_slow(teff__turn *turn);

static inline void teff__turn_end(teff__turn *turn)
{
    if (TEFF__UNLIKELY(turn->blocks != NULL || turn->caller.futures != 0))
        teff__turn_end_slow(turn);
}

/* The text that goes with a failure of that code, or NULL. */
static inline const char *teff__turn_text(const teff__turn *turn, int code)
{
    return turn->failed == code ? turn->text : NULL;
}

/* Runs a request that was taken out of the mailbox, and answers it. */
TEFF__INTERNAL void teff__turn_run(teff__catalog *catalog, teff__activation *activation,
                                   teff__message *message);

/* Frees what turns allocated whose stacks were dropped. */
TEFF__INTERNAL void teff__turn_blocks_drop(teff__catalog *catalog);

/* Cancels an unclaimed future of a turn or task; all of one that ends. */
TEFF__INTERNAL void teff__caller_drop_future(teff__catalog *catalog, teff_caller *caller,
                                             uint64_t id);
TEFF__INTERNAL void teff__caller_drop_futures(teff__catalog *catalog, teff_caller *caller);

#endif
