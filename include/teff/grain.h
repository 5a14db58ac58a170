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

/* Why an activation goes: the first reason there was. */
enum {
    /* `deactivate` hears of these … */
    TEFF_DEACTIVATED_REQUEST = 1, /* teff_turn_deactivate */
    TEFF_DEACTIVATED_STOP = 2,    /* the silo stops */
    TEFF_DEACTIVATED_IDLE = 3,    /* no turn for idle_ns */
    TEFF_DEACTIVATED_MEMORY = 4,  /* memory is short, and others were used later */
    TEFF_DEACTIVATED_COLLECT = 5, /* teff_silo_collect */
    /* … and not of these, which teff_silo_grain_counts counts as well */
    TEFF_DEACTIVATED_FAILED = 6,    /* `activate` failed, or was not over in time */
    TEFF_DEACTIVATED_DUPLICATE = 7, /* another worker's was registered first */
    TEFF_DEACTIVATED_DIRECTORY = 8, /* the grain directory could not be asked */
    TEFF_DEACTIVATED_STUCK = 9,     /* given up: a turn, or `deactivate`, did not end in time */
    TEFF_DEACTIVATED_REASONS        /* how many there are, and 0, which is none */
};

/* On which worker an activation is made, where the call does not say (teff_call_options). */
typedef enum teff_placement {
    TEFF_PLACE_DEFAULT, /* as the silo's options say, or else as the next */
    TEFF_PLACE_CALLER,  /* that of the turn or task that calls; for a client's call as the next */
    TEFF_PLACE_HASH,    /* by the grain's id: any worker, but always the same one */
    TEFF_PLACE_LEAST_LOADED /* the one with the fewest activations */
} teff_placement;

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

    /*
     * How long without a turn before it is deactivated, rounded up to the silo's idle_quantum_ns
     * and then to the type's own. 0: as the silo's options say; INT64_MAX, or more than 30 days:
     * never. A turn may ask for longer: teff_turn_delay_deactivation.
     */
    int64_t idle_ns;
    int64_t idle_quantum_ns; /* 0: the silo's alone */

    teff_placement placement; /* for a stateless worker it means nothing */
    /*
     * Not 0: a grain of this type is a *stateless worker*: a pool of up to so many activations in
     * the silo. A call gets one that is idle, on the caller's worker where there is one; another is
     * made only while all that the worker has are busy, and idle ones go after idle_ns. Calls of
     * one sender may run at once, and in any order; activations share no state. At most 65,535.
     */
    uint32_t stateless_max;
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
