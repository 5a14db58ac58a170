/* SPDX-License-Identifier: MIT */
/*
 * What the tests and benchmarks of this library may ask of a silo, beyond the public API.
 *
 * Threads: any; the numbers are exact when nothing moves.
 */
#ifndef TEFF_RUNTIME_SILO_H
#define TEFF_RUNTIME_SILO_H

#include "runtime/memory.h"

#include "teff/silo.h"

/* All that the silo allocates goes through this. */
TEFF__INTERNAL teff__memory *teff__silo_memory(teff_silo *silo);

/* Callbacks that are open, of all workers and clients. */
TEFF__INTERNAL uint64_t teff__silo_open_count(teff_silo *silo);

/* Grains that are registered. */
TEFF__INTERNAL uint64_t teff__silo_grain_count(teff_silo *silo);

/* How often workers have gone to sleep. */
TEFF__INTERNAL uint64_t teff__silo_park_count(teff_silo *silo);

/* The silo's clock. */
TEFF__INTERNAL int64_t teff__silo_now_ns(teff_silo *silo);

#endif
