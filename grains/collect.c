/* SPDX-License-Identifier: MIT */
/*
 * Looking at what may be idle, in slices.
 *
 * A slice ends as soon as mail comes. While others have work it is a few microseconds, and then
 * nine times as long they have the worker for themselves; else it may last as long as a slice of
 * anything.
 */
#include "grains/collect.h"

#include "grains/activate.h"
#include "grains/shed.h"

enum {
    LOOKED_AT_ONCE = 16, /* a few microseconds, and between two looks at the clock */
    LOOKED_MAX = 1024,   /* in a slice, where the clock stands still */
    ASKED_MAX = 16,      /* in a slice: they have all gone by the end of the pass */
    ASKED_NS = 500,      /* what one's going takes about, its own hook aside */
    SLICE_NS = 50000,
    REST = 9 /* slices */
};

#define NEVER_NS      INT64_C(2592000000000000) /* 30 days: coarse time knows of 52 */
#define COARSE_NS     (INT64_C(1) << 20)
#define KEEP_FOR_GOOD UINT32_MAX

enum { STAGE_BUCKETS, STAGE_KEPT, STAGE_LASTING };

/* What `why` says of one that does not go. */
enum { STAYS = 0 };

void teff__collector_init(teff__catalog *catalog)
{
    teff__collector *collector = &catalog->collector;
    const teff__grains *grains = catalog->grains;
    const int64_t now_ns = catalog->worker.now_ns;
    collector->quantum_ns = grains->idle_quantum_ns;
    collector->origin = (uint64_t)(now_ns / collector->quantum_ns);
    collector->bucket_ns = INT64_MAX;
    collector->shed_ns =
        grains->shed_at_percent != 0 ? teff__time_add(now_ns, grains->shed_period_ns) : INT64_MAX;
    collector->due_ns = collector->shed_ns;
    teff__ring_init(&collector->work);
    teff__ring_init(&collector->kept);
    teff__ring_init(&collector->lasting);
    collector->message.kind = TEFF__MESSAGE_CONTROL;
    teff__wheel_init(&collector->wheel, collector->origin);
}

/* --- When ---------------------------------------------------------------------------------- */

static int64_t round_up(int64_t time_ns, int64_t quantum_ns)
{
    const int64_t beyond_ns = time_ns % quantum_ns;
    return beyond_ns == 0 ? time_ns : teff__time_add(time_ns - beyond_ns, quantum_ns);
}

uint64_t teff__collect_tick(int64_t used_ns, int64_t age_ns, int64_t quantum_ns,
                            int64_t type_quantum_ns)
{
    int64_t due_ns = round_up(teff__time_add(used_ns, age_ns), quantum_ns);
    if (type_quantum_ns > 0)
        due_ns = round_up(round_up(due_ns, type_quantum_ns), quantum_ns);
    return due_ns != INT64_MAX ? (uint64_t)(due_ns / quantum_ns) : TEFF__WHEEL_NEVER;
}

static int64_t tick_ns(const teff__collector *collector, uint64_t tick)
{
    int64_t ns;
    return __builtin_mul_overflow(tick, collector->quantum_ns, &ns) ? INT64_MAX : ns;
}

/* INT64_MAX: it is never idle. */
static int64_t age_of(const teff__catalog *catalog, const teff__type *type)
{
    const int64_t age_ns = type->def.idle_ns != 0 ? type->def.idle_ns : catalog->grains->idle_ns;
    return age_ns <= NEVER_NS ? age_ns : INT64_MAX;
}

static int64_t idle_for_ns(const teff__catalog *catalog, const teff__activation *activation)
{
    return (int64_t)(uint32_t)(catalog->coarse - activation->record.used) * COARSE_NS;
}

