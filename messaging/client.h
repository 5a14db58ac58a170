/* SPDX-License-Identifier: MIT */
/*
 * A client: a thread outside the silo that calls grains; one that blocks until they have answered,
 * or one with a uv loop that is told when they have.
 *
 * A client owns one stripe of the callback registry and the message pools that go with it; pools
 * and stripe outlive it, since messages of its last calls may still be under way. Its calls are
 * settled by whoever comes first (a worker that answers, the client itself at the deadline or when
 * a source has fired, stop) and handed over through the stripe's done list. Requests to its
 * observers and fired sources come as mail; so do answers to one on a loop, which settles them.
 *
 *   take        what was handed over is settled, or ready to be completed; mail is sorted; what is
 *               due is ended. No user's code runs
 *   serve       runs the observers' requests that were taken
 *   complete    runs the completions that are ready
 *
 * A blocking client takes and serves while it waits, and completes in teff_client_run;
 * client_wait.c. It waits by spinning for a while, where there are cores for it, then on the
 * stripe's word `sleeping`. One on a loop does all three in the loop's callbacks; client_loop.c. Either ends its
 * own calls at their deadlines: nobody else needs to wake up for them.
 *
 * Mail may come when the client is going: a sender posts and then looks whether somebody reads; the
 * client says that nobody does and then looks for mail. Whoever finds some refuses it. All four are
 * seq_cst.
 *
 * Threads: the client's; `create` and the stripe's choice are guarded by the silo's lock.
 */
#ifndef TEFF_MESSAGING_CLIENT_H
#define TEFF_MESSAGING_CLIENT_H

#include "messaging/caller.h"
#include "messaging/completion.h"
#include "messaging/exchange.h"
#include "runtime/slotmap.h"

#include "teff/client.h"

typedef struct teff__client_loop teff__client_loop;

enum { TEFF__CLIENT_HINTS = 256 };

/*
 * Where a grain was when it last answered. Its whole id is there, so that the client vouches for the
 * address, and the worker need not fetch the request's reference to compare.
 */
typedef struct teff__client_hint {
    uint64_t hash, address;
    const void *type; /* a teff__type */
    teff_key key;
} teff__client_hint;

struct teff__client {
    teff_caller caller; /* first: the public pointer is this one */
    teff__exchange *exchange;
    teff__stripe *stripe;
    teff__postbox *postbox;
    teff__client_loop *loop; /* NULL: it blocks */
    /* whose it is; 0: on a loop, and not used yet. That thread; anybody who asks */
    teff__atomic_u64 thread;
    uint32_t number; /* no other client of the silo had it */
    uint8_t inside;  /* completions and handlers that run at the moment */
    bool awake;      /* counted among the spinners */
    bool closing;
    uint32_t ran;   /* since the clock was read */
    int64_t now_ns; /* read now and then while completions and handlers run */
    int64_t sweep_after_ns;
    teff__call_defaults defaults; /* its copy: see messaging/deadline.h */
    int64_t moved_ns;             /* requests of deadlines up to here are looked at more closely */
    /* by worker: what completions and handlers send, posted in chains when they have run */
    teff__outgoing *outgoing;
    uint64_t outgoing_dirty; /* bit k: outgoing[k] has messages */
    teff__queue ready;       /* completions to run */
    teff__queue requests;    /* to observers */
    teff__ring statuses;     /* of its calls that take long; see status.h */
    teff__slotmap observers; /* see grains/observer.h */
    const void *type;        /* of the last grain called: see grains/dispatch.h */
    /* for calls whose reference is gone when they are answered; by hash */
    teff__client_hint hints[TEFF__CLIENT_HINTS];
    teff__ring completions; /* all that have not run */
};

static inline teff__client *teff__client_of(teff_caller *caller)
{
    return caller->home;
}

/* Whether this thread is the client's. */
static inline bool teff__client_here(const teff__client *client)
{
    return teff__atomic_u64_load_relaxed(&client->thread) == teff__thread_self();
}

