/* SPDX-License-Identifier: MIT */
/*
 * Keys: made, digested, checked and printed. Their bytes are the same on every machine, so numbers
 * are stored with the lowest byte first, and whatever lies behind a key's size is zero: equality
 * and hash read it.
 */
#include "grains/key.h"

#include "teff/status.h"

#include <inttypes.h>
#include <stdio.h>

static void store_le64(char *to, uint64_t number)
{
    for (unsigned i = 0; i < 8; i++)
        to[i] = (char)(unsigned char)(number >> 8 * i);
}

static uint64_t load_le64(const void *from)
{
    const unsigned char *bytes = from;
    uint64_t number = 0;
    for (unsigned i = 0; i < 8; i++)
        number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

teff_key teff_key_u64(uint64_t key)
{
    teff_key made = { .kind = TEFF_KEY_U64, .size = 8 };
    store_le64(made.bytes, key);
    return made;
}

int teff_key_get_u64(const teff_key *key, uint64_t *ret)
{
    if (key == NULL || ret == NULL || key->kind != TEFF_KEY_U64)
        return TEFF_EINVAL;
    *ret = load_le64(key->bytes);
    return TEFF_OK;
}

teff_key teff_key_u128(uint64_t high, uint64_t low)
{
    teff_key made = { .kind = TEFF_KEY_U128, .size = 16 };
    store_le64(made.bytes, low);
    store_le64(made.bytes + 8, high);
    return made;
}

int teff_key_text(const char *text, size_t size, teff_key *ret)
{
    if (text == NULL || size == 0 || size > TEFF_KEY_TEXT_MAX || ret == NULL)
        return TEFF_EINVAL;
    teff_key made = { .kind = TEFF_KEY_TEXT, .size = (uint8_t)size };
    memcpy(made.bytes, text, size);
    *ret = made;
    return TEFF_OK;
}

/*
 * BLAKE2b, RFC 7693. Chosen because names may come from strangers, who must not be able to make two
 * of them one grain (SipHash with a published key promises nothing there), because every language
 * and `b2sum` have it, and because on 64-bit machines it is the fastest of that strength.
 */
enum { BLAKE2B_BLOCK = 128, BLAKE2B_ROUNDS = 12, DIGEST_BYTES = 16 };

static const uint64_t blake2b_iv[8] = {
    UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b), UINT64_C(0x3c6ef372fe94f82b),
    UINT64_C(0xa54ff53a5f1d36f1), UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
    UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179),
};

/* The order in which each round takes the words of the block; rounds 10 and 11 repeat 0 and 1. */
static const uint8_t blake2b_sigma[10][16] = {
    { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
    { 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3 },
    { 11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4 },
    { 7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8 },
    { 9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13 },
    { 2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9 },
    { 12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11 },
    { 13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10 },
    { 6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5 },
    { 10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0 },
};

static inline uint64_t rotate_right(uint64_t word, unsigned bits)
{
    return word >> bits | word << (64 - bits);
}

static inline void blake2b_mix(uint64_t v[16], unsigned a, unsigned b, unsigned c, unsigned d,
                               uint64_t x, uint64_t y)
{
    v[a] += v[b] + x;
    v[d] = rotate_right(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = rotate_right(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = rotate_right(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotate_right(v[b] ^ v[c], 63);
}

/* `done`: how many bytes there are up to the end of this block. */
static void blake2b_compress(uint64_t h[8], const unsigned char *block, uint64_t done, bool last)
{
    uint64_t m[16], v[16];
    for (unsigned i = 0; i < 16; i++)
        m[i] = load_le64(block + 8 * i);
    for (unsigned i = 0; i < 8; i++) {
        v[i] = h[i];
        v[i + 8] = blake2b_iv[i];
    }
    v[12] ^= done;
    v[14] ^= last ? UINT64_MAX : 0;
    for (unsigned round = 0; round < BLAKE2B_ROUNDS; round++) {
        const uint8_t *s = blake2b_sigma[round % 10];
        blake2b_mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]); /* columns */
        blake2b_mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
        blake2b_mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
        blake2b_mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
        blake2b_mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]); /* diagonals */
        blake2b_mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
        blake2b_mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
        blake2b_mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (unsigned i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

teff_key teff_key_digest(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    size = data != NULL ? size : 0;
    unsigned char block[BLAKE2B_BLOCK] = { 0 };
    uint64_t h[8];
    memcpy(h, blake2b_iv, sizeof(h));
    h[0] ^= UINT64_C(0x01010000) ^ DIGEST_BYTES; /* parameters: no key, fan-out 1, depth 1 */

    size_t left = size;
    for (; left > BLAKE2B_BLOCK; left -= BLAKE2B_BLOCK, bytes += BLAKE2B_BLOCK)
        blake2b_compress(h, bytes, size - left + BLAKE2B_BLOCK, false);
    if (left != 0)
        memcpy(block, bytes, left); /* the last block, full or not, is filled up with zeroes */
    blake2b_compress(h, block, size, true);

    /* The digest is h[0], h[1] lowest byte first; its first byte is the number's highest. */
    return teff_key_u128(__builtin_bswap64(h[0]), __builtin_bswap64(h[1]));
}

void teff__hash_seed_init(teff__hash_seed *seed, teff__chance *chance)
{
    for (unsigned i = 0; i < 4; i++)
        seed->secret[i] = teff__chance_next(chance);
}

bool teff__key_valid(const teff_key *key)
{
    static const teff_key zero;
    bool fits = (key->kind == TEFF_KEY_U64 && key->size == 8) ||
                (key->kind == TEFF_KEY_U128 && key->size == 16) ||
                (key->kind == TEFF_KEY_TEXT && key->size >= 1 && key->size <= TEFF_KEY_TEXT_MAX);
    return fits &&
           memcmp(key->bytes + key->size, zero.bytes, (size_t)TEFF_KEY_TEXT_MAX - key->size) == 0;
}

static int print_text(const teff_key *key, char *buffer, size_t size)
{
    char text[TEFF__KEY_PRINT_MAX];
    size_t length = 0;
    text[length++] = '"';
    for (unsigned i = 0; i < key->size; i++) {
        unsigned char c = (unsigned char)key->bytes[i];
        if (c < 0x20 || c == 0x7f) { /* bytes from 0x80 on are taken for UTF-8 */
            length += (size_t)snprintf(text + length, sizeof(text) - length, "\\x%02x", c);
            continue;
        }
        if (c == '"' || c == '\\')
            text[length++] = '\\';
        text[length++] = (char)c;
    }
    text[length++] = '"';
    return snprintf(buffer, size, "%.*s", (int)length, text);
}

int teff__key_print(const teff_key *key, char *buffer, size_t size)
{
    if (!teff__key_valid(key))
        return snprintf(buffer, size, "?");
    if (key->kind == TEFF_KEY_TEXT)
        return print_text(key, buffer, size);
    uint64_t low = load_le64(key->bytes);
    if (key->kind == TEFF_KEY_U64)
        return snprintf(buffer, size, "%" PRIu64, low);
    return snprintf(buffer, size, "%016" PRIx64 "%016" PRIx64, load_le64(key->bytes + 8), low);
}
