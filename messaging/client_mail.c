/* SPDX-License-Identifier: MIT */
/*
 * Mail to clients: requests to observers, fired sources, how long calls stand, and answers to those
 * on a loop; and what becomes of it when the client goes.
 */
#include "messaging/cancel.h"
#include "messaging/client.h"

#include "teff/status.h"

/* Refuses what lies in the mail of a client that is gone, or going. */
static void refuse_mail(teff__exchange *exchange, teff__link *mail)
{
    for (teff__link *next; mail != NULL; mail = next) {
        teff__message *message = (teff__message *)mail;
        next = mail->next;
        if (message->kind == TEFF__MESSAGE_CANCEL)
            teff__cancel_told(message);
        else if (message->kind == TEFF__MESSAGE_RESPONSE)
            teff__exchange_drop_late(exchange, message);
        else if (message->kind == TEFF__MESSAGE_STATUS)
            teff__message_send_home(message);
        else
            teff__exchange_reject(exchange, message, TEFF_EGONE, "the observer's client is gone");
    }
}

/* Somebody read the stripe's mail, or does so again: its next client. */
static void post(teff__exchange *exchange, teff__stripe *stripe, teff__link *newest,
                 teff__link *oldest)
{
    (void)teff__inbox_push_chain(&stripe->mail, newest, oldest);   /* mine … */
    if (teff__atomic_u32_load_seq_cst(&stripe->reads_mail) != 0) { /* … then yours */
        teff__stripe_wake(stripe);
        return;
    }
    /* The stripe may have its next client by now, whose mail is not ours to refuse. */
    teff__mutex_lock(&exchange->lock);
    const bool read = teff__atomic_u32_load_seq_cst(&stripe->reads_mail) != 0;
    teff__link *mail = read ? NULL : teff__inbox_take(&stripe->mail);
    teff__mutex_unlock(&exchange->lock);
    if (read)
        teff__stripe_wake(stripe);
    refuse_mail(exchange, mail);
}

bool teff__client_post(teff__exchange *exchange, uint32_t index, teff__message *message)
{
    teff__stripe *stripe = &exchange->registry.stripes[index];
    if (teff__atomic_u32_load_acquire(&stripe->reads_mail) == 0)
        return false;
    post(exchange, stripe, &message->link, &message->link);
    return true;
}

void teff__client_post_chain(teff__exchange *exchange, uint32_t index, teff__link *newest,
                             teff__link *oldest)
{
    post(exchange, &exchange->registry.stripes[index], newest, oldest);
}

void teff__client_take_request(teff__client *client, teff__message *message)
{
    const teff__stripe *stripe = client->stripe;
    /* Where its source has fired already it is refused when its turn comes, which is soon. */
    if ((message->held & TEFF__HELD_SOURCE) != 0)
        (void)teff__cancel_enter(message, (uint32_t)(stripe - client->exchange->registry.stripes),
                                 NULL);
    teff__queue_push(&client->requests, &message->link);
}

void teff__client_cancel_requests(teff__client *client, const teff_cancel *cancel)
{
    teff__queue requests = client->requests, kept = { NULL, NULL }, taken = { NULL, NULL };
    for (teff__link *link; (link = teff__queue_pop(&requests)) != NULL;)
        teff__queue_push(teff__cancel_of((teff__message *)link) == cancel ? &taken : &kept, link);
    client->requests = kept;
    for (teff__link *link; (link = teff__queue_pop(&taken)) != NULL;)
        teff__exchange_reject(client->exchange, (teff__message *)link, TEFF_ECANCELED, NULL);
}

void teff__client_refuse_requests(teff__client *client)
{
    teff__link *requests = client->requests.head;
    teff__queue_init(&client->requests);
    refuse_mail(client->exchange, requests);
}

void teff__client_stop_reading(teff__client *client)
{
    teff__atomic_u32_store_seq_cst(&client->stripe->reads_mail, 0);
    teff__client_refuse_requests(client);
    refuse_mail(client->exchange, teff__inbox_take(&client->stripe->mail));
    client->exchange->ops->observers_end(client);
}
