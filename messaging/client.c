/* SPDX-License-Identifier: MIT */
/*
 * Clients: how one comes and goes, opens callbacks, and takes what comes to it.
 */
#include "messaging/client.h"

#include "messaging/cancel.h"
#include "messaging/count.h"
#include "messaging/deadline.h"
#include "messaging/future.h"
#include "messaging/status.h"

#include "teff/status.h"

/*
 * For each callback that a stripe has, a request and perhaps a completion; and as many again that
 * are one way, or whose calls have timed out. So the callbacks run out first, which is overload.
 */
enum { CLIENT_MESSAGES_MAX = 4 * TEFF__CALLBACKS_MAX };

/* So many answers are fetched ahead of the completion that runs: some 200 ns each. */
enum { PREFETCH_AHEAD = 4 };

/* Between two walks over the deadlines; as of a worker's stripes. */
#define SWEEP_PERIOD_NS INT64_C(1000000)

/* A look at the clock of 22 ns is then 3 ns a completion. */
enum { RUNS_PER_LOOK = 8 };

/* --- Coming -------------------------------------------------------------------------------- */

static int claim_stripe(teff__exchange *exchange, teff__client *client)
{
    for (uint32_t i = TEFF__STRIPES_WORKERS; i < TEFF__STRIPES; i++) {
        teff__stripe *stripe = &exchange->registry.stripes[i];
        if (stripe->owner != NULL)
            continue;
        if (exchange->postboxes[i - TEFF__STRIPES_WORKERS] == NULL) {
            teff__postbox *postbox = teff__memory_alloc_line(exchange->memory, sizeof(*postbox));
            if (postbox == NULL)
                return TEFF_ENOMEM;
            teff__postbox_init(postbox, exchange->memory, CLIENT_MESSAGES_MAX);
            exchange->postboxes[i - TEFF__STRIPES_WORKERS] = postbox;
        }
        stripe->owner = client;
        teff__atomic_u32_store_relaxed(&stripe->wake_by, 0);
        client->stripe = stripe;
        client->postbox = exchange->postboxes[i - TEFF__STRIPES_WORKERS];
        client->number = ++exchange->clients_made;
        exchange->clients_count++;
        return 0;
    }
    return TEFF_ELIMIT;
}

static void give_stripe_back(teff__client *client)
{
    teff__exchange *exchange = client->exchange;
    teff__mutex_lock(&exchange->lock);
    client->stripe->owner = NULL;
    exchange->clients_count--;
    teff__mutex_unlock(&exchange->lock);
}

static size_t outgoing_bytes(const teff__exchange *exchange)
{
    return exchange->workers_count * sizeof(teff__outgoing);
}

static void client_free(teff__client *client)
{
    teff__exchange *exchange = client->exchange;
    teff__memory_free(exchange->memory, client->outgoing, outgoing_bytes(exchange));
    teff__memory_free(exchange->memory, client, sizeof(*client));
}

static void client_init(teff__client *client, teff__exchange *exchange)
{
    teff__caller_init(&client->caller, TEFF__CALLER_CLIENT, client, INT64_MAX);
    client->exchange = exchange;
    client->defaults.clock = &exchange->clock;
    client->defaults.response_timeout_ns =
        teff__atomic_i64_load_relaxed(&exchange->response_timeout_ns);
    teff__atomic_u64_store_relaxed(&client->thread, teff__thread_self());
    teff__queue_init(&client->ready);
    teff__queue_init(&client->requests);
    teff__ring_init(&client->completions);
    teff__ring_init(&client->statuses);
    teff__slotmap_init(&client->observers, exchange->memory);
}

int teff_client_create(teff_silo *silo, struct uv_loop_s *loop, teff_client **ret)
{
    if (silo == NULL || ret == NULL)
        return TEFF_EINVAL;
    teff__exchange *exchange = teff__silo_exchange(silo);
    if (teff__exchange_forked(exchange) || teff__exchange_inside(exchange) ||
        (exchange->clock.simulated && exchange->thread != teff__thread_self()))
        return TEFF_EINVALIDSTATE;
    teff__client *client = teff__memory_alloc(exchange->memory, sizeof(*client));
    if (client == NULL)
        return TEFF_ENOMEM;
    client_init(client, exchange);
    client->outgoing = teff__memory_alloc(exchange->memory, outgoing_bytes(exchange));
    if (client->outgoing == NULL) {
        client_free(client);
        return TEFF_ENOMEM;
    }

    teff__mutex_lock(&exchange->lock);
    int r = !exchange->admits ? TEFF_EINVALIDSTATE : claim_stripe(exchange, client);
    teff__mutex_unlock(&exchange->lock);
    if (r == 0 && loop != NULL) {
        r = teff__client_loop_begin(client, loop);
        if (r != 0)
            give_stripe_back(client);
    }
    if (r != 0) {
        client_free(client);
        return r;
    }
    teff__mutex_lock(&exchange->lock); /* not while a late sender refuses the mail */
    teff__atomic_u32_store_seq_cst(&client->stripe->reads_mail, 1);
    teff__mutex_unlock(&exchange->lock);
    *ret = &client->caller;
    return 0;
}