/* The first thread that uses a client on a loop is the one that is about to run the loop. */
TEFF__INTERNAL bool teff__client_adopt(teff__client *client);

/*
 * Whether this thread may use the client at all: 0, or TEFF_EINVALIDSTATE (another one's, a child
 * that forked, closing).
 */
static inline int teff__client_check(teff__client *client)
{
    return TEFF__LIKELY((teff__client_here(client) || teff__client_adopt(client)) &&
                        !client->closing && !teff__exchange_forked(client->exchange))
               ? 0
               : TEFF_EINVALIDSTATE;
}

/*
 * Whether it may wait here: 0, or TEFF_EWOULDBLOCK (on a loop, in a completion or observer, in the
 * silo).
 */
TEFF__INTERNAL int teff__client_may_wait(const teff__client *client);

/* --- Its calls ----------------------------------------------------------------------------- */

/*
 * Opens a callback for a request; its detail, where `flags` ask for one, is the caller's to fill
 * in. TEFF_EOVERLOADED, TEFF_ENOMEM, TEFF_EUNAVAILABLE. When stop's sweep was faster it is settled
 * already: *ret_sendable is false.
 */
TEFF__INTERNAL int teff__client_open(teff__client *client, const teff__callback_terms *terms,
                                     uint32_t flags, uint64_t *ret_id, bool *ret_sendable);

/* Takes over a response timeout that has changed. */
TEFF__INTERNAL void teff__client_move_deadlines(teff__client *client);

/* Looks whether it has. */
static inline void teff__client_look(teff__client *client)
{
    if (TEFF__UNLIKELY(teff__atomic_i64_load_relaxed(&client->exchange->response_timeout_ns) !=
                       client->defaults.response_timeout_ns))
        teff__client_move_deadlines(client);
}

/* Sends a message to a worker: at once, or from a completion or handler with the others. */
TEFF__INTERNAL void teff__client_send(teff__client *client, uint32_t worker,
                                      teff__message *message);

/* The time that deadlines of its calls are measured from. */
static inline int64_t teff__client_now_ns(const teff__client *client)
{
    return client->inside != 0 ? client->now_ns : teff__clock_now_ns(&client->exchange->clock);
}

/* Notes that something is open now, or has ended: a loop goes on for it, or comes round. */
TEFF__INTERNAL void teff__client_opened(teff__client *client);

/* Blocks until the callback is settled. It stays so until teff__client_free. */
TEFF__INTERNAL void teff__client_wait(teff__client *client, uint64_t id);

/* Blocks until something may have come. False: a simulated silo is at rest, and nothing will. */
TEFF__INTERNAL bool teff__client_wait_step(teff__client *client);

/* The hint for grains of that hash, which may be of another one. */
static inline teff__client_hint *teff__client_hint_of(teff__client *client, uint64_t hash)
{
    return &client->hints[hash % TEFF__CLIENT_HINTS];
}

/* An answer came from the grain of a request that was sent with that hint: it may be elsewhere. */
static inline void teff__client_remember(teff__client *client, uint64_t hash,
                                         const teff__message *answer)
{
    teff__client_hint *hint = teff__client_hint_of(client, hash);
    if (hint->hash == hash && answer->address != 0)
        hint->address = answer->address;
}

/* Takes the answer of a settled callback, or NULL and a code, and frees its slot. */
TEFF__INTERNAL int teff__client_free(teff__client *client, uint64_t id, teff__message **ret_answer);

/* Ends a future of this client without waiting for what it was for, and drops its answer. */
TEFF__INTERNAL void teff__client_drop_future(teff__client *client, uint64_t id);

/* Blocks for that long; TEFF_EUNAVAILABLE where the silo stops meanwhile. */
TEFF__INTERNAL int teff__client_sleep(teff__client *client, int64_t duration_ns);

/* How many callbacks are open, or settled and not taken yet. */
static inline uint64_t teff__client_open_count(const teff__client *client)
{
    return teff__atomic_u64_load_relaxed(&client->stripe->opened) -
           teff__atomic_u64_load_relaxed(&client->stripe->closed);
}

