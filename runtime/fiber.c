/* SPDX-License-Identifier: MIT */
/*
 * Fibers: their stacks, and what the tools must be told about them.
 *
 * A slab is one mapping of 64 slots; slots are made fibers one at a time, from its upper end down,
 * so a slab costs nothing but address space and a page until they are used:
 *
 *   │ guard 64 KiB │ stack, growing down ◄─ │ fiber │ colour │ guard │ … │ slab's header │
 *
 * The colour is a different distance for each slot. All of a worker's suspended turns have their
 * hot lines the same few hundred bytes below the top; without it those of a hundred would compete
 * for the same 8 ways of the L1 cache. It has a page of its own in the slot. That page also keeps
 * the slot from being a power of two of pages, which would do to the TLB's sets what equal tops do
 * to the cache's.
 *
 * Guards are markers in the page table where the kernel has them (MADV_GUARD_INSTALL, Linux 6.13):
 * they cost no mapping. Elsewhere a guard splits the slab, two mappings per stack, of which a
 * process may have 65,530 by default.
 */
#include "runtime/fiber.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifdef TEFF__FIBER_ASAN
#include <sanitizer/asan_interface.h>
#endif
#ifdef TEFF_HAVE_VALGRIND
#include <valgrind/valgrind.h>
#endif

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum {
    SLAB_SLOTS = 64,
    COLOUR_STEP = 448, /* 7 lines: 64 slots in turn have all 64 places of a 4 KiB page */
    COLOUR_BYTES = 4096,
#ifdef TEFF__FIBER_TSAN
    MADE_MAX = 4096, /* the thread sanitizer knows about 8000 threads and fibers in all */
#else
    MADE_MAX = 262144,
#endif
    MAPPINGS_PER_STACK = 2,
    MAPPINGS_DEFAULT = 65530, /* the kernel's own default, where it does not tell */
    /*
     * The turns to come run on the fibers put last; giving back what they then touch anew costs 1
     * to 40 us a page where we measured. So many are left alone: at most 1 MiB per worker.
     */
    TRIM_SPARED = 16,
    /*
     * Kept below a stack pointer by trim: the red zone, and what swapcontext pushed after it was
     * noted.
     */
    TRIM_BELOW_SP = 512
};

/* 128 TiB of addresses are a process's; 64 workers leave it half of them. */
static const uint64_t ADDRESSES_MAX = UINT64_C(1) << 40;

/* At the upper end of its slab. */
struct teff__fiber_slab {
    teff__fiber_slab *next; /* the next older one */
};

_Static_assert(sizeof(teff__fiber_slab) <= TEFF__CACHE_LINE, "the slab's header takes one line");
_Static_assert(COLOUR_STEP % TEFF__CACHE_LINE == 0, "a fiber begins a cache line");

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t slot_bytes(const teff__fiber_pool *pool)
{
    return TEFF__FIBER_GUARD_BYTES + pool->stack_bytes + page_bytes();
}

static size_t slab_bytes(const teff__fiber_pool *pool)
{
    return SLAB_SLOTS * slot_bytes(pool);
}

static char *slab_low(const teff__fiber_pool *pool, teff__fiber_slab *slab)
{
    return (char *)slab + TEFF__CACHE_LINE - slab_bytes(pool);
}

/*
 * -------------------------------------------------------------------------------------------------
 * --- limits
 */

/* Reads the kernel's limit of mappings per process. */
static uint32_t mappings_max(void)
{
    char text[24];
    ssize_t length = -1;
    int file = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        length = read(file, text, sizeof text - 1);
        (void)close(file);
    }
    if (length <= 0)
        return MAPPINGS_DEFAULT;
    text[length] = '\0';
    unsigned long count = strtoul(text, NULL, 10);
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

/*
 * Asks the kernel for a guard, and then to write there: qemu-user says yes to any advice and does
 * nothing about it.
 */
static bool has_guard_markers(void)
{
    size_t page = page_bytes();
    void *probe = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe == MAP_FAILED)
        return false;
    bool has = madvise(probe, page, MADV_GUARD_INSTALL) == 0 && uname(probe) != 0;
    (void)munmap(probe, page);
    return has;
}

static uint32_t made_max_possible(const teff__fiber_pool *pool)
{
    uint64_t most = ADDRESSES_MAX / slot_bytes(pool);
    if (most > MADE_MAX)
        most = MADE_MAX;
    if (!pool->guard_markers) {
        uint64_t mapped = mappings_max() / 2 / MAPPINGS_PER_STACK;
        if (most > mapped)
            most = mapped;
    }
    return (uint32_t)most;
}

/*
 * -------------------------------------------------------------------------------------------------
 * ---- tools
 */

