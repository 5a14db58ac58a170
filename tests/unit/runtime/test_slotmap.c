/* SPDX-License-Identifier: MIT */
#include "runtime/slotmap.h"

#include "runtime/chance.h"
#include "teff/status.h"

#include <criterion/criterion.h>
#include <signal.h>

static teff__memory memory;
static teff__slotmap map;
static char values[10000]; /* what handles name: only the addresses matter */

static void begin(void)
{
    teff__memory_init(&memory, 0);
    teff__slotmap_init(&map, &memory);
}

static void end(void)
{
    teff__slotmap_finish(&map);
}

TestSuite(slotmap, .init = begin, .fini = end);

static uint64_t bytes(void)
{
    return teff__atomic_u64_load_relaxed(&memory.bytes);
}

static void add(void *value, uint32_t slot_expected, uint32_t generation_expected)
{
    uint32_t slot = 4711, generation = 4711;
    cr_assert_eq(teff__slotmap_add(&map, value, &slot, &generation), TEFF_OK);
    cr_assert_eq(slot, slot_expected);
    cr_assert_eq(generation, generation_expected);
}

Test(slotmap, handle_names_its_value_until_removed)
{
    add(&values[0], 0, 1);
    cr_assert_eq(teff__slotmap_get(&map, 0, 1), &values[0]);
    cr_assert_eq(map.count, 1);
    teff__slotmap_remove(&map, 0, 1);
    cr_assert_null(teff__slotmap_get(&map, 0, 1));
    cr_assert_eq(map.count, 0);
}

Test(slotmap, stale_handle_does_not_reach_the_slots_next_value)
{
    add(&values[0], 0, 1);
    teff__slotmap_remove(&map, 0, 1);
    add(&values[1], 0, 3);
    cr_assert_null(teff__slotmap_get(&map, 0, 1));
    cr_assert_null(teff__slotmap_get(&map, 0, 2));
    cr_assert_eq(teff__slotmap_get(&map, 0, 3), &values[1]);
    cr_assert_null(teff__slotmap_get(&map, 0, 5));
}

Test(slotmap, handle_never_given_names_nothing)
{
    cr_assert_null(teff__slotmap_get(&map, 0, 0));
    cr_assert_null(teff__slotmap_get(&map, 0, 1));
    cr_assert_null(teff__slotmap_get(&map, UINT32_MAX, 1));
    add(&values[0], 0, 1);
    cr_assert_null(teff__slotmap_get(&map, 0, 0));
    cr_assert_null(teff__slotmap_get(&map, 0, UINT32_MAX));
    cr_assert_null(teff__slotmap_get(&map, 1, 1));
    cr_assert_null(teff__slotmap_get(&map, 64, 1));
    cr_assert_null(teff__slotmap_get(&map, (1u << 27) - 1, 1));
    cr_assert_null(teff__slotmap_get(&map, UINT32_MAX, UINT32_MAX));
}

Test(slotmap, even_generation_names_nothing_though_the_slot_is_free_at_it)
{
    add(&values[0], 0, 1);
    teff__slotmap_remove(&map, 0, 1);
    teff__slotmap_at(&map, 0)->value = &values[0]; /* as if the value had stayed */
    cr_assert_null(teff__slotmap_get(&map, 0, 2));
}

Test(slotmap, last_slot_freed_is_first_taken)
{
    add(&values[0], 0, 1);
    add(&values[1], 1, 1);
    add(&values[2], 2, 1);
    teff__slotmap_remove(&map, 0, 1);
    teff__slotmap_remove(&map, 2, 1);
    add(&values[3], 2, 3);
    add(&values[4], 0, 3);
    add(&values[5], 3, 1);
}

Test(slotmap, ten_thousand_values_stay_apart_and_never_move)
{
    teff__slot *at[10000];
    for (uint32_t i = 0; i < 10000; i++) {
        add(&values[i], i, 1);
        at[i] = teff__slotmap_at(&map, i);
    }
    cr_assert_eq(map.count, 10000);
    for (uint32_t i = 0; i < 10000; i++) {
        cr_assert_eq(teff__slotmap_get(&map, i, 1), &values[i]);
        cr_assert_eq(teff__slotmap_at(&map, i), at[i]);
    }
}

