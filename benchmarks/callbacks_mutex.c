/* SPDX-License-Identifier: MIT */
/* One open-addressing table under one mutex: `.mutex`. At most half of its places are taken. */
#include "benchmarks/callbacks_table.h"

#include <pthread.h>
#include <stdlib.h>

enum { PLACES = 2 * CALLBACKS_LIVE };

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
