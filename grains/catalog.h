/* SPDX-License-Identifier: MIT */
/*
 * The catalog: one worker's part of a silo, with the activations that it owns, its stripes of the
 * callback registry, its messages, and its routes to grains elsewhere.
 *
 * Everything that a worker does with a message begins here: mail from the inbox is delivered,
 * requests find their activation or the way to it, answers settle the callback that waits for them.
 *
 * Threads: its worker's, but for teff__grains, which is fixed once the silo has started.
 */
#ifndef TEFF_GRAINS_CATALOG_H
#define TEFF_GRAINS_CATALOG_H

#include "directory/locator.h"
#include "directory/route.h"
#include "grains/activation.h"
#include "grains/collect.h"
#include "grains/inspect.h"
#include "grains/key.h"
#include "grains/shed.h"
#include "messaging/caller.h"
#include "messaging/exchange.h"

#include "teff/inspect.h"

/* What stop asks of a worker, one after the other; see grains/stop.h. */
typedef enum teff__stop_phase {
    TEFF__STOP_NONE,
    TEFF__STOP_DRAIN,
    TEFF__STOP_DEACTIVATE,
    TEFF__STOP_SETTLE
} teff__stop_phase;

/* The crews of stateless workers; see grains/stateless.h. */
enum { TEFF__CREWS_SHARDS = 16 };
typedef struct teff__crews_shard {
    _Alignas(TEFF__CACHE_LINE) teff__mutex lock;
    teff__table table; /* guarded by lock */
} teff__crews_shard;
typedef struct teff__crews {
    teff__crews_shard shards[TEFF__CREWS_SHARDS];
} teff__crews;

/* What the catalogs of a silo share. */
struct teff__grains {
    teff__exchange *exchange;
    teff__types types;
    teff__directory directory; /* of this process */
    teff__locator locator;     /* who is asked where a grain is: that directory, or another */
    teff__crews crews;
    teff__hash_seed seed;
    teff__catalog **catalogs;
    uint32_t mailbox_max;
    int64_t stop_timeout_ns;
    teff__atomic_i64 stop_began_ns; /* set by stop before the first phase; workers */
    teff__atomic_u32 next_worker;   /* for tasks that name none */
    int64_t long_call_ns;           /* how old a call is that is long */
    void (*long_call)(void *user, const teff_long_call *call);
    void (*notice)(void *user, const teff_notice *notice);
    int (*worker_start)(void *user, uint32_t worker, void **ret_context);
    void (*worker_stop)(void *user, void *context);
    void *user;
    uint32_t mailbox_warn;
    teff_placement placement; /* of types that say nothing */
    int64_t idle_ns, idle_quantum_ns;
    int64_t activate_timeout_ns, deactivate_timeout_ns, stuck_ns;
    uint64_t activations_max;
    teff__atomic_u64 activations; /* with activations_max: how many places are taken. Workers */
    uint32_t routes_max;          /* of each worker; 0: none are kept */
    int64_t routes_ttl_ns;        /* INT64_MAX: for ever */
    uint32_t shed_at_percent, shed_to_percent;
    int64_t shed_period_ns;
    teff__memory_use (*memory_use)(const teff__grains *grains); /* see grains/shed.h */
    /*
     * What a worker tells the silo: that it began, or could not; did what the phase of stop asked;
     * ended.
     */
    void (*worker_begun)(teff_silo *silo, int result);
    void (*phase_done)(teff_silo *silo);
    void (*worker_ended)(teff_silo *silo, bool begun);
    teff__inspection inspection;
};

/*
 * Notices that wait for the next pass: a turn's stack is not for functions of the program's that know
 * nothing of it.
 */
enum {
    TEFF__NOTICES_MAX = 96,        /* a pass has 64 items, and each gives one at most … */
    TEFF__NOTICES_MAILBOX_MAX = 32 /* … but for what it sends: that may be told later */
};

typedef struct teff__notices {
    uint32_t count;
    struct {
        teff_notice_kind kind;
        uint64_t count;
        teff_ref grain;
    } waiting[TEFF__NOTICES_MAX];
} teff__notices;