Test(slotmap, each_segment_is_twice_as_large_as_the_one_before)
{
    static const struct {
        uint32_t slots;
        uint64_t bytes;
    } expected[] = { { 1, 1024 },   { 64, 1024 },  { 65, 3072 },  { 192, 3072 },
                     { 193, 7168 }, { 448, 7168 }, { 449, 15360 } };
    cr_assert_eq(bytes(), 0);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        while (map.count < expected[i].slots)
            add(&values[0], map.count, 1);
        cr_assert_eq(bytes(), expected[i].bytes, "%u slots", expected[i].slots);
    }
}

Test(slotmap, last_segment_ends_at_the_last_slot_a_handle_can_name)
{
    teff__slot segment[1];
    map.segments[TEFF__SLOTMAP_SEGMENTS - 1] = segment;
    /* Segment 20 holds the slots 2^26 - 64 to 2^27 - 65. */
    cr_assert_eq(teff__slotmap_at(&map, (1u << 26) - 64), segment);
    cr_assert_eq((uintptr_t)teff__slotmap_at(&map, (1u << 27) - 65) - (uintptr_t)segment,
                 ((1u << 26) - 1) * sizeof(teff__slot));
    map.segments[TEFF__SLOTMAP_SEGMENTS - 1] = NULL;
}

Test(slotmap, a_million_adds_and_removes_keep_memory_flat)
{
    uint32_t slots[1000], generations[1000];
    for (uint32_t i = 0; i < 1000; i++)
        cr_assert_eq(teff__slotmap_add(&map, values, &slots[i], &generations[i]), TEFF_OK);
    uint64_t before = bytes();
    for (uint32_t i = 0; i < 1000000; i++) {
        uint32_t k = i % 1000;
        teff__slotmap_remove(&map, slots[k], generations[k]);
        cr_assert_eq(teff__slotmap_add(&map, values, &slots[k], &generations[k]), TEFF_OK);
    }
    cr_assert_eq(bytes(), before);
    cr_assert_eq(map.made, 1000);
    cr_assert_eq(map.count, 1000);
}

Test(slotmap, slot_whose_generations_are_exhausted_is_retired)
{
    map.generation_max = 5;
    add(&values[0], 0, 1);
    teff__slotmap_remove(&map, 0, 1);
    add(&values[0], 0, 3);
    teff__slotmap_remove(&map, 0, 3);
    add(&values[0], 0, 5);
    teff__slotmap_remove(&map, 0, 5);
    add(&values[1], 1, 1);
    for (uint32_t generation = 0; generation < 20; generation++)
        cr_assert_null(teff__slotmap_get(&map, 0, generation));
    cr_assert_eq(map.count, 1);
}

Test(slotmap, retirement_leaves_other_free_slots_in_use)
{
    map.generation_max = 3;
    add(&values[0], 0, 1);
    add(&values[1], 1, 1);
    teff__slotmap_remove(&map, 1, 1);
    teff__slotmap_remove(&map, 0, 1);
    add(&values[2], 0, 3);
    teff__slotmap_remove(&map, 0, 3); /* retired; 1 is still free */
    add(&values[3], 1, 3);
    add(&values[4], 2, 1);
}

Test(slotmap, generations_reach_28_bits_and_no_further)
{
    add(&values[0], 0, 1);
    teff__slotmap_remove(&map, 0, 1);
    teff__slotmap_at(&map, 0)->generation = 268435454; /* 2^28 - 2 */
    add(&values[0], 0, 268435455);
    teff__slotmap_remove(&map, 0, 268435455);
    add(&values[1], 1, 1);
}

Test(slotmap, without_memory_add_fails_and_changes_nothing)
{
    uint32_t slot = 4711, generation = 4711;
    teff__memory_fail_at(&memory, 1);
    cr_assert_eq(teff__slotmap_add(&map, values, &slot, &generation), TEFF_ENOMEM);
    cr_assert_eq(slot, 4711);
    cr_assert_eq(generation, 4711);
    cr_assert_eq(map.count, 0);
    cr_assert_eq(map.made, 0);
    add(&values[0], 0, 1);
}

