/* SPDX-License-Identifier: MIT */
/*
 * Finding the way of a request.
 *
 * A sender without a valid hint asks its route cache, then the directory. A receiver whose
 * activation is gone does the same: a route, or another worker's address, forwards the request;
 * none makes an activation here, where its sender looked for it. Forwarding takes a route, too,
 * since messages that are under way to another worker must not be overtaken by later ones when the
 * grain comes to live here meanwhile.
 */
#include "grains/dispatch.h"

#include "grains/activate.h"
#include "grains/canceling.h"
#include "grains/observer.h"
#include "messaging/cancel.h"

#include "teff/status.h"

const char teff__no_instance[] = "Failed to create an instance, or the way to it: out of memory";

const teff__type *teff__dispatch_type(const teff__grains *grains, const teff_ref *to)
{
    if (to->type == NULL || to->type->text == NULL || !teff__key_valid(&to->key))
        return NULL;
    return teff__types_find_text(&grains->types, to->type->text);
}

const char *teff__dispatch_text(const teff_ref *to, int code)
{
    if (code == TEFF_ENOMEM)
        return teff__no_instance;
    if (code == TEFF_EGONE)
        return "the observer has ended, or its client is gone";
    if (code != TEFF_EINVAL)
        return NULL;
    if (to->type == NULL || to->type->text == NULL)
        return "the reference names no grain type: make it with the interface's _at or _of";
    if (!teff__key_valid(&to->key))
        return "the reference's key is malformed: make it with one of the teff_key functions";
    return "no grain type of the reference's name was registered";
}

/* Puts a request into the mailbox, whatever it was sent under. */
static int deliver(teff__catalog *catalog, teff__activation *activation, teff__message *message)
{
    return (message->flags & TEFF__MESSAGE_UNDER) != 0
               ? teff__canceling_deliver(catalog, activation, message)
               : teff__catalog_deliver(catalog, activation, message);
}

/* Posts a request to the worker of `address`, with all that a receiver needs. */
static void post_request(teff__catalog *catalog, teff__message *message, uint64_t address,
                         const teff__type *type, const teff_key *key)
{
    message->address = address;
    message->flags &= (uint8_t)~TEFF__MESSAGE_HINT;
    teff__message_address_to(message, &type->def.name, key);
    teff__catalog_post(catalog, teff__address_worker(address), message);
}

static void send_by_route(teff__catalog *catalog, teff__route *route, teff__message *message)
{
    const teff__type *type = teff__types_by_id(&catalog->grains->types, route->type);
    if (TEFF__UNLIKELY(teff__route_waits(route))) {
        teff__message_address_to(message, &type->def.name, &route->key);
        teff__queue_push(&route->wait->messages, &message->link);
        return;
    }
    post_request(catalog, message, route->address, type, &route->key);
}

/* The address of the grain's activation: the registered one, or one that is made here. */
static int find_or_create(teff__catalog *catalog, const teff__type *type, const teff_key *key,
                          uint64_t hash, uint64_t *ret_address)
{
    *ret_address = teff__directory_find(&catalog->grains->directory, hash, type->id, key);
    if (*ret_address != 0)
        return 0;
    return teff__activation_create(catalog, type, key, hash, ret_address);
}

/*
 * The route that a reference names, if it is one of this worker's and really leads to the
 * reference's grain.
 */
static teff__route *hinted_route(teff__catalog *catalog, const teff_ref *to)
{
    teff__route *route = teff__routes_get(&catalog->routes, to->route, &to->key);
    if (route == NULL || to->type == NULL ||
        !teff__type_is(teff__types_by_id(&catalog->grains->types, route->type), to->type))
        return NULL;
    return route;
}

