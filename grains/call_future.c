/* SPDX-License-Identifier: MIT */
/*
 * Calls that are started and claimed, and waiting for several.
 *
 * A turn or task that waits for futures stands in all of them that are open, and counts how many it
 * still wants; the one that brings the count to zero wakes it. Those that settle between that and
 * its going on count below zero, which nobody sees.
 */
#include "grains/call_future.h"

#include "grains/request.h"

#include "teff/status.h"

static teff_future start_plain(teff_caller *caller, teff_ref *to, const teff_interface *of,
                               uint32_t number, const void *argument)
{
    teff__catalog *catalog = caller->home;
    const teff_method *method = &of->methods[number];
    uint64_t id = 0;
    const int r = teff__request_plain(caller, to, of, number, argument, NULL, true, false, &id);
    if (TEFF__UNLIKELY(r != 0))
        return (teff_future){ teff__future_of_status(r) };
    teff__future_add(&catalog->exchange->registry, caller, id, method);
    (void)teff__caller_succeed(caller, method);
    return (teff_future){ id };
}

teff_future teff_call_start(teff_caller *caller, teff_ref *to, const teff_interface *of,
                            uint32_t number, const void *argument)
{
    if (caller == NULL)
        return (teff_future){ teff__future_of_status(TEFF_EINVAL) };
    int r = teff__call_check(caller, to, of, number);
    if (r != 0)
        return (teff_future){ teff__future_of_status(teff__call_refused(caller, r)) };
    const teff_method *method = &of->methods[number];
    if (TEFF__LIKELY(!teff__caller_outside(caller) && teff__caller_plain(caller, method)))
        return start_plain(caller, to, of, number, argument);
    if (caller->kind == TEFF__CALLER_OBSERVER) {
        r = teff__caller_fail(caller, TEFF_EWOULDBLOCK, false, method, NULL);
        return (teff_future){ teff__future_of_status(r) };
    }
    teff__request request = { .caller = caller,
                              .to = to,
                              .of = of,
                              .number = number,
                              .argument = argument,
                              .one_way = (method->options & TEFF_ONE_WAY) != 0,
                              .flags = TEFF__CALLBACK_FUTURE };
    r = teff__request_send(&request);
    if (r == 0)
        (void)teff__caller_succeed(caller, method);
    return (teff_future){ r != 0 || request.one_way ? teff__future_of_status(r) : request.id };
}

/* --- Waiting ------------------------------------------------------------------------------- */

/* A future of the caller's: 0, with its callback (NULL: it is a status); TEFF_EINVAL: none. */
TEFF__HOT_INLINE int find(const teff__registry *registry, const teff_caller *caller,
                          teff_future future, teff__callback **ret)
{
    int status;
    *ret = NULL;
    if (teff__future_is_status(future.id, &status))
        return 0;
    *ret = teff__future_find(registry, caller, future.id);
    return *ret != NULL ? 0 : TEFF_EINVAL;
}

static bool is_settled(const teff__callback *callback)
{
    return callback == NULL || teff__callback_state_of(callback) == TEFF__CALLBACK_SETTLED;
}

/* The open callback of a future that was found before; NULL: it is settled, or a status. */
static teff__callback *open_of(const teff__registry *registry, teff_future future)
{
    int status;
    if (TEFF__UNLIKELY(teff__future_is_status(future.id, &status)))
        return NULL;
    teff__callback *callback =
        teff__stripe_at(teff__registry_stripe(registry, future.id), future.id);
    return teff__callback_state_of(callback) == TEFF__CALLBACK_SETTLED ? NULL : callback;
}

/* Takes the await out of those of the futures that are still open. */
static void leave(const teff__registry *registry, const teff_future *futures, size_t count,
                  const teff__await *await)
{
    for (size_t i = 0; i < count; i++) {
        teff__callback *callback = open_of(registry, futures[i]);
        if (callback != NULL && callback->value == await)
            callback->value = NULL;
    }
}

/* Stands in all the futures that are open, and suspends if it has to. */
static int suspend(teff__catalog *catalog, const teff_caller *caller, const teff_future *futures,
                   size_t count, bool all)
{
    const teff__registry *registry = &catalog->exchange->registry;
    teff__await await = { .remaining = all ? 0 : 1, .caller = (teff_caller *)(uintptr_t)caller };
    bool wait = !all;
    int r = 0;
    size_t i = 0;
    for (; i < count; i++) {
        teff__callback *callback;
        r = find(registry, caller, futures[i], &callback);
        if (TEFF__UNLIKELY(r != 0) || (!all && is_settled(callback)))
            break;
        if (is_settled(callback) || callback->value == &await)
            continue; /* … or named twice */
        callback->value = &await;
        await.remaining += all;
        wait = true;
    }
    if (i == count && wait) {
        r = teff__worker_reserve(&catalog->worker);
        if (r == 0)
            teff__catalog_suspend(catalog, &await.waiter);
    }
    if (TEFF__UNLIKELY(!all || i != count || r != 0))
        leave(registry, futures, i, &await);
    return r;
}

