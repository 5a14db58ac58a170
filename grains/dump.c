/* SPDX-License-Identifier: MIT */
#include "grains/dump.h"

#include "grains/observer.h"
#include "grains/task.h"
#include "grains/turn.h"
#include "messaging/client.h"
#include "messaging/completion.h"

#include "teff/status.h"

#include <stdlib.h>

#define TIMEOUT_NS INT64_C(1000000000)

/* --- The oldest are kept --------------------------------------------------------------------- */

static void swap(teff__dump_entry *a, teff__dump_entry *b)
{
    const teff__dump_entry kept = *a;
    *a = *b;
    *b = kept;
}

static void sift_up(teff__dump_entry *heap, uint32_t at)
{
    for (; at > 0 && heap[at].since_ns > heap[(at - 1) / 2].since_ns; at = (at - 1) / 2)
        swap(&heap[at], &heap[(at - 1) / 2]);
}

static void sift_down(teff__dump_entry *heap, uint32_t count)
{
    for (uint32_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1].since_ns > heap[child].since_ns)
            child++;
        if (heap[at].since_ns >= heap[child].since_ns)
            return;
        swap(&heap[at], &heap[child]);
    }
}

static void keep(teff__dump *dump, const teff__dump_entry *entry)
{
    teff__mutex_lock(&dump->lock);
    dump->found++;
    if (dump->count < TEFF__DUMP_MAX) {
        dump->entries[dump->count] = *entry;
        sift_up(dump->entries, dump->count++);
    } else if (entry->since_ns < dump->entries[0].since_ns) {
        dump->entries[0] = *entry;
        sift_down(dump->entries, dump->count);
    }
    teff__mutex_unlock(&dump->lock);
}

/* --- Collecting: what callers know ------------------------------------------------------------- */

static teff__dump_work work_of(const teff__activation *activation, const teff__message *request)
{
    if (request != NULL)
        return (teff__dump_work){ request->of, &request->of->methods[request->method], NULL };
    return (teff__dump_work){ .hook = activation->state == TEFF__ACTIVATION_ACTIVATING ? "activate"
                                      : activation->state == TEFF__ACTIVATION_DEACTIVATING
                                          ? "deactivate"
                                          : "a completion" };
}

static teff__dump_party party_of(const teff__activation *activation, teff__dump_work work)
{
    return (teff__dump_party){ activation->type, activation->record.key, work };
}

/* Who called, a turn or a task. */
static void put_caller(teff__dump_entry *entry, const teff_caller *caller)
{
    entry->caller = (teff__dump_party){ 0 };
    if (caller->kind != TEFF__CALLER_TURN)
        return;
    const teff__turn *turn = (const teff__turn *)(const void *)caller;
    entry->caller = party_of(turn->activation, work_of(turn->activation, turn->request));
    if (entry->form != TEFF__DUMP_STARTED)
        entry->behind = turn->activation->mail_count;
}

/* Of a call with a completion: that grain's turn has ended, or not. */
static void put_completion(teff__dump_entry *entry, const teff__catalog *catalog,
                           const teff__completion *completion)
{
    const teff__activation *activation =
        completion->life == NULL ? teff__catalog_own(catalog, completion->message.address) : NULL;
    entry->form = TEFF__DUMP_THEN;
    entry->callee.work.method = completion->method;
    if (activation != NULL)
        entry->caller = party_of(activation, (teff__dump_work){ 0 });
}

static void collect_slot(teff__dump *dump, const teff__catalog *catalog, const teff__stripe *stripe,
                         uint32_t slot, uint64_t word)
{
    const teff__callback *callback = &stripe->callbacks[slot];
    const uint64_t id = teff__stripe_id(stripe, slot, word >> TEFF__CALLBACK_SHIFT);
    const teff__await *await = callback->value;
    teff__dump_entry entry = { .id = id, .owner = (int32_t)catalog->worker.index };
    entry.target = teff__stripe_target(stripe, id);
    entry.since_ns = teff__atomic_i64_load_relaxed(&stripe->columns->opened_ns[slot]);
    entry.deadline_ns = teff__atomic_i64_load_relaxed(&stripe->columns->deadline_ns[slot]);
    if (word & TEFF__CALLBACK_THEN) {
        put_completion(&entry, catalog, teff__stripe_detail(stripe, id)->completion);
    } else if (word & TEFF__CALLBACK_FUTURE) {
        const teff__callback_detail *detail = teff__stripe_detail(stripe, id);
        const bool waits = await != NULL && await->remaining > 0;
        entry.form = waits ? TEFF__DUMP_FUTURES : TEFF__DUMP_STARTED;
        entry.remaining = waits ? (uint32_t)await->remaining : 0;
        entry.callee.work.method = detail->method;
        put_caller(&entry, detail->caller);
    } else if (await != NULL) {
        put_caller(&entry, await->caller);
    }
    keep(dump, &entry);
}

