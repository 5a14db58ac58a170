/* SPDX-License-Identifier: MIT */
/*
 * The awaited call and the one-way send.
 *
 * The plain awaited call of a turn or task is the path that everything else is measured by: take a
 * message and a callback, fill them in, put the request into the grain's mailbox, suspend; and when
 * the answer has settled the callback, copy the result out of the same message and give it back.
 */
#include "grains/call.h"

#include "grains/dispatch.h"
#include "grains/request.h"

#include "teff/status.h"

int teff__call_take_slow(teff_caller *caller, teff__postbox *postbox, const teff_method *method,
                         teff__message *answer)
{
    const int code = answer->code;
    if (code == 0)
        (void)teff__caller_succeed(caller, method);
    else
        (void)teff__caller_fail_copy(
            caller, code, (answer->flags & TEFF__MESSAGE_MAY_HAVE_RUN) != 0,
            answer->origin != NULL ? answer->origin : method, teff__message_text(answer));
    teff__postbox_drop(postbox, answer);
    return code;
}

/* The call has been sent: suspends until it is settled, and takes the answer. */
TEFF__HOT_INLINE int await_answer(teff__catalog *catalog, teff_caller *caller, teff_ref *to,
                                  const teff_method *method, teff__await *await, void *ret)
{
    teff__catalog_suspend(catalog, &await->waiter);

    teff__message *answer = await->waiter.answer;
    if (TEFF__UNLIKELY(answer == NULL))
        return teff__caller_fail(caller, await->code, true, method, NULL);
    if (TEFF__UNLIKELY(answer->address != to->route))
        teff__dispatch_answered(catalog, to, answer->address);
    return teff__call_take_answer(caller, &catalog->postbox, method, answer, ret);
}

TEFF__HOT_INLINE int call_plain(teff_caller *caller, teff_ref *to, const teff_interface *of,
                                uint32_t number, const void *argument, void *ret, bool bytes)
{
    teff__catalog *catalog = caller->home;
    const teff_method *method = &of->methods[number];
    teff__await await;
    uint64_t id = 0;
    await.caller = caller;
    int r = teff__worker_reserve(&catalog->worker);
    if (TEFF__UNLIKELY(r != 0))
        return teff__caller_fail(caller, r, false, method, NULL);
    r = teff__request_plain(caller, to, of, number, argument, &await, false, bytes, &id);
    return TEFF__LIKELY(r == 0) ? await_answer(catalog, caller, to, method, &await, ret) : r;
}

static int call_with_bytes(teff_caller *caller, teff_ref *to, const teff_interface *of,
                           uint32_t number, const void *argument, void *ret)
{
    return call_plain(caller, to, of, number, argument, ret, true);
}

/* A turn's or task's call with options. */
__attribute__((noinline)) static int call_from_worker(teff__request *request, void *ret)
{
    teff__catalog *catalog = request->caller->home;
    const teff_method *method = &request->of->methods[request->number];
    teff__await await = { .caller = request->caller };
    int r = teff__worker_reserve(&catalog->worker);
    if (r != 0)
        return teff__caller_fail(request->caller, r, false, method, NULL);
    request->waiter = &await;
    r = teff__request_send(request);
    return r != 0 ? r : await_answer(catalog, request->caller, request->to, method, &await, ret);
}

__attribute__((noinline)) static int call_from_client(teff__request *request, void *ret)
{
    teff__client *client = request->caller->home;
    const teff_method *method = &request->of->methods[request->number];
    int r = teff__caller_may_wait(request->caller);
    if (r != 0)
        return teff__caller_fail(request->caller, r, false, method, NULL);
    r = teff__request_send(request);
    if (r != 0)
        return r;
    teff__client_wait(client, request->id);
    teff__message *answer;
    r = teff__client_free(client, request->id, &answer);
    if (answer == NULL)
        return teff__caller_fail(request->caller, r, true, method, NULL);
    if (answer->address != 0)
        request->to->route = answer->address;
    teff__client_remember(client, teff__stripe_target(client->stripe, request->id), answer);
    return teff__call_take_answer(request->caller, client->postbox, method, answer, ret);
}

int teff_call(teff_caller *caller, teff_ref *to, const teff_interface *of, uint32_t number,
              const void *argument, void *ret)
{
    if (TEFF__UNLIKELY(caller == NULL))
        return TEFF_EINVAL;
    const int r = teff__call_check(caller, to, of, number);
    if (TEFF__UNLIKELY(r != 0))
        return teff__call_refused(caller, r);
    const teff_method *method = &of->methods[number];
    if (TEFF__LIKELY(!teff__caller_outside(caller) && teff__caller_plain(caller, method)))
        return call_plain(caller, to, of, number, argument, ret, false);
    if (!teff__caller_outside(caller) && teff__caller_plain_bytes(caller, method))
        return call_with_bytes(caller, to, of, number, argument, ret);
    if (method->options & TEFF_ONE_WAY)
        return teff_call_send(caller, to, of, number, argument);
    teff__request request = {
        .caller = caller, .to = to, .of = of, .number = number, .argument = argument
    };
    return teff__caller_outside(caller) ? call_from_client(&request, ret)
                                        : call_from_worker(&request, ret);
}

/* A turn's or task's one-way message without options or buffers. */
static int send_plain(teff_caller *caller, teff_ref *to, const teff_interface *of, uint32_t number,
                      const void *argument)
{
    teff__catalog *catalog = caller->home;
    const teff_method *method = &of->methods[number];
    if (TEFF__UNLIKELY(catalog->gate_closed))
        return teff__caller_fail(caller, TEFF_EUNAVAILABLE, false, method, NULL);
    teff__message *message = teff__postbox_take(&catalog->postbox, of, number);
    if (TEFF__UNLIKELY(message == NULL))
        return teff__caller_fail(caller, teff__postbox_refusal(method), false, method, NULL);
    message->correlation = 0;
    message->deadline_ns = INT64_MAX;
    teff__call_put_argument(message, method, argument);
    teff__activation *activation = teff__catalog_hinted(catalog, to);
    const int r = TEFF__LIKELY(activation != NULL)
                      ? teff__catalog_deliver(catalog, activation, message)
                      : teff__catalog_send_slow(catalog, to, message);
    if (TEFF__LIKELY(r == 0))
        return teff__caller_succeed(caller, method);
    teff__postbox_drop(&catalog->postbox, message);
    return teff__caller_fail(caller, r, false, method, teff__dispatch_text(caller, to, r));
}

int teff_call_send(teff_caller *caller, teff_ref *to, const teff_interface *of, uint32_t number,
                   const void *argument)
{
    if (TEFF__UNLIKELY(caller == NULL))
        return TEFF_EINVAL;
    int r = teff__call_check(caller, to, of, number);
    if (TEFF__UNLIKELY(r != 0))
        return teff__call_refused(caller, r);
    const teff_method *method = &of->methods[number];
    if (TEFF__LIKELY(!teff__caller_outside(caller) && caller->next == 0 &&
                     !teff__method_has_bytes(method)))
        return send_plain(caller, to, of, number, argument);
    teff__request request = { .caller = caller,
                              .to = to,
                              .of = of,
                              .number = number,
                              .argument = argument,
                              .one_way = true };
    r = teff__request_send(&request);
    return r != 0 ? r : teff__caller_succeed(caller, method);
}

int64_t teff_now_ns(const teff_caller *caller)
{
    if (caller == NULL)
        return 0;
    return teff__clock_now_ns(&teff__caller_exchange(caller)->clock);
}
