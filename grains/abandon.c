/* SPDX-License-Identifier: MIT */
#include "grains/abandon.h"

#include "grains/activate.h"
#include "grains/complete.h"
#include "grains/dispatch.h"
#include "grains/limit.h"
#include "grains/notice.h"
#include "grains/resolve.h"
#include "messaging/status.h"

#include "teff/status.h"

/*
 * What a limit may be at most: coarse time goes round after 52 days. And where an activation was to
 * be abandoned and there was no memory, it is tried again after so long.
 */
#define STUCK_MAX_NS   (INT64_C(30) * 24 * 3600 * 1000000000)
#define STUCK_AGAIN_NS INT64_C(100000000)

const char teff__activate_over[] = "activate was not over within activate_timeout_ns";

/* --- Setting aside -------------------------------------------------------------------------- */

/* Nobody finds it any more; the directory is the caller's. Its turn sees that there is a reason. */
static void set_aside(teff__catalog *catalog, teff__activation *activation, int reason)
{
    teff__activation_retire(catalog, activation, reason);
    activation->reason = (uint8_t)reason;
    teff__ring_push_back(&catalog->abandoned, &activation->ring);
    catalog->abandoned_count++;
    teff__complete_orphans(catalog, activation);
}

static void forget(teff__catalog *catalog, teff__activation *activation)
{
    teff__ring_remove(&activation->ring);
    catalog->abandoned_count--;
    teff__activation_forget(catalog, activation);
}

void teff__abandoned_end(teff__catalog *catalog, teff__activation *activation)
{
    teff_assert(activation->state == TEFF__ACTIVATION_GONE && activation->mailbox.head == NULL);
    forget(catalog, activation);
}

void teff__abandoned_drop(teff__catalog *catalog)
{
    while (!teff__ring_empty(&catalog->abandoned))
        forget(catalog, teff__container_of(catalog->abandoned.next, teff__activation, ring));
}

/* --- Replacing ------------------------------------------------------------------------------ */

/* All requests that wait, in their order. Their sources have to find where they wait now. */
static void move_requests(teff__activation *from, teff__activation *to)
{
    teff__queue mail = teff__activation_take_mail(from);
    for (teff__link *link; (link = teff__queue_pop(&mail)) != NULL;) {
        teff__message *message = (teff__message *)link;
        teff__activation *place = message->kind == TEFF__MESSAGE_REQUEST ? to : from;
        if ((message->held & TEFF__HELD_SOURCE) != 0)
            teff__message_entry(message)->place = place;
        teff__queue_push(&place->mailbox, link);
        place->mail_count++;
    }
}

/* A stateless worker's requests look for another member. */
static void replace_member(teff__catalog *catalog, teff__activation *activation, int reason)
{
    teff__queue mail = teff__activation_take_mail(activation), requests = { NULL, NULL };
    for (teff__link *link; (link = teff__queue_pop(&mail)) != NULL;) {
        const bool request = ((teff__message *)link)->kind == TEFF__MESSAGE_REQUEST;
        teff__queue_push(request ? &requests : &activation->mailbox, link);
        activation->mail_count += !request;
    }
    teff__activation_leave(catalog, activation);
    set_aside(catalog, activation, reason);
    for (teff__link *link; (link = teff__queue_pop(&requests)) != NULL;)
        teff__dispatch_again(catalog, activation, (teff__message *)link);
}

/* Another silo's was registered meanwhile, which cannot be while there is one silo only. */
static const int taken = TEFF_EREJECTED;

/* Registers `next` in the activation's place, with its mail. What fails has changed nothing. */
static int enter(teff__catalog *catalog, teff__activation *activation, teff__activation *next)
{
    const uint64_t previous = activation->record.address;
    uint64_t address;
    int r = teff__locator_enter(&catalog->grains->locator, &next->record, previous, &address);
    if (r != 0 && r != TEFF__LOCATOR_LATER)
        return r;
    if (r == 0 && address != next->record.address)
        return taken;
    move_requests(activation, next);
    if (r == 0)
        return 0;
    next->flags = TEFF__ACTIVATION_BUSY; /* no run before it is entered */
    r = teff__resolve_again(catalog, next, previous);
    if (r != 0)
        move_requests(next, activation);
    return r;
}

/*
 * Puts a new activation in the place of this one, for the requests that wait; where there are none,
 * the next call will make one. What fails has changed nothing.
 */
static int replace(teff__catalog *catalog, teff__activation *activation, int reason)
{
    const teff__grain_record *record = &activation->record;
    teff__activation *next;
    if (teff__type_is_stateless(activation->type)) {
        replace_member(catalog, activation, reason);
        return 0;
    }
    if (teff__waiting_mail(activation, NULL) == NULL) {
        teff__activation_leave(catalog, activation);
        set_aside(catalog, activation, reason);
        return 0;
    }
    int r = teff__activation_make(catalog, activation->type, &record->key, record->hash, &next);
    if (r != 0)
        return r;
    teff__limit_add(catalog);
    r = enter(catalog, activation, next);
    if (r != 0) {
        teff__activation_free(catalog, next, TEFF_DEACTIVATED_DIRECTORY);
        return r;
    }
    set_aside(catalog, activation, reason);
    teff__activation_look(catalog, next);
    return 0;
}

/* --- Hooks ---------------------------------------------------------------------------------- */

/* No more than this can be done for what waits. */
static void unregister(teff__catalog *catalog, teff__activation *activation, int reason, int code,
                       const char *text)
{
    teff__activation_leave(catalog, activation);
    set_aside(catalog, activation, reason);
    teff__queue mail = teff__activation_take_mail(activation);
    teff__activation_refuse(catalog, &mail, code, text);
}

