/* SPDX-License-Identifier: MIT */
/*
 * Slabs: memory for objects of one size of which there may be millions, as activations.
 *
 * The first few come from the allocator, one by one, so that who has few pays for few. All further
 * ones lie in slabs of 2 MiB for which the system is asked for huge pages: one page fault instead of
 * 512, and one entry of the processor's TLB, which is most of what touching a random one of millions
 * costs. Memory that no object has had before is zero as it comes. A slab whose last object is freed
 * goes back to the system; one is kept.
 *
 * Threads: the owner only.
 */
#ifndef TEFF_RUNTIME_SLAB_H
#define TEFF_RUNTIME_SLAB_H

#include "runtime/list.h"
#include "runtime/memory.h"

enum {
    TEFF__SLAB_BYTES = TEFF__HUGE_PAGE_BYTES,
    TEFF__SLAB_OBJECT_MAX = 4096, /* larger objects all come from the allocator */
    TEFF__SLAB_OUTSIDE = 4096     /* objects that do so before the first slab is made */
};

typedef struct teff__slabs {
    teff__memory *memory;
    uint32_t object_bytes;
    uint32_t outside;     /* objects that the allocator gave, now */
    teff__ring with_room; /* slabs that have it */
    uint32_t empty;       /* of those, how many have no object at all: 0 or 1 */
} teff__slabs;

/* `object_bytes`: a multiple of 16. Allocates nothing. */
TEFF__INTERNAL void teff__slabs_init(teff__slabs *slabs, teff__memory *memory,
                                     uint32_t object_bytes);

/* All objects have been freed. */
TEFF__INTERNAL void teff__slabs_finish(teff__slabs *slabs);

/* Zeroed, aligned to 16 bytes, or NULL. *ret_in_slab is to be given back with it. */
TEFF__INTERNAL void *teff__slabs_alloc(teff__slabs *slabs, bool *ret_in_slab);
TEFF__INTERNAL void teff__slabs_free(teff__slabs *slabs, void *object, bool in_slab);

#endif
