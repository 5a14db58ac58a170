/* SPDX-License-Identifier: MIT */
/*
 * The shards. The top bits of a grain's hash choose the shard, its low ones the place in the
 * shard's table.
 */
#include "directory/directory.h"

#include "teff/status.h"

/* The directory's own: where an activation is to be made. */
typedef struct placed_record {
    teff__grain_record record; /* first */
    teff__ring ring;           /* of its shard */
} placed_record;

_Static_assert(offsetof(placed_record, record) == 0, "found by its record");

/* How many are to be made there, one more or one less. Under the lock of a shard. */
static void count_coming(teff__directory *directory, uint64_t address, uint32_t add)
{
    (void)teff__atomic_u32_add_relaxed(&directory->coming[teff__address_worker(address)], add);
}

/* Frees one of the directory's own, which is in no table any more. */
static void placed_free(teff__directory *directory, teff__grain_record *record)
{
    placed_record *placed = (placed_record *)(void *)record;
    count_coming(directory, record->address, UINT32_MAX);
    teff__ring_remove(&placed->ring);
    teff__memory_free(directory->memory, placed, sizeof(*placed));
}

void teff__directory_init(teff__directory *directory, teff__memory *memory)
{
    memset(directory, 0, sizeof(*directory));
    directory->memory = memory;
    for (uint32_t i = 0; i < TEFF__DIRECTORY_SHARDS; i++) {
        teff__mutex_init(&directory->shards[i].lock, TEFF__RANK_DIRECTORY);
        teff__ring_init(&directory->shards[i].placed);
    }
}

void teff__directory_finish(teff__directory *directory)
{
    if (directory->memory == NULL)
        return;
    for (uint32_t i = 0; i < TEFF__DIRECTORY_SHARDS; i++) {
        while (!teff__ring_empty(&directory->shards[i].placed))
            placed_free(
                directory,
                &teff__container_of(directory->shards[i].placed.next, placed_record, ring)->record);
        teff__table_finish(&directory->shards[i].table, directory->memory);
        teff__mutex_finish(&directory->shards[i].lock);
    }
    directory->memory = NULL;
}

static teff__directory_shard *shard_of(teff__directory *directory, uint64_t hash)
{
    _Static_assert(TEFF__DIRECTORY_SHARDS == 64, "the top six bits choose the shard");
    return &directory->shards[hash >> 58];
}

int teff__directory_register(teff__directory *directory, teff__grain_record *record,
                             uint64_t previous, uint64_t *ret_address)
{
    teff__directory_shard *shard = shard_of(directory, record->hash);
    teff__mutex_lock(&shard->lock);
    const int r = teff__table_reserve(&shard->table, directory->memory);
    if (r == 0) {
        teff__grain_record *valid =
            teff__table_find(&shard->table, record->hash, record->type, &record->key);
        if (valid == NULL) {
            teff__table_add(&shard->table, record);
            valid = record;
        } else if (valid->address == previous) {
            teff__table_replace(&shard->table, valid, record);
            valid = record;
        } else if (valid->address == teff__address_placed(teff__address_worker(record->address))) {
            teff__table_replace(&shard->table, valid, record);
            placed_free(directory, valid);
            valid = record;
        }
        *ret_address = valid->address;
    }
    teff__mutex_unlock(&shard->lock);
    return r;
}

/* One of the directory's own, in the shard's table; NULL: no memory. */
static teff__grain_record *placed_add(teff__directory *directory, teff__directory_shard *shard,
                                      teff__grain_record record)
{
    if (teff__table_reserve(&shard->table, directory->memory) != 0)
        return NULL;
    placed_record *placed = teff__memory_alloc(directory->memory, sizeof(*placed));
    if (placed == NULL)
        return NULL;
    placed->record = record;
    teff__ring_push_back(&shard->placed, &placed->ring);
    teff__table_add(&shard->table, &placed->record);
    count_coming(directory, record.address, 1);
    return &placed->record;
}

int teff__directory_place(teff__directory *directory, uint64_t hash, uint32_t type,
                          const teff_key *key, uint32_t worker, uint64_t *ret_address)
{
    teff__directory_shard *shard = shard_of(directory, hash);
    teff__mutex_lock(&shard->lock);
    teff__grain_record *valid = teff__table_find(&shard->table, hash, type, key);
    if (valid == NULL)
        valid = placed_add(
            directory, shard,
            (teff__grain_record){
                .key = *key, .type = type, .hash = hash, .address = teff__address_placed(worker) });
    if (valid != NULL)
        *ret_address = valid->address;
    teff__mutex_unlock(&shard->lock);
    return valid != NULL ? 0 : TEFF_ENOMEM;
}

void teff__directory_unplace(teff__directory *directory, uint64_t hash, uint32_t type,
                             const teff_key *key, uint32_t worker)
{
    teff__directory_shard *shard = shard_of(directory, hash);
    teff__mutex_lock(&shard->lock);
    teff__grain_record *record = teff__table_find(&shard->table, hash, type, key);
    if (record != NULL && record->address == teff__address_placed(worker)) {
        teff__table_remove(&shard->table, record);
        placed_free(directory, record);
    }
    teff__mutex_unlock(&shard->lock);
}

uint64_t teff__directory_find(teff__directory *directory, uint64_t hash, uint32_t type,
                              const teff_key *key)
{
    teff__directory_shard *shard = shard_of(directory, hash);
    teff__mutex_lock(&shard->lock);
    const teff__grain_record *record = teff__table_find(&shard->table, hash, type, key);
    const uint64_t address = record != NULL ? record->address : 0;
    teff__mutex_unlock(&shard->lock);
    return address;
}

bool teff__directory_find_hash(teff__directory *directory, uint64_t hash, teff__grain_record *ret)
{
    teff__directory_shard *shard = shard_of(directory, hash);
    teff__mutex_lock(&shard->lock);
    const teff__grain_record *record = teff__table_find_hash(&shard->table, hash);
    if (record != NULL)
        *ret = (teff__grain_record){ .key = record->key,
                                     .type = record->type, /* `used` is its worker's alone */
                                     .hash = record->hash,
                                     .address = record->address };
    teff__mutex_unlock(&shard->lock);
    return record != NULL;
}

void teff__directory_replace(teff__directory *directory, teff__grain_record *record,
                             uint64_t address)
{
    teff__directory_shard *shard = shard_of(directory, record->hash);
    teff__mutex_lock(&shard->lock);
    teff_assert_slow(teff__table_find(&shard->table, record->hash, record->type, &record->key) ==
                     record);
    record->address = address;
    teff__mutex_unlock(&shard->lock);
}

void teff__directory_unregister(teff__directory *directory, teff__grain_record *record)
{
    teff__directory_shard *shard = shard_of(directory, record->hash);
    teff__mutex_lock(&shard->lock);
    if (teff__table_find(&shard->table, record->hash, record->type, &record->key) == record)
        teff__table_remove(&shard->table, record);
    teff__mutex_unlock(&shard->lock);
}

uint64_t teff__directory_count(teff__directory *directory)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < TEFF__DIRECTORY_SHARDS; i++) {
        teff__mutex_lock(&directory->shards[i].lock);
        count += directory->shards[i].table.count;
        teff__mutex_unlock(&directory->shards[i].lock);
    }
    for (uint32_t worker = 0; worker < TEFF__WORKERS_MAX; worker++)
        count -= teff__directory_coming(directory, worker);
    return count;
}
