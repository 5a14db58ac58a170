/* SPDX-License-Identifier: MIT */
/*
 * Fibers: stacks that a worker's loop can leave and come back to.
 *
 * All fibers of a pool run one function, the worker's loop, and are interchangeable as long as no
 * turn is suspended on them: a free fiber was either never started or is parked at a point of its
 * loop where nothing of it is needed. Taking one from the pool and switching to it goes on with the
 * loop, whichever it was.
 *
 * A stack lies in a slab with a guard at its low end, as large as a handler's frame may be. The
 * fiber's own structure stands at the top of its stack.
 *
 *   init ─► { reserve ─► take ─► switch … switch ─► put } ─► finish, dropping what is suspended
 *
 * Write a switch directly into the function that must leave, best into the loop itself: each `ret`
 * between the switch and the place where both sides have equal depth again is predicted wrongly,
 * once, at 10 ns (arch/fiber_x86_64.h).
 *
 * Threads: the owner of the pool. A fiber never changes thread.
 */
#ifndef TEFF_RUNTIME_FIBER_H
#define TEFF_RUNTIME_FIBER_H

#include "runtime/assert.h"
#include "runtime/memory.h"
#include "teff/status.h"

#include <stddef.h>
#include <stdint.h>

/* gcc and clang tell differently that a sanitizer is on. */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define TEFF__FIBER_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define TEFF__FIBER_TSAN
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define TEFF__FIBER_ASAN
#endif
#ifdef __SANITIZE_THREAD__
#define TEFF__FIBER_TSAN
#endif

#ifdef TEFF__FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TEFF__FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/*
 * The way that always works, and the way of tests on the others. APX has registers that ours do not
 * name.
 */
#if !defined(TEFF_FIBER_UCONTEXT) &&                                                               \
    (!(defined(__x86_64__) || defined(__aarch64__)) || defined(__ILP32__) || defined(__APX_F__))
#define TEFF_FIBER_UCONTEXT
#endif
#ifdef TEFF_FIBER_UCONTEXT
#include <ucontext.h>
#endif

enum {
    TEFF__FIBER_STACK_BYTES_MIN = 16 * 1024, /* a handler, a log line with printf, and the colour */
    TEFF__FIBER_STACK_BYTES_MAX = 16 * 1024 * 1024,
#if defined(TEFF__FIBER_ASAN) || defined(TEFF__FIBER_TSAN)
    TEFF__FIBER_STACK_BYTES = 256 * 1024, /* frames with red zones are several times as large */
#else
    TEFF__FIBER_STACK_BYTES = 64 * 1024,
#endif
    TEFF__FIBER_GUARD_BYTES = 64 * 1024 /* the largest frame that a handler may have */
};

/*
 * Zeroed, then adopted: a thread's own stack. One cache line, so that a switch touches no other of
 * the fiber.
 */
typedef struct teff__fiber {
    _Alignas(TEFF__CACHE_LINE) void *sp; /* the saved stack pointer, while it does not run */
    struct teff__fiber *next;            /* in the pool: the next free one */
    void *stack_low;                     /* above the guard */
    size_t stack_bytes;                  /* from there up to this structure */
    void *resume;                        /* where it goes on */
    void *frame, *base;                  /* rbp and rbx, or x29 and x19 */
#ifdef TEFF_FIBER_UCONTEXT
    ucontext_t context;
#endif
#ifdef TEFF__FIBER_ASAN
    void *asan_stack; /* frames that it keeps elsewhere to detect use after return */
#endif
#ifdef TEFF__FIBER_TSAN
    void *tsan_fiber;
#endif
#ifdef TEFF_HAVE_VALGRIND
    unsigned valgrind_id;
#endif
} teff__fiber;

typedef struct teff__fiber_slab teff__fiber_slab;

typedef struct teff__fiber_pool {
    teff__fiber *free;    /* put since the last trim, latest first */
    teff__fiber *trimmed; /* free, and looked at by trim */
    teff__memory *memory;
    teff__fiber_slab *slabs; /* newest first; only that one may have room */
    size_t stack_bytes;
    uint32_t made, made_max; /* stacks carved so far, and how many may be */
    uint32_t room;           /* slots of the newest slab not carved yet */
    bool guard_markers;      /* the kernel has guards that cost no mapping */
    void (*run)(void *argument);
    void *argument;
} teff__fiber_pool;

