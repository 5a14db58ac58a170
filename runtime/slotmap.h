/* SPDX-License-Identifier: MIT */
/*
 * A plain slot map: what may go away while somebody still names it, for one owner thread.
 *
 * A handle is slot and generation. A slot's generation is odd while it is taken and even while it
 * is free, so a stale handle, or one that was never given, fails one comparison. Slots lie in
 * segments that double in size and never move; growing copies nothing. A slot whose generation is
 * exhausted is retired, never wrapped.
 *
 * Threads: the owner only.
 */
#ifndef TEFF_RUNTIME_SLOTMAP_H
#define TEFF_RUNTIME_SLOTMAP_H

#include "runtime/memory.h"

enum {
    TEFF__SLOTMAP_SEGMENTS = 21, /* the first has 64 slots, each further one twice as many */
    TEFF__SLOTMAP_FIRST_BITS = 6,
    TEFF__SLOT_BITS = 27,
    TEFF__SLOT_GENERATION_BITS = 28
};

typedef struct teff__slot {
    void *value;         /* taken: what the handle names */
    uint32_t generation; /* odd: taken */
    uint32_t next;       /* free: the next free slot + 1, or 0 */
} teff__slot;

typedef struct teff__slotmap {
    /* any slot number has an index; the last is never made */
    teff__slot *segments[TEFF__SLOTMAP_SEGMENTS + 1];
    teff__memory *memory;
    uint32_t free;           /* the first free slot + 1, or 0 */
    uint32_t made;           /* slots that exist */
    uint32_t count;          /* slots taken */
    uint32_t generation_max; /* the last generation of a slot; lower in tests */
} teff__slotmap;

TEFF__INTERNAL void teff__slotmap_init(teff__slotmap *map, teff__memory *memory);
TEFF__INTERNAL void teff__slotmap_finish(teff__slotmap *map);

/*
 * TEFF_ENOMEM; TEFF_ELIMIT: all slots (64 less than 2^27) are taken or retired. Then outputs are
 * untouched.
 */
TEFF__INTERNAL int teff__slotmap_add(teff__slotmap *map, void *value, uint32_t *ret_slot,
                                     uint32_t *ret_generation);

/* The handle must be live. */
TEFF__INTERNAL void teff__slotmap_remove(teff__slotmap *map, uint32_t slot, uint32_t generation);

/*
 * The segment that a slot is in. Segment k holds 64 * 2^k slots: counted from 64, those of one have
 * the same highest bit.
 */
static inline uint32_t teff__slotmap_segment_of(uint32_t slot)
{
    const uint32_t number = slot + (1u << TEFF__SLOTMAP_FIRST_BITS);
    return 31u - (uint32_t)__builtin_clz(number) - TEFF__SLOTMAP_FIRST_BITS;
}

/* The slot with that number; `slot` < map->made. */
static inline teff__slot *teff__slotmap_at(const teff__slotmap *map, uint32_t slot)
{
    const uint32_t number = slot + (1u << TEFF__SLOTMAP_FIRST_BITS);
    const uint32_t segment = teff__slotmap_segment_of(slot);
    return &map->segments[segment][number ^ 1u << (segment + TEFF__SLOTMAP_FIRST_BITS)];
}

/*
 * The value of the first taken slot from *slot on, which is moved behind it; NULL: there is none.
 */
static inline void *teff__slotmap_next(const teff__slotmap *map, uint32_t *slot)
{
    while (*slot < map->made) {
        const teff__slot *at = teff__slotmap_at(map, (*slot)++);
        if (at->generation & 1)
            return at->value;
    }
    return NULL;
}

/* What the handle names, or NULL when it is stale or was never given. */
static inline void *teff__slotmap_get(const teff__slotmap *map, uint32_t slot, uint32_t generation)
{
    if (TEFF__UNLIKELY(slot >= map->made || (generation & 1) == 0))
        return NULL;
    const teff__slot *at = teff__slotmap_at(map, slot);
    return TEFF__LIKELY(at->generation == generation) ? at->value : NULL;
}

#endif
