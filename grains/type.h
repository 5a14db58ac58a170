/* SPDX-License-Identifier: MIT */
/*
 * The grain types of a silo. Registered while it is created, frozen at its start, and read by all
 * workers from then on.
 *
 * A type's identity is its name as text; the number that it gets here is this silo's own and serves
 * tables only. A type never moves and lives until the registry is finished.
 *
 * Threads: init, register, freeze, finish: one at a time. Once frozen, all else: any thread.
 */
#ifndef TEFF_GRAINS_TYPE_H
#define TEFF_GRAINS_TYPE_H

#include "runtime/assert.h"
#include "runtime/memory.h"
#include "runtime/sized.h"
#include "teff/grain.h"

#include <string.h>

enum {
    TEFF__TYPES_MAX = 65535,          /* a type's number fits into 16 bits, and 0 is none */
    TEFF__TYPE_INTERFACES_MAX = 64,   /* a list that is longer lacks its NULL */
    TEFF__TYPE_NAME_MAX = 255,        /* one byte of length, once names are sent */
    TEFF__TYPE_STATE_MAX = 1 << 20,   /* more belongs behind a pointer: state is zeroed each time */
    TEFF__TYPE_STATELESS_MAX = 65535, /* a pool that is larger holds back nothing */
    TEFF__INTERFACE_METHODS_MAX = 65535 /* a method's number fits into 16 bits */
};

typedef struct teff__type {
    const teff_interface *first_of; /* of def.implements: most calls are made through it */
    teff_handler *const *first_table;
    uint32_t id; /* 1 to TEFF__TYPES_MAX */
    uint32_t implements_count;
    void *context; /* given at registration */
    /*
     * The user's, completed with zeroes where his is of an older layout; idle_ns is INT64_MAX where
     * it means never.
     */
    teff_grain_type def;
} teff__type;

typedef struct teff__types {
    teff__memory *memory;
    teff__type **by_id; /* at id - 1 */
    uint16_t *names;    /* hash table of names: ids, 0 is free; at most half full */
    uint32_t count, capacity;
    uint32_t names_size; /* a power of two, or 0 */
    bool frozen;
} teff__types;

TEFF__INTERNAL void teff__types_init(teff__types *types, teff__memory *memory);
TEFF__INTERNAL void teff__types_finish(teff__types *types);

/*
 * Checks a type and adds it. On failure nothing has changed but *ret_reason, which says in words
 * what is wrong (`ret_reason` may be NULL; the text is constant).
 *
 * TEFF_EINVAL: not well formed. TEFF_EINVALIDSTATE: frozen, or the name is taken. TEFF_ELIMIT,
 * TEFF_ENOMEM.
 */
TEFF__INTERNAL int teff__types_register(teff__types *types, const teff_grain_type *def,
                                        void *context, const char **ret_reason);

/* What is wrong with a table of handlers, as a sentence; NULL: nothing. */
TEFF__INTERNAL const char *teff__handlers_wrong(const teff_handlers *handlers);

/*
 * The same name, and rows of the same sizes and buffers, so that no handler reads past a value or
 * into one as a buffer.
 */
TEFF__INTERNAL bool teff__interface_same(const teff_interface *a, const teff_interface *b);

/* No type can be added any more. */
TEFF__INTERNAL void teff__types_freeze(teff__types *types);

/* The type of that name, or NULL. */
TEFF__INTERNAL const teff__type *teff__types_find_text(const teff__types *types, const char *name);

/* The type of that number, or NULL. */
static inline const teff__type *teff__types_by_id(const teff__types *types, uint32_t id)
{
    return id - 1 < types->count ? types->by_id[id - 1] : NULL; /* 0 wraps, and is none */
}

/* Whether a reference's name is that of the type. */
static inline bool teff__type_is(const teff__type *type, const teff_name *name)
{
    return name->text == type->def.name.text ||
           (name->text != NULL && strcmp(name->text, type->def.name.text) == 0);
}

TEFF__INTERNAL teff_handler *const *teff__type_table_slow(const teff__type *type,
                                                          const teff_interface *of);

/*
 * The handlers that the type has for an interface, or NULL. One compare where it is the type's
 * first; further ones, and the same interface defined again in another library, are found by the
 * slow path.
 */
static inline teff_handler *const *teff__type_table(const teff__type *type,
                                                    const teff_interface *of)
{
    return TEFF__LIKELY(of == type->first_of) ? type->first_table : teff__type_table_slow(type, of);
}

#endif
