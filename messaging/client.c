/* SPDX-License-Identifier: MIT */
/*
 * Blocking clients: how one comes and goes, opens a callback, and waits.
 */
#include "messaging/client.h"

#include "messaging/future.h"

#include "teff/status.h"

/*
 * As many messages as a stripe has callbacks: a client has no more under way, one-way ones aside.
 */
enum { CLIENT_MESSAGES_MAX = TEFF__CALLBACKS_MAX };

/* How often a spinning client looks at its done list between two looks at the clock. */
enum { SPINS_PER_LOOK = 64 };

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
        client->stripe = stripe;
        client->postbox = exchange->postboxes[i - TEFF__STRIPES_WORKERS];
        exchange->clients_count++;
        return 0;
    }
    return TEFF_ELIMIT;
}

int teff_client_create(teff_silo *silo, struct uv_loop_s *loop, teff_client **ret)
{
    if (silo == NULL || ret == NULL || loop != NULL)
        return TEFF_EINVAL;
    teff__exchange *exchange = teff__silo_exchange(silo);
    if (teff__exchange_forked(exchange) || teff__exchange_inside(exchange) ||
        (exchange->clock.simulated && exchange->thread != teff__thread_self()))
        return TEFF_EINVALIDSTATE;
    teff__client *client = teff__memory_alloc(exchange->memory, sizeof(*client));
    if (client == NULL)
        return TEFF_ENOMEM;
    teff__caller_init(&client->caller, TEFF__CALLER_CLIENT, client, INT64_MAX);
    client->exchange = exchange;
    client->thread = teff__thread_self();

    teff__mutex_lock(&exchange->lock);
    const int r = !exchange->admits ? TEFF_EINVALIDSTATE : claim_stripe(exchange, client);
    teff__mutex_unlock(&exchange->lock);
    if (r != 0) {
        teff__memory_free(exchange->memory, client, sizeof(*client));
        return r;
    }
    *ret = &client->caller;
    return 0;
}

static void set_awake(teff__client *client, bool awake)
{
    if (awake && !client->awake)
        teff__spinners_add(&client->exchange->spinners);
    else if (!awake && client->awake)
        teff__spinners_remove(&client->exchange->spinners);
    client->awake = awake;
}

/*
 * Takes a callback that was handed over off the done list: frees its slot, or keeps it until its
 * future is claimed.
 */
static void receive(teff__client *client, teff__callback *callback)
{
    const uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
    if (word & TEFF__CALLBACK_FUTURE) {
        teff__atomic_u64_store_relaxed(&callback->word, (word & ~(uint64_t)TEFF__CALLBACK_STATE) |
                                                            TEFF__CALLBACK_SETTLED);
        return;
    }
    teff__stripe_free(client->stripe, callback);
}

/* Takes all that was handed over. True: the callback at `slot` was among it, or had been before. */
static bool receive_all(teff__client *client, uint32_t slot)
{
    teff__stripe *stripe = client->stripe;
    bool found = false;
    for (uint32_t next = teff__stripe_take_done(stripe); next != 0;) {
        teff__callback *callback = &stripe->callbacks[next - 1];
        found |= next - 1 == slot;
        next = callback->done;
        receive(client, callback);
    }
    return found;
}

int teff__client_open(teff__client *client, int64_t deadline_ns, uint32_t flags, uint64_t *ret_id,
                      bool *ret_sendable)
{
    int r = 0;
    teff__callback *callback = teff__stripe_take(client->stripe, &r);
    if (callback == NULL)
        return r;
    *ret_sendable = teff__stripe_open_shared(client->stripe, callback, deadline_ns, flags, ret_id);
    if (!*ret_sendable) /* … unless stop's sweep did so first */
        (void)teff__stripe_claim(client->stripe, *ret_id, NULL, TEFF_EUNAVAILABLE);
    return 0;
}

/*
 * Waits until something is handed over or `deadline_ns` has come, or, with `awake`, the gate is
 * closed; returns early for no reason, too.
 */