Test(slotmap, without_memory_for_more_what_there_is_stays_usable)
{
    for (uint32_t i = 0; i < 64; i++)
        add(&values[i], i, 1);
    uint32_t slot = 4711, generation = 4711;
    teff__memory_fail_at(&memory, 1);
    cr_assert_eq(teff__slotmap_add(&map, values, &slot, &generation), TEFF_ENOMEM);
    teff__memory_fail_at(&memory, 1);
    teff__slotmap_remove(&map, 63, 1);
    add(&values[63], 63, 3);
    teff__memory_fail_at(&memory, 0);
    add(&values[64], 64, 1);
}

Test(slotmap, beyond_the_last_slot_add_answers_limit)
{
    uint32_t slot = 4711, generation = 4711;
    map.made = (1u << 27) - 64; /* as if all were taken */
    cr_assert_eq(teff__slotmap_add(&map, values, &slot, &generation), TEFF_ELIMIT);
    cr_assert_eq(slot, 4711);
    cr_assert_eq(generation, 4711);
    cr_assert_eq(bytes(), 0);
}

Test(slotmap, removing_a_stale_handle_aborts, .signal = SIGABRT)
{
    add(&values[0], 0, 1);
    teff__slotmap_remove(&map, 0, 1);
    teff__slotmap_remove(&map, 0, 1);
}

Test(slotmap, finish_gives_all_memory_back)
{
    for (uint32_t i = 0; i < 10000; i++)
        add(&values[i], i, 1);
    cr_assert_gt(bytes(), 0);
    teff__slotmap_finish(&map);
    cr_assert_eq(bytes(), 0);
    cr_assert_null(teff__slotmap_get(&map, 0, 1));
}

Test(slotmap, finish_of_a_zeroed_one_is_allowed)
{
    static teff__slotmap zeroed;
    teff__slotmap_finish(&zeroed);
}

/* Against a table of every handle ever given and what it names now. */
Test(slotmap, random_operations_agree_with_a_plain_table)
{
    enum { GIVEN_MAX = 20000 };
    static struct {
        uint32_t slot, generation;
        void *value;
    } given[GIVEN_MAX];
    uint32_t given_count = 0, live = 0;
    teff__chance chance;
    teff__chance_init(&chance, 20240607);
    map.generation_max = 9; /* so that slots retire on the way */
    while (given_count < GIVEN_MAX) {
        uint64_t number = teff__chance_next(&chance);
        uint32_t k = given_count > 0 ? (uint32_t)(number >> 32) % given_count : 0;
        if (number % 2 == 0 || given_count == 0) {
            given[given_count].value = &values[number % sizeof(values)];
            cr_assert_eq(teff__slotmap_add(&map, given[given_count].value, &given[given_count].slot,
                                           &given[given_count].generation),
                         TEFF_OK);
            given_count++;
            live++;
        } else if (given[k].value != NULL) {
            teff__slotmap_remove(&map, given[k].slot, given[k].generation);
            given[k].value = NULL;
            live--;
        }
        k = (uint32_t)teff__chance_next(&chance) % given_count;
        cr_assert_eq(teff__slotmap_get(&map, given[k].slot, given[k].generation), given[k].value);
        cr_assert_eq(map.count, live);
    }
    for (uint32_t i = 0; i < given_count; i++)
        cr_assert_eq(teff__slotmap_get(&map, given[i].slot, given[i].generation), given[i].value);
}

Test(slotmap, a_walk_meets_every_taken_slot_once_and_no_free_one)
{
    uint32_t slot = 0;
    cr_assert_null(teff__slotmap_next(&map, &slot));
    for (uint32_t i = 0; i < 200; i++)
        add(&values[i], i, 1);
    for (uint32_t i = 0; i < 200; i += 3)
        teff__slotmap_remove(&map, i, 1);
    uint32_t met = 0;
    slot = 0;
    for (void *value; (value = teff__slotmap_next(&map, &slot)) != NULL; met++)
        cr_assert_eq(value, &values[slot - 1]);
    cr_assert_eq(met, 133);
    cr_assert_eq(slot, 200);
}
