/* SPDX-License-Identifier: MIT */
#include "messaging/exchange.h"

#include "messaging/client.h"

void teff__exchange_post_all(teff__exchange *exchange, teff__outgoing *outgoing, uint64_t *dirty)
{
    while (*dirty != 0) {
        const uint32_t worker = (uint32_t)__builtin_ctzll(*dirty);
        teff__link *newest = outgoing[worker].newest;
        outgoing[worker].newest = NULL;
        outgoing[worker].count = 0;
        *dirty &= *dirty - 1;
        teff__worker_post_chain(exchange->workers[worker], newest, outgoing[worker].oldest);
    }
}

void teff__exchange_drop_late(teff__exchange *exchange, teff__message *message)
{
    teff__registry_count_late(&exchange->registry, message->correlation);
    teff__message_send_home(message);
}

void teff__exchange_respond(teff__exchange *exchange, teff__message *message)
{
    teff__stripe *stripe = teff__registry_stripe(&exchange->registry, message->correlation);
    if (message->correlation == 0)
        teff__message_send_home(message);
    else if (stripe->worker != TEFF__NO_WORKER)
        teff__exchange_post(exchange, stripe->worker, message);
    else if (teff__atomic_u32_load_relaxed(&stripe->wake_by) != 0)
        teff__client_post_chain(exchange, (uint32_t)(stripe - exchange->registry.stripes),
                                &message->link, &message->link);
    else if (!teff__stripe_claim(stripe, message->correlation, message, 0))
        teff__exchange_drop_late(exchange, message);
}

void teff__exchange_reject(teff__exchange *exchange, teff__message *message, int code,
                           const char *text)
{
    teff__message_refuse(message, code, text);
    teff__exchange_respond(exchange, message);
}
