/* SPDX-License-Identifier: MIT */
/*
 * References: the name of a grain, as a plain value of 64 bytes. Copy it, keep it in a grain's
 * state, send it. It keeps nothing alive: a grain exists when it is called. The typed ones
 * (`hello_ref`) that TEFF_INTERFACE makes hold one.
 *
 * A call remembers in `route` the way that it found, so stubs take a reference's address. Each
 * thread, and each turn of several that run at once, uses a copy of its own.
 */
#ifndef TEFF_REFERENCE_H
#define TEFF_REFERENCE_H

#include "teff/export.h"
#include "teff/key.h"

#include <stdbool.h>
#include <stdint.h>

/* A name, meant as text: two with equal characters are the same name wherever they stand. */
typedef struct teff_name {
    const char *text; /* ends with NUL; borrowed for as long as the name is used */
} teff_name;

/* The grain of that type, and of that key. */
typedef struct teff_ref {
    const teff_name *type; /* borrowed for as long as the reference is used */
    uint64_t route;        /* the runtime's hint; 0 in a reference made by hand */
    teff_key key;          /* which grain of the type */
} teff_ref;

TEFF__ASSERT(sizeof(teff_ref) == 64, "a reference has 64 bytes");

/*
 * Whether both name the same grain: the text of the type's name and the key; `route` is no part of
 * it. A zeroed reference names no grain and equals only another one.
 *
 * Threads: any.
 */
TEFF_EXPORT bool teff_ref_equal(const teff_ref *a, const teff_ref *b);

#endif
