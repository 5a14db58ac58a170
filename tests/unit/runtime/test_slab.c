/* SPDX-License-Identifier: MIT */
/* Slabs: objects that are zero, apart, and where they say; memory that goes back. */
#include "runtime/slab.h"

#include "runtime/chance.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 160, IN_ONE = (TEFF__SLAB_BYTES - 64) / BYTES };

static teff__memory memory;
static teff__slabs slabs;

static void begin(void)
{
    teff__memory_init(&memory, 0);
    teff__slabs_init(&slabs, &memory, BYTES);
}

/* teff_assert: Criterion's own asserts count for nothing after the test. */
static void end(void)
{
    teff__slabs_finish(&slabs);
    teff_assert(teff__atomic_u64_load_relaxed(&memory.bytes) == 0);
}

TestSuite(slab, .init = begin, .fini = end);

typedef struct thing {
    char *at;
    bool in_slab;
} thing;

static bool is_zero(const char *object)
{
    for (int i = 0; i < BYTES; i++) {
        if (object[i] != 0)
            return false;
    }
    return true;
}

static thing make(void)
{
    thing one = { NULL, false };
    one.at = teff__slabs_alloc(&slabs, &one.in_slab);
    cr_assert_not_null(one.at);
    cr_assert_eq((uintptr_t)one.at % 16, 0);
    cr_assert(is_zero(one.at));
    memset(one.at, 0xff, BYTES);
    return one;
}

static void drop(thing one)
{
    teff__slabs_free(&slabs, one.at, one.in_slab);
}

Test(slab, the_first_come_from_the_allocator_and_all_are_counted)
{
    static thing all[TEFF__SLAB_OUTSIDE + 10];
    for (int i = 0; i < TEFF__SLAB_OUTSIDE + 10; i++) {
        all[i] = make();
        cr_assert_eq(all[i].in_slab, i >= TEFF__SLAB_OUTSIDE);
        cr_assert_eq(teff__atomic_u64_load_relaxed(&memory.bytes), (uint64_t)(i + 1) * BYTES);
    }
    drop(all[0]); /* there is room for one there again */
    all[0] = make();
    cr_assert_not(all[0].in_slab);
    for (int i = 0; i < TEFF__SLAB_OUTSIDE + 10; i++)
        drop(all[i]);
    cr_assert_eq(teff__atomic_u64_load_relaxed(&memory.bytes), 0);
}

Test(slab, objects_do_not_overlap_and_what_was_freed_is_zero_when_it_comes_again)
{
    enum { COUNT = 2 * IN_ONE };
    thing *all = calloc(COUNT, sizeof(*all));
    teff__chance chance;
    teff__chance_init(&chance, 1);
    slabs.outside = TEFF__SLAB_OUTSIDE;
    for (int round = 0; round < 200000; round++) {
        const size_t i = teff__chance_next(&chance) % COUNT;
        if (all[i].at != NULL) {
            uint64_t mark;
            memcpy(&mark, all[i].at, sizeof(mark));
            cr_assert_eq(mark, i, "another one wrote there");
            drop(all[i]);
            all[i].at = NULL;
        } else {
            const uint64_t mark = i;
            all[i] = make();
            cr_assert(all[i].in_slab);
            memcpy(all[i].at, &mark, sizeof(mark));
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (all[i].at != NULL)
            drop(all[i]);
    }
    slabs.outside = 0;
    free(all);
}

/* So many slabs have room. */
static int with_room(void)
{
    int count = 0;
    for (const teff__ring *at = slabs.with_room.next; at != &slabs.with_room; at = at->next)
        count++;
    return count;
}

Test(slab, of_the_slabs_that_nobody_needs_one_is_kept)
{
    static thing all[3 * IN_ONE];
    slabs.outside = TEFF__SLAB_OUTSIDE;
    for (int i = 0; i < 3 * IN_ONE; i++)
        all[i] = make();
    cr_assert_eq(with_room(), 0, "all are full");
    const uint64_t before = teff__atomic_u64_load_relaxed(&memory.allocations);
    for (int i = 0; i < 3 * IN_ONE; i++)
        drop(all[i]);
    cr_assert_eq(with_room(), 1);
    thing again = make(); /* from the one that was kept */
    cr_assert_eq(teff__atomic_u64_load_relaxed(&memory.allocations), before + 1);
    cr_assert_eq(slabs.empty, 0);
    drop(again);
    cr_assert_eq(slabs.empty, 1);
    slabs.outside = 0;
}

Test(slab, without_memory_nothing_is_taken)
{
    bool in_slab;
    slabs.outside = TEFF__SLAB_OUTSIDE;
    for (uint64_t nth = 1; nth <= 2; nth++) { /* the object; the slab */
        teff__memory_fail_at(&memory, nth);
        cr_assert_null(teff__slabs_alloc(&slabs, &in_slab));
        cr_assert_eq(teff__atomic_u64_load_relaxed(&memory.bytes), 0);
    }
    teff__memory_fail_at(&memory, 0);
    drop(make());
    memory.bytes_max = BYTES - 1;
    cr_assert_null(teff__slabs_alloc(&slabs, &in_slab));
    slabs.outside = 0;
    cr_assert_null(teff__slabs_alloc(&slabs, &in_slab));
}

Test(slab, large_objects_never_lie_in_one)
{
    teff__slabs large;
    bool in_slab = true;
    teff__slabs_init(&large, &memory, TEFF__SLAB_OBJECT_MAX + 16);
    large.outside = TEFF__SLAB_OUTSIDE;
    void *object = teff__slabs_alloc(&large, &in_slab);
    cr_assert_not(in_slab);
    teff__slabs_free(&large, object, in_slab);
    large.outside = 0;
    teff__slabs_finish(&large);
}