/*
 * `stack_bytes` 0: 64 KiB (256 under a sanitizer), else a multiple of the page from 16 KiB to 16
 * MiB. `made_max` 0: as many as can be, else at most so many. Without guard markers they are
 * bounded by the mappings that the kernel allows the process, half of which stay the program's;
 * pools of one process share them. `run` never returns. TEFF_EINVAL: a stack of another size.
 */
TEFF__INTERNAL int teff__fiber_pool_init(teff__fiber_pool *pool, teff__memory *memory,
                                         size_t stack_bytes, uint32_t made_max,
                                         void (*run)(void *argument), void *argument);

/* Frees all stacks. What was suspended on one is dropped un-unwound. Not for use on one of them. */
TEFF__INTERNAL void teff__fiber_pool_finish(teff__fiber_pool *pool);

TEFF__INTERNAL int teff__fiber_pool_reserve_slow(teff__fiber_pool *pool);

/* Makes sure that one fiber is free. TEFF_ELIMIT: made_max are in use; TEFF_ENOMEM. */
static inline int teff__fiber_pool_reserve(teff__fiber_pool *pool)
{
    return TEFF__LIKELY(pool->free != NULL) ? 0 : teff__fiber_pool_reserve_slow(pool);
}

/* After a reserve that gave 0. */
static inline teff__fiber *teff__fiber_pool_take(teff__fiber_pool *pool)
{
    teff__fiber *fiber = pool->free;
    teff_assert(fiber != NULL);
    pool->free = fiber->next;
    return fiber;
}

static inline void teff__fiber_pool_put(teff__fiber_pool *pool, teff__fiber *fiber)
{
    fiber->next = pool->free;
    pool->free = fiber;
}

/*
 * For a worker about to park: looks at up to `most` fibers that were put since it last did, and
 * gives what they touched deep in their stacks back to the system. The latest few are left alone,
 * since the next turns run on them. Nothing new costs nothing; each fiber otherwise one system
 * call.
 */
TEFF__INTERNAL void teff__fiber_pool_trim(teff__fiber_pool *pool, uint32_t most);

/*
 * Makes `host` stand for the calling thread's own stack, so that one can switch from it and back.
 */
TEFF__INTERNAL void teff__fiber_adopt(teff__fiber *host);

/* For the implementation: the first code of a fiber, and the C function that it calls. */
TEFF__INTERNAL void teff__fiber_entry(void);
_Noreturn TEFF__INTERNAL void teff__fiber_begin(teff__fiber_pool *pool);

#if defined(TEFF_FIBER_UCONTEXT)
TEFF__INTERNAL void teff__fiber_jump(teff__fiber *from, teff__fiber *to);
#elif defined(__x86_64__)
#include "runtime/arch/fiber_x86_64.h"
#else
#include "runtime/arch/fiber_aarch64.h"
#endif

#ifdef TEFF__FIBER_ASAN
/*
 * The address sanitizer keeps no frame for use after return of a function with assembly in it, and
 * those that suspend are just the ones whose frames others write.
 */
#define TEFF__FIBER_INLINE __attribute__((noinline, unused))
#else
#define TEFF__FIBER_INLINE inline __attribute__((always_inline))
#endif

/*
 * Leaves `from`, which runs, for `to`, which does not; returns when somebody switches back to
 * `from`.
 */
static TEFF__FIBER_INLINE void teff__fiber_switch(teff__fiber *from, teff__fiber *to)
{
#ifdef TEFF__FIBER_ASAN
    __sanitizer_start_switch_fiber(&from->asan_stack, to->stack_low, to->stack_bytes);
#endif
#ifdef TEFF__FIBER_TSAN
    __tsan_switch_to_fiber(to->tsan_fiber, 0);
#endif
    teff__fiber_jump(from, to);
#ifdef TEFF__FIBER_ASAN
    __sanitizer_finish_switch_fiber(from->asan_stack, NULL, NULL);
#endif
}

#endif
