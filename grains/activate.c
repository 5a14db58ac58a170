/* SPDX-License-Identifier: MIT */
/*
 * The life of an activation on its worker. Each run of it on the run queue does one thing:
 * activate, serve one message, or deactivate.
 */
#include "grains/activate.h"

#include "grains/complete.h"
#include "grains/dispatch.h"
#include "grains/resolve.h"
#include "grains/turn.h"
#include "messaging/cancel.h"
#include "messaging/deadline.h"

#include "teff/status.h"

/* How long a hook's calls may take together; as the field's reference. */
#define HOOK_TIMEOUT_NS INT64_C(30000000000)

static void activation_run(teff__worker *worker, teff__item *item);

static void schedule(teff__catalog *catalog, teff__activation *activation)
{
    activation->flags = TEFF__ACTIVATION_SCHEDULED;
    teff__worker_push(&catalog->worker, &activation->item);
}

static void count_gone(teff__catalog *catalog, int reason)
{
    teff__atomic_u64_increment_owner(&catalog->gone[reason]);
}

static void activation_free(teff__catalog *catalog, teff__activation *activation, int reason)
{
    const uint64_t address = activation->record.address;
    count_gone(catalog, reason);
    teff__slotmap_remove(&catalog->activations, teff__address_slot(address),
                         teff__address_generation(address));
    teff__memory_free(catalog->exchange->memory, activation,
                      teff__activation_bytes(activation->type));
}

/* Gives the activation a new slot generation and so a new address. */
static int take_address(teff__catalog *catalog, teff__activation *activation, uint64_t *ret)
{
    uint32_t slot, generation;
    const int r = teff__slotmap_add(&catalog->activations, activation, &slot, &generation);
    if (r == 0)
        *ret = teff__address_make(catalog->tag, slot, generation);
    return r;
}

/*
 * Registers an activation, or finds the one that is there. Where the directory names one of this
 * worker's that is gone, this one takes its place.
 */
static int enter(teff__catalog *catalog, teff__activation *activation, uint64_t *ret_address)
{
    const teff__locator *locator = &catalog->grains->locator;
    const int r = teff__locator_enter(locator, &activation->record, 0, ret_address);
    if (TEFF__LIKELY(r != 0 || *ret_address == activation->record.address ||
                     !teff__catalog_is_dead(catalog, *ret_address)))
        return r;
    return teff__locator_enter(locator, &activation->record, *ret_address, ret_address);
}

int teff__activation_create(teff__catalog *catalog, const teff__type *type, const teff_key *key,
                            uint64_t hash, uint64_t *ret_address, teff__activation **ret_made)
{
    if (TEFF__UNLIKELY(catalog->phase >= TEFF__STOP_DEACTIVATE))
        return TEFF_EUNAVAILABLE;
    teff__activation *activation =
        teff__memory_alloc(catalog->exchange->memory, teff__activation_bytes(type));
    if (activation == NULL)
        return TEFF_ENOMEM;
    activation->item.run = activation_run;
    activation->type = type;
    activation->record.key = *key;
    activation->record.type = type->id;
    activation->record.hash = hash;
    teff__ring_init(&activation->ring);
    int r = take_address(catalog, activation, &activation->record.address);
    if (r != 0) {
        teff__memory_free(catalog->exchange->memory, activation, teff__activation_bytes(type));
        return r;
    }
    teff__atomic_u64_increment_owner(&catalog->made);
    r = enter(catalog, activation, ret_address);
    if (TEFF__UNLIKELY(r == TEFF__LOCATOR_LATER)) {
        activation->flags = TEFF__ACTIVATION_BUSY; /* no run before it is entered */
        *ret_made = activation;
    } else if (r != 0) {
        activation_free(catalog, activation, TEFF_DEACTIVATED_DIRECTORY);
    } else if (*ret_address != activation->record.address) {
        activation_free(catalog, activation, TEFF_DEACTIVATED_DUPLICATE); /* it never ran */
    }
    return r;
}

/* Takes all mail, so that it can be passed on or refused. */
static teff__link *take_mail(teff__activation *activation)
{
    teff__link *mail = activation->mailbox.head;
    activation->mailbox.head = NULL;
    activation->mail_count = 0;
    return mail;
}

void teff__activation_entered(teff__catalog *catalog, teff__activation *activation)
{
    activation->flags = 0;
    if (activation->mailbox.head != NULL)
        schedule(catalog, activation);
}

