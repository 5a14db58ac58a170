/* SPDX-License-Identifier: MIT */
/*
 * 128 open-addressing tables, each under a lock of its own, chosen by the id's hash: `.striped`. This
 * is the design of the field's reference.
 *
 * A table has four times the places of its share, since some get more. The locks spin and then
 * yield: pthread_mutex costs half as much again where nobody else wants it.
 */
#include "benchmarks/callbacks_lock.h"
#include "benchmarks/callbacks_table.h"

#include <stdlib.h>

enum { STRIPES = 128, STRIPE_PLACES = 4 * CALLBACKS_LIVE / STRIPES };

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

CALLBACKS_INLINE stripe *lock_stripe(striped *of, uint64_t id, uint64_t *waits)
{
    stripe *own = &of->stripes[callbacks_hash(id) >> 44 & (STRIPES - 1)];
    lock_take(&own->locked, waits);
    return own;
}

CALLBACKS_INLINE void unlock_stripe(stripe *own)
{
    lock_give(&own->locked);
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
    uint64_t count = 0, waits = 0;
    for (int i = 0; i < STRIPES; i++) {
        stripe *own = &of->stripes[i];
        lock_take(&own->locked, &waits);
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
    uint64_t waits = 0;
    for (int i = 0; i < STRIPES; i++)
        lock_take(&of->stripes[i].locked, &waits);
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
