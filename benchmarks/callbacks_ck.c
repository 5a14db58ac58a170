/* SPDX-License-Identifier: MIT */
/*
 * Concurrency Kit's Robin Hood set (ck_rhs) with a mutex for writers: `.ck`. Look-ups take no lock.
 *
 * Walks take the writers' mutex, since a set that is being changed may show an entry twice or not at
 * all.
 */
#include <ck_rhs.h>

#include "benchmarks/callbacks_loops.h"
#include "runtime/assert.h"
#include "runtime/memory.h"

#include <pthread.h>
#include <stdlib.h>

enum { PLACES = 2 * CALLBACKS_LIVE };

typedef struct kit {
    _Alignas(TEFF__CACHE_LINE) pthread_mutex_t mutex;
    ck_rhs_t set;
} kit;

/* The library passes no context to its allocator. */
static teff__memory memory;

static void *allocate(size_t size)
{
    return teff__memory_alloc_line(&memory, size);
}

static void deallocate(void *pointer, size_t size, bool defer)
{
    (void)defer;
    teff__memory_free(&memory, pointer, size);
}

static struct ck_malloc allocator = { .malloc = allocate, .free = deallocate };

static unsigned long hash_of(const void *entry, unsigned long seed)
{
    (void)seed;
    return callbacks_hash(((const callbacks_entry *)entry)->id);
}

static bool same(const void *a, const void *b)
{
    return ((const callbacks_entry *)a)->id == ((const callbacks_entry *)b)->id;
}

static void *ck_create(void)
{
    kit *made = aligned_alloc(TEFF__CACHE_LINE, sizeof(*made));
    if (made == NULL)
        return NULL;
    if (!ck_rhs_init(&made->set, CK_RHS_MODE_OBJECT | CK_RHS_MODE_SPMC, hash_of, same, &allocator,
                     PLACES, 1)) {
        free(made);
        return NULL;
    }
    (void)pthread_mutex_init(&made->mutex, NULL);
    return made;
}

static void ck_destroy(void *registry)
{
    kit *of = registry;
    ck_rhs_destroy(&of->set);
    (void)pthread_mutex_destroy(&of->mutex);
    free(of);
}

CALLBACKS_INLINE void lock(kit *of, uint64_t *waits)
{
    if (pthread_mutex_trylock(&of->mutex) == 0)
        return;
    ++*waits;
    (void)pthread_mutex_lock(&of->mutex);
}

CALLBACKS_INLINE uint64_t ck_open(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    kit *of = thread->registry;
    callbacks_entry *entry = callbacks_entry_open(thread, number, id);
    lock(of, &thread->waits);
    const bool put = ck_rhs_put_unique(&of->set, callbacks_hash(id), entry);
    (void)pthread_mutex_unlock(&of->mutex);
    return put ? id : 0;
}

CALLBACKS_INLINE void *ck_close(callbacks_thread *thread, uint64_t id)
{
    kit *of = thread->registry;
    const callbacks_entry key = { .id = id };
    lock(of, &thread->waits);
    callbacks_entry *entry = ck_rhs_remove(&of->set, callbacks_hash(id), &key);
    (void)pthread_mutex_unlock(&of->mutex);
    return callbacks_entry_close(entry);
}

static uint64_t ck_lifecycles(callbacks_thread *thread, const callbacks_work *work)
{
    return callbacks_lifecycles(thread, work, ck_open, ck_close);
}

static uint64_t ck_cross(callbacks_thread *thread, callbacks_pipe *pipe)
{
    return callbacks_cross(thread, pipe, ck_open, ck_close);
}

static uint64_t ck_open_one(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    return ck_open(thread, number, id);
}

static void *ck_close_one(callbacks_thread *thread, uint64_t id)
{
    return ck_close(thread, id);
}

static uint64_t ck_lookup(void *registry, const uint64_t *ids, size_t count)
{
    kit *of = registry;
    callbacks_entry key = { .id = 0 };
    uint64_t open = 0;
    for (size_t i = 0; i < count; i++) {
        key.id = ids[i];
        const callbacks_entry *entry = ck_rhs_get(&of->set, callbacks_hash(ids[i]), &key);
        open += entry != NULL && teff__atomic_u32_load_relaxed(&entry->open) != 0;
    }
    return open;
}

CALLBACKS_INLINE uint64_t ck_count_if(kit *of, callbacks_predicate *fits, uint64_t value)
{
    ck_rhs_iterator_t at = CK_RHS_ITERATOR_INITIALIZER;
    void *entry;
    uint64_t count = 0;
    (void)pthread_mutex_lock(&of->mutex);
    while (ck_rhs_next(&of->set, &at, &entry))
        count += fits(entry, value);
    (void)pthread_mutex_unlock(&of->mutex);
    return count;
}

static uint64_t ck_due(void *registry, int64_t now_ns)
{
    return ck_count_if(registry, callbacks_is_due, (uint64_t)now_ns);
}

static uint64_t ck_count_target(void *registry, uint64_t target)
{
    return ck_count_if(registry, callbacks_has_target, target);
}

static uint64_t ck_count_function(void *registry, uint64_t target)
{
    return ck_count_if(registry, callbacks_through_pointer(callbacks_has_target), target);
}

static uint64_t ck_count(void *registry)
{
    kit *of = registry;
    return ck_rhs_count(&of->set);
}

static uint64_t ck_count_exact(void *registry)
{
    kit *of = registry;
    (void)pthread_mutex_lock(&of->mutex);
    const uint64_t count = ck_rhs_count(&of->set);
    (void)pthread_mutex_unlock(&of->mutex);
    return count;
}

static uint64_t ck_allocations(void *registry)
{
    (void)registry;
    return teff__atomic_u64_load_relaxed(&memory.allocations);
}

static uint64_t ck_bytes(void *registry)
{
    (void)registry;
    return teff__atomic_u64_load_relaxed(&memory.bytes);
}

const callbacks_subject callbacks_ck = {
    .name = ".ck",
    .needs_entries = true,
    .create = ck_create,
    .destroy = ck_destroy,
    .lifecycles = ck_lifecycles,
    .cross = ck_cross,
    .open = ck_open_one,
    .close = ck_close_one,
    .lookup = ck_lookup,
    .due = ck_due,
    .count_target = ck_count_target,
    .count_function = ck_count_function,
    .count = ck_count,
    .count_exact = ck_count_exact,
    .allocations = ck_allocations,
    .bytes = ck_bytes,
};