static void collect_sleeper(teff__dump *dump, teff__catalog *catalog, const teff__waiting *waiting)
{
    teff__dump_entry entry = { .owner = (int32_t)catalog->worker.index,
                               .form = TEFF__DUMP_SLEEP,
                               .since_ns = waiting->since_ns,
                               .deadline_ns = waiting->deadline_ns };
    put_caller(&entry, waiting->caller);
    keep(dump, &entry);
}

/* The next slot that is open, and its word; false: none. */
static bool next_open(const teff__stripe *stripe, uint32_t *slot, uint64_t *ret_word)
{
    const uint32_t made = teff__atomic_u32_load_acquire(&stripe->made);
    for (; *slot < made; ++*slot) {
        if (teff__atomic_i64_load_relaxed(&stripe->columns->deadline_ns[*slot]) == INT64_MAX)
            continue;
        *ret_word = teff__atomic_u64_load_acquire(&stripe->callbacks[*slot].word);
        if ((*ret_word & TEFF__CALLBACK_STATE) == TEFF__CALLBACK_OPEN)
            return true;
    }
    return false;
}

static void collect(teff__catalog *catalog, void *user)
{
    teff__dump *dump = user;
    teff__dump_worker *numbers = &dump->workers[catalog->worker.index];
    for (uint32_t i = 0; i < catalog->stripes_used; i++) {
        uint64_t word;
        for (uint32_t slot = 0; next_open(&catalog->stripes[i], &slot, &word); slot++) {
            collect_slot(dump, catalog, &catalog->stripes[i], slot, word);
            numbers->open++;
        }
    }
    teff__waiting_walk walk;
    teff__waiting waiting;
    teff__waiting_begin(&walk, catalog);
    while (teff__waiting_next(&walk, &waiting)) {
        numbers->waits_call += waiting.what == TEFF__WAITING_CALL;
        numbers->waits_futures += waiting.what == TEFF__WAITING_FUTURES;
        numbers->sleeps += waiting.what == TEFF__WAITING_SLEEP;
        numbers->behind += waiting.activation != NULL ? waiting.activation->mail_count : 0;
        if (waiting.what == TEFF__WAITING_SLEEP)
            collect_sleeper(dump, catalog, &waiting);
    }
    numbers->grains = catalog->activations.count;
    for (const teff__ring *at = catalog->tasks.next; at != &catalog->tasks; at = at->next)
        numbers->tasks++;
}

/* Of a client's calls only what anybody may read is told. */
static void collect_client(teff__dump *dump, uint32_t index)
{
    const teff__stripe *stripe =
        &dump->grains->exchange->registry.stripes[TEFF__STRIPES_WORKERS + index];
    uint64_t word;
    for (uint32_t slot = 0; next_open(stripe, &slot, &word); slot++) {
        const uint64_t id = teff__stripe_id(stripe, slot, word >> TEFF__CALLBACK_SHIFT);
        const teff__dump_entry entry = {
            .id = id,
            .target = teff__stripe_target(stripe, id),
            .since_ns = teff__atomic_i64_load_relaxed(&stripe->columns->opened_ns[slot]),
            .deadline_ns = teff__atomic_i64_load_relaxed(&stripe->columns->deadline_ns[slot]),
            .owner = -(int32_t)(TEFF__STRIPES_WORKERS + index),
            .form = word & TEFF__CALLBACK_FUTURE ? TEFF__DUMP_STARTED
                    : word & TEFF__CALLBACK_THEN ? TEFF__DUMP_THEN
                                                 : TEFF__DUMP_AWAITED,
        };
        dump->clients[index].open++;
        keep(dump, &entry);
    }
}

static void collect_clients(teff__dump *dump)
{
    teff__exchange *exchange = dump->grains->exchange;
    const uint32_t count = TEFF__STRIPES - TEFF__STRIPES_WORKERS;
    teff__mutex_lock(&exchange->lock);
    for (uint32_t i = 0; i < count; i++) {
        const teff__client *client = exchange->registry.stripes[TEFF__STRIPES_WORKERS + i].owner;
        if (client != NULL)
            dump->clients[i] =
                (teff__dump_client){ .number = client->number, .on_loop = client->loop != NULL };
    }
    teff__mutex_unlock(&exchange->lock);
    for (uint32_t i = 0; i < count; i++)
        collect_client(dump, i);
}

