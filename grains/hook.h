/* SPDX-License-Identifier: MIT */
/*
 * Hooks: `activate` and `deactivate` as turns that have a limit.
 *
 *     begin ─► returns ─► end
 *       └─► limit: its calls end, its sleep ends with TEFF_ECANCELED, it may not sleep again
 *             └─► still suspended a tenth of a second later: its activation is abandoned
 *
 * The calls of a hook end at its limit as those of any turn end at its deadline. A hook that computes
 * and never suspends is not touched. The timer stands in the hook's frame, so the limit needs no
 * memory; and a hook that does not suspend only links it and takes it out again.
 *
 * Threads: the worker's.
 */
#ifndef TEFF_GRAINS_HOOK_H
#define TEFF_GRAINS_HOOK_H

#include "grains/turn.h"

typedef struct teff__hook {
    teff__turn turn;
    teff__timer timer;
} teff__hook;

/* `timeout_ns` INT64_MAX: no limit. */
TEFF__INTERNAL void teff__hook_begin(teff__hook *hook, teff__catalog *catalog,
                                     teff__activation *activation, int64_t timeout_ns);
TEFF__INTERNAL void teff__hook_end(teff__hook *hook);

/*
 * `activate` has returned that code, not 0. Gives the text for those who wait, or NULL, and tells
 * the program where it was the limit that ended it.
 */
TEFF__INTERNAL const char *teff__hook_failed(const teff__hook *hook, int code);

#endif
