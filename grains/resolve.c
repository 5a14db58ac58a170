/* SPDX-License-Identifier: MIT */
#include "grains/resolve.h"

#include "grains/activate.h"
#include "grains/dispatch.h"
#include "grains/place.h"

#include "teff/status.h"

static const char unasked[] = "the grain directory could not be asked";

/* A question under way, and what it is for. */
typedef struct resolution {
    teff__locator_ask ask;  /* first */
    uint64_t route;         /* the name of the one where messages wait */
    teff__activation *made; /* ENTER: the activation that is to be registered */
    uint8_t at;             /* teff__resolve_at */
    uint8_t place;          /* what the first message's call asked for */
} resolution;

_Static_assert(offsetof(resolution, ask) == 0 && offsetof(teff__locator_ask, message) == 0,
               "its message is what is posted and freed");

static void resolution_init(const teff__catalog *catalog, resolution *one, const teff__grain_id *id)
{
    one->ask.message.kind = TEFF__MESSAGE_LOCATED;
    one->ask.message.size_class = TEFF__MESSAGE_HEAP;
    one->ask.message.heap_bytes = sizeof(*one);
    one->ask.worker = catalog->worker.index;
    one->ask.grain.key = *id->key;
    one->ask.grain.type = id->type->id;
    one->ask.grain.hash = id->hash;
}

static void resolution_free(teff__catalog *catalog, resolution *one)
{
    teff__memory_free(catalog->exchange->memory, one, sizeof(*one));
}

static void ask(teff__catalog *catalog, resolution *one, teff__locator_op op)
{
    one->ask.op = op;
    if (one->made != NULL)
        one->ask.grain.address = one->made->record.address;
    teff__locator_ask_for(&catalog->grains->locator, &one->ask);
}

/* --- At once ------------------------------------------------------------------------------- */

/*
 * What comes after the directory knew of no living activation: *ret_address is then 0, dead, or of
 * a worker where one is to be made. LATER: *ret_made is to be
 * registered.
 */
static int place(teff__catalog *catalog, const teff__grain_id *id, teff__resolve_at at,
                 uint32_t wanted, uint64_t *ret_address, teff__activation **ret_made)
{
    const teff__locator *locator = &catalog->grains->locator;
    const uint32_t own = catalog->worker.index;
    const bool placed = *ret_address == teff__address_placed(own);
    *ret_address = 0;
    if (at == TEFF__RESOLVE_FOUND)
        return 0;
    if (at == TEFF__RESOLVE_PLACED && !placed) {
        const uint32_t worker = teff__place(catalog, id->type, id->hash, wanted);
        if (worker != own) {
            const int r =
                teff__locator_place(locator, id->hash, id->type->id, id->key, worker, ret_address);
            if (r != 0 || *ret_address != teff__address_placed(own))
                return r;
        }
    }
    const int r =
        teff__activation_create(catalog, id->type, id->key, id->hash, ret_address, ret_made);
    if (r != 0 && r != TEFF__LOCATOR_LATER)
        teff__locator_unplace(locator, id->hash, id->type->id, id->key, own);
    return r;
}

/* A question that is yet to be asked, and the route where messages wait for the answer. */
static int begin(teff__catalog *catalog, const teff__grain_id *id, resolution **ret_one,
                 teff__route **ret_route)
{
    resolution *one = teff__memory_alloc(catalog->exchange->memory, sizeof(*one));
    if (one == NULL)
        return TEFF_ENOMEM;
    const int r =
        teff__routes_add_waiting(&catalog->routes, id->hash, id->type->id, id->key, ret_route);
    if (r != 0) {
        resolution_free(catalog, one);
        return r;
    }
    resolution_init(catalog, one, id);
    one->route = teff__route_name(&catalog->routes, *ret_route);
    *ret_one = one;
    return 0;
}

/* The message waits for the locator. `made`: what is to be registered, or NULL: it is to be found. */
static int wait(teff__catalog *catalog, const teff__grain_id *id, teff__message *message,
                teff__resolve_at at, teff__activation *made)
{
    teff__route *route;
    resolution *one;
    const int r = begin(catalog, id, &one, &route);
    if (r != 0)
        return r;
    one->made = made;
    one->at = (uint8_t)at;
    one->place = message->place;
    teff__dispatch_wait(catalog, route, message);
    ask(catalog, one, made != NULL ? TEFF__LOCATOR_ENTER : TEFF__LOCATOR_FIND);
    return TEFF__LOCATOR_LATER;
}

int teff__resolve(teff__catalog *catalog, const teff__grain_id *id, teff__message *message,
                  teff__resolve_at at, uint64_t *ret_address)
{
    teff__activation *made = NULL;
    int r =
        teff__locator_find(&catalog->grains->locator, id->hash, id->type->id, id->key, ret_address);
    if (r == 0 && (*ret_address == 0 || teff__catalog_is_dead(catalog, *ret_address)))
        r = place(catalog, id, at, message->place, ret_address, &made);
    if (TEFF__LIKELY(r != TEFF__LOCATOR_LATER))
        return r;
    uint64_t name;
    teff__route *route =
        teff__routes_find(&catalog->routes, id->hash, id->type->id, id->key, &name);
    if (route == NULL)
        r = wait(catalog, id, message, at, made);
    else /* it was to be here, and this worker has a route: better round about than out of order */
        teff__dispatch_by_route(catalog, route, message);
    if (made != NULL && (r != TEFF__LOCATOR_LATER || route != NULL))
        teff__activation_unmake(catalog, made, TEFF_DEACTIVATED_DIRECTORY);
    return r;
}

