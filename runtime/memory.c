/* SPDX-License-Identifier: MIT */
/*
 * Memory: three allocators behind three functions, the accounts before them, and pools of equal
 * objects behind.
 *
 * The bytes are taken from the account before anything is allocated and given back when that fails,
 * so that threads together never hold more than the limit, and none is refused while there is room
 * for it.
 *
 * A pool carves chunks into a list of free objects. Other threads return objects to a stack beside
 * it; only the owner takes from that one, and always the whole of it, so there is no ABA problem.
 */
#include "runtime/memory.h"

#include <string.h>
#include <sys/mman.h>

#if defined(TEFF_ALLOCATOR_MIMALLOC)
#include <mimalloc.h>
#elif defined(TEFF_ALLOCATOR_JEMALLOC)
#include <jemalloc/jemalloc.h>
#else
#include <malloc.h>
#include <stdlib.h>
#endif

enum {
    ALIGNMENT = 16,
    PAGE_SIZE_MIN = 4096,
    ARRAY_BYTES_HUGE = 8 << 20, /* tables of millions, which are looked into at random */
    /* A pool begins small, since many stay so; from there on each chunk doubles the one before. */
    CHUNK_OBJECTS_FIRST = 64,
    CHUNK_OBJECTS_MIN = 8,
    CHUNK_BYTES_FIRST_MAX = 16 * 1024,
    CHUNK_BYTES_MAX = 256 * 1024
};

/* --- The allocators -------------------------------------------------------------------------- */

/* Each gives zeroed memory or NULL; `size` is a multiple of the alignment and not 0. */
static void *allocator_alloc(size_t size);
static void *allocator_alloc_line(size_t size);
static void allocator_free(void *pointer);

#if defined(TEFF_ALLOCATOR_MIMALLOC)

static void *allocator_alloc(size_t size)
{
    return mi_zalloc(size);
}

static void *allocator_alloc_line(size_t size)
{
    return mi_zalloc_aligned(size, TEFF__CACHE_LINE);
}

static void allocator_free(void *pointer)
{
    mi_free(pointer);
}

const char *teff__memory_allocator(void)
{
    return "mimalloc";
}

void teff__memory_purge(void)
{
    mi_collect(true);
}

#elif defined(TEFF_ALLOCATOR_JEMALLOC)

static void *allocator_alloc(size_t size)
{
    return mallocx(size, MALLOCX_ZERO);
}

static void *allocator_alloc_line(size_t size)
{
    return mallocx(size, MALLOCX_ZERO | MALLOCX_ALIGN(TEFF__CACHE_LINE));
}

static void allocator_free(void *pointer)
{
    dallocx(pointer, 0); /* not sdallocx: it would need the flags of the allocation */
}

const char *teff__memory_allocator(void)
{
    return "jemalloc";
}

void teff__memory_purge(void)
{
    (void)mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    (void)mallctl("arena.4096.purge", NULL, NULL, NULL, 0); /* 4096 is MALLCTL_ARENAS_ALL */
    _Static_assert(MALLCTL_ARENAS_ALL == 4096, "the name above says so");
}

#else

static void *allocator_alloc(size_t size)
{
    return calloc(1, size);
}

static void *allocator_alloc_line(size_t size)
{
    void *pointer = aligned_alloc(TEFF__CACHE_LINE, size);
    return pointer != NULL ? memset(pointer, 0, size) : NULL;
}

static void allocator_free(void *pointer)
{
    free(pointer);
}

const char *teff__memory_allocator(void)
{
    return "system";
}

