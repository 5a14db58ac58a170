/* SPDX-License-Identifier: MIT */
/*
 * The library's registry in the benchmark `callbacks`: all that knows how a callback is opened and
 * settled, for a worker and for a client.
 *
 * The registry is one that teff__registry_init made, and the functions are those that the runtime
 * calls, in its order; what the runtime does beside them is not in it.
 */
#ifndef TEFF_BENCHMARKS_CALLBACKS_OURS_H
#define TEFF_BENCHMARKS_CALLBACKS_OURS_H

#include "benchmarks/callbacks_loops.h"
#include "messaging/registry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct ours {
    teff__memory memory;
    teff__registry registry;
} ours;

/* For 32 workers: each thread of a run may have a stripe, a worker's or a client's. */
static inline int ours_init(ours *of)
{
    teff__memory_init(&of->memory, 0);
    return teff__registry_init(&of->registry, &of->memory, CALLBACKS_THREADS_MAX);
}

static inline void *ours_create(void)
{
    ours *made = calloc(1, sizeof(*made));
    if (made != NULL && ours_init(made) == 0)
        return made;
    free(made);
    return NULL;
}

static inline void ours_destroy(void *registry)
{
    ours *of = registry;
    teff__registry_finish(&of->registry);
    free(of);
}

/* The first stripe of the worker of that number. */
static inline int ours_enter(callbacks_thread *thread)
{
    ours *of = thread->registry;
    teff__stripe *stripe = of->registry.stripes;
    while (stripe->worker != thread->number)
        stripe++;
    thread->own = stripe;
    return 0;
}

CALLBACKS_INLINE uint64_t ours_open(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    teff__stripe *stripe = thread->own;
    int status;
    teff__callback *callback = teff__stripe_take(stripe, &status);
    (void)id;
    if (TEFF__UNLIKELY(callback == NULL))
        return 0;
    const teff__callback_terms terms = { (int64_t)number, callbacks_deadline_ns(number) };
    const uint64_t made = teff__stripe_open(stripe, callback, callbacks_waiter(number), &terms, 0);
    teff__stripe_set_target(stripe, made, callbacks_target(number));
    return made;
}

/* A late or forged id is found out as it would be there. */
CALLBACKS_INLINE void *ours_close(callbacks_thread *thread, uint64_t id)
{
    const ours *of = thread->registry;
    bool detailed;
    teff__callback *callback =
        teff__stripe_settle(teff__registry_stripe(&of->registry, id), id, &detailed);
    return callback != NULL ? callback->value : NULL;
}

CALLBACKS_INLINE uint64_t ours_lookup_in(const ours *of, const uint64_t *ids, size_t count)
{
    uint64_t open = 0;
    for (size_t i = 0; i < count; i++)
        open += teff__stripe_look_up(teff__registry_stripe(&of->registry, ids[i]), ids[i]) ==
                TEFF__CALLBACK_OPEN;
    return open;
}

/* How many are due in that stripe, whatever its bound says. */
CALLBACKS_INLINE uint64_t ours_due_in(const teff__stripe *stripe, int64_t now_ns)
{
    uint64_t due = 0;
    uint32_t slot = 0;
    int64_t low_ns = INT64_MAX;
    while (teff__stripe_next_due(stripe, now_ns, &slot, &low_ns) != 0)
        due++;
    return due;
}

/* How much of a reservation has been touched. */
static inline uint64_t ours_touched(void *address, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *pages = malloc(size / page);
    uint64_t count = 0;
    if (address != NULL && pages != NULL && mincore(address, size, pages) == 0) {
        for (size_t i = 0; i < size / page; i++)
            count += pages[i] & 1;
    }
    free(pages);
    return count * page;
}

static inline uint64_t ours_bytes_of(const ours *of)
{
    const teff__registry *registry = &of->registry;
    const size_t columns = (sizeof(teff__callback_columns) + 4095) / 4096 * 4096;
    uint64_t bytes = teff__atomic_u64_load_relaxed(&of->memory.bytes);
    bytes += ours_touched(registry->ends,
                          (TEFF__STRIPES * sizeof(*registry->ends) + 4095) / 4096 * 4096);
    for (uint32_t i = 0; i < TEFF__STRIPES; i++) {
        const teff__stripe *stripe = &registry->stripes[i];
        bytes += ours_touched(stripe->callbacks, TEFF__CALLBACKS_MAX * sizeof(*stripe->callbacks));
        bytes += ours_touched(stripe->columns, columns);
        bytes += ours_touched(stripe->details, TEFF__CALLBACKS_MAX * sizeof(*stripe->details));
    }
    return bytes;
}

/* The client of that number. */
static inline int client_enter(callbacks_thread *thread)
{
    ours *of = thread->registry;
    thread->own = &of->registry.stripes[TEFF__STRIPES_WORKERS + thread->number];
    return 0;
}

/* What a blocking client does for a call; its answer is the number of the call. */
CALLBACKS_INLINE uint64_t client_open(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    teff__stripe *stripe = thread->own;
    int status;
    uint64_t made;
    teff__callback *callback = teff__stripe_take(stripe, &status);
    (void)id;
    const teff__callback_terms terms = { (int64_t)number, callbacks_deadline_ns(number) };
    if (TEFF__UNLIKELY(callback == NULL) ||
        !teff__stripe_open_shared(stripe, callback, &terms, 0, &made))
        return 0;
    teff__stripe_set_target(stripe, made, callbacks_target(number));
    return made;
}

/* Takes one claimed callback: the answer. */
CALLBACKS_INLINE void *client_receive(teff__stripe *stripe, uint32_t *next)
{
    const uint32_t slot = *next - 1;
    teff__callback *callback = &stripe->callbacks[slot];
    *next = callback->done;
    teff__stripe_received(stripe, slot);
    teff__callback_become(callback, TEFF__CALLBACK_SETTLED);
    void *answer = callback->value;
    teff__stripe_free(stripe, callback);
    return answer;
}

/* The answer to a client's call, by the same thread as if by another, and its receipt. */
CALLBACKS_INLINE void *client_close(callbacks_thread *thread, uint64_t id, uint64_t number)
{
    const ours *of = thread->registry;
    teff__stripe *own = thread->own;
    if (!teff__stripe_claim(teff__registry_stripe(&of->registry, id), id, callbacks_waiter(number),
                            0))
        return NULL;
    uint32_t next = teff__stripe_take_done(own);
    void *answer = next != 0 ? client_receive(own, &next) : NULL;
    return next == 0 ? answer : NULL;
}

#endif
