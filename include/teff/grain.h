/* SPDX-License-Identifier: MIT */
/*
 * Grain types: a name, the size of the state, the interfaces it implements, and hooks, as one
 * constant struct.
 *
 *     static const teff_handlers *const room_implements[] = { &room_handlers, NULL };
 *     const teff_grain_type room_grain = {
 *         .struct_size = sizeof(teff_grain_type),
 *         .name        = { "room" },
 *         .state_size  = sizeof(struct room),
 *         .implements  = room_implements,
 *         .activate    = room_activate,
 *     };
 *
 * A type may implement several interfaces, private ones too, and an interface may have several
 * types. A grain is its type's name, as text, and its key.
 */
#ifndef TEFF_GRAIN_H
#define TEFF_GRAIN_H

#include "teff/interface.h"

#include <stddef.h>
#include <stdint.h>

/* Why an activation is deactivated. */
enum {
    TEFF_DEACTIVATED_REQUEST = 1, /* teff_turn_deactivate */
    TEFF_DEACTIVATED_STOP = 2     /* the silo stops */
};

/* Everything it points to is borrowed until the silo is destroyed; the struct itself is copied. */
typedef struct teff_grain_type {
    size_t struct_size; /* sizeof(teff_grain_type) */
    teff_name name;     /* 1 to 255 bytes */
    size_t state_size;  /* of the grain's state: at most 1 MiB, zeroed, aligned to 16 bytes */
    const teff_handlers *const *implements; /* ends with NULL */

    /*
     * Hooks, or NULL. `activate` runs before the first turn; non-zero: there is no activation,
     * callers get that code and the text of teff_turn_fail, and `deactivate` does not run.
     * `deactivate` runs after the last turn; `reason` is one of the above. Both are turns and may
     * call other grains, until the silo begins to stop: then, so always with TEFF_DEACTIVATED_STOP,
     * a call is TEFF_EUNAVAILABLE, and what is to be saved goes through a context.
     */
    int (*activate)(teff_turn *turn, void *self);
    void (*deactivate)(teff_turn *turn, void *self, int reason);

    int64_t idle_ns; /* how long without a turn before it is deactivated; not implemented */
} teff_grain_type;

#ifndef __cplusplus

/* The short form: interface, handlers and grain type of one name over `struct G`, without hooks. */
#define TEFF_GRAIN(G, METHODS)                                                                     \
    TEFF_INTERFACE_DEFINE(G, METHODS);                                                             \
    TEFF_HANDLERS(G, struct G, G, METHODS);                                                        \
    static const teff_handlers *const G##_implements[] = { &G##_handlers, NULL };                  \
    extern const teff_grain_type G##_grain;                                                        \
    const teff_grain_type G##_grain = { .struct_size = sizeof(teff_grain_type),                    \
                                        .name = { #G },                                            \
                                        .state_size = sizeof(struct G),                            \
                                        .implements = G##_implements }

#endif
#endif