/* When it is old enough, its wish not asked. */
static uint64_t old_tick(const teff__catalog *catalog, const teff__activation *activation)
{
    const int64_t age_ns = age_of(catalog, activation->type);
    /* In coarse time both, so that what was used a moment ago was not used later than now. */
    const int64_t used_ns =
        catalog->worker.now_ns / COARSE_NS * COARSE_NS - idle_for_ns(catalog, activation);
    if (age_ns == INT64_MAX)
        return TEFF__WHEEL_NEVER;
    return teff__collect_tick(used_ns, age_ns, catalog->collector.quantum_ns,
                              activation->type->def.idle_quantum_ns);
}

static uint64_t due_tick(const teff__catalog *catalog, const teff__activation *activation)
{
    const uint64_t old = old_tick(catalog, activation);
    const uint64_t kept = activation->keep == KEEP_FOR_GOOD
                              ? TEFF__WHEEL_NEVER
                              : catalog->collector.origin + activation->keep;
    return old > kept ? old : kept;
}

static void set_due(teff__collector *collector)
{
    int64_t due_ns = collector->bucket_ns;
    due_ns = collector->shed_ns < due_ns ? collector->shed_ns : due_ns;
    collector->due_ns = collector->working ? INT64_MIN : due_ns;
}

static void find_bucket(teff__collector *collector)
{
    teff__bucket bucket;
    collector->bucket_ns = teff__wheel_find(&collector->wheel, 0, &bucket)
                               ? tick_ns(collector, bucket.first)
                               : INT64_MAX;
}

/* --- Entering and leaving ------------------------------------------------------------------ */

/* `tick`: when it is due. */
static void enter_at(teff__catalog *catalog, teff__activation *activation, uint64_t tick)
{
    teff__collector *collector = &catalog->collector;
    teff__ring_remove(&activation->ring);
    if (tick != TEFF__WHEEL_NEVER) {
        teff__wheel_add(&collector->wheel, &activation->ring, tick);
        const int64_t ns = tick_ns(collector, tick);
        collector->bucket_ns = ns < collector->bucket_ns ? ns : collector->bucket_ns;
        collector->due_ns = ns < collector->due_ns ? ns : collector->due_ns;
    } else if (age_of(catalog, activation->type) == INT64_MAX) {
        teff__ring_push_back(&collector->lasting, &activation->ring);
    } else {
        teff__ring_push_back(&collector->kept, &activation->ring);
    }
}

void teff__collect_enter(teff__catalog *catalog, teff__activation *activation)
{
    activation->record.used = catalog->coarse;
    enter_at(catalog, activation, due_tick(catalog, activation));
}

void teff__collect_leave(teff__catalog *catalog, teff__activation *activation)
{
    (void)catalog;
    teff__ring_remove(&activation->ring);
}

void teff__collect_delay(teff__catalog *catalog, teff__activation *activation, int64_t duration_ns)
{
    const teff__collector *collector = &catalog->collector;
    uint64_t keep = 0;
    if (duration_ns > 0) {
        const uint64_t tick =
            teff__collect_tick(catalog->worker.now_ns, duration_ns, collector->quantum_ns, 0);
        keep = tick != TEFF__WHEEL_NEVER ? tick - collector->origin : KEEP_FOR_GOOD;
    }
    activation->keep = keep < KEEP_FOR_GOOD ? (uint32_t)keep : KEEP_FOR_GOOD;
    /* A shorter wish than the last one may be over before its bucket comes. */
    if (activation->state == TEFF__ACTIVATION_VALID)
        teff__collect_enter(catalog, activation);
}

/* --- Looking ------------------------------------------------------------------------------- */

/*
 * One that has work stays. Where a turn is suspended nobody knows for how long: it says that it is
 * to go, and when the turn ends it is not idle, and enters again.
 */
static void stay_busy(teff__catalog *catalog, teff__activation *activation, uint64_t tick)
{
    if ((activation->flags & TEFF__ACTIVATION_BUSY) != 0 &&
        age_of(catalog, activation->type) != INT64_MAX) {
        teff__activation_ask(catalog, activation, TEFF_DEACTIVATED_IDLE);
        return;
    }
    activation->record.used = catalog->coarse;
    const uint64_t due = due_tick(catalog, activation);
    enter_at(catalog, activation, due > tick ? due : tick + 1);
}

