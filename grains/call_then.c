/* SPDX-License-Identifier: MIT */
/*
 * Calls with a completion function.
 */
#include "grains/complete.h"
#include "grains/request.h"
#include "grains/task.h"
#include "grains/turn.h"

#include "teff/status.h"

/* Whose completion it is. TEFF_ENOMEM. */
static int adopt(teff_caller *caller, teff__completion *completion)
{
    if (teff__caller_outside(caller)) {
        teff__ring_push_back(&teff__client_of(caller)->completions, &completion->ring);
        return 0;
    }
    teff__catalog *catalog = caller->home;
    if (caller->kind == TEFF__CALLER_TASK) {
        completion->life = teff__task_life_ref((teff__task_caller *)(void *)caller);
        if (completion->life == NULL)
            return TEFF_ENOMEM;
    } else {
        completion->message.address =
            teff__activation_address(((teff__turn *)(void *)caller)->activation);
    }
    teff__ring_push_back(&catalog->completions, &completion->ring);
    return 0;
}

static void disown(teff_caller *caller, teff__completion *completion)
{
    teff__ring_remove(&completion->ring);
    if (!teff__caller_outside(caller))
        teff__task_life_unref(caller->home, completion->life);
    teff__postbox_drop(teff__caller_postbox(caller), &completion->message);
}

/* A one-way request has been sent: its completion is due at once, but not inside the call. */
static void complete_sent(teff_caller *caller, teff__completion *completion)
{
    if (!teff__caller_outside(caller)) {
        teff__complete(caller->home, completion);
        return;
    }
    teff__client *client = caller->home;
    teff__queue_push(&client->ready, &completion->message.link);
    teff__client_opened(client);
}

int teff_call_then(teff_caller *caller, teff_ref *to, const teff_interface *of, uint32_t number,
                   const void *argument, teff_thunk *thunk, teff__any *done, void *user)
{
    if (caller == NULL)
        return TEFF_EINVAL;
    int r = teff__call_check(caller, to, of, number);
    if (r == 0 && (thunk == NULL || done == NULL))
        r = TEFF_EINVAL;
    if (r != 0)
        return teff__call_refused(caller, r);
    const teff_method *method = &of->methods[number];
    teff__completion *completion =
        teff__completion_take(teff__caller_postbox(caller), thunk, done, user, method);
    if (completion == NULL)
        return teff__caller_fail(caller, TEFF_ENOMEM, false, method, NULL);
    completion->message.deadline_ns = caller->deadline_ns; /* see messaging/deadline.h */
    r = adopt(caller, completion);
    if (r != 0) {
        disown(caller, completion);
        return teff__caller_fail(caller, r, false, method, NULL);
    }
    teff__request request = { .caller = caller,
                              .to = to,
                              .of = of,
                              .number = number,
                              .argument = argument,
                              .one_way = (method->options & TEFF_ONE_WAY) != 0,
                              .flags = TEFF__CALLBACK_THEN,
                              .completion = completion };
    r = teff__request_send(&request);
    if (r != 0) {
        disown(caller, completion);
        return r;
    }
    if (request.one_way)
        complete_sent(caller, completion);
    return teff__caller_succeed(caller, method);
}
