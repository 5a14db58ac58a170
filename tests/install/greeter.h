/* SPDX-License-Identifier: MIT */
/* A grain that a program outside of this tree brings with it: it greets, and counts what it was told. */
#ifndef GREETER_H
#define GREETER_H

#include <teff.h>

struct greeting {
    char name[32];
};

struct greeted {
    char text[64];
    unsigned notes; /* how many came before */
};

/* clang-format off */
#define GREETER_METHODS(METHOD, SELF)                          \
    METHOD(SELF, greet, struct greeting, struct greeted, 0)    \
    METHOD(SELF, note, struct greeting, teff_none, TEFF_ONE_WAY)
/* clang-format on */
TEFF_INTERFACE(greeter, GREETER_METHODS);

#ifdef __cplusplus
extern "C" const teff_grain_type greeter_grain;
#endif

#endif
