/* SPDX-License-Identifier: MIT */
#include "grains/request.h"

#include "grains/canceling.h"
#include "grains/dispatch.h"
#include "grains/observer.h"
#include "messaging/cancel.h"
#include "messaging/count.h"
#include "messaging/future.h"

#include "teff/status.h"

/* What the options of a call came to. */
typedef struct terms {
    teff__callback_terms callback;
    uint32_t flags;      /* of the callback */
    teff_cancel *cancel; /* with TEFF__CALLBACK_CANCEL its firing ends the callback at once */
    uint32_t place;      /* as the option */
} terms;

static int failed(const teff__request *request, int code, const char *text)
{
    return teff__caller_fail(request->caller, code, false, &request->of->methods[request->number],
                             text);
}

/* The time that the caller's deadlines are measured from. */
static int64_t now_ns_of(const teff_caller *caller)
{
    return teff__caller_outside(caller) ? teff__client_now_ns(caller->home)
                                        : ((teff__catalog *)caller->home)->worker.now_ns;
}

/* Its worker's, or its client's, which first looks whether they have changed. */
static const teff__call_defaults *defaults_of(const teff_caller *caller)
{
    if (!teff__caller_outside(caller))
        return &((teff__catalog *)caller->home)->defaults;
    teff__client_look(caller->home);
    return &((teff__client *)caller->home)->defaults;
}

/* The one that its calls are opened in. */
static teff__stripe *stripe_of(const teff_caller *caller)
{
    return teff__caller_outside(caller) ? ((teff__client *)caller->home)->stripe
                                        : ((teff__catalog *)caller->home)->stripe;
}

/* Uses up what the caller asked for with teff_with. */
static int take_terms(const teff__request *request, terms *ret)
{
    teff_caller *caller = request->caller;
    const teff_method *method = &request->of->methods[request->number];
    const teff__exchange *exchange = teff__caller_exchange(caller);
    const int64_t now_ns = now_ns_of(caller);
    const bool waits = (caller->next & TEFF__NEXT_WAITS) != 0;
    ret->cancel = caller->next & TEFF__NEXT_CANCEL ? caller->next_cancel : NULL;
    ret->place = caller->next & TEFF__NEXT_PLACE ? caller->place : 0;
    ret->callback = (teff__callback_terms){ .opened_ns = now_ns };
    const int r = teff__caller_deadline(caller, method, now_ns, defaults_of(caller),
                                        &ret->callback.deadline_ns, &ret->flags);
    if (r != 0)
        return r;
    if (ret->place > exchange->workers_count)
        return TEFF_EINVAL;
    if (ret->cancel != NULL) {
        if (ret->cancel->exchange != exchange)
            return TEFF_EINVAL;
        if (teff__cancel_fired(ret->cancel)) {
            teff__stripe_count_unsent(stripe_of(caller), TEFF_END_CANCELED_UNSENT);
            return TEFF_ECANCELED;
        }
        ret->flags |= waits ? 0 : TEFF__CALLBACK_CANCEL;
    }
    return teff__request_bytes_fit(method) ? 0 : TEFF_EINVAL;
}

/* The message, complete but for correlation and address. */
static int make_message(const teff__request *request, const terms *asked, teff__message **ret)
{
    const teff_method *method = &request->of->methods[request->number];
    teff__postbox *postbox = teff__caller_postbox(request->caller);
    teff__message *message = NULL;
    if (asked->cancel == NULL) {
        message = teff__postbox_take(postbox, request->of, request->number);
        if (message == NULL)
            return teff__postbox_refusal(method);
    } else {
        const int r = teff__postbox_take_under(postbox, request->of, request->number, asked->cancel,
                                               &message);
        if (r != 0)
            return r;
        if ((asked->flags & TEFF__CALLBACK_CANCEL) == 0)
            message->flags |= TEFF__MESSAGE_WAITS;
    }
    message->correlation = 0;
    message->deadline_ns = INT64_MAX;
    message->place = (uint8_t)asked->place;
    teff__call_put_argument(message, method, request->argument);
    if (teff__method_has_bytes(method))
        teff__message_hold(message, method);
    *ret = message;
    return 0;
}

/* A callback in one of the worker's stripes, with room for its detail where the flags want one. */
static int open_in_worker(teff__catalog *catalog, void *waiter, const teff__callback_terms *of,
                          uint32_t flags, uint64_t *ret_id)
{
    teff__callback *callback;
    int r = teff__catalog_take_callback(catalog, &callback);
    if (r != 0)
        return r;
    if ((flags & TEFF__CALLBACK_DETAILED) != 0 &&
        (r = teff__stripe_need_details(catalog->stripe)) != 0) {
        teff__stripe_free(catalog->stripe, callback);
        return r;
    }
    *ret_id = teff__stripe_open(catalog->stripe, callback, waiter, of, flags);
    return 0;
}

