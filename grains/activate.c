/* SPDX-License-Identifier: MIT */
/*
 * The life of an activation on its worker. Each run of it on the run queue does one thing:
 * activate, serve one message, or deactivate.
 */
#include "grains/activate.h"

#include "grains/abandon.h"
#include "grains/complete.h"
#include "grains/dispatch.h"
#include "grains/hook.h"
#include "grains/limit.h"
#include "grains/resolve.h"
#include "grains/stateless.h"
#include "grains/turn.h"
#include "messaging/cancel.h"
#include "messaging/deadline.h"

#include "teff/status.h"

typedef void run_function(teff__worker *worker, teff__item *item);

/* Of an activation's item, while its mailbox is not watched. */
static run_function *base_run(const teff__type *type)
{
    return TEFF__LIKELY(!teff__type_is_stateless(type)) ? teff__activation_run
                                                        : teff__stateless_run;
}

static void schedule(teff__catalog *catalog, teff__activation *activation)
{
    activation->flags = TEFF__ACTIVATION_SCHEDULED;
    teff__worker_push(&catalog->worker, &activation->item);
}

static void count_gone(teff__catalog *catalog, int reason)
{
    teff__atomic_u64_increment_owner(&catalog->gone[reason]);
    teff__limit_give(catalog);
}

static void remove_address(teff__catalog *catalog, uint64_t address)
{
    teff__slotmap_remove(&catalog->activations, teff__address_slot(address),
                         teff__address_generation(address));
}

void teff__activation_free(teff__catalog *catalog, teff__activation *activation, int reason)
{
    count_gone(catalog, reason);
    remove_address(catalog, teff__activation_address(activation));
    teff__activation_forget(catalog, activation);
}

