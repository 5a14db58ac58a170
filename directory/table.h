/* SPDX-License-Identifier: MIT */
/*
 * A table of grains: grain id → record, for the directory's shards and for the workers' route
 * caches.
 *
 * Records stand in the objects that they describe; the table links to them and frees nothing. Open
 * addressing with linear probing, at most 7/8 full, doubled when it would be more. An entry keeps
 * the whole hash, so a probe touches a record only where it very likely matches, and growing
 * touches none. Removal shifts back: there are no tombstones, and a table's age does not show.
 *
 * Threads: one at a time.
 */
#ifndef TEFF_DIRECTORY_TABLE_H
#define TEFF_DIRECTORY_TABLE_H

#include "runtime/memory.h"

#include "teff/key.h"

#include <string.h>

typedef struct teff__grain_record {
    teff_key key;
    uint32_t type;    /* the type's number in this silo */
    uint32_t used;    /* for the one in which it stands: the coarse time of its last use */
    uint64_t hash;    /* of type and key; fixed */
    uint64_t address; /* of the activation; see directory/address.h */
} teff__grain_record;

typedef struct teff__table_entry {
    uint64_t hash;
    teff__grain_record *record; /* NULL: free */
} teff__table_entry;

typedef struct teff__table {
    teff__table_entry *entries;
    uint32_t size; /* a power of two, or 0 */
    uint32_t count;
} teff__table;

static inline bool teff__record_is(const teff__grain_record *record, uint32_t type,
                                   const teff_key *key)
{
    return record->type == type && memcmp(&record->key, key, sizeof(*key)) == 0;
}

/* Makes room for one more. TEFF_ENOMEM. */
TEFF__INTERNAL int teff__table_reserve(teff__table *table, teff__memory *memory);
TEFF__INTERNAL void teff__table_finish(teff__table *table, teff__memory *memory);

/* The record of that grain, or NULL. */
TEFF__INTERNAL teff__grain_record *teff__table_find(const teff__table *table, uint64_t hash,
                                                    uint32_t type, const teff_key *key);

/* The record of the first grain of that hash, or NULL. */
TEFF__INTERNAL teff__grain_record *teff__table_find_hash(const teff__table *table, uint64_t hash);

/* Adds a record whose grain is not there, after a successful reserve. */
TEFF__INTERNAL void teff__table_add(teff__table *table, teff__grain_record *record);

/* Puts a record in the place of one that is there, of the same grain. */
TEFF__INTERNAL void teff__table_replace(teff__table *table, const teff__grain_record *old,
                                        teff__grain_record *record);

/* Removes exactly this record, which is there. */
TEFF__INTERNAL void teff__table_remove(teff__table *table, const teff__grain_record *record);

#endif
