/* SPDX-License-Identifier: MIT */
#include "grains/shed.h"

#include "grains/catalog.h"
#include "grains/notice.h"

#include <uv.h>

uint64_t teff__shed_decide(const teff__memory_use *use, uint32_t at_percent, uint32_t to_percent,
                           uint64_t count)
{
    const teff__u128 used = (teff__u128)use->used_bytes * 100, max = use->max_bytes;
    if (count == 0 || used == 0 || used < max * at_percent)
        return 0;
    const teff__u128 stay = max * to_percent * count / used;
    return stay < count ? count - (uint64_t)stay : 0;
}

teff__memory_use teff__shed_memory_use(const teff__grains *grains)
{
    const teff__memory *memory = grains->exchange->memory;
    if (memory->bytes_max != 0)
        return (teff__memory_use){ teff__atomic_u64_load_relaxed(&memory->bytes),
                                   memory->bytes_max };
    const uint64_t total = uv_get_total_memory(), group = uv_get_constrained_memory();
#if UV_VERSION_HEX >= (1 << 16 | 45 << 8)
    const uint64_t max = group != 0 && group < total ? group : total;
    const uint64_t available = uv_get_available_memory();
    return (teff__memory_use){ available < max ? max - available : 0, max };
#else /* which knows what is available in all only */
    size_t resident = 0;
    if (group != 0 && group < total && uv_resident_set_memory(&resident) == 0)
        return (teff__memory_use){ resident, group };
    const uint64_t available = uv_get_free_memory();
    return (teff__memory_use){ available < total ? total - available : 0, total };
#endif
}

uint64_t teff__shed_look(teff__catalog *catalog)
{
    const teff__grains *grains = catalog->grains;
    const uint64_t count = catalog->activations.count;
    if (count == 0)
        return 0;
    const teff__memory_use use = grains->memory_use(grains);
    const uint64_t shed =
        teff__shed_decide(&use, grains->shed_at_percent, grains->shed_to_percent, count);
    if (shed > 0)
        teff__notice(catalog, TEFF_NOTICE_MEMORY, NULL, shed);
    return shed;
}
