/* SPDX-License-Identifier: MIT */
/*
 * Buffers: how they are laid out. What they promise stands in teff/bytes.h.
 *
 * Threads: any; the count is atomic, the rest does not change.
 */
#ifndef TEFF_MESSAGING_BYTES_H
#define TEFF_MESSAGING_BYTES_H

#include "messaging/exchange.h"

#include "teff/bytes.h"

struct teff_bytes {
    teff__exchange *exchange;
    size_t size;
    teff__atomic_u32 count; /* whoever holds one */
    _Alignas(16) char data[];
};

#endif
