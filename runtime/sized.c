/* SPDX-License-Identifier: MIT */
#include "runtime/sized.h"

#include "teff/status.h"

#include <string.h>

/* Larger than any structure of ours will be: a size above is garbage. */
enum { SIZED_MAX = 4096 };

int teff__sized_copy(void *ret, size_t size, size_t size_min, const void *from)
{
    size_t given;
    teff_assert(size_min >= sizeof(given) && size >= size_min);
    memcpy(&given, from, sizeof(given));
    if (given < size_min || given > SIZED_MAX || given % sizeof(given) != 0)
        return TEFF_EINVAL;
    for (size_t i = size; i < given; i++) {
        if (((const unsigned char *)from)[i] != 0)
            return TEFF_EINVAL;
    }
    memset(ret, 0, size);
    memcpy(ret, from, given < size ? given : size);
    return TEFF_OK;
}

int teff__sized_give(void *ret, size_t size, size_t size_min, const void *from)
{
    size_t given;
    memcpy(&given, ret, sizeof(given));
    if (given < size_min || given > SIZED_MAX || given % sizeof(given) != 0)
        return TEFF_EINVAL;
    memcpy(ret, from, given < size ? given : size);
    if (given > size)
        memset((char *)ret + size, 0, given - size);
    return 0;
}
