/* SPDX-License-Identifier: MIT */
/*
 * A worker on a loop of the program's: no thread, and no uv_run of its own. Its passes run in the
 * loop's check callbacks, a slice of some 50 us each, so that what the program has on its loop gets
 * its part, and polling is paid for once a slice.
 *
 *   … ─► prepare: sleep, or idle armed ─► poll ─► check: a slice of passes ─► closing ─► …
 *
 * Turns that are slow make the passes short, so a slice is too long by one turn or two at most; the
 * first ones after a pause may not be.
 *
 * After a slice that left work behind `idle` is armed: the loop then polls without blocking and
 * comes back. Between prepare and check the worker sleeps, as one that has parked: who posts must
 * wake it, another thread by its eventfd, the loop's own by arming `idle`. At all other times what
 * is posted is found by the next prepare.
 *
 *   start ─► { prepare, check } ─► a pass says that nothing is left ─► handles closed ─► ops->end
 *
 * Threads: the loop's, except wake.
 */
#ifndef TEFF_RUNTIME_HOSTED_H
#define TEFF_RUNTIME_HOSTED_H

#include "runtime/worker.h"

/*
 * Begins on the loop, whose thread this is. Where it fails nothing is left on the loop, and
 * ops->end has run. What begin returned, or a code of libuv's.
 */
TEFF__INTERNAL int teff__hosted_start(teff__worker *worker);

/* For the producer whose push found the worker asleep. Any thread. */
TEFF__INTERNAL void teff__hosted_wake(teff__worker *worker);

#endif
