/* SPDX-License-Identifier: MIT */
/*
 * liburcu's lock-free hash table with its default flavour of RCU: `.lfht`.
 *
 * A node may come again only after a grace period, so every lifecycle of a run has a node of its own,
 * made and touched before the clock starts: neither allocation nor call_rcu is in the figures. The
 * table has a fixed number of buckets, as many as the mutex's table has places.
 */
#define _LGPL_SOURCE /* the read side inlined */
#include <urcu.h>
#include <urcu/rculfhash.h>

#include "benchmarks/callbacks_loops.h"

#include <stdlib.h>

enum { BUCKETS = 2 * CALLBACKS_LIVE };

_Static_assert(sizeof(struct cds_lfht_node) <= sizeof(((callbacks_entry *)0)->node),
               "a node fits into an entry");

CALLBACKS_INLINE struct cds_lfht_node *node_of(callbacks_entry *entry)
{
    return (struct cds_lfht_node *)(void *)entry->node;
}

CALLBACKS_INLINE callbacks_entry *entry_of(struct cds_lfht_node *node)
{
    return (callbacks_entry *)(void *)((char *)node - offsetof(callbacks_entry, node));
}

static int has_id(struct cds_lfht_node *node, const void *id)
{
    return entry_of(node)->id == *(const uint64_t *)id;
}

static void *lfht_create(void)
{
    return cds_lfht_new(BUCKETS, BUCKETS, BUCKETS, 0, NULL);
}

static void lfht_destroy(void *registry)
{
    (void)cds_lfht_destroy(registry, NULL);
}

static int lfht_enter(callbacks_thread *thread)
{
    (void)thread;
    rcu_register_thread();
    return 0;
}

static void lfht_leave(callbacks_thread *thread)
{
    (void)thread;
    rcu_unregister_thread();
}

static void lfht_quiet(void *registry)
{
    (void)registry;
    synchronize_rcu();
}

CALLBACKS_INLINE uint64_t lfht_open(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    callbacks_entry *entry = callbacks_entry_open(thread, number, id);
    cds_lfht_node_init(node_of(entry));
    rcu_read_lock();
    cds_lfht_add(thread->registry, callbacks_hash(id), node_of(entry));
    rcu_read_unlock();
    return id;
}

/* Its node, or NULL. Between read_lock and read_unlock. */
CALLBACKS_INLINE struct cds_lfht_node *find(struct cds_lfht *table, uint64_t id)
{
    struct cds_lfht_iter at;
    cds_lfht_lookup(table, callbacks_hash(id), has_id, &id, &at);
    return cds_lfht_iter_get_node(&at);
}

CALLBACKS_INLINE void *lfht_close(callbacks_thread *thread, uint64_t id)
{
    void *waiter = NULL;
    rcu_read_lock();
    struct cds_lfht_node *node = find(thread->registry, id);
    if (node != NULL && cds_lfht_del(thread->registry, node) == 0)
        waiter = callbacks_entry_close(entry_of(node));
    rcu_read_unlock();
    return waiter;
}

static uint64_t lfht_lifecycles(callbacks_thread *thread, const callbacks_work *work)
{
    return callbacks_lifecycles(thread, work, lfht_open, lfht_close);
}

static uint64_t lfht_cross(callbacks_thread *thread, callbacks_pipe *pipe)
{
    return callbacks_cross(thread, pipe, lfht_open, lfht_close);
}

static uint64_t lfht_open_one(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    return lfht_open(thread, number, id);
}

static void *lfht_close_one(callbacks_thread *thread, uint64_t id)
{
    return lfht_close(thread, id);
}

static uint64_t lfht_lookup(void *registry, const uint64_t *ids, size_t count)
{
    uint64_t open = 0;
    for (size_t i = 0; i < count; i++) {
        rcu_read_lock();
        struct cds_lfht_node *node = find(registry, ids[i]);
        open += node != NULL && teff__atomic_u32_load_relaxed(&entry_of(node)->open) != 0;
        rcu_read_unlock();
    }
    return open;
}

CALLBACKS_INLINE uint64_t lfht_count_if(struct cds_lfht *table, callbacks_predicate *fits,
                                        uint64_t value)
{
    struct cds_lfht_iter at;
    struct cds_lfht_node *node;
    uint64_t count = 0;
    rcu_read_lock();
    for (cds_lfht_first(table, &at); (node = cds_lfht_iter_get_node(&at)) != NULL;
         cds_lfht_next(table, &at))
        count += fits(entry_of(node), value);
    rcu_read_unlock();
    return count;
}

static uint64_t lfht_due(void *registry, int64_t now_ns)
{
    return lfht_count_if(registry, callbacks_is_due, (uint64_t)now_ns);
}

static uint64_t lfht_count_target(void *registry, uint64_t target)
{
    return lfht_count_if(registry, callbacks_has_target, target);
}

static uint64_t lfht_count_function(void *registry, uint64_t target)
{
    return lfht_count_if(registry, callbacks_through_pointer(callbacks_has_target), target);
}

/* It keeps no count; this walks. */
static uint64_t lfht_count(void *registry)
{
    long before, after;
    unsigned long count;
    rcu_read_lock();
    cds_lfht_count_nodes(registry, &before, &count, &after);
    rcu_read_unlock();
    return count;
}

const callbacks_subject callbacks_lfht = {
    .name = ".lfht",
    .needs_entries = true,
    .needs_fresh = true,
    .create = lfht_create,
    .destroy = lfht_destroy,
    .enter = lfht_enter,
    .leave = lfht_leave,
    .quiet = lfht_quiet,
    .lifecycles = lfht_lifecycles,
    .cross = lfht_cross,
    .open = lfht_open_one,
    .close = lfht_close_one,
    .lookup = lfht_lookup,
    .due = lfht_due,
    .count_target = lfht_count_target,
    .count_function = lfht_count_function,
    .count = lfht_count,
    .count_exact = lfht_count,
};
