/* SPDX-License-Identifier: MIT */
/*
 * The callback registry: every call that waits for an answer, in a slot of a stripe.
 *
 * A stripe belongs to one owner: a worker (which owns several) or a client. Only the owner opens
 * callbacks and frees their slots. The callbacks of a worker, and of a client on a loop, are settled
 * by their owner alone, whatever brings the end: one thread sees response, timeout, cancellation and
 * stop of a call. Those of a blocking client are settled by whoever comes first, with one
 * compare-and-swap to *claimed*; the winner hands the slot to the client through the stripe's done
 * list, and every loser is silent.
 *
 *     free ─► open ─► free                a worker's awaited call
 *              ├────► settled ─► free     a future, until it is claimed; or one with a detail
 *              └────► claimed ─► settled ─► free     a client's, claimed by the winner
 *
 * The correlation id names stripe, slot (24 bits together) and generation (40 bits: 18 hours of one
 * slot at 60 ns), so finding a callback is an index, and a late or forged id fails one comparison.
 * A slot whose generation is exhausted is retired.
 *
 * What walks look at (deadlines, when a call was opened, which grain it is for) lies in columns, one
 * array each, so that a walk reads 8 bytes a slot. A deadline of INT64_MAX: nothing is open there.
 *
 * The gate of a blocking client's stripe. The client publishes the slot and then looks at the gate; stop
 * closes the gate and then reads the slots. Both sides "set mine, then look at yours": all four
 * accesses, and those of `made`, are seq_cst. Acquire and release would let both miss each other. A
 * worker's gate is a plain flag of its own.
 *
 * What only some calls need (futures, completions, cancellable ones) stands in the slot's detail,
 * in an array of its own beside the slots that a stripe has from its first such call on. So an
 * awaited call's slot is half a cache line.
 *
 * Threads:
 *   open, retract, free, take_done, detail     the owner
 *   settle                                     the owner, of a worker's stripe
 *   claim                                      any thread, of a client's stripe
 *   close_gate, wake                           any thread
 */
#ifndef TEFF_MESSAGING_REGISTRY_H
#define TEFF_MESSAGING_REGISTRY_H

#include "runtime/inbox.h"
#include "runtime/memory.h"

#include "teff/call.h"
#include "teff/inspect.h"

#include <stddef.h>

/* How many stripes there are, as a power of two. The benchmark's sweep compiles others. */
#ifndef TEFF__STRIPE_BITS
#define TEFF__STRIPE_BITS 7
#endif

enum {
    /* workers share the first half, clients have one each of the second */
    TEFF__STRIPES = 1 << TEFF__STRIPE_BITS,
    TEFF__STRIPES_WORKERS = TEFF__STRIPES / 2,
    TEFF__CALLBACK_BITS = 24 - TEFF__STRIPE_BITS, /* of the slot within its stripe */
    TEFF__CALLBACKS_MAX = 1 << TEFF__CALLBACK_BITS,
    TEFF__GENERATION_SHIFT = 24
};
#define TEFF__GENERATION_MAX ((UINT64_C(1) << 40) - 1)

typedef enum teff__callback_state {
    TEFF__CALLBACK_FREE,
    TEFF__CALLBACK_OPEN,
    TEFF__CALLBACK_CLAIMED,
    TEFF__CALLBACK_SETTLED
} teff__callback_state;

enum {
    TEFF__CALLBACK_STATE = 3,      /* the state's bits in the word */
    TEFF__CALLBACK_FUTURE = 4,     /* the result stays in the slot until it is claimed */
    TEFF__CALLBACK_DEFAULT = 8,    /* has the silo's timeout: its deadline moves with that */
    TEFF__CALLBACK_THEN = 16,      /* the result goes to a completion */
    TEFF__CALLBACK_CANCEL = 32,    /* stands in the list of a source of cancellation */
    TEFF__CALLBACK_DETACHED = 128, /* the end of its caller's turn is not its own */
    TEFF__CALLBACK_FLAGS = TEFF__CALLBACK_FUTURE | TEFF__CALLBACK_DEFAULT | TEFF__CALLBACK_THEN |
                           TEFF__CALLBACK_CANCEL | TEFF__CALLBACK_DETACHED,
    /* with any of these the slot has a detail */
    TEFF__CALLBACK_DETAILED = TEFF__CALLBACK_FUTURE | TEFF__CALLBACK_THEN | TEFF__CALLBACK_CANCEL,
    TEFF__CALLBACK_SHIFT = 8 /* of the generation in the word */
};