static int open_callback(teff_caller *caller, void *waiter, const teff__callback_terms *of,
                         uint32_t flags, uint64_t *ret_id, bool *ret_sendable)
{
    *ret_sendable = true;
    if (teff__caller_outside(caller))
        return teff__client_open(caller->home, of, flags, ret_id, ret_sendable);
    return open_in_worker(caller->home, waiter, of, flags, ret_id);
}

/*
 * Takes back an open callback of a request that was not sent. False: a client's, which somebody has
 * ended meanwhile.
 */
static bool close_callback(teff_caller *caller, uint64_t id, int code)
{
    const teff__registry *registry = &teff__caller_exchange(caller)->registry;
    teff__stripe *stripe = teff__registry_stripe(registry, id);
    if (!teff__caller_outside(caller)) {
        bool detailed = false;
        teff__callback *callback = teff__stripe_settle(stripe, id, &detailed);
        if (detailed)
            teff__stripe_free(stripe, callback);
    } else if (!teff__stripe_retract(stripe, id)) {
        return false;
    }
    teff__stripe_count_end(stripe, code == TEFF_ECANCELED ? TEFF_END_CANCELED_UNSENT
                                                          : teff__end_of_code(code));
    return true;
}

/*
 * Enters the callback under its source; where that cannot be, or the source fires meanwhile, closes
 * it again, unless it has been ended: then *ret_sendable becomes false.
 */
static int link_cancel(const teff__request *request, teff_cancel *cancel, bool *ret_sendable)
{
    const teff__registry *registry = &teff__caller_exchange(request->caller)->registry;
    int r = teff__cancel_link(cancel, registry, request->id);
    if (r == 0 && teff__cancel_fired(cancel))
        r = TEFF_ECANCELED;
    if (r == 0)
        return 0;
    if (!close_callback(request->caller, request->id, r)) {
        *ret_sendable = false; /* it comes with the done list, and leaves its source then */
        return 0;
    }
    teff__cancel_unlink(registry, request->id);
    return r;
}

static int open_request(teff__request *request, const terms *asked, bool *ret_sendable)
{
    teff_caller *caller = request->caller;
    const teff_method *method = &request->of->methods[request->number];
    const teff__registry *registry = &teff__caller_exchange(caller)->registry;
    int r = open_callback(caller, request->waiter, &asked->callback, request->flags | asked->flags,
                          &request->id, ret_sendable);
    if (r != 0)
        return r;
    if ((asked->flags & TEFF__CALLBACK_CANCEL) != 0 &&
        (r = link_cancel(request, asked->cancel, ret_sendable)) != 0)
        return r;
    if (request->flags & TEFF__CALLBACK_FUTURE)
        teff__future_add(registry, caller, request->id, method);
    if (request->flags & TEFF__CALLBACK_THEN)
        teff__stripe_detail(teff__registry_stripe(registry, request->id), request->id)->completion =
            request->completion;
    return 0;
}

/* The type that a reference names; most often that of the client's last call. */
static const teff__type *client_type(teff__client *client, const teff__grains *grains,
                                     const teff_ref *to)
{
    const teff__type *last = client->type;
    if (last != NULL && to->type != NULL && teff__type_is(last, to->type) &&
        teff__key_valid(&to->key))
        return last;
    const teff__type *type = teff__dispatch_type(grains, to);
    if (type != NULL)
        client->type = type;
    return type;
}

/*
 * Fills in a client's request and posts it to the worker of the grain's hash, always: each of a
 * client's messages to one grain takes the same way, also when it comes by another reference, or
 * after a call that timed out.
 */
