/* SPDX-License-Identifier: MIT */
/*
 * Keys: their bytes, who equals whom, the digest against b2sum's, and the hash against the patterns
 * that users' keys have. Seeds are fixed, so a pattern that passes passes always.
 */
#include "grains/key.h"

#include "teff/status.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static teff_key text_key(const char *text)
{
    teff_key key;
    cr_assert_eq(teff_key_text(text, strlen(text), &key), TEFF_OK);
    return key;
}

static teff__hash_seed seed_of(uint64_t number)
{
    teff__chance chance;
    teff__hash_seed seed;
    teff__chance_init(&chance, number);
    teff__hash_seed_init(&seed, &chance);
    return seed;
}

/* --- Keys as bytes --- */

Test(key, a_number_is_stored_lowest_byte_first_and_the_rest_is_zero)
{
    const unsigned char small[48] = { 1, 8, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11 };
    const unsigned char large[48] = { 2,    16,   0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02,
                                      0x01, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11 };
    teff_key key = teff_key_u64(UINT64_C(0x1122334455667788));
    cr_assert_arr_eq(&key, small, 48);
    key = teff_key_u128(UINT64_C(0x1112131415161718), UINT64_C(0x0102030405060708));
    cr_assert_arr_eq(&key, large, 48);
}

Test(key, a_text_is_stored_as_given_and_the_rest_is_zero)
{
    const unsigned char bytes[48] = { 3, 3, 'a', 0, 'b' };
    teff_key key;
    memset(&key, 0xff, sizeof(key));
    cr_assert_eq(teff_key_text("a\0b", 3, &key), TEFF_OK);
    cr_assert_arr_eq(&key, bytes, 48);
}

Test(key, a_text_has_1_to_46_bytes_and_on_failure_the_key_is_untouched)
{
    const char text[] = "0123456789012345678901234567890123456789012345";
    teff_key key = teff_key_u64(5), before = key;
    cr_assert_eq(sizeof(text) - 1, 46);
    cr_assert_eq(teff_key_text(NULL, 3, &key), TEFF_EINVAL);
    cr_assert_eq(teff_key_text(NULL, 0, &key), TEFF_EINVAL);
    cr_assert_eq(teff_key_text("", 0, &key), TEFF_EINVAL);
    cr_assert_eq(teff_key_text("01234567890123456789012345678901234567890123456", 47, &key),
                 TEFF_EINVAL);
    cr_assert_eq(teff_key_text(text, SIZE_MAX, &key), TEFF_EINVAL);
    cr_assert_arr_eq(&key, &before, sizeof(key));
    cr_assert_eq(teff_key_text("x", 1, &key), TEFF_OK);
    cr_assert_eq(key.size, 1);
    cr_assert_eq(teff_key_text(text, 46, &key), TEFF_OK);
    cr_assert_eq(key.size, 46);
    cr_assert_arr_eq(key.bytes, text, 46);
}

Test(key, equal_bytes_of_different_kinds_or_sizes_are_different_keys)
{
    teff_key seven = teff_key_u64(7), wide = teff_key_u128(0, 7), text, longer;
    cr_assert_eq(teff_key_text("\7\0\0\0\0\0\0\0", 8, &text), TEFF_OK);
    cr_assert_eq(teff_key_text("\7\0\0\0\0\0\0\0\0", 9, &longer), TEFF_OK);
    cr_assert_arr_eq(seven.bytes, text.bytes, 46);
    cr_assert_arr_eq(seven.bytes, wide.bytes, 46);
    cr_assert_not(teff__key_equal(&seven, &wide));
    cr_assert_not(teff__key_equal(&seven, &text));
    cr_assert_not(teff__key_equal(&text, &longer));
    teff_key again = teff_key_u64(7);
    cr_assert(teff__key_equal(&seven, &again));
}

Test(key, one_bit_anywhere_makes_another_key)
{
    teff_key a = text_key("a name of forty-six bytes, which is the limit."), b = a;
    cr_assert_eq(a.size, 46);
    cr_assert(teff__key_equal(&a, &b));
    for (unsigned bit = 0; bit < 8 * sizeof(b); bit++) {
        ((unsigned char *)&b)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        cr_assert_not(teff__key_equal(&a, &b), "bit %u", bit);
        b = a;
    }
}