static void wait_done(teff__client *client, int64_t deadline_ns, bool awake)
{
    teff__exchange *exchange = client->exchange;
    teff__stripe *stripe = client->stripe;
    if (exchange->clock.simulated) {
        (void)exchange->step(exchange->silo, deadline_ns);
        return;
    }
    set_awake(client, true);
    if (teff__spinners_fit(&exchange->spinners)) {
        const int64_t end = teff__clock_now_ns(&exchange->clock) + TEFF__SPIN_NS;
        do {
            for (int i = 0; i < SPINS_PER_LOOK; i++) {
                if (teff__atomic_u32_load_relaxed(&stripe->done) != 0)
                    return;
                teff__cpu_relax();
            }
        } while (teff__clock_now_ns(&exchange->clock) < end);
    }
    set_awake(client, false);
    /* Pairs with claim's push, and with closing the gate: set mine, look at yours. */
    teff__atomic_u32_store_seq_cst(&stripe->sleeping, 1);
    if (teff__atomic_u32_load_seq_cst(&stripe->done) == 0 &&
        !(awake && teff__atomic_u32_load_seq_cst(&stripe->gate) != 0))
        teff__futex_wait(&stripe->sleeping, 1, deadline_ns);
    teff__atomic_u32_store_relaxed(&stripe->sleeping, 0);
}

/*
 * Waits until the callback's slot was handed over, or was before; ends it itself at its deadline.
 */
static void wait_slot(teff__client *client, uint64_t id)
{
    teff__stripe *stripe = client->stripe;
    const uint32_t slot = (uint32_t)id & (TEFF__CALLBACKS_MAX - 1);
    while (!receive_all(client, slot)) {
        const int64_t deadline_ns = teff__atomic_i64_load_relaxed(&stripe->deadlines[slot]);
        if (deadline_ns != INT64_MAX && teff__clock_now_ns(&client->exchange->clock) >= deadline_ns)
            (void)teff__stripe_claim(stripe, id, NULL, TEFF_ETIMEDOUT);
        else
            wait_done(client, deadline_ns, false);
    }
}

int teff__client_check(const teff__client *client)
{
    if (client->thread != teff__thread_self() || teff__exchange_forked(client->exchange))
        return TEFF_EINVALIDSTATE;
    return teff__exchange_inside(client->exchange) ? TEFF_EWOULDBLOCK : 0;
}

int teff__client_wait(teff__client *client, uint64_t id, teff__message **ret_answer)
{
    teff__callback *callback = teff__stripe_at(client->stripe, id);
    wait_slot(client, id);
    *ret_answer = callback->value; /* the slot is free, but nobody else opens in this stripe */
    return callback->code;
}

void teff__client_settled(teff__client *client, uint64_t id)
{
    const uint64_t word = teff__atomic_u64_load_relaxed(&teff__stripe_at(client->stripe, id)->word);
    if ((word & TEFF__CALLBACK_STATE) != TEFF__CALLBACK_SETTLED)
        wait_slot(client, id);
}

void teff__client_drop_future(teff__client *client, uint64_t id)
{
    teff__message *answer;
    (void)teff__stripe_claim(client->stripe, id, NULL, TEFF_ECANCELED);
    teff__client_settled(client, id);
    (void)teff__future_take(&client->exchange->registry, &client->caller, id, &answer);
    if (answer != NULL)
        teff__postbox_drop(client->postbox, answer);
}

int teff__client_sleep(teff__client *client, int64_t duration_ns)
{
    const teff__clock *clock = &client->exchange->clock;
    const int64_t deadline_ns = teff__time_add(teff__clock_now_ns(clock), duration_ns);
    while (teff__atomic_u32_load_acquire(&client->stripe->gate) == 0) {
        if (teff__clock_now_ns(clock) >= deadline_ns)
            return 0;
        wait_done(client, deadline_ns, true);
        (void)receive_all(client, UINT32_MAX);
    }
    return TEFF_EUNAVAILABLE;
}

teff_client *teff_client_destroy(teff_client *caller)
{
    if (caller == NULL || caller->kind != TEFF__CALLER_CLIENT)
        return caller;
    teff__client *client = teff__client_of(caller);
    teff__exchange *exchange = client->exchange;
    const bool stopped = teff__atomic_u32_load_acquire(&client->stripe->gate) != 0;
    if (client->thread != teff__thread_self() && !stopped)
        return caller;

    for (uint64_t id; (id = teff__future_first(&exchange->registry, caller)) != 0;)
        teff__client_drop_future(client, id);
    teff__postbox_flush(client->postbox);
    set_awake(client, false);

    teff__mutex_lock(&exchange->lock);
    client->stripe->owner = NULL;
    exchange->clients_count--;
    teff__mutex_unlock(&exchange->lock);
    teff__memory_free(exchange->memory, client, sizeof(*client));
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