/* Whether calls may be opened in a client's stripe, or be answered at all. */
typedef enum teff__gate { TEFF__GATE_OPEN, TEFF__GATE_CLOSED, TEFF__GATE_ENDED } teff__gate;

typedef struct teff__callback {
    teff__atomic_u64 word; /* generation, flags, state: owner; claimers of a client's */
    /* open: who waits, or NULL; claimed and settled: the answer, or NULL. Owner; the claimer */
    void *value;
    uint32_t next; /* free: the next free slot + 1. Owner */
    uint32_t done; /* a client's, claimed: the next one of the done list + 1. The claimer */
    /* claimed and settled: how it ended, where there is no answer. Owner; the claimer */
    int32_t code;
} teff__callback;

_Static_assert(sizeof(teff__callback) == 32, "two callbacks share a cache line");

/* Lists of slots are linked by the low 24 bits of their ids, plus one. Owner only. */
typedef struct teff__callback_detail {
    union {
        teff_caller *caller;                 /* a future: whose it is */
        struct teff__completion *completion; /* of a call that has one */
    };
    const teff_method *method;          /* a call's; NULL: a task's future */
    uint32_t next, previous;            /* a future: its caller's other ones */
    struct teff__cancel_branch *branch; /* a cancellable call: its source's part for this owner */
    uint32_t branch_next, branch_previous;
} teff__callback_detail;

/*
 * By slot. The owner writes; anybody may read, and finds out by the slot's word whether it was still
 * that call's. The gaps keep the three words of one slot out of one set of the first-level cache.
 */
typedef struct teff__callback_columns {
    teff__atomic_i64 deadline_ns[TEFF__CALLBACKS_MAX]; /* INT64_MAX: nothing is open */
    char gap_1[5 * TEFF__CACHE_LINE];
    teff__atomic_i64 opened_ns[TEFF__CALLBACKS_MAX];
    char gap_2[5 * TEFF__CACHE_LINE];
    teff__atomic_u64 target[TEFF__CALLBACKS_MAX]; /* the grain's hash; 0: none, or not known yet */
} teff__callback_columns;

/* The deadline of what is open and has none: a task's future. */
#define TEFF__DEADLINE_NEVER (INT64_MAX - 1)

typedef struct teff__registry teff__registry;

typedef struct teff__stripe {
    /* The line that claimers read: changes when the stripe grows or its client does. */
    _Alignas(TEFF__CACHE_LINE) teff__callback *callbacks;
    teff__callback_columns *columns;
    teff__callback_detail *details; /* NULL until one is needed; owner */
    uint64_t generation_max;
    teff__registry *registry;
    uint32_t base;         /* the stripe's bits in an id */
    uint32_t worker;       /* the worker that owns it, or TEFF__NO_WORKER; fixed */
    teff__atomic_u32 made; /* slots that exist: owner; whoever sweeps */
    /* 1: a client is there to read its mail; client; senders */
    teff__atomic_u32 reads_mail;
    /* how its client is woken: 0 by the word `sleeping`, else by this eventfd, plus 1; client */
    teff__atomic_u32 wake_by;

    /* The owner's line: opening and settling. Anybody may read `opened` and `closed`. */
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u64 opened;
    teff__atomic_u64 closed; /* a client's: received, not only claimed */
    int64_t low_ns;          /* no open deadline is below; owner */
    uint32_t free;           /* the first free slot + 1, or 0; owner */
    teff__atomic_u32 gate;   /* a client's: teff__gate; stop; owner */
    void *owner; /* a client's stripe: the client; NULL: nobody's. Guarded by the silo's lock */
    int wake_fd; /* of clients on a loop, once there was one; else -1. Guarded by the silo's lock */
    uint32_t walks; /* statistic: how often its deadlines were looked through; owner */

    /* claimed slots for the client, a stack; claimers; owner */
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u32 done;
    /* the word that a client sleeps on; owner; claimers */
    teff__atomic_u32 sleeping;
    teff__inbox mail; /* a client's: requests to its observers, and fired sources */
} teff__stripe;

_Static_assert(sizeof(teff__stripe) == 4 * TEFF__CACHE_LINE, "finding a stripe is a shift");

#define TEFF__NO_WORKER UINT32_MAX

/* How calls ended that did not end well, by teff_end. The stripe's owner writes; anybody may read. */
typedef struct teff__stripe_ends {
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u64 of[TEFF_ENDS];
} teff__stripe_ends;