/* --- Finding: what callees know ---------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const uint64_t left = ((const teff__dump_entry *)a)->id,
                   right = ((const teff__dump_entry *)b)->id;
    return (left > right) - (left < right);
}

/* The lock is held. */
static teff__dump_entry *entry_of(teff__dump *dump, uint64_t id)
{
    const teff__dump_entry key = { .id = id };
    return id != 0 ? bsearch(&key, dump->entries, dump->count, sizeof(key), by_id) : NULL;
}

static void found(teff__dump *dump, const teff__catalog *catalog, const teff__waiting *waiting,
                  const teff__message *request, uint32_t position)
{
    teff__mutex_lock(&dump->lock);
    teff__dump_entry *entry = entry_of(dump, request->correlation);
    if (entry != NULL) {
        entry->place = position == 0 ? TEFF__DUMP_RUNNING : TEFF__DUMP_QUEUED;
        entry->worker = catalog->worker.index;
        entry->position = position;
        entry->what = waiting->what;
        entry->callee = party_of(waiting->activation, work_of(waiting->activation, request));
        entry->holds_it_up = work_of(waiting->activation, waiting->request);
    }
    teff__mutex_unlock(&dump->lock);
}

static void find(teff__catalog *catalog, void *user)
{
    teff__dump *dump = user;
    teff__waiting_walk walk;
    teff__waiting waiting;
    teff__waiting_begin(&walk, catalog);
    while (teff__waiting_next(&walk, &waiting)) {
        if (waiting.activation == NULL)
            continue;
        if (waiting.request != NULL)
            found(dump, catalog, &waiting, waiting.request, 0);
        uint32_t position = 0;
        for (const teff__message *request = NULL;
             (request = teff__waiting_mail(waiting.activation, request)) != NULL;)
            found(dump, catalog, &waiting, request, ++position);
    }
}

/* --- The dump ---------------------------------------------------------------------------------- */

/* Whose they are, workers first; the oldest first, and calls before those that sleep. */
static int by_owner_and_age(const void *a, const void *b)
{
    const teff__dump_entry *left = a, *right = b;
    const uint32_t x = (uint32_t)(left->owner < 0 ? TEFF__WORKERS_MAX - left->owner : left->owner),
                   y = (uint32_t)(right->owner < 0 ? TEFF__WORKERS_MAX - right->owner
                                                   : right->owner);
    if (x != y)
        return (x > y) - (x < y);
    if (left->since_ns != right->since_ns)
        return (left->since_ns > right->since_ns) - (left->since_ns < right->since_ns);
    if (left->id == 0 && right->id == 0) /* two that sleep */
        return memcmp(&left->caller.key, &right->caller.key, sizeof(left->caller.key));
    return left->id == 0 ? 1 : right->id == 0 ? -1 : by_id(a, b);
}

static void gather(teff__dump *dump)
{
    const uint64_t all = teff__exchange_all(dump->grains->exchange);
    const teff__clock *clock = &dump->grains->exchange->clock;
    teff__inspect(dump->grains, all, collect, dump,
                  teff__time_add(teff__clock_now_ns(clock), TIMEOUT_NS), &dump->silent);
    collect_clients(dump);
    qsort(dump->entries, dump->count, sizeof(*dump->entries), by_id);
    /* Those that are silent have used up the time: the others have theirs. */
    teff__inspect(dump->grains, all & ~dump->silent, find, dump,
                  teff__time_add(teff__clock_now_ns(clock), TIMEOUT_NS), &dump->silent_then);
    dump->ended = teff__inspect_ended(dump->grains);
    qsort(dump->entries, dump->count, sizeof(*dump->entries), by_owner_and_age);
}

int teff_silo_dump(teff_silo *silo, void (*line)(void *user, const char *text), void *user)
{
    if (silo == NULL || line == NULL)
        return TEFF_EINVAL;
    teff__grains *grains = teff__silo_grains(silo);
    const int r = teff__inspect_check(grains);
    if (r != 0)
        return r;
    teff__memory *memory = grains->exchange->memory;
    teff__dump *dump = teff__memory_alloc_line(memory, sizeof(*dump));
    if (dump == NULL)
        return TEFF_ENOMEM;
    dump->grains = grains;
    dump->line = line;
    dump->user = user;
    dump->now_ns = teff__clock_now_ns(&grains->exchange->clock);
    teff__mutex_init(&dump->lock, TEFF__RANK_INSPECT);
    gather(dump);
    teff__dump_print(dump);
    teff__mutex_finish(&dump->lock);
    teff__memory_free(memory, dump, sizeof(*dump));
    return 0;
}
