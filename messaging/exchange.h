/* SPDX-License-Identifier: MIT */
/*
 * What the senders and receivers of one silo share: memory, clock, the callback registry, and the
 * workers' inboxes.
 *
 * Threads: fixed once the silo has started, but for what the parts themselves allow.
 */
#ifndef TEFF_MESSAGING_EXCHANGE_H
#define TEFF_MESSAGING_EXCHANGE_H

#include "messaging/message.h"
#include "messaging/registry.h"
#include "runtime/worker.h"

#include "teff/silo.h"

typedef struct teff__client teff__client;

/* What the parts above do for those of this folder. */
typedef struct teff__exchange_ops {
    /*
     * Simulated: runs what is runnable on the calling thread; when nothing is, moves the clock to
     * what is due next, but not past `until_ns`. False: nothing ran, and the clock is there.
     */
    bool (*step)(teff_silo *silo, int64_t until_ns);
    /* Runs a request to one of the client's observers and answers it; takes the message. */
    void (*observe)(teff__client *client, teff__message *message);
    /* Ends all observers of a client that goes. */
    void (*observers_end)(teff__client *client);
} teff__exchange_ops;

typedef struct teff__exchange {
    teff_silo *silo;
    teff__memory *memory;
    teff__clock clock;
    teff__registry registry;
    /* of calls that name none; set with `lock` held; its copies see messaging/deadline.h */
    teff__atomic_i64 response_timeout_ns;
    teff__spinners spinners;
    teff__worker **workers;
    uint32_t workers_count;
    /* of clients' stripes, made on first use */
    teff__postbox *postboxes[TEFF__STRIPES - TEFF__STRIPES_WORKERS];
    teff__mutex lock;       /* the silo's: state, clients */
    uint32_t clients_count; /* guarded by lock */
    uint32_t clients_made;  /* numbers them; guarded by lock */
    uint32_t nonce;         /* this silo's, in the keys of its observers */
    teff__atomic_u32 held;  /* buffers and sources of cancellation that exist */
    bool admits;            /* new clients; guarded by lock */
    uintptr_t thread;       /* simulated: the one that started the silo */
    uv_loop_t *loop;        /* that the silo runs on, with its one worker; NULL: on none */
    teff__atomic_u32 *born; /* 1, but in a child that forked; see teff__fork_wipe */
    const teff__exchange_ops *ops;
} teff__exchange;

/* Of a silo; in runtime/silo.c, which builds it. */
TEFF__INTERNAL teff__exchange *teff__silo_exchange(teff_silo *silo);

/*
 * Whether the calling thread is one of the silo's or, where the program lends its own, stands in an
 * item.
 */
static inline bool teff__exchange_inside(const teff__exchange *exchange)
{
    /* Before start there are none, and where it failed not all. */
    for (uint32_t i = 0; exchange->workers != NULL && i < exchange->workers_count; i++)
        if (exchange->workers[i] != NULL && teff__worker_here(exchange->workers[i]))
            return true;
    return false;
}

/*
 * Whether the calling thread is that of the loop that the silo runs on: it may not wait for the
 * silo, inside or outside of items. False before start, and once it has stopped.
 */
static inline bool teff__exchange_hosts_here(const teff__exchange *exchange)
{
    return exchange->loop != NULL && exchange->workers != NULL && exchange->workers[0] != NULL &&
           teff__atomic_u64_load_relaxed(&exchange->workers[0]->thread) == teff__thread_self();
}

/* Whether this process is a child of the one that made the silo: its threads are not here. */
static inline bool teff__exchange_forked(const teff__exchange *exchange)
{
    return teff__atomic_u32_load_relaxed(exchange->born) == 0;
}

/* Its workers, as bits. */
static inline uint64_t teff__exchange_all(const teff__exchange *exchange)
{
    return UINT64_MAX >> (64 - exchange->workers_count);
}

/* Posts one message to a worker's inbox, from any thread. */
static inline void teff__exchange_post(teff__exchange *exchange, uint32_t worker,
                                       teff__message *message)
{
    teff__worker_post_chain(exchange->workers[worker], &message->link, &message->link);
}

/* Messages for one worker, collected during a pass or a batch; newest first. */
typedef struct teff__outgoing {
    teff__link *newest, *oldest;
    uint32_t count;
} teff__outgoing;

/* At so many the chain is posted before the pass ends, so that the other worker can begin. */
enum { TEFF__OUTGOING_MAX = 32 };

/* True: there are so many. */
static inline bool teff__outgoing_add(teff__outgoing *outgoing, teff__message *message)
{
    if (outgoing->newest == NULL)
        outgoing->oldest = &message->link;
    message->link.next = outgoing->newest;
    outgoing->newest = &message->link;
    return ++outgoing->count == TEFF__OUTGOING_MAX;
}

/* Posts all that was collected; bit k of *dirty: outgoing[k] has messages. */
TEFF__INTERNAL void teff__exchange_post_all(teff__exchange *exchange, teff__outgoing *outgoing,
                                            uint64_t *dirty);

/* A buffer or source of cancellation begins, ends: last, since the silo may go then. Any thread. */
static inline void teff__exchange_hold(teff__exchange *exchange)
{
    (void)teff__atomic_u32_add_relaxed(&exchange->held, 1);
}
static inline void teff__exchange_release(teff__exchange *exchange)
{
    /* pairs with destroy's load */
    (void)teff__atomic_u32_add_acq_rel(&exchange->held, UINT32_MAX);
}

/* Drops an answer that nobody waits for any more, and counts it. Any thread. */
TEFF__INTERNAL void teff__exchange_drop_late(teff__exchange *exchange, teff__message *message);

/*
 * Sends a response on its way from a client's thread, or from whoever drops its request; takes the
 * message. Any thread.
 */
TEFF__INTERNAL void teff__exchange_respond(teff__exchange *exchange, teff__message *message);

/*
 * The same for a request that nobody will serve, with a code and a text (NULL: the status' own).
 */
TEFF__INTERNAL void teff__exchange_reject(teff__exchange *exchange, teff__message *message,
                                          int code, const char *text);

#endif
