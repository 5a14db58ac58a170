/* SPDX-License-Identifier: MIT */
/*
 * Stripes: growing, publishing behind the gate, claiming, and handing over.
 *
 * A stripe reserves address space for all the slots it may ever have when its first one is made,
 * and a page of it is paid for when it is touched. So slots never move, deadlines are one array,
 * and whoever holds a late id may always look.
 */
#include "messaging/registry.h"

#include "runtime/thread.h"
#include "teff/status.h"

int teff__registry_init(teff__registry *registry, teff__memory *memory, uint32_t workers)
{
    teff_assert(workers >= 1 && workers <= TEFF__STRIPES_WORKERS);
    registry->memory = memory;
    registry->stripes = teff__memory_alloc_line(memory, TEFF__STRIPES * sizeof(*registry->stripes));
    if (registry->stripes == NULL)
        return TEFF_ENOMEM;
    for (uint32_t i = 0; i < TEFF__STRIPES; i++) {
        teff__stripe *stripe = &registry->stripes[i];
        stripe->memory = memory;
        stripe->base = i << TEFF__CALLBACK_BITS;
        stripe->low_ns = INT64_MAX;
        stripe->generation_max = TEFF__GENERATION_MAX;
        stripe->wake_fd = -1;
        teff__inbox_init(&stripe->mail);
        /* Worker k owns a run of neighbouring stripes, all of the first half together. */
        stripe->worker =
            i < TEFF__STRIPES_WORKERS ? i * workers / TEFF__STRIPES_WORKERS : TEFF__NO_WORKER;
    }
    return 0;
}

enum {
    CALLBACKS_BYTES = TEFF__CALLBACKS_MAX * (int)sizeof(teff__callback),
    DEADLINES_BYTES = TEFF__CALLBACKS_MAX * (int)sizeof(teff__atomic_i64),
    DETAILS_BYTES = TEFF__CALLBACKS_MAX * (int)sizeof(teff__callback_detail)
};

void teff__registry_finish(teff__registry *registry)
{
    for (uint32_t i = 0; registry->stripes != NULL && i < TEFF__STRIPES; i++) {
        teff__stripe *stripe = &registry->stripes[i];
        teff__memory_release(registry->memory, stripe->callbacks, CALLBACKS_BYTES);
        teff__memory_release(registry->memory, stripe->deadlines, DEADLINES_BYTES);
        teff__memory_release(registry->memory, stripe->details, DETAILS_BYTES);
        teff__wakeup_close(stripe->wake_fd);
    }
    teff__memory_free(registry->memory, registry->stripes,
                      TEFF__STRIPES * sizeof(*registry->stripes));
    registry->stripes = NULL;
}

uint64_t teff__registry_open_count(const teff__registry *registry)
{
    uint64_t opened = 0, closed = 0;
    /*
     * Closed first: a call that opens and closes in between is then missed, not counted negative.
     */
    for (uint32_t i = 0; i < TEFF__STRIPES; i++)
        closed += teff__atomic_u64_load_acquire(&registry->stripes[i].closed);
    for (uint32_t i = 0; i < TEFF__STRIPES; i++)
        opened += teff__atomic_u64_load_acquire(&registry->stripes[i].opened);
    return opened - closed;
}

static bool stripe_reserve(teff__stripe *stripe)
{
    if (stripe->callbacks == NULL)
        stripe->callbacks = teff__memory_reserve(stripe->memory, CALLBACKS_BYTES);
    if (stripe->callbacks != NULL && stripe->deadlines == NULL)
        stripe->deadlines = teff__memory_reserve(stripe->memory, DEADLINES_BYTES);
    return stripe->deadlines != NULL;
}

int teff__stripe_add_details(teff__stripe *stripe)
{
    stripe->details = teff__memory_reserve(stripe->memory, DETAILS_BYTES);
    return stripe->details != NULL ? 0 : TEFF_ENOMEM;
}

teff__callback *teff__stripe_grow(teff__stripe *stripe, int *ret_status)
{
    const uint32_t slot = teff__atomic_u32_load_relaxed(&stripe->made);
    if (slot == TEFF__CALLBACKS_MAX) {
        *ret_status = TEFF_EOVERLOADED;
        return NULL;
    }
    if (!stripe_reserve(stripe)) {
        *ret_status = TEFF_ENOMEM;
        return NULL;
    }
    teff__atomic_i64_store_relaxed(&stripe->deadlines[slot], INT64_MAX);
    teff__atomic_u32_store_seq_cst(&stripe->made, slot + 1); /* pairs with claim_all's load */
    return &stripe->callbacks[slot];
}

bool teff__stripe_open_shared(teff__stripe *stripe, teff__callback *callback, int64_t deadline_ns,
                              uint32_t flags, uint64_t *ret_id)
{
    const uint32_t slot = teff__stripe_index(stripe, callback);
    const uint64_t generation = teff__stripe_prepare(stripe, callback, slot, NULL, deadline_ns);
    const uint64_t word = generation << TEFF__CALLBACK_SHIFT | flags | TEFF__CALLBACK_OPEN;
    *ret_id = teff__stripe_id(stripe, slot, generation);
    teff__atomic_u64_store_seq_cst(&callback->word, word);    /* the gate: mine … */
    return teff__atomic_u32_load_seq_cst(&stripe->gate) == 0; /* … then yours */
}