bool teff__client_adopt(teff__client *client)
{
    uint64_t nobody = 0;
    return client->loop != NULL &&
           teff__atomic_u64_cas_relaxed(&client->thread, &nobody, teff__thread_self());
}

/* --- Its calls ----------------------------------------------------------------------------- */

int teff__client_open(teff__client *client, const teff__callback_terms *terms, uint32_t flags,
                      uint64_t *ret_id, bool *ret_sendable)
{
    teff__stripe *stripe = client->stripe;
    int r = 0;
    if (teff__atomic_u32_load_acquire(&stripe->gate) != TEFF__GATE_OPEN)
        return TEFF_EUNAVAILABLE;
    if ((flags & TEFF__CALLBACK_DETAILED) != 0 && (r = teff__stripe_need_details(stripe)) != 0)
        return r;
    teff__callback *callback = teff__stripe_take(stripe, &r);
    if (callback == NULL)
        return r;
    if (client->loop != NULL) { /* only this thread will end it */
        *ret_id = teff__stripe_open(stripe, callback, NULL, terms, flags);
        *ret_sendable = true;
        return 0;
    }
    *ret_sendable = teff__stripe_open_shared(stripe, callback, terms, flags, ret_id);
    if (*ret_sendable || !teff__stripe_retract(stripe, *ret_id))
        return 0;
    teff__stripe_count_end(stripe, TEFF_END_STOPPED);
    return TEFF_EUNAVAILABLE;
}

void teff__client_move_deadlines(teff__client *client)
{
    const teff__exchange *exchange = client->exchange;
    const int64_t timeout_ns = teff__atomic_i64_load_relaxed(&exchange->response_timeout_ns);
    const int64_t moved_ns = teff__deadline_doubt_ns(teff__clock_now_ns(&exchange->clock),
                                                     client->defaults.response_timeout_ns);
    if (moved_ns > client->moved_ns)
        client->moved_ns = moved_ns;
    client->defaults.response_timeout_ns = timeout_ns;
    teff__stripe_move_deadlines(client->stripe, timeout_ns, NULL);
}

void teff__client_opened(teff__client *client)
{
    if (client->loop != NULL)
        teff__client_loop_hold(client);
}

int teff__client_free(teff__client *client, uint64_t id, teff__message **ret_answer)
{
    teff__callback *callback = teff__stripe_at(client->stripe, id);
    teff_assert(teff__callback_state_of(callback) == TEFF__CALLBACK_SETTLED);
    *ret_answer = callback->value;
    const int code = callback->code;
    teff__stripe_free(client->stripe, callback);
    return code;
}

void teff__client_drop_future(teff__client *client, uint64_t id)
{
    teff__message *answer;
    /* Whoever claims it, this client or another, has it on the done list a moment later. */
    while (teff__callback_state_of(teff__stripe_at(client->stripe, id)) != TEFF__CALLBACK_SETTLED) {
        (void)teff__stripe_claim(client->stripe, id, NULL, TEFF_ECANCELED);
        teff__client_take(client);
    }
    (void)teff__future_take(&client->exchange->registry, &client->caller, id, &answer);
    if (answer != NULL)
        teff__postbox_drop(client->postbox, answer);
}

/* --- What comes to it ---------------------------------------------------------------------- */

