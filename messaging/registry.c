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

enum {
    CALLBACKS_BYTES = TEFF__CALLBACKS_MAX * (int)sizeof(teff__callback),
    COLUMNS_BYTES = ((int)sizeof(teff__callback_columns) + 4095) / 4096 * 4096,
    DETAILS_BYTES = TEFF__CALLBACKS_MAX * (int)sizeof(teff__callback_detail),
    ENDS_BYTES = (TEFF__STRIPES * (int)sizeof(teff__stripe_ends) + 4095) / 4096 * 4096
};

int teff__registry_init(teff__registry *registry, teff__memory *memory, uint32_t workers)
{
    teff_assert(workers >= 1 && workers <= TEFF__STRIPES_WORKERS);
    registry->memory = memory;
    registry->stripes = teff__memory_alloc_line(memory, TEFF__STRIPES * sizeof(*registry->stripes));
    if (registry->stripes == NULL)
        return TEFF_ENOMEM;
    for (uint32_t i = 0; i < TEFF__STRIPES; i++) {
        teff__stripe *stripe = &registry->stripes[i];
        stripe->registry = registry;
        stripe->base = i << TEFF__CALLBACK_BITS;
        stripe->low_ns = INT64_MAX;
        stripe->generation_max = TEFF__GENERATION_MAX;
        stripe->wake_fd = -1;
        teff__inbox_init(&stripe->mail);
        /* Worker k owns a run of neighbouring stripes, all of the first half together. */
        stripe->worker =
            i < TEFF__STRIPES_WORKERS ? i * workers / TEFF__STRIPES_WORKERS : TEFF__NO_WORKER;
    }
    registry->ends = teff__memory_reserve(memory, ENDS_BYTES);
    if (registry->ends == NULL) {
        teff__registry_finish(registry);
        return TEFF_ENOMEM;
    }
    return 0;
}

void teff__registry_finish(teff__registry *registry)
{
    for (uint32_t i = 0; registry->stripes != NULL && i < TEFF__STRIPES; i++) {
        teff__stripe *stripe = &registry->stripes[i];
        teff__memory_release(registry->memory, stripe->callbacks, CALLBACKS_BYTES);
        teff__memory_release(registry->memory, stripe->columns, COLUMNS_BYTES);
        teff__memory_release(registry->memory, stripe->details, DETAILS_BYTES);
        teff__wakeup_close(stripe->wake_fd);
    }
    teff__memory_release(registry->memory, registry->ends, ENDS_BYTES);
    teff__memory_free(registry->memory, registry->stripes,
                      TEFF__STRIPES * sizeof(*registry->stripes));
    registry->ends = NULL;
    registry->stripes = NULL;
}

/* Counting looks at it from now on. */
static void stripe_use(teff__stripe *stripe)
{
    const uint32_t index = (uint32_t)(stripe - stripe->registry->stripes);
    (void)teff__atomic_u64_or_relaxed(&stripe->registry->used[index / 64], UINT64_C(1)
                                                                               << index % 64);
}

void teff__stripe_count_unsent(teff__stripe *stripe, teff_end end)
{
    stripe_use(stripe);
    teff__stripe_count_end(stripe, end);
    teff__atomic_u64_increment_owner(&stripe->opened);
    teff__atomic_u64_increment_owner(&stripe->closed);
}

static bool stripe_reserve(teff__stripe *stripe)
{
    teff__registry *registry = stripe->registry;
    if (stripe->callbacks == NULL)
        stripe->callbacks = teff__memory_reserve(registry->memory, CALLBACKS_BYTES);
    if (stripe->callbacks != NULL && stripe->columns == NULL)
        stripe->columns = teff__memory_reserve(registry->memory, COLUMNS_BYTES);
    if (stripe->columns != NULL)
        stripe_use(stripe);
    return stripe->columns != NULL;
}

int teff__stripe_add_details(teff__stripe *stripe)
{
    stripe->details = teff__memory_reserve(stripe->registry->memory, DETAILS_BYTES);
    return stripe->details != NULL ? 0 : TEFF_ENOMEM;
}

teff__callback *teff__stripe_grow(teff__stripe *stripe, int *ret_status)
{
    const uint32_t slot = teff__atomic_u32_load_relaxed(&stripe->made);
    if (slot == TEFF__CALLBACKS_MAX) {
        *ret_status = TEFF_EOVERLOADED;
        return NULL;
    }
    if (stripe->columns == NULL && !stripe_reserve(stripe)) {
        *ret_status = TEFF_ENOMEM;
        return NULL;
    }
    teff__atomic_i64_store_relaxed(&stripe->columns->deadline_ns[slot], INT64_MAX);
    teff__atomic_u32_store_seq_cst(&stripe->made, slot + 1); /* pairs with claim_all's load */
    return &stripe->callbacks[slot];
}

