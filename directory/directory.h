/* SPDX-License-Identifier: MIT */
/*
 * The grain directory of a silo: grain id → the one activation. It is the only judge of who
 * activates.
 *
 * A registration is a record that stands in the activation itself; the directory links to it from
 * register to unregister and reads nothing else of the activation. It is split into shards by the
 * grain's hash, each a table under a lock of the lowest rank, under which nothing is called.
 *
 * Where an activation is to be made on another worker than the one that found that there is none,
 * the directory keeps a record of its own until that worker registers: so all who place one grain
 * at the same time mean the same worker.
 *
 * Threads: any; a registered record's address is guarded by its shard's lock, but for its own
 * worker's reads.
 */
#ifndef TEFF_DIRECTORY_DIRECTORY_H
#define TEFF_DIRECTORY_DIRECTORY_H

#include "directory/address.h"
#include "directory/table.h"
#include "runtime/list.h"
#include "runtime/thread.h"

enum { TEFF__DIRECTORY_SHARDS = 64 }; /* as many as there may be workers */

typedef struct teff__directory_shard {
    _Alignas(TEFF__CACHE_LINE) teff__mutex lock;
    teff__table table; /* guarded by lock */
    teff__ring placed; /* the directory's own records. Guarded by lock */
} teff__directory_shard;

typedef struct teff__directory {
    teff__memory *memory;
    teff__directory_shard shards[TEFF__DIRECTORY_SHARDS];
    /* how many are to be made on that worker. Statistics: who holds a shard's lock; anybody */
    teff__atomic_u32 coming[TEFF__WORKERS_MAX];
} teff__directory;

TEFF__INTERNAL void teff__directory_init(teff__directory *directory, teff__memory *memory);
TEFF__INTERNAL void teff__directory_finish(teff__directory *directory);

/*
 * Inserts `record`, or finds the one that is there; one whose address is `previous` (0: none) makes
 * way, and so does one that says that the activation is to be made on the record's worker.
 * *ret_address is the valid one's, whichever that is. TEFF_ENOMEM.
 */
TEFF__INTERNAL int teff__directory_register(teff__directory *directory, teff__grain_record *record,
                                            uint64_t previous, uint64_t *ret_address);

/*
 * Says that the grain's activation is to be made on that worker, or finds what is registered:
 * *ret_address is teff__address_placed of a worker, or the valid activation's. TEFF_ENOMEM.
 */
TEFF__INTERNAL int teff__directory_place(teff__directory *directory, uint64_t hash, uint32_t type,
                                         const teff_key *key, uint32_t worker,
                                         uint64_t *ret_address);

/* The worker does not make it: forgets that it was to, if it still was. */
TEFF__INTERNAL void teff__directory_unplace(teff__directory *directory, uint64_t hash,
                                            uint32_t type, const teff_key *key, uint32_t worker);

/* How many activations are to be made on that worker; a statistic. */
static inline uint32_t teff__directory_coming(const teff__directory *directory, uint32_t worker)
{
    return teff__atomic_u32_load_relaxed(&directory->coming[worker]);
}

/* The address registered for the grain, or 0. */
TEFF__INTERNAL uint64_t teff__directory_find(teff__directory *directory, uint64_t hash,
                                             uint32_t type, const teff_key *key);

/* The record of the grain of that hash, but for `used`; false: none is registered. */
TEFF__INTERNAL bool teff__directory_find_hash(teff__directory *directory, uint64_t hash,
                                              teff__grain_record *ret);

/* Gives exactly this registered record another address. */
TEFF__INTERNAL void teff__directory_replace(teff__directory *directory, teff__grain_record *record,
                                            uint64_t address);

/* Removes exactly this record, where it is the one registered. */
TEFF__INTERNAL void teff__directory_unregister(teff__directory *directory,
                                               teff__grain_record *record);

/* How many activations are registered; a statistic while workers run. */
TEFF__INTERNAL uint64_t teff__directory_count(teff__directory *directory);

#endif