Test(key, what_the_constructors_make_is_valid_and_what_differs_is_not)
{
    teff_key number = teff_key_u64(UINT64_MAX), wide = teff_key_u128(1, 2), text = text_key("x");
    teff_key full = text_key("0123456789012345678901234567890123456789012345"), key = { 0 };
    cr_assert(teff__key_valid(&number) && teff__key_valid(&wide) && teff__key_valid(&text) &&
              teff__key_valid(&full));
    cr_assert_not(teff__key_valid(&key), "zeroed: no kind");
    key = number, key.kind = 4;
    cr_assert_not(teff__key_valid(&key), "an unknown kind");
    key = number, key.size = 7, key.bytes[7] = 0;
    cr_assert_not(teff__key_valid(&key), "a number of 7 bytes");
    key = wide, key.kind = TEFF_KEY_U64;
    cr_assert_not(teff__key_valid(&key), "64 bits of 16 bytes");
    key = number, key.kind = TEFF_KEY_U128;
    cr_assert_not(teff__key_valid(&key), "128 bits of 8 bytes");
    key = text, key.size = 0, key.bytes[0] = 0;
    cr_assert_not(teff__key_valid(&key), "no text");
    key = full, key.size = 47;
    cr_assert_not(teff__key_valid(&key), "a text over the end");
    key = number, key.bytes[8] = 1;
    cr_assert_not(teff__key_valid(&key), "the first byte behind a number");
    key = text, key.bytes[45] = 1;
    cr_assert_not(teff__key_valid(&key), "the last byte behind a text");
}

/* --- Printing --- */

static void expect_print(const teff_key *key, const char *expected)
{
    char buffer[TEFF__KEY_PRINT_MAX];
    cr_assert_eq(teff__key_print(key, buffer, sizeof(buffer)), (int)strlen(expected));
    cr_assert_str_eq(buffer, expected);
}

Test(key, keys_print_for_people)
{
    teff_key key = teff_key_u64(0);
    expect_print(&key, "0");
    key = teff_key_u64(UINT64_MAX);
    expect_print(&key, "18446744073709551615");
    key = teff_key_u128(0x2a, 1);
    expect_print(&key, "000000000000002a0000000000000001");
    key = text_key("general");
    expect_print(&key, "\"general\"");
    key = text_key("a\"b\\c\n\x7f t\xc3\xa9");
    expect_print(&key, "\"a\\\"b\\\\c\\x0a\\x7f t\xc3\xa9\"");
    key.size = 0;
    expect_print(&key, "?");
}

Test(key, a_text_escaped_throughout_fits_the_buffer_and_a_short_buffer_cuts_it)
{
    char text[46], buffer[TEFF__KEY_PRINT_MAX], small[4];
    teff_key key;
    memset(text, 1, sizeof(text));
    cr_assert_eq(teff_key_text(text, sizeof(text), &key), TEFF_OK);
    cr_assert_eq(teff__key_print(&key, buffer, sizeof(buffer)), 186);
    cr_assert_eq(strlen(buffer), 186);
    cr_assert_str_eq(buffer + 177, "\\x01\\x01\"");
    cr_assert_eq(teff__key_print(&key, small, sizeof(small)), 186);
    cr_assert_str_eq(small, "\"\\x");
    cr_assert_eq(teff__key_print(&key, NULL, 0), 186);
}

/* --- The digest --- */

/* Expected: hashlib.blake2b(bytes, digest_size=16) of Python 3.11; that of "abc" also by b2sum. */
Test(key, a_digest_is_blake2b_of_16_bytes)
{
    static const struct {
        size_t size;
        const char *hex;
    } cases[] = {
        { 0, "cae66941d9efbd404e4d88758ea67670" },    { 1, "71b186b851e866e71be237342976049a" },
        { 8, "da1486eeb8bc4aea8344e768b5214a67" },    { 47, "735f8a555718c1f5d337acefabc8e76f" },
        { 127, "e00ab0ead4d729de8fbe7745d642e416" },  { 128, "8e0cf9bb1b36fa6c42aa6490f719b575" },
        { 129, "6cefde50e4008690e61cf8225d101256" },  { 255, "b1bce9f0dc0bec101cd5e09b7961937c" },
        { 256, "ac60b0f8b3227af67328401630cd4dfa" },  { 257, "7e5b16bfede2940cbed4da50b56da597" },
        { 1000, "add263669b4eb2158678a360fa6f007a" },
    };
    unsigned char *bytes = malloc(1000);
    for (unsigned i = 0; i < 1000; i++)
        bytes[i] = (unsigned char)(i * 7 + 3);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        /* to the end of the block, so that the address sanitizer sees a read past it */
        teff_key key = teff_key_digest(bytes + 1000 - cases[i].size, cases[i].size);
        if (cases[i].size != 1000) {
            unsigned char *copy = malloc(cases[i].size + 1);
            memcpy(copy, bytes, cases[i].size);
            key = teff_key_digest(copy, cases[i].size);
            free(copy);
        }
        expect_print(&key, cases[i].hex);
    }
    free(bytes);
    teff_key abc = teff_key_digest("abc", 3);
    teff_key expected = teff_key_u128(UINT64_C(0xcf4ab791c62b8d2b), UINT64_C(0x2109c90275287816));
    cr_assert(teff__key_equal(&abc, &expected));
    teff_key nothing = teff_key_digest(NULL, 0);
    expect_print(&nothing, "cae66941d9efbd404e4d88758ea67670");
}

