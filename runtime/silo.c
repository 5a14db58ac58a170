/* SPDX-License-Identifier: MIT */
/*
 * The silo: builds one runtime from all the parts (the composition root), and starts and stops it
 * in order.
 *
 *     created ─► starting ─► active ─► stopping ─► stopped
 *                    └──── failed: what had started has been stopped again
 *
 * The state is guarded by the exchange's lock. Stop closes the clients' gates, then leads the
 * workers through the phases of grains/stop.h: whoever acknowledges last asks for the next one. The
 * last worker to end settles what clients still wait for and says so.
 *
 * On a loop of the program's the only worker ends in the loop's last callback for it. Whoever is
 * told there may destroy the silo at once, and so may a thread that waited: after the state says
 * stopped nothing of the silo is touched.
 */
#include "runtime/silo.h"

#include "grains/catalog.h"
#include "grains/long_call.h"
#include "grains/observer.h"
#include "grains/stateless.h"
#include "grains/timeout.h"
#include "messaging/client.h"
#include "messaging/count.h"
#include "runtime/hosted.h"
#include "runtime/options.h"
#include "runtime/sized.h"

#include "teff/status.h"

#define PAGE_BYTES 4096

_Static_assert((int)TEFF__OPTION_ROUTES_MIN == (int)TEFF__ROUTES_LEAST &&
                   (int)TEFF__OPTION_ROUTES_MAX == (int)TEFF__ROUTES_MOST,
               "what options allow, routes can do");

/*
 * How much longer than the stop limit stop waits before it calls a worker stuck: the second that
 * each of the last two phases may take, and five more.
 */
#define STUCK_NS INT64_C(7000000000)
/* How often a thread that waits for stop looks after its own clients. */
#define CLIENTS_PERIOD_NS INT64_C(1000000)

typedef enum silo_state {
    SILO_CREATED,
    SILO_STARTING,
    SILO_ACTIVE,
    SILO_STOPPING,
    SILO_STOPPED,
    SILO_FAILED
} silo_state;

/* One that waits for stop by teff_silo_stop_then. */
typedef struct stop_waiter {
    teff__memory
        outside; /* that it came from: it outlives the silo where `stopped` destroys that */
    struct stop_waiter *next;
    void (*stopped)(void *user, int result);
    void *user;
} stop_waiter;

struct teff_silo {
    teff__memory outside; /* that the silo itself came from */
    teff__memory memory;
    teff__exchange exchange;
    teff__grains grains;
    teff_silo_options options;
    const char *register_reason; /* why the last type was refused */
    teff__condition changed;     /* of what follows; all guarded by exchange.lock */
    silo_state state;
    /* catalogs that exist; workers that reported, that began and have not ended */
    uint32_t built, begun, live;
    int begin_result;
    bool joined;
    stop_waiter *waiters;
    bool *ended;              /* simulated: by worker */
    teff__atomic_u32 pending; /* workers that have not acknowledged the phase */
    teff__atomic_u32 phase;   /* written between two phases */
};

teff__exchange *teff__silo_exchange(teff_silo *silo)
{
    return &silo->exchange;
}

teff__grains *teff__silo_grains(teff_silo *silo)
{
    return &silo->grains;
}

teff__memory *teff__silo_memory(teff_silo *silo)
{
    return &silo->memory;
}

uint64_t teff__silo_open_count(teff_silo *silo)
{
    return silo->exchange.registry.stripes != NULL
               ? teff__registry_open_count(&silo->exchange.registry)
               : 0;
}

int teff_silo_counts(const teff_silo *silo, teff_counts *ret)
{
    if (silo == NULL || ret == NULL)
        return TEFF_EINVAL;
    if (teff__exchange_forked(&silo->exchange) || silo->exchange.registry.stripes == NULL)
        return TEFF_EINVALIDSTATE;
    teff_counts counts = { .struct_size = ret->struct_size };
    teff__registry_counts(&silo->exchange.registry, &counts);
    return teff__sized_give(ret, sizeof(counts), sizeof(counts), &counts);
}