void teff__activation_unmake(teff__catalog *catalog, teff__activation *activation, int reason)
{
    teff__link *mail = take_mail(activation);
    activation_free(catalog, activation, reason);
    while (mail != NULL) { /* from who was told of it before its own worker was */
        teff__message *message = (teff__message *)mail;
        mail = mail->next;
        teff__dispatch_arrived(catalog, message);
    }
}

/* Unregisters and frees an activation, and refuses what waits for it. */
static void give_up(teff__catalog *catalog, teff__activation *activation, int code,
                    const char *text)
{
    teff__link *mail = take_mail(activation);
    if (activation->state != TEFF__ACTIVATION_GONE)
        teff__activation_become(activation, TEFF__ACTIVATION_GONE);
    teff__collect_leave(catalog, activation);
    teff__resolve_leave(catalog, activation);
    activation_free(catalog, activation,
                    activation->reason != 0 ? activation->reason : TEFF_DEACTIVATED_FAILED);
    while (mail != NULL) {
        teff__message *message = (teff__message *)mail;
        mail = mail->next;
        teff__catalog_reject(catalog, message, code, text);
    }
}

/* The activation becomes the next one of its grain, of that address; its mail waits. */
static int begin_anew(teff__catalog *catalog, teff__activation *activation, uint64_t address)
{
    const uint64_t old = activation->record.address;
    const int moved = teff__locator_move(&catalog->grains->locator, &activation->record, address);
    if (moved != 0 && moved != TEFF__LOCATOR_LATER) {
        teff__slotmap_remove(&catalog->activations, teff__address_slot(address),
                             teff__address_generation(address));
        return moved;
    }
    teff__slotmap_remove(&catalog->activations, teff__address_slot(old),
                         teff__address_generation(old));
    memset(activation->data, 0, activation->type->def.state_size);
    count_gone(catalog, activation->reason);
    teff__atomic_u64_increment_owner(&catalog->made);
    activation->reason = 0;
    activation->keep = 0;
    activation->served = false;
    teff__activation_become(activation, TEFF__ACTIVATION_CREATING);
    if (TEFF__LIKELY(moved == 0)) {
        schedule(catalog, activation);
        return 0;
    }
    activation->record.address = address;
    activation->flags = TEFF__ACTIVATION_BUSY;
    return teff__resolve_again(catalog, activation, old);
}

/*
 * Mail was waiting: the same memory becomes the next activation, with another address, in one
 * operation of the directory. Mail that one activation after the other passes on without serving
 * any of it is refused in the end.
 */
static void reactivate(teff__catalog *catalog, teff__activation *activation)
{
    teff__queue mail = activation->mailbox, kept = { NULL, NULL };
    uint32_t count = 0;
    for (teff__link *link; (link = teff__queue_pop(&mail)) != NULL;) {
        teff__message *message = (teff__message *)link;
        if (!activation->served && message->hops++ >= TEFF__MESSAGE_HOPS_MAX) {
            teff__catalog_reject(catalog, message, TEFF_EREJECTED,
                                 "Forwarding failed: the grain deactivates "
                                 "before it serves a call");
            continue;
        }
        teff__queue_push(&kept, link);
        count++;
    }
    activation->mailbox = kept;
    activation->mail_count = count;
    if (count == 0) {
        give_up(catalog, activation, 0, NULL);
        return;
    }
    uint64_t address;
    int r = take_address(catalog, activation, &address);
    if (r == 0)
        r = begin_anew(catalog, activation, address);
    if (r != 0)
        give_up(catalog, activation, r, NULL);
}

/*
 * The activation has no running turn: deactivates it if that is wanted, or lets its mail have the
 * next run.
 */
static void rest(teff__catalog *catalog, teff__activation *activation);

static void activate(teff__catalog *catalog, teff__activation *activation)
{
    int r = 0;
    teff__turn turn;
    teff__activation_become(activation, TEFF__ACTIVATION_ACTIVATING);
    activation->flags = TEFF__ACTIVATION_BUSY;
    if (activation->type->def.activate != NULL) {
        teff__turn_begin(&turn, catalog, activation, NULL,
                         teff__time_add(catalog->worker.now_ns, HOOK_TIMEOUT_NS));
        r = activation->type->def.activate(&turn.caller, activation->data);
        teff__turn_end(&turn, 0);
    }
    if (r != 0) {
        give_up(catalog, activation, r, teff__turn_text(&turn, r));
        return;
    }
    teff__activation_become(activation, TEFF__ACTIVATION_VALID);
    teff__collect_enter(catalog, activation);
    rest(catalog, activation);
}

