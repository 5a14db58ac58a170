/* SPDX-License-Identifier: MIT */
/*
 * Two registries as others write them: one open-addressing table under one mutex (`.mutex`), and 128
 * such tables, each under a lock of its own, chosen by the id's hash (`.striped`).
 *
 * A table has a fixed size, twice what the rows about live callbacks put into it, four times for a
 * stripe, which gets more or less than its share. A collision goes on to the next place; a removal
 * moves back what had gone on, so there are no graves. The stripes' locks spin and then yield: with
 * pthread_mutex they were slower, 17.7 ns a lifecycle instead of 10.2 on one thread.
 */
#include "benchmarks/callbacks_loops.h"
#include "runtime/assert.h"
#include "runtime/memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { PLACES = 2 * CALLBACKS_LIVE, STRIPES = 128, STRIPE_PLACES = 4 * CALLBACKS_LIVE / STRIPES };

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

static int table_init(table *of, teff__memory *memory, uint64_t places)
{
    of->places = teff__memory_alloc_line(memory, places * sizeof(*of->places));
    of->mask = places - 1;
    teff__atomic_u64_store_relaxed(&of->count, 0);
    return of->places != NULL ? 0 : -1;
}

static void table_finish(table *of, teff__memory *memory)
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

/* --- One mutex --------------------------------------------------------------------------------- */

typedef struct one {
    teff__memory memory;
    _Alignas(TEFF__CACHE_LINE) pthread_mutex_t mutex;
    table table;
} one;

static void *mutex_create(void)
{
    one *made = aligned_alloc(TEFF__CACHE_LINE, sizeof(*made));
    if (made == NULL)
        return NULL;
    teff__memory_init(&made->memory, 0);
    if (table_init(&made->table, &made->memory, PLACES) != 0) {
        free(made);
        return NULL;
    }
    (void)pthread_mutex_init(&made->mutex, NULL);
    return made;
}

static void mutex_destroy(void *registry)
{
    one *of = registry;
    table_finish(&of->table, &of->memory);
    (void)pthread_mutex_destroy(&of->mutex);
    free(of);
}

CALLBACKS_INLINE void lock_mutex(pthread_mutex_t *mutex, uint64_t *waits)
{
    if (pthread_mutex_trylock(mutex) == 0)
        return;
    ++*waits;
    (void)pthread_mutex_lock(mutex);
}

CALLBACKS_INLINE uint64_t mutex_open(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    one *of = thread->registry;
    callbacks_entry *entry = callbacks_entry_open(thread, number, id);
    lock_mutex(&of->mutex, &thread->waits);
    table_add(&of->table, id, entry);
    (void)pthread_mutex_unlock(&of->mutex);
    return id;
}

CALLBACKS_INLINE void *mutex_close(callbacks_thread *thread, uint64_t id)
{
    one *of = thread->registry;
    lock_mutex(&of->mutex, &thread->waits);
    callbacks_entry *entry = table_remove(&of->table, id);
    (void)pthread_mutex_unlock(&of->mutex);
    return callbacks_entry_close(entry);
}

static uint64_t mutex_lifecycles(callbacks_thread *thread, const callbacks_work *work)
{
    return callbacks_lifecycles(thread, work, mutex_open, mutex_close);
}

static uint64_t mutex_cross(callbacks_thread *thread, callbacks_pipe *pipe)
{
    return callbacks_cross(thread, pipe, mutex_open, mutex_close);
}

static uint64_t mutex_open_one(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    return mutex_open(thread, number, id);
}

static void *mutex_close_one(callbacks_thread *thread, uint64_t id)
{
    return mutex_close(thread, id);
}

static uint64_t mutex_lookup(void *registry, const uint64_t *ids, size_t count)
{
    one *of = registry;
    uint64_t open = 0;
    for (size_t i = 0; i < count; i++) {
        (void)pthread_mutex_lock(&of->mutex);
        open += table_is_open(&of->table, ids[i]);
        (void)pthread_mutex_unlock(&of->mutex);
    }
    return open;
}