/* The first future that is settled; `count`: none. All are the caller's. */
static size_t first(const teff__registry *registry, const teff_caller *caller,
                    const teff_future *futures, size_t count)
{
    teff__callback *callback;
    size_t i = 0;
    while (i < count && (find(registry, caller, futures[i], &callback), !is_settled(callback)))
        i++;
    return i;
}

static int block(teff__client *client, const teff_future *futures, size_t count, bool all)
{
    const teff__registry *registry = &client->exchange->registry;
    if (!all) {
        while (first(registry, &client->caller, futures, count) == count) {
            if (!teff__client_wait_step(client))
                return TEFF_EDEADLOCK;
        }
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (first(registry, &client->caller, &futures[i], 1) == 1)
            teff__client_wait(client, futures[i].id);
    }
    return 0;
}

/*
 * Which future decides whether to wait, all being the caller's: the first that is settled, or, for
 * all, the first that is open; `count`: none. TEFF_EINVAL: one is not the caller's.
 */
static int look(const teff__registry *registry, const teff_caller *caller,
                const teff_future *futures, size_t count, bool all, size_t *ret)
{
    size_t found = count;
    for (size_t i = 0; i < count; i++) {
        teff__callback *callback;
        if (TEFF__UNLIKELY(find(registry, caller, futures[i], &callback) != 0))
            return TEFF_EINVAL;
        if (found == count && is_settled(callback) != all)
            found = i;
    }
    *ret = found;
    return 0;
}

/* Waits until all are settled, or any. */
static int await(teff_caller *caller, const teff_future *futures, size_t count, bool all)
{
    size_t decides = 0;
    if (caller == NULL || (futures == NULL && count != 0))
        return TEFF_EINVAL;
    int r = teff__caller_check(caller);
    if (r != 0)
        return r;
    if (!teff__caller_outside(caller))
        return suspend(caller->home, caller, futures, count, all);
    teff__client_take(caller->home); /* it may be there, where the client may not wait */
    r = look(&teff__caller_exchange(caller)->registry, caller, futures, count, all, &decides);
    if (r != 0 || (decides == count) == all)
        return r;
    r = teff__caller_may_wait(caller);
    return r != 0 ? r : block(caller->home, futures, count, all);
}

int teff_await_all(teff_caller *caller, const teff_future *futures, size_t count)
{
    return await(caller, futures, count, true);
}

int teff_await_any(teff_caller *caller, const teff_future *futures, size_t count, size_t *ret_index)
{
    if (count == 0 || ret_index == NULL)
        return TEFF_EINVAL;
    const int r = await(caller, futures, count, false);
    if (r == 0)
        *ret_index = first(&teff__caller_exchange(caller)->registry, caller, futures, count);
    return r;
}

/* --- Claiming ------------------------------------------------------------------------------ */

TEFF__HOT_INLINE int claim(teff_caller *caller, teff_future future, const teff_method *method,
                           int *ret_code, teff__message **ret_answer)
{
    const teff__registry *registry = &teff__caller_exchange(caller)->registry;
    const teff__callback *callback = teff__future_find(registry, caller, future.id);
    if (callback == NULL ||
        teff__stripe_detail(teff__registry_stripe(registry, future.id), future.id)->method !=
            method)
        return TEFF_EINVAL;
    const int r = is_settled(callback) ? 0 : await(caller, &future, 1, true);
    if (r == 0)
        *ret_code = teff__future_take(registry, caller, future.id, ret_answer);
    return r;
}

int teff__future_claim(teff_caller *caller, teff_future future, const teff_method *method,
                       int *ret_code, teff__message **ret_answer)
{
    return claim(caller, future, method, ret_code, ret_answer);
}

int teff_call_claim(teff_caller *caller, teff_future future, const teff_interface *of,
                    uint32_t number, void *ret)
{
    int code;
    teff__message *answer;
    if (caller == NULL)
        return TEFF_EINVAL;
    int r = teff__caller_check(caller);
    if (r == 0 && (of == NULL || number >= of->count))
        r = TEFF_EINVAL;
    if (r != 0)
        return teff__call_refused(caller, r);
    const teff_method *method = &of->methods[number];
    if (teff__future_is_status(future.id, &code))
        return code != 0 ? teff__caller_fail(caller, code, false, method, NULL)
                         : teff__caller_succeed(caller, method);
    r = claim(caller, future, method, &code, &answer);
    if (r == TEFF_EINVAL)
        return teff__caller_fail(caller, r, false, method,
                                 "no future of this caller and method, or claimed already");
    if (r != 0)
        return teff__caller_fail(caller, r, true, method, NULL);
    if (answer == NULL)
        return teff__caller_fail(caller, code, true, method, NULL);
    return teff__call_take_answer(caller, teff__caller_postbox(caller), method, answer, ret);
}
