/* SPDX-License-Identifier: MIT */
/*
 * The table of grains: growth, collisions, and removal without a trace, beside a plain array as the
 * model.
 */
#include "directory/table.h"

#include "runtime/chance.h"

#include "teff/status.h"

#include <criterion/criterion.h>

enum { GRAINS = 300 };

static teff__memory memory;
static teff__table table;
static teff__grain_record records[GRAINS];

static void begin(void)
{
    teff__memory_init(&memory, 0);
    for (uint32_t i = 0; i < GRAINS; i++) {
        records[i].key = teff_key_u64(i);
        records[i].type = 1;
        records[i].hash = i;
    }
}

/* teff_assert: Criterion's own asserts count for nothing after the test. */
static void end(void)
{
    teff__table_finish(&table, &memory);
    teff_assert(teff__atomic_u64_load_relaxed(&memory.bytes) == 0);
}

TestSuite(table, .init = begin, .fini = end);

static void add(teff__grain_record *record)
{
    cr_assert_eq(teff__table_reserve(&table, &memory), 0);
    teff__table_add(&table, record);
}

static teff__grain_record *find(const teff__grain_record *record)
{
    return teff__table_find(&table, record->hash, record->type, &record->key);
}

Test(table, an_empty_one_finds_nothing)
{
    cr_assert_null(find(&records[0]));
    cr_assert_eq(teff__table_reserve(&table, &memory), 0);
    cr_assert_null(find(&records[0]));
}

Test(table, what_was_added_is_found_until_it_is_removed)
{
    add(&records[7]);
    cr_assert_eq(find(&records[7]), &records[7]);
    cr_assert_null(find(&records[8]));
    cr_assert_eq(table.count, 1);
    teff__table_remove(&table, &records[7]);
    cr_assert_null(find(&records[7]));
    cr_assert_eq(table.count, 0);
}

Test(table, grains_of_one_hash_are_told_apart_by_type_and_key)
{
    for (uint32_t i = 0; i < 4; i++) {
        records[i].hash = 99;
        records[i].type = 1 + i % 2;
        records[i].key = teff_key_u64(i / 2);
        add(&records[i]);
    }
    for (uint32_t i = 0; i < 4; i++)
        cr_assert_eq(find(&records[i]), &records[i]);
    const teff_key absent = teff_key_u64(2);
    cr_assert_null(teff__table_find(&table, 99, 1, &absent));
    cr_assert_null(teff__table_find(&table, 99, 3, &records[0].key));
}

Test(table, it_is_doubled_when_it_would_be_more_than_seven_eighths_full)
{
    for (uint32_t i = 0; i < 14; i++)
        add(&records[i]);
    cr_assert_eq(table.size, 16);
    add(&records[14]);
    cr_assert_eq(table.size, 32);
    for (uint32_t i = 15; i < 28; i++)
        add(&records[i]);
    cr_assert_eq(table.size, 32);
    add(&records[28]);
    cr_assert_eq(table.size, 64);
    for (uint32_t i = 0; i <= 28; i++)
        cr_assert_eq(find(&records[i]), &records[i]);
}

Test(table, without_memory_it_stays_as_it_was)
{
    teff__memory_fail_at(&memory, 1);
    cr_assert_eq(teff__table_reserve(&table, &memory), TEFF_ENOMEM);
    for (uint32_t i = 0; i < 14; i++)
        add(&records[i]);
    teff__memory_fail_at(&memory, 1);
    cr_assert_eq(teff__table_reserve(&table, &memory), TEFF_ENOMEM);
    cr_assert_eq(table.size, 16);
    for (uint32_t i = 0; i < 14; i++)
        cr_assert_eq(find(&records[i]), &records[i]);
    add(&records[14]);
}

Test(table, removal_closes_the_gap_also_across_the_end)
{
    /* Places of 16 by hash: 14, 15, then two more of 14 at 0 and 1, and one of 0 at 2. */
    static const uint64_t hashes[] = { 14, 15, 30, 46, 16 };
    for (uint32_t i = 0; i < 5; i++) {
        records[i].hash = hashes[i];
        add(&records[i]);
    }
    teff__table_remove(&table, &records[0]);
    cr_assert_eq(table.entries[14].record, &records[2]);
    cr_assert_eq(table.entries[15].record, &records[1]);
    cr_assert_eq(table.entries[0].record, &records[3]);
    cr_assert_eq(table.entries[1].record, &records[4]);
    cr_assert_null(table.entries[2].record);
    teff__table_remove(&table, &records[1]);
    cr_assert_eq(table.entries[15].record, &records[3]);
    cr_assert_eq(table.entries[0].record, &records[4]);
    cr_assert_null(table.entries[1].record);
}

Test(table, an_entry_at_its_own_place_is_not_moved_from_it)
{
    records[0].hash = 3;
    records[1].hash = 4;
    add(&records[0]);
    add(&records[1]);
    teff__table_remove(&table, &records[0]);
    cr_assert_null(table.entries[3].record);
    cr_assert_eq(table.entries[4].record, &records[1]);
}

/* Random additions and removals; the model says who must be there. */
static void run_against_model(uint64_t seed, uint64_t (*hash)(uint32_t))
{
    static bool there[GRAINS];
    teff__chance chance;
    uint32_t count = 0;
    teff__chance_init(&chance, seed);
    memset(there, 0, sizeof(there));
    for (uint32_t i = 0; i < GRAINS; i++)
        records[i].hash = hash(i);
    for (uint32_t step = 0; step < 20000; step++) {
        /* By turns it rather grows and rather shrinks. */
        const uint32_t i = (uint32_t)(teff__chance_next(&chance) % GRAINS);
        const bool wanted = teff__chance_next(&chance) % 100 < (step / 2000 % 2 == 0 ? 70 : 30);
        if (there[i] == wanted)
            continue;
        if (wanted)
            add(&records[i]);
        else
            teff__table_remove(&table, &records[i]);
        there[i] = wanted;
        count += wanted ? 1 : UINT32_MAX;
        cr_assert_eq(table.count, count);
        cr_assert_eq(find(&records[i]), wanted ? &records[i] : NULL);
        for (uint32_t k = 0; step % 50 == 0 && k < GRAINS; k++)
            cr_assert_eq(find(&records[k]), there[k] ? &records[k] : NULL, "seed %llu, step %u",
                         (unsigned long long)seed, step);
    }
    for (uint32_t i = 0; i < GRAINS; i++)
        if (there[i])
            teff__table_remove(&table, &records[i]);
    for (uint32_t i = 0; i < table.size; i++)
        cr_assert_null(table.entries[i].record); /* no tombstone is left */
}

static uint64_t spread(uint32_t i)
{
    return i * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t clustered(uint32_t i)
{
    return (uint64_t)i << 32 |
           (i % 5 == 0 ? UINT32_MAX - i % 3 : i % 7); /* both ends of the table */
}

static uint64_t equal(uint32_t i)
{
    (void)i;
    return UINT64_MAX;
}

Test(table, random_operations_on_spread_hashes_leave_what_the_model_has)
{
    run_against_model(1, spread);
    run_against_model(2, spread);
}

Test(table, random_operations_on_clustered_hashes_leave_what_the_model_has)
{
    run_against_model(3, clustered);
    run_against_model(4, clustered);
}

Test(table, random_operations_on_one_hash_for_all_leave_what_the_model_has)
{
    run_against_model(5, equal);
}