void teff__activation_retire(teff__catalog *catalog, teff__activation *activation, int reason)
{
    teff__activation_become(activation, TEFF__ACTIVATION_GONE);
    teff__collect_leave(catalog, activation);
    count_gone(catalog, reason);
    remove_address(catalog, teff__activation_address(activation));
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

int teff__activation_make(teff__catalog *catalog, const teff__type *type, const teff_key *key,
                          uint64_t hash, teff__activation **ret)
{
    const bool stateless = teff__type_is_stateless(type);
    if (TEFF__UNLIKELY(catalog->phase >= TEFF__STOP_DEACTIVATE))
        return TEFF_EUNAVAILABLE;
    teff__activation *activation = teff__activation_alloc(catalog, type);
    if (activation == NULL)
        return TEFF_ENOMEM;
    activation->item.run = base_run(type);
    activation->type = type;
    activation->record.key = *key;
    activation->record.type = type->id;
    activation->record.hash = hash;
    teff__ring_init(&activation->ring);
    const int r = take_address(catalog, activation,
                               stateless ? &teff__activation_member(activation)->address
                                         : &activation->record.address);
    if (r != 0) {
        teff__activation_forget(catalog, activation);
        return r;
    }
    teff__atomic_u64_increment_owner(&catalog->made);
    *ret = activation;
    return 0;
}

/* It is in the directory no more, or in no crew. */
void teff__activation_leave(teff__catalog *catalog, teff__activation *activation)
{
    if (TEFF__LIKELY(!teff__type_is_stateless(activation->type)))
        teff__resolve_leave(catalog, activation);
    else
        teff__stateless_leave(catalog, activation);
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

/* Whether another worker has made the grain since the directory was asked, with the last place. */
static bool is_entered(const teff__catalog *catalog, const teff__type *type, const teff_key *key,
                       uint64_t hash, uint64_t *ret_address)
{
    return teff__locator_find(&catalog->grains->locator, hash, type->id, key, ret_address) == 0 &&
           *ret_address != 0 && !teff__catalog_is_dead(catalog, *ret_address);
}

int teff__activation_create(teff__catalog *catalog, const teff__type *type, const teff_key *key,
                            uint64_t hash, uint64_t *ret_address, teff__activation **ret_made)
{
    teff__activation *activation;
    int r = teff__limit_take(catalog);
    if (TEFF__UNLIKELY(r != 0))
        return is_entered(catalog, type, key, hash, ret_address) ? 0 : r;
    r = teff__activation_make(catalog, type, key, hash, &activation);
    if (r != 0) {
        teff__limit_give(catalog);
        return r;
    }
    r = enter(catalog, activation, ret_address);
    if (TEFF__UNLIKELY(r == TEFF__LOCATOR_LATER)) {
        activation->flags = TEFF__ACTIVATION_BUSY; /* no run before it is entered */
        *ret_made = activation;
    } else if (r != 0) {
        teff__activation_free(catalog, activation, TEFF_DEACTIVATED_DIRECTORY);
    } else if (*ret_address != activation->record.address) {
        teff__activation_free(catalog, activation, TEFF_DEACTIVATED_DUPLICATE); /* it never ran */
    }
    return r;
}

teff__queue teff__activation_take_mail(teff__activation *activation)
{
    const teff__queue mail = activation->mailbox;
    teff__queue_init(&activation->mailbox);
    activation->mail_count = 0;
    return mail;
}

void teff__activation_refuse(teff__catalog *catalog, teff__queue *mail, int code, const char *text)
{
    for (teff__link *link; (link = teff__queue_pop(mail)) != NULL;)
        teff__catalog_reject(catalog, (teff__message *)link, code, text);
}

void teff__activation_entered(teff__catalog *catalog, teff__activation *activation)
{
    activation->flags = 0;
    if (activation->mailbox.head != NULL)
        schedule(catalog, activation);
}

void teff__activation_unmake(teff__catalog *catalog, teff__activation *activation, int reason)
{
    teff__queue mail = teff__activation_take_mail(activation);
    count_gone(catalog, reason);
    remove_address(catalog, activation->record.address);
    /* from who was told of it before its own worker was */
    for (teff__link *link; (link = teff__queue_pop(&mail)) != NULL;)
        teff__dispatch_again(catalog, activation, (teff__message *)link);
    teff__activation_forget(catalog, activation);
}

/* Unregisters and frees an activation, counts why it went, and refuses what waits for it. */
static void give_up(teff__catalog *catalog, teff__activation *activation, int reason, int code,
                    const char *text)
{
    teff__queue mail = teff__activation_take_mail(activation);
    if (activation->state != TEFF__ACTIVATION_GONE)
        teff__activation_become(activation, TEFF__ACTIVATION_GONE);
    teff__collect_leave(catalog, activation);
    teff__activation_leave(catalog, activation);
    teff__activation_free(catalog, activation, reason);
    teff__activation_refuse(catalog, &mail, code, text);
}

/*
 * Mail that one activation after the other passes on without serving any of it is refused in the
 * end.
 */
void teff__activation_refuse_forwarded(teff__catalog *catalog, teff__activation *activation)
{
    if (activation->served)
        return;
    teff__queue mail = teff__activation_take_mail(activation), refused = { NULL, NULL };
    for (teff__link *link; (link = teff__queue_pop(&mail)) != NULL;) {
        const bool on = ((teff__message *)link)->hops++ < TEFF__MESSAGE_HOPS_MAX;
        teff__queue_push(on ? &activation->mailbox : &refused, link);
        activation->mail_count += on;
    }
    teff__activation_refuse(catalog, &refused, TEFF_EREJECTED,
                            "Forwarding failed: the grain deactivates before it serves a call");
}

/* What knows an activation by its address learns of another one. 0, LATER, or the locator's. */
static int move(teff__catalog *catalog, teff__activation *activation, uint64_t address)
{
    if (TEFF__LIKELY(!teff__type_is_stateless(activation->type)))
        return teff__locator_move(&catalog->grains->locator, &activation->record, address);
    teff__activation_member(activation)->address = address;
    return 0;
}

/* The activation becomes the next one of its grain, of that address; its mail waits. */
static int begin_anew(teff__catalog *catalog, teff__activation *activation, uint64_t address)
{
    const uint64_t old = teff__activation_address(activation);
    const int moved = move(catalog, activation, address);
    if (moved != 0 && moved != TEFF__LOCATOR_LATER) {
        remove_address(catalog, address);
        return moved;
    }
    remove_address(catalog, old);
    memset(activation->data, 0, activation->type->def.state_size);
    teff__atomic_u64_increment_owner(&catalog->gone[activation->reason]); /* keeps its place */
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
 * operation of the directory.
 */
static void reactivate(teff__catalog *catalog, teff__activation *activation)
{
    uint64_t address;
    int r = take_address(catalog, activation, &address);
    if (r == 0)
        r = begin_anew(catalog, activation, address);
    if (r != 0)
        give_up(catalog, activation,
                activation->reason != 0 ? activation->reason : TEFF_DEACTIVATED_DIRECTORY, r,
                r == TEFF_ENOMEM ? teff__no_instance : NULL);
}

/* It has no turn any more and gets none: what waits for it is the next one's. */
static void go(teff__catalog *catalog, teff__activation *activation)
{
    teff__activation_become(activation, TEFF__ACTIVATION_GONE);
    teff__complete_orphans(catalog, activation);
    if (catalog->phase < TEFF__STOP_DEACTIVATE)
        teff__activation_refuse_forwarded(catalog, activation);
    if (activation->mailbox.head != NULL && catalog->phase < TEFF__STOP_DEACTIVATE)
        reactivate(catalog, activation);
    else
        give_up(catalog, activation, activation->reason, TEFF_EUNAVAILABLE, NULL);
}

/*
 * The activation has no running turn: deactivates it if that is wanted, or lets its mail have the
 * next run. `served`: there was mail just now.
 */
static void rest(teff__catalog *catalog, teff__activation *activation, bool served);

static void activate(teff__catalog *catalog, teff__activation *activation)
{
    teff__hook hook;
    int r = 0;
    teff__activation_become(activation, TEFF__ACTIVATION_ACTIVATING);
    activation->flags = TEFF__ACTIVATION_BUSY;
    if (activation->type->def.activate != NULL) {
        teff__hook_begin(&hook, catalog, activation, catalog->grains->activate_timeout_ns);
        r = activation->type->def.activate(&hook.turn.caller, activation->data);
        teff__hook_end(&hook);
    }
    if (TEFF__UNLIKELY(activation->state == TEFF__ACTIVATION_GONE)) {
        teff__abandoned_end(catalog, activation);
    } else if (r != 0) {
        const char *text = teff__hook_failed(&hook, r);
        give_up(catalog, activation,
                activation->reason != 0 ? activation->reason : TEFF_DEACTIVATED_FAILED, r, text);
    } else if (activation->reason == TEFF_DEACTIVATED_REQUEST) {
        go(catalog, activation); /* `activate` asked: it was never valid, and hears of nothing */
    } else {
        teff__activation_become(activation, TEFF__ACTIVATION_VALID);
        teff__collect_enter(catalog, activation);
        rest(catalog, activation, false);
    }
}

static void deactivate(teff__catalog *catalog, teff__activation *activation)
{
    teff__activation_become(activation, TEFF__ACTIVATION_DEACTIVATING);
    teff__collect_leave(catalog, activation);
    activation->flags = TEFF__ACTIVATION_BUSY;
    if (activation->type->def.deactivate != NULL) {
        teff__hook hook;
        teff__hook_begin(&hook, catalog, activation, catalog->grains->deactivate_timeout_ns);
        activation->type->def.deactivate(&hook.turn.caller, activation->data, activation->reason);
        teff__hook_end(&hook);
    }
    if (TEFF__UNLIKELY(activation->state == TEFF__ACTIVATION_GONE))
        teff__abandoned_end(catalog, activation);
    else
        go(catalog, activation);
}

/*
 * There is a reason to go, or it was abandoned while it waited, which is one, too. False: it stays,
 * for now or since it is not idle any more.
 */
static bool rest_with_reason(teff__catalog *catalog, teff__activation *activation, bool served)
{
    const bool mail = activation->mailbox.head != NULL;
    if (activation->state == TEFF__ACTIVATION_GONE) {
        teff__abandoned_end(catalog, activation);
        return true;
    }
    if (teff__collect_is_reason(activation->reason) && (served || mail)) {
        activation->reason = 0;
        teff__collect_enter(catalog, activation);
        return false;
    }
    /* When the silo stops, no other activation will serve the mail: this one does, first. */
    if (mail && catalog->phase >= TEFF__STOP_DEACTIVATE)
        return false;
    deactivate(catalog, activation);
    return true;
}

static void rest(teff__catalog *catalog, teff__activation *activation, bool served)
{
    activation->record.used = catalog->coarse;
    if (TEFF__UNLIKELY(activation->reason != 0) && rest_with_reason(catalog, activation, served))
        return;
    if (activation->mailbox.head != NULL)
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

void teff__activation_run(teff__worker *worker, teff__item *item)
{
    teff__catalog *catalog = teff__catalog_of(worker);
    teff__activation *activation = (teff__activation *)(void *)item;
    if (TEFF__UNLIKELY(activation->state == TEFF__ACTIVATION_CREATING)) {
        refuse_canceled(catalog, activation);
        if (activation->mailbox.head != NULL)
            activate(catalog, activation);
        else /* nobody needs it any more; unless it was asked to go, that is no reason */
            give_up(catalog, activation, activation->reason, 0, NULL);
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
    rest(catalog, activation, message != NULL);
}

/* The count is of what is left when this run has taken its message. */
static void run_watched(teff__worker *worker, teff__item *item)
{
    teff__activation *activation = (teff__activation *)(void *)item;
    run_function *run = base_run(activation->type);
    const bool takes =
        activation->mailbox.head != NULL && activation->state != TEFF__ACTIVATION_CREATING;
    if (activation->mail_count - takes <= teff__catalog_of(worker)->grains->mailbox_warn / 2)
        item->run = run;
    run(worker, item);
}

void teff__activation_watch(teff__activation *activation)
{
    activation->item.run = run_watched;
}

bool teff__activation_is_watched(const teff__activation *activation)
{
    return activation->item.run == run_watched;
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
    /* That it was idle is no reason that lasts: see rest. */
    if (activation->reason == 0 || teff__collect_is_reason(activation->reason))
        activation->reason = (uint8_t)reason;
    if (activation->flags == 0 && activation->state == TEFF__ACTIVATION_VALID)
        schedule(catalog, activation); /* a run without mail only rests */
}