/* Why it is to go, or STAYS. `tick` is that of now, `due` when it would be due. */
static int why(const teff__catalog *catalog, const teff__activation *activation, uint64_t tick,
               uint64_t due)
{
    const teff__collector *collector = &catalog->collector;
    if (due <= tick)
        return TEFF_DEACTIVATED_IDLE;
    if (collector->walk == TEFF__WALK_COLLECT &&
        idle_for_ns(catalog, activation) >= collector->idle_ns)
        return TEFF_DEACTIVATED_COLLECT;
    /* One that was used since it stood in this bucket comes later: others are idle for longer. */
    if (collector->walk == TEFF__WALK_SHED && collector->shed > 0 &&
        (collector->stage != STAGE_BUCKETS || old_tick(catalog, activation) < collector->walked))
        return TEFF_DEACTIVATED_MEMORY;
    return STAYS;
}

/* True: it was asked to go. */
static bool look_at(teff__catalog *catalog, teff__activation *activation, uint64_t tick)
{
    teff__collector *collector = &catalog->collector;
    teff__ring_remove(&activation->ring);
    __builtin_prefetch(teff__container_of(collector->work.next, teff__activation, ring));
    __builtin_prefetch(collector->work.next);
    if (activation->flags != 0 || activation->mailbox.head != NULL) {
        stay_busy(catalog, activation, tick);
        return false;
    }
    const uint64_t due = due_tick(catalog, activation);
    const int reason = why(catalog, activation, tick, due);
    if (reason == STAYS) {
        enter_at(catalog, activation, due);
        return false;
    }
    if (collector->walk == TEFF__WALK_SHED && --collector->shed == 0)
        collector->walk = TEFF__WALK_NONE;
    teff__activation_ask(catalog, activation, reason);
    return true;
}

/* --- What to look at next ------------------------------------------------------------------ */

/* Takes up the next part of the walk; ends it where none is left. */
static void walk_on(teff__collector *collector)
{
    teff__bucket bucket;
    switch (collector->stage) {
    case STAGE_BUCKETS:
        if (teff__wheel_find(&collector->wheel, collector->walked, &bucket)) {
            collector->walked = bucket.end;
            teff__ring_append(&collector->work, bucket.ring);
            return;
        }
        break;
    case STAGE_KEPT:
        teff__ring_append(&collector->work, &collector->kept);
        break;
    default:
        if (collector->walk == TEFF__WALK_COLLECT)
            teff__ring_append(&collector->work, &collector->lasting);
        break;
    }
    if (collector->stage < STAGE_LASTING)
        collector->stage++;
    else if (teff__ring_empty(&collector->work))
        collector->walk = TEFF__WALK_NONE;
}

static void begin_walk(teff__collector *collector, teff__collect_walk walk)
{
    collector->walk = (uint8_t)walk;
    collector->stage = STAGE_BUCKETS;
    collector->walked = 0;
    collector->working = true;
    set_due(collector);
}

/* False: there is nothing to be looked at. */
static bool refill(teff__catalog *catalog, uint64_t tick)
{
    teff__collector *collector = &catalog->collector;
    while (teff__ring_empty(&collector->work) && collector->walk != TEFF__WALK_NONE)
        walk_on(collector);
    if (teff__ring_empty(&collector->work))
        (void)teff__wheel_take(&collector->wheel, tick, &collector->work);
    return !teff__ring_empty(&collector->work);
}

/* --- Slices -------------------------------------------------------------------------------- */

