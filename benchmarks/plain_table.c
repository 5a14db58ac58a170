/* SPDX-License-Identifier: MIT */
#include "benchmarks/plain_table.h"

#include <stdlib.h>
#include <sys/mman.h>

/* As an activation with its state: 144 and 16 bytes. */
typedef struct object {
    uint64_t key;
    char other[136];
    uint64_t touched, zero;
} object;
_Static_assert(sizeof(object) == 160, "as large as ours");

typedef struct entry {
    uint64_t hash;
    object *object; /* NULL: free */
} entry;

struct plain_table {
    entry *entries;
    uint64_t mask, count;
    object *block; /* huge: all objects; else NULL */
};

enum { HUGE_BYTES = 2 << 20 };

/* One folded multiplication, as in wyhash: about what the library pays for a key. */
static inline uint64_t hash_of(uint64_t key)
{
    __extension__ typedef unsigned __int128 wide;
    const wide product = (wide)(key ^ UINT64_C(0xa0761d6478bd642f)) * UINT64_C(0xe7037ed1a0b428db);
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

static size_t rounded(size_t size)
{
    return (size + HUGE_BYTES - 1) & ~(size_t)(HUGE_BYTES - 1);
}

/* Zeroed. */
static void *take(size_t size, bool huge)
{
    if (!huge)
        return calloc(1, size);
    void *memory = aligned_alloc(HUGE_BYTES, rounded(size));
    if (memory == NULL)
        return NULL;
    (void)madvise(memory, rounded(size), MADV_HUGEPAGE);
    for (size_t i = 0; i < size / sizeof(uint64_t); i++)
        ((volatile uint64_t *)memory)[i] = 0;
    return memory;
}

static void add(plain_table *table, object *one)
{
    const uint64_t hash = hash_of(one->key);
    uint64_t place = hash & table->mask;
    while (table->entries[place].object != NULL)
        place = (place + 1) & table->mask;
    table->entries[place] = (entry){ hash, one };
}

plain_table *plain_table_create(uint64_t count, bool huge)
{
    plain_table *table = calloc(1, sizeof(*table));
    uint64_t size = 16;
    if (table == NULL)
        return NULL;
    while (size - size / 8 < count)
        size *= 2;
    table->mask = size - 1;
    table->entries = take(size * sizeof(entry), huge);
    table->block = huge ? take(count * sizeof(object), true) : NULL;
    if (table->entries == NULL || (huge && table->block == NULL))
        return plain_table_destroy(table);
    for (uint64_t key = 0; key < count; key++) {
        object *one = huge ? &table->block[key] : calloc(1, sizeof(*one));
        if (one == NULL)
            return plain_table_destroy(table);
        one->key = key;
        add(table, one);
        table->count++;
    }
    return table;
}

plain_table *plain_table_destroy(plain_table *table)
{
    if (table == NULL)
        return NULL;
    for (uint64_t i = 0; table->block == NULL && table->count > 0 && i <= table->mask; i++)
        free(table->entries[i].object);
    free(table->block);
    free(table->entries);
    free(table);
    return NULL;
}

static inline object *find(const plain_table *table, uint64_t key)
{
    const uint64_t hash = hash_of(key), mask = table->mask;
    uint64_t place = hash & mask;
    while (table->entries[place].object != NULL &&
           (table->entries[place].hash != hash || table->entries[place].object->key != key))
        place = (place + 1) & mask;
    return table->entries[place].object;
}

uint64_t plain_table_touch(plain_table *table, const uint64_t *keys, size_t count)
{
    uint64_t found = 0;
    for (size_t i = 0; i < count; i++) {
        object *one = find(table, keys[i]);
        if (one == NULL)
            continue;
        one->touched++;
        found++;
    }
    return found;
}

uint64_t plain_table_chase(plain_table *table, const uint64_t *keys, size_t count)
{
    uint64_t found = 0, zero = 0;
    for (size_t i = 0; i < count; i++) {
        object *one = find(table, keys[i] + zero);
        if (one == NULL)
            continue;
        one->touched++;
        zero = one->zero;
        found++;
    }
    return found;
}

uint64_t plain_table_touched(const plain_table *table)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i <= table->mask; i++)
        sum += table->entries[i].object != NULL ? table->entries[i].object->touched : 0;
    return sum;
}
