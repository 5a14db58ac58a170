/* SPDX-License-Identifier: MIT */
/*
 * The 64-bit word by which an activation, or a route to one, is named: whose it is, slot and
 * generation.
 *
 *     63       56 55   54          28 27             0
 *     worker + 1  kind     slot          generation        0: none
 *
 * A reference's `route` is such a word: a hint that its holder checks by comparing the grain's id.
 * One without a generation, which fits no slot, names a worker alone: there the grain is to be made.
 */
#ifndef TEFF_DIRECTORY_ADDRESS_H
#define TEFF_DIRECTORY_ADDRESS_H

#include "runtime/slotmap.h"

typedef enum teff__address_kind {
    TEFF__ADDRESS_ACTIVATION,
    TEFF__ADDRESS_ROUTE /* an entry of that worker's route cache */
} teff__address_kind;

enum {
    TEFF__ADDRESS_TAG_SHIFT = TEFF__SLOT_BITS + TEFF__SLOT_GENERATION_BITS, /* of worker and kind */
    TEFF__WORKERS_MAX = 64
};
#define TEFF__ADDRESS_GENERATION_MASK ((UINT64_C(1) << TEFF__SLOT_GENERATION_BITS) - 1)
#define TEFF__ADDRESS_SLOT_MASK       ((UINT64_C(1) << TEFF__SLOT_BITS) - 1)

/* Worker and kind together: what a holder compares first. */
static inline uint64_t teff__address_tag(uint32_t worker, teff__address_kind kind)
{
    return (uint64_t)(worker + 1) << 1 | (uint64_t)kind;
}

static inline uint64_t teff__address_make(uint64_t tag, uint32_t slot, uint32_t generation)
{
    return tag << TEFF__ADDRESS_TAG_SHIFT | (uint64_t)slot << TEFF__SLOT_GENERATION_BITS |
           generation;
}

/* That the activation is to be made on this worker. */
static inline uint64_t teff__address_placed(uint32_t worker)
{
    return teff__address_make(teff__address_tag(worker, TEFF__ADDRESS_ACTIVATION), 0, 0);
}

static inline uint64_t teff__address_tag_of(uint64_t address)
{
    return address >> TEFF__ADDRESS_TAG_SHIFT;
}

/* UINT32_MAX: the word names none. */
static inline uint32_t teff__address_worker(uint64_t address)
{
    return (uint32_t)(address >> (TEFF__ADDRESS_TAG_SHIFT + 1)) - 1;
}

static inline uint32_t teff__address_slot(uint64_t address)
{
    return (uint32_t)(address >> TEFF__SLOT_GENERATION_BITS & TEFF__ADDRESS_SLOT_MASK);
}

static inline uint32_t teff__address_generation(uint64_t address)
{
    return (uint32_t)(address & TEFF__ADDRESS_GENERATION_MASK);
}

#endif
