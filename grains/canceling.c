/* SPDX-License-Identifier: MIT */
#include "grains/canceling.h"

#include "grains/activate.h"
#include "grains/call.h"
#include "grains/task.h"
#include "messaging/cancel.h"

#include "teff/bytes.h"
#include "teff/status.h"

/* --- Queued -------------------------------------------------------------------------------- */

int teff__canceling_deliver(teff__catalog *catalog, teff__activation *activation,
                            teff__message *message)
{
    teff__cancel_entry *entry = teff__message_entry(message);
    int r = activation->mail_count >= catalog->mailbox_look
                ? teff__limit_mailbox(catalog, activation)
                : 0;
    if (r == 0) {
        (void)teff__cancel_enter(message, catalog->worker.index, activation); /* mine … */
        if (teff__cancel_fired(entry->cancel))                                /* … then yours */
            r = TEFF_ECANCELED;
    }
    if (r == 0) {
        teff__activation_mail(catalog, activation, message);
        return 0;
    }
    teff__ring_remove(&entry->ring);
    /* Made for this one perhaps, and never run: a run without mail lets it go. */
    if (activation->state == TEFF__ACTIVATION_CREATING)
        teff__activation_look(catalog, activation);
    return r;
}

/*
 * Takes all requests that were sent under that source out of a mailbox, and answers them. One walk
 * for all of them, or a long mailbox would be walked for each.
 */
static void answer_queued(teff__catalog *catalog, teff__activation *activation,
                          const teff_cancel *cancel)
{
    teff__queue mail = activation->mailbox, kept = { NULL, NULL }, taken = { NULL, NULL };
    for (teff__link *link; (link = teff__queue_pop(&mail)) != NULL;) {
        const bool under = teff__cancel_of((teff__message *)link) == cancel;
        teff__queue_push(under ? &taken : &kept, link);
        activation->mail_count -= under;
    }
    activation->mailbox = kept;
    for (teff__link *link; (link = teff__queue_pop(&taken)) != NULL;)
        teff__catalog_reject(catalog, (teff__message *)link, TEFF_ECANCELED, NULL);
}

/* --- Running ------------------------------------------------------------------------------- */

/* What teff_turn_on_cancel left. Memory of the turn's. */
typedef struct registration {
    struct registration *next; /* older */
    void (*canceled)(void *user);
    void *user;
} registration;

/*
 * The functions of one turn, and the item that runs them. It may be on the run queue when the turn
 * ends, and is then freed by its run.
 */
typedef struct teff__canceling {
    teff__turn_block block; /* first: freed with the others should it never run */
    teff__item item;
    void *prefetched[2]; /* what stands behind every item */
    teff__turn *turn;    /* NULL: it has ended */
    registration *newest;
    bool queued; /* on the run queue, or running */
} teff__canceling;

static void canceling_free(teff__catalog *catalog, teff__canceling *canceling)
{
    teff__ring_remove(&canceling->block.ring);
    teff__memory_free(catalog->exchange->memory, canceling, sizeof(*canceling));
}

/*
 * The turn is suspended: this is another item, and items run one at a time. A function that waits all
 * the same, by the turn's own pointer, may find it ended: registrations were the turn's.
 */
static void run_canceling(teff__worker *worker, teff__item *item)
{
    teff__canceling *canceling = teff__container_of(item, teff__canceling, item);
    while (canceling->turn != NULL && canceling->newest != NULL) {
        const registration *one = canceling->newest;
        canceling->newest = one->next;
        one->canceled(one->user);
    }
    canceling->queued = false;
    if (canceling->turn == NULL)
        canceling_free(teff__catalog_of(worker), canceling);
}

/* The functions first, so that they run before a turn that this wakes may end. */
static void tell_turn(teff__catalog *catalog, teff__turn *turn)
{
    teff__canceling *canceling = turn->canceling;
    if (canceling != NULL && canceling->newest != NULL && !canceling->queued) {
        canceling->queued = true;
        teff__worker_push(&catalog->worker, &canceling->item);
    }
    if (turn->sleeper != NULL)
        teff__sleeper_end(turn->sleeper, TEFF_ECANCELED);
}

bool teff__canceling_begin(teff__turn *turn, teff__message *message, void *result)
{
    teff__cancel_entry *entry = teff__message_entry(message);
    if (teff__cancel_fired(entry->cancel))
        return false;
    entry->place = turn;
    turn->sleeper = NULL;
    turn->canceling = NULL;
    turn->result = result;
    return true;
}

