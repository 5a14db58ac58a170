/* SPDX-License-Identifier: MIT */
#include "runtime/wheel.h"

#include "runtime/chance.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* Something with a tick, which the wheel does not know. */
typedef struct thing {
    teff__ring ring;
    uint64_t tick;
    bool in;
} thing;

static teff__wheel wheel;

static thing *thing_of(teff__ring *ring)
{
    return teff__container_of(ring, thing, ring);
}

static void add(thing *one, uint64_t tick)
{
    one->tick = tick;
    one->in = true;
    teff__wheel_add(&wheel, &one->ring, tick);
}

/* Takes what is due at `tick`, and adds again what is due later; gives how many were due. */
static int take(uint64_t tick, thing **ret, int max)
{
    teff__ring taken;
    int count = 0;
    teff__ring_init(&taken);
    while (teff__wheel_take(&wheel, tick, &taken)) {
        while (!teff__ring_empty(&taken)) {
            thing *one = thing_of(taken.next);
            teff__ring_remove(&one->ring);
            if (one->tick > tick) {
                add(one, one->tick);
                continue;
            }
            cr_assert_lt(count, max);
            one->in = false;
            ret[count++] = one;
        }
    }
    return count;
}

Test(wheel, without_anything_there_is_no_bucket)
{
    teff__bucket bucket;
    thing *due[1];
    teff__wheel_init(&wheel, 5);
    cr_assert_not(teff__wheel_find(&wheel, 0, &bucket));
    cr_assert_eq(take(1000000, due, 1), 0);
    cr_assert_eq(wheel.now, 1000000);
}

Test(wheel, the_next_64_ticks_have_a_bucket_each_and_what_is_further_shares_one)
{
    thing near[2], far[3];
    teff__bucket bucket;
    teff__wheel_init(&wheel, 100); /* 1, 36 in base 64 */
    add(&near[0], 127);
    cr_assert(teff__wheel_find(&wheel, 0, &bucket));
    cr_assert(bucket.first == 127 && bucket.end == 128);
    add(&near[1], 126);
    cr_assert(teff__wheel_find(&wheel, 0, &bucket));
    cr_assert(bucket.first == 126 && bucket.end == 127);
    add(&far[0], 128);
    add(&far[1], 191);
    cr_assert(teff__wheel_find(&wheel, 128, &bucket));
    cr_assert(bucket.first == 128 && bucket.end == 192);
    cr_assert(bucket.ring->next == &far[0].ring && far[0].ring.next == &far[1].ring);
    cr_assert_not(teff__wheel_find(&wheel, 129, &bucket));
    add(&far[2], 4096);
    cr_assert(teff__wheel_find(&wheel, 129, &bucket));
    cr_assert(bucket.first == 4096 && bucket.end == 8192);
}

Test(wheel, a_tick_that_has_passed_is_now)
{
    thing late, *due[2];
    teff__wheel_init(&wheel, 100);
    add(&late, 7);
    cr_assert_eq(take(99, due, 2), 0);
    cr_assert_eq(wheel.now, 100);
    cr_assert_eq(take(100, due, 2), 1);
}

Test(wheel, a_slot_whose_things_were_removed_is_no_bucket)
{
    thing one, other;
    teff__bucket bucket;
    teff__wheel_init(&wheel, 0);
    add(&one, 3);
    add(&other, 70);
    teff__ring_remove(&one.ring);
    cr_assert(teff__wheel_find(&wheel, 0, &bucket));
    cr_assert_eq(bucket.first, 64);
    teff__ring_remove(&other.ring);
    cr_assert_not(teff__wheel_find(&wheel, 0, &bucket));
    for (int level = 0; level < TEFF__WHEEL_LEVELS; level++)
        cr_assert_eq(wheel.occupied[level], 0);
}

Test(wheel, one_thing_comes_by_at_most_once_for_each_level)
{
    thing one;
    teff__ring taken;
    int times = 0;
    teff__ring_init(&taken);
    teff__wheel_init(&wheel, 0);
    add(&one, (UINT64_C(1) << 48) - 1);
    while (teff__wheel_take(&wheel, one.tick, &taken)) {
        teff__ring_remove(&one.ring);
        times++;
        if (wheel.now < one.tick)
            add(&one, one.tick);
    }
    cr_assert_eq(times, TEFF__WHEEL_LEVELS);
}

/* --- Beside a sorted list ------------------------------------------------------------------ */

enum { THINGS = 300, STEPS = 20000 };

static thing things[THINGS];

static int by_tick(const void *a, const void *b)
{
    const thing *const *x = a, *const *y = b;
    return ((*x)->tick > (*y)->tick) - ((*x)->tick < (*y)->tick);
}

static uint64_t earliest(void)
{
    uint64_t tick = TEFF__WHEEL_NEVER;
    for (int i = 0; i < THINGS; i++)
        if (things[i].in && things[i].tick < tick)
            tick = things[i].tick;
    return tick;
}

/* Ticks ahead: few or very many, about as often. */
static uint64_t some_ticks(teff__chance *chance)
{
    return teff__chance_next(chance) >> (24 + teff__chance_next(chance) % 40);
}

/* What lies in the wheel and is due, sorted; gives how many. */
static int expect_due(uint64_t tick, thing **ret)
{
    int count = 0;
    for (int i = 0; i < THINGS; i++)
        if (things[i].in && things[i].tick <= tick)
            ret[count++] = &things[i];
    qsort(ret, (size_t)count, sizeof(thing *), by_tick);
    return count;
}

Test(wheel, it_gives_what_a_sorted_list_gives)
{
    teff__chance chance;
    uint64_t now = 12345, taken = 0;
    teff__chance_init(&chance, 7);
    teff__wheel_init(&wheel, now);
    for (int i = 0; i < STEPS && now < UINT64_C(1) << 46; i++) {
        thing *one = &things[teff__chance_next(&chance) % THINGS];
        thing *due[THINGS], *expected[THINGS];
        teff__bucket bucket;
        switch (teff__chance_next(&chance) % 4) {
        case 0:
        case 1:
            if (one->in)
                teff__ring_remove(&one->ring);
            add(one, now + some_ticks(&chance) % (UINT64_C(1) << 40));
            break;
        case 2:
            if (one->in)
                teff__ring_remove(&one->ring);
            one->in = false;
            break;
        default:
            now += some_ticks(&chance) % (UINT64_C(1) << 36);
            const int count = expect_due(now, expected);
            cr_assert_eq(take(now, due, THINGS), count);
            /* Of one bucket they come as they were added. */
            qsort(due, (size_t)count, sizeof(due[0]), by_tick);
            for (int k = 0; k < count; k++)
                cr_assert_eq(due[k]->tick, expected[k]->tick);
            taken += (uint64_t)count;
            break;
        }
        /* The next bucket is at or before the next tick, and the one that it stands in. */
        const uint64_t next = earliest();
        cr_assert_eq(teff__wheel_find(&wheel, 0, &bucket), next != TEFF__WHEEL_NEVER);
        if (next != TEFF__WHEEL_NEVER)
            cr_assert(bucket.first <= next && next < bucket.end);
    }
    cr_assert_gt(taken, 1000);
}