struct teff__registry {
    teff__stripe *stripes;
    teff__stripe_ends *ends; /* by stripe */
    teff__memory *memory;
    /* bit k: stripe k has made a slot, so that counting leaves out the others. Owners; anybody */
    teff__atomic_u64 used[(TEFF__STRIPES + 63) / 64];
    teff__atomic_u64 late;      /* answers to calls that had ended. Anybody */
    teff__atomic_u64 unknown;   /* answers to calls that never were. Anybody */
    teff__atomic_u64 unclaimed; /* futures that their callers left. Anybody */
};

TEFF__INTERNAL int teff__registry_init(teff__registry *registry, teff__memory *memory,
                                       uint32_t workers);
TEFF__INTERNAL void teff__registry_finish(teff__registry *registry);

static inline teff__stripe *teff__registry_stripe(const teff__registry *registry, uint64_t id)
{
    return &registry->stripes[(id >> TEFF__CALLBACK_BITS) & (TEFF__STRIPES - 1)];
}

static inline teff__callback *teff__stripe_at(const teff__stripe *stripe, uint64_t id)
{
    return &stripe->callbacks[id & (TEFF__CALLBACKS_MAX - 1)];
}

static inline uint32_t teff__stripe_index(const teff__stripe *stripe,
                                          const teff__callback *callback)
{
    return (uint32_t)(callback - stripe->callbacks);
}

/* Makes room for details, once. TEFF_ENOMEM. */
TEFF__INTERNAL int teff__stripe_add_details(teff__stripe *stripe);

static inline int teff__stripe_need_details(teff__stripe *stripe)
{
    return TEFF__LIKELY(stripe->details != NULL) ? 0 : teff__stripe_add_details(stripe);
}

static inline teff__callback_detail *teff__stripe_detail(const teff__stripe *stripe, uint64_t id)
{
    return &stripe->details[id & (TEFF__CALLBACKS_MAX - 1)];
}

/* The detail that a list's link names. */
static inline teff__callback_detail *teff__registry_linked(const teff__registry *registry,
                                                           uint32_t link)
{
    return teff__stripe_detail(teff__registry_stripe(registry, link - 1), link - 1);
}

/* How lists name that callback; never 0. */
static inline uint32_t teff__callback_link(uint64_t id)
{
    return ((uint32_t)id & ((1U << TEFF__GENERATION_SHIFT) - 1)) + 1;
}

/* A slot that never was, or NULL: TEFF_ENOMEM, or TEFF_EOVERLOADED when the stripe is full. */
TEFF__INTERNAL teff__callback *teff__stripe_grow(teff__stripe *stripe, int *ret_status);

/* A free slot; it stays free for everybody else until it is published. */
static inline teff__callback *teff__stripe_take(teff__stripe *stripe, int *ret_status)
{
    if (TEFF__UNLIKELY(stripe->free == 0))
        return teff__stripe_grow(stripe, ret_status);
    teff__callback *callback = &stripe->callbacks[stripe->free - 1];
    stripe->free = callback->next;
    return callback;
}

/* When a call was opened, and when it is to end. */
typedef struct teff__callback_terms {
    int64_t opened_ns, deadline_ns;
} teff__callback_terms;

/* What both kinds of publication share: all but the word. Returns the next generation. */
static inline uint64_t teff__stripe_prepare(teff__stripe *stripe, teff__callback *callback,
                                            uint32_t slot, void *waiter,
                                            const teff__callback_terms *terms)
{
    teff__callback_columns *columns = stripe->columns;
    const int64_t deadline_ns = terms->deadline_ns;
    callback->value = waiter;
    teff__atomic_i64_store_relaxed(&columns->deadline_ns[slot], deadline_ns);
    teff__atomic_i64_store_relaxed(&columns->opened_ns[slot], terms->opened_ns);
    teff__atomic_u64_store_relaxed(&columns->target[slot], 0);
    if (deadline_ns < stripe->low_ns)
        stripe->low_ns = deadline_ns;
    teff__atomic_u64_increment_owner(&stripe->opened);
    return (teff__atomic_u64_load_relaxed(&callback->word) >> TEFF__CALLBACK_SHIFT) + 1;
}

static inline uint64_t teff__stripe_id(const teff__stripe *stripe, uint32_t slot,
                                       uint64_t generation)
{
    return generation << TEFF__GENERATION_SHIFT | stripe->base | slot;
}

/* The id of the callback that is open in that slot. */
static inline uint64_t teff__stripe_open_id(const teff__stripe *stripe, uint32_t slot)
{
    const teff__callback *callback = &stripe->callbacks[slot];
    return teff__stripe_id(stripe, slot,
                           teff__atomic_u64_load_relaxed(&callback->word) >> TEFF__CALLBACK_SHIFT);
}

