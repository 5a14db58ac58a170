/* SPDX-License-Identifier: MIT */
/*
 * Comparing keys: what every table of grains does in its innermost loop.
 */
#ifndef TEFF_DIRECTORY_KEY_H
#define TEFF_DIRECTORY_KEY_H

#include "teff/key.h"

#include <stdbool.h>
#include <string.h>

_Static_assert(sizeof(teff_key) == 48 && offsetof(teff_key, bytes) == 2,
               "keys are compared and hashed as six words");

static inline uint64_t teff__key_word(const teff_key *key, unsigned index)
{
    uint64_t word;
    memcpy(&word, (const char *)key + 8 * index, sizeof(word));
    return word;
}

/*
 * Over all 48 bytes; kind and size are among them. Written out: as a loop it would be made one of
 * vectors, which is dear.
 */
static inline bool teff__key_equal(const teff_key *a, const teff_key *b)
{
    return teff__key_word(a, 0) == teff__key_word(b, 0) &&
           teff__key_word(a, 1) == teff__key_word(b, 1) &&
           teff__key_word(a, 2) == teff__key_word(b, 2) &&
           teff__key_word(a, 3) == teff__key_word(b, 3) &&
           teff__key_word(a, 4) == teff__key_word(b, 4) &&
           teff__key_word(a, 5) == teff__key_word(b, 5);
}

typedef uint64_t teff__key_pair __attribute__((vector_size(16)));

static inline teff__key_pair teff__key_words(const teff_key *key, unsigned index)
{
    teff__key_pair words;
    memcpy(&words, (const char *)key + 8 * index, sizeof(words));
    return words;
}

/*
 * The same for keys that were not written just now, as those behind a hint: the last four words two
 * at a time, four reads of memory less. Right behind small writes such a read would have to wait.
 */
static inline bool teff__key_equal_settled(const teff_key *a, const teff_key *b)
{
    const teff__key_pair differs = (teff__key_words(a, 2) ^ teff__key_words(b, 2)) |
                                   (teff__key_words(a, 4) ^ teff__key_words(b, 4));
    return teff__key_word(a, 0) == teff__key_word(b, 0) &&
           teff__key_word(a, 1) == teff__key_word(b, 1) && (differs[0] | differs[1]) == 0;
}

#endif