/* No function runs from now on. */
static void forget(teff__turn *turn)
{
    teff__canceling *canceling = turn->canceling;
    if (canceling == NULL)
        return;
    if (canceling->queued)
        canceling->turn = NULL;
    else
        canceling_free(turn->caller.home, canceling);
}

int teff__canceling_end(teff__turn *turn, int code)
{
    const teff__message *request = turn->request;
    forget(turn);
    if ((request->flags & TEFF__MESSAGE_WAITS) != 0 || !teff__cancel_refuses(request))
        return code;
    if (code == 0) { /* the buffers that the handler gave are nobody's */
        teff_bytes **bytes = turn->result;
        const uint32_t count = teff__method_result_bytes(&request->of->methods[request->method]);
        for (uint32_t i = 0; i < count; i++)
            (void)teff_bytes_unref(bytes[i]);
    }
    return TEFF_ECANCELED;
}

/* --- Both ---------------------------------------------------------------------------------- */

static void end_requests(teff__catalog *catalog, teff__cancel_branch *branch)
{
    /* Those that run stay in the branch, and those that are answered leave whatever ring they are in. */
    teff__ring all = branch->requests;
    if (teff__ring_empty(&branch->requests))
        return;
    all.next->previous = all.previous->next = &all;
    teff__ring_init(&branch->requests);
    while (!teff__ring_empty(&all)) {
        teff__cancel_entry *entry = teff__container_of(all.next, teff__cancel_entry, ring);
        if (teff__message_of_entry(entry)->flags & TEFF__MESSAGE_MAY_HAVE_RUN) {
            teff__ring_remove(&entry->ring);
            teff__ring_push_back(&branch->requests, &entry->ring);
            tell_turn(catalog, entry->place);
        } else {
            answer_queued(catalog, entry->place, entry->cancel);
            teff_assert(all.next != &entry->ring);
        }
    }
}

void teff__canceling_fired(teff__catalog *catalog, teff__message *message)
{
    teff__cancel_branch *branch = (teff__cancel_branch *)(void *)message;
    end_requests(catalog, branch);
    for (uint64_t id; (id = teff__cancel_first(&catalog->exchange->registry, branch)) != 0;)
        teff__catalog_end(catalog, id, NULL, TEFF_ECANCELED);
    teff__cancel_told(message);
}

/* --- What a turn may ask ------------------------------------------------------------------- */

teff_cancel *teff_turn_cancel(const teff_turn *turn)
{
    if (turn == NULL || (turn->kind != TEFF__CALLER_TURN && turn->kind != TEFF__CALLER_OBSERVER))
        return NULL;
    const teff__message *request = ((const teff__turn *)(const void *)turn)->request;
    return request != NULL ? teff__cancel_of(request) : NULL;
}

/* Where there was no memory for the branch when the request came, there must be now. */
static int need_entered(teff__turn *turn, const teff__catalog *catalog)
{
    teff__message *request = (teff__message *)(uintptr_t)turn->request;
    return !teff__ring_empty(&teff__message_entry(request)->ring) ||
                   teff__cancel_enter(request, catalog->worker.index, turn)
               ? 0
               : TEFF_ENOMEM;
}

static int need_canceling(teff__turn *turn, teff__catalog *catalog)
{
    if (turn->canceling != NULL)
        return 0;
    teff__canceling *canceling = teff__memory_alloc(catalog->exchange->memory, sizeof(*canceling));
    if (canceling == NULL)
        return TEFF_ENOMEM;
    canceling->block.bytes = sizeof(*canceling);
    teff__ring_push_back(&catalog->blocks, &canceling->block.ring);
    canceling->item.run = run_canceling;
    canceling->turn = turn;
    turn->canceling = canceling;
    return 0;
}

int teff_turn_on_cancel(teff_turn *caller, void (*canceled)(void *user), void *user)
{
    if (caller == NULL || caller->kind != TEFF__CALLER_TURN || teff__caller_check(caller) != 0)
        return TEFF_EINVALIDSTATE;
    if (canceled == NULL)
        return TEFF_EINVAL;
    teff__catalog *catalog = caller->home;
    teff__turn *turn = teff__canceling_turn(caller);
    if (turn == NULL)
        return 0;
    int r = need_entered(turn, catalog);
    if (r == 0 && teff__cancel_fired(teff__cancel_of(turn->request)))
        return TEFF_ECANCELED;
    if (r == 0)
        r = need_canceling(turn, catalog);
    registration *one = r == 0 ? teff_turn_alloc(caller, sizeof(*one)) : NULL;
    if (one == NULL)
        return TEFF_ENOMEM;
    *one = (registration){ turn->canceling->newest, canceled, user };
    turn->canceling->newest = one;
    return 0;
}
