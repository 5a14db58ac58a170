/* SPDX-License-Identifier: MIT */
#include "grains/place.h"

uint32_t teff__place(const teff__catalog *catalog, const teff__type *type, uint64_t hash,
                     uint32_t place)
{
    (void)type;
    (void)hash;
    (void)place;
    return catalog->worker.index;
}
