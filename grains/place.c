/* SPDX-License-Identifier: MIT */
#include "grains/place.h"

/* Activations that a worker has, and those that others have placed there: many calls at once would
 * else all find the same worker with the fewest. */
static uint64_t load_of(const teff__grains *grains, uint32_t worker)
{
    teff_grain_counts counts = { .resident = 0 };
    teff__catalog_count_grains(grains->catalogs[worker], &counts);
    return counts.resident + teff__directory_coming(&grains->directory, worker);
}

/* Of several, this one if it is among them; else the first. */
static uint32_t least_loaded(const teff__catalog *catalog)
{
    const teff__grains *grains = catalog->grains;
    uint32_t best = catalog->worker.index;
    uint64_t least = load_of(grains, best);
    for (uint32_t worker = 0; worker < catalog->exchange->workers_count; worker++) {
        const uint64_t load = load_of(grains, worker);
        if (load < least) {
            least = load;
            best = worker;
        }
    }
    return best;
}

uint32_t teff__place(const teff__catalog *catalog, const teff__type *type, uint64_t hash,
                     uint32_t place)
{
    const teff_placement placement = type->def.placement != TEFF_PLACE_DEFAULT
                                         ? type->def.placement
                                         : catalog->grains->placement;
    if (place != 0)
        return place - 1;
    switch (placement) {
    case TEFF_PLACE_HASH:
        return (uint32_t)(hash % catalog->exchange->workers_count);
    case TEFF_PLACE_LEAST_LOADED:
        return least_loaded(catalog);
    case TEFF_PLACE_DEFAULT:
    case TEFF_PLACE_CALLER:
        break;
    }
    return catalog->worker.index;
}