int teff_silo_grain_counts(const teff_silo *silo, teff_grain_counts *ret)
{
    if (silo == NULL || ret == NULL)
        return TEFF_EINVAL;
    if (teff__exchange_forked(&silo->exchange) || silo->exchange.registry.stripes == NULL)
        return TEFF_EINVALIDSTATE;
    teff_grain_counts counts = { .struct_size = ret->struct_size };
    for (uint32_t i = 0; i < silo->built; i++)
        teff__catalog_count_grains(silo->grains.catalogs[i], &counts);
    return teff__sized_give(ret, sizeof(counts), sizeof(counts), &counts);
}

const char *teff__silo_state_text(teff_silo *silo)
{
    teff__mutex_lock(&silo->exchange.lock);
    const silo_state state = silo->state;
    teff__mutex_unlock(&silo->exchange.lock);
    return state == SILO_ACTIVE     ? "active"
           : state == SILO_STOPPING ? "stopping"
           : state == SILO_STOPPED  ? "stopped"
                                    : NULL;
}

uint64_t teff__silo_grain_count(teff_silo *silo)
{
    return teff__directory_count(&silo->grains.directory);
}

uint64_t teff__silo_park_count(teff_silo *silo)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < silo->built; i++)
        count += teff__atomic_u64_load_relaxed(&silo->exchange.workers[i]->parked);
    return count;
}

int64_t teff__silo_now_ns(teff_silo *silo)
{
    return teff__clock_now_ns(&silo->exchange.clock);
}

/* --- Creating ------------------------------------------------------------------------------ */

static bool step(teff_silo *silo, int64_t until_ns);

static const teff__exchange_ops exchange_ops = { step, teff__observer_run, teff__observers_end,
                                                 teff__long_call_print };
static void phase_done(teff_silo *silo);
static void worker_begun(teff_silo *silo, int result);
static void worker_ended(teff_silo *silo, bool begun);

static void silo_init(teff_silo *silo)
{
    const teff_silo_options *options = &silo->options;
    teff__exchange *exchange = &silo->exchange;
    teff__grains *grains = &silo->grains;
    teff__chance chance;

    teff__memory_init(&silo->memory, options->memory_bytes_max);
    exchange->silo = silo;
    exchange->memory = &silo->memory;
    exchange->workers_count = options->workers;
    exchange->loop = options->loop;
    /* A loop's thread may be at work at any time and is not counted, so it has a core. */
    exchange->spinners.cores = teff__thread_cores() - (options->loop != NULL);
    exchange->ops = &exchange_ops;
    teff__clock_init(&exchange->clock, options->simulated);
    teff__atomic_i64_store_relaxed(&exchange->response_timeout_ns, options->response_timeout_ns);
    teff__mutex_init(&exchange->lock, TEFF__RANK_SILO);
    teff__condition_init(&silo->changed);

    grains->exchange = exchange;
    grains->mailbox_max = options->mailbox_max;
    grains->stop_timeout_ns = options->stop_timeout_ns;
    grains->long_call_ns = options->long_call_ns;
    grains->long_call = options->long_call;
    grains->notice = options->notice;
    grains->mailbox_warn = options->mailbox_warn;
    grains->placement = options->placement;
    grains->idle_ns = options->idle_ns;
    grains->idle_quantum_ns = options->idle_quantum_ns;
    grains->activate_timeout_ns = options->activate_timeout_ns;
    grains->deactivate_timeout_ns = options->deactivate_timeout_ns;
    grains->stuck_ns = options->stuck_ns;
    grains->activations_max = options->activations_max;
    grains->routes_max = options->routes_max;
    grains->routes_ttl_ns = options->routes_ttl_ns;
    grains->shed_at_percent = options->shed_at_percent;
    grains->shed_to_percent = options->shed_to_percent;
    grains->shed_period_ns = options->shed_period_ns;
    grains->memory_use = teff__shed_memory_use;
    grains->worker_start = options->worker_start;
    grains->worker_stop = options->worker_stop;
    grains->user = options->user;
    grains->phase_done = phase_done;
    grains->worker_begun = worker_begun;
    grains->worker_ended = worker_ended;
    teff__inspection_init(&grains->inspection);
    teff__types_init(&grains->types, &silo->memory);
    teff__directory_init(&grains->directory, &silo->memory);
    teff__crews_init(&grains->crews);
    grains->locator = teff__locator_local(&grains->directory);
    teff__chance_init(&chance, options->seed);
    teff__hash_seed_init(&grains->seed, &chance);
    exchange->nonce = (uint32_t)teff__chance_next(&chance);
}