int teff__catalog_send_slow(teff__catalog *catalog, teff_ref *to, teff__message *message)
{
    teff__route *route = hinted_route(catalog, to);
    if (TEFF__LIKELY(route != NULL)) {
        teff__catalog_set_target(catalog, message, route->hash);
        send_by_route(catalog, route, message);
        return 0;
    }
    if (TEFF__UNLIKELY(teff__observer_is(to))) {
        teff__catalog_set_target(catalog, message, teff__observer_target(to));
        return teff__observer_send(catalog->exchange, to, message);
    }
    const teff__type *type = teff__dispatch_type(catalog->grains, to);
    if (type == NULL)
        return TEFF_EINVAL;
    const uint64_t hash = teff__key_hash(&catalog->grains->seed, type->id, &to->key);
    teff__catalog_set_target(catalog, message, hash);
    route = teff__routes_find(&catalog->routes, hash, type->id, &to->key, &to->route);
    if (route == NULL) {
        uint64_t address;
        int r = find_or_create(catalog, type, &to->key, hash, &address);
        if (r != 0)
            return r;
        teff__activation *activation = teff__catalog_own(catalog, address);
        if (activation != NULL) {
            to->route = address;
            return deliver(catalog, activation, message);
        }
        r = teff__routes_add(&catalog->routes, hash, type->id, &to->key, address, &route);
        if (r != 0)
            return r;
        if (route == NULL) { /* none are kept */
            post_request(catalog, message, address, type, &to->key);
            return 0;
        }
        to->route = teff__route_name(&catalog->routes, route);
    }
    send_by_route(catalog, route, message);
    return 0;
}

/* A probe found where its grain lives, or nothing: it goes back to the worker that sent it. */
static void turn_probe_back(teff__catalog *catalog, teff__message *probe, uint64_t address)
{
    probe->kind = TEFF__MESSAGE_PROBED;
    probe->address = address;
    teff__catalog_post(catalog, teff__address_worker(probe->correlation), probe);
}

TEFF__HOT_INLINE void take_in(teff__catalog *catalog, teff__activation *activation,
                              teff__message *message, bool under)
{
    if (TEFF__UNLIKELY(message->kind == TEFF__MESSAGE_PROBE)) {
        turn_probe_back(catalog, message, activation->record.address);
        return;
    }
    const int r = under ? deliver(catalog, activation, message)
                        : teff__catalog_deliver(catalog, activation, message);
    if (TEFF__UNLIKELY(r != 0))
        teff__catalog_reject(catalog, message, r,
                             r == TEFF_EOVERLOADED ? "the grain's mailbox is full" : NULL);
}

static void refuse(teff__catalog *catalog, teff__message *message, int code, const char *text)
{
    if (message->kind == TEFF__MESSAGE_PROBE)
        turn_probe_back(catalog, message, 0);
    else
        teff__catalog_reject(catalog, message, code, text);
}

/*
 * Forwards along a route, behind all that this worker sent or forwarded by it before. A route leads
 * to where an activation was when it was made, and no worker that has a route to a grain activates
 * it: so routes never lead round in a circle, and a message passes each worker once, unless routes
 * are corrected while it is under way.
 */
static void forward(teff__catalog *catalog, teff__route *route, teff__message *message)
{
    if (message->hops++ < TEFF__MESSAGE_HOPS_MAX + catalog->exchange->workers_count)
        send_by_route(catalog, route, message);
    else
        refuse(catalog, message, TEFF_EREJECTED,
               "Forwarding failed: the grain moved each time the call came to where it was");
}

/* The address that the message was sent to names no activation of that grain here. */
static void arrived_astray(teff__catalog *catalog, teff__message *message)
{
    const teff__type *type = teff__dispatch_type(catalog->grains, teff__message_to(message));
    const teff_key *key = &teff__message_to(message)->key;
    uint64_t address;
    if (type == NULL) {
        refuse(catalog, message, TEFF_EINVAL, "no such grain type");
        return;
    }
    if (teff__cancel_refuses(message)) { /* goes no further, and makes no activation */
        refuse(catalog, message, TEFF_ECANCELED, NULL);
        return;
    }
    const uint64_t hash = teff__key_hash(&catalog->grains->seed, type->id, key);
    uint64_t name;
    teff__route *route = teff__routes_find(&catalog->routes, hash, type->id, key, &name);
    if (route != NULL) {
        forward(catalog, route, message);
        return;
    }
    int r = 0;
    if (message->kind == TEFF__MESSAGE_PROBE)
        address = teff__directory_find(&catalog->grains->directory, hash, type->id, key);
    else
        r = find_or_create(catalog, type, key, hash, &address);
    if (r != 0 || address == 0) {
        /* a probe makes no activation: it finds that there is none */
        refuse(catalog, message, r, r == TEFF_ENOMEM ? teff__no_instance : NULL);
        return;
    }
    teff__activation *activation = teff__catalog_own(catalog, address);
    if (activation != NULL) {
        take_in(catalog, activation, message, true);
        return;
    }
    r = teff__routes_add(&catalog->routes, hash, type->id, key, address, &route);
    if (r != 0)
        refuse(catalog, message, r, NULL);
    else if (route == NULL)
        post_request(catalog, message, address, type, key);
    else
        forward(catalog, route, message);
}

