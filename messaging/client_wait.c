/* SPDX-License-Identifier: MIT */
/*
 * Blocking clients: how one waits.
 */
#include "messaging/client.h"

#include "teff/status.h"

/* How often a spinning client looks for news between two looks at the clock. */
enum { SPINS_PER_LOOK = 64 };

int teff__client_may_wait(const teff__client *client)
{
    return client->loop != NULL || client->inside != 0 || teff__exchange_inside(client->exchange) ||
                   teff__exchange_hosts_here(client->exchange)
               ? TEFF_EWOULDBLOCK
               : 0;
}

/* Spins for a while, where there are cores for it. True: there are news. */
static bool spin(teff__client *client)
{
    const teff__exchange *exchange = client->exchange;
    if (!teff__spinners_fit(&exchange->spinners))
        return false;
    const int64_t end_ns = teff__clock_now_ns(&exchange->clock) + TEFF__SPIN_NS;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (teff__client_has_news(client))
                return true;
            teff__cpu_relax();
        }
    } while (teff__clock_now_ns(&exchange->clock) < end_ns);
    return false;
}

/*
 * Waits until there are news or `until_ns` has come, or, with `gate`, the gate is closed; returns
 * early for no reason, too. A simulated silo runs meanwhile; false: it is at rest for ever.
 */
static bool wait_news(teff__client *client, int64_t until_ns, bool gate)
{
    teff__exchange *exchange = client->exchange;
    teff__stripe *stripe = client->stripe;
    if (exchange->clock.simulated)
        return exchange->ops->step(exchange->silo, until_ns) || until_ns != INT64_MAX;
    teff__client_set_awake(client, true);
    if (spin(client))
        return true;
    teff__client_set_awake(client, false);
    if (!teff__client_announce_sleep(client))
        return true;
    if (!(gate && teff__atomic_u32_load_seq_cst(&stripe->gate) != 0))
        teff__futex_wait(&stripe->sleeping, 1, until_ns);
    teff__atomic_u32_store_relaxed(&stripe->sleeping, 0);
    return true;
}

/*
 * One step of waiting for anything: takes and serves what is there, else waits for it. False: a
 * simulated silo is at rest, and nothing will ever come.
 */
static bool wait_step(teff__client *client, int64_t until_ns, bool gate)
{
    const int64_t due_ns = teff__client_due_ns(client);
    if (due_ns != INT64_MAX)
        teff__client_end_due(client, teff__clock_now_ns(&client->exchange->clock));
    /* Requests may have been taken by another wait, which could not serve them. */
    const bool awaited = client->requests.head != NULL || teff__client_has_news(client) ||
                         wait_news(client, due_ns < until_ns ? due_ns : until_ns, gate);
    teff__client_take(client);
    return teff__client_serve(client) || awaited;
}

void teff__client_wait(teff__client *client, uint64_t id)
{
    const teff__callback *callback = teff__stripe_at(client->stripe, id);
    teff__client_take(client);
    while (teff__callback_state_of(callback) != TEFF__CALLBACK_SETTLED) {
        if (!wait_step(client, INT64_MAX, false))
            (void)teff__stripe_claim(client->stripe, id, NULL, TEFF_EDEADLOCK);
    }
}

bool teff__client_wait_step(teff__client *client)
{
    return wait_step(client, INT64_MAX, false);
}

int teff__client_sleep(teff__client *client, int64_t duration_ns)
{
    const teff__clock *clock = &client->exchange->clock;
    int64_t until_ns = teff__time_add(teff__clock_now_ns(clock), duration_ns);
    if (until_ns == INT64_MAX)
        until_ns--; /* which would mean never: simulated time does get there */
    while (teff__atomic_u32_load_acquire(&client->stripe->gate) == 0) {
        if (teff__clock_now_ns(clock) >= until_ns)
            return 0;
        (void)wait_step(client, until_ns, true);
    }
    return TEFF_EUNAVAILABLE;
}

static int run(teff__client *client, int64_t until_ns)
{
    for (;;) {
        teff__client_take(client);
        const bool served = teff__client_serve(client);
        if (teff__client_complete(client) || served)
            return 0;
        const bool open = teff__atomic_u32_load_acquire(&client->stripe->gate) == 0;
        if (!open && teff__client_open_count(client) == 0)
            return TEFF_EUNAVAILABLE;
        const int64_t now_ns = teff__clock_now_ns(&client->exchange->clock);
        if (now_ns >= until_ns)
            return TEFF_ETIMEDOUT;
        const int64_t due_ns = teff__client_due_ns(client);
        teff__client_end_due(client, now_ns);
        if (!teff__client_has_news(client) &&
            !wait_news(client, due_ns < until_ns ? due_ns : until_ns, open))
            return TEFF_ETIMEDOUT;
    }
}

int teff_client_run(teff_client *caller, int64_t timeout_ns)
{
    if (caller == NULL || timeout_ns < 0)
        return TEFF_EINVAL;
    if (caller->kind != TEFF__CALLER_CLIENT)
        return TEFF_EINVALIDSTATE;
    teff__client *client = teff__client_of(caller);
    int r = client->loop != NULL ? TEFF_EINVALIDSTATE : teff__client_check(client);
    if (r == 0)
        r = teff__client_may_wait(client);
    if (r != 0)
        return r;
    return run(client, teff__time_add(teff__clock_now_ns(&client->exchange->clock), timeout_ns));
}
