/* SPDX-License-Identifier: MIT */
/* The grain directory: one valid record for each grain, whoever registers. */
#include "directory/directory.h"

#include "teff/status.h"

#include <criterion/criterion.h>

static teff__memory memory;
static teff__directory directory;

static void begin(void)
{
    teff__memory_init(&memory, 0);
    teff__directory_init(&directory, &memory);
}

/* teff_assert: Criterion's own asserts count for nothing after the test. */
static void end(void)
{
    teff__directory_finish(&directory);
    teff_assert(teff__atomic_u64_load_relaxed(&memory.bytes) == 0);
}

TestSuite(directory, .init = begin, .fini = end);

static teff__grain_record record(uint64_t key, uint64_t hash, uint64_t address)
{
    return (teff__grain_record){
        .key = teff_key_u64(key), .type = 1, .hash = hash, .address = address
    };
}

static uint64_t registered(teff__grain_record *one)
{
    uint64_t address = 0;
    cr_assert_eq(teff__directory_register(&directory, one, 0, &address), 0);
    return address;
}

static uint64_t find(const teff__grain_record *one)
{
    return teff__directory_find(&directory, one->hash, one->type, &one->key);
}

Test(directory, a_grain_that_nobody_registered_has_no_address)
{
    teff__grain_record one = record(1, 11, 100);
    cr_assert_eq(find(&one), 0);
    cr_assert_eq(teff__directory_count(&directory), 0);
}

Test(directory, the_first_to_register_is_valid_and_the_next_is_told_who)
{
    teff__grain_record first = record(1, 11, 100), second = record(1, 11, 200);
    cr_assert_eq(registered(&first), 100);
    cr_assert_eq(registered(&second), 100);
    cr_assert_eq(find(&second), 100);
    cr_assert_eq(teff__directory_count(&directory), 1);
}

Test(directory, after_the_valid_one_has_gone_another_may_register)
{
    teff__grain_record first = record(1, 11, 100), second = record(1, 11, 200);
    cr_assert_eq(registered(&first), 100);
    teff__directory_unregister(&directory, &first);
    cr_assert_eq(find(&first), 0);
    cr_assert_eq(registered(&second), 200);
    cr_assert_eq(teff__directory_count(&directory), 1);
}

Test(directory, replacing_gives_the_same_record_another_address)
{
    teff__grain_record one = record(1, 11, 100), second = record(1, 11, 200);
    cr_assert_eq(registered(&one), 100);
    teff__directory_replace(&directory, &one, 300);
    cr_assert_eq(one.address, 300);
    cr_assert_eq(find(&one), 300);
    cr_assert_eq(registered(&second), 300);
}

Test(directory, types_keys_and_shards_are_told_apart)
{
    /* The first six bits of a hash choose the shard. */
    teff__grain_record a = record(1, 11, 1), b = record(2, 11, 2), c = record(1, 11, 3),
                       d = record(1, UINT64_C(11) | UINT64_C(63) << 58, 4);
    c.type = 2;
    cr_assert_eq(registered(&a), 1);
    cr_assert_eq(registered(&b), 2);
    cr_assert_eq(registered(&c), 3);
    cr_assert_eq(registered(&d), 4);
    cr_assert_eq(teff__directory_count(&directory), 4);
    cr_assert_eq(directory.shards[0].table.count, 3);
    cr_assert_eq(directory.shards[63].table.count, 1);
    teff__directory_unregister(&directory, &b);
    cr_assert_eq(find(&a), 1);
    cr_assert_eq(find(&b), 0);
    cr_assert_eq(find(&c), 3);
    cr_assert_eq(find(&d), 4);
    cr_assert_eq(teff__directory_count(&directory), 3);
}

Test(directory, a_grain_is_found_by_its_hash_alone)
{
    /* the second has the first one's place in the table, and another hash */
    teff__grain_record first = record(1, 11, 100), second = record(2, 11 + 16 * 1024, 200), found;
    cr_assert_not(teff__directory_find_hash(&directory, 11, &found));
    cr_assert_eq(registered(&first), 100);
    cr_assert_eq(registered(&second), 200);
    cr_assert(teff__directory_find_hash(&directory, second.hash, &found));
    cr_assert_eq(found.address, 200);
    cr_assert(teff__directory_find_hash(&directory, 11, &found));
    cr_assert_eq(found.address, 100);
    cr_assert_not(teff__directory_find_hash(&directory, 11 + 32 * 1024, &found));
    teff__directory_unregister(&directory, &first);
    teff__directory_unregister(&directory, &second);
    cr_assert_not(teff__directory_find_hash(&directory, 11, &found));
}

Test(directory, without_memory_nothing_is_registered)
{
    uint64_t address = 4711;
    teff__grain_record one = record(1, 11, 100);
    teff__memory_fail_at(&memory, 1);
    cr_assert_eq(teff__directory_register(&directory, &one, 0, &address), TEFF_ENOMEM);
    cr_assert_eq(address, 4711);
    cr_assert_eq(find(&one), 0);
    cr_assert_eq(registered(&one), 100);
}

Test(directory, finishing_it_twice_is_allowed)
{
    teff__grain_record one = record(1, 11, 100);
    cr_assert_eq(registered(&one), 100);
    teff__directory_finish(&directory);
    cr_assert_null(directory.memory);
}