/* The part that create made. */
static void silo_free(teff_silo *silo)
{
    teff__memory_release(&silo->memory, silo->exchange.born, PAGE_BYTES);
    teff__inspection_finish(&silo->grains.inspection);
    teff__condition_finish(&silo->changed);
    teff__mutex_finish(&silo->exchange.lock);
    teff_assert_slow(teff__atomic_u64_load_relaxed(&silo->memory.bytes) == 0);
    teff__memory outside = silo->outside;
    teff__memory_free(&outside, silo, sizeof(*silo));
}

int teff_silo_create(const teff_silo_options *from, teff_silo **ret)
{
    teff_silo_options options;
    teff__memory outside;
    if (ret == NULL)
        return TEFF_EINVAL;
    const int r = teff__options_read(&options, from, TEFF__STRIPES_WORKERS);
    if (r != 0)
        return r;
    teff__memory_init(&outside, 0);
    teff_silo *silo = teff__memory_alloc_line(&outside, sizeof(*silo));
    if (silo == NULL)
        return TEFF_ENOMEM;
    silo->outside = outside;
    silo->options = options;
    silo_init(silo);
    silo->exchange.born = teff__memory_reserve(&silo->memory, PAGE_BYTES);
    if (silo->exchange.born == NULL) {
        silo_free(silo);
        return TEFF_ENOMEM;
    }
    teff__fork_wipe(silo->exchange.born, PAGE_BYTES);
    teff__atomic_u32_store_relaxed(silo->exchange.born, 1);
    *ret = silo;
    return 0;
}

int teff_silo_register(teff_silo *silo, const teff_grain_type *type, void *context)
{
    if (silo == NULL)
        return TEFF_EINVAL;
    if (teff__exchange_forked(&silo->exchange))
        return TEFF_EINVALIDSTATE;
    silo->register_reason = "";
    return teff__types_register(&silo->grains.types, type, context, &silo->register_reason);
}

const char *teff_silo_register_reason(const teff_silo *silo)
{
    return silo != NULL && silo->register_reason != NULL ? silo->register_reason : "";
}

/* --- Starting ------------------------------------------------------------------------------ */

/* Drops what is left in catalogs that have ended: some of it holds buffers, or sources. */
static void catalogs_drain(teff_silo *silo)
{
    for (uint32_t i = 0; i < silo->built; i++)
        teff__catalog_drain(silo->grains.catalogs[i]);
}

static void catalogs_finish(teff_silo *silo)
{
    for (uint32_t i = 0; i < silo->built; i++) {
        teff__catalog_finish(silo->grains.catalogs[i]);
        teff__memory_free(&silo->memory, silo->grains.catalogs[i], sizeof(teff__catalog));
    }
    silo->built = 0;
}

static int catalog_build(teff_silo *silo, uint32_t index)
{
    const teff__worker_options options = {
        .index = index,
        .memory = &silo->memory,
        .clock = &silo->exchange.clock,
        .spinners = &silo->exchange.spinners,
        .ops = &teff__catalog_ops,
        .loop = silo->options.loop,
        .stack_bytes = silo->options.stack_bytes,
        .suspended_max = silo->options.suspended_max,
    };
    teff__catalog *catalog = teff__memory_alloc_line(&silo->memory, sizeof(*catalog));
    if (catalog == NULL)
        return TEFF_ENOMEM;
    const int r = teff__catalog_init(catalog, &silo->grains, &options);
    if (r != 0) {
        teff__memory_free(&silo->memory, catalog, sizeof(*catalog));
        return r;
    }
    silo->grains.catalogs[index] = catalog;
    silo->exchange.workers[index] = &catalog->worker;
    silo->built = index + 1;
    return 0;
}

