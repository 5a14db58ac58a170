/* SPDX-License-Identifier: MIT */
/*
 * The awaited call and the one-way send.
 *
 * The awaited call of a turn or task is the path that everything else is measured by: take a
 * message and a callback, fill them in, put the request into the grain's mailbox, suspend; and when
 * the answer has settled the callback, copy the result out of the same message and give it back.
 */
#include "grains/call.h"

#include "grains/dispatch.h"

#include "teff/status.h"

/* What a caller asks for, checked. */
static inline int check_call(const teff_caller *caller, const teff_ref *to,
                             const teff_interface *of, uint32_t number)
{
    /* first: only the caller's thread may note an outcome */
    const int r = teff__caller_check(caller);
    if (TEFF__UNLIKELY(r == 0 && (to == NULL || of == NULL || number >= of->count)))
        return TEFF_EINVAL;
    return r;
}

static inline void put_argument(teff__message *message, const teff_method *method,
                                const void *argument)
{
    if (argument != NULL)
        teff__value_copy(teff__message_value(message), argument, method->arg_size);
    else
        memset(teff__message_value(message), 0, method->arg_size);
}

/* Takes the answer of a settled call apart: result or failure. Drops it. */
static inline int take_answer(teff_caller *caller, teff__postbox *postbox,
                              const teff_method *method, teff__message *answer, void *ret)
{
    const int code = answer->code;
    if (TEFF__LIKELY(code == 0)) {
        if (ret != NULL)
            teff__value_copy(ret, teff__message_value(answer), method->ret_size);
        teff__caller_succeed(caller, method);
    } else {
        const bool may_have_run = (answer->flags & TEFF__MESSAGE_MAY_HAVE_RUN) != 0;
        (void)teff__caller_fail_copy(caller, code, may_have_run,
                                     answer->origin != NULL ? answer->origin : method,
                                     teff__message_text(answer));
    }
    teff__postbox_drop(postbox, answer);
    return code;
}

/* The call could not be sent: nothing of it is left. */
static int unsent(teff__catalog *catalog, teff_caller *caller, const teff_ref *to,
                  const teff_method *method, int code, teff__message *message)
{
    if (message->correlation != 0)
        (void)teff__stripe_settle(
            teff__registry_stripe(&catalog->exchange->registry, message->correlation),
            message->correlation);
    teff__postbox_drop(&catalog->postbox, message);
    return teff__caller_fail(caller, code, false, method,
                             code == TEFF_EINVAL   ? teff__dispatch_reason(to)
                             : code == TEFF_ENOMEM ? teff__no_instance
                                                   : NULL);
}

static int call_from_worker(teff_caller *caller, teff_ref *to, const teff_interface *of,
                            uint32_t number, const void *argument, void *ret)
{
    teff__catalog *catalog = caller->home;
    const teff_method *method = &of->methods[number];
    int64_t deadline_ns;
    uint32_t flags;
    int r = teff__caller_deadline(caller, method, catalog->worker.now_ns,
                                  &catalog->grains->defaults, &deadline_ns, &flags);
    if (TEFF__UNLIKELY(r != 0))
        return teff__caller_fail(caller, r, false, method, NULL);
    if (TEFF__UNLIKELY(catalog->gate_closed))
        return teff__caller_fail(caller, TEFF_EUNAVAILABLE, false, method, NULL);

    teff__callback *callback;
    teff__message *message;
    r = teff__worker_reserve(&catalog->worker);
    if (TEFF__UNLIKELY(r != 0))
        return teff__caller_fail(caller, r, false, method, NULL);
    message = teff__postbox_take(&catalog->postbox, of, number);
    if (TEFF__UNLIKELY(message == NULL))
        return teff__caller_fail(caller, teff__postbox_refusal(method), false, method, NULL);
    r = teff__catalog_take_callback(catalog, &callback);
    if (TEFF__UNLIKELY(r != 0)) {
        teff__postbox_drop(&catalog->postbox, message);
        return teff__caller_fail(caller, r, false, method, NULL);
    }
    teff__await await;
    message->correlation = teff__stripe_open(catalog->stripe, callback, &await, deadline_ns, flags);
    message->deadline_ns = deadline_ns;
    put_argument(message, method, argument);
    r = teff__catalog_send(catalog, to, message);
    if (TEFF__UNLIKELY(r != 0))
        return unsent(catalog, caller, to, method, r, message);

    teff__catalog_suspend(catalog, &await.waiter);

    teff__message *answer = await.waiter.answer;
    if (TEFF__UNLIKELY(answer == NULL))
        return teff__caller_fail(caller, await.code, true, method, NULL);
    if (TEFF__UNLIKELY(answer->address != to->route))
        teff__dispatch_answered(catalog, to, answer->address);
    return take_answer(caller, &catalog->postbox, method, answer, ret);
}

/*
 * Fills in a client's request and posts it to the worker of the grain's hash, always: each of a
 * client's messages to one grain takes the same way, also when it comes by another reference, or
 * after a call that timed out.
 */
static void post_from_client(teff__client *client, const teff__grains *grains,
                             const teff__type *type, const teff_ref *to, teff__message *message)
{
    const uint64_t hash = teff__key_hash(&grains->seed, type->id, &to->key);
    message->address = to->route;
    message->flags = TEFF__MESSAGE_HINT;
    teff__message_address_to(message, &type->def.name, &to->key);
    teff__exchange_post(client->exchange, (uint32_t)(hash % client->exchange->workers_count),
                        message);
}