static void deactivate(teff__catalog *catalog, teff__activation *activation)
{
    teff__activation_become(activation, TEFF__ACTIVATION_DEACTIVATING);
    teff__collect_leave(catalog, activation);
    activation->flags = TEFF__ACTIVATION_BUSY;
    if (activation->type->def.deactivate != NULL) {
        teff__turn turn;
        teff__turn_begin(&turn, catalog, activation, NULL,
                         teff__time_add(catalog->worker.now_ns, HOOK_TIMEOUT_NS));
        activation->type->def.deactivate(&turn.caller, activation->data, activation->reason);
        teff__turn_end(&turn, 0);
    }
    teff__activation_become(activation, TEFF__ACTIVATION_GONE);
    teff__complete_orphans(catalog, activation);
    if (activation->mailbox.head == NULL)
        give_up(catalog, activation, 0, NULL);
    else if (catalog->phase >= TEFF__STOP_DEACTIVATE)
        give_up(catalog, activation, TEFF_EUNAVAILABLE, NULL);
    else
        reactivate(catalog, activation);
}

static void rest(teff__catalog *catalog, teff__activation *activation)
{
    const bool mail = activation->mailbox.head != NULL;
    activation->record.used = catalog->coarse;
    /* When the silo stops, no other activation will serve the mail: this one does, first. */
    if (TEFF__UNLIKELY(activation->reason != 0) &&
        !(mail && catalog->phase >= TEFF__STOP_DEACTIVATE))
        deactivate(catalog, activation);
    else if (mail)
        schedule(catalog, activation);
    else
        activation->flags = 0;
}

/* Requests that were cancelled meanwhile do not activate a grain; one behind them may. */
static void refuse_canceled(teff__catalog *catalog, teff__activation *activation)
{
    for (teff__message *first; (first = (teff__message *)activation->mailbox.head) != NULL &&
                               teff__cancel_refuses(first);) {
        (void)teff__queue_pop(&activation->mailbox);
        activation->mail_count--;
        teff__catalog_reject(catalog, first, TEFF_ECANCELED, NULL);
    }
}

static void activation_run(teff__worker *worker, teff__item *item)
{
    teff__catalog *catalog = teff__catalog_of(worker);
    teff__activation *activation = (teff__activation *)(void *)item;
    if (TEFF__UNLIKELY(activation->state == TEFF__ACTIVATION_CREATING)) {
        refuse_canceled(catalog, activation);
        if (activation->mailbox.head != NULL)
            activate(catalog, activation);
        else
            give_up(catalog, activation, 0, NULL);
        return;
    }
    teff__message *message = (teff__message *)teff__queue_pop(&activation->mailbox);
    if (TEFF__LIKELY(message != NULL)) {
        activation->mail_count--;
        activation->flags = TEFF__ACTIVATION_BUSY;
        activation->record.used = catalog->coarse;
        if (TEFF__LIKELY(message->deadline_ns > catalog->doubt_ns) ||
            !teff__message_expired(&catalog->exchange->registry, message, worker->now_ns))
            teff__turn_run(catalog, activation, message);
        else /* its caller has given up or is about to */
            teff__catalog_reject(catalog, message, TEFF_ETIMEDOUT, NULL);
    }
    rest(catalog, activation);
}

void teff__activation_mail(teff__catalog *catalog, teff__activation *activation,
                           teff__message *message)
{
    teff__queue_push(&activation->mailbox, &message->link);
    activation->mail_count++;
    teff__activation_look(catalog, activation);
}

void teff__activation_look(teff__catalog *catalog, teff__activation *activation)
{
    if (activation->flags == 0)
        schedule(catalog, activation);
}

void teff__activation_ask(teff__catalog *catalog, teff__activation *activation, int reason)
{
    if (activation->reason == 0)
        activation->reason = (uint8_t)reason;
    if (activation->flags == 0 && activation->state == TEFF__ACTIVATION_VALID)
        schedule(catalog, activation); /* a run without mail only rests */
}
