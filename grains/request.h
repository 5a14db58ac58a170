/* SPDX-License-Identifier: MIT */
/*
 * Requests on their way out: the one piece of code behind every form of call and every kind of
 * caller (teff__request_send); and a short way for those of workers' calls for which nothing was
 * asked (teff__request_plain), which is where a call's nanoseconds are counted.
 *
 *     what was asked for ─► message ─► callback open ─► under its source ─► sent
 *
 * What fails is undone, and nothing of the call is left but the caller's outcome.
 *
 * Threads: the caller's.
 */
#ifndef TEFF_GRAINS_REQUEST_H
#define TEFF_GRAINS_REQUEST_H

#include "grains/call.h"
#include "messaging/completion.h"

typedef struct teff__request {
    teff_caller *caller;
    teff_ref *to;
    const teff_interface *of;
    uint32_t number;
    const void *argument;
    bool one_way;
    /* TEFF__CALLBACK_FUTURE or _THEN, or 0: awaited. A one-way request opens no callback */
    uint32_t flags;
    void *waiter;                 /* awaited on a worker: the await */
    teff__completion *completion; /* with _THEN */
    uint64_t id;                  /* of the callback: set by send */
} teff__request;

/*
 * Sends it. Uses up the caller's options. Non-zero: noted as the caller's outcome, and the
 * completion, if any, is still the caller's.
 */
TEFF__INTERNAL int teff__request_send(teff__request *request);

/* The buffers that a row declares lie in its values; only tables made by hand can be wrong. */
static inline bool teff__request_bytes_fit(const teff_method *method)
{
    return teff__method_argument_bytes(method) * sizeof(void *) <= method->arg_size &&
           teff__method_result_bytes(method) * sizeof(void *) <= method->ret_size;
}

/* A plain request could not be sent: nothing of it is left. */
TEFF__INTERNAL int teff__request_unsent(teff_caller *caller, const teff_ref *to,
                                        const teff_method *method, int code,
                                        teff__message *message);

/*
 * Sends a plain call of a turn or task: teff__caller_plain, or with `bytes` teff__caller_plain_bytes.
 * `waiter` is its await, or NULL with `future`, which has a detail. Non-zero: noted as the outcome.
 * The constants among the arguments are folded into the caller.
 */
TEFF__HOT_INLINE int teff__request_plain(teff_caller *caller, teff_ref *to,
                                         const teff_interface *of, uint32_t number,
                                         const void *argument, void *waiter, bool future,
                                         bool bytes, uint64_t *ret_id)
{
    teff__catalog *catalog = caller->home;
    const teff_method *method = &of->methods[number];
    const int64_t now_ns = catalog->worker.now_ns;
    const int64_t deadline_ns = teff__caller_deadline_plain(caller, now_ns, &catalog->defaults);
    if (TEFF__UNLIKELY(catalog->gate_closed))
        return teff__caller_fail(caller, TEFF_EUNAVAILABLE, false, method, NULL);
    if (bytes && TEFF__UNLIKELY(!teff__request_bytes_fit(method)))
        return teff__caller_fail(caller, TEFF_EINVAL, false, method, NULL);

    teff__callback *callback;
    teff__message *message = teff__postbox_take(&catalog->postbox, of, number);
    if (TEFF__UNLIKELY(message == NULL))
        return teff__caller_fail(caller, teff__postbox_refusal(method), false, method, NULL);
    int r = teff__catalog_take_callback(catalog, &callback);
    if (future && TEFF__LIKELY(r == 0) &&
        TEFF__UNLIKELY((r = teff__stripe_need_details(catalog->stripe)) != 0))
        teff__stripe_free(catalog->stripe, callback);
    if (TEFF__UNLIKELY(r != 0)) {
        teff__postbox_drop(&catalog->postbox, message);
        return teff__caller_fail(caller, r, false, method, NULL);
    }
    const uint32_t flags = TEFF__CALLBACK_DEFAULT | (future ? TEFF__CALLBACK_FUTURE : 0);
    const teff__callback_terms terms = { now_ns, deadline_ns };
    *ret_id = teff__stripe_open(catalog->stripe, callback, waiter, &terms, flags);
    message->correlation = *ret_id;
    message->deadline_ns = deadline_ns;
    teff__call_put_argument(message, method, argument);
    if (bytes)
        teff__message_hold(message, method);
    teff__activation *activation = teff__catalog_hinted(catalog, to);
    if (TEFF__LIKELY(activation != NULL)) {
        teff__stripe_set_target(catalog->stripe, *ret_id, activation->record.hash);
        r = teff__catalog_deliver(catalog, activation, message);
    } else {
        r = teff__catalog_send_slow(catalog, to, message);
    }
    if (TEFF__UNLIKELY(r != 0))
        return teff__request_unsent(caller, to, method, r, message);
    return 0;
}

/* Opens a future for a task: nothing is sent. *ret_sendable false: it is settled already. */
TEFF__INTERNAL int teff__request_future(teff_caller *caller, uint64_t *ret_id, bool *ret_sendable);

#endif