/* What a client's request needs, up to the argument. */
static int prepare_from_client(teff__client *client, teff_ref *to, const teff_interface *of,
                               uint32_t number, const void *argument, const teff__type **ret_type,
                               teff__message **ret)
{
    teff__grains *grains = teff__silo_grains(client->exchange->silo);
    const teff_method *method = &of->methods[number];
    int64_t deadline_ns;
    uint32_t flags;
    const int r =
        teff__caller_deadline(&client->caller, method, teff__clock_now_ns(&client->exchange->clock),
                              &grains->defaults, &deadline_ns, &flags);
    if (r != 0)
        return teff__caller_fail(&client->caller, r, false, method, NULL);
    *ret_type = teff__dispatch_type(grains, to);
    if (*ret_type == NULL)
        return teff__caller_fail(&client->caller, TEFF_EINVAL, false, method,
                                 teff__dispatch_reason(to));
    teff__message *message = teff__postbox_take(client->postbox, of, number);
    if (message == NULL)
        return teff__caller_fail(&client->caller, teff__postbox_refusal(method), false, method,
                                 NULL);
    message->correlation = 0;
    message->deadline_ns = deadline_ns;
    put_argument(message, method, argument);
    *ret = message;
    return 0;
}

static int call_from_client(teff__client *client, teff_ref *to, const teff_interface *of,
                            uint32_t number, const void *argument, void *ret)
{
    const teff_method *method = &of->methods[number];
    const teff__type *type;
    teff__message *message;
    bool sendable;
    int r = prepare_from_client(client, to, of, number, argument, &type, &message);
    if (r != 0)
        return r;
    uint64_t id;
    r = teff__client_open(client, message->deadline_ns, 0, &id, &sendable);
    if (r != 0) {
        teff__postbox_drop(client->postbox, message);
        return teff__caller_fail(&client->caller, r, false, method, NULL);
    }
    message->correlation = id;
    if (sendable)
        post_from_client(client, teff__silo_grains(client->exchange->silo), type, to, message);
    else
        teff__postbox_drop(client->postbox, message);

    teff__message *answer;
    r = teff__client_wait(client, id, &answer);
    if (answer == NULL)
        return teff__caller_fail(&client->caller, r, sendable, method, NULL);
    if (answer->address != 0)
        to->route = answer->address;
    return take_answer(&client->caller, client->postbox, method, answer, ret);
}

int teff_call(teff_caller *caller, teff_ref *to, const teff_interface *of, uint32_t number,
              const void *argument, void *ret)
{
    if (TEFF__UNLIKELY(caller == NULL))
        return TEFF_EINVAL;
    const int r = check_call(caller, to, of, number);
    if (TEFF__UNLIKELY(r != 0))
        return r == TEFF_EINVALIDSTATE ? r : teff__caller_fail(caller, r, false, NULL, NULL);
    if (TEFF__UNLIKELY(of->methods[number].options & TEFF_ONE_WAY))
        return teff_call_send(caller, to, of, number, argument);
    if (TEFF__LIKELY(caller->kind != TEFF__CALLER_CLIENT))
        return call_from_worker(caller, to, of, number, argument, ret);
    return call_from_client(teff__client_of(caller), to, of, number, argument, ret);
}

static int send_from_worker(teff_caller *caller, teff_ref *to, const teff_interface *of,
                            uint32_t number, const void *argument)
{
    teff__catalog *catalog = caller->home;
    const teff_method *method = &of->methods[number];
    if (caller->next & TEFF__NEXT_INVALID)
        return teff__caller_fail(caller, TEFF_EINVAL, false, method, NULL);
    caller->next = 0;
    if (catalog->gate_closed)
        return teff__caller_fail(caller, TEFF_EUNAVAILABLE, false, method, NULL);
    teff__message *message = teff__postbox_take(&catalog->postbox, of, number);
    if (message == NULL)
        return teff__caller_fail(caller, teff__postbox_refusal(method), false, method, NULL);
    message->correlation = 0;
    message->deadline_ns = INT64_MAX;
    put_argument(message, method, argument);
    const int r = teff__catalog_send(catalog, to, message);
    if (r != 0)
        return unsent(catalog, caller, to, method, r, message);
    return teff__caller_succeed(caller, method);
}

static int send_from_client(teff__client *client, teff_ref *to, const teff_interface *of,
                            uint32_t number, const void *argument)
{
    const teff_method *method = &of->methods[number];
    const teff__type *type;
    teff__message *message;
    const int r = prepare_from_client(client, to, of, number, argument, &type, &message);
    if (r != 0)
        return r;
    message->deadline_ns = INT64_MAX;
    if (teff__atomic_u32_load_acquire(&client->stripe->gate) != 0) {
        teff__postbox_drop(client->postbox, message);
        return teff__caller_fail(&client->caller, TEFF_EUNAVAILABLE, false, method, NULL);
    }
    post_from_client(client, teff__silo_grains(client->exchange->silo), type, to, message);
    return teff__caller_succeed(&client->caller, method);
}

int teff_call_send(teff_caller *caller, teff_ref *to, const teff_interface *of, uint32_t number,
                   const void *argument)
{
    if (caller == NULL)
        return TEFF_EINVAL;
    const int r = check_call(caller, to, of, number);
    if (r != 0)
        return r == TEFF_EINVALIDSTATE ? r : teff__caller_fail(caller, r, false, NULL, NULL);
    return caller->kind == TEFF__CALLER_CLIENT
               ? send_from_client(teff__client_of(caller), to, of, number, argument)
               : send_from_worker(caller, to, of, number, argument);
}

int64_t teff_now_ns(const teff_caller *caller)
{
    if (caller == NULL)
        return 0;
    return teff__clock_now_ns(&teff__caller_exchange((teff_caller *)(uintptr_t)caller)->clock);
}
