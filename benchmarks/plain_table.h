/* SPDX-License-Identifier: MIT */
/*
 * The plain equivalent of "find the grain, touch its state": a hash table from a number to an
 * object, as one writes it by hand where there is no runtime. Open addressing with linear probing,
 * at most 7/8 full; an entry keeps hash and pointer, an object is as large as an activation with 16
 * bytes of state.
 *
 * Threads: one.
 */
#ifndef TEFF_BENCHMARKS_PLAIN_TABLE_H
#define TEFF_BENCHMARKS_PLAIN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct plain_table plain_table;

/*
 * With objects of the keys 0 to `count` - 1. Plain: each from malloc; `huge`: all in one piece of
 * memory for which the system is asked for huge pages, the entries in another. NULL: no memory.
 */
plain_table *plain_table_create(uint64_t count, bool huge);

/* NULL is allowed. Returns NULL. */
plain_table *plain_table_destroy(plain_table *table);

/* Finds each key and counts in its object's state. How many were there. */
uint64_t plain_table_touch(plain_table *table, const uint64_t *keys, size_t count);

/* The same, and each look-up waits for the state of the object before: it is no key without. */
uint64_t plain_table_chase(plain_table *table, const uint64_t *keys, size_t count);

/* How often anything was counted, over all objects. */
uint64_t plain_table_touched(const plain_table *table);

#endif
