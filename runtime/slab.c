/* SPDX-License-Identifier: MIT */
#include "runtime/slab.h"

#include <string.h>

/* At the beginning of a slab, which lies at a multiple of its size: so an object finds it. */
typedef struct slab {
    teff__ring ring; /* of those with room; else alone */
    teff__pool_link *freed;
    uint32_t used;   /* objects in use */
    uint32_t carved; /* objects that there ever were: what lies behind them is untouched */
} slab;

enum { OBJECTS_AT = 64 };
_Static_assert(sizeof(slab) <= OBJECTS_AT, "objects begin behind it, in a line of their own");

static uint32_t objects_max(const teff__slabs *slabs)
{
    return (TEFF__SLAB_BYTES - OBJECTS_AT) / slabs->object_bytes;
}

void teff__slabs_init(teff__slabs *slabs, teff__memory *memory, uint32_t object_bytes)
{
    teff_assert(object_bytes != 0 && object_bytes % 16 == 0);
    *slabs = (teff__slabs){ .memory = memory, .object_bytes = object_bytes };
    teff__ring_init(&slabs->with_room);
}

static void release(teff__slabs *slabs, slab *one)
{
    teff__ring_remove(&one->ring);
    teff__memory_release(slabs->memory, one, TEFF__SLAB_BYTES);
}

void teff__slabs_finish(teff__slabs *slabs)
{
    while (!teff__ring_empty(&slabs->with_room)) {
        slab *one = teff__container_of(slabs->with_room.next, slab, ring);
        teff_assert(one->used == 0);
        release(slabs, one);
    }
    teff_assert(slabs->outside == 0);
}

static slab *slab_with_room(teff__slabs *slabs)
{
    if (!teff__ring_empty(&slabs->with_room))
        return teff__container_of(slabs->with_room.next, slab, ring);
    slab *one = teff__memory_reserve_huge(slabs->memory, TEFF__SLAB_BYTES);
    if (one == NULL)
        return NULL;
    teff__ring_init(&one->ring);
    teff__ring_push_back(&slabs->with_room, &one->ring);
    slabs->empty++;
    return one;
}

static void *take(const teff__slabs *slabs, slab *one)
{
    teff__pool_link *freed = one->freed;
    if (freed == NULL)
        return (char *)one + OBJECTS_AT + (size_t)one->carved++ * slabs->object_bytes;
    one->freed = freed->next;
    return memset(freed, 0, slabs->object_bytes);
}

void *teff__slabs_alloc(teff__slabs *slabs, bool *ret_in_slab)
{
    *ret_in_slab =
        slabs->outside >= TEFF__SLAB_OUTSIDE && slabs->object_bytes <= TEFF__SLAB_OBJECT_MAX;
    if (!*ret_in_slab) {
        void *object = teff__memory_alloc(slabs->memory, slabs->object_bytes);
        slabs->outside += object != NULL;
        return object;
    }
    if (!teff__memory_take(slabs->memory, slabs->object_bytes))
        return NULL;
    slab *one = slab_with_room(slabs);
    if (one == NULL) {
        teff__memory_give(slabs->memory, slabs->object_bytes);
        return NULL;
    }
    slabs->empty -= one->used == 0;
    if (++one->used == objects_max(slabs))
        teff__ring_remove(&one->ring);
    return take(slabs, one);
}

void teff__slabs_free(teff__slabs *slabs, void *object, bool in_slab)
{
    if (!in_slab) {
        slabs->outside--;
        teff__memory_free(slabs->memory, object, slabs->object_bytes);
        return;
    }
    slab *one = (slab *)((uintptr_t)object & ~(uintptr_t)(TEFF__SLAB_BYTES - 1));
    teff__pool_link *freed = object;
    freed->next = one->freed;
    one->freed = freed;
    if (one->used == objects_max(slabs))
        teff__ring_push_back(&slabs->with_room, &one->ring);
    teff__memory_give(slabs->memory, slabs->object_bytes);
    if (--one->used != 0)
        return;
    if (slabs->empty != 0)
        release(slabs, one);
    else
        slabs->empty = 1;
}
