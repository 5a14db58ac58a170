/* SPDX-License-Identifier: MIT */
/*
 * So many grains, known to a route cache, to the grain directory, to a plain array and to a plain
 * hash table, and references to them in random order: what the benchmark `directory` measures on.
 *
 * Threads: one.
 */
#ifndef TEFF_BENCHMARKS_DIRECTORY_SCENE_H
#define TEFF_BENCHMARKS_DIRECTORY_SCENE_H

#include "directory/directory.h"
#include "directory/route.h"
#include "grains/key.h"

#include "teff/reference.h"

/*
 * An entry of the plain hash table: open addressing, linear probing, at most half full, nothing that
 * an LRU or a time to live needs.
 */
typedef struct directory_plain {
    teff_key key;
    uint64_t hash, address; /* address 0: free */
} directory_plain;

typedef struct directory_scene {
    uint32_t entries;
    teff_key *strangers; /* of grains that are nowhere: twice as many, so that one that comes again
                            has long been evicted */
    uint32_t stranger;   /* the next one */
    teff__memory memory;
    teff__hash_seed seed;
    teff_ref *refs;            /* shuffled; `type` is not used */
    uint32_t *numbers;         /* of the references' grains */
    teff__routes routes, full; /* `full` is the one that evicts */
    teff__directory directory;
    teff__grain_record *records;
    teff__route *array; /* a route for each, by the grain's number */
    directory_plain *table;
    uint64_t table_size;
} directory_scene;

/* 0, or -1 without memory. Half made, it may be finished. */
int directory_scene_init(directory_scene *scene, uint32_t entries);
void directory_scene_finish(directory_scene *scene);

/*
 * Each goes over all references so many times and returns the sum of the addresses that it found:
 * directory_sum times the passes.
 */
typedef uint64_t directory_way(directory_scene *scene, uint64_t passes);

directory_way directory_by_handle; /* the hint, and the key compared */
directory_way directory_by_cache;  /* hash and look-up */
directory_way directory_by_shards; /* hash and look-up in the grain directory, with its lock */
directory_way directory_by_array;  /* the number in place of the hint; else as by handle */
directory_way directory_by_table;  /* hash and look-up in the plain table */
directory_way directory_miss;      /* as by cache, but the grains are not there: the sum is 0 */
directory_way directory_evict;     /* adds a grain, for which another one goes: the sum is 0 */

uint64_t directory_sum(const directory_scene *scene);

/* What a full route cache of that capacity has allocated for each entry; 0: without memory. */
double directory_entry_bytes(uint32_t capacity);

#endif