/* --- What comes to it ---------------------------------------------------------------------- */

TEFF__INTERNAL void teff__client_take(teff__client *client);
/* True: something ran. Both do nothing inside a completion or handler of the client's. */
TEFF__INTERNAL bool teff__client_serve(teff__client *client);
TEFF__INTERNAL bool teff__client_complete(teff__client *client);

/* Whether something lies there to be taken, or was taken and is to be served. */
static inline bool teff__client_has_news(const teff__client *client)
{
    return teff__atomic_u32_load_relaxed(&client->stripe->done) != 0 ||
           !teff__inbox_empty(&client->stripe->mail) || client->requests.head != NULL;
}

/* When the client must look at its deadlines; INT64_MAX: it need not. */
TEFF__INTERNAL int64_t teff__client_due_ns(teff__client *client);

/* Claims what is due, if anything is; it comes with the done list. */
TEFF__INTERNAL void teff__client_end_due(teff__client *client, int64_t now_ns);

/* Says that the client sleeps. False: there are news, and it does not. */
TEFF__INTERNAL bool teff__client_announce_sleep(teff__client *client);

/* Counts or does not count the client among the threads that are awake. */
TEFF__INTERNAL void teff__client_set_awake(teff__client *client, bool awake);

/*
 * Posts a chain to the client that owns that stripe, newest first; where there is none, it is
 * refused. Any thread.
 */
TEFF__INTERNAL void teff__client_post_chain(teff__exchange *exchange, uint32_t stripe,
                                            teff__link *newest, teff__link *oldest);

/*
 * Posts a message to the client that owns that stripe. False: there is none; the message is the
 * sender's. Any thread.
 */
TEFF__INTERNAL bool teff__client_post(teff__exchange *exchange, uint32_t stripe,
                                      teff__message *message);

/* Nobody reads the mail from now on: what lies there is refused, by us or by its senders. */
TEFF__INTERNAL void teff__client_stop_reading(teff__client *client);

/* A request to an observer that came as mail: it waits to be served. */
TEFF__INTERNAL void teff__client_take_request(teff__client *client, teff__message *message);

/* Answers the requests that wait to be served and were sent under that source, which has fired. */
TEFF__INTERNAL void teff__client_cancel_requests(teff__client *client, const teff_cancel *cancel);

/* Refuses the requests to observers that were taken and not served. */
TEFF__INTERNAL void teff__client_refuse_requests(teff__client *client);

/*
 * Takes, serves and completes for all clients of this thread, and ends what is due; false: it has
 * none. *ret_due_ns: when the next deadline of theirs comes.
 */
TEFF__INTERNAL bool teff__clients_run_here(teff__exchange *exchange, int64_t *ret_due_ns);

/*
 * Ends what is due by then of all clients of this thread, which take it later; gives when the next
 * is due.
 */
TEFF__INTERNAL int64_t teff__clients_end_due(teff__exchange *exchange, int64_t now_ns);

/* Whether a completion or an observer of one of this thread's clients runs. */
TEFF__INTERNAL bool teff__clients_inside_here(teff__exchange *exchange);

/* --- Its end ------------------------------------------------------------------------------- */

/* Ends what is open with TEFF_ECANCELED, runs completions, refuses mail, drops futures. */
TEFF__INTERNAL void teff__client_wind_up(teff__client *client);

/* Gives the stripe back and frees the client. */
TEFF__INTERNAL void teff__client_gone(teff__client *client);

/* The pools of clients' stripes, which the exchange keeps until the silo is destroyed. */
TEFF__INTERNAL void teff__clients_finish(teff__exchange *exchange);

/* --- On a loop: client_loop.c -------------------------------------------------------------- */

/* Puts a new client on a loop. What fails is undone. */
TEFF__INTERNAL int teff__client_loop_begin(teff__client *client, struct uv_loop_s *loop);

/*
 * The loop goes on while something is open; where it is about to poll, it comes round first, since
 * what it waits for has changed.
 */
TEFF__INTERNAL void teff__client_loop_hold(teff__client *client);

#endif
