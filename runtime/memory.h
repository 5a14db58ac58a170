/* SPDX-License-Identifier: MIT */
/*
 * Memory: the one way to it, and the place for limits, statistics and injected failures.
 *
 * A silo has one teff__memory; every allocation of the silo's parts goes through it. The allocator
 * behind it (mimalloc, jemalloc or the system's) is chosen when the library is built. The steady
 * path does not come here: it takes from pools. A pool belongs to one thread, which takes and puts
 * without atomics; any other thread returns objects in chains.
 *
 * Threads:
 *   memory   any thread; counters are statistics
 *   pool     take, put, finish: the owner; put_foreign: any thread
 */
#ifndef TEFF_RUNTIME_MEMORY_H
#define TEFF_RUNTIME_MEMORY_H

#include "runtime/assert.h"
#include "runtime/atomic.h"

#include <stddef.h>

typedef struct teff__memory {
    teff__atomic_u64 allocations; /* how often anything was allocated or reserved, ever */
    teff__atomic_u64 bytes;       /* allocated now, as asked for */
    uint64_t bytes_max;           /* 0: no limit; set before use */
    teff__atomic_u64 fail_at;     /* tests: the n-th allocation from now fails; 0 none */
    bool stacks_dropped;          /* pools may miss what frames on them held; whoever destroys */
} teff__memory;

/* `bytes_max` 0 means no limit. */
TEFF__INTERNAL void teff__memory_init(teff__memory *memory, uint64_t bytes_max);

/* From now on the n-th allocation fails (1: the very next), once. 0 takes the wish back. */
TEFF__INTERNAL void teff__memory_fail_at(teff__memory *memory, uint64_t n);

/* Zeroed, aligned to 16 bytes; NULL: no memory, over the limit, or an injected failure. */
TEFF__INTERNAL void *teff__memory_alloc(teff__memory *memory, size_t size);

/* The same, aligned to a cache line. */
TEFF__INTERNAL void *teff__memory_alloc_line(teff__memory *memory, size_t size);

/* Frees what either of the two gave; `size` is what was asked for. NULL is allowed. */
TEFF__INTERNAL void teff__memory_free(teff__memory *memory, void *pointer, size_t size);

/*
 * Reserves zeroed address space that costs a page once it is touched (mmap, MAP_NORESERVE). Not
 * counted in `bytes`. `size` is a multiple of 4096. NULL as above.
 */
TEFF__INTERNAL void *teff__memory_reserve(teff__memory *memory, size_t size);
TEFF__INTERNAL void teff__memory_release(teff__memory *memory, void *pointer, size_t size);

enum { TEFF__HUGE_PAGE_BYTES = 2 << 20 };

/*
 * The same, aligned to 2 MiB, as `size` is: the system is asked for huge pages, which are zero too,
 * and cost as a whole.
 */
TEFF__INTERNAL void *teff__memory_reserve_huge(teff__memory *memory, size_t size);

/*
 * Counts an object that lies in what was reserved, as if it had been allocated: false as
 * teff__memory_alloc fails. And no more.
 */
TEFF__INTERNAL bool teff__memory_take(teff__memory *memory, size_t size);
TEFF__INTERNAL void teff__memory_give(teff__memory *memory, size_t size);

/* The name of the allocator that the library was built with: "mimalloc", "jemalloc" or "system". */
TEFF__INTERNAL const char *teff__memory_allocator(void);

/* What the allocator holds and nobody uses goes back to the system, where it can. To measure. */
TEFF__INTERNAL void teff__memory_purge(void);

/* The first word of a free object. */
typedef struct teff__pool_link {
    struct teff__pool_link *next;
} teff__pool_link;

typedef struct teff__pool {
    teff__pool_link *free; /* owner only */
    teff__memory *memory;
    size_t object_size;      /* a multiple of a cache line */
    uint32_t made, made_max; /* objects carved so far, and how many may be; owner only */
    void *chunks;            /* for finish; owner only */
    /* chains from other threads; any producer; owner */
    _Alignas(TEFF__CACHE_LINE) teff__atomic_pointer foreign;
} teff__pool;

/* `object_size` is rounded up to whole cache lines. Allocates nothing yet. */
TEFF__INTERNAL void teff__pool_init(teff__pool *pool, teff__memory *memory, size_t object_size,
                                    uint32_t made_max);

/*
 * Frees all chunks; no object of the pool may be in use by then, which debug builds check, but for
 * what frames held whose stacks were dropped.
 */
TEFF__INTERNAL void teff__pool_finish(teff__pool *pool);

/* Takes back what others returned, else carves a chunk. NULL: no memory, or made_max reached. */
TEFF__INTERNAL void *teff__pool_take_slow(teff__pool *pool);

/* An object whose bytes are anything, or NULL. */
static inline void *teff__pool_take(teff__pool *pool)
{
    teff__pool_link *link = pool->free;
    if (TEFF__LIKELY(link != NULL)) {
        pool->free = link->next;
        return link;
    }
    return teff__pool_take_slow(pool);
}

static inline void teff__pool_put(teff__pool *pool, void *object)
{
    teff__pool_link *link = object;
    link->next = pool->free;
    pool->free = link;
}

/* Returns a chain, linked by its first words, from a thread that does not own the pool. */
TEFF__INTERNAL void teff__pool_put_foreign(teff__pool *pool, teff__pool_link *first,
                                           teff__pool_link *last);

#endif
