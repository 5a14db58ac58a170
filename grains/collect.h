/* SPDX-License-Identifier: MIT */
/*
 * The collector: which of a worker's activations are idle for so long that they go.
 *
 * A call marks its activation with the pass's coarse time, and that is all it pays. A valid
 * activation stands in a bucket of a timing wheel, by when it might be old enough. When that comes
 * it is looked at: it goes, or it was used meanwhile and stands in a later bucket. So what is spent
 * is in proportion to what goes and to what is used, not to what is there.
 *
 *   wheel     those that will be old enough one day; its ticks are the silo's idle_quantum_ns
 *   kept      those that a turn wants kept for good
 *   lasting   those whose types are never idle
 *   work      those that are being looked at, a slice of them once a pass
 *
 * teff_silo_collect and memory that is short make it walk over the buckets before they are due, in
 * order of time: the first over all of the above, the second until enough have gone, over what may
 * be idle at all.
 *
 * One that is asked to go stands in none of them. It goes with its next run, unless that finds
 * mail: then it is not idle any more, and enters again. So does one that had a suspended turn when
 * it was looked at, once that has ended; nobody wakes up for it before, and a silo whose turns all
 * wait for ever is at rest.
 *
 * Threads: the worker's, but for teff__collect_post.
 */
#ifndef TEFF_GRAINS_COLLECT_H
#define TEFF_GRAINS_COLLECT_H

#include "grains/activation.h"
#include "messaging/exchange.h"
#include "runtime/wheel.h"

typedef struct teff__catalog teff__catalog;
typedef struct teff__grains teff__grains;

/* For what the collector walks over buckets that are not due. */
typedef enum teff__collect_walk {
    TEFF__WALK_NONE,
    TEFF__WALK_COLLECT, /* teff_silo_collect */
    TEFF__WALK_SHED     /* memory is short */
} teff__collect_walk;

typedef struct teff__collector {
    int64_t due_ns;             /* nothing is to be done before */
    int64_t bucket_ns, shed_ns; /* of the next bucket; of a look at memory */
    int64_t rest_ns;            /* where others have work, no slice before */
    bool working;               /* a slice is due */
    uint8_t walk;               /* teff__collect_walk */
    uint8_t stage;              /* of the walk: buckets, and what stands in none */
    uint64_t walked;            /* all buckets before this tick */
    int64_t idle_ns;            /* how idle is idle enough for the walk */
    uint64_t shed;              /* so many more are to go */
    int64_t quantum_ns;
    uint64_t origin; /* the tick that activations' `keep` counts from */
    teff__ring work, kept, lasting;
    teff__message message;      /* teff_silo_collect's */
    teff__atomic_i64 asked_ns;  /* what it says. Whoever posts it, under the silo's lock; worker */
    teff__atomic_u32 is_posted; /* 1: it is under way. Who posts it; the worker */
    teff__wheel wheel;
} teff__collector;

TEFF__INTERNAL void teff__collector_init(teff__catalog *catalog);

/* An activation became valid, or is not idle any more; it goes, for whatever reason. */
TEFF__INTERNAL void teff__collect_enter(teff__catalog *catalog, teff__activation *activation);
TEFF__INTERNAL void teff__collect_leave(teff__catalog *catalog, teff__activation *activation);

/* Once a pass. */
TEFF__INTERNAL void teff__collect_pass(teff__catalog *catalog);

/* When it has something to do at the latest; INT64_MAX: nothing. */
TEFF__INTERNAL int64_t teff__collect_due_ns(teff__catalog *catalog);

/* See teff_turn_delay_deactivation. */
TEFF__INTERNAL void teff__collect_delay(teff__catalog *catalog, teff__activation *activation,
                                        int64_t duration_ns);

/*
 * Has every worker collect what is idle for so long. Any thread, with the silo's lock held; the
 * silo is active.
 */
TEFF__INTERNAL void teff__collect_post(teff__grains *grains, int64_t idle_ns);

/* A worker has been told. */
TEFF__INTERNAL void teff__collect_told(teff__catalog *catalog);

/*
 * In which tick something is old enough that was used at used_ns: rounded up to the quantum, then
 * to the type's own (0: it has none). TEFF__WHEEL_NEVER: never.
 */
TEFF__INTERNAL uint64_t teff__collect_tick(int64_t used_ns, int64_t age_ns, int64_t quantum_ns,
                                           int64_t type_quantum_ns);

/* Whether the reason is that the activation was idle: then mail takes it back. */
static inline bool teff__collect_is_reason(int reason)
{
    return reason >= TEFF_DEACTIVATED_IDLE && reason <= TEFF_DEACTIVATED_COLLECT;
}

#endif
