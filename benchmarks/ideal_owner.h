/* SPDX-License-Identifier: MIT */
/*
 * One thread of the ideal and everything it owns: callers, grains, callbacks, messages, run queue,
 * inbox.
 *
 * Threads: everything is the owner's, except where marked.
 */
#ifndef TEFF_BENCHMARKS_IDEAL_OWNER_H
#define TEFF_BENCHMARKS_IDEAL_OWNER_H

#include "runtime/fiber.h"
#include "runtime/inbox.h"

#include <pthread.h>

enum {
    IDEAL_OWNERS = 2,
    IDEAL_DIRECTORY_RESIDENTS = 65536,
    IDEAL_DIRECTORY_SIZE = 131072 /* a power of two; half full */
};

typedef struct ideal_owner ideal_owner;

typedef struct ideal_body {
    uint64_t words[8];
} ideal_body;

/* One line of header, one of body; the response reuses the request's. */
typedef struct ideal_message {
    _Alignas(TEFF__CACHE_LINE) teff__link link; /* free list, mailbox, or a chain between owners */
    uint32_t home;                              /* the owner that made the request */
    uint32_t activation; /* its number at its owner, checked by grain there */
    uint64_t grain, correlation;
    uint32_t method;
    bool response;
    _Alignas(TEFF__CACHE_LINE) ideal_body body;
} ideal_message;

/* What a run queue holds: an activation with mail, or a caller whose response is there. */
typedef struct ideal_item {
    teff__link link;
    bool is_caller;
} ideal_item;

typedef struct ideal_state {
    uint64_t turns, sum;
} ideal_state;

typedef void ideal_method(ideal_state *state, const ideal_body *arg, ideal_body *ret);

typedef struct ideal_activation {
    _Alignas(TEFF__CACHE_LINE) ideal_item item;
    bool scheduled;
    teff__queue mailbox;
    uint64_t grain;
    ideal_method *const *methods;
    ideal_state state;
} ideal_activation;

typedef struct ideal_caller {
    _Alignas(TEFF__CACHE_LINE) ideal_item item;
    teff__fiber *fiber;
    ideal_message *response;
    uint64_t grains[2]; /* called in turn, or only the first */
    uint64_t turns[2];  /* calls that each has answered */
    unsigned alternate; /* 1: call both */
} ideal_caller;

typedef struct ideal_callback {
    uint64_t generation; /* odd: open */
    ideal_caller *waiter;
    uint64_t grain;
    uint32_t next; /* free: the next free one */
} ideal_callback;

/* Where a grain is. Not in the activation, whose line belongs to another core. */
typedef struct ideal_place {
    uint64_t grain; /* 0: none */
    uint32_t owner, activation;
} ideal_place;

struct ideal_owner {
    teff__queue run_queue;
    ideal_message *messages_free;
    ideal_place *directory;
    ideal_callback *callbacks;
    int64_t *deadlines_ns; /* by slot; INT64_MAX: none */
    int64_t due_ns;        /* no deadline lies before it */
    uint64_t opened, closed, calls;
    uint32_t callbacks_free, index, budget;
    bool ending;      /* callers make no further call */
    bool failed;      /* something was lost, late or wrong */
    int64_t now_ns;   /* read once a pass */
    teff__fiber loop; /* the thread's own stack */
    ideal_activation *activations;
    teff__link *out_newest, *out_oldest; /* what this pass sends to the other owner */
    ideal_owner *other;                  /* NULL: there is none */

    uint32_t caller_count, caller_max, activation_count;
    ideal_caller *callers;
    ideal_message *messages;
    ideal_caller *starting; /* whose fiber enters for the first time */
    teff__memory memory;
    teff__fiber_pool fibers;
    pthread_t thread;
    int wake_fd;

    int64_t warm_ns,
        duration_ns; /* the window's beginning and length; set before the thread starts */
    int64_t window_start_ns, window_end_ns; /* as it came out */
    uint64_t window_start_calls, window_end_calls;

    teff__inbox inbox;      /* the other owner pushes */
    teff__atomic_u32 ended; /* written here, read by the other owner */
};

/* The place of a grain, or an empty one. */
static inline ideal_place *ideal_directory_find(ideal_place *directory, uint64_t grain)
{
    uint64_t hash = grain;
    hash ^= hash >> 32;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
    uint32_t i = (uint32_t)(hash >> 8) & (IDEAL_DIRECTORY_SIZE - 1);
    while (directory[i].grain != grain && directory[i].grain != 0)
        i = (i + 1) & (IDEAL_DIRECTORY_SIZE - 1);
    return &directory[i];
}

/*
 * Runs the callers from start to end, and on until both owners' calls are answered. A thread's
 * main.
 */
void *ideal_owner_main(void *owner);

/*
 * A caller's fiber, to be created with the owner. It never ends: it stays suspended once the owner
 * is ending.
 */
void ideal_owner_caller_main(void *owner);

#endif
