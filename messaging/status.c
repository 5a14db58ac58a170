/* SPDX-License-Identifier: MIT */
#include "messaging/status.h"

#include "messaging/caller.h"

#include "teff/status.h"

#include <inttypes.h>
#include <stdio.h>

/* Of those that are kept, the oldest: how many are looked at when another one comes. */
enum { LOOKS = 2 };

teff__status *teff__status_take(teff__postbox *postbox, uint64_t id, const teff_long_call *call)
{
    teff__status *status = teff__pool_take(&postbox->pools[1]);
    if (status == NULL)
        return NULL;
    status->message = (teff__message){ .correlation = id,
                                       .home = &postbox->pools[1],
                                       .of = call->of,
                                       .size_class = 1,
                                       .kind = TEFF__MESSAGE_STATUS };
    teff__ring_init(&status->ring);
    status->call = *call;
    return status;
}

/* Where the slot of that call names what is kept; NULL: its stripe has no details. */
static teff__status **place_of(const teff__registry *registry, uint64_t id)
{
    const teff__stripe *stripe = teff__registry_stripe(registry, id);
    return stripe->details != NULL ? &teff__stripe_detail(stripe, id)->status : NULL;
}

static bool is_open(const teff__registry *registry, uint64_t id)
{
    return teff__stripe_look_up(teff__registry_stripe(registry, id), id) == TEFF__CALLBACK_OPEN;
}

static void take_out(const teff__registry *registry, teff__status *status)
{
    teff__status **place = place_of(registry, status->message.correlation);
    teff_assert(place != NULL && *place == status);
    *place = NULL;
    teff__ring_remove(&status->ring);
}

/* Drops what is kept of calls that have ended, among the oldest. */
static void drop_some(teff__ring *kept, const teff__registry *registry, teff__postbox *postbox)
{
    for (int i = 0; i < LOOKS && !teff__ring_empty(kept); i++) {
        teff__status *oldest = teff__container_of(kept->next, teff__status, ring);
        if (!is_open(registry, oldest->message.correlation)) {
            take_out(registry, oldest);
            teff__postbox_drop(postbox, &oldest->message);
        } else {
            teff__ring_remove(&oldest->ring);
            teff__ring_push_back(kept, &oldest->ring);
        }
    }
}

bool teff__status_keep(teff__ring *kept, const teff__registry *registry, teff__postbox *postbox,
                       teff__status *status)
{
    const uint64_t id = status->message.correlation;
    drop_some(kept, registry, postbox);
    if (!is_open(registry, id) ||
        teff__stripe_need_details(teff__registry_stripe(registry, id)) != 0) {
        teff__postbox_drop(postbox, &status->message);
        return false;
    }
    teff__status **place = place_of(registry, id), *before = *place;
    if (before != NULL) {
        take_out(registry, before);
        teff__postbox_drop(postbox, &before->message);
    }
    *place = status;
    teff__ring_push_back(kept, &status->ring);
    return true;
}

teff__message *teff__status_answer(const teff__exchange *exchange, uint64_t id)
{
    const teff__registry *registry = &exchange->registry;
    const teff__callback_columns *columns = teff__registry_stripe(registry, id)->columns;
    const uint32_t slot = (uint32_t)id & (TEFF__CALLBACKS_MAX - 1);
    teff__status **place = place_of(registry, id);
    teff__status *status = place != NULL ? *place : NULL;
    if (status == NULL || status->message.correlation != id)
        return NULL;
    take_out(registry, status);

    char given[TEFF__DURATION_MAX], last[TEFF__TEXT_MAX], text[2 * TEFF__TEXT_MAX];
    const int64_t given_ns = teff__atomic_i64_load_relaxed(&columns->deadline_ns[slot]) -
                             teff__atomic_i64_load_relaxed(&columns->opened_ns[slot]);
    exchange->ops->print_long(&status->call, true, last, sizeof(last));
    (void)snprintf(text, sizeof(text), "no answer in %s: %s", teff__duration_print(given_ns, given),
                   last);
    text[TEFF__TEXT_MAX - 1] = '\0';
    teff__message *answer = &status->message; /* it remains a status by kind: see count.c */
    answer->code = TEFF_ETIMEDOUT;
    answer->origin = NULL;
    answer->flags = TEFF__MESSAGE_MAY_HAVE_RUN;
    teff__message_set_text(answer, text);
    return answer;
}

void teff__statuses_drop(teff__ring *kept, const teff__registry *registry, teff__postbox *postbox)
{
    while (!teff__ring_empty(kept)) {
        teff__status *status = teff__container_of(kept->next, teff__status, ring);
        take_out(registry, status);
        teff__postbox_drop(postbox, &status->message);
    }
}

const char *teff__duration_print(int64_t duration_ns, char buffer[TEFF__DURATION_MAX])
{
    enum { US = 1000, MS = 1000000, TENTH = 100000000 };
    const int64_t tenths = duration_ns / TENTH;
    if (duration_ns < MS)
        (void)snprintf(buffer, TEFF__DURATION_MAX, "%" PRId64 " us", duration_ns / US);
    else if (tenths < 10)
        (void)snprintf(buffer, TEFF__DURATION_MAX, "%" PRId64 " ms", duration_ns / MS);
    else if (tenths % 10 == 0)
        (void)snprintf(buffer, TEFF__DURATION_MAX, "%" PRId64 " s", tenths / 10);
    else
        (void)snprintf(buffer, TEFF__DURATION_MAX, "%" PRId64 ".%" PRId64 " s", tenths / 10,
                       tenths % 10);
    return buffer;
}
