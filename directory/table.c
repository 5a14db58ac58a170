/* SPDX-License-Identifier: MIT */
#include "directory/table.h"

#include "teff/status.h"

enum { SIZE_FIRST = 16 };

static void insert(teff__table_entry *entries, uint32_t size, teff__table_entry entry)
{
    uint32_t place = (uint32_t)entry.hash & (size - 1);
    while (entries[place].record != NULL)
        place = (place + 1) & (size - 1);
    entries[place] = entry;
}

int teff__table_reserve(teff__table *table, teff__memory *memory)
{
    if ((table->count + 1) * UINT64_C(8) <= table->size * UINT64_C(7))
        return 0;
    const uint32_t size = table->size == 0 ? SIZE_FIRST : table->size * 2;
    teff__table_entry *entries = teff__memory_alloc(memory, size * sizeof(*entries));
    if (entries == NULL)
        return TEFF_ENOMEM;
    for (uint32_t i = 0; i < table->size; i++)
        if (table->entries[i].record != NULL)
            insert(entries, size, table->entries[i]);
    teff__table_finish(table, memory);
    table->entries = entries;
    table->size = size;
    return 0;
}

void teff__table_finish(teff__table *table, teff__memory *memory)
{
    teff__memory_free(memory, table->entries, table->size * sizeof(*table->entries));
    table->entries = NULL;
    table->size = 0;
}

teff__grain_record *teff__table_find(const teff__table *table, uint64_t hash, uint32_t type,
                                     const teff_key *key)
{
    if (table->count == 0)
        return NULL;
    const uint32_t mask = table->size - 1;
    for (uint32_t place = (uint32_t)hash & mask;; place = (place + 1) & mask) {
        const teff__table_entry *entry = &table->entries[place];
        if (entry->record == NULL ||
            (entry->hash == hash && teff__record_is(entry->record, type, key)))
            return entry->record;
    }
}

teff__grain_record *teff__table_find_hash(const teff__table *table, uint64_t hash)
{
    if (table->count == 0)
        return NULL;
    const uint32_t mask = table->size - 1;
    uint32_t place = (uint32_t)hash & mask;
    while (table->entries[place].record != NULL && table->entries[place].hash != hash)
        place = (place + 1) & mask;
    return table->entries[place].record;
}

void teff__table_add(teff__table *table, teff__grain_record *record)
{
    insert(table->entries, table->size, (teff__table_entry){ record->hash, record });
    table->count++;
}

/* Where that record stands, which is there. */
static uint32_t place_of(const teff__table *table, const teff__grain_record *record)
{
    const uint32_t mask = table->size - 1;
    uint32_t place = (uint32_t)record->hash & mask;
    while (table->entries[place].record != record) {
        teff_assert(table->entries[place].record != NULL);
        place = (place + 1) & mask;
    }
    return place;
}

void teff__table_replace(teff__table *table, const teff__grain_record *old,
                         teff__grain_record *record)
{
    table->entries[place_of(table, old)].record = record;
}

void teff__table_remove(teff__table *table, const teff__grain_record *record)
{
    const uint32_t mask = table->size - 1;
    uint32_t hole = place_of(table, record);
    for (uint32_t place = (hole + 1) & mask; table->entries[place].record != NULL;
         place = (place + 1) & mask) {
        /*
         * An entry may fill the hole when its own place is not between the hole and where it
         * stands.
         */
        const uint32_t own = (uint32_t)table->entries[place].hash & mask;
        if (((place - own) & mask) >= ((place - hole) & mask)) {
            table->entries[hole] = table->entries[place];
            hole = place;
        }
    }
    table->entries[hole].record = NULL;
    table->count--;
}