bool teff__stripe_open_shared(teff__stripe *stripe, teff__callback *callback,
                              const teff__callback_terms *terms, uint32_t flags, uint64_t *ret_id)
{
    const uint32_t slot = teff__stripe_index(stripe, callback);
    const uint64_t generation = teff__stripe_prepare(stripe, callback, slot, NULL, terms);
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
    teff__stripe_received(stripe, teff__stripe_index(stripe, callback));
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
    teff__atomic_u32_store_seq_cst(&stripe->gate, TEFF__GATE_CLOSED);
    teff__stripe_wake(stripe);
}

void teff__stripe_end(teff__stripe *stripe, int code)
{
    teff__atomic_u32_store_seq_cst(&stripe->gate, TEFF__GATE_ENDED);
    if (teff__atomic_u32_load_relaxed(&stripe->wake_by) == 0)
        teff__stripe_claim_all(stripe, code);
    teff__stripe_wake(stripe);
}

bool teff__stripe_claim(teff__stripe *stripe, uint64_t id, void *answer, int code)
{
    /* Acquire: what the owner put into the slot before it published `made` or the word. */
    if ((id & (TEFF__CALLBACKS_MAX - 1)) >= teff__atomic_u32_load_acquire(&stripe->made))
        return false;
    teff__callback *callback = teff__stripe_at(stripe, id);
    uint64_t word = teff__atomic_u64_load_acquire(&callback->word);
    do {
        if (!teff__callback_is_open(word, id))
            return false;
    } while (!teff__atomic_u64_cas_acq_rel(
        &callback->word, &word, (word & ~(uint64_t)TEFF__CALLBACK_STATE) | TEFF__CALLBACK_CLAIMED));
    callback->value = answer;
    callback->code = code;
    uint32_t head = teff__atomic_u32_load_relaxed(&stripe->done);
    do
        callback->done = head;
    while (!teff__atomic_u32_cas_seq_cst(&stripe->done, &head,
                                         teff__stripe_index(stripe, callback) + 1));
    teff__stripe_wake(stripe);
    return true;
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

/* Two cache lines of deadlines. */
enum { BLOCK = 32 };

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/*
 * The earliest of a block: four chains of comparisons, which a core does side by side. By name: in an
 * array the compiler keeps them in memory.
 */
static int64_t earliest(const teff__atomic_i64 *block)
{
    int64_t a = INT64_MAX, b = INT64_MAX, c = INT64_MAX, d = INT64_MAX;
    for (int i = 0; i < BLOCK; i += 4) {
        a = earlier(a, teff__atomic_i64_load_relaxed(&block[i]));
        b = earlier(b, teff__atomic_i64_load_relaxed(&block[i + 1]));
        c = earlier(c, teff__atomic_i64_load_relaxed(&block[i + 2]));
        d = earlier(d, teff__atomic_i64_load_relaxed(&block[i + 3]));
    }
    return earlier(earlier(a, b), earlier(c, d));
}

uint64_t teff__stripe_next_due(const teff__stripe *stripe, int64_t now_ns, uint32_t *slot,
                               int64_t *low_ns)
{
    const uint32_t made = teff__atomic_u32_load_relaxed(&stripe->made);
    if (made == 0)
        return 0;
    const teff__atomic_i64 *deadlines = stripe->columns->deadline_ns;
    int64_t low = *low_ns;
    uint32_t at = *slot;
    uint64_t found = 0;
    while (at < made && found == 0) {
        if (at % BLOCK == 0 && made - at >= BLOCK) {
            const int64_t block_ns = earliest(&deadlines[at]);
            if (TEFF__LIKELY(block_ns > now_ns)) {
                low = earlier(low, block_ns);
                at += BLOCK;
                continue;
            }
        }
        const int64_t deadline_ns = teff__atomic_i64_load_relaxed(&deadlines[at]);
        if (deadline_ns <= now_ns)
            found = teff__stripe_open_id(stripe, at);
        else
            low = earlier(low, deadline_ns);
        at++;
    }
    *slot = at;
    *low_ns = low;
    return found;
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

void teff__registry_count_late(teff__registry *registry, uint64_t id)
{
    const teff__stripe *stripe = teff__registry_stripe(registry, id);
    const uint64_t generation = id >> TEFF__GENERATION_SHIFT;
    /* Acquire, as in claim. */
    const bool was =
        (id & (TEFF__CALLBACKS_MAX - 1)) < teff__atomic_u32_load_acquire(&stripe->made) &&
        generation != 0 &&
        generation <= teff__atomic_u64_load_acquire(&teff__stripe_at(stripe, id)->word) >>
            TEFF__CALLBACK_SHIFT;
    (void)teff__atomic_u64_add_relaxed(was ? &registry->late : &registry->unknown, 1);
}