static void slice(teff__catalog *catalog, bool alone)
{
    teff__collector *collector = &catalog->collector;
    teff__worker *worker = &catalog->worker;
    const uint64_t tick = (uint64_t)(worker->now_ns / collector->quantum_ns);
    const int64_t began_ns = teff__clock_now_ns(worker->clock);
    int asked = 0;
    collector->working = true;
    for (int looked = 1; asked < ASKED_MAX; looked++) {
        if (!refill(catalog, tick)) {
            collector->working = false;
            break;
        }
        asked += look_at(catalog, teff__container_of(collector->work.next, teff__activation, ring),
                         tick);
        if (looked == LOOKED_MAX || !teff__inbox_empty(&worker->inbox))
            break;
        if (looked % LOOKED_AT_ONCE == 0 &&
            (!alone || teff__clock_now_ns(worker->clock) - began_ns >= SLICE_NS))
            break;
    }
    const int64_t now_ns = teff__clock_now_ns(worker->clock), took_ns = now_ns - began_ns;
    if (took_ns > 0) /* a clock that stands still would let it rest for ever */
        collector->rest_ns = now_ns + REST * (took_ns + (int64_t)asked * ASKED_NS);
    find_bucket(collector);
    set_due(collector);
}

static void shed(teff__catalog *catalog)
{
    teff__collector *collector = &catalog->collector;
    collector->shed_ns = teff__time_add(catalog->worker.now_ns, catalog->grains->shed_period_ns);
    if (collector->walk != TEFF__WALK_NONE)
        return; /* another time: some go already */
    collector->shed = teff__shed_look(catalog);
    if (collector->shed > 0)
        begin_walk(collector, TEFF__WALK_SHED);
}

static void collect(teff__catalog *catalog)
{
    teff__collector *collector = &catalog->collector;
    const teff__worker *worker = &catalog->worker;
    const bool alone = worker->run_queue.head == NULL;
    if (catalog->phase != TEFF__STOP_NONE)
        return;
    if (worker->now_ns >= collector->shed_ns)
        shed(catalog);
    if (alone || worker->now_ns >= collector->rest_ns)
        slice(catalog, alone);
}

void teff__collect_pass(teff__catalog *catalog)
{
    if (TEFF__UNLIKELY(catalog->worker.now_ns >= catalog->collector.due_ns))
        collect(catalog);
}

int64_t teff__collect_due_ns(teff__catalog *catalog)
{
    teff__collector *collector = &catalog->collector;
    if (catalog->phase != TEFF__STOP_NONE)
        return INT64_MAX;
    if (collector->working)
        return catalog->worker.now_ns;
    find_bucket(collector); /* what stood in the one that was next may have gone */
    set_due(collector);
    int64_t due_ns = collector->bucket_ns;
    if (catalog->activations.count > 0 && collector->shed_ns < due_ns)
        due_ns = collector->shed_ns;
    return due_ns;
}

/* --- By order ------------------------------------------------------------------------------ */

void teff__collect_post(teff__grains *grains, int64_t idle_ns)
{
    teff__exchange *exchange = grains->exchange;
    for (uint32_t i = 0; i < exchange->workers_count; i++) {
        teff__collector *collector = &grains->catalogs[i]->collector;
        /* One that is under way may ask for more than this. If it has just come, no harm is done. */
        int64_t asked_ns = idle_ns;
        if (teff__atomic_u32_load_relaxed(&collector->is_posted) != 0 &&
            teff__atomic_i64_load_relaxed(&collector->asked_ns) < idle_ns)
            asked_ns = teff__atomic_i64_load_relaxed(&collector->asked_ns);
        teff__atomic_i64_store_seq_cst(&collector->asked_ns, asked_ns);       /* mine … */
        if (teff__atomic_u32_exchange_seq_cst(&collector->is_posted, 1) == 0) /* … then yours */
            teff__exchange_post(exchange, i, &collector->message);
    }
}

void teff__collect_told(teff__catalog *catalog)
{
    teff__collector *collector = &catalog->collector;
    teff__atomic_u32_store_seq_cst(&collector->is_posted, 0);                    /* mine … */
    const int64_t idle_ns = teff__atomic_i64_load_seq_cst(&collector->asked_ns); /* … then yours */
    /* A walk that is not over begins anew, for the sake of both. */
    if (collector->walk != TEFF__WALK_COLLECT || idle_ns < collector->idle_ns)
        collector->idle_ns = idle_ns;
    begin_walk(collector, TEFF__WALK_COLLECT);
}