/* Nobody may have vouched for the address, or the request was sent under a source. */
static void arrived_otherwise(teff__catalog *catalog, teff__activation *activation,
                              teff__message *message)
{
    if (activation != NULL &&
        ((message->flags & TEFF__MESSAGE_HINT) == 0 ||
         (teff__key_equal(&activation->record.key, &teff__message_to(message)->key) &&
          teff__type_is(activation->type, teff__message_to(message)->type))))
        take_in(catalog, activation, message, true);
    else
        arrived_astray(catalog, message);
}

void teff__dispatch_arrived(teff__catalog *catalog, teff__message *message)
{
    teff__activation *activation = teff__catalog_own(catalog, message->address);
    if (TEFF__LIKELY(activation != NULL) &&
        TEFF__LIKELY((message->flags & (TEFF__MESSAGE_HINT | TEFF__MESSAGE_UNDER)) == 0))
        take_in(catalog, activation, message, false);
    else
        arrived_otherwise(catalog, activation, message);
}

/*
 * Sends a probe after the messages that went by the route's old address, and keeps what is sent
 * from now on.
 */
static void begin_switch(teff__catalog *catalog, teff__route *route)
{
    teff__message *probe = teff__pool_take(&catalog->postbox.pools[0]);
    if (probe == NULL)
        return; /* the old address goes on to be forwarded; the next answer tries again */
    memset(probe, 0, sizeof(*probe));
    probe->home = &catalog->postbox.pools[0];
    probe->kind = TEFF__MESSAGE_PROBE;
    probe->correlation = teff__route_name(&catalog->routes, route);
    probe->deadline_ns = INT64_MAX;
    if (teff__routes_wait(&catalog->routes, route) != 0) {
        teff__postbox_drop(&catalog->postbox, probe);
        return;
    }
    post_request(catalog, probe, teff__route_address(route),
                 teff__types_by_id(&catalog->grains->types, route->type), &route->key);
}

void teff__dispatch_probed(teff__catalog *catalog, teff__message *probe)
{
    teff__route *route = teff__routes_peek(&catalog->routes, probe->correlation);
    const uint64_t address = probe->address;
    teff__queue waiting;
    teff__postbox_drop(&catalog->postbox, probe);
    teff_assert(route != NULL); /* a waiting route is never removed */
    /* It lives here, or nowhere: look again. */
    const bool elsewhere = address != 0 && teff__address_tag_of(address) != catalog->tag;
    teff__routes_go_on(&catalog->routes, route, elsewhere ? address : 0, &waiting);
    for (teff__link *link; (link = teff__queue_pop(&waiting)) != NULL;) {
        teff__message *message = (teff__message *)link;
        message->address = address;
        if (elsewhere)
            teff__catalog_post(catalog, teff__address_worker(address), message);
        else
            teff__dispatch_arrived(catalog, message);
    }
}

void teff__dispatch_answered(teff__catalog *catalog, teff_ref *to, uint64_t address)
{
    teff__route *route = hinted_route(catalog, to);
    if (route == NULL && teff__address_tag_of(address) == catalog->tag)
        to->route = address;
    if (route != NULL && address != 0 && !teff__route_waits(route) && route->address != address)
        begin_switch(catalog, route);
}
