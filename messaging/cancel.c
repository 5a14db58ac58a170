/* SPDX-License-Identifier: MIT */
#include "messaging/cancel.h"

#include "messaging/client.h"

#include "teff/status.h"

int teff_cancel_create(teff_silo *silo, teff_cancel **ret)
{
    if (silo == NULL || ret == NULL)
        return TEFF_EINVAL;
    teff__exchange *exchange = teff__silo_exchange(silo);
    if (teff__exchange_forked(exchange))
        return TEFF_EINVALIDSTATE;
    teff_cancel *cancel = teff__memory_alloc(exchange->memory, sizeof(*cancel));
    if (cancel == NULL)
        return TEFF_ENOMEM;
    cancel->exchange = exchange;
    teff__atomic_u32_store_relaxed(&cancel->count, 1);
    teff__exchange_hold(exchange);
    *ret = cancel;
    return 0;
}

teff_cancel *teff_cancel_ref(teff_cancel *cancel)
{
    if (cancel != NULL) {
        const uint32_t before = teff__atomic_u32_add_relaxed(&cancel->count, 1);
        teff_assert(before != 0 && before != UINT32_MAX);
    }
    return cancel;
}

teff_cancel *teff_cancel_unref(teff_cancel *cancel)
{
    if (cancel == NULL)
        return NULL;
    const uint32_t before = teff__atomic_u32_add_acq_rel(&cancel->count, UINT32_MAX);
    teff_assert(before != 0);
    if (before != 1)
        return NULL;
    teff__exchange *exchange = cancel->exchange;
    for (teff__cancel_branch *branch = teff__atomic_pointer_load_relaxed(&cancel->branches), *next;
         branch != NULL; branch = next) {
        next = branch->next;
        teff__memory_free(exchange->memory, branch, sizeof(*branch));
    }
    teff__memory_free(exchange->memory, cancel, sizeof(*cancel));
    teff__exchange_release(exchange);
    return NULL;
}

void teff_cancel_fire(teff_cancel *cancel)
{
    if (cancel == NULL || teff__exchange_forked(cancel->exchange) ||
        teff__atomic_u32_exchange_seq_cst(&cancel->fired, 1) != 0)
        return;
    for (teff__cancel_branch *branch = teff__atomic_pointer_load_seq_cst(&cancel->branches);
         branch != NULL; branch = branch->next) {
        (void)teff_cancel_ref(cancel);
        if (branch->owner < TEFF__STRIPES_WORKERS)
            teff__exchange_post(cancel->exchange, branch->owner, &branch->message);
        else if (!teff__client_post(cancel->exchange, branch->owner, &branch->message))
            teff__cancel_told(&branch->message);
    }
}

bool teff_cancel_fired(const teff_cancel *cancel)
{
    return cancel != NULL && teff__cancel_fired(cancel);
}

void teff__cancel_told(teff__message *message)
{
    (void)teff_cancel_unref(((teff__cancel_branch *)(void *)message)->cancel);
}

/* Whose callback that is. */
static uint32_t owner_of(const teff__registry *registry, uint64_t id)
{
    const teff__stripe *stripe = teff__registry_stripe(registry, id);
    return stripe->worker != TEFF__NO_WORKER ? stripe->worker
                                             : (uint32_t)(stripe - registry->stripes);
}

/* The owner's branch, made where there is none; NULL: no memory. */
static teff__cancel_branch *branch_of(teff_cancel *cancel, uint32_t owner)
{
    void *head = teff__atomic_pointer_load_acquire(&cancel->branches);
    for (teff__cancel_branch *branch = head; branch != NULL; branch = branch->next) {
        if (branch->owner == owner)
            return branch;
    }
    teff__cancel_branch *branch = teff__memory_alloc(cancel->exchange->memory, sizeof(*branch));
    if (branch == NULL)
        return NULL;
    branch->message.kind = TEFF__MESSAGE_CANCEL;
    branch->cancel = cancel;
    branch->owner = owner;
    teff__ring_init(&branch->requests);
    do
        branch->next = head;
    while (!teff__atomic_pointer_cas_seq_cst(&cancel->branches, &head, branch));
    return branch;
}

int teff__cancel_link(teff_cancel *cancel, const teff__registry *registry, uint64_t id)
{
    teff__cancel_branch *branch = branch_of(cancel, owner_of(registry, id));
    const uint32_t link = teff__callback_link(id);
    teff__callback_detail *detail = teff__registry_linked(registry, link);
    detail->branch = branch;
    if (branch == NULL)
        return TEFF_ENOMEM;
    detail->branch_next = branch->first;
    detail->branch_previous = 0;
    if (branch->first != 0)
        teff__registry_linked(registry, branch->first)->branch_previous = link;
    else
        (void)teff_cancel_ref(cancel);
    branch->first = link;
    return 0;
}

void teff__cancel_unlink(const teff__registry *registry, uint64_t id)
{
    teff__callback_detail *detail = teff__registry_linked(registry, teff__callback_link(id));
    teff__cancel_branch *branch = detail->branch;
    if (branch == NULL)
        return; /* for want of memory it was never linked */
    if (detail->branch_previous != 0)
        teff__registry_linked(registry, detail->branch_previous)->branch_next = detail->branch_next;
    else
        branch->first = detail->branch_next;
    if (detail->branch_next != 0)
        teff__registry_linked(registry, detail->branch_next)->branch_previous =
            detail->branch_previous;
    if (branch->first == 0)
        (void)teff_cancel_unref(branch->cancel);
}

bool teff__cancel_enter(teff__message *message, uint32_t owner, void *place)
{
    teff__cancel_entry *entry = teff__message_entry(message);
    teff__cancel_branch *branch = branch_of(entry->cancel, owner);
    entry->place = place;
    if (branch == NULL)
        return false;
    teff_assert_slow(teff__ring_empty(&entry->ring));
    teff__ring_push_back(&branch->requests, &entry->ring);
    return true;
}

void teff__cancel_leave(teff__message *message)
{
    teff__cancel_entry *entry = teff__message_entry(message);
    teff__ring_remove(&entry->ring);
    (void)teff_cancel_unref(entry->cancel);
}

/* The whole id of the callback that a link names. */
static uint64_t linked_id(const teff__registry *registry, uint32_t link)
{
    if (link == 0)
        return 0;
    return teff__stripe_open_id(teff__registry_stripe(registry, link - 1),
                                (link - 1) & (TEFF__CALLBACKS_MAX - 1));
}

uint64_t teff__cancel_first(const teff__registry *registry, const teff__cancel_branch *branch)
{
    return linked_id(registry, branch->first);
}

uint64_t teff__cancel_next(const teff__registry *registry, uint64_t id)
{
    return linked_id(registry,
                     teff__registry_linked(registry, teff__callback_link(id))->branch_next);
}
