/* SPDX-License-Identifier: MIT */
/*
 * A hierarchical timing wheel (Varghese and Lauck 1987): things that are to be looked at from some
 * tick on, in buckets, with no work for those whose time is far.
 *
 * A tick is a number in base 64. What is added stands in the level of the highest digit in which
 * its tick differs from the wheel's, in the slot of that digit: so the next 64 ticks have a slot
 * each, the ones behind them share one by 64, and so on. All that stands in a level has that digit
 * higher than the wheel's own; hence slots never wrap round, and level by level, slot by slot, they
 * are in order of time.
 *
 * The wheel does not remember ticks. A bucket is taken when its first tick has come, and whoever
 * takes it looks when the things in it are really due, and adds again what is due later: a thing
 * comes by at most once for each level. One bitmap for each level says which slots may have
 * something; a node may be removed at any time without the wheel, by teff__ring_remove, and a slot
 * that is empty then is found so when it is come across.
 *
 * Threads: one at a time.
 */
#ifndef TEFF_RUNTIME_WHEEL_H
#define TEFF_RUNTIME_WHEEL_H

#include "runtime/assert.h"
#include "runtime/list.h"

#include <stdint.h>

enum {
    TEFF__WHEEL_BITS = 6,
    TEFF__WHEEL_SLOTS = 1 << TEFF__WHEEL_BITS,
    TEFF__WHEEL_LEVELS = 8 /* 48 bits: 9,000 years of milliseconds */
};

/* No tick: never. */
#define TEFF__WHEEL_NEVER UINT64_MAX

typedef struct teff__wheel {
    uint64_t now;
    uint64_t occupied[TEFF__WHEEL_LEVELS]; /* bit k: slot k may have something */
    teff__ring slots[TEFF__WHEEL_LEVELS]
                    [TEFF__WHEEL_SLOTS]; /* of those, and no others, are rings */
} teff__wheel;

/* A bucket: its things are due in no tick before `first`, and in none from `end` on. */
typedef struct teff__bucket {
    uint64_t first, end;
    teff__ring *ring;
} teff__bucket;

TEFF__INTERNAL void teff__wheel_init(teff__wheel *wheel, uint64_t now);

/* Adds a node that is in no ring. A tick that has passed is now. */
TEFF__INTERNAL void teff__wheel_add(teff__wheel *wheel, teff__ring *node, uint64_t tick);

/* The earliest bucket with something in it whose first tick is `from` or later; false: none. */
TEFF__INTERNAL bool teff__wheel_find(teff__wheel *wheel, uint64_t from, teff__bucket *ret);

/*
 * Moves the wheel on to `tick`, but not beyond the first tick of a bucket with something in it: that
 * bucket's things are then moved to the end of `to`, and it is true. To be repeated until false.
 */
TEFF__INTERNAL bool teff__wheel_take(teff__wheel *wheel, uint64_t tick, teff__ring *to);

#endif
