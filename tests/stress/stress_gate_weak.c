/* SPDX-License-Identifier: MIT */
/*
 * The registry with release and acquire at the gate instead of seq_cst: stress_gate with lost=1
 * must see that callbacks are lost. The library knows nothing of it: the names are given to the
 * weaker functions here, and the linker takes this registry before the library's.
 */
#include "runtime/atomic.h"

#define teff__atomic_u64_store_seq_cst teff__atomic_u64_store_release
#define teff__atomic_u32_store_seq_cst teff__atomic_u32_store_release
#define teff__atomic_u64_load_seq_cst  teff__atomic_u64_load_acquire
#define teff__atomic_u32_load_seq_cst  teff__atomic_u32_load_acquire

#include "messaging/registry.c"