/* --- The hash --- */

enum { KEYS = 1 << 18, BUCKETS = 1 << 16, SEEDS = 6 };

typedef teff_key pattern(uint64_t i);

static teff_key format_key(const char *format, uint64_t i)
{
    char text[64];
    int size = snprintf(text, sizeof(text), format, (unsigned long long)i);
    teff_key key;
    cr_assert_eq(teff_key_text(text, (size_t)size, &key), TEFF_OK);
    return key;
}

/* Spreads the lowest 18 bits over all 64, so that keys differ in few bits, far apart. */
static uint64_t scatter(uint64_t i)
{
    uint64_t spread = 0;
    for (unsigned bit = 0; bit < 18; bit++)
        spread |= (i >> bit & 1) << (bit * 7 % 64);
    return spread;
}

/* clang-format off */
static teff_key sequential(uint64_t i) { return teff_key_u64(i); }
static teff_key descending(uint64_t i) { return teff_key_u64(UINT64_MAX - i); }
static teff_key stride_8(uint64_t i) { return teff_key_u64(i << 3); }
static teff_key stride_4096(uint64_t i) { return teff_key_u64(i << 12); }
static teff_key stride_2_16(uint64_t i) { return teff_key_u64(i << 16); }
static teff_key stride_2_32(uint64_t i) { return teff_key_u64(i << 32); }
static teff_key stride_2_46(uint64_t i) { return teff_key_u64(i << 46); }
static teff_key thousands(uint64_t i) { return teff_key_u64(i * 1000); }
static teff_key millions(uint64_t i) { return teff_key_u64(i * 1000000 + 7); }
static teff_key scattered(uint64_t i) { return teff_key_u64(scatter(i)); }
static teff_key grid(uint64_t i) { return teff_key_u64((i >> 9) << 32 | (i & 511)); }
static teff_key wide_low(uint64_t i) { return teff_key_u128(1, i); }
static teff_key wide_high(uint64_t i) { return teff_key_u128(i, 1); }
static teff_key wide_both(uint64_t i) { return teff_key_u128(i, i); }
static teff_key decimal(uint64_t i) { return format_key("%llu", i); }
static teff_key prefixed(uint64_t i) { return format_key("user-%08llu", i); }
static teff_key suffixed(uint64_t i) { return format_key("%06llu@example.org", i); }
static teff_key long_first(uint64_t i)
{ return format_key("%06llu-device-in-a-house-of-many", i); }
static teff_key long_middle(uint64_t i)
{ return format_key("device-in-a-house-%06llu-of-many", i); }
static teff_key long_last(uint64_t i)
{ return format_key("device-in-a-house-of-many-%06llu", i); }
static teff_key uuid(uint64_t i) { return format_key("6f0f8a3c-91d2-4b6e-8e00-%012llx", i); }
/* clang-format on */

static const struct {
    const char *name;
    pattern *key;
} patterns[] = {
    { "sequential", sequential },
    { "descending", descending },
    { "stride 8", stride_8 },
    { "stride 4096", stride_4096 },
    { "stride 2^16", stride_2_16 },
    { "stride 2^32", stride_2_32 },
    { "stride 2^46", stride_2_46 },
    { "thousands", thousands },
    { "millions", millions },
    { "scattered", scattered },
    { "grid", grid },
    { "128, low", wide_low },
    { "128, high", wide_high },
    { "128, both", wide_both },
    { "decimal", decimal },
    { "prefix", prefixed },
    { "suffix", suffixed },
    { "long, first", long_first },
    { "long, middle", long_middle },
    { "long, last", long_last },
    { "uuid", uuid },
};
enum { PATTERNS = sizeof(patterns) / sizeof(patterns[0]) };