CALLBACKS_INLINE uint64_t mutex_count_if(one *of, callbacks_predicate *fits, uint64_t value)
{
    (void)pthread_mutex_lock(&of->mutex);
    const uint64_t count = table_count_if(&of->table, fits, value);
    (void)pthread_mutex_unlock(&of->mutex);
    return count;
}

static uint64_t mutex_due(void *registry, int64_t now_ns)
{
    return mutex_count_if(registry, callbacks_is_due, (uint64_t)now_ns);
}

static uint64_t mutex_count_target(void *registry, uint64_t target)
{
    return mutex_count_if(registry, callbacks_has_target, target);
}

static uint64_t mutex_count_function(void *registry, uint64_t target)
{
    return mutex_count_if(registry, callbacks_through_pointer(callbacks_has_target), target);
}

static uint64_t mutex_count(void *registry)
{
    one *of = registry;
    (void)pthread_mutex_lock(&of->mutex);
    const uint64_t count = table_count(&of->table);
    (void)pthread_mutex_unlock(&of->mutex);
    return count;
}

static uint64_t mutex_allocations(void *registry)
{
    return teff__atomic_u64_load_relaxed(&((one *)registry)->memory.allocations);
}

static uint64_t mutex_bytes(void *registry)
{
    return teff__atomic_u64_load_relaxed(&((one *)registry)->memory.bytes);
}

const callbacks_subject callbacks_mutex = {
    .name = ".mutex",
    .needs_entries = true,
    .create = mutex_create,
    .destroy = mutex_destroy,
    .lifecycles = mutex_lifecycles,
    .cross = mutex_cross,
    .open = mutex_open_one,
    .close = mutex_close_one,
    .lookup = mutex_lookup,
    .due = mutex_due,
    .count_target = mutex_count_target,
    .count_function = mutex_count_function,
    .count = mutex_count,
    .count_exact = mutex_count,
    .allocations = mutex_allocations,
    .bytes = mutex_bytes,
};

/* --- A lock for each of 128 stripes ------------------------------------------------------------ */

typedef struct stripe {
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u32 locked;
    table table;
} stripe;

typedef struct striped {
    stripe stripes[STRIPES];
    teff__memory memory;
} striped;

static void striped_destroy(void *registry)
{
    striped *of = registry;
    for (int i = 0; i < STRIPES; i++) {
        if (of->stripes[i].table.places != NULL)
            table_finish(&of->stripes[i].table, &of->memory);
    }
    free(of);
}

static void *striped_create(void)
{
    striped *made = aligned_alloc(TEFF__CACHE_LINE, sizeof(*made));
    if (made == NULL)
        return NULL;
    *made = (striped){ .memory = { .bytes_max = 0 } };
    teff__memory_init(&made->memory, 0);
    for (int i = 0; i < STRIPES; i++) {
        if (table_init(&made->stripes[i].table, &made->memory, STRIPE_PLACES) == 0)
            continue;
        striped_destroy(made);
        return NULL;
    }
    return made;
}

/* Spins while another one may be about to let go, and lets it run where it is not running. */
static __attribute__((noinline)) void wait_for(teff__atomic_u32 *locked)
{
    for (int tries = 1;; tries++) {
        if (teff__atomic_u32_load_relaxed(locked) == 0 &&
            teff__atomic_u32_exchange_acquire(locked, 1) == 0)
            return;
        if (tries % 64 == 0)
            (void)sched_yield();
        else
            teff__cpu_relax();
    }
}

CALLBACKS_INLINE stripe *lock_stripe(striped *of, uint64_t id, uint64_t *waits)
{
    stripe *own = &of->stripes[callbacks_hash(id) >> 44 & (STRIPES - 1)];
    if (TEFF__UNLIKELY(teff__atomic_u32_exchange_acquire(&own->locked, 1) != 0)) {
        ++*waits;
        wait_for(&own->locked);
    }
    return own;
}

CALLBACKS_INLINE void unlock_stripe(stripe *own)
{
    teff__atomic_u32_store_release(&own->locked, 0); /* pairs with the exchanges */
}

