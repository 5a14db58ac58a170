/* SPDX-License-Identifier: MIT */
#include "grains/observer.h"

#include "grains/turn.h"
#include "messaging/deadline.h"

#include "teff/status.h"

/* As many as one client can want; a list that long is a leak. */
enum { OBSERVERS_MAX = 65536 };

const teff_name teff__observer_type = { "(observer)" };

typedef struct observer {
    const teff_handlers *handlers;
    void *self;
} observer;

/* A key's parts. */
typedef struct name {
    uint32_t nonce, client, stripe, slot, generation;
} name;

enum { STRIPE_SHIFT = TEFF__SLOT_BITS + TEFF__SLOT_GENERATION_BITS };
_Static_assert(STRIPE_SHIFT + TEFF__STRIPE_BITS <= 64, "the lower half of a key names an observer");

static teff_key key_of(const name *from)
{
    return teff_key_u128((uint64_t)from->nonce << 32 | from->client,
                         (uint64_t)from->stripe << STRIPE_SHIFT |
                             (uint64_t)from->generation << TEFF__SLOT_BITS | from->slot);
}

/* False: no key of an observer's. */
static bool name_of(const teff_key *key, name *ret)
{
    uint64_t high = 0, low = 0;
    if (key->kind != TEFF_KEY_U128 || !teff__key_valid(key))
        return false;
    for (unsigned i = 0; i < 8; i++) {
        low |= (uint64_t)(uint8_t)key->bytes[i] << 8 * i;
        high |= (uint64_t)(uint8_t)key->bytes[8 + i] << 8 * i;
    }
    ret->nonce = (uint32_t)(high >> 32);
    ret->client = (uint32_t)high;
    ret->stripe = (uint32_t)(low >> STRIPE_SHIFT);
    ret->generation = (uint32_t)(low >> TEFF__SLOT_BITS) & ((1U << TEFF__SLOT_GENERATION_BITS) - 1);
    ret->slot = (uint32_t)low & ((1U << TEFF__SLOT_BITS) - 1);
    return ret->stripe >= TEFF__STRIPES_WORKERS && ret->stripe < TEFF__STRIPES;
}

/* The observer that the key names, of this client; NULL: it is gone, or another's. */
static observer *find(const teff__client *client, const teff_key *key, name *ret)
{
    if (!name_of(key, ret) || ret->nonce != client->exchange->nonce ||
        ret->client != client->number)
        return NULL;
    return teff__slotmap_get(&client->observers, ret->slot, ret->generation);
}

static int client_of(teff_client *caller, teff__client **ret)
{
    if (caller == NULL)
        return TEFF_EINVAL;
    if (caller->kind != TEFF__CALLER_CLIENT && caller->kind != TEFF__CALLER_OBSERVER)
        return TEFF_EINVALIDSTATE;
    *ret = teff__client_of(caller);
    return teff__client_check(*ret);
}

int teff_observer_begin(teff_client *caller, const teff_handlers *handlers, void *self,
                        teff_ref *ret)
{
    teff__client *client;
    if (caller == NULL || handlers == NULL || self == NULL || ret == NULL ||
        teff__handlers_wrong(handlers) != NULL)
        return TEFF_EINVAL;
    int r = client_of(caller, &client);
    if (r != 0)
        return r;
    if (teff__atomic_u32_load_acquire(&client->stripe->gate) != 0)
        return TEFF_EINVALIDSTATE;
    if (client->observers.count == OBSERVERS_MAX)
        return TEFF_ELIMIT;
    teff__exchange *exchange = client->exchange;
    observer *made = teff__memory_alloc(exchange->memory, sizeof(*made));
    if (made == NULL)
        return TEFF_ENOMEM;
    name named = { .nonce = exchange->nonce,
                   .client = client->number,
                   .stripe = (uint32_t)(client->stripe - exchange->registry.stripes) };
    r = teff__slotmap_add(&client->observers, made, &named.slot, &named.generation);
    if (r != 0) {
        teff__memory_free(exchange->memory, made, sizeof(*made));
        return r;
    }
    made->handlers = handlers;
    made->self = self;
    *ret = (teff_ref){ .type = &teff__observer_type, .key = key_of(&named) };
    teff__client_opened(client);
    return 0;
}

