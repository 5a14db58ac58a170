/* SPDX-License-Identifier: MIT */
/*
 * What all callers have in common: the options of the next call, its deadline, and the outcome of
 * the last one.
 */
#include "messaging/caller.h"

#include "messaging/cancel.h"
#include "messaging/client.h"
#include "runtime/sized.h"

#include "teff/status.h"

#include <stdio.h>

/* Shorter timeouts are not measured from a time that was cached up to a pass ago. */
#define EXACT_BELOW_NS INT64_C(100000000)
#define NS_PER_MS      INT64_C(1000000)

/* Of the first release; cancel_waits came later. */
enum { OPTIONS_SIZE_MIN = 32 };
_Static_assert(offsetof(teff_call_options, cancel_waits) == OPTIONS_SIZE_MIN,
               "a new member stands behind the old size");

/*
 * Only the caller's own thread may leave options for its next call; to another one that call will
 * say so.
 */
static bool is_here(const teff_caller *caller)
{
    if (teff__caller_outside(caller))
        return teff__client_here(caller->home) || teff__client_adopt(caller->home);
    return teff__worker_here(caller->home); /* a catalog begins with its worker */
}

teff_caller *teff_with(teff_caller *caller, const teff_call_options *options)
{
    if (caller == NULL || !is_here(caller))
        return caller;
    teff_call_options known;
    if (options == NULL ||
        teff__sized_copy(&known, sizeof(known), OPTIONS_SIZE_MIN, options) != 0 ||
        known.timeout_ns < 0) {
        caller->next = TEFF__NEXT_INVALID;
        return caller;
    }
    caller->next = known.detached ? TEFF__NEXT_DETACHED : 0;
    if (known.timeout_ns > 0) {
        caller->next |= TEFF__NEXT_TIMEOUT;
        caller->next_timeout_ns = known.timeout_ns;
    }
    if (known.cancel != NULL) {
        caller->next |=
            known.cancel_waits ? TEFF__NEXT_CANCEL | TEFF__NEXT_WAITS : TEFF__NEXT_CANCEL;
        caller->next_cancel = known.cancel;
    }
    if (known.place > 0) {
        caller->next |= TEFF__NEXT_PLACE;
        caller->place = known.place < UINT16_MAX ? (uint16_t)known.place : UINT16_MAX;
    }
    return caller;
}

teff_caller *teff_within(teff_caller *caller, int64_t timeout_ns)
{
    if (caller == NULL || !is_here(caller))
        return caller;
    caller->next |= timeout_ns > 0 ? TEFF__NEXT_TIMEOUT : TEFF__NEXT_INVALID;
    caller->next_timeout_ns = timeout_ns;
    return caller;
}

const teff_outcome *teff_outcome_last(const teff_caller *caller)
{
    static const teff_outcome none = { TEFF_EINVAL, false, NULL, "no caller was given" };
    if (caller == NULL)
        return &none;
    teff_outcome *outcome = (teff_outcome *)(uintptr_t)&caller->outcome;
    if (outcome->code == 0) {
        outcome->may_have_run = outcome->method != NULL;
        outcome->text = "";
    }
    return outcome;
}

int teff__caller_deadline(teff_caller *caller, const teff_method *method, int64_t now_ns,
                          const teff__call_defaults *defaults, int64_t *ret_deadline_ns,
                          uint32_t *ret_flags)
{
    const uint8_t next = caller->next;
    const int64_t row_ns = (int64_t)(method->options >> 32) * NS_PER_MS;
    const int64_t asked_ns = next & TEFF__NEXT_TIMEOUT ? caller->next_timeout_ns : row_ns;
    caller->next = 0;
    if (next & TEFF__NEXT_INVALID)
        return TEFF_EINVAL;

    int64_t deadline_ns;
    *ret_flags = 0;
    if (asked_ns != 0) {
        if (asked_ns < EXACT_BELOW_NS)
            now_ns = teff__clock_now_ns(defaults->clock);
        deadline_ns = teff__time_add(now_ns, asked_ns);
    } else {
        deadline_ns = now_ns + defaults->response_timeout_ns;
        *ret_flags = TEFF__CALLBACK_DEFAULT;
        if (next & TEFF__NEXT_DETACHED)
            *ret_flags |= TEFF__CALLBACK_DETACHED;
    }
    if (deadline_ns > caller->deadline_ns && (next & TEFF__NEXT_DETACHED) == 0)
        deadline_ns = caller->deadline_ns;
    *ret_deadline_ns = deadline_ns;
    return 0;
}

int teff__caller_fail(teff_caller *caller, int code, bool may_have_run, const teff_method *method,
                      const char *text)
{
    caller->next = 0;
    caller->outcome =
        (teff_outcome){ code, may_have_run, method, text != NULL ? text : teff_status_text(code) };
    return code;
}

int teff__caller_fail_copy(teff_caller *caller, int code, bool may_have_run,
                           const teff_method *method, const char *text)
{
    if (text == NULL)
        return teff__caller_fail(caller, code, may_have_run, method, NULL);
    (void)snprintf(caller->text, sizeof(caller->text), "%s", text);
    return teff__caller_fail(caller, code, may_have_run, method, caller->text);
}
