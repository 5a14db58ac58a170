/* SPDX-License-Identifier: MIT */
/*
 * Calls: from a turn, a task, a client or an observer to a grain or an observer. See
 * include/teff/call.h for what they promise; call.c has the awaited call and the send, call_future.c
 * what is started and claimed, call_then.c what completes.
 *
 * Threads: the caller's.
 */
#ifndef TEFF_GRAINS_CALL_H
#define TEFF_GRAINS_CALL_H

#include "grains/catalog.h"
#include "messaging/client.h"

/* Whether this thread may use the caller: 0 or TEFF_EINVALIDSTATE. */
static inline int teff__caller_check(const teff_caller *caller)
{
    if (TEFF__UNLIKELY(teff__caller_outside(caller)))
        return teff__client_check(caller->home);
    const teff__catalog *catalog = caller->home;
    return TEFF__LIKELY(teff__worker_here(&catalog->worker)) ? 0 : TEFF_EINVALIDSTATE;
}

/*
 * Whether it may wait: 0 or TEFF_EWOULDBLOCK. A turn or task may; whether there is a stack for it
 * teff__worker_reserve tells.
 */
static inline int teff__caller_may_wait(const teff_caller *caller)
{
    if (TEFF__LIKELY(!teff__caller_outside(caller)))
        return 0;
    return caller->kind == TEFF__CALLER_OBSERVER ? TEFF_EWOULDBLOCK
                                                 : teff__client_may_wait(caller->home);
}

static inline teff__exchange *teff__caller_exchange(const teff_caller *caller)
{
    return teff__caller_outside(caller) ? ((teff__client *)caller->home)->exchange
                                        : ((teff__catalog *)caller->home)->exchange;
}

static inline teff__postbox *teff__caller_postbox(const teff_caller *caller)
{
    return teff__caller_outside(caller) ? ((teff__client *)caller->home)->postbox
                                        : &((teff__catalog *)caller->home)->postbox;
}

/* What a caller asks for, checked. `caller` is not NULL. */
static inline int teff__call_check(const teff_caller *caller, const teff_ref *to,
                                   const teff_interface *of, uint32_t number)
{
    /* first: only the caller's thread may note an outcome */
    const int r = teff__caller_check(caller);
    if (TEFF__UNLIKELY(r == 0 && (to == NULL || of == NULL || number >= of->count)))
        return TEFF_EINVAL;
    return r;
}

/* Notes why a call was refused by teff__call_check, where that may be noted. */
static inline int teff__call_refused(teff_caller *caller, int code)
{
    return code == TEFF_EINVALIDSTATE ? code : teff__caller_fail(caller, code, false, NULL, NULL);
}

static inline void teff__call_put_argument(teff__message *message, const teff_method *method,
                                           const void *argument)
{
    if (argument != NULL)
        teff__value_copy(teff__message_value(message), argument, method->arg_size);
    else
        memset(teff__message_value(message), 0, method->arg_size);
}

/* A failure, or a result that nobody asked for. */
TEFF__INTERNAL int teff__call_take_slow(teff_caller *caller, teff__postbox *postbox,
                                        const teff_method *method, teff__message *answer);

/* Takes the answer of a settled call apart: result or failure. Drops it. */
TEFF__HOT_INLINE int teff__call_take_answer(teff_caller *caller, teff__postbox *postbox,
                                            const teff_method *method, teff__message *answer,
                                            void *ret)
{
    if (TEFF__UNLIKELY(answer->code != 0 || ret == NULL))
        return teff__call_take_slow(caller, postbox, method, answer);
    teff__value_copy(ret, teff__message_value(answer), method->ret_size);
    teff__postbox_return(postbox, answer); /* the buffers are the caller's now */
    return teff__caller_succeed(caller, method);
}

#endif
