/* SPDX-License-Identifier: MIT */
/*
 * Finding the way of a request.
 *
 * A sender without a valid hint asks its route cache, then the directory. A receiver whose
 * activation is gone does the same: a route, or another worker's address, forwards the request;
 * none makes an activation here, where its sender looked for it. Forwarding takes a route, too,
 * since messages that are under way to another worker must not be overtaken by later ones when the
 * grain comes to live here meanwhile.
 *
 * Where an activation is to be made on another worker, the directory says so until it is there
 * (teff__address_placed), and requests go that way as to an activation. What comes by it is served
 * here even where this worker has a route to where the grain was: the route switches to here.
 */
#include "grains/dispatch.h"

#include "grains/activate.h"
#include "grains/canceling.h"
#include "grains/observer.h"
#include "grains/place.h"
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
    message->flags &= (uint8_t) ~(TEFF__MESSAGE_HINT | TEFF__MESSAGE_FIRST);
    teff__message_address_to(message, &type->def.name, key);
    teff__catalog_post(catalog, teff__address_worker(address), message);
}

static void send_by_route(teff__catalog *catalog, teff__route *route, teff__message *message)
{
    const teff__type *type = teff__types_by_id(&catalog->grains->types, route->record.type);
    route->used = true;
    if (TEFF__UNLIKELY(route->switching)) {
        teff__message_address_to(message, &type->def.name, &route->record.key);
        teff__queue_push(&route->waiting, &message->link);
        return;
    }
    post_request(catalog, message, route->record.address, type, &route->record.key);
}

/*
 * The address of the grain's activation: the registered one, or one that is made here; or the worker
 * where it is to be made. That is decided by `place` where this worker is the first to route the
 * request (`first`); else whoever decided meant this one.
 */
static int find_or_create(teff__catalog *catalog, const teff__type *type, const teff_key *key,
                          uint64_t hash, bool first, uint32_t place, uint64_t *ret_address)
{
    teff__directory *directory = &catalog->grains->directory;
    const uint32_t own = catalog->worker.index;
    int r = 0;
    *ret_address = teff__directory_find(directory, hash, type->id, key);
    if (*ret_address == 0 && first) {
        const uint32_t worker = teff__place(catalog, type, hash, place);
        if (worker != own)
            r = teff__directory_place(directory, hash, type->id, key, worker, ret_address);
    }
    if (r == 0 && (*ret_address == 0 || *ret_address == teff__address_placed(own))) {
        r = teff__activation_create(catalog, type, key, hash, ret_address);
        if (r != 0)
            teff__directory_unplace(directory, hash, type->id, key, own);
    }
    return r;
}

/*
 * The route that a reference names, if it is one of this worker's and really leads to the
 * reference's grain.
 */
static teff__route *hinted_route(teff__catalog *catalog, const teff_ref *to)
{
    teff__route *route = teff__routes_get(&catalog->routes, to->route);
    if (route == NULL || !teff__key_equal(&route->record.key, &to->key) || to->type == NULL ||
        !teff__type_is(teff__types_by_id(&catalog->grains->types, route->record.type), to->type))
        return NULL;
    return route;
}

