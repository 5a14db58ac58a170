/* SPDX-License-Identifier: MIT */
/*
 * Keys: what tells the grains of one type apart. A number of 64 bits, a number of 128 bits, or a
 * text of 1 to 46 bytes; a longer name goes through teff_key_digest. Keys are plain values: copy,
 * store and send them.
 *
 * Keys of different kinds are different keys, also where their bytes agree: the number 7 of 64
 * bits, that of 128 bits, and any text name three grains.
 */
#ifndef TEFF_KEY_H
#define TEFF_KEY_H

#include "teff/export.h"

#include <stddef.h>
#include <stdint.h>

/* The longest text that is a key itself, in bytes. */
enum { TEFF_KEY_TEXT_MAX = 46 };

/* The kinds of keys, and what they hold. */
enum {
    TEFF_KEY_U64 = 1,  /* size 8:       the number, its lowest byte first */
    TEFF_KEY_U128 = 2, /* size 16:      the number, its lowest byte first */
    TEFF_KEY_TEXT = 3  /* size 1 to 46: any bytes, as given; no NUL is added */
};

/* One made by hand is as above, and zero behind its `size` bytes; else calls are TEFF_EINVAL. */
typedef struct teff_key {
    uint8_t kind, size;            /* TEFF_KEY_U64, …; and how many of the bytes count */
    char bytes[TEFF_KEY_TEXT_MAX]; /* as the kind says, then zeroes */
} teff_key;

/* The key of a number of 64 bits. Threads: any. */
TEFF_EXPORT teff_key teff_key_u64(uint64_t key);

/*
 * The number that teff_key_u64 was given.
 *
 * Threads: any.
 * Errors:  TEFF_EINVAL: the key is of another kind; *ret is then untouched.
 */
TEFF_EXPORT int teff_key_get_u64(const teff_key *key, uint64_t *ret);

/* The number high * 2^64 + low. Threads: any. */
TEFF_EXPORT teff_key teff_key_u128(uint64_t high, uint64_t low);

/*
 * The key of a text, which need not end with NUL and may hold any bytes; they are compared as they
 * are.
 *
 * Ownership: copies `text`.
 * Threads:   any.
 * Errors:    TEFF_EINVAL: `text` is NULL, or `size` is 0 or over TEFF_KEY_TEXT_MAX. *ret is then
 *            untouched.
 */
TEFF_EXPORT int teff_key_text(const char *text, size_t size, teff_key *ret);

/*
 * A 128-bit key for a name of any length: the BLAKE2b digest of 16 bytes (RFC 7693, without a key),
 * the first byte being the highest of the number. The same everywhere and for ever:
 * `printf %s NAME | b2sum -l 128` prints it.
 *
 * To find two names of one key takes about 2^64 digests; that any two of a billion names share one
 * by accident is one chance in 10^20.
 *
 * Ownership: borrows `data` until it returns; NULL is allowed when `size` is 0.
 * Threads:   any.
 * Time:      about 0.25 µs for each 128 bytes begun.
 */
TEFF_EXPORT teff_key teff_key_digest(const void *data, size_t size);

#endif
