/* SPDX-License-Identifier: MIT */
#include "grains/stateless.h"

#include "grains/activate.h"
#include "grains/limit.h"

#include "teff/status.h"

/* Members whose mail is compared, at most: those of a longer shift in turn. */
enum { COMPARED_MAX = 64 };

/* The members that a grain has in the silo. */
typedef struct crew {
    teff__grain_record record; /* first: of the crews' table */
    size_t bytes;
    teff__atomic_u32 count; /* who holds the lock; anybody who has a member */
    uint32_t here[];        /* of those, on each worker. Guarded by the lock */
} crew;

/* Those of one worker: there is at least one. */
typedef struct teff__shift {
    teff__grain_record record; /* first: of the catalog's table */
    crew *crew;
    teff__ring members;
    /* the one that became so last comes first; some may have got work since, not from here */
    teff__ring idle;
    uint32_t count;
} shift;

_Static_assert(offsetof(crew, record) == 0 && offsetof(shift, record) == 0, "found by records");

/* --- Crews ----------------------------------------------------------------------------------- */

void teff__crews_init(teff__crews *crews)
{
    for (uint32_t i = 0; i < TEFF__CREWS_SHARDS; i++)
        teff__mutex_init(&crews->shards[i].lock, TEFF__RANK_DIRECTORY);
}

void teff__crews_finish(teff__crews *crews, teff__memory *memory)
{
    for (uint32_t i = 0; i < TEFF__CREWS_SHARDS; i++) {
        teff_assert(crews->shards[i].table.count == 0);
        teff__table_finish(&crews->shards[i].table, memory);
        teff__mutex_finish(&crews->shards[i].lock);
    }
}

static teff__crews_shard *shard_of(const teff__catalog *catalog, uint64_t hash)
{
    _Static_assert(TEFF__CREWS_SHARDS == 16, "the top four bits choose the shard");
    return &catalog->grains->crews.shards[hash >> 60];
}

/* A crew without members. Under the lock. NULL: no memory. */
static crew *crew_add(teff__catalog *catalog, teff__crews_shard *shard,
                      const teff__grain_record *record)
{
    teff__memory *memory = catalog->exchange->memory;
    const size_t bytes =
        sizeof(crew) + catalog->exchange->workers_count * sizeof(((crew *)NULL)->here[0]);
    if (teff__table_reserve(&shard->table, memory) != 0)
        return NULL;
    crew *made = teff__memory_alloc(memory, bytes);
    if (made == NULL)
        return NULL;
    made->record = *record;
    made->bytes = bytes;
    teff__table_add(&shard->table, &made->record);
    return made;
}

/* A worker that has members, the next one after this. Under the lock. */
static uint32_t next_with_members(const teff__catalog *catalog, const crew *of)
{
    const uint32_t workers = catalog->exchange->workers_count;
    uint32_t worker = catalog->worker.index;
    do
        worker = (worker + 1) % workers;
    while (of->here[worker] == 0);
    return worker;
}

/*
 * Reserves a member on this worker, if `wanted`: *ret_crew. Where there may be no more, or none is
 * wanted, *ret_crew is NULL and *ret_worker has one. TEFF_ENOMEM: there are none at all.
 */
static int reserve(teff__catalog *catalog, const teff__grain_record *record, uint32_t max,
                   bool wanted, crew **ret_crew, uint32_t *ret_worker)
{
    teff__crews_shard *shard = shard_of(catalog, record->hash);
    teff__mutex_lock(&shard->lock);
    crew *of =
        (crew *)(void *)teff__table_find(&shard->table, record->hash, record->type, &record->key);
    if (of == NULL && wanted)
        of = crew_add(catalog, shard, record);
    *ret_crew = NULL;
    if (of != NULL) {
        const uint32_t count = teff__atomic_u32_load_relaxed(&of->count);
        if (wanted && count < max) {
            teff__atomic_u32_store_relaxed(&of->count, count + 1);
            of->here[catalog->worker.index]++;
            *ret_crew = of;
        } else {
            *ret_worker = next_with_members(catalog, of);
        }
    }
    teff__mutex_unlock(&shard->lock);
    return of != NULL ? 0 : TEFF_ENOMEM;
}

static void release(teff__catalog *catalog, crew *of)
{
    teff__crews_shard *shard = shard_of(catalog, of->record.hash);
    teff__mutex_lock(&shard->lock);
    const uint32_t count = teff__atomic_u32_load_relaxed(&of->count) - 1;
    teff__atomic_u32_store_relaxed(&of->count, count);
    of->here[catalog->worker.index]--;
    if (count == 0)
        teff__table_remove(&shard->table, &of->record);
    teff__mutex_unlock(&shard->lock);
    if (count == 0) /* nobody else knows it */
        teff__memory_free(catalog->exchange->memory, of, of->bytes);
}

/* --- Shifts ---------------------------------------------------------------------------------- */

static shift *shift_find(const teff__catalog *catalog, const teff__grain_record *record)
{
    return (shift *)(void *)teff__table_find(&catalog->shifts, record->hash, record->type,
                                             &record->key);
}