static void observer_free(teff__client *client, observer *ended, const name *named)
{
    teff__slotmap_remove(&client->observers, named->slot, named->generation);
    teff__memory_free(client->exchange->memory, ended, sizeof(*ended));
}

int teff_observer_end(teff_client *caller, const teff_ref *reference)
{
    teff__client *client;
    name named;
    if (reference == NULL)
        return TEFF_EINVAL;
    const int r = client_of(caller, &client);
    if (r != 0)
        return r;
    observer *ended = teff__observer_is(reference) ? find(client, &reference->key, &named) : NULL;
    if (ended == NULL)
        return TEFF_EGONE;
    observer_free(client, ended, &named);
    teff__client_opened(client); /* its loop may have nothing to wait for now */
    return 0;
}

void teff__observers_end(teff__client *client)
{
    observer *ended;
    for (uint32_t slot = 0; (ended = teff__slotmap_next(&client->observers, &slot)) != NULL;)
        teff__memory_free(client->exchange->memory, ended, sizeof(*ended));
}

uint64_t teff__observer_target(const teff_ref *to)
{
    name named;
    return name_of(&to->key, &named) ? named.stripe : 0;
}

int teff__observer_send(teff__exchange *exchange, const teff_ref *to, teff__message *message)
{
    name named;
    if (!name_of(&to->key, &named))
        return TEFF_EINVAL;
    if (named.nonce != exchange->nonce)
        return TEFF_EGONE; /* another silo's, perhaps of another time */
    teff__message_address_to(message, &teff__observer_type, &to->key);
    return teff__client_post(exchange, named.stripe, message) ? 0 : TEFF_EGONE;
}

/* Why the request gets no turn, or 0. */
static int refusal(teff__client *client, const observer *called, teff__message *message,
                   const char **ret_text)
{
    *ret_text = NULL;
    if (called == NULL) {
        *ret_text = "the observer has ended";
        return TEFF_EGONE;
    }
    const int64_t now_ns = teff__clock_now_ns(&client->exchange->clock);
    teff__client_look(client);
    if ((message->deadline_ns <= now_ns || message->deadline_ns <= client->moved_ns) &&
        teff__message_expired(&client->exchange->registry, message, now_ns))
        return TEFF_ETIMEDOUT;
    if (!teff__interface_same(called->handlers->of, message->of)) {
        *ret_text = "the observer does not implement that interface";
        return TEFF_EINVAL;
    }
    return 0;
}

void teff__observer_run(teff__client *client, teff__message *message)
{
    name named;
    const char *text;
    const observer *called = find(client, &teff__message_to(message)->key, &named);
    const int refused = refusal(client, called, message, &text);
    if (refused != 0) {
        teff__exchange_reject(client->exchange, message, refused, text);
        return;
    }
    const teff_method *method = &message->of->methods[message->method];
    _Alignas(16) char result[TEFF_VALUE_MAX];
    teff__turn turn;
    teff__turn_begin_observer(&turn, client, teff__message_to(message), message,
                              message->deadline_ns);
    teff__value_clear(result, method->ret_size);
    if ((message->flags & (TEFF__MESSAGE_BUFFERS | TEFF__MESSAGE_UNDER)) != 0 &&
        !teff__turn_hold(&turn, message, result)) {
        teff__exchange_reject(client->exchange, message, TEFF_ECANCELED, NULL);
        return;
    }
    message->flags |= TEFF__MESSAGE_MAY_HAVE_RUN;
    int code = called->handlers->table[message->method](&turn.caller, called->self,
                                                        teff__message_value(message), result);
    code = teff__turn_end(&turn, code);
    if (code != 0)
        teff__turn_answer_failure(&turn, message, code);
    else
        teff__value_copy(teff__message_value(message), result, method->ret_size);
    teff__message_answer(message, code, 0);
    teff__exchange_respond(client->exchange, message);
}