CALLBACKS_INLINE uint64_t striped_open(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    callbacks_entry *entry = callbacks_entry_open(thread, number, id);
    stripe *own = lock_stripe(thread->registry, id, &thread->waits);
    table_add(&own->table, id, entry);
    unlock_stripe(own);
    return id;
}

CALLBACKS_INLINE void *striped_close(callbacks_thread *thread, uint64_t id)
{
    stripe *own = lock_stripe(thread->registry, id, &thread->waits);
    callbacks_entry *entry = table_remove(&own->table, id);
    unlock_stripe(own);
    return callbacks_entry_close(entry);
}

static uint64_t striped_lifecycles(callbacks_thread *thread, const callbacks_work *work)
{
    return callbacks_lifecycles(thread, work, striped_open, striped_close);
}

static uint64_t striped_cross(callbacks_thread *thread, callbacks_pipe *pipe)
{
    return callbacks_cross(thread, pipe, striped_open, striped_close);
}

static uint64_t striped_open_one(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    return striped_open(thread, number, id);
}

static void *striped_close_one(callbacks_thread *thread, uint64_t id)
{
    return striped_close(thread, id);
}

static uint64_t striped_lookup(void *registry, const uint64_t *ids, size_t count)
{
    uint64_t open = 0, waits = 0;
    for (size_t i = 0; i < count; i++) {
        stripe *own = lock_stripe(registry, ids[i], &waits);
        open += table_is_open(&own->table, ids[i]);
        unlock_stripe(own);
    }
    return open;
}

CALLBACKS_INLINE uint64_t striped_count_if(striped *of, callbacks_predicate *fits, uint64_t value)
{
    uint64_t count = 0;
    for (int i = 0; i < STRIPES; i++) {
        stripe *own = &of->stripes[i];
        if (teff__atomic_u32_exchange_acquire(&own->locked, 1) != 0)
            wait_for(&own->locked);
        count += table_count_if(&own->table, fits, value);
        unlock_stripe(own);
    }
    return count;
}

static uint64_t striped_due(void *registry, int64_t now_ns)
{
    return striped_count_if(registry, callbacks_is_due, (uint64_t)now_ns);
}

static uint64_t striped_count_target(void *registry, uint64_t target)
{
    return striped_count_if(registry, callbacks_has_target, target);
}

static uint64_t striped_count_function(void *registry, uint64_t target)
{
    return striped_count_if(registry, callbacks_through_pointer(callbacks_has_target), target);
}

/* No lock: a statistic. */
static uint64_t striped_count(void *registry)
{
    const striped *of = registry;
    uint64_t count = 0;
    for (int i = 0; i < STRIPES; i++)
        count += table_count(&of->stripes[i].table);
    return count;
}

/* All locks at once. */
static uint64_t striped_count_exact(void *registry)
{
    striped *of = registry;
    for (int i = 0; i < STRIPES; i++) {
        if (teff__atomic_u32_exchange_acquire(&of->stripes[i].locked, 1) != 0)
            wait_for(&of->stripes[i].locked);
    }
    const uint64_t count = striped_count(registry);
    for (int i = 0; i < STRIPES; i++)
        unlock_stripe(&of->stripes[i]);
    return count;
}

static uint64_t striped_allocations(void *registry)
{
    return teff__atomic_u64_load_relaxed(&((striped *)registry)->memory.allocations);
}

static uint64_t striped_bytes(void *registry)
{
    return sizeof(striped) + teff__atomic_u64_load_relaxed(&((striped *)registry)->memory.bytes);
}

const callbacks_subject callbacks_striped = {
    .name = ".striped",
    .needs_entries = true,
    .create = striped_create,
    .destroy = striped_destroy,
    .lifecycles = striped_lifecycles,
    .cross = striped_cross,
    .open = striped_open_one,
    .close = striped_close_one,
    .lookup = striped_lookup,
    .due = striped_due,
    .count_target = striped_count_target,
    .count_function = striped_count_function,
    .count = striped_count,
    .count_exact = striped_count_exact,
    .allocations = striped_allocations,
    .bytes = striped_bytes,
};
