/* SPDX-License-Identifier: MIT */
/*
 * Completions of a worker's turns and tasks: where they run once their calls have ended.
 *
 *   of a turn    in its activation's mailbox, as a turn of it; alone, if that is gone
 *   of a task    on the run queue, as a task; alone, if the task has ended
 *   alone        on the run queue, with no caller, to be told TEFF_EGONE
 *
 * A worker that ends runs what is left, alone: each runs once, whatever happens.
 *
 * Threads: the worker's.
 */
#ifndef TEFF_GRAINS_COMPLETE_H
#define TEFF_GRAINS_COMPLETE_H

#include "grains/catalog.h"
#include "messaging/completion.h"

/* The call has ended. */
TEFF__INTERNAL void teff__complete(teff__catalog *catalog, teff__completion *completion);

/* Its activation, or task, is gone. */
TEFF__INTERNAL void teff__complete_alone(teff__catalog *catalog, teff__completion *completion);

/* Runs a completion that was in the activation's mailbox, as its turn. */
TEFF__INTERNAL void teff__complete_turn(teff__catalog *catalog, teff__activation *activation,
                                        teff__completion *completion);

/* Takes the completions out of the mailbox of an activation that is gone: they run alone. */
TEFF__INTERNAL void teff__complete_orphans(teff__catalog *catalog, teff__activation *activation);

/*
 * The worker ends: runs what is left, alone, on the host's stack, and drops what had begun and will
 * not go on.
 */
TEFF__INTERNAL void teff__complete_all(teff__catalog *catalog);

#endif