static int build(teff_silo *silo)
{
    const uint32_t workers = silo->options.workers;
    int r = teff__registry_init(&silo->exchange.registry, &silo->memory, workers);
    if (r != 0)
        return r;
    silo->exchange.workers = teff__memory_alloc(&silo->memory, workers * sizeof(void *));
    silo->grains.catalogs = teff__memory_alloc(&silo->memory, workers * sizeof(void *));
    silo->ended = teff__memory_alloc(&silo->memory, workers * sizeof(bool));
    if (silo->exchange.workers == NULL || silo->grains.catalogs == NULL || silo->ended == NULL)
        return TEFF_ENOMEM;
    for (uint32_t i = 0; r == 0 && i < workers; i++)
        r = catalog_build(silo, i);
    return r;
}

static void worker_begun(teff_silo *silo, int result)
{
    teff__mutex_lock(&silo->exchange.lock);
    silo->begun++;
    if (result == 0)
        silo->live++;
    else if (silo->begin_result == 0)
        silo->begin_result = result;
    teff__condition_broadcast(&silo->changed);
    teff__mutex_unlock(&silo->exchange.lock);
}

/* Starts the threads, one after the other; returns how many it started. */
static uint32_t start_threads(teff_silo *silo, int *ret_status)
{
    for (uint32_t i = 0; i < silo->built; i++) {
        teff__worker *worker = silo->exchange.workers[i];
        *ret_status =
            teff__thread_start(&worker->own_thread, teff__worker_main, worker, "teff-worker");
        if (*ret_status != 0)
            return i;
    }
    return silo->built;
}

static bool has_threads(const teff_silo *silo)
{
    return !silo->exchange.clock.simulated && silo->options.loop == NULL;
}

static void join_threads(teff_silo *silo, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        teff__thread_join(&silo->exchange.workers[i]->own_thread);
}

static void enter_phase(teff_silo *silo, teff__stop_phase phase);

/* Starts the workers; where one fails, the others have ended again on return. */
static int start_workers(teff_silo *silo)
{
    int r = 0;
    if (silo->exchange.clock.simulated) {
        silo->exchange.thread = teff__thread_self();
        for (uint32_t i = 0; i < silo->built; i++)
            silo->ended[i] = teff__catalog_ops.begin(silo->exchange.workers[i]) != 0;
        r = silo->begin_result;
        if (r != 0 && silo->live > 0)
            enter_phase(silo, TEFF__STOP_DRAIN);
        while (r != 0 && silo->live > 0)
            (void)step(silo, INT64_MAX);
        return r;
    }
    if (silo->options.loop != NULL)
        return teff__hosted_start(silo->exchange.workers[0]);
    const uint32_t started = start_threads(silo, &r);
    teff__mutex_lock(&silo->exchange.lock);
    while (silo->begun < started)
        (void)teff__condition_wait(&silo->changed, &silo->exchange.lock, INT64_MAX);
    if (r == 0)
        r = silo->begin_result;
    const bool undo = r != 0 && silo->live > 0;
    teff__mutex_unlock(&silo->exchange.lock);
    if (undo)
        enter_phase(silo, TEFF__STOP_DRAIN);
    if (r != 0)
        join_threads(silo, started);
    return r;
}

int teff_silo_start(teff_silo *silo)
{
    if (silo == NULL)
        return TEFF_EINVAL;
    if (teff__exchange_forked(&silo->exchange))
        return TEFF_EINVALIDSTATE;
    teff__mutex_lock(&silo->exchange.lock);
    const bool created = silo->state == SILO_CREATED;
    if (created)
        silo->state = SILO_STARTING;
    teff__mutex_unlock(&silo->exchange.lock);
    if (!created)
        return TEFF_EINVALIDSTATE;

    teff__types_freeze(&silo->grains.types);
    int r = build(silo);
    if (r == 0)
        r = start_workers(silo);

    teff__mutex_lock(&silo->exchange.lock);
    silo->state = r == 0 ? SILO_ACTIVE : SILO_FAILED;
    silo->exchange.admits = r == 0;
    teff__mutex_unlock(&silo->exchange.lock);
    return r;
}

