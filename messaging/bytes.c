/* SPDX-License-Identifier: MIT */
#include "messaging/bytes.h"

#include "teff/status.h"

#include <string.h>

int teff_bytes_create(teff_silo *silo, const void *data, size_t size, teff_bytes **ret)
{
    if (silo == NULL || ret == NULL || (data == NULL && size != 0))
        return TEFF_EINVAL;
    teff__exchange *exchange = teff__silo_exchange(silo);
    if (teff__exchange_forked(exchange))
        return TEFF_EINVALIDSTATE;
    if (size == 0) {
        *ret = NULL;
        return 0;
    }
    if (size > SIZE_MAX - sizeof(teff_bytes))
        return TEFF_ENOMEM;
    teff_bytes *bytes = teff__memory_alloc(exchange->memory, sizeof(*bytes) + size);
    if (bytes == NULL)
        return TEFF_ENOMEM;
    bytes->exchange = exchange;
    bytes->size = size;
    teff__atomic_u32_store_relaxed(&bytes->count, 1);
    memcpy(bytes->data, data, size);
    teff__exchange_hold(exchange);
    *ret = bytes;
    return 0;
}

const void *teff_bytes_data(const teff_bytes *bytes)
{
    return bytes != NULL ? bytes->data : NULL;
}

size_t teff_bytes_size(const teff_bytes *bytes)
{
    return bytes != NULL ? bytes->size : 0;
}

teff_bytes *teff_bytes_ref(teff_bytes *bytes)
{
    if (bytes != NULL) {
        const uint32_t before = teff__atomic_u32_add_relaxed(&bytes->count, 1);
        teff_assert(before != 0 && before != UINT32_MAX);
    }
    return bytes;
}

teff_bytes *teff_bytes_unref(teff_bytes *bytes)
{
    if (bytes == NULL)
        return NULL;
    /* What others read of the buffer has been read before it is freed: release, then acquire. */
    const uint32_t before = teff__atomic_u32_add_acq_rel(&bytes->count, UINT32_MAX);
    teff_assert(before != 0);
    if (before == 1) {
        teff__exchange *exchange = bytes->exchange;
        teff__memory_free(exchange->memory, bytes, sizeof(*bytes) + bytes->size);
        teff__exchange_release(exchange);
    }
    return NULL;
}