struct teff__catalog {
    teff__worker worker; /* first */
    teff__grains *grains;
    teff__exchange *exchange;
    teff__stripe *stripe; /* the one that opens; of those owned: */
    teff__stripe *stripes;
    uint32_t stripes_count, stripes_used;
    teff__call_defaults defaults; /* its copy: see messaging/deadline.h */
    int64_t doubt_ns;             /* `moved_ns`, and now at least: renewed once a pass */
    int64_t moved_ns;             /* requests of deadlines up to here are looked at more closely */
    uint64_t tag;                 /* of the addresses of its activations */
    uint32_t coarse;              /* the pass's time as grains are marked with; see coarse_of */
    uint32_t mailbox_look;        /* from so many on a mailbox is looked at: see grains/limit.h */
    teff__slotmap activations;
    teff__slabs slabs[TEFF__ACTIVATION_SLABS]; /* the memory of these, by size */
    teff__collector collector;
    teff__ring abandoned; /* activations; see grains/abandon.h … */
    uint32_t abandoned_count;
    teff__atomic_u64 made;         /* activations, ever. Statistics: the worker; anybody */
    teff__atomic_u32 routes_count; /* as of the last pass */
    teff__atomic_u64 gone[TEFF_DEACTIVATED_REASONS]; /* of those, by reason */
    teff__routes routes;
    const void *type;        /* a teff__type: of the last grain that was looked for by its id */
    uint64_t outgoing_dirty; /* bit k: outgoing[k] has messages */
    teff__outgoing *outgoing;
    uint32_t suspended; /* turns and tasks that wait */
    uint32_t walks;     /* numbers them; see grains/waiting.h */
    bool begun;         /* worker_start, if any, succeeded */
    bool gate_closed;   /* stop: no new calls */
    bool phase_acknowledged;
    teff__stop_phase phase;
    int64_t sweep_after_ns; /* no sweep before */
    int64_t look_ns;        /* no look for long calls before; see grains/long_call.h … */
    int64_t long_ns;        /* … nor does one owe a wake-up before, where nothing has happened */
    teff__ring statuses;    /* of its calls that take long; see messaging/status.h */
    teff__ring sleepers;    /* teff_sleep's, of turns and tasks */
    teff__ring tasks;       /* that have begun and not ended */
    teff__ring blocks;      /* what turns have allocated and hold */
    teff__ring completions; /* that have not run */
    void *context;          /* from worker_start */
    teff__outgoing answers; /* for one client on a loop, to be posted with the pass … */
    teff__stripe *answers_to; /* … as mail of this stripe */
    teff__postbox postbox;
    /* one for each phase of stop; the first: the silo's response timeout has changed */
    teff__message control[TEFF__STOP_SETTLE + 1];
    teff__atomic_u32 timeout_posted; /* 1: control[0] is under way. Who posts it; the worker */
    teff__inspected inspected;
    const char *refused; /* why the last request was, with TEFF_EOVERLOADED: constant text */
    teff__notices notices;
    teff__table shifts; /* of stateless workers: this worker's members, by grain */
};

_Static_assert(offsetof(teff__catalog, worker) == 0, "a worker is its catalog");

static inline teff__catalog *teff__catalog_of(teff__worker *worker)
{
    return (teff__catalog *)(void *)worker;
}

/* Of a silo; in runtime/silo.c, which builds it. */
TEFF__INTERNAL teff__grains *teff__silo_grains(teff_silo *silo);

extern TEFF__INTERNAL const teff__worker_ops teff__catalog_ops;

/* In zeroed memory, cache-line aligned. What fails is undone. */
TEFF__INTERNAL int teff__catalog_init(teff__catalog *catalog, teff__grains *grains,
                                      const teff__worker_options *options);
/*
 * Drops what is left when the worker's thread has ended: mail, activations without a hook, what
 * dropped turns and tasks held. All catalogs drain before the first one finishes, since they hold
 * each other's messages. May be done again: sources that fire later still post to the inbox.
 */
TEFF__INTERNAL void teff__catalog_drain(teff__catalog *catalog);
TEFF__INTERNAL void teff__catalog_finish(teff__catalog *catalog);

/* Adds this worker's activations and routes to what is counted already. Any thread. */
TEFF__INTERNAL void teff__catalog_count_grains(const teff__catalog *catalog,
                                               teff_grain_counts *ret);

/* Posts what was collected for other workers, and for clients. */
TEFF__INTERNAL void teff__catalog_post_all(teff__catalog *catalog);
TEFF__INTERNAL void teff__catalog_post(teff__catalog *catalog, uint32_t worker,
                                       teff__message *message);

/*
 * Goes on to another stripe of the worker's, where one is left with room. TEFF_EOVERLOADED,
 * TEFF_ENOMEM.
 */
TEFF__INTERNAL int teff__catalog_take_callback_slow(teff__catalog *catalog, int status,
                                                    teff__callback **ret);

/* A callback to open in catalog->stripe. */
static inline int teff__catalog_take_callback(teff__catalog *catalog, teff__callback **ret)
{
    int status = 0;
    *ret = teff__stripe_take(catalog->stripe, &status);
    return TEFF__LIKELY(*ret != NULL) ? 0 : teff__catalog_take_callback_slow(catalog, status, ret);
}

/* Who waits for an awaited call, or for futures: stands in the suspended frame. */
typedef struct teff__await {
    /* its `answer`: an awaited call's message, or NULL, and `code` says how it ended */
    teff__waiter waiter;
    union {
        int code;
        int remaining; /* for futures: so many more are to be settled */
    };
    uint32_t seen; /* for futures: by which walk; see grains/waiting.h */
    teff_caller *caller;
} teff__await;