/* What a tool wants to know of a stack before anything runs on it, and after the last. */
static void tools_fiber_made(teff__fiber *fiber)
{
#ifdef TEFF__FIBER_TSAN
    fiber->tsan_fiber = __tsan_create_fiber(0);
#endif
#ifdef TEFF_HAVE_VALGRIND
    fiber->valgrind_id = VALGRIND_STACK_REGISTER(fiber->stack_low, fiber);
#endif
    (void)fiber;
}

static void tools_fiber_dropped(teff__fiber *fiber)
{
#ifdef TEFF__FIBER_ASAN
    /*
     * Frames kept for use after return die with the running fiber only: pretend for a moment to be
     * this one.
     */
    if (fiber->asan_stack != NULL) {
        void *own_stack;
        const void *own_low;
        size_t own_bytes;
        __sanitizer_start_switch_fiber(&own_stack, fiber->stack_low, fiber->stack_bytes);
        __sanitizer_finish_switch_fiber(fiber->asan_stack, &own_low, &own_bytes);
        __sanitizer_start_switch_fiber(NULL, own_low, own_bytes);
        __sanitizer_finish_switch_fiber(own_stack, NULL, NULL);
    }
#endif
#ifdef TEFF__FIBER_TSAN
    __tsan_destroy_fiber(fiber->tsan_fiber);
#endif
#ifdef TEFF_HAVE_VALGRIND
    VALGRIND_STACK_DEREGISTER(fiber->valgrind_id);
#endif
    (void)fiber;
}

void teff__fiber_adopt(teff__fiber *host)
{
    *host = (teff__fiber){ 0 };
#ifdef TEFF__FIBER_ASAN
    /* A switch tells the bounds of the stack that it left: go nowhere, and come back. */
    void *own_stack;
    const void *low;
    __sanitizer_start_switch_fiber(&own_stack, host, sizeof *host);
    __sanitizer_finish_switch_fiber(own_stack, &low, &host->stack_bytes);
    __sanitizer_start_switch_fiber(&own_stack, low, host->stack_bytes);
    __sanitizer_finish_switch_fiber(own_stack, NULL, NULL);
    memcpy(&host->stack_low, &low, sizeof low);
#endif
#ifdef TEFF__FIBER_TSAN
    host->tsan_fiber = __tsan_get_current_fiber();
#endif
}

/*
 * ------------------------------------------------------------------------------------------- where
 * they begin
 */

void teff__fiber_begin(teff__fiber_pool *pool)
{
#ifdef TEFF__FIBER_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
    pool->run(pool->argument);
    teff__assert_failed("a fiber's function never returns", __FILE__, __LINE__);
}

#ifdef TEFF_FIBER_UCONTEXT

/* makecontext passes ints only. */
static void begin_in_halves(unsigned high, unsigned low)
{
    teff__fiber_begin((teff__fiber_pool *)(((uintptr_t)high << 16 << 16) | low));
}

static void fiber_prepare(teff__fiber *fiber, teff__fiber_pool *pool)
{
    uintptr_t bits = (uintptr_t)pool;
    int r = getcontext(&fiber->context);
    teff_assert(r == 0);
    fiber->context.uc_link = NULL;
    fiber->context.uc_stack.ss_sp = fiber->stack_low;
    fiber->context.uc_stack.ss_size = fiber->stack_bytes;
    makecontext(&fiber->context, (void (*)(void))begin_in_halves, 2, (unsigned)(bits >> 16 >> 16),
                (unsigned)bits);
}

void teff__fiber_jump(teff__fiber *from, teff__fiber *to)
{
    from->sp = __builtin_frame_address(0);
    int r = swapcontext(&from->context, &to->context);
    teff_assert(r == 0);
}

#else

static void fiber_prepare(teff__fiber *fiber, teff__fiber_pool *pool)
{
    fiber->resume = (void *)(uintptr_t)teff__fiber_entry;
    fiber->base = pool;
}

#endif

/*
 * -------------------------------------------------------------------------------------------------
 * the pool
 */

int teff__fiber_pool_init(teff__fiber_pool *pool, teff__memory *memory, size_t stack_bytes,
                          uint32_t made_max, void (*run)(void *argument), void *argument)
{
    if (stack_bytes == 0)
        stack_bytes = TEFF__FIBER_STACK_BYTES;
    if (stack_bytes < TEFF__FIBER_STACK_BYTES_MIN || stack_bytes > TEFF__FIBER_STACK_BYTES_MAX ||
        stack_bytes % page_bytes() != 0)
        return TEFF_EINVAL;
    teff_assert(run != NULL);
    *pool = (teff__fiber_pool){ .memory = memory,
                                .stack_bytes = stack_bytes,
                                .guard_markers = has_guard_markers(),
                                .run = run,
                                .argument = argument };
    uint32_t possible = made_max_possible(pool);
    pool->made_max = made_max != 0 && made_max < possible ? made_max : possible;
    return 0;
}

