/* SPDX-License-Identifier: MIT */
/*
 * The loops that each subject of `callbacks` compiles around its own functions.
 *
 * They are inlined with the functions that they are given, which are constants where they are
 * called: what is measured is the registry, and the same few instructions around it for all.
 */
#ifndef TEFF_BENCHMARKS_CALLBACKS_LOOPS_H
#define TEFF_BENCHMARKS_CALLBACKS_LOOPS_H

#include "benchmarks/callbacks.h"
#include "benchmarks/callbacks_cross.h"

#define CALLBACKS_INLINE static inline __attribute__((always_inline))

typedef uint64_t callbacks_open(callbacks_thread *thread, uint64_t number, uint64_t id);
typedef void *callbacks_close(callbacks_thread *thread, uint64_t id);

/* Who waits for the call of that number, as a pointer that is never followed. */
CALLBACKS_INLINE void *callbacks_waiter(uint64_t number)
{
    return (void *)(uintptr_t)(number + 1);
}

CALLBACKS_INLINE int64_t callbacks_deadline_ns(uint64_t number)
{
    return CALLBACKS_DEADLINE_NS + (int64_t)number;
}

CALLBACKS_INLINE uint64_t callbacks_target(uint64_t number)
{
    return number % CALLBACKS_TARGETS;
}

/* The entry of that call, filled in. */
CALLBACKS_INLINE callbacks_entry *callbacks_entry_open(const callbacks_thread *thread,
                                                       uint64_t number, uint64_t id)
{
    callbacks_entry *entry = &thread->entries[number & thread->entries_mask];
    entry->id = id;
    entry->opened_ns = (int64_t)number;
    entry->deadline_ns = callbacks_deadline_ns(number);
    entry->target = callbacks_target(number);
    entry->waiter = callbacks_waiter(number);
    teff__atomic_u32_store_relaxed(&entry->open, 1);
    return entry;
}

/* Who waited; NULL for no entry. */
CALLBACKS_INLINE void *callbacks_entry_close(callbacks_entry *entry)
{
    if (entry == NULL)
        return NULL;
    teff__atomic_u32_store_relaxed(&entry->open, 0);
    return entry->waiter;
}

/* Spreads ids of any pattern over 56 bits. */
CALLBACKS_INLINE uint64_t callbacks_hash(uint64_t id)
{
    id ^= id >> 32;
    id *= UINT64_C(0x9e3779b97f4a7c15);
    return (id ^ id >> 29) >> 8;
}

/* What a table's entries are counted by. */
typedef bool callbacks_predicate(const callbacks_entry *entry, uint64_t value);

static inline bool callbacks_is_due(const callbacks_entry *entry, uint64_t now_ns)
{
    return entry->deadline_ns <= (int64_t)now_ns;
}

static inline bool callbacks_has_target(const callbacks_entry *entry, uint64_t target)
{
    return entry->target == target;
}

/* The same function, through a pointer that the compiler cannot see through. */
CALLBACKS_INLINE callbacks_predicate *callbacks_through_pointer(callbacks_predicate *function)
{
    __asm__("" : "+r"(function));
    return function;
}

/* Returns how many were not found, or named another's waiter. */
CALLBACKS_INLINE uint64_t callbacks_lifecycles(callbacks_thread *thread, const callbacks_work *work,
                                               callbacks_open *open, callbacks_close *close)
{
    const uint64_t count = work->count, stride = work->stride, window = work->outstanding;
    uint64_t failures = 0, id = work->first, ids[CALLBACKS_OUTSTANDING_MAX];
    if (window == 1) {
        for (uint64_t i = 0; i < count; i++, id += stride)
            failures += close(thread, open(thread, i, id)) != callbacks_waiter(i);
        return failures;
    }
    for (uint64_t i = 0; i < count + window; i++, id += stride) {
        if (i >= window)
            failures += close(thread, ids[i % window]) != callbacks_waiter(i - window);
        if (i < count)
            ids[i % window] = open(thread, i, id);
    }
    return failures;
}

/* The opener's side of a pipe: keeps so many calls under way, and closes what comes back. */
CALLBACKS_INLINE uint64_t callbacks_cross(callbacks_thread *thread, callbacks_pipe *pipe,
                                          callbacks_open *open, callbacks_close *close)
{
    const uint64_t count = pipe->count, depth = pipe->depth;
    uint64_t sent = 0, done = 0, failures = 0;
    while (done < count) {
        const uint64_t before = sent;
        while (sent < count && sent - done < depth) {
            callbacks_ring_put(&pipe->there, sent, open(thread, sent, sent + 1));
            sent++;
        }
        if (sent != before)
            callbacks_ring_publish(&pipe->there, sent);
        const uint64_t came = callbacks_ring_published(&pipe->back);
        /* An answer comes in the order of the questions. */
        for (; done < came; done++)
            failures +=
                close(thread, callbacks_ring_get(&pipe->back, done)) != callbacks_waiter(done);
    }
    return failures;
}

#endif