bool teff__stripe_retract(teff__stripe *stripe, uint64_t id)
{
    teff__callback *callback = teff__stripe_at(stripe, id);
    uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
    do {
        if (!teff__callback_is_open(word, id))
            return false;
    } while (!teff__atomic_u64_cas_acq_rel(
        &callback->word, &word, (word & ~(uint64_t)TEFF__CALLBACK_STATE) | TEFF__CALLBACK_SETTLED));
    teff__atomic_i64_store_relaxed(&stripe->deadlines[id & (TEFF__CALLBACKS_MAX - 1)], INT64_MAX);
    teff__atomic_u64_increment_owner(&stripe->closed);
    teff__stripe_free(stripe, callback);
    return true;
}

/* Pairs with the client's going to sleep: set mine, look at yours. */
void teff__stripe_wake(teff__stripe *stripe)
{
    if (teff__atomic_u32_load_seq_cst(&stripe->sleeping) == 0 ||
        teff__atomic_u32_exchange_seq_cst(&stripe->sleeping, 0) == 0)
        return;
    const uint32_t by = teff__atomic_u32_load_relaxed(&stripe->wake_by);
    if (by != 0)
        teff__wakeup_send((int)by - 1);
    else
        teff__futex_wake(&stripe->sleeping);
}

void teff__stripe_close_gate(teff__stripe *stripe)
{
    teff__atomic_u32_store_seq_cst(&stripe->gate, 1);
    teff__stripe_wake(stripe);
}

/* Who moves it from open to claimed has won, and its end stands in it. NULL: another one has. */
static teff__callback *claim(teff__stripe *stripe, uint64_t id, void *answer, int code)
{
    /* Acquire: what the owner put into the slot before it published `made` or the word. */
    if ((id & (TEFF__CALLBACKS_MAX - 1)) >= teff__atomic_u32_load_acquire(&stripe->made))
        return NULL;
    teff__callback *callback = teff__stripe_at(stripe, id);
    uint64_t word = teff__atomic_u64_load_acquire(&callback->word);
    do {
        if (!teff__callback_is_open(word, id))
            return NULL;
    } while (!teff__atomic_u64_cas_acq_rel(
        &callback->word, &word, (word & ~(uint64_t)TEFF__CALLBACK_STATE) | TEFF__CALLBACK_CLAIMED));
    callback->value = answer;
    callback->code = code;
    return callback;
}

bool teff__stripe_claim(teff__stripe *stripe, uint64_t id, void *answer, int code)
{
    teff__callback *callback = claim(stripe, id, answer, code);
    if (callback == NULL)
        return false;
    uint32_t head = teff__atomic_u32_load_relaxed(&stripe->done);
    do
        callback->done = head;
    while (!teff__atomic_u32_cas_seq_cst(&stripe->done, &head,
                                         teff__stripe_index(stripe, callback) + 1));
    teff__stripe_wake(stripe);
    return true;
}

teff__callback *teff__stripe_claim_own(teff__stripe *stripe, uint64_t id, void *answer)
{
    return claim(stripe, id, answer, 0);
}

uint32_t teff__stripe_take_done(teff__stripe *stripe)
{
    if (teff__atomic_u32_load_relaxed(&stripe->done) == 0)
        return 0;
    uint32_t stack = teff__atomic_u32_exchange_acquire(&stripe->done, 0), fifo = 0;
    while (stack != 0) {
        teff__callback *callback = &stripe->callbacks[stack - 1];
        const uint32_t next = callback->done;
        callback->done = fifo;
        fifo = stack;
        stack = next;
    }
    return fifo;
}

uint64_t teff__stripe_next_due(const teff__stripe *stripe, int64_t now_ns, uint32_t *slot,
                               int64_t *low_ns)
{
    const uint32_t made = teff__atomic_u32_load_relaxed(&stripe->made);
    while (*slot < made) {
        const int64_t deadline_ns = teff__atomic_i64_load_relaxed(&stripe->deadlines[*slot]);
        if (deadline_ns <= now_ns)
            return teff__stripe_open_id(stripe, (*slot)++);
        *low_ns = deadline_ns < *low_ns ? deadline_ns : *low_ns;
        (*slot)++;
    }
    return 0;
}

uint64_t teff__stripe_next_open(const teff__stripe *stripe, uint32_t *slot)
{
    const uint32_t made = teff__atomic_u32_load_seq_cst(&stripe->made);
    while (*slot < made) {
        const uint32_t at = (*slot)++;
        const uint64_t word = teff__atomic_u64_load_seq_cst(&stripe->callbacks[at].word);
        if ((word & TEFF__CALLBACK_STATE) == TEFF__CALLBACK_OPEN)
            return teff__stripe_id(stripe, at, word >> TEFF__CALLBACK_SHIFT);
    }
    return 0;
}

void teff__stripe_claim_all(teff__stripe *stripe, int code)
{
    uint32_t slot = 0;
    for (uint64_t id; (id = teff__stripe_next_open(stripe, &slot)) != 0;)
        (void)teff__stripe_claim(stripe, id, NULL, code);
}