/* A call has ended: its future is settled, or its completion is ready. */
static void finish(teff__client *client, teff__callback *callback, uint64_t id)
{
    const uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
    const teff__message *answer = callback->value;
    teff__stripe_count_end(client->stripe, answer != NULL ? teff__end_of_answer(answer)
                                                          : teff__end_of_code(callback->code));
    if (word & TEFF__CALLBACK_CANCEL)
        teff__cancel_unlink(&client->exchange->registry, id);
    if ((word & TEFF__CALLBACK_THEN) == 0) {
        teff__callback_become(callback, TEFF__CALLBACK_SETTLED);
        return;
    }
    teff__completion *completion = teff__stripe_detail(client->stripe, id)->completion;
    completion->answer = callback->value;
    completion->message.code = callback->code;
    teff__stripe_free(client->stripe, callback);
    teff__queue_push(&client->ready, &completion->message.link);
}

/* Takes a callback that was claimed. */
static void receive(teff__client *client, teff__callback *callback, uint32_t slot)
{
    teff__stripe_received(client->stripe, slot);
    finish(client, callback, teff__stripe_open_id(client->stripe, slot));
}

/*
 * A source has fired: requests to observers that wait are answered, its calls are claimed, and come
 * with the done list.
 */
static void cancel_branch(teff__client *client, teff__message *message)
{
    const teff__registry *registry = &client->exchange->registry;
    const teff__cancel_branch *branch = (const teff__cancel_branch *)(const void *)message;
    if (!teff__ring_empty(&branch->requests))
        teff__client_cancel_requests(client, branch->cancel);
    for (uint64_t id = teff__cancel_first(registry, branch); id != 0;
         id = teff__cancel_next(registry, id))
        (void)teff__stripe_claim(client->stripe, id, NULL, TEFF_ECANCELED);
    teff__cancel_told(message);
}

/* An answer came as mail, to a client on a loop; perhaps to the one before it on this stripe. */
static void settle(teff__client *client, teff__message *answer)
{
    const uint64_t id = answer->correlation;
    bool detailed = false; /* it is: calls that wait are not for a loop */
    teff__callback *callback =
        client->loop != NULL ? teff__stripe_settle(client->stripe, id, &detailed) : NULL;
    if (callback == NULL) {
        teff__registry_count_late(&client->exchange->registry, id);
        teff__postbox_drop(client->postbox, answer);
        return;
    }
    teff__client_remember(client, teff__stripe_target(client->stripe, id), answer);
    callback->value = answer;
    callback->code = 0;
    finish(client, callback, id);
}

static void take_mail(teff__client *client)
{
    for (teff__link *mail = teff__inbox_take(&client->stripe->mail), *next; mail != NULL;
         mail = next) {
        teff__message *message = (teff__message *)mail;
        next = mail->next;
        if (message->kind == TEFF__MESSAGE_RESPONSE)
            settle(client, message);
        else if (message->kind == TEFF__MESSAGE_CANCEL)
            cancel_branch(client, message);
        else if (message->kind == TEFF__MESSAGE_STATUS)
            (void)teff__status_keep(&client->statuses, &client->exchange->registry, client->postbox,
                                    teff__status_of(message));
        else
            teff__client_take_request(client, message);
    }
}

void teff__client_take(teff__client *client)
{
    teff__stripe *stripe = client->stripe;
    if (!teff__inbox_empty(&stripe->mail))
        take_mail(client);
    if (TEFF__UNLIKELY(client->loop != NULL &&
                       teff__atomic_u32_load_acquire(&stripe->gate) == TEFF__GATE_ENDED) &&
        teff__client_open_count(client) != 0)
        teff__stripe_claim_all(stripe, TEFF_EUNAVAILABLE);
    for (uint32_t next = teff__stripe_take_done(stripe); next != 0;) {
        const uint32_t slot = next - 1;
        teff__callback *callback = &stripe->callbacks[slot];
        next = callback->done;
        receive(client, callback, slot);
    }
}

int64_t teff__client_due_ns(teff__client *client)
{
    teff__stripe *stripe = client->stripe;
    teff__client_look(client);
    if (teff__client_open_count(client) == 0 || stripe->low_ns == TEFF__DEADLINE_NEVER)
        stripe->low_ns = INT64_MAX; /* a bound of calls that have ended, or never do */
    return stripe->low_ns < client->sweep_after_ns ? client->sweep_after_ns : stripe->low_ns;
}

