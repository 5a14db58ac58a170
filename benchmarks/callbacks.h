/* SPDX-License-Identifier: MIT */
/*
 * What the benchmark `callbacks` compares: registries of calls that wait for an answer.
 *
 * A subject is one way to keep them: ours for a worker and for a client, and four that others would
 * take. Each does the same work: a callback is opened with who waits, when it was opened, its
 * deadline and its target; it is found again by its id and closed, and tells who waited. The loops
 * around that are in callbacks_loops.h, compiled into each subject, so that none pays for a call
 * through a pointer.
 *
 * Threads:
 *   create, destroy, bytes, allocations            one
 *   lookup, due, the counts                        the one that opened what is there
 *   enter, lifecycles, leave, open, close, cross   any, each with a callbacks_thread of its own
 */
#ifndef TEFF_BENCHMARKS_CALLBACKS_H
#define TEFF_BENCHMARKS_CALLBACKS_H

#include "runtime/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CALLBACKS_THREADS_MAX = 32,
    CALLBACKS_LIVE = 8192, /* at most, in the rows about live ones; a power of two */
    CALLBACKS_OUTSTANDING_MAX = 256,
    CALLBACKS_TARGETS = 8,       /* callbacks are spread evenly over so many grains */
    CALLBACKS_DEADLINE_NS = 1000 /* of the first callback; each next one's is 1 ns later */
};

/*
 * What a table points to: the caller's pending call. Ours has all this in its slot. One cache line.
 */
typedef struct callbacks_entry {
    _Alignas(TEFF__CACHE_LINE) uint64_t id;
    int64_t opened_ns, deadline_ns;
    uint64_t target;
    void *waiter;
    teff__atomic_u32 open;
    uint64_t node[2]; /* a library's link lies here */
} callbacks_entry;

_Static_assert(sizeof(callbacks_entry) == TEFF__CACHE_LINE, "an entry is a cache line");

/* What one thread has at hand while it opens and closes. */
typedef struct callbacks_thread {
    _Alignas(TEFF__CACHE_LINE) void *registry;
    unsigned number;
    void *own;                /* the subject's: this thread's stripe */
    callbacks_entry *entries; /* of a subject that points to entries: the i-th call's is i & mask */
    uint64_t entries_mask;
    uint64_t waits; /* how often a lock was held by somebody else */
} callbacks_thread;

/* So many callbacks, with ids first, first + stride …, of which so many are open at a time. */
typedef struct callbacks_work {
    uint64_t first, stride, count;
    unsigned outstanding; /* a power of two */
} callbacks_work;

/* In callbacks_cross.h. */
typedef struct callbacks_pipe callbacks_pipe;

/* What a subject cannot do is NULL. A count of failures is 0 where every callback was found. */
typedef struct callbacks_subject {
    const char *name;   /* as in the rows' names; "" for ours */
    bool needs_entries; /* points to entries … */
    bool needs_fresh;   /* … of which none may come again while others may look */
    void *(*create)(void);
    void (*destroy)(void *registry);
    int (*enter)(callbacks_thread *thread); /* 0, or -1 */
    void (*leave)(callbacks_thread *thread);
    void (*quiet)(void *registry); /* nobody uses it: fresh entries may come again */

    uint64_t (*lifecycles)(callbacks_thread *thread, const callbacks_work *work);
    uint64_t (*cross)(callbacks_thread *thread, callbacks_pipe *pipe); /* opens */
    void (*cross_answer)(void *registry, callbacks_pipe *pipe);        /* NULL: each id goes back */

    uint64_t (*open)(callbacks_thread *thread, uint64_t number, uint64_t id); /* the id it got */
    void *(*close)(callbacks_thread *thread, uint64_t id);                 /* who waited, or NULL */
    uint64_t (*lookup)(void *registry, const uint64_t *ids, size_t count); /* how many are open */
    uint64_t (*due)(void *registry, int64_t now_ns);          /* looks at each deadline */
    uint64_t (*due_skipping)(void *registry, int64_t now_ns); /* unless none can be due */
    uint64_t (*count_target)(void *registry, uint64_t target);
    uint64_t (*count_function)(void *registry, uint64_t target); /* by a pointer to a function */
    uint64_t (*count)(void *registry);
    uint64_t (*count_exact)(void *registry);

    uint64_t (*allocations)(void *registry); /* ever */
    uint64_t (*bytes)(void *registry);       /* allocated and, of address space, touched */
} callbacks_subject;

/* The library's registry: a worker's stripes, a client's, and a worker's reached by inboxes. */
extern const callbacks_subject callbacks_ours, callbacks_client, callbacks_inbox;
/* Two rings and a slot for each call, by hand; crosses and nothing else. */
extern const callbacks_subject callbacks_slots;
/* One table under one mutex; 128 of them, each under a spin lock. */
extern const callbacks_subject callbacks_mutex, callbacks_striped;
#ifdef TEFF_HAVE_URCU
extern const callbacks_subject callbacks_lfht;
#endif
#ifdef TEFF_HAVE_CK
extern const callbacks_subject callbacks_ck;
#endif

#endif
