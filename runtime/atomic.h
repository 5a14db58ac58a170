/* SPDX-License-Identifier: MIT */
/*
 * Words that threads share.
 *
 * Every such word of the runtime is one of the types below and is read and written through these
 * functions only, one for each operation and memory order, with the order in its name (as mimalloc
 * does). In a release build each is the plain C11 operation. A build of the simulator defines
 * TEFF__YIELD_POINT to hand over to another simulated worker first, so that it interleaves the same
 * code at exactly the places where real threads meet.
 *
 * There are no stand-alone fences: the thread sanitizer cannot follow them.
 */
#ifndef TEFF_RUNTIME_ATOMIC_H
#define TEFF_RUNTIME_ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef TEFF__YIELD_POINT
#define TEFF__YIELD_POINT() ((void)0)
#endif

enum { TEFF__CACHE_LINE = 64 };

#define TEFF__ATOMIC_LOAD(NAME, TYPE, ORDER)                                                       \
    static inline TYPE teff__atomic_##NAME##_load_##ORDER(const teff__atomic_##NAME *word)         \
    {                                                                                              \
        TEFF__YIELD_POINT();                                                                       \
        return atomic_load_explicit(&word->value, memory_order_##ORDER);                           \
    }
#define TEFF__ATOMIC_STORE(NAME, TYPE, ORDER)                                                      \
    static inline void teff__atomic_##NAME##_store_##ORDER(teff__atomic_##NAME *word, TYPE value)  \
    {                                                                                              \
        TEFF__YIELD_POINT();                                                                       \
        atomic_store_explicit(&word->value, value, memory_order_##ORDER);                          \
    }
#define TEFF__ATOMIC_EXCHANGE(NAME, TYPE, ORDER)                                                   \
    static inline TYPE teff__atomic_##NAME##_exchange_##ORDER(teff__atomic_##NAME *word,           \
                                                              TYPE value)                          \
    {                                                                                              \
        TEFF__YIELD_POINT();                                                                       \
        return atomic_exchange_explicit(&word->value, value, memory_order_##ORDER);                \
    }
/* Strong; a failed one loads with the order FAILED and tells what it saw through `expected`. */
#define TEFF__ATOMIC_CAS(NAME, TYPE, ORDER, FAILED)                                                \
    static inline bool teff__atomic_##NAME##_cas_##ORDER(teff__atomic_##NAME *word,                \
                                                         TYPE *expected, TYPE desired)             \
    {                                                                                              \
        TEFF__YIELD_POINT();                                                                       \
        return atomic_compare_exchange_strong_explicit(                                            \
            &word->value, expected, desired, memory_order_##ORDER, memory_order_##FAILED);         \
    }
#define TEFF__ATOMIC_ADD(NAME, TYPE, ORDER)                                                        \
    static inline TYPE teff__atomic_##NAME##_add_##ORDER(teff__atomic_##NAME *word, TYPE value)    \
    {                                                                                              \
        TEFF__YIELD_POINT();                                                                       \
        return atomic_fetch_add_explicit(&word->value, value, memory_order_##ORDER);               \
    }
#define TEFF__ATOMIC_OR(NAME, TYPE, ORDER)                                                         \
    static inline TYPE teff__atomic_##NAME##_or_##ORDER(teff__atomic_##NAME *word, TYPE value)     \
    {                                                                                              \
        TEFF__YIELD_POINT();                                                                       \
        return atomic_fetch_or_explicit(&word->value, value, memory_order_##ORDER);                \
    }
#define TEFF__ATOMIC_COMMON(NAME, TYPE)                                                            \
    typedef struct teff__atomic_##NAME {                                                           \
        _Atomic(TYPE) value;                                                                       \
    } teff__atomic_##NAME;                                                                         \
    TEFF__ATOMIC_LOAD(NAME, TYPE, relaxed)                                                         \
    TEFF__ATOMIC_LOAD(NAME, TYPE, acquire)                                                         \
    TEFF__ATOMIC_LOAD(NAME, TYPE, seq_cst)                                                         \
    TEFF__ATOMIC_STORE(NAME, TYPE, relaxed)                                                        \
    TEFF__ATOMIC_STORE(NAME, TYPE, release)                                                        \
    TEFF__ATOMIC_STORE(NAME, TYPE, seq_cst)                                                        \
    TEFF__ATOMIC_EXCHANGE(NAME, TYPE, acquire)                                                     \
    TEFF__ATOMIC_EXCHANGE(NAME, TYPE, acq_rel)                                                     \
    TEFF__ATOMIC_EXCHANGE(NAME, TYPE, seq_cst)                                                     \
    TEFF__ATOMIC_CAS(NAME, TYPE, relaxed, relaxed)                                                 \
    TEFF__ATOMIC_CAS(NAME, TYPE, release, relaxed)                                                 \
    TEFF__ATOMIC_CAS(NAME, TYPE, acq_rel, acquire)                                                 \
    TEFF__ATOMIC_CAS(NAME, TYPE, seq_cst, seq_cst)
#define TEFF__ATOMIC_NUMBER(NAME, TYPE)                                                            \
    TEFF__ATOMIC_COMMON(NAME, TYPE)                                                                \
    TEFF__ATOMIC_ADD(NAME, TYPE, relaxed)                                                          \
    TEFF__ATOMIC_ADD(NAME, TYPE, acq_rel)                                                          \
    TEFF__ATOMIC_ADD(NAME, TYPE, seq_cst)

TEFF__ATOMIC_NUMBER(u32, uint32_t)
TEFF__ATOMIC_NUMBER(u64, uint64_t)
TEFF__ATOMIC_OR(u64, uint64_t, relaxed)
TEFF__ATOMIC_NUMBER(i64, int64_t)
TEFF__ATOMIC_COMMON(pointer, void *)

/*
 * A counter with one writer: no locked instruction, and any thread may read it. One instruction,
 * where compilers make three of the load and the store; not where a sanitizer is to understand it. A
 * release: who sees the new count sees what came before it, such as another counter.
 */
static inline void teff__atomic_u64_increment_owner(teff__atomic_u64 *word)
{
#if defined(__x86_64__) && !defined(TEFF_DEBUG)
    __asm__("addq $1, %0" : "+m"(word->value) : : "cc");
#else
    teff__atomic_u64_store_release(word, teff__atomic_u64_load_relaxed(word) + 1);
#endif
}

/*
 * Fetches a line that another core wrote, to be written here: one transfer instead of two. The
 * compiler's own takes it for reading only, where it may assume no more than the first x86-64.
 */
static inline void teff__prefetch_write(const void *address)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
#else
    __builtin_prefetch(address, 1);
#endif
}

/* Tells the core that this thread is waiting for another one's store. */
static inline void teff__cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