void teff__client_end_due(teff__client *client, int64_t now_ns)
{
    teff__stripe *stripe = client->stripe;
    uint32_t slot = 0;
    int64_t low_ns = INT64_MAX;
    if (now_ns < teff__client_due_ns(client))
        return;
    stripe->walks++;
    for (uint64_t id; (id = teff__stripe_next_due(stripe, now_ns, &slot, &low_ns)) != 0;) {
        teff__message *status = teff__status_answer(client->exchange, id);
        if (!teff__stripe_claim(stripe, id, status, TEFF_ETIMEDOUT) && status != NULL)
            teff__postbox_drop(client->postbox, status);
    }
    stripe->low_ns = low_ns;
    client->sweep_after_ns = now_ns + SWEEP_PERIOD_NS;
}

/* The program's code begins to run, in the client; how long it takes nobody knows. */
static void enter(teff__client *client)
{
    if (client->ran++ % RUNS_PER_LOOK == 0)
        client->now_ns = teff__clock_now_ns(&client->exchange->clock);
    client->inside++;
}

static void post_all(teff__client *client)
{
    teff__exchange_post_all(client->exchange, client->outgoing, &client->outgoing_dirty);
}

void teff__client_send(teff__client *client, uint32_t worker, teff__message *message)
{
    /* A simulated silo may run inside a completion, and is to find what was sent. */
    if (client->inside == 0 || client->exchange->clock.simulated) {
        teff__exchange_post(client->exchange, worker, message);
        return;
    }
    client->outgoing_dirty |= UINT64_C(1) << worker;
    if (teff__outgoing_add(&client->outgoing[worker], message))
        post_all(client);
}

bool teff__client_serve(teff__client *client)
{
    bool ran = false;
    if (client->inside != 0)
        return false;
    client->ran = 0;
    for (teff__link *link; (link = teff__queue_pop(&client->requests)) != NULL; ran = true) {
        enter(client);
        client->exchange->ops->observe(client, (teff__message *)link);
        client->inside--;
    }
    post_all(client);
    return ran;
}

/* An answer's lines are another core's; its message will be the next request. */
static void prefetch_answer(const teff__link *ready)
{
    const teff__message *answer = ((const teff__completion *)(const void *)ready)->answer;
    if (answer == NULL)
        return;
    teff__prefetch_write(answer);
    teff__prefetch_write((const char *)answer + TEFF__CACHE_LINE);
}

bool teff__client_complete(teff__client *client)
{
    teff__queue batch = client->ready; /* what becomes ready meanwhile is for the next time */
    const bool ran = batch.head != NULL;
    if (client->inside != 0)
        return false;
    teff__queue_init(&client->ready);
    client->ran = 0;
    const teff__link *ahead = batch.head;
    for (int i = 0; i < PREFETCH_AHEAD && ahead != NULL; i++, ahead = ahead->next)
        prefetch_answer(ahead);
    for (teff__link *link; (link = teff__queue_pop(&batch)) != NULL;) {
        if (ahead != NULL) {
            prefetch_answer(ahead);
            ahead = ahead->next;
        }
        enter(client);
        teff__completion_run(teff__completion_of((teff__message *)link), client->postbox,
                             &client->caller);
        client->inside--;
    }
    post_all(client);
    return ran;
}

bool teff__client_announce_sleep(teff__client *client)
{
    teff__stripe *stripe = client->stripe;
    /*
     * Pairs with claim's push, post's, closing the gate, and setting the timeout: set mine, look at
     * yours.
     */
    teff__atomic_u32_store_seq_cst(&stripe->sleeping, 1);
    /* A blocking client's calls come with the done list; one on a loop ends its own. */
    const bool ended = client->loop != NULL && teff__client_open_count(client) != 0 &&
                       teff__atomic_u32_load_seq_cst(&stripe->gate) == TEFF__GATE_ENDED;
    const bool moved = teff__atomic_i64_load_seq_cst(&client->exchange->response_timeout_ns) !=
                       client->defaults.response_timeout_ns;
    if (!ended && !moved && teff__atomic_u32_load_seq_cst(&stripe->done) == 0 &&
        teff__atomic_pointer_load_seq_cst(&stripe->mail.head) == NULL)
        return true;
    teff__atomic_u32_store_relaxed(&stripe->sleeping, 0);
    return false;
}

void teff__client_set_awake(teff__client *client, bool awake)
{
    if (awake && !client->awake)
        teff__spinners_add(&client->exchange->spinners);
    else if (!awake && client->awake)
        teff__spinners_remove(&client->exchange->spinners);
    client->awake = awake;
}

