/* SPDX-License-Identifier: MIT */
/*
 * Structures of a user's that say their own size first, so that programs compiled against another
 * release still fit.
 */
#ifndef TEFF_RUNTIME_SIZED_H
#define TEFF_RUNTIME_SIZED_H

#include "runtime/assert.h"

#include <stddef.h>

/*
 * Copies a structure that begins with its size (`struct_size`) into one of `size` bytes: what an
 * older layout lacks becomes zero; what a newer one has more must be zero, as we do not know what
 * it asks for. `size_min` is the smallest layout that there has been. A new member goes behind the
 * old size, never into its padding.
 *
 * TEFF_EINVAL, with *ret untouched.
 */
TEFF__INTERNAL int teff__sized_copy(void *ret, size_t size, size_t size_min, const void *from);

/*
 * The other way round: fills in a structure of the program's, which says its size, from one of
 * `size` bytes that begins with that same size. What a newer layout has more becomes zero.
 *
 * TEFF_EINVAL, with *ret untouched.
 */
TEFF__INTERNAL int teff__sized_give(void *ret, size_t size, size_t size_min, const void *from);

#endif