/* Opens a callback of a worker's stripe in a slot that was taken. Returns its id. */
static inline uint64_t teff__stripe_open(teff__stripe *stripe, teff__callback *callback,
                                         void *waiter, const teff__callback_terms *terms,
                                         uint32_t flags)
{
    const uint32_t slot = teff__stripe_index(stripe, callback);
    const uint64_t generation = teff__stripe_prepare(stripe, callback, slot, waiter, terms);
    teff__atomic_u64_store_relaxed(&callback->word, generation << TEFF__CALLBACK_SHIFT | flags |
                                                        TEFF__CALLBACK_OPEN);
    return teff__stripe_id(stripe, slot, generation);
}

/*
 * The same for a client's stripe. False: the gate is closed; the callback is open all the same, for
 * its opener to retract unless a sweep claimed it.
 */
TEFF__INTERNAL bool teff__stripe_open_shared(teff__stripe *stripe, teff__callback *callback,
                                             const teff__callback_terms *terms, uint32_t flags,
                                             uint64_t *ret_id);

/* The owner has found out which grain an open callback is for. */
static inline void teff__stripe_set_target(teff__stripe *stripe, uint64_t id, uint64_t target)
{
    teff__atomic_u64_store_relaxed(&stripe->columns->target[id & (TEFF__CALLBACKS_MAX - 1)],
                                   target);
}

static inline uint64_t teff__stripe_target(const teff__stripe *stripe, uint64_t id)
{
    return teff__atomic_u64_load_relaxed(&stripe->columns->target[id & (TEFF__CALLBACKS_MAX - 1)]);
}

/*
 * Takes back what was opened in a client's stripe and never sent: the slot is free again. False:
 * somebody has claimed it, and it is handed over like any other.
 */
TEFF__INTERNAL bool teff__stripe_retract(teff__stripe *stripe, uint64_t id);

/* Notes how a call ended that did not end well. The owner. */
static inline void teff__stripe_count_end(teff__stripe *stripe, teff_end end)
{
    if (end == TEFF_END_RESPONSE)
        return;
    const teff__registry *registry = stripe->registry;
    teff__atomic_u64_increment_owner(&registry->ends[stripe - registry->stripes].of[end]);
}

/* Counts a call that was refused before it was opened, for a reason that is an end. The owner. */
TEFF__INTERNAL void teff__stripe_count_unsent(teff__stripe *stripe, teff_end end);

/* The word of an open callback of that id, whatever its flags. */
static inline bool teff__callback_is_open(uint64_t word, uint64_t id)
{
    return (word & ~(uint64_t)TEFF__CALLBACK_FLAGS) ==
           ((id >> TEFF__GENERATION_SHIFT) << TEFF__CALLBACK_SHIFT | TEFF__CALLBACK_OPEN);
}

static inline teff__callback_state teff__callback_state_of(const teff__callback *callback)
{
    return (teff__callback_state)(teff__atomic_u64_load_relaxed(&callback->word) &
                                  TEFF__CALLBACK_STATE);
}

/* The owner moves a callback on, whatever its state was. */
static inline void teff__callback_become(teff__callback *callback, teff__callback_state state)
{
    const uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
    teff__atomic_u64_store_relaxed(&callback->word,
                                   (word & ~(uint64_t)TEFF__CALLBACK_STATE) | state);
}

/* Gives back a slot of that index and word. */
static inline void teff__stripe_free_at(teff__stripe *stripe, teff__callback *callback,
                                        uint32_t slot, uint64_t word)
{
    const uint64_t generation = word >> TEFF__CALLBACK_SHIFT;
    teff__atomic_u64_store_relaxed(&callback->word,
                                   generation << TEFF__CALLBACK_SHIFT | TEFF__CALLBACK_FREE);
    if (TEFF__UNLIKELY(generation >= stripe->generation_max))
        return;
    callback->next = stripe->free;
    stripe->free = slot + 1;
}

/*
 * Gives a slot back. Its word keeps the generation, the state becomes free; an exhausted one is
 * retired.
 */
static inline void teff__stripe_free(teff__stripe *stripe, teff__callback *callback)
{
    teff__stripe_free_at(stripe, callback, teff__stripe_index(stripe, callback),
                         teff__atomic_u64_load_relaxed(&callback->word));
}

