/* SPDX-License-Identifier: MIT */
/*
 * The slow half of the slot map: growth, and giving and taking back slots.
 *
 * Free slots form a list through `next`, the last freed first, since its cache line is the warmest.
 * A retired slot is in no list and keeps an even generation that no handle has.
 */
#include "runtime/slotmap.h"

#include "teff/status.h"

enum { SLOTS_MAX = (1 << TEFF__SLOT_BITS) - (1 << TEFF__SLOTMAP_FIRST_BITS) };
enum { GENERATION_MAX = (1 << TEFF__SLOT_GENERATION_BITS) - 1 };

_Static_assert(TEFF__SLOTMAP_FIRST_BITS + TEFF__SLOTMAP_SEGMENTS == TEFF__SLOT_BITS,
               "the segments hold every slot that is made");
_Static_assert(sizeof(teff__slot) == 16, "four slots in a cache line");

static uint32_t segment_slots(uint32_t segment)
{
    return 1u << (TEFF__SLOTMAP_FIRST_BITS + segment);
}

void teff__slotmap_init(teff__slotmap *map, teff__memory *memory)
{
    *map = (teff__slotmap){ .memory = memory, .generation_max = GENERATION_MAX };
}

/*
 * A large segment is reserved: its pages, huge ones, come one by one as slots are made, and not all
 * in the moment in which the first is.
 */
static bool is_reserved(size_t bytes)
{
    return bytes >= TEFF__HUGE_PAGE_BYTES;
}

static teff__slot *segment_make(teff__memory *memory, uint32_t segment)
{
    const size_t bytes = segment_slots(segment) * sizeof(teff__slot);
    return is_reserved(bytes) ? teff__memory_reserve_huge(memory, bytes)
                              : teff__memory_alloc(memory, bytes);
}

static void segment_free(teff__memory *memory, uint32_t segment, teff__slot *slots)
{
    const size_t bytes = segment_slots(segment) * sizeof(teff__slot);
    if (is_reserved(bytes))
        teff__memory_release(memory, slots, bytes);
    else
        teff__memory_free(memory, slots, bytes);
}

void teff__slotmap_finish(teff__slotmap *map)
{
    for (uint32_t i = 0; i < TEFF__SLOTMAP_SEGMENTS && map->segments[i] != NULL; i++) {
        segment_free(map->memory, i, map->segments[i]);
        map->segments[i] = NULL;
    }
    map->free = map->made = map->count = 0;
}

/* Makes one more slot, and its segment if it is the first of one. */
static int make(teff__slotmap *map)
{
    if (map->made == SLOTS_MAX)
        return TEFF_ELIMIT;
    const uint32_t segment = teff__slotmap_segment_of(map->made);
    if (map->segments[segment] == NULL) {
        map->segments[segment] = segment_make(map->memory, segment);
        if (map->segments[segment] == NULL)
            return TEFF_ENOMEM;
    }
    map->made++;
    map->free = map->made;
    return TEFF_OK;
}

int teff__slotmap_add(teff__slotmap *map, void *value, uint32_t *ret_slot, uint32_t *ret_generation)
{
    if (map->free == 0) {
        int r = make(map);
        if (r != 0)
            return r;
    }
    uint32_t slot = map->free - 1;
    teff__slot *at = teff__slotmap_at(map, slot);
    teff_assert((at->generation & 1) == 0);
    map->free = at->next;
    map->count++;
    at->generation++;
    at->value = value;
    *ret_slot = slot;
    *ret_generation = at->generation;
    return TEFF_OK;
}

void teff__slotmap_remove(teff__slotmap *map, uint32_t slot, uint32_t generation)
{
    teff_assert(slot < map->made && (generation & 1) == 1);
    teff__slot *at = teff__slotmap_at(map, slot);
    teff_assert(at->generation == generation);
    at->generation++;
    at->value = NULL;
    map->count--;
    if (at->generation >= map->generation_max)
        return; /* retired: the next generation would not fit into a handle */
    at->next = map->free;
    map->free = slot + 1;
}