static int send_from_client(teff__client *client, teff__request *request, teff__message *message)
{
    teff__exchange *exchange = client->exchange;
    const teff__grains *grains = teff__silo_grains(exchange->silo);
    const teff_ref *to = request->to;
    const teff__type *type = client_type(client, grains, to);
    if (type == NULL && !teff__observer_is(to))
        return TEFF_EINVAL;
    if (type == NULL) {
        if (!request->one_way)
            teff__stripe_set_target(client->stripe, message->correlation,
                                    teff__observer_target(to));
        return teff__observer_send(exchange, to, message);
    }
    const uint64_t hash = teff__key_hash(&grains->seed, type->id, &to->key);
    teff__client_hint *hint = teff__client_hint_of(client, hash);
    const bool known =
        hint->hash == hash && hint->type == type && teff__key_equal(&hint->key, &to->key);
    if (known && hint->address != 0) {
        message->address = hint->address;
    } else {
        message->address = to->route;
        message->flags |= TEFF__MESSAGE_HINT;
    }
    if (!known)
        *hint = (teff__client_hint){ hash, 0, type, to->key };
    if (!request->one_way)
        teff__stripe_set_target(client->stripe, message->correlation, hash);
    teff__message_address_to(message, &type->def.name, &to->key);
    teff__client_send(client, (uint32_t)(hash % exchange->workers_count), message);
    return 0;
}

static int send_from_worker(teff__catalog *catalog, teff_ref *to, teff__message *message)
{
    teff__activation *activation = teff__catalog_hinted(catalog, to);
    if (activation == NULL)
        return teff__catalog_send_slow(catalog, to, message);
    teff__catalog_set_target(catalog, message, activation->record.hash);
    return (message->held & TEFF__HELD_SOURCE) != 0
               ? teff__canceling_deliver(catalog, activation, message)
               : teff__catalog_deliver(catalog, activation, message);
}

/* Takes back what teff__request_send opened, and the message. */
static int unsent(teff__request *request, const terms *asked, teff__message *message, int code)
{
    teff_caller *caller = request->caller;
    const teff__registry *registry = &teff__caller_exchange(caller)->registry;
    teff__postbox_drop(teff__caller_postbox(caller), message);
    if (!request->one_way) {
        if (!close_callback(caller, request->id, code))
            return 0; /* stop was faster: it has ended, as whoever waits will see */
        if (request->flags & TEFF__CALLBACK_FUTURE)
            teff__future_remove(registry, caller, request->id);
        if ((asked->flags & TEFF__CALLBACK_CANCEL) != 0)
            teff__cancel_unlink(registry, request->id);
    }
    return failed(request, code, teff__dispatch_text(caller, request->to, code));
}

static bool gate_closed(const teff_caller *caller)
{
    return teff__caller_outside(caller)
               ? teff__atomic_u32_load_acquire(
                     &teff__client_of((teff_caller *)(uintptr_t)caller)->stripe->gate) != 0
               : ((const teff__catalog *)caller->home)->gate_closed;
}

int teff__request_send(teff__request *request)
{
    teff_caller *caller = request->caller;
    terms asked;
    teff__message *message = NULL;
    bool sendable = true;
    int r = take_terms(request, &asked);
    if (r == 0 && gate_closed(caller))
        r = TEFF_EUNAVAILABLE;
    if (r == 0)
        r = make_message(request, &asked, &message);
    if (r != 0)
        return failed(request, r, NULL);
    if (!request->one_way) {
        r = open_request(request, &asked, &sendable);
        if (r != 0 || !sendable)
            teff__postbox_drop(teff__caller_postbox(caller), message);
        if (r != 0)
            return failed(request, r, NULL);
        if (teff__caller_outside(caller))
            teff__client_opened(caller->home);
        if (!sendable)
            return 0; /* it has ended: whoever waits will see */
        message->correlation = request->id;
        message->deadline_ns = asked.callback.deadline_ns;
    }
    r = teff__caller_outside(caller) ? send_from_client(caller->home, request, message)
                                     : send_from_worker(caller->home, request->to, message);
    return r != 0 ? unsent(request, &asked, message, r) : 0;
}

int teff__request_unsent(teff_caller *caller, const teff_ref *to, const teff_method *method,
                         int code, teff__message *message)
{
    (void)close_callback(caller, message->correlation, code);
    teff__postbox_drop(teff__caller_postbox(caller), message);
    return teff__caller_fail(caller, code, false, method, teff__dispatch_text(caller, to, code));
}

int teff__request_future(teff_caller *caller, uint64_t *ret_id, bool *ret_sendable)
{
    const teff__callback_terms never = { .opened_ns = now_ns_of(caller),
                                         .deadline_ns = TEFF__DEADLINE_NEVER };
    const int r = open_callback(caller, NULL, &never, TEFF__CALLBACK_FUTURE, ret_id, ret_sendable);
    if (r == 0)
        teff__future_add(&teff__caller_exchange(caller)->registry, caller, *ret_id, NULL);
    if (r == 0 && teff__caller_outside(caller))
        teff__client_opened(caller->home);
    return r;
}
