/* SPDX-License-Identifier: MIT */
/* The counter: a grain for each key, which holds one number. */
#ifndef COUNTER_SERVER_COUNTER_H
#define COUNTER_SERVER_COUNTER_H

#include <teff.h>

enum { COUNTER_FULL = 1 };

struct count {
    int64_t value;
};

/* Shorter than the server's own patience when it stops: what is under way has ended by then. */
#define COUNTER_METHODS(METHOD, SELF)                                                              \
    METHOD(SELF, incr, teff_none, struct count, TEFF_TIMEOUT_MS(1000))                             \
    METHOD(SELF, get, teff_none, struct count, TEFF_TIMEOUT_MS(1000))                              \
    METHOD(SELF, reset, teff_none, teff_none, TEFF_TIMEOUT_MS(1000))
TEFF_INTERFACE(counter, COUNTER_METHODS);

extern const teff_grain_type counter_grain;

#endif