int teff__resolve_again(teff__catalog *catalog, teff__activation *activation, uint64_t previous)
{
    const teff__grain_id id = { activation->type, &activation->record.key,
                                activation->record.hash };
    teff__route *route;
    resolution *one;
    const int r = begin(catalog, &id, &one, &route);
    if (r != 0)
        return r;
    one->made = activation;
    one->at = TEFF__RESOLVE_HERE;
    one->ask.previous = previous;
    for (teff__link *link; (link = teff__queue_pop(&activation->mailbox)) != NULL;)
        teff__dispatch_wait(catalog, route, (teff__message *)link);
    activation->mail_count = 0;
    ask(catalog, one, TEFF__LOCATOR_ENTER);
    return 0;
}

/* --- Later --------------------------------------------------------------------------------- */

/* The grain could not be resolved: what waits is refused. */
static void fail(teff__catalog *catalog, resolution *one, int code)
{
    teff__queue mail;
    teff__routes_go_on(&catalog->routes, teff__routes_peek(&catalog->routes, one->route), 0, &mail);
    for (teff__link *link; (link = teff__queue_pop(&mail)) != NULL;)
        teff__dispatch_refuse(catalog, (teff__message *)link, code,
                              code == TEFF_EUNAVAILABLE ? unasked
                                                        : teff__dispatch_why(catalog, code));
    resolution_free(catalog, one);
}

static void found(teff__catalog *catalog, resolution *one, uint64_t address)
{
    teff__route *route = teff__routes_peek(&catalog->routes, one->route);
    resolution_free(catalog, one);
    teff__dispatch_go_on(catalog, route, address);
}

/* The answer to find: there; or it is to be made, here or elsewhere. */
static void answered_find(teff__catalog *catalog, resolution *one)
{
    uint64_t address = one->ask.address;
    const teff__grain_id id = { teff__types_by_id(&catalog->grains->types, one->ask.grain.type),
                                &one->ask.grain.key, one->ask.grain.hash };
    int r = 0;
    if (address == 0 || teff__catalog_is_dead(catalog, address))
        r = place(catalog, &id, (teff__resolve_at)one->at, one->place, &address, &one->made);
    if (r == TEFF__LOCATOR_LATER)
        ask(catalog, one, TEFF__LOCATOR_ENTER);
    else if (r != 0)
        fail(catalog, one, r);
    else
        found(catalog, one, address);
}

/* The answer to enter: valid; or another one is, and this one never runs. */
static void answered_enter(teff__catalog *catalog, resolution *one)
{
    teff__activation *made = one->made;
    const int code = one->ask.code;
    const uint64_t address = one->ask.address;
    if (code == 0 && address == made->record.address) {
        teff__activation_entered(catalog, made);
        found(catalog, one, address);
    } else if (code == 0 && teff__catalog_is_dead(catalog, address) &&
               one->ask.previous != address) {
        one->ask.previous = address;
        ask(catalog, one, TEFF__LOCATOR_ENTER);
    } else {
        teff__activation_unmake(
            catalog, made, code != 0 ? TEFF_DEACTIVATED_DIRECTORY : TEFF_DEACTIVATED_DUPLICATE);
        one->made = NULL;
        if (code != 0)
            fail(catalog, one, code);
        else
            found(catalog, one, address);
    }
}

void teff__resolve_answered(teff__catalog *catalog, teff__message *message)
{
    resolution *one = (resolution *)(void *)message;
    if (one->ask.op == TEFF__LOCATOR_LEAVE) {
        resolution_free(catalog, one); /* if it could not be told, what is dead there heals later */
    } else if (one->ask.op == TEFF__LOCATOR_ENTER) {
        answered_enter(catalog, one);
    } else if (one->ask.code != 0) {
        fail(catalog, one, one->ask.code);
    } else {
        answered_find(catalog, one);
    }
}

void teff__resolve_leave(teff__catalog *catalog, teff__activation *activation)
{
    const teff__grain_id id = { activation->type, &activation->record.key,
                                activation->record.hash };
    if (teff__locator_leave(&catalog->grains->locator, &activation->record) == 0)
        return;
    resolution *one = teff__memory_alloc(catalog->exchange->memory, sizeof(*one));
    if (one == NULL)
        return; /* the directory goes on naming what is dead here, until it is replaced */
    resolution_init(catalog, one, &id);
    one->ask.op = TEFF__LOCATOR_LEAVE;
    one->ask.grain.address = activation->record.address;
    teff__locator_ask_for(&catalog->grains->locator, &one->ask);
}
