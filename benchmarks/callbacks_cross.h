/* SPDX-License-Identifier: MIT */
/*
 * Calls that are opened on one core and answered on the other: two rings with one producer and one
 * consumer each, the id there and back.
 *
 * At most `depth` ids are under way, fewer than a ring has places, so that nobody looks whether
 * there is room.
 *
 * Threads:
 *   there   the opener puts and publishes; the answerer gets
 *   back    the answerer puts and publishes; the opener gets
 */
#ifndef TEFF_BENCHMARKS_CALLBACKS_CROSS_H
#define TEFF_BENCHMARKS_CALLBACKS_CROSS_H

#include "benchmarks/callbacks_stage.h"

enum { CALLBACKS_RING_PLACES = 1024 };

typedef struct callbacks_ring {
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u64 published; /* the producer; the consumer */
    _Alignas(TEFF__CACHE_LINE) uint64_t ids[CALLBACKS_RING_PLACES];
} callbacks_ring;

struct callbacks_pipe {
    callbacks_ring there, back;
    _Alignas(TEFF__CACHE_LINE) uint64_t count; /* of all the ids that go through it */
    unsigned depth;
    void *own; /* the subject's */
};

static inline void callbacks_ring_put(callbacks_ring *ring, uint64_t place, uint64_t id)
{
    ring->ids[place % CALLBACKS_RING_PLACES] = id;
}

static inline uint64_t callbacks_ring_get(const callbacks_ring *ring, uint64_t place)
{
    return ring->ids[place % CALLBACKS_RING_PLACES];
}

/* All ids before that place are there. */
static inline void callbacks_ring_publish(callbacks_ring *ring, uint64_t place)
{
    teff__atomic_u64_store_release(&ring->published, place); /* pairs with published's load */
}

static inline uint64_t callbacks_ring_published(const callbacks_ring *ring)
{
    return teff__atomic_u64_load_acquire(&ring->published);
}

/*
 * Opens and closes so many, one thread on each of two cores. Nanoseconds of wall time each; 0, or -1
 * when one was lost or there is no memory or thread.
 */
int callbacks_cross_run(callbacks_stage *stage, uint64_t count, unsigned depth, double *ret_ns);

#endif
