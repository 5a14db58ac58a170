/* SPDX-License-Identifier: MIT */
/*
 * teff_assert is always on: it guards what would corrupt memory, and costs a predicted branch.
 * teff_assert_slow walks structures; debug builds only (meson defines TEFF_DEBUG for them).
 */
#ifndef TEFF_RUNTIME_ASSERT_H
#define TEFF_RUNTIME_ASSERT_H

#include <stddef.h> /* offsetof */

#define TEFF__LIKELY(x)   __builtin_expect(!!(x), 1)
#define TEFF__UNLIKELY(x) __builtin_expect(!!(x), 0)
/*
 * Of the few functions that a warm call runs through: the compiler would weigh their size against
 * their callers.
 */
#define TEFF__HOT_INLINE static inline __attribute__((always_inline))
#define TEFF__INTERNAL   __attribute__((visibility("hidden")))

/* Prints the broken condition and where it stands to stderr, and aborts. */
_Noreturn TEFF__INTERNAL void teff__assert_failed(const char *condition, const char *file,
                                                  int line);

#define teff_assert(condition)                                                                     \
    (TEFF__LIKELY(condition) ? (void)0 : teff__assert_failed(#condition, __FILE__, __LINE__))

#ifdef TEFF_DEBUG
#define teff_assert_slow(condition) teff_assert(condition)
#else
/* Compiled but never evaluated, so that what it calls is neither unused nor kept. */
#define teff_assert_slow(condition) ((void)(0 && (condition)))
#endif

/* The structure of type TYPE whose member MEMBER is at `pointer`. */
#define teff__container_of(pointer, TYPE, MEMBER)                                                  \
    ((TYPE *)(void *)((char *)(pointer)-offsetof(TYPE, MEMBER)))

#endif
