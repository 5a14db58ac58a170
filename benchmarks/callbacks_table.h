/* SPDX-License-Identifier: MIT */
/*
 * An open-addressing table from ids to entries, for the subjects `.mutex` and `.striped`.
 *
 * Its size is fixed. A collision goes on to the next place; a removal moves back what had gone on, so
 * there are no graves. Its user holds a lock, or is alone.
 */
#ifndef TEFF_BENCHMARKS_CALLBACKS_TABLE_H
#define TEFF_BENCHMARKS_CALLBACKS_TABLE_H

#include "benchmarks/callbacks_loops.h"
#include "runtime/assert.h"
#include "runtime/memory.h"

typedef struct place {
    uint64_t id;
    callbacks_entry *entry; /* NULL: free */
} place;

typedef struct table {
    place *places;
    uint64_t mask;
    teff__atomic_u64 count; /* whoever holds the lock; anybody, for a statistic */
} table;

CALLBACKS_INLINE uint64_t home(const table *of, uint64_t id)
{
    return callbacks_hash(id) & of->mask;
}

static inline int table_init(table *of, teff__memory *memory, uint64_t places)
{
    of->places = teff__memory_alloc_line(memory, places * sizeof(*of->places));
    of->mask = places - 1;
    teff__atomic_u64_store_relaxed(&of->count, 0);
    return of->places != NULL ? 0 : -1;
}

static inline void table_finish(table *of, teff__memory *memory)
{
    teff__memory_free(memory, of->places, (of->mask + 1) * sizeof(*of->places));
}

CALLBACKS_INLINE uint64_t table_count(const table *of)
{
    return teff__atomic_u64_load_relaxed(&of->count);
}

CALLBACKS_INLINE void table_add(table *of, uint64_t id, callbacks_entry *entry)
{
    uint64_t at = home(of, id);
    teff_assert(table_count(of) < of->mask);
    while (of->places[at].entry != NULL)
        at = (at + 1) & of->mask;
    of->places[at] = (place){ id, entry };
    teff__atomic_u64_increment_owner(&of->count);
}

/* Where it is, or where it would be: a free place. */
CALLBACKS_INLINE uint64_t table_find(const table *of, uint64_t id)
{
    uint64_t at = home(of, id);
    while (of->places[at].entry != NULL && of->places[at].id != id)
        at = (at + 1) & of->mask;
    return at;
}

CALLBACKS_INLINE callbacks_entry *table_remove(table *of, uint64_t id)
{
    uint64_t hole = table_find(of, id);
    callbacks_entry *entry = of->places[hole].entry;
    if (entry == NULL)
        return NULL;
    for (uint64_t at = (hole + 1) & of->mask; of->places[at].entry != NULL;
         at = (at + 1) & of->mask) {
        const uint64_t from_home = (at - home(of, of->places[at].id)) & of->mask;
        if (from_home >= ((at - hole) & of->mask)) {
            of->places[hole] = of->places[at];
            hole = at;
        }
    }
    of->places[hole].entry = NULL;
    teff__atomic_u64_store_relaxed(&of->count, table_count(of) - 1);
    return entry;
}

CALLBACKS_INLINE uint64_t table_is_open(const table *of, uint64_t id)
{
    const callbacks_entry *entry = of->places[table_find(of, id)].entry;
    return entry != NULL && teff__atomic_u32_load_relaxed(&entry->open) != 0;
}

CALLBACKS_INLINE uint64_t table_count_if(const table *of, callbacks_predicate *fits, uint64_t value)
{
    uint64_t count = 0;
    for (uint64_t at = 0; at <= of->mask; at++)
        count += of->places[at].entry != NULL && fits(of->places[at].entry, value);
    return count;
}

#endif