/*
 * 2^18 keys in 2^16 buckets, 4 in each on average. Chi-square has then mean 65,535 and standard
 * deviation 362; six of those above are let pass (once in 10^9). The fullest bucket of a random
 * table has 16 to 19; 26 are let pass.
 */
static void expect_even(const uint64_t *hashes, unsigned shift, const char *what, unsigned seed)
{
    static uint16_t load[BUCKETS];
    uint64_t squares = 0;
    unsigned fullest = 0;
    memset(load, 0, sizeof(load));
    for (unsigned i = 0; i < KEYS; i++)
        load[(hashes[i] >> shift) % BUCKETS]++;
    for (unsigned i = 0; i < BUCKETS; i++) {
        squares += (uint64_t)load[i] * load[i];
        fullest = load[i] > fullest ? load[i] : fullest;
    }
    double chi_square = (double)squares / 4 - KEYS;
    cr_expect(chi_square < 65535 + 6 * 362, "%s, seed %u, bits from %u: chi-square %.0f", what,
              seed, shift, chi_square);
    cr_expect(fullest <= 26, "%s, seed %u, bits from %u: %u in one bucket", what, seed, shift,
              fullest);
}

Test(key, no_pattern_of_keys_fills_some_buckets_more_than_others, .timeout = 120)
{
    teff_key *keys = malloc(KEYS * sizeof(*keys));
    uint64_t *hashes = malloc(KEYS * sizeof(*hashes));
    for (unsigned p = 0; p < PATTERNS; p++) {
        for (unsigned i = 0; i < KEYS; i++)
            keys[i] = patterns[p].key(i);
        for (unsigned s = 1; s <= SEEDS; s++) {
            teff__hash_seed seed = seed_of(s);
            for (unsigned i = 0; i < KEYS; i++)
                hashes[i] = teff__key_hash(&seed, 1, &keys[i]);
            expect_even(hashes, 0, patterns[p].name, s);
            expect_even(hashes, 24, patterns[p].name, s);
            expect_even(hashes, 48, patterns[p].name, s);
        }
    }
    free(hashes);
    free(keys);
}

/* 512 types of 512 keys each, which differ where the hash takes in the type, or elsewhere. */
static void expect_types_even(unsigned shift, const char *what)
{
    uint64_t *hashes = malloc(KEYS * sizeof(*hashes));
    for (unsigned s = 1; s <= SEEDS; s++) {
        teff__hash_seed seed = seed_of(s);
        for (unsigned i = 0; i < KEYS; i++) {
            teff_key key = teff_key_u64((uint64_t)(i / 512) << shift);
            hashes[i] = teff__key_hash(&seed, i % 512 + 1, &key);
        }
        expect_even(hashes, 0, what, s);
        expect_even(hashes, 24, what, s);
        expect_even(hashes, 48, what, s);
    }
    free(hashes);
}

Test(key, types_and_keys_together_fill_buckets_evenly)
{
    expect_types_even(0, "types of sequential keys");
    expect_types_even(48, "types of keys in steps of 2^48");
}

/*
 * How often each bit of the hash changes with one bit of key or type: half of 4096 times, give or
 * take 32 (one standard deviation); six and a half of those are let pass.
 */
static void expect_avalanche(unsigned size, bool text)
{
    enum { ROUNDS = 4096, OFF_MAX = 208 };
    teff__chance chance;
    teff__chance_init(&chance, 99);
    teff__hash_seed seed = seed_of(7);
    for (unsigned bit = 0; bit < 8 * size + 16; bit++) {
        int changed[64] = { 0 };
        for (unsigned round = 0; round < ROUNDS; round++) {
            char bytes[46];
            for (unsigned i = 0; i < size; i++)
                bytes[i] = (char)teff__chance_next(&chance);
            teff_key key = { .kind = text ? TEFF_KEY_TEXT : TEFF_KEY_U64, .size = (uint8_t)size };
            memcpy(key.bytes, bytes, size);
            uint32_t type = 1 + round % 64;
            uint64_t before = teff__key_hash(&seed, type, &key);
            if (bit < 8 * size)
                key.bytes[bit / 8] = (char)(key.bytes[bit / 8] ^ 1 << bit % 8);
            else
                type ^= 1u << (bit - 8 * size);
            uint64_t difference = before ^ teff__key_hash(&seed, type, &key);
            for (unsigned i = 0; i < 64; i++)
                changed[i] += (int)(difference >> i & 1);
        }
        for (unsigned i = 0; i < 64; i++)
            cr_assert(abs(changed[i] - ROUNDS / 2) < OFF_MAX,
                      "%u bytes: bit %u changes bit %u of the hash %d times of %d", size, bit, i,
                      changed[i], ROUNDS);
    }
}

