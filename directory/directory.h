/* SPDX-License-Identifier: MIT */
/*
 * The grain directory of a silo: grain id → the one activation. It is the only judge of who
 * activates.
 *
 * A registration is a record that stands in the activation itself; the directory links to it from
 * register to unregister and reads nothing else of the activation. It is split into shards by the
 * grain's hash, each a table under a lock of the lowest rank, under which nothing is called.
 *
 * Threads: any; a registered record's address is guarded by its shard's lock, but for its own
 * worker's reads.
 */
#ifndef TEFF_DIRECTORY_DIRECTORY_H
#define TEFF_DIRECTORY_DIRECTORY_H

#include "directory/table.h"
#include "runtime/thread.h"

enum { TEFF__DIRECTORY_SHARDS = 64 }; /* as many as there may be workers */

typedef struct teff__directory_shard {
    _Alignas(TEFF__CACHE_LINE) teff__mutex lock;
    teff__table table; /* guarded by lock */
} teff__directory_shard;

typedef struct teff__directory {
    teff__memory *memory;
    teff__directory_shard shards[TEFF__DIRECTORY_SHARDS];
} teff__directory;

TEFF__INTERNAL void teff__directory_init(teff__directory *directory, teff__memory *memory);
TEFF__INTERNAL void teff__directory_finish(teff__directory *directory);

/*
 * Inserts `record`, or finds the one that is there; one whose address is `previous` (0: none) makes
 * way. *ret_address is the valid one's, whichever that is. TEFF_ENOMEM.
 */
TEFF__INTERNAL int teff__directory_register(teff__directory *directory, teff__grain_record *record,
                                            uint64_t previous, uint64_t *ret_address);

/* The address registered for the grain, or 0. */
TEFF__INTERNAL uint64_t teff__directory_find(teff__directory *directory, uint64_t hash,
                                             uint32_t type, const teff_key *key);

/* A copy of the record of the grain of that hash; false: none is registered. */
TEFF__INTERNAL bool teff__directory_find_hash(teff__directory *directory, uint64_t hash,
                                              teff__grain_record *ret);

/* Gives exactly this registered record another address. */
TEFF__INTERNAL void teff__directory_replace(teff__directory *directory, teff__grain_record *record,
                                            uint64_t address);

/* Removes exactly this record, where it is the one registered. */
TEFF__INTERNAL void teff__directory_unregister(teff__directory *directory,
                                               teff__grain_record *record);

/* How many grains are registered; a statistic while workers run. */
TEFF__INTERNAL uint64_t teff__directory_count(teff__directory *directory);

#endif
