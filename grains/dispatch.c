/* SPDX-License-Identifier: MIT */
/*
 * Finding the way of a request.
 *
 * A sender without a valid hint asks its route cache, then resolves the grain (grains/resolve.h). A
 * receiver whose activation is gone does the same: a route, or another worker's address, forwards
 * the request; none makes an activation here, where its sender looked for it. Forwarding takes a
 * route, too, since messages that are under way to another worker must not be overtaken by later
 * ones when the grain comes to live here meanwhile.
 *
 * A grain that was placed on another worker and is not made yet has an address there that names no
 * slot. Two workers may place it with each other at the same time; so who is sent such a message
 * makes the grain, whatever route it has itself, if the directory has none: that alone decides.
 */
#include "grains/dispatch.h"

#include "grains/activate.h"
#include "grains/canceling.h"
#include "grains/observer.h"
#include "grains/resolve.h"
#include "grains/stateless.h"
#include "messaging/cancel.h"

#include "teff/status.h"

const char teff__no_instance[] = "Failed to create an instance, or the way to it: out of memory";

const teff__type *teff__dispatch_type(const teff__grains *grains, const teff_ref *to)
{
    if (to->type == NULL || to->type->text == NULL || !teff__key_valid(&to->key))
        return NULL;
    return teff__types_find_text(&grains->types, to->type->text);
}

