/* SPDX-License-Identifier: MIT */
/* The memory of activations: in slabs by size, where they are not large. */
#include "grains/activation.h"

#include "grains/catalog.h"

/* NULL: it has none. */
static teff__slabs *slabs_of(teff__catalog *catalog, const teff__type *type)
{
    const size_t more = (teff__activation_bytes(type) - sizeof(teff__activation)) / 16;
    return TEFF__LIKELY(more < TEFF__ACTIVATION_SLABS) ? &catalog->slabs[more] : NULL;
}

void teff__activations_init(teff__catalog *catalog)
{
    for (uint32_t i = 0; i < TEFF__ACTIVATION_SLABS; i++)
        teff__slabs_init(&catalog->slabs[i], catalog->exchange->memory,
                         (uint32_t)sizeof(teff__activation) + 16 * i);
}

void teff__activations_finish(teff__catalog *catalog)
{
    for (uint32_t i = 0; i < TEFF__ACTIVATION_SLABS; i++)
        teff__slabs_finish(&catalog->slabs[i]);
}

teff__activation *teff__activation_alloc(teff__catalog *catalog, const teff__type *type)
{
    teff__slabs *slabs = slabs_of(catalog, type);
    bool in_slab;
    if (TEFF__UNLIKELY(slabs == NULL))
        return teff__memory_alloc(catalog->exchange->memory, teff__activation_bytes(type));
    teff__activation *activation = teff__slabs_alloc(slabs, &in_slab);
    if (activation != NULL)
        activation->in_slab = in_slab;
    return activation;
}

void teff__activation_forget(teff__catalog *catalog, teff__activation *activation)
{
    teff__slabs *slabs = slabs_of(catalog, activation->type);
    if (TEFF__LIKELY(slabs != NULL))
        teff__slabs_free(slabs, activation, activation->in_slab);
    else
        teff__memory_free(catalog->exchange->memory, activation,
                          teff__activation_bytes(activation->type));
}
