/* SPDX-License-Identifier: MIT */
/*
 * The registry with 2 to the power of TEFF__STRIPE_BITS stripes, compiled for the sweep.
 *
 * Everything of the registry is static here: the library's own, with its 128, stands beside it in
 * one program. `owners` spreads live callbacks over all stripes of workers, one after the other;
 * `forced` puts them into one stripe.
 */
#include "runtime/inbox.h"
#include "runtime/memory.h"
#include "runtime/thread.h"

#include "teff/status.h"

#undef TEFF__INTERNAL
#define TEFF__INTERNAL static __attribute__((unused))
#include "messaging/registry.c"

#include "benchmarks/callbacks_lock.h"
#include "benchmarks/callbacks_ours.h"
#include "benchmarks/callbacks_sweep.h"

/* A registry, and the lock of those who are forced onto one of its stripes. */
typedef struct crowd {
    ours ours; /* first: what opens and closes is that of a worker or client */
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u32 locked;
} crowd;

static void *crowd_create(void)
{
    crowd *made = aligned_alloc(TEFF__CACHE_LINE, sizeof(*made));
    if (made == NULL)
        return NULL;
    memset(made, 0, sizeof(*made));
    teff__memory_init(&made->ours.memory, 0);
    if (teff__registry_init(&made->ours.registry, &made->ours.memory, CALLBACKS_STRIPES_THREADS) ==
        0)
        return made;
    free(made);
    return NULL;
}

static uint64_t owners_lifecycles(callbacks_thread *thread, const callbacks_work *work)
{
    return callbacks_lifecycles(thread, work, ours_open, ours_close);
}

/* Each next one in the next stripe, as if each had its own worker. */
static uint64_t owners_open(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    crowd *of = thread->registry;
    thread->own = &of->ours.registry.stripes[number % TEFF__STRIPES_WORKERS];
    return ours_open(thread, number, id);
}

static void *owners_close(callbacks_thread *thread, uint64_t id)
{
    return ours_close(thread, id);
}

static uint64_t clients_lifecycles(callbacks_thread *thread, const callbacks_work *work)
{
    uint64_t failures = 0;
    for (uint64_t i = 0; i < work->count; i++)
        failures += client_close(thread, client_open(thread, i, 0), i) != callbacks_waiter(i);
    return failures;
}

/* All threads have the first client's stripe. */
static int forced_enter(callbacks_thread *thread)
{
    crowd *of = thread->registry;
    thread->own = &of->ours.registry.stripes[TEFF__STRIPES_WORKERS];
    return 0;
}

static uint64_t forced_lifecycles(callbacks_thread *thread, const callbacks_work *work)
{
    crowd *of = thread->registry;
    uint64_t failures = 0;
    for (uint64_t i = 0; i < work->count; i++) {
        lock_take(&of->locked, &thread->waits);
        const uint64_t id = client_open(thread, i, 0);
        lock_give(&of->locked);
        lock_take(&of->locked, &thread->waits);
        failures += client_close(thread, id, i) != callbacks_waiter(i);
        lock_give(&of->locked);
    }
    return failures;
}

static uint64_t forced_open(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    crowd *of = thread->registry;
    thread->own = &of->ours.registry.stripes[0];
    return ours_open(thread, number, id);
}

static uint64_t stripes_lookup(void *registry, const uint64_t *ids, size_t count)
{
    return ours_lookup_in(&((crowd *)registry)->ours, ids, count);
}

static uint64_t stripes_due(void *registry, int64_t now_ns)
{
    const crowd *of = registry;
    uint64_t due = 0;
    for (uint32_t i = 0; i < TEFF__STRIPES_WORKERS; i++)
        due += ours_due_in(&of->ours.registry.stripes[i], now_ns);
    return due;
}

static uint64_t stripes_bytes(void *registry)
{
    return ours_bytes_of(&((crowd *)registry)->ours);
}

#define PASTE(a, b)      a##b
#define NAMED(prefix, n) PASTE(prefix, n)

const callbacks_stripes NAMED(callbacks_stripes_, TEFF__STRIPE_BITS) = {
    .count = TEFF__STRIPES,
    .owners = { .name = "",
                .create = crowd_create,
                .destroy = ours_destroy,
                .enter = ours_enter,
                .lifecycles = owners_lifecycles,
                .open = owners_open,
                .close = owners_close,
                .lookup = stripes_lookup,
                .due = stripes_due,
                .bytes = stripes_bytes },
    .clients = { .name = ".clients",
                 .create = crowd_create,
                 .destroy = ours_destroy,
                 .enter = client_enter,
                 .lifecycles = clients_lifecycles },
    .forced = { .name = ".forced",
                .create = crowd_create,
                .destroy = ours_destroy,
                .enter = forced_enter,
                .lifecycles = forced_lifecycles,
                .open = forced_open,
                .close = owners_close,
                .lookup = stripes_lookup,
                .due = stripes_due,
                .bytes = stripes_bytes },
};