int teff_silo_set_response_timeout(teff_silo *silo, int64_t timeout_ns)
{
    if (silo == NULL || timeout_ns < 0)
        return TEFF_EINVAL;
    if (teff__exchange_forked(&silo->exchange))
        return TEFF_EINVALIDSTATE;
    const int64_t to_ns = teff__timeout_or(timeout_ns, TEFF__RESPONSE_TIMEOUT_NS);
    int r = 0;
    teff__mutex_lock(&silo->exchange.lock);
    if (silo->state == SILO_ACTIVE || silo->state == SILO_STOPPING)
        teff__timeout_set(&silo->grains, to_ns);
    else if (silo->state == SILO_CREATED)
        teff__atomic_i64_store_relaxed(&silo->exchange.response_timeout_ns, to_ns);
    else
        r = TEFF_EINVALIDSTATE;
    teff__mutex_unlock(&silo->exchange.lock);
    return r;
}

int teff_silo_collect(teff_silo *silo, int64_t idle_ns)
{
    if (silo == NULL || idle_ns < 0)
        return TEFF_EINVAL;
    if (teff__exchange_forked(&silo->exchange))
        return TEFF_EINVALIDSTATE;
    teff__mutex_lock(&silo->exchange.lock);
    const bool active = silo->state == SILO_ACTIVE;
    if (active)
        teff__collect_post(&silo->grains, idle_ns);
    teff__mutex_unlock(&silo->exchange.lock);
    return active ? 0 : TEFF_EINVALIDSTATE;
}

/* --- Stopping ------------------------------------------------------------------------------ */

/* Asks every live worker for the phase. */
static void enter_phase(teff_silo *silo, teff__stop_phase phase)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < silo->built; i++)
        live += silo->grains.catalogs[i]->begun;
    teff__atomic_u32_store_relaxed(&silo->phase, phase);
    teff__atomic_u32_store_seq_cst(&silo->pending, live);
    for (uint32_t i = 0; i < silo->built; i++) {
        teff__catalog *catalog = silo->grains.catalogs[i];
        if (catalog->begun)
            teff__exchange_post(&silo->exchange, i, &catalog->control[phase]);
    }
}

static void phase_done(teff_silo *silo)
{
    const teff__stop_phase phase = teff__atomic_u32_load_relaxed(&silo->phase);
    if (teff__atomic_u32_add_seq_cst(&silo->pending, UINT32_MAX) == 1 && phase < TEFF__STOP_SETTLE)
        enter_phase(silo, phase + 1);
}

static stop_waiter *stop_waiter_create(void (*stopped)(void *user, int result), void *user)
{
    teff__memory outside;
    teff__memory_init(&outside, 0);
    stop_waiter *waiter = teff__memory_alloc(&outside, sizeof(*waiter));
    if (waiter != NULL)
        *waiter = (stop_waiter){ .outside = outside, .stopped = stopped, .user = user };
    return waiter;
}

static void stop_waiter_destroy(stop_waiter *waiter)
{
    teff__memory outside = waiter->outside;
    teff__memory_free(&outside, waiter, sizeof(*waiter));
}

/* The last worker has ended: nobody is left to answer the clients. */
static void finish_stop(teff_silo *silo)
{
    for (uint32_t i = TEFF__STRIPES_WORKERS; i < TEFF__STRIPES; i++)
        teff__stripe_end(&silo->exchange.registry.stripes[i], TEFF_EUNAVAILABLE);
    teff__mutex_lock(&silo->exchange.lock);
    const bool stopping = silo->state == SILO_STOPPING; /* else a start is being undone */
    stop_waiter *waiters = silo->waiters;
    silo->waiters = NULL;
    if (stopping)
        silo->state = SILO_STOPPED;
    if (silo->options.loop != NULL) /* the loop's thread is free to wait, or to end */
        teff__atomic_u64_store_relaxed(&silo->exchange.workers[0]->thread, 0);
    teff__condition_broadcast(&silo->changed);
    teff__mutex_unlock(&silo->exchange.lock);
    while (waiters != NULL) {
        stop_waiter *waiter = waiters;
        waiters = waiter->next;
        waiter->stopped(waiter->user, 0);
        stop_waiter_destroy(waiter);
    }
}

static void worker_ended(teff_silo *silo, bool begun)
{
    if (!begun)
        return;
    teff__mutex_lock(&silo->exchange.lock);
    const bool last = --silo->live == 0;
    teff__mutex_unlock(&silo->exchange.lock);
    if (last)
        finish_stop(silo);
}

