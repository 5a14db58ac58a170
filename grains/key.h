/* SPDX-License-Identifier: MIT */
/*
 * Keys inside the runtime: checking, hashing and printing them; directory/key.h compares them.
 *
 * The hash is a seeded folded multiply of the wyhash family (Wang Yi, wyhash final version 4,
 * public domain): words of the key are mixed with secret words, multiplied 64 by 64 to 128 bits,
 * and the halves are mixed in turn.
 *
 * Why: the keys of a program are sequential, strided, or texts with common prefixes, and no such
 * pattern may degrade a table. Each bit of the result depends on each bit of the key, so a table
 * may take the low, the high or any other bits. Why not SipHash: on the reference machine it
 * (SipHash-2-4) takes 9 ns for a number and 23 for 46 bytes, where this takes 1 and 3.
 *
 * What the seed does: four words, drawn from the silo's chance when it is created, so that nobody
 * outside knows which keys share a bucket, and keys that collide in one silo do not in another.
 * What it does not promise: this is no cryptographic function. Somebody who chooses keys *and*
 * times single look-ups closely enough may learn collisions, so tables must stay correct, if
 * slower, when keys collide. The four words are as secret as the chance behind them: 64 bits, and
 * splitmix64 runs backwards, so whoever sees one number of it knows all. No hash is stored or sent.
 */
#ifndef TEFF_GRAINS_KEY_H
#define TEFF_GRAINS_KEY_H

#include "directory/key.h"
#include "runtime/assert.h"
#include "runtime/chance.h"
#include "teff/key.h"

#include <stdbool.h>
#include <string.h>

/* A text that is escaped throughout, its quotes and NUL. */
enum { TEFF__KEY_PRINT_MAX = 4 * TEFF_KEY_TEXT_MAX + 3 };

typedef struct teff__hash_seed {
    uint64_t secret[4];
} teff__hash_seed;

TEFF__INTERNAL void teff__hash_seed_init(teff__hash_seed *seed, teff__chance *chance);

/* Whether the kind is known, the size fits it and all behind is zero, as equality and hash need. */
TEFF__INTERNAL bool teff__key_valid(const teff_key *key);

/*
 * Writes a key for people: 42, 000000000000002a0000000000000001 or "general" (with \" \\ \xNN where
 * needed), cut to `size` bytes with the NUL. Returns the length that it has uncut, as snprintf
 * does. An invalid key is "?".
 */
TEFF__INTERNAL int teff__key_print(const teff_key *key, char *buffer, size_t size);

__extension__ typedef unsigned __int128 teff__u128;

/* The hash of a grain id: type and key. Reads the pairs of words that the key's size reaches. */
static inline uint64_t teff__key_hash(const teff__hash_seed *seed, uint32_t type,
                                      const teff_key *key)
{
    const uint64_t *secret = seed->secret;
    uint64_t chain = secret[1] ^ type * secret[3];
    unsigned word = 0;
    teff__u128 product;
    teff_assert_slow(key->size <= TEFF_KEY_TEXT_MAX);

    /* Kind and size lie in word 0 and are hashed as the rest; 14 bytes fit into the first pair. */
    for (unsigned bytes = 2u + key->size; bytes > 16; bytes -= 16, word += 2) {
        product = (teff__u128)(teff__key_word(key, word) ^ secret[0]) *
                  (teff__key_word(key, word + 1) ^ chain);
        chain = (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    product = (teff__u128)(teff__key_word(key, word) ^ secret[0]) *
              (teff__key_word(key, word + 1) ^ chain);
    product = (teff__u128)((uint64_t)product ^ secret[2]) * ((uint64_t)(product >> 64) ^ secret[3]);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