/* One with a detail; or no open callback (NULL): the answer is late. */
TEFF__INTERNAL void teff__catalog_settle_slow(teff__catalog *catalog, teff__stripe *stripe,
                                              teff__callback *callback, teff__message *answer,
                                              int code);
TEFF__INTERNAL void teff__catalog_respond_elsewhere(teff__catalog *catalog, teff__stripe *stripe,
                                                    teff__message *message);

/*
 * Ends a callback of this worker with an answer, which it takes, or with a code. For answers that
 * are no failure; teff__catalog_end counts the others.
 */
TEFF__HOT_INLINE void teff__catalog_settle_in(teff__catalog *catalog, teff__stripe *stripe,
                                              uint64_t id, teff__message *answer, int code)
{
    bool detailed;
    teff__callback *callback = teff__stripe_settle(stripe, id, &detailed);
    if (TEFF__UNLIKELY(callback == NULL || detailed)) {
        teff__catalog_settle_slow(catalog, stripe, callback, answer, code);
        return;
    }
    teff__await *await = callback->value;
    await->waiter.answer = answer;
    await->code = code;
    teff__worker_ready(&catalog->worker, &await->waiter);
}

/* Ends a callback of this worker in whatever way, and counts how. */
TEFF__INTERNAL void teff__catalog_end(teff__catalog *catalog, uint64_t id, teff__message *answer,
                                      int code);

/* Sends a response, a failure perhaps, to whoever waits for it; takes the message. */
TEFF__INTERNAL void teff__catalog_respond(teff__catalog *catalog, teff__message *message);

/* Answers a request that never got a turn; takes the message. `text` NULL: the status' own. */
TEFF__INTERNAL void teff__catalog_reject(teff__catalog *catalog, teff__message *message, int code,
                                         const char *text);

/* A request of this worker's has found out which grain it is for. */
static inline void teff__catalog_set_target(teff__catalog *catalog, const teff__message *message,
                                            uint64_t hash)
{
    const uint64_t id = message->correlation;
    if (id != 0)
        teff__stripe_set_target(teff__registry_stripe(&catalog->exchange->registry, id), id, hash);
}

/*
 * Sends a request on its way: delivers it, or posts it to the worker whose grain it is. Takes the
 * message unless it fails. Stores the route in *to. TEFF_EINVAL, TEFF_ENOMEM, TEFF_EOVERLOADED,
 * TEFF_ELIMIT.
 */
TEFF__INTERNAL int teff__catalog_send_slow(teff__catalog *catalog, teff_ref *to,
                                           teff__message *message);

/* A mailbox holds so much that it is to be looked at before more goes in. TEFF_EOVERLOADED. */
TEFF__INTERNAL int teff__limit_mailbox(teff__catalog *catalog, teff__activation *activation);

/*
 * Puts a request into the mailbox. TEFF_EOVERLOADED where that is full; the message is then still
 * the caller's.
 */
TEFF__HOT_INLINE int teff__catalog_deliver(teff__catalog *catalog, teff__activation *activation,
                                           teff__message *message)
{
    if (TEFF__UNLIKELY(activation->mail_count >= catalog->mailbox_look) &&
        teff__limit_mailbox(catalog, activation) != 0)
        return TEFF_EOVERLOADED;
    teff__queue_push(&activation->mailbox, &message->link);
    activation->mail_count++;
    if (activation->flags == 0) {
        activation->flags = TEFF__ACTIVATION_SCHEDULED;
        teff__worker_push(&catalog->worker, &activation->item);
    }
    return 0;
}

/* This worker's activation of that address; NULL: it is another's, or gone. */
TEFF__HOT_INLINE teff__activation *teff__catalog_own(const teff__catalog *catalog, uint64_t address)
{
    return TEFF__LIKELY(teff__address_tag_of(address) == catalog->tag)
               ? teff__slotmap_get(&catalog->activations, teff__address_slot(address),
                                   teff__address_generation(address))
               : NULL;
}

/* The address is of an activation of this worker that is gone, or was never made. */
static inline bool teff__catalog_is_dead(const teff__catalog *catalog, uint64_t address)
{
    return teff__address_tag_of(address) == catalog->tag &&
           teff__catalog_own(catalog, address) == NULL;
}

/*
 * The activation that a reference's hint names, if it is this worker's and really the reference's
 * grain.
 */
TEFF__HOT_INLINE teff__activation *teff__catalog_hinted(const teff__catalog *catalog,
                                                        const teff_ref *to)
{
    teff__activation *activation = teff__catalog_own(catalog, to->route);
    if (TEFF__UNLIKELY(activation == NULL || !teff__key_equal(&activation->record.key, &to->key) ||
                       to->type == NULL || !teff__type_is(activation->type, to->type)))
        return NULL;
    return activation;
}

/* Suspends the running turn or task after a successful teff__worker_reserve. */
static inline void teff__catalog_suspend(teff__catalog *catalog, teff__waiter *waiter)
{
    catalog->suspended++;
    teff__worker_suspend(&catalog->worker, waiter);
    catalog->suspended--;
}

#endif