static teff__fiber *fiber_at(const teff__fiber_pool *pool, teff__fiber_slab *slab, uint32_t index)
{
    char *top = (char *)slab - index * slot_bytes(pool) - index * COLOUR_STEP % COLOUR_BYTES;
    return (teff__fiber *)(void *)(top - sizeof(teff__fiber));
}

void teff__fiber_pool_finish(teff__fiber_pool *pool)
{
    uint32_t room = pool->room;
    while (pool->slabs != NULL) {
        teff__fiber_slab *slab = pool->slabs;
        char *low = slab_low(pool, slab);
        pool->slabs = slab->next;
        for (uint32_t index = 0; index < SLAB_SLOTS - room; index++)
            tools_fiber_dropped(fiber_at(pool, slab, index));
        room = 0;
#ifdef TEFF__FIBER_ASAN
        /* The red zones of frames that were dropped would outlive the mapping. */
        __asan_unpoison_memory_region(low, slab_bytes(pool));
#endif
        teff__memory_release(pool->memory, low, slab_bytes(pool));
    }
    *pool = (teff__fiber_pool){ 0 };
}

static bool slab_make(teff__fiber_pool *pool)
{
    char *low = teff__memory_reserve(pool->memory, slab_bytes(pool));
    if (low == NULL)
        return false;
    /*
     * A huge page would make 2 MiB resident for 8 KiB of use. A kernel without them refuses, and is
     * right to.
     */
    (void)madvise(low, slab_bytes(pool), MADV_NOHUGEPAGE);
    teff__fiber_slab *slab = (void *)(low + slab_bytes(pool) - TEFF__CACHE_LINE);
    slab->next = pool->slabs;
    pool->slabs = slab;
    pool->room = SLAB_SLOTS;
    return true;
}

static bool guard_make(const teff__fiber_pool *pool, char *low)
{
    /* Markers are refused in memory that the program has locked since. */
    if (pool->guard_markers && madvise(low, TEFF__FIBER_GUARD_BYTES, MADV_GUARD_INSTALL) == 0)
        return true;
    return mprotect(low, TEFF__FIBER_GUARD_BYTES, PROT_NONE) == 0;
}

/* Makes the next slot a fiber. NULL: no memory, or no mapping left for its guard. */
static teff__fiber *fiber_carve(teff__fiber_pool *pool)
{
    if (pool->room == 0 && !slab_make(pool))
        return NULL;
    uint32_t index = SLAB_SLOTS - pool->room;
    char *guard = slab_low(pool, pool->slabs) + (pool->room - 1) * slot_bytes(pool);
    if (!guard_make(pool, guard))
        return NULL;

    teff__fiber *fiber = fiber_at(pool, pool->slabs, index);
    fiber->sp = fiber;
    fiber->stack_low = guard + TEFF__FIBER_GUARD_BYTES;
    fiber->stack_bytes = (size_t)((char *)fiber - (char *)fiber->stack_low);
    fiber_prepare(fiber, pool);
    tools_fiber_made(fiber);
    pool->room--;
    pool->made++;
    return fiber;
}

int teff__fiber_pool_reserve_slow(teff__fiber_pool *pool)
{
    teff_assert(pool->free == NULL);
    teff__fiber *fiber = pool->trimmed;
    if (fiber != NULL)
        pool->trimmed = fiber->next;
    else if (pool->made >= pool->made_max)
        return TEFF_ELIMIT;
    else if ((fiber = fiber_carve(pool)) == NULL)
        return TEFF_ENOMEM;
    teff__fiber_pool_put(pool, fiber);
    return 0;
}

/* Its live part stays, and the two pages at the top that every turn uses. */
static void fiber_trim(teff__fiber *fiber)
{
    uintptr_t page = page_bytes();
    uintptr_t low = (uintptr_t)fiber->stack_low;
    uintptr_t high = (uintptr_t)fiber / page * page - page;
    uintptr_t live = ((uintptr_t)fiber->sp - TRIM_BELOW_SP) / page * page;
    if (high > live)
        high = live;
    if (low < high)
        (void)madvise(fiber->stack_low, high - low, MADV_DONTNEED);
}

void teff__fiber_pool_trim(teff__fiber_pool *pool, uint32_t most)
{
    teff__fiber **link = &pool->free;
    for (int spared = 0; spared < TRIM_SPARED && *link != NULL; spared++)
        link = &(*link)->next;
    for (; most > 0 && *link != NULL; most--) {
        teff__fiber *fiber = *link;
        *link = fiber->next;
        fiber_trim(fiber);
        fiber->next = pool->trimmed;
        pool->trimmed = fiber;
    }
}
