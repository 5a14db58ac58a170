/* SPDX-License-Identifier: MIT */
/*
 * The whole of stress_routes, and what is checked when a round is over.
 */
#ifndef TEFF_TESTS_STRESS_ROUTES_CHECK_H
#define TEFF_TESTS_STRESS_ROUTES_CHECK_H

#include "stress_routes_senders.h"

enum { WORKERS_MAX = 64 };

typedef struct stress {
    unsigned long long seconds, round_ms, seed, first, workers, routes, grains, order;
    ledger notes; /* of this round, as all below */
    teff_silo *silo;
    sender *senders;
    teff__atomic_u32 over;
    teff_silo_options options;
    uint32_t leaving, moving, collect_ms;
    int numbers[WORKERS_MAX];
} stress;

/* Of all rounds. */
typedef struct totals {
    uint64_t calls[FORMS], activations, moved, refused, turns, rejected, lost;
} totals;

void pause_ms(long ms);

/* How many calls have ended in this round. Any thread. */
uint64_t calls_ended(const stress *self);

/*
 * All senders have ended: waits until nothing is under way any more. One-way messages may be passed
 * on too often, like all others, and nobody hears of it: where some have no turn, all others have had
 * theirs when nothing has changed for a while.
 */
void check_settled(const stress *self);

/*
 * Stops the silo, and checks that each call had exactly one turn, that each grain has gone as often as
 * it came, and that nothing is left.
 */
void check_stop(stress *self);

/* Ends the round's line, and adds what it counted. */
void add_up(const stress *self, totals *all);

void show(const totals *all);

#endif