Test(key, each_bit_of_key_and_type_changes_each_bit_of_the_hash_half_of_the_times, .timeout = 120)
{
    expect_avalanche(8, false);
    expect_avalanche(15, true);
    expect_avalanche(46, true);
}

Test(key, each_byte_of_a_text_of_any_length_counts)
{
    teff__hash_seed seed = seed_of(3);
    for (unsigned size = 1; size <= TEFF_KEY_TEXT_MAX; size++) {
        teff_key key = { .kind = TEFF_KEY_TEXT, .size = (uint8_t)size };
        uint64_t before = teff__key_hash(&seed, 1, &key);
        for (unsigned i = 0; i < size; i++) {
            key.bytes[i] = 1;
            cr_assert_neq(teff__key_hash(&seed, 1, &key), before, "%u of %u bytes", i, size);
            key.bytes[i] = 0;
        }
        key.size--; /* the same bytes, and one zero less */
        cr_assert_neq(teff__key_hash(&seed, 1, &key), before, "%u bytes or one less", size);
    }
}

Test(key, one_seed_repeats_and_another_gives_another_order)
{
    teff__hash_seed a = seed_of(1), same = seed_of(1), b = seed_of(2);
    unsigned shared = 0, ordered = 0;
    uint64_t last_a = 0, last_b = 0;
    for (unsigned i = 0; i < 10000; i++) {
        teff_key key = teff_key_u64(i);
        uint64_t hash_a = teff__key_hash(&a, 1, &key), hash_b = teff__key_hash(&b, 1, &key);
        cr_assert_eq(hash_a, teff__key_hash(&same, 1, &key));
        shared += hash_a % 1024 == hash_b % 1024;
        ordered += (hash_a < last_a) == (hash_b < last_b);
        last_a = hash_a, last_b = hash_b;
    }
    /* Unrelated orders share 10 of 10,000 buckets, and the order of half of the neighbours. */
    cr_assert_lt(shared, 40);
    cr_assert(4500 < ordered && ordered < 5500, "%u", ordered);
}

/* A search for such keys: all that share a bucket under one seed are spread by another. */
Test(key, keys_that_share_a_bucket_under_one_seed_do_not_under_another)
{
    enum { FOUND = 256 };
    teff__hash_seed a = seed_of(1), b = seed_of(2);
    uint64_t seen[16] = { 0 };
    unsigned found = 0, distinct = 0;
    for (uint64_t i = 0; found < FOUND; i++) {
        teff_key key = teff_key_u64(i);
        if (teff__key_hash(&a, 1, &key) % 1024 != 0)
            continue;
        found++;
        unsigned bucket = (unsigned)(teff__key_hash(&b, 1, &key) % 1024);
        distinct += (seen[bucket / 64] >> bucket % 64 & 1) == 0;
        seen[bucket / 64] |= UINT64_C(1) << bucket % 64;
    }
    /* 256 random choices of 1024 buckets hit 226 different ones, give or take 5. */
    cr_assert_gt(distinct, 200);
}

Test(key, a_number_is_read_back_from_its_key)
{
    const teff_key number = teff_key_u64(UINT64_C(0x0123456789abcdef)), wide = teff_key_u128(1, 2);
    uint64_t read = 7;
    cr_assert_eq(teff_key_get_u64(&number, &read), TEFF_OK);
    cr_assert_eq(read, UINT64_C(0x0123456789abcdef));
    cr_assert_eq(teff_key_get_u64(&wide, &read), TEFF_EINVAL);
    cr_assert_eq(teff_key_get_u64(NULL, &read), TEFF_EINVAL);
    cr_assert_eq(teff_key_get_u64(&number, NULL), TEFF_EINVAL);
    cr_assert_eq(read, UINT64_C(0x0123456789abcdef));
}