int teff__catalog_send_slow(teff__catalog *catalog, teff_ref *to, teff__message *message)
{
    teff__route *route = hinted_route(catalog, to);
    if (TEFF__LIKELY(route != NULL)) {
        teff__catalog_set_target(catalog, message, route->record.hash);
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
    route = teff__routes_find(&catalog->routes, hash, type->id, &to->key);
    if (route == NULL) {
        uint64_t address;
        int r = find_or_create(catalog, type, &to->key, hash, true, message->place, &address);
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
    }
    to->route = route->name;
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
    probe->correlation = route->name;
    probe->deadline_ns = INT64_MAX;
    post_request(catalog, probe, route->record.address,
                 teff__types_by_id(&catalog->grains->types, route->record.type),
                 &route->record.key);
    route->switching = true;
}

/*
 * Decides what becomes of a message for a grain that is not here, and has not been sent on by this
 * worker's route. `route` is not NULL where the grain was to be made here, whatever this worker knew.
 */
static void settle_astray(teff__catalog *catalog, teff__message *message, const teff__type *type,
                          const teff_key *key, uint64_t hash, teff__route *route)
{
    uint64_t address = 0;
    int r = 0;
    if (message->kind == TEFF__MESSAGE_PROBE)
        address = teff__directory_find(&catalog->grains->directory, hash, type->id, key);
    else
        r = find_or_create(catalog, type, key, hash, (message->flags & TEFF__MESSAGE_FIRST) != 0,
                           message->place, &address);
    if (route != NULL && !route->switching && route->record.address != address)
        begin_switch(catalog, route); /* it leads to where the grain was before */
    if (r != 0 || address == 0 || address == teff__address_placed(catalog->worker.index)) {
        /* a probe makes no activation: it finds that there is none */
        refuse(catalog, message, r, r == TEFF_ENOMEM ? teff__no_instance : NULL);
        return;
    }
    teff__activation *activation = teff__catalog_own(catalog, address);
    if (activation != NULL) {
        take_in(catalog, activation, message, true);
        return;
    }
    if (route == NULL)
        r = teff__routes_add(&catalog->routes, hash, type->id, key, address, &route);
    if (r != 0)
        refuse(catalog, message, r, NULL);
    else
        forward(catalog, route, message);
}

/* The address that the message was sent to names no activation of that grain here. */
static void arrived_astray(teff__catalog *catalog, teff__message *message)
{
    teff__directory *directory = &catalog->grains->directory;
    const teff__type *type = teff__dispatch_type(catalog->grains, teff__message_to(message));
    const teff_key *key = &teff__message_to(message)->key;
    const uint32_t own = catalog->worker.index;
    if (type == NULL) {
        refuse(catalog, message, TEFF_EINVAL, "no such grain type");
        return;
    }
    const bool placed = message->address == teff__address_placed(own);
    const uint64_t hash = teff__key_hash(&catalog->grains->seed, type->id, key);
    if (teff__cancel_refuses(message)) { /* goes no further, and makes no activation */
        if (placed)
            teff__directory_unplace(directory, hash, type->id, key, own);
        refuse(catalog, message, TEFF_ECANCELED, NULL);
        return;
    }
    teff__route *route = teff__routes_find(&catalog->routes, hash, type->id, key);
    if (message->kind == TEFF__MESSAGE_PROBE && teff__address_worker(message->correlation) == own)
        /* the grain was placed here while the probe was on its way, and has gone again */
        turn_probe_back(catalog, message, teff__directory_find(directory, hash, type->id, key));
    else if (route != NULL && !placed)
        forward(catalog, route, message);
    else
        settle_astray(catalog, message, type, key, hash, route);
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

void teff__dispatch_probed(teff__catalog *catalog, teff__message *probe)
{
    teff__route *route = teff__routes_get(&catalog->routes, probe->correlation);
    const uint64_t address = probe->address;
    teff__postbox_drop(&catalog->postbox, probe);
    teff_assert(route != NULL && route->switching); /* a switching route is never removed */
    teff__queue waiting = route->waiting;
    teff__queue_init(&route->waiting);
    route->switching = false;
    if (address == 0 || teff__address_tag_of(address) == catalog->tag)
        teff__routes_remove(&catalog->routes, route); /* it lives here, or nowhere: look again */
    else
        route->record.address = address;
    for (teff__link *link; (link = teff__queue_pop(&waiting)) != NULL;) {
        teff__message *message = (teff__message *)link;
        message->address = address;
        if (address == 0 || teff__address_tag_of(address) == catalog->tag)
            teff__dispatch_arrived(catalog, message);
        else
            teff__catalog_post(catalog, teff__address_worker(address), message);
    }
}

void teff__dispatch_answered(teff__catalog *catalog, teff_ref *to, uint64_t address)
{
    teff__route *route = hinted_route(catalog, to);
    if (route == NULL && teff__address_tag_of(address) == catalog->tag)
        to->route = address;
    if (route == NULL || address == 0 || route->record.address == address || route->switching)
        return;
    if (route->record.address == teff__address_placed(teff__address_worker(address)))
        route->record.address = address; /* the same worker: nothing is overtaken */
    else
        begin_switch(catalog, route);
}