/* The owner sees that a callback has ended: its deadline is over. */
static inline void teff__stripe_received(teff__stripe *stripe, uint32_t slot)
{
    teff__atomic_i64_store_relaxed(&stripe->columns->deadline_ns[slot], INT64_MAX);
    teff__atomic_u64_increment_owner(&stripe->closed);
}

/*
 * What has become of a callback, as its word says: *free* also where the slot is another call's by
 * now, or the id was made up. Any thread; a look only, and old by the time that it is told.
 */
static inline teff__callback_state teff__stripe_look_up(const teff__stripe *stripe, uint64_t id)
{
    if (TEFF__UNLIKELY((id & (TEFF__CALLBACKS_MAX - 1)) >=
                       teff__atomic_u32_load_acquire(&stripe->made)))
        return TEFF__CALLBACK_FREE;
    const uint64_t word = teff__atomic_u64_load_acquire(&teff__stripe_at(stripe, id)->word);
    return TEFF__LIKELY(word >> TEFF__CALLBACK_SHIFT == id >> TEFF__GENERATION_SHIFT)
               ? (teff__callback_state)(word & TEFF__CALLBACK_STATE)
               : TEFF__CALLBACK_FREE;
}

/* An answer came for a call that is not open: counts it, and drops nothing. Any thread. */
TEFF__INTERNAL void teff__registry_count_late(teff__registry *registry, uint64_t id);

/*
 * Ends an open callback of a worker's stripe. One without a detail is free afterwards, its `value`
 * still naming who waited; one with a detail is *settled*, *ret_detailed says so, and the caller
 * goes on with it. NULL: not open (late, forged, ended before).
 */
static inline teff__callback *teff__stripe_settle(teff__stripe *stripe, uint64_t id,
                                                  bool *ret_detailed)
{
    const uint32_t slot = (uint32_t)id & (TEFF__CALLBACKS_MAX - 1);
    if (TEFF__UNLIKELY(slot >= teff__atomic_u32_load_relaxed(&stripe->made)))
        return NULL;
    teff__callback *callback = &stripe->callbacks[slot];
    const uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
    if (TEFF__UNLIKELY(!teff__callback_is_open(word, id)))
        return NULL;
    teff__stripe_received(stripe, slot);
    *ret_detailed = (word & TEFF__CALLBACK_DETAILED) != 0;
    if (TEFF__UNLIKELY(*ret_detailed))
        teff__callback_become(callback, TEFF__CALLBACK_SETTLED);
    else
        teff__stripe_free_at(stripe, callback, slot, word);
    return callback;
}

/*
 * Ends an open callback of a client's stripe and hands it over with its answer, or with a code.
 * False: another end won, and the answer is still the caller's to drop.
 */
TEFF__INTERNAL bool teff__stripe_claim(teff__stripe *stripe, uint64_t id, void *answer, int code);

/*
 * The owner takes what was claimed: the first slot + 1, linked by `done` in the order of claiming; 0:
 * nothing.
 */
TEFF__INTERNAL uint32_t teff__stripe_take_done(teff__stripe *stripe);

/*
 * The next open callback from *slot on whose deadline has come, which is moved behind it. 0: none;
 * then *low_ns, INT64_MAX at first, has become the earliest of the deadlines that have not.
 */
TEFF__INTERNAL uint64_t teff__stripe_next_due(const teff__stripe *stripe, int64_t now_ns,
                                              uint32_t *slot, int64_t *low_ns);

/* The next open callback from *slot on, which is moved behind it; 0: none. */
TEFF__INTERNAL uint64_t teff__stripe_next_open(const teff__stripe *stripe, uint32_t *slot);

/*
 * Wakes the client of a stripe where it sleeps, after a seq_cst store that it looks for. Any thread.
 */
TEFF__INTERNAL void teff__stripe_wake(teff__stripe *stripe);

/*
 * Closes a client's gate: whoever opens after this sees it, and whoever did not see it is seen by a
 * sweep after this. Wakes the client where it sleeps.
 */
TEFF__INTERNAL void teff__stripe_close_gate(teff__stripe *stripe);

/*
 * Ends every open callback of a client's stripe with `code`. Any thread, after the gate was closed.
 */
TEFF__INTERNAL void teff__stripe_claim_all(teff__stripe *stripe, int code);

/*
 * Nobody is left to answer: ends every open callback of a blocking client, and tells one on a loop,
 * which ends its own. Any thread, after the gate was closed.
 */
TEFF__INTERNAL void teff__stripe_end(teff__stripe *stripe, int code);

#endif
