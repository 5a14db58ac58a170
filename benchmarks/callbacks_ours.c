/* SPDX-License-Identifier: MIT */
/*
 * The library's registry as a worker uses it: `callbacks.*` without a suffix. Each thread of a run is
 * a worker with a stripe of its own; the live callbacks are one worker's.
 */
#include "benchmarks/callbacks_ours.h"
#include "messaging/count.h"

static uint64_t ours_lifecycles(callbacks_thread *thread, const callbacks_work *work)
{
    return callbacks_lifecycles(thread, work, ours_open, ours_close);
}

static uint64_t ours_cross(callbacks_thread *thread, callbacks_pipe *pipe)
{
    return callbacks_cross(thread, pipe, ours_open, ours_close);
}

static uint64_t ours_open_one(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    return ours_open(thread, number, id);
}

static void *ours_close_one(callbacks_thread *thread, uint64_t id)
{
    return ours_close(thread, id);
}

static uint64_t ours_lookup(void *registry, const uint64_t *ids, size_t count)
{
    return ours_lookup_in(registry, ids, count);
}

/* The worker's stripe with the live callbacks: workers fill one after the other. */
static teff__stripe *live_stripe(void *registry)
{
    return ((ours *)registry)->registry.stripes;
}

static uint64_t ours_due(void *registry, int64_t now_ns)
{
    return ours_due_in(live_stripe(registry), now_ns);
}

static uint64_t ours_due_skipping(void *registry, int64_t now_ns)
{
    return live_stripe(registry)->low_ns <= now_ns ? ours_due(registry, now_ns) : 0;
}

static uint64_t ours_count_target(void *registry, uint64_t target)
{
    return teff__stripe_count_grain(live_stripe(registry), target);
}

static bool has_target(void *user, const teff__open_callback *callback)
{
    return callback->target == *(const uint64_t *)user;
}

static uint64_t ours_count_function(void *registry, uint64_t target)
{
    return teff__stripe_count_if(live_stripe(registry), has_target, &target);
}

static uint64_t ours_count_exact(void *registry)
{
    const ours *of = registry;
    uint64_t count;
    return teff__registry_open_count_exact(&of->registry, &count) ? count : UINT64_MAX;
}

static uint64_t ours_count(void *registry)
{
    const ours *of = registry;
    return teff__registry_open_count(&of->registry);
}

static uint64_t ours_allocations(void *registry)
{
    ours *of = registry;
    return teff__atomic_u64_load_relaxed(&of->memory.allocations);
}

static uint64_t ours_bytes(void *registry)
{
    return ours_bytes_of(registry);
}

const callbacks_subject callbacks_ours = {
    .name = "",
    .create = ours_create,
    .destroy = ours_destroy,
    .enter = ours_enter,
    .lifecycles = ours_lifecycles,
    .cross = ours_cross,
    .open = ours_open_one,
    .close = ours_close_one,
    .lookup = ours_lookup,
    .due = ours_due,
    .due_skipping = ours_due_skipping,
    .count_target = ours_count_target,
    .count_function = ours_count_function,
    .count = ours_count,
    .count_exact = ours_count_exact,
    .allocations = ours_allocations,
    .bytes = ours_bytes,
};