const char *teff__dispatch_text(const teff_caller *caller, const teff_ref *to, int code)
{
    if (code == TEFF_EOVERLOADED)
        return teff__caller_outside(caller) ? NULL : ((teff__catalog *)caller->home)->refused;
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

const char *teff__dispatch_why(const teff__catalog *catalog, int code)
{
    return code == TEFF_ENOMEM        ? teff__no_instance
           : code == TEFF_EOVERLOADED ? catalog->refused
                                      : NULL;
}

/* Puts a request into the mailbox, whatever it was sent under. */
static int deliver(teff__catalog *catalog, teff__activation *activation, teff__message *message)
{
    return (message->flags & TEFF__MESSAGE_UNDER) != 0
               ? teff__canceling_deliver(catalog, activation, message)
               : teff__catalog_deliver(catalog, activation, message);
}

/*
 * The grain is made where its message arrives, or was there a moment ago (teff__dispatch_again): then
 * its messages are older than all that wait here. A client's hint says nothing of the kind.
 */
static bool is_placed(const teff__message *message)
{
    return (message->flags & TEFF__MESSAGE_HINT) == 0 &&
           teff__address_generation(message->address) == 0;
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

static const teff__type *type_of(const teff__catalog *catalog, const teff__route *route)
{
    return teff__types_by_id(&catalog->grains->types, route->type);
}

/* Its source, if any, has no place to look for it while it is on its way. */
static void leave_place(teff__message *message)
{
    if (TEFF__UNLIKELY((message->held & TEFF__HELD_SOURCE) != 0))
        teff__ring_remove(&teff__message_entry(message)->ring);
}

void teff__dispatch_wait(teff__catalog *catalog, teff__route *route, teff__message *message)
{
    leave_place(message);
    teff__message_address_to(message, &type_of(catalog, route)->def.name, &route->key);
    teff__queue_push(&route->wait->messages, &message->link);
}

void teff__dispatch_by_route(teff__catalog *catalog, teff__route *route, teff__message *message)
{
    if (TEFF__UNLIKELY(teff__route_waits(route)))
        teff__dispatch_wait(catalog, route, message);
    else
        post_request(catalog, message, route->address, type_of(catalog, route), &route->key);
}

/* Sends the first request to a grain elsewhere. *ret_route: the way of all that follow, or NULL. */
static int send_first(teff__catalog *catalog, const teff__grain_id *id, uint64_t address,
                      teff__message *message, teff__route **ret_route)
{
    const int r =
        teff__routes_add(&catalog->routes, id->hash, id->type->id, id->key, address, ret_route);
    if (r == 0)
        post_request(catalog, message, address, id->type, id->key);
    return r;
}

/*
 * The route that a reference names, if it is one of this worker's and really leads to the
 * reference's grain.
 */
static teff__route *hinted_route(teff__catalog *catalog, const teff_ref *to)
{
    teff__route *route = teff__routes_get(&catalog->routes, to->route, &to->key);
    return route != NULL && to->type != NULL && teff__type_is(type_of(catalog, route), to->type)
               ? route
               : NULL;
}

/* Neither an activation of this worker nor a route is known: the directory says, or placement. */
static int send_resolved(teff__catalog *catalog, teff_ref *to, const teff__grain_id *id,
                         teff__message *message)
{
    uint64_t address;
    teff__route *route;
    int r = teff__resolve(catalog, id, message, TEFF__RESOLVE_PLACED, &address);
    if (r == TEFF__LOCATOR_LATER)
        return 0;
    if (r != 0)
        return r;
    teff__activation *activation = teff__catalog_own(catalog, address);
    if (activation != NULL) {
        to->route = address;
        return deliver(catalog, activation, message);
    }
    r = send_first(catalog, id, address, message, &route);
    if (r == 0 && route != NULL)
        to->route = teff__route_name(&catalog->routes, route);
    return r;
}

/* A stateless worker's: to a member here, or to a worker that has one. */
static int send_stateless(teff__catalog *catalog, const teff__grain_id *id, teff__message *message)
{
    teff__activation *member;
    uint32_t worker;
    const int r = teff__stateless_choose(catalog, id->type, id->key, id->hash, &member, &worker);
    if (r != 0)
        return r;
    if (member != NULL)
        return deliver(catalog, member, message);
    post_request(catalog, message, teff__address_placed(worker), id->type, id->key);
    return 0;
}

int teff__catalog_send_slow(teff__catalog *catalog, teff_ref *to, teff__message *message)
{
    teff__route *route = hinted_route(catalog, to);
    if (TEFF__LIKELY(route != NULL)) {
        teff__catalog_set_target(catalog, message, route->hash);
        teff__dispatch_by_route(catalog, route, message);
        return 0;
    }
    if (TEFF__UNLIKELY(teff__observer_is(to))) {
        teff__catalog_set_target(catalog, message, teff__observer_target(to));
        return teff__observer_send(catalog->exchange, to, message);
    }
    const teff__type *type = teff__dispatch_type(catalog->grains, to);
    if (type == NULL)
        return TEFF_EINVAL;
    const teff__grain_id id = { type, &to->key,
                                teff__key_hash(&catalog->grains->seed, type->id, &to->key) };
    teff__catalog_set_target(catalog, message, id.hash);
    if (TEFF__UNLIKELY(teff__type_is_stateless(type)))
        return send_stateless(catalog, &id, message);
    route = teff__routes_find(&catalog->routes, id.hash, type->id, &to->key, &to->route);
    if (route == NULL)
        return send_resolved(catalog, to, &id, message);
    teff__dispatch_by_route(catalog, route, message);
    return 0;
}

/*
 * Sends a probe after the messages that went by the route's address, and keeps what is sent from
 * now on. False: there is no memory, and nothing has changed.
 */
static bool begin_switch(teff__catalog *catalog, teff__route *route)
{
    const uint64_t address = route->address;
    teff__message *probe = teff__pool_take(&catalog->postbox.pools[0]);
    if (probe == NULL)
        return false;
    if (teff__routes_wait(&catalog->routes, route) != 0) {
        teff__pool_put(&catalog->postbox.pools[0], probe);
        return false;
    }
    memset(probe, 0, sizeof(*probe));
    probe->home = &catalog->postbox.pools[0];
    probe->kind = TEFF__MESSAGE_PROBE;
    probe->correlation = teff__route_name(&catalog->routes, route);
    probe->deadline_ns = INT64_MAX;
    post_request(catalog, probe, address, type_of(catalog, route), &route->key);
    return true;
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
        teff__catalog_reject(catalog, message, r, teff__dispatch_why(catalog, r));
}

void teff__dispatch_refuse(teff__catalog *catalog, teff__message *message, int code,
                           const char *text)
{
    if (message->kind == TEFF__MESSAGE_PROBE)
        turn_probe_back(catalog, message, 0);
    else
        teff__catalog_reject(catalog, message, code, text);
}

/*
 * Whether a message that did not find its grain here may go on. It was forwarded if it was sent to
 * an address of this worker; what a client's message says, or one that only comes through, is no
 * more than a hint. Where a grain moves faster than news of it, workers' routes lead from one old
 * place to the next, so beside the two hops there is one for each worker.
 */
static bool may_go_on(teff__catalog *catalog, teff__message *message)
{
    const bool astray = teff__address_tag_of(message->address) == catalog->tag &&
                        (message->flags & TEFF__MESSAGE_HINT) == 0;
    if (!astray || message->hops++ < TEFF__MESSAGE_HOPS_MAX + catalog->exchange->workers_count)
        return true;
    teff__dispatch_refuse(
        catalog, message, TEFF_EREJECTED,
        "Forwarding failed: the grain moved each time the call came to where it was");
    return false;
}

/* Forwards along the route, behind all that this worker sent or forwarded by it before. */
static void forward(teff__catalog *catalog, teff__route *route, teff__message *message)
{
    if (may_go_on(catalog, message))
        teff__dispatch_by_route(catalog, route, message);
}

/* Who sent it here by an address of this worker wants it here; what comes through is placed. */
static teff__resolve_at where_to_make(const teff__catalog *catalog, const teff__message *message)
{
    return message->kind == TEFF__MESSAGE_PROBE ? TEFF__RESOLVE_FOUND
           : teff__address_tag_of(message->address) == catalog->tag &&
                   (message->flags & TEFF__MESSAGE_HINT) == 0
               ? TEFF__RESOLVE_HERE
               : TEFF__RESOLVE_PLACED;
}

/* Nothing leads further: finds the grain, or makes it. */
static void arrived_unknown(teff__catalog *catalog, const teff__grain_id *id,
                            teff__message *message)
{
    uint64_t address, name;
    teff__route *route;
    int r = teff__resolve(catalog, id, message, where_to_make(catalog, message), &address);
    if (r == TEFF__LOCATOR_LATER)
        return;
    if (r != 0 || address == 0) {
        /* a probe makes no activation: it finds that there is none */
        teff__dispatch_refuse(catalog, message, r, teff__dispatch_why(catalog, r));
        return;
    }
    teff__activation *activation = teff__catalog_own(catalog, address);
    if (activation != NULL) {
        take_in(catalog, activation, message, true);
        return;
    }
    if (!may_go_on(catalog, message))
        return;
    route = teff__routes_find(&catalog->routes, id->hash, id->type->id, id->key, &name);
    if (route != NULL) { /* it was to be here, and another worker was quicker */
        teff__dispatch_by_route(catalog, route, message);
        return;
    }
    r = send_first(catalog, id, address, message, &route);
    if (r != 0)
        teff__dispatch_refuse(catalog, message, r, NULL);
}

/* What the directory says at once; 0: nothing. */
static uint64_t registered(const teff__catalog *catalog, const teff__grain_id *id)
{
    uint64_t address;
    return teff__locator_find(&catalog->grains->locator, id->hash, id->type->id, id->key,
                              &address) == 0
               ? address
               : 0;
}

/*
 * Whether this worker is to have the grain, though it has a route: it was placed here, or the
 * directory says so, and forwarding would lead back for ever.
 */
static bool is_to_be_here(const teff__catalog *catalog, const teff__grain_id *id,
                          const teff__message *message)
{
    const uint64_t address = is_placed(message)  ? message->address
                             : message->hops > 0 ? registered(catalog, id)
                                                 : 0;
    return teff__address_tag_of(address) == catalog->tag;
}

/*
 * A message for a grain to which this worker has a route that waits. What the worker sent by it may
 * come back, if the grain has come to live here: that, and the probe behind it, wait no more.
 */
static void arrived_meanwhile(teff__catalog *catalog, teff__route *route, const teff__grain_id *id,
                              teff__message *message)
{
    const bool probe = message->kind == TEFF__MESSAGE_PROBE &&
                       message->correlation == teff__route_name(&catalog->routes, route);
    const uint64_t address =
        probe || message->hops > 0 || is_placed(message) ? registered(catalog, id) : 0;
    teff__activation *activation = teff__catalog_own(catalog, address);
    if (probe) {
        message->address = address;
        teff__dispatch_probed(catalog, message);
    } else if (activation != NULL) {
        take_in(catalog, activation, message, true);
    } else if (is_placed(message) &&
               (address == 0 || teff__address_tag_of(address) == catalog->tag)) {
        arrived_unknown(catalog, id, message); /* nobody else will make it */
    } else if (message->kind == TEFF__MESSAGE_PROBE && route->wait->messages.head == NULL &&
               route->wait->address != 0) {
        /* Nothing that it is behind waits here. It must not either: that probe may wait for it. */
        if (may_go_on(catalog, message))
            post_request(catalog, message, route->wait->address, id->type, id->key);
    } else {
        forward(catalog, route, message);
    }
}

/* A call to a stateless worker. Its members may all go from here each time that it comes. */
static void arrived_stateless(teff__catalog *catalog, const teff__grain_id *id,
                              teff__message *message)
{
    int r = TEFF_EREJECTED;
    if (message->hops++ < TEFF__MESSAGE_HOPS_MAX + catalog->exchange->workers_count)
        r = send_stateless(catalog, id, message);
    if (r != 0)
        teff__dispatch_refuse(catalog, message, r,
                              r == TEFF_ENOMEM        ? teff__no_instance
                              : r == TEFF_EOVERLOADED ? "the grain's mailbox is full"
                              : r == TEFF_EREJECTED
                                  ? "Forwarding failed: those who could have served it had gone"
                                  : NULL);
}

/* The address that the message was sent to names no activation of that grain here. */
static void arrived_astray(teff__catalog *catalog, teff__message *message)
{
    const teff__type *type = teff__dispatch_type(catalog->grains, teff__message_to(message));
    if (type == NULL) {
        teff__dispatch_refuse(catalog, message, TEFF_EINVAL, "no such grain type");
        return;
    }
    const teff_key *key = &teff__message_to(message)->key;
    const teff__grain_id id = { type, key, teff__key_hash(&catalog->grains->seed, type->id, key) };
    if (teff__cancel_refuses(message)) { /* goes no further, and makes no activation */
        if (is_placed(message))
            teff__locator_unplace(&catalog->grains->locator, id.hash, type->id, key,
                                  catalog->worker.index);
        teff__dispatch_refuse(catalog, message, TEFF_ECANCELED, NULL);
        return;
    }
    if (TEFF__UNLIKELY(teff__type_is_stateless(type))) {
        arrived_stateless(catalog, &id, message);
        return;
    }
    uint64_t name;
    teff__route *route = teff__routes_find(&catalog->routes, id.hash, type->id, key, &name);
    if (route == NULL) {
        arrived_unknown(catalog, &id, message);
    } else if (teff__route_waits(route)) {
        arrived_meanwhile(catalog, route, &id, message);
    } else if (is_to_be_here(catalog, &id, message)) {
        (void)begin_switch(catalog, route); /* what went by it comes back, or finds out */
        arrived_unknown(catalog, &id, message);
    } else {
        forward(catalog, route, message);
    }
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

void teff__dispatch_again(teff__catalog *catalog, const teff__activation *from,
                          teff__message *message)
{
    leave_place(message);
    message->address = 0;
    message->flags &= (uint8_t)~TEFF__MESSAGE_HINT;
    teff__message_address_to(message, &from->type->def.name, &from->record.key);
    teff__dispatch_arrived(catalog, message);
}

/* --- Switching ----------------------------------------------------------------------------- */

bool teff__dispatch_let_go(void *of, teff__route *route)
{
    teff__catalog *catalog = of;
    if (!begin_switch(catalog, route))
        return true;
    route->wait->leaving = true;
    return false;
}

void teff__dispatch_go_on(teff__catalog *catalog, teff__route *route, uint64_t address)
{
    /* It lives here, or nowhere: look again. Or nobody needs the way any more. */
    const bool here = address == 0 || teff__address_tag_of(address) == catalog->tag;
    const bool needed = !here && catalog->routes.capacity != 0 &&
                        (route->wait->messages.head != NULL || !route->wait->leaving);
    teff__queue waiting;
    teff__routes_go_on(&catalog->routes, route, needed ? address : 0, &waiting);
    for (teff__link *link; (link = teff__queue_pop(&waiting)) != NULL;) {
        teff__message *message = (teff__message *)link;
        message->address = address;
        message->flags &= (uint8_t)~TEFF__MESSAGE_HINT;
        if (here)
            teff__dispatch_arrived(catalog, message);
        else
            teff__catalog_post(catalog, teff__address_worker(address), message);
    }
}

void teff__dispatch_probed(teff__catalog *catalog, teff__message *probe)
{
    teff__route *route = teff__routes_peek(&catalog->routes, probe->correlation);
    const uint64_t address = probe->address;
    teff__postbox_drop(&catalog->postbox, probe);
    teff_assert(route != NULL && teff__route_waits(route)); /* one that waits is never removed */
    teff__dispatch_go_on(catalog, route, address);
}

void teff__dispatch_answered(teff__catalog *catalog, teff_ref *to, uint64_t address)
{
    teff__route *route = hinted_route(catalog, to);
    if (route == NULL && teff__address_tag_of(address) == catalog->tag)
        to->route = address;
    if (route != NULL && address != 0 && !teff__route_waits(route) && route->address != address)
        (void)begin_switch(catalog, route); /* or the next answer tries again */
}