/* The clients of this thread, one after the other, by stripe; NULL: no further one. */
static teff__client *next_here(teff__exchange *exchange, uint32_t *stripe)
{
    teff__client *found = NULL;
    if (exchange->registry.stripes == NULL)
        return NULL;
    teff__mutex_lock(&exchange->lock);
    while (found == NULL && *stripe < TEFF__STRIPES) {
        teff__client *client = exchange->registry.stripes[(*stripe)++].owner;
        if (client != NULL && teff__client_here(client))
            found = client;
    }
    teff__mutex_unlock(&exchange->lock);
    return found;
}

bool teff__clients_inside_here(teff__exchange *exchange)
{
    uint32_t stripe = TEFF__STRIPES_WORKERS;
    for (teff__client *client; (client = next_here(exchange, &stripe)) != NULL;) {
        if (client->inside != 0)
            return true;
    }
    return false;
}

int64_t teff__clients_end_due(teff__exchange *exchange, int64_t now_ns)
{
    uint32_t stripe = TEFF__STRIPES_WORKERS;
    int64_t next_ns = INT64_MAX;
    for (teff__client *client; (client = next_here(exchange, &stripe)) != NULL;) {
        teff__client_end_due(client, now_ns);
        const int64_t due_ns = teff__client_due_ns(client);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    return next_ns;
}

bool teff__clients_run_here(teff__exchange *exchange, int64_t *ret_due_ns)
{
    uint32_t stripe = TEFF__STRIPES_WORKERS;
    bool any = false;
    *ret_due_ns = INT64_MAX;
    for (teff__client *client; (client = next_here(exchange, &stripe)) != NULL; any = true) {
        if (teff__client_due_ns(client) != INT64_MAX)
            teff__client_end_due(client, teff__clock_now_ns(&exchange->clock));
        teff__client_take(client);
        (void)teff__client_serve(client);
        (void)teff__client_complete(client);
        const int64_t due_ns = teff__client_due_ns(client);
        *ret_due_ns = due_ns < *ret_due_ns ? due_ns : *ret_due_ns;
    }
    return any;
}

/* --- Going --------------------------------------------------------------------------------- */

void teff__client_wind_up(teff__client *client)
{
    teff__client_take(client); /* answers that are there count */
    teff__client_stop_reading(client);
    uint32_t slot = 0;
    for (uint64_t id; (id = teff__stripe_next_open(client->stripe, &slot)) != 0;)
        (void)teff__stripe_claim(client->stripe, id, NULL, TEFF_ECANCELED);
    /* Others may have claimed some, and hand them over a moment later. */
    while (teff__client_open_count(client) != 0)
        teff__client_take(client);
    while (teff__client_complete(client))
        continue;
    for (uint64_t id; (id = teff__future_first(&client->exchange->registry, &client->caller)) != 0;)
        teff__client_drop_future(client, id);
    teff__statuses_drop(&client->statuses, &client->exchange->registry, client->postbox);
    teff__client_refuse_requests(client); /* a late sender's, taken above before it looked again */
    teff__postbox_flush(client->postbox);
    teff__client_set_awake(client, false);
}

void teff__client_gone(teff__client *client)
{
    teff_assert(client->ready.head == NULL && teff__ring_empty(&client->completions));
    teff__slotmap_finish(&client->observers);
    give_stripe_back(client);
    client_free(client);
}

teff_client *teff_client_destroy(teff_client *caller)
{
    if (caller == NULL || caller->kind != TEFF__CALLER_CLIENT)
        return caller;
    teff__client *client = teff__client_of(caller);
    const bool stopped = teff__atomic_u32_load_acquire(&client->stripe->gate) != 0;
    if (client->loop != NULL || client->inside != 0 || teff__exchange_forked(client->exchange) ||
        teff__exchange_inside(client->exchange) || (!teff__client_here(client) && !stopped))
        return caller;
    teff__atomic_u64_store_relaxed(&client->thread, teff__thread_self());
    client->closing = true; /* completions that run now open no more calls */
    teff__client_wind_up(client);
    teff__client_gone(client);
    return NULL;
}

void teff__clients_finish(teff__exchange *exchange)
{
    for (uint32_t i = 0; i < TEFF__STRIPES - TEFF__STRIPES_WORKERS; i++) {
        teff__postbox *postbox = exchange->postboxes[i];
        if (postbox == NULL)
            continue;
        teff__postbox_finish(postbox);
        teff__memory_free(exchange->memory, postbox, sizeof(*postbox));
        exchange->postboxes[i] = NULL;
    }
}
