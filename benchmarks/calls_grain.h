/* SPDX-License-Identifier: MIT */
/*
 * The grains of the benchmark `calls`: an echo that counts, a driver whose turns call echoes, and
 * one that hangs.
 */
#ifndef TEFF_BENCHMARKS_CALLS_GRAIN_H
#define TEFF_BENCHMARKS_CALLS_GRAIN_H

#include "teff.h"

#include <stdio.h>

struct calls_arg {
    uint64_t add;
    uint8_t rest[56];
};
struct calls_ret {
    uint64_t turns;
    uint8_t rest[56];
};
struct calls_buffer {
    teff_bytes *bytes;
    const void *data; /* where its bytes are: the same object at both ends */
};
struct calls_order {
    int32_t form;
    uint64_t first_key; /* of the grains to call */
    int64_t duration_ns;
    teff_silo *silo;
};
struct calls_report {
    double ns;
};

_Static_assert(sizeof(struct calls_arg) == 64 && sizeof(struct calls_ret) == 64,
               "64 bytes each way");

#define CALLS_ECHO_METHODS(METHOD, SELF)                                                           \
    METHOD(SELF, add, struct calls_arg, struct calls_ret, 0)                                       \
    METHOD(SELF, look, struct calls_buffer, struct calls_ret, TEFF_ARG_BYTES(1))                   \
    METHOD(SELF, wait, teff_none, teff_none, 0)
TEFF_INTERFACE(calls_echo, CALLS_ECHO_METHODS);

#define CALLS_DRIVER_METHODS(METHOD, SELF)                                                         \
    METHOD(SELF, drive, struct calls_order, struct calls_report, 0)
TEFF_INTERFACE(calls_driver, CALLS_DRIVER_METHODS);

/* A grain that can be left hanging in an awaited call, with a state of 16 bytes. */
#define CALLS_HANGER_METHODS(METHOD, SELF)                                                         \
    METHOD(SELF, meet, teff_none, teff_none, 0)                                                    \
    METHOD(SELF, hang, teff_none, teff_none, TEFF_ONE_WAY)
TEFF_INTERFACE(calls_hanger, CALLS_HANGER_METHODS);

extern const teff_grain_type calls_echo_grain, calls_driver_grain, calls_hanger_grain;

/* Says what failed, and returns -1. */
static inline __attribute__((unused)) int calls_complain(const char *what, int r)
{
    (void)fprintf(stderr, "calls: %s: %s\n", what, teff_status_name(r));
    return -1;
}

#endif
