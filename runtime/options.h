/* SPDX-License-Identifier: MIT */
/*
 * A silo's options: the program's checked, and completed with their defaults, so that nobody else
 * has to know these.
 */
#ifndef TEFF_RUNTIME_OPTIONS_H
#define TEFF_RUNTIME_OPTIONS_H

#include "runtime/assert.h"

#include "teff/silo.h"

enum {
    TEFF__MAILBOX_MAX = 65536,
    /* What a cache of routes can be: see directory/route.h. */
    TEFF__OPTION_ROUTES_MIN = 3,
    TEFF__OPTION_ROUTES_MAX = 16777215,
    TEFF__SHED_TO_PERCENT = 75
};

#define TEFF__RESPONSE_TIMEOUT_NS INT64_C(30000000000)
#define TEFF__IDLE_QUANTUM_MIN_NS INT64_C(1000000)
/* Marks of last use are of 32 bits and mean 52 days: longer ages are never. */
#define TEFF__IDLE_MAX_NS       INT64_C(2592000000000000) /* 30 days */
#define TEFF__ROUTES_TTL_MAX_NS INT64_C(864000000000000)  /* 10 days */

/*
 * A timeout that is not negative; 0 means `default_ns`. So long at most that a sum with a clock's
 * time does not overflow.
 */
TEFF__INTERNAL int64_t teff__timeout_or(int64_t asked_ns, int64_t default_ns);

/* An age that is not negative, after which something goes; INT64_MAX where that is never. */
TEFF__INTERNAL int64_t teff__age_or(int64_t asked_ns, int64_t default_ns, int64_t max_ns);

/*
 * Reads `from`, which may be NULL and of another layout, into *ret: each member in its range, none
 * left at its default, and with routes_max 0 where none are kept. TEFF_EINVAL, TEFF_ELIMIT: *ret is
 * then of no use.
 */
TEFF__INTERNAL int teff__options_read(teff_silo_options *ret, const teff_silo_options *from,
                                      uint32_t workers_max);

#endif
