/* SPDX-License-Identifier: MIT */
/*
 * What every public header needs: which names the library shows, and the few differences between C
 * and C++. Names that begin with TEFF__ are not for users.
 */
#ifndef TEFF_EXPORT_H
#define TEFF_EXPORT_H

#ifdef __cplusplus
#define TEFF__EXTERN extern "C"
#define TEFF__ASSERT static_assert
#else
#define TEFF__EXTERN extern
#define TEFF__ASSERT _Static_assert
#endif

/* Declares a function of the library: C linkage, and seen outside, unlike the rest. */
#define TEFF_EXPORT TEFF__EXTERN __attribute__((visibility("default")))

/* A function that lives in a header, and of which no file needs all. */
#define TEFF__INLINE static inline __attribute__((unused))

#endif
