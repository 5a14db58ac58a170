/* SPDX-License-Identifier: MIT */
/*
 * Claiming futures, of calls and of tasks.
 *
 * Threads: the caller's.
 */
#ifndef TEFF_GRAINS_CALL_FUTURE_H
#define TEFF_GRAINS_CALL_FUTURE_H

#include "messaging/future.h"

/*
 * Waits until a future of that method (NULL: of a task) is settled, and takes it: its answer, or
 * NULL and a code. Non-zero: it was not taken. TEFF_EINVAL: no such future of the caller's;
 * TEFF_EWOULDBLOCK, TEFF_ELIMIT, TEFF_ENOMEM: it is open.
 */
TEFF__INTERNAL int teff__future_claim(teff_caller *caller, teff_future future,
                                      const teff_method *method, int *ret_code,
                                      teff__message **ret_answer);

#endif