/* Takes an active silo out of service. The lock is held. */
static void begin_stop(teff_silo *silo)
{
    silo->state = SILO_STOPPING;
    silo->exchange.admits = false;
    teff__atomic_i64_store_relaxed(&silo->grains.stop_began_ns, teff__silo_now_ns(silo));
    for (uint32_t i = TEFF__STRIPES_WORKERS; i < TEFF__STRIPES; i++)
        teff__stripe_close_gate(&silo->exchange.registry.stripes[i]);
    enter_phase(silo, TEFF__STOP_DRAIN);
}

/* Waits for the end of stop. The lock is held. */
static int wait_stopped(teff_silo *silo)
{
    const teff__clock *clock = &silo->exchange.clock;
    const int64_t deadline_ns =
        teff__time_add(teff__clock_now_ns(clock), silo->options.stop_timeout_ns + STUCK_NS);
    while (silo->state == SILO_STOPPING) {
        teff__mutex_unlock(&silo->exchange.lock);
        /* What runs still may wait for this thread: an observer's answer, a completion's call. */
        int64_t due_ns;
        const bool clients = teff__clients_run_here(&silo->exchange, &due_ns);
        if (clock->simulated)
            (void)step(silo, due_ns);
        teff__mutex_lock(&silo->exchange.lock);
        if (clock->simulated || silo->state != SILO_STOPPING)
            continue;
        const int64_t look_ns = teff__clock_now_ns(clock) + CLIENTS_PERIOD_NS;
        const int64_t until_ns = clients && look_ns < deadline_ns ? look_ns : deadline_ns;
        if (!teff__condition_wait(&silo->changed, &silo->exchange.lock, until_ns) &&
            teff__clock_now_ns(clock) >= deadline_ns && silo->state == SILO_STOPPING)
            return TEFF_ESTUCK;
    }
    return 0;
}

/* Whoever waited here for the silo would hold up what it waits for. */
static bool would_block(teff_silo *silo)
{
    return teff__exchange_inside(&silo->exchange) || teff__exchange_hosts_here(&silo->exchange) ||
           teff__clients_inside_here(&silo->exchange);
}

int teff_silo_stop(teff_silo *silo)
{
    if (silo == NULL)
        return TEFF_EINVAL;
    if (teff__exchange_forked(&silo->exchange))
        return TEFF_EINVALIDSTATE;
    if (would_block(silo))
        return TEFF_EWOULDBLOCK;
    int r = TEFF_EINVALIDSTATE;
    bool join = false;
    int64_t due_ns;
    teff__mutex_lock(&silo->exchange.lock);
    if (silo->state == SILO_ACTIVE)
        begin_stop(silo);
    if (silo->state == SILO_STOPPING || silo->state == SILO_STOPPED) {
        r = wait_stopped(silo);
        join = r == 0 && !silo->joined && has_threads(silo);
        silo->joined |= join;
    }
    teff__mutex_unlock(&silo->exchange.lock);
    if (join)
        join_threads(silo, silo->built);
    if (r == 0) /* what was settled last is theirs, too */
        (void)teff__clients_run_here(&silo->exchange, &due_ns);
    return r;
}

int teff_silo_stop_then(teff_silo *silo, void (*stopped)(void *user, int result), void *user)
{
    if (silo == NULL || stopped == NULL)
        return TEFF_EINVAL;
    if (teff__exchange_forked(&silo->exchange))
        return TEFF_EINVALIDSTATE;
    stop_waiter *waiter = stop_waiter_create(stopped, user);
    if (waiter == NULL)
        return TEFF_ENOMEM;
    teff__mutex_lock(&silo->exchange.lock);
    if (silo->state == SILO_ACTIVE)
        begin_stop(silo);
    const bool stopping = silo->state == SILO_STOPPING;
    if (stopping) {
        waiter->next = silo->waiters;
        silo->waiters = waiter;
    }
    teff__mutex_unlock(&silo->exchange.lock);
    if (!stopping)
        stop_waiter_destroy(waiter);
    return stopping ? 0 : TEFF_EINVALIDSTATE;
}

