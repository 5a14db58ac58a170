/* SPDX-License-Identifier: MIT */
/*
 * Buffers: counted, immutable bytes that travel with a call without being copied. What is larger
 * than a value may be, goes by one.
 *
 *     struct say { teff_bytes *text; uint64_t from; };
 *     #define ROOM_METHODS(METHOD, SELF)                                     \
 *         METHOD(SELF, say, struct say, struct said, TEFF_ARG_BYTES(1))
 *
 * They come first in an argument or result, and the row says how many there are; so whoever drops a
 * message can release them. NULL is the empty buffer, everywhere.
 *
 *   argument   the caller keeps its count, the runtime takes its own; the handler borrows the
 *              buffer until it returns, and takes a count to keep it longer
 *   result     the handler gives its count, on success only; the caller unrefs, also where the
 *              result comes to a completion function. Nobody asks for it: the runtime unrefs
 *
 * A buffer belongs to its silo and is freed before that: teff_silo_destroy returns the silo while
 * there are any. Counts of a turn's own that lost its stack when the silo stopped, or of a grain's
 * state whose `deactivate` did not run, stay; what the runtime held for such a turn it gives back.
 */
#ifndef TEFF_BYTES_H
#define TEFF_BYTES_H

#include "teff/export.h"
#include "teff/silo.h"

#include <stddef.h>

/* A buffer, known by its pointer; NULL is the empty one. */
typedef struct teff_bytes teff_bytes;

/*
 * Makes a buffer that holds a copy of `data`; of `size` 0: NULL, the empty one.
 *
 * Ownership: copies `data`; gives a count, free with teff_bytes_unref.
 * Threads:   any.
 * Suspends:  no.
 * Errors:    TEFF_EINVAL: `silo` or `ret` is NULL, or `data` is, and `size` is not 0.
 *            TEFF_EINVALIDSTATE: in a child that forked. TEFF_ENOMEM.
 */
TEFF_EXPORT int teff_bytes_create(teff_silo *silo, const void *data, size_t size, teff_bytes **ret);

/*
 * Its first byte; NULL for the empty one. Aligned to 16 bytes.
 *
 * Ownership: borrows it for as long as a count is held.
 * Threads:   any.
 */
TEFF_EXPORT const void *teff_bytes_data(const teff_bytes *bytes);

/* How many bytes it has; 0 for NULL. Threads: any. */
TEFF_EXPORT size_t teff_bytes_size(const teff_bytes *bytes);

/*
 * Takes one more count, and returns `bytes`.
 *
 * Ownership: gives a count, free with teff_bytes_unref.
 * Threads:   any that holds a count, or borrows one.
 */
TEFF_EXPORT teff_bytes *teff_bytes_ref(teff_bytes *bytes);

/*
 * Gives a count back; the last one frees the buffer. Returns NULL.
 *
 * Ownership: takes a count.
 * Threads:   any.
 */
TEFF_EXPORT teff_bytes *teff_bytes_unref(teff_bytes *bytes);

#endif