void teff__memory_purge(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

#endif

/* --- The accounts ---------------------------------------------------------------------------- */

void teff__memory_init(teff__memory *memory, uint64_t bytes_max)
{
    teff__atomic_u64_store_relaxed(&memory->allocations, 0);
    teff__atomic_u64_store_relaxed(&memory->bytes, 0);
    teff__atomic_u64_store_relaxed(&memory->fail_at, 0);
    memory->bytes_max = bytes_max;
    memory->stacks_dropped = false;
}

void teff__memory_fail_at(teff__memory *memory, uint64_t n)
{
    teff__atomic_u64_store_relaxed(&memory->fail_at, n);
}

/* Counts down; the one thread that goes from 1 to 0 is the one that fails. */
static bool failure_injected(teff__memory *memory)
{
    uint64_t n = teff__atomic_u64_load_relaxed(&memory->fail_at);
    while (n != 0)
        if (teff__atomic_u64_cas_relaxed(&memory->fail_at, &n, n - 1))
            return n == 1;
    return false;
}

static bool account_take(teff__memory *memory, size_t size)
{
    if (memory->bytes_max == 0) {
        (void)teff__atomic_u64_add_relaxed(&memory->bytes, size);
        return true;
    }
    /* Not add-and-look: what a refused thread had added for a moment would refuse one that fits. */
    uint64_t bytes = teff__atomic_u64_load_relaxed(&memory->bytes);
    do
        if (size > memory->bytes_max - bytes)
            return false;
    while (!teff__atomic_u64_cas_relaxed(&memory->bytes, &bytes, bytes + size));
    return true;
}

static void account_give(teff__memory *memory, size_t size)
{
    uint64_t bytes = teff__atomic_u64_add_relaxed(&memory->bytes, 0 - (uint64_t)size);
    teff_assert(bytes >= size);
}

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

/*
 * Whatever whole huge pages there are in it. It is a wish: where the system has none, or gives all
 * without being asked, nothing changes.
 */
static void ask_for_huge_pages(void *pointer, size_t size)
{
    const uintptr_t first = round_up((uintptr_t)pointer, TEFF__HUGE_PAGE_BYTES);
    const uintptr_t last =
        ((uintptr_t)pointer + size) / TEFF__HUGE_PAGE_BYTES * TEFF__HUGE_PAGE_BYTES;
    if (first < last)
        (void)madvise((void *)first, last - first, MADV_HUGEPAGE);
}

static void *alloc(teff__memory *memory, size_t size, size_t alignment,
                   void *(*allocator)(size_t size))
{
    if (size > PTRDIFF_MAX || failure_injected(memory) || !account_take(memory, size))
        return NULL;
    /* Whole units: small sizes are aligned to less, and an object of 0 bytes has an address too. */
    void *pointer = allocator(size == 0 ? alignment : round_up(size, alignment));
    if (pointer == NULL) {
        account_give(memory, size);
        return NULL;
    }
    (void)teff__atomic_u64_add_relaxed(&memory->allocations, 1);
    if (TEFF__UNLIKELY(size >= ARRAY_BYTES_HUGE))
        ask_for_huge_pages(pointer, size);
    return pointer;
}

void *teff__memory_alloc(teff__memory *memory, size_t size)
{
    return alloc(memory, size, ALIGNMENT, allocator_alloc);
}

void *teff__memory_alloc_line(teff__memory *memory, size_t size)
{
    return alloc(memory, size, TEFF__CACHE_LINE, allocator_alloc_line);
}

void teff__memory_free(teff__memory *memory, void *pointer, size_t size)
{
    if (pointer == NULL)
        return;
    allocator_free(pointer);
    account_give(memory, size);
}

void *teff__memory_reserve(teff__memory *memory, size_t size)
{
    teff_assert(size != 0 && size % PAGE_SIZE_MIN == 0);
    if (failure_injected(memory))
        return NULL;
    void *pointer = mmap(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pointer == MAP_FAILED)
        return NULL;
    (void)teff__atomic_u64_add_relaxed(&memory->allocations, 1);
    return pointer;
}

void *teff__memory_reserve_huge(teff__memory *memory, size_t size)
{
    teff_assert(size != 0 && size % TEFF__HUGE_PAGE_BYTES == 0);
    char *pointer = teff__memory_reserve(memory, size + TEFF__HUGE_PAGE_BYTES);
    if (pointer == NULL)
        return NULL;
    const size_t before = -(uintptr_t)pointer % TEFF__HUGE_PAGE_BYTES;
    if (before != 0)
        teff__memory_release(memory, pointer, before);
    teff__memory_release(memory, pointer + before + size, TEFF__HUGE_PAGE_BYTES - before);
    ask_for_huge_pages(pointer + before, size);
    return pointer + before;
}

bool teff__memory_take(teff__memory *memory, size_t size)
{
    if (failure_injected(memory) || !account_take(memory, size))
        return false;
    (void)teff__atomic_u64_add_relaxed(&memory->allocations, 1);
    return true;
}

void teff__memory_give(teff__memory *memory, size_t size)
{
    account_give(memory, size);
}

void teff__memory_release(teff__memory *memory, void *pointer, size_t size)
{
    (void)memory;
    if (pointer == NULL)
        return;
    /*
     * The kernel joins neighbouring mappings, and to take one out of the middle it needs one more
     * than before. At the process's limit of mappings it refuses: then the pages go back at least,
     * and only addresses are lost.
     */
    if (munmap(pointer, size) != 0)
        (void)madvise(pointer, size, MADV_DONTNEED);
}

/* --- The pools ------------------------------------------------------------------------------- */

/* Stands in the first cache line of each chunk; the objects follow. */
typedef struct chunk {
    struct chunk *next;
    size_t size; /* as asked for */
    size_t span; /* what it was to occupy; the next one doubles it */
} chunk;

_Static_assert(sizeof(chunk) <= TEFF__CACHE_LINE, "the header is one line");

void teff__pool_init(teff__pool *pool, teff__memory *memory, size_t object_size, uint32_t made_max)
{
    pool->free = NULL;
    pool->memory = memory;
    pool->object_size = round_up(object_size, TEFF__CACHE_LINE);
    pool->made = 0;
    pool->made_max = made_max;
    pool->chunks = NULL;
    teff__atomic_pointer_store_relaxed(&pool->foreign, NULL);
    teff_assert(pool->object_size != 0);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/*
 * Adds a chunk's objects to the free list, lowest address first. Of the span one line is the
 * header's and one is left to the allocator, which spends up to that on alignment: without it each
 * chunk would fall into the next size class.
 */
static void pool_grow(teff__pool *pool)
{
    const chunk *last = pool->chunks;
    size_t span = last == NULL
                      ? smaller(CHUNK_OBJECTS_FIRST * pool->object_size, CHUNK_BYTES_FIRST_MAX)
                      : smaller(2 * last->span, CHUNK_BYTES_MAX);
    size_t objects = (span - 2 * TEFF__CACHE_LINE) / pool->object_size;
    if (objects < CHUNK_OBJECTS_MIN)
        objects = CHUNK_OBJECTS_MIN;
    objects = smaller(objects, pool->made_max - pool->made);
    if (objects == 0)
        return;

    size_t size = TEFF__CACHE_LINE + objects * pool->object_size;
    chunk *grown = teff__memory_alloc_line(pool->memory, size);
    if (grown == NULL)
        return;
    *grown = (chunk){ .next = pool->chunks, .size = size, .span = span };
    pool->chunks = grown;
    pool->made += (uint32_t)objects;
    for (char *object = (char *)grown + size; objects > 0; objects--) {
        object -= pool->object_size;
        teff__pool_put(pool, object);
    }
}

void *teff__pool_take_slow(teff__pool *pool)
{
    teff_assert(pool->free == NULL);
    if (teff__atomic_pointer_load_relaxed(&pool->foreign) != NULL)
        /* pairs with put_foreign's release */
        pool->free = teff__atomic_pointer_exchange_acquire(&pool->foreign, NULL);
    else
        pool_grow(pool);

    teff__pool_link *link = pool->free;
    if (link != NULL)
        pool->free = link->next;
    return link;
}

void teff__pool_put_foreign(teff__pool *pool, teff__pool_link *first, teff__pool_link *last)
{
    void *head = teff__atomic_pointer_load_relaxed(&pool->foreign);
    do
        last->next = head;
    while (!teff__atomic_pointer_cas_release(&pool->foreign, &head, first));
}

static uint32_t chain_length(const teff__pool_link *link)
{
    uint32_t length = 0;
    for (; link != NULL; link = link->next)
        length++;
    return length;
}

void teff__pool_finish(teff__pool *pool)
{
    /* pairs with put_foreign's release */
    const teff__pool_link *foreign = teff__atomic_pointer_exchange_acquire(&pool->foreign, NULL);
    teff_assert_slow(chain_length(pool->free) + chain_length(foreign) == pool->made ||
                     pool->memory->stacks_dropped);
    chunk *next;
    for (chunk *each = pool->chunks; each != NULL; each = next) {
        next = each->next;
        teff__memory_free(pool->memory, each, each->size);
    }
    pool->free = NULL;
    pool->chunks = NULL;
    pool->made = 0;
}