teff_silo *teff_silo_destroy(teff_silo *silo)
{
    if (silo == NULL)
        return NULL;
    if (teff__exchange_forked(&silo->exchange) || would_block(silo))
        return silo;
    teff__mutex_lock(&silo->exchange.lock);
    const silo_state state = silo->state;
    teff__mutex_unlock(&silo->exchange.lock);
    if (state == SILO_ACTIVE || state == SILO_STOPPING || state == SILO_STOPPED)
        if (teff_silo_stop(silo) != 0)
            return silo;
    if (silo->exchange.clients_count > 0)
        return silo;
    catalogs_drain(silo);
    if (teff__atomic_u32_load_acquire(&silo->exchange.held) > 0)
        return silo;
    const uint32_t workers = silo->options.workers;
    catalogs_finish(silo);
    teff__clients_finish(&silo->exchange);
    teff__registry_finish(&silo->exchange.registry);
    teff__directory_finish(&silo->grains.directory);
    teff__crews_finish(&silo->grains.crews, &silo->memory);
    teff__types_finish(&silo->grains.types);
    teff__memory_free(&silo->memory, silo->exchange.workers, workers * sizeof(void *));
    teff__memory_free(&silo->memory, silo->grains.catalogs, workers * sizeof(void *));
    teff__memory_free(&silo->memory, silo->ended, workers * sizeof(bool));
    silo_free(silo);
    return NULL;
}

/* --- Simulating ---------------------------------------------------------------------------- */

/* One pass of every worker. False: none had anything to do, or has now. */
static bool run_round(teff_silo *silo)
{
    const int64_t now_ns = teff__silo_now_ns(silo);
    bool ran = false;
    for (uint32_t i = 0; i < silo->built; i++) {
        teff__worker *worker = silo->exchange.workers[i];
        if (silo->ended[i])
            continue;
        teff__atomic_u64_store_relaxed(&worker->thread, teff__thread_self());
        teff__fiber_adopt(&worker->host);
        ran |= worker->run_queue.head != NULL || !teff__inbox_empty(&worker->inbox) ||
               teff__worker_due_ns(worker) <= now_ns;
        const teff__pass pass = teff__worker_pass(worker);
        ran |= pass != TEFF__PASS_IDLE;
        if (pass == TEFF__PASS_ENDED) {
            silo->ended[i] = true;
            teff__catalog_ops.end(worker);
        }
    }
    for (uint32_t i = 0; i < silo->built; i++)
        ran |= !silo->ended[i] && !teff__inbox_empty(&silo->exchange.workers[i]->inbox);
    return ran;
}

static bool step(teff_silo *silo, int64_t until_ns)
{
    teff__clock *clock = &silo->exchange.clock;
    /* Clients end their own calls; time does not pass over a deadline of theirs. */
    int64_t due_ns = teff__clients_end_due(&silo->exchange, clock->simulated_ns);
    if (run_round(silo))
        return true;
    for (uint32_t i = 0; i < silo->built; i++) {
        if (silo->ended[i])
            continue;
        const int64_t due = teff__worker_due_ns(silo->exchange.workers[i]);
        due_ns = due < due_ns ? due : due_ns;
    }
    const bool due = due_ns <= until_ns && due_ns != INT64_MAX;
    const int64_t to_ns = due ? due_ns : until_ns;
    if (to_ns > clock->simulated_ns && to_ns != INT64_MAX)
        clock->simulated_ns = to_ns;
    return due;
}

int teff_silo_run(teff_silo *silo)
{
    return teff_silo_advance(silo, 0);
}

int teff_silo_advance(teff_silo *silo, int64_t duration_ns)
{
    if (silo == NULL || duration_ns < 0)
        return TEFF_EINVAL;
    if (!silo->exchange.clock.simulated || silo->state == SILO_CREATED ||
        silo->state == SILO_FAILED || silo->state == SILO_STOPPED ||
        silo->exchange.thread != teff__thread_self() || teff__exchange_inside(&silo->exchange) ||
        teff__exchange_forked(&silo->exchange))
        return TEFF_EINVALIDSTATE;
    int64_t until_ns = teff__time_add(teff__silo_now_ns(silo), duration_ns);
    if (until_ns == INT64_MAX)
        until_ns--; /* which means never */
    while (step(silo, until_ns)) {
    }
    return 0;
}