static shift *shift_add(teff__catalog *catalog, const teff__grain_record *record, crew *of)
{
    teff__memory *memory = catalog->exchange->memory;
    if (teff__table_reserve(&catalog->shifts, memory) != 0)
        return NULL;
    shift *made = teff__memory_alloc(memory, sizeof(*made));
    if (made == NULL)
        return NULL;
    made->record = *record;
    made->crew = of;
    teff__ring_init(&made->members);
    teff__ring_init(&made->idle);
    teff__table_add(&catalog->shifts, &made->record);
    return made;
}

static void shift_free(teff__catalog *catalog, shift *of)
{
    teff__table_remove(&catalog->shifts, &of->record);
    teff__memory_free(catalog->exchange->memory, of, sizeof(*of));
}

/* A member that has nothing to do, or NULL. It stays where it is found: most get their work so. */
static teff__activation *find_idle(shift *of)
{
    while (!teff__ring_empty(&of->idle)) {
        teff__member *member = teff__container_of(of->idle.next, teff__member, idle);
        if (member->activation->flags == 0)
            return member->activation;
        teff__ring_remove(&member->idle); /* it comes back when its run is over */
    }
    return NULL;
}

/* Of two, the one that rather gets the next request: one that goes would have to come again. */
static bool is_better(const teff__activation *one, const teff__activation *other)
{
    if (other == NULL || (one->reason == 0) != (other->reason == 0))
        return other == NULL || one->reason == 0;
    return one->mail_count < other->mail_count;
}

static teff__activation *find_shortest(shift *of)
{
    teff__activation *best = NULL;
    teff__ring *node = of->members.next;
    for (int i = 0; i < COMPARED_MAX && node != &of->members; i++, node = node->next) {
        teff__activation *one = teff__container_of(node, teff__member, ring)->activation;
        if (is_better(one, best))
            best = one;
    }
    if (node != &of->members) { /* the next time begins behind these */
        teff__ring_remove(&of->members);
        teff__ring_push_back(node, &of->members);
    }
    return best;
}

/* --- Members --------------------------------------------------------------------------------- */

/* Makes the member that was reserved; `of` NULL: the first of this worker's. */
static int member_add(teff__catalog *catalog, const teff__type *type,
                      const teff__grain_record *record, crew *reserved, shift *of,
                      teff__activation **ret)
{
    shift *with = of != NULL ? of : shift_add(catalog, record, reserved);
    if (with == NULL)
        return TEFF_ENOMEM;
    int r = teff__limit_take(catalog);
    if (r == 0) {
        r = teff__activation_make(catalog, type, &record->key, record->hash, ret);
        if (r != 0)
            teff__limit_give(catalog);
    }
    if (r != 0) {
        if (of == NULL)
            shift_free(catalog, with);
        return r;
    }
    teff__member *member = teff__activation_member(*ret);
    member->activation = *ret;
    member->shift = with;
    teff__ring_init(&member->idle);
    teff__ring_push_back(&with->members, &member->ring);
    with->count++;
    return 0;
}

int teff__stateless_choose(teff__catalog *catalog, const teff__type *type, const teff_key *key,
                           uint64_t hash, teff__activation **ret_member, uint32_t *ret_worker)
{
    const teff__grain_record record = { .key = *key, .type = type->id, .hash = hash };
    const uint32_t max = type->def.stateless_max;
    shift *of = shift_find(catalog, &record);
    crew *reserved = NULL;
    *ret_member = of != NULL ? find_idle(of) : NULL;
    if (*ret_member != NULL)
        return 0;
    int r = 0;
    if (of == NULL || teff__atomic_u32_load_relaxed(&of->crew->count) < max)
        r = reserve(catalog, &record, max, true, &reserved, ret_worker);
    if (reserved != NULL) {
        r = member_add(catalog, type, &record, reserved, of, ret_member);
        if (r == 0)
            return 0;
        release(catalog, reserved);
    }
    if (of != NULL) { /* also where another one could not be made */
        *ret_member = find_shortest(of);
        return 0;
    }
    return r == 0 || reserve(catalog, &record, max, false, &reserved, ret_worker) == 0 ? 0 : r;
}

void teff__stateless_leave(teff__catalog *catalog, teff__activation *activation)
{
    teff__member *member = teff__activation_member(activation);
    shift *of = member->shift;
    crew *with = of->crew;
    teff__ring_remove(&member->ring);
    teff__ring_remove(&member->idle);
    if (--of->count == 0)
        shift_free(catalog, of);
    release(catalog, with);
}

/* The run may take long, and the member may be gone after it: its address tells. */
void teff__stateless_run(teff__worker *worker, teff__item *item)
{
    const uint64_t address = teff__activation_address((teff__activation *)(void *)item);
    teff__activation_run(worker, item);
    teff__activation *activation = teff__catalog_own(teff__catalog_of(worker), address);
    if (activation == NULL || activation->flags != 0)
        return;
    teff__member *member = teff__activation_member(activation);
    teff__ring *idle = &member->shift->idle;
    teff__ring_remove(&member->idle);
    teff__ring_push_back(idle->next, &member->idle); /* before the first */
}
