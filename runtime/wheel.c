/* SPDX-License-Identifier: MIT */
#include "runtime/wheel.h"

void teff__wheel_init(teff__wheel *wheel, uint64_t now)
{
    wheel->now = now;
    for (int level = 0; level < TEFF__WHEEL_LEVELS; level++)
        wheel->occupied[level] = 0;
}

void teff__wheel_add(teff__wheel *wheel, teff__ring *node, uint64_t tick)
{
    if (tick < wheel->now)
        tick = wheel->now;
    const uint64_t differs = (tick ^ wheel->now) | 1; /* the lowest digit where none does */
    const int level = (63 - __builtin_clzll(differs)) / TEFF__WHEEL_BITS;
    teff_assert(level < TEFF__WHEEL_LEVELS);
    const unsigned slot = tick >> level * TEFF__WHEEL_BITS & (TEFF__WHEEL_SLOTS - 1);
    teff__ring *ring = &wheel->slots[level][slot];
    if ((wheel->occupied[level] >> slot & 1) == 0) {
        teff__ring_init(ring);
        wheel->occupied[level] |= UINT64_C(1) << slot;
    }
    teff__ring_push_back(ring, node);
}

bool teff__wheel_find(teff__wheel *wheel, uint64_t from, teff__bucket *ret)
{
    for (int level = 0; level < TEFF__WHEEL_LEVELS; level++) {
        const int shift = level * TEFF__WHEEL_BITS;
        const uint64_t above = wheel->now >> shift >> TEFF__WHEEL_BITS << TEFF__WHEEL_BITS << shift;
        for (uint64_t left = wheel->occupied[level]; left != 0; left &= left - 1) {
            const unsigned slot = (unsigned)__builtin_ctzll(left);
            teff__ring *ring = &wheel->slots[level][slot];
            if (teff__ring_empty(ring)) {
                wheel->occupied[level] &= ~(UINT64_C(1) << slot);
                continue;
            }
            const uint64_t first = above | (uint64_t)slot << shift;
            if (first < from)
                continue;
            *ret = (teff__bucket){ first, first + (UINT64_C(1) << shift), ring };
            return true;
        }
    }
    return false;
}

bool teff__wheel_take(teff__wheel *wheel, uint64_t tick, teff__ring *to)
{
    teff__bucket bucket;
    const bool found = teff__wheel_find(wheel, 0, &bucket) && bucket.first <= tick;
    const uint64_t now = found ? bucket.first : tick;
    if (now > wheel->now)
        wheel->now = now;
    if (found)
        teff__ring_append(to, bucket.ring);
    return found;
}