static void abandon_deactivating(teff__catalog *catalog, teff__activation *activation)
{
    if (catalog->phase >= TEFF__STOP_DEACTIVATE) {
        unregister(catalog, activation, TEFF_DEACTIVATED_STUCK, TEFF_EUNAVAILABLE, NULL);
        return;
    }
    teff__activation_refuse_forwarded(catalog, activation);
    const int r = replace(catalog, activation, TEFF_DEACTIVATED_STUCK);
    if (r != 0) /* its hook was promised an end, and so were those who wait */
        unregister(catalog, activation, TEFF_DEACTIVATED_STUCK, r,
                   r == TEFF_ENOMEM ? teff__no_instance : NULL);
}

void teff__abandon_hook(teff__catalog *catalog, teff__activation *activation)
{
    const bool activating = activation->state == TEFF__ACTIVATION_ACTIVATING;
    teff__notice(catalog, activating ? TEFF_NOTICE_ACTIVATE : TEFF_NOTICE_DEACTIVATE, activation,
                 0);
    if (activating)
        unregister(catalog, activation, TEFF_DEACTIVATED_FAILED, TEFF_ECANCELED,
                   teff__activate_over);
    else
        abandon_deactivating(catalog, activation);
}

/* --- Stuck turns ---------------------------------------------------------------------------- */

/*
 * The answer to the one who waits for the turn's, or NULL: no memory. The request itself is still
 * the turn's.
 */
static teff__message *answer_to(teff__catalog *catalog, const teff__message *request)
{
    teff__message *answer = teff__postbox_take(&catalog->postbox, request->of, request->method);
    if (answer == NULL)
        return NULL;
    answer->correlation = request->correlation;
    teff__message_refuse(answer, TEFF_ESTUCK,
                         "given up: its turn was suspended for longer than stuck_ns");
    answer->flags |= TEFF__MESSAGE_MAY_HAVE_RUN | TEFF__MESSAGE_GIVEN_UP;
    return answer;
}

/* Its call has not ended yet, or is one of another worker's that is ending right now. */
static bool waited_for(const teff__catalog *catalog, const teff__message *request)
{
    int64_t opened_ns;
    return request != NULL && request->correlation != 0 &&
           teff__registry_opened_ns(&catalog->exchange->registry, request->correlation, &opened_ns);
}

/* False: there is no memory for it. */
static bool abandon(teff__stuck *stuck, const teff__waiting *waiting)
{
    teff__catalog *catalog = stuck->catalog;
    teff__message *answer = NULL;
    if (waited_for(catalog, waiting->request) &&
        (answer = answer_to(catalog, waiting->request)) == NULL)
        return false;
    if (replace(catalog, waiting->activation, TEFF_DEACTIVATED_STUCK) != 0) {
        if (answer != NULL)
            teff__postbox_drop(&catalog->postbox, answer);
        return false;
    }
    if (answer != NULL)
        teff__queue_push(&stuck->answers, &answer->link);
    teff__notice(catalog, TEFF_NOTICE_STUCK, waiting->activation, 0);
    return true;
}

static bool ends_after(const teff__message *request, int64_t now_ns)
{
    return request->deadline_ns > now_ns && request->deadline_ns != INT64_MAX;
}

/* Whether anybody who waits for the turn, or behind it, does so until some moment to come. */
static bool matters(const teff__catalog *catalog, const teff__waiting *waiting)
{
    const int64_t now_ns = catalog->worker.now_ns;
    if (waiting->request != NULL && ends_after(waiting->request, now_ns))
        return true;
    for (const teff__message *mail = NULL;
         (mail = teff__waiting_mail(waiting->activation, mail)) != NULL;) {
        if (ends_after(mail, now_ns))
            return true;
    }
    return false;
}

void teff__stuck_begin(teff__stuck *stuck, teff__catalog *catalog)
{
    *stuck = (teff__stuck){ .catalog = catalog, .next_ns = INT64_MAX };
}

void teff__stuck_consider(teff__stuck *stuck, const teff__waiting *waiting)
{
    teff__catalog *catalog = stuck->catalog;
    const int64_t stuck_ns = catalog->grains->stuck_ns, now_ns = catalog->worker.now_ns;
    const teff__activation *activation = waiting->activation;
    /* Hooks have limits of their own; what is abandoned already is not abandoned again. */
    if (stuck_ns > STUCK_MAX_NS || activation->state != TEFF__ACTIVATION_VALID ||
        catalog->phase >= TEFF__STOP_DEACTIVATE)
        return;
    /* Two units more: what was cut off at either end must not make it shorter than it was. */
    const uint32_t limit = teff__coarse(stuck_ns) + 2;
    const uint32_t age = catalog->coarse - activation->record.used;
    int64_t due_ns = ((now_ns >> 20) + ((int64_t)limit - age)) << 20;
    if (age >= limit) {
        if (abandon(stuck, waiting))
            return;
        due_ns = now_ns + STUCK_AGAIN_NS;
    }
    /* Simulated time does not pass for what nobody waits for: that silo is at rest. */
    if (due_ns < stuck->next_ns &&
        !(catalog->exchange->clock.simulated && !matters(catalog, waiting)))
        stuck->next_ns = due_ns;
}

void teff__stuck_end(teff__stuck *stuck)
{
    for (teff__link *link; (link = teff__queue_pop(&stuck->answers)) != NULL;)
        teff__catalog_respond(stuck->catalog, (teff__message *)link);
}
