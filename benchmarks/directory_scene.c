/* SPDX-License-Identifier: MIT */
#include "benchmarks/directory_scene.h"

#include "runtime/chance.h"

#include <stdlib.h>

enum { TYPE = 1 };

static uint64_t address_of(uint64_t number)
{
    return teff__address_make(teff__address_tag(1, TEFF__ADDRESS_ACTIVATION), (uint32_t)number, 1);
}

static int init_routes(directory_scene *scene, teff__routes *routes, uint32_t capacity)
{
    const teff__routes_options options = { .capacity = capacity, .ttl_ns = INT64_C(240000000000) };
    const int r = teff__routes_init(routes, &scene->memory, &options);
    teff__routes_set_now(routes, INT64_C(1000000000));
    return r;
}

static uint64_t hash_of(const directory_scene *scene, const teff_key *key)
{
    return teff__key_hash(&scene->seed, TYPE, key);
}

static directory_plain *table_place(const directory_scene *scene, uint64_t hash,
                                    const teff_key *key)
{
    const uint64_t mask = scene->table_size - 1;
    uint64_t place = hash & mask;
    for (;; place = (place + 1) & mask) {
        directory_plain *entry = &scene->table[place];
        if (entry->address == 0 || (entry->hash == hash && teff__key_equal(&entry->key, key)))
            return entry;
    }
}

static int add_everywhere(directory_scene *scene, uint32_t number)
{
    const teff_key key = teff_key_u64(number);
    const uint64_t hash = hash_of(scene, &key);
    teff__grain_record *record = &scene->records[number];
    teff__route *route = NULL;
    uint64_t address = 0;
    *record = (teff__grain_record){ .key = key, .type = TYPE, .hash = hash };
    record->address = address_of(number);
    int r = teff__routes_add(&scene->routes, hash, TYPE, &key, record->address, &route);
    if (r == 0)
        r = teff__routes_add(&scene->full, hash, TYPE, &key, record->address, &route);
    if (r == 0)
        r = teff__directory_register(&scene->directory, record, 0, &address);
    if (r != 0)
        return r;
    scene->array[number] = (teff__route){ .key = key, .hash = hash, .state = 1 };
    scene->array[number].address = record->address;
    *table_place(scene, hash, &key) =
        (directory_plain){ .key = key, .hash = hash, .address = record->address };
    return 0;
}

/* References with their hints, in a random order. */
static int refer(directory_scene *scene, teff__chance *chance)
{
    for (uint32_t i = 0; i < scene->entries; i++)
        scene->numbers[i] = i;
    for (uint32_t i = scene->entries - 1; i > 0; i--) {
        const uint32_t other = (uint32_t)(teff__chance_next(chance) % (i + 1));
        const uint32_t number = scene->numbers[i];
        scene->numbers[i] = scene->numbers[other];
        scene->numbers[other] = number;
    }
    for (uint32_t i = 0; i < scene->entries; i++) {
        teff_ref *ref = &scene->refs[i];
        ref->key = teff_key_u64(scene->numbers[i]);
        if (teff__routes_find(&scene->routes, hash_of(scene, &ref->key), TYPE, &ref->key,
                              &ref->route) == NULL)
            return -1;
    }
    return 0;
}

int directory_scene_init(directory_scene *scene, uint32_t entries)
{
    teff__chance chance;
    memset(scene, 0, sizeof(*scene));
    scene->entries = entries;
    teff__memory_init(&scene->memory, 0);
    teff__chance_init(&chance, 1);
    teff__hash_seed_init(&scene->seed, &chance);
    teff__directory_init(&scene->directory, &scene->memory);
    for (scene->table_size = 2; scene->table_size < UINT64_C(2) * entries;)
        scene->table_size *= 2;
    scene->refs = calloc(entries, sizeof(*scene->refs));
    scene->strangers = calloc(entries, 2 * sizeof(*scene->strangers));
    scene->numbers = calloc(entries, sizeof(*scene->numbers));
    scene->records = calloc(entries, sizeof(*scene->records));
    scene->array = calloc(entries, sizeof(*scene->array));
    scene->table = calloc(scene->table_size, sizeof(*scene->table));
    if (scene->refs == NULL || scene->strangers == NULL || scene->numbers == NULL ||
        scene->records == NULL || scene->array == NULL || scene->table == NULL ||
        init_routes(scene, &scene->routes, entries) != 0 ||
        init_routes(scene, &scene->full, entries) != 0)
        return -1;
    for (uint32_t i = 0; i < entries; i++) {
        if (add_everywhere(scene, i) != 0)
            return -1;
    }
    for (uint32_t i = 0; i < 2 * entries; i++)
        scene->strangers[i] = teff_key_u64(entries + i);
    return refer(scene, &chance);
}

void directory_scene_finish(directory_scene *scene)
{
    if (scene->routes.memory != NULL)
        teff__routes_finish(&scene->routes);
    if (scene->full.memory != NULL)
        teff__routes_finish(&scene->full);
    teff__directory_finish(&scene->directory);
    free(scene->refs);
    free(scene->strangers);
    free(scene->numbers);
    free(scene->records);
    free(scene->array);
    free(scene->table);
    memset(scene, 0, sizeof(*scene));
}

uint64_t directory_sum(const directory_scene *scene)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < scene->entries; i++)
        sum += address_of(i);
    return sum;
}

uint64_t directory_by_handle(directory_scene *scene, uint64_t passes)
{
    uint64_t sum = 0;
    const teff_ref *refs = scene->refs;
    const uint32_t entries = scene->entries;
    while (passes-- > 0) {
        for (uint32_t i = 0; i < entries; i++) {
            const teff_ref *ref = &refs[i];
            const teff__route *route = teff__routes_get(&scene->routes, ref->route, &ref->key);
            sum += route != NULL ? teff__route_address(route) : 0;
        }
    }
    return sum;
}

uint64_t directory_by_cache(directory_scene *scene, uint64_t passes)
{
    uint64_t sum = 0, name;
    const teff_ref *refs = scene->refs;
    const uint32_t entries = scene->entries;
    while (passes-- > 0) {
        for (uint32_t i = 0; i < entries; i++) {
            const teff_key *key = &refs[i].key;
            const teff__route *route =
                teff__routes_find(&scene->routes, hash_of(scene, key), TYPE, key, &name);
            sum += route != NULL ? teff__route_address(route) : 0;
        }
    }
    return sum;
}

uint64_t directory_by_shards(directory_scene *scene, uint64_t passes)
{
    uint64_t sum = 0;
    const teff_ref *refs = scene->refs;
    const uint32_t entries = scene->entries;
    while (passes-- > 0) {
        for (uint32_t i = 0; i < entries; i++) {
            const teff_key *key = &refs[i].key;
            sum += teff__directory_find(&scene->directory, hash_of(scene, key), TYPE, key);
        }
    }
    return sum;
}

uint64_t directory_by_array(directory_scene *scene, uint64_t passes)
{
    uint64_t sum = 0;
    const teff_ref *refs = scene->refs;
    const uint32_t *numbers = scene->numbers, now = scene->routes.now;
    teff__route *array = scene->array;
    const uint32_t entries = scene->entries;
    while (passes-- > 0) {
        for (uint32_t i = 0; i < entries; i++) {
            teff__route *route = &array[numbers[i]];
            if (!teff__key_equal(&route->key, &refs[i].key))
                continue;
            route->used = now;
            sum += route->address;
        }
    }
    return sum;
}

uint64_t directory_by_table(directory_scene *scene, uint64_t passes)
{
    uint64_t sum = 0;
    const teff_ref *refs = scene->refs;
    const uint32_t entries = scene->entries;
    while (passes-- > 0) {
        for (uint32_t i = 0; i < entries; i++) {
            const teff_key *key = &refs[i].key;
            sum += table_place(scene, hash_of(scene, key), key)->address;
        }
    }
    return sum;
}

static const teff_key *next_stranger(directory_scene *scene)
{
    const uint32_t next = scene->stranger++;
    if (scene->stranger == 2 * scene->entries)
        scene->stranger = 0;
    return &scene->strangers[next];
}

uint64_t directory_miss(directory_scene *scene, uint64_t passes)
{
    uint64_t sum = 0, name;
    for (uint64_t i = 0; i < passes * scene->entries; i++) {
        const teff_key *key = next_stranger(scene);
        sum += teff__routes_find(&scene->routes, hash_of(scene, key), TYPE, key, &name) != NULL;
    }
    return sum;
}

uint64_t directory_evict(directory_scene *scene, uint64_t passes)
{
    uint64_t failed = 0;
    for (uint64_t i = 0; i < passes * scene->entries; i++) {
        teff__route *route;
        const teff_key *key = next_stranger(scene);
        failed += teff__routes_add(&scene->full, hash_of(scene, key), TYPE, key, address_of(1),
                                   &route) != 0;
    }
    return failed + (scene->full.count != scene->entries);
}

double directory_entry_bytes(uint32_t capacity)
{
    directory_scene scene = { 0 };
    int r;
    teff__memory_init(&scene.memory, 0);
    r = init_routes(&scene, &scene.routes, capacity);
    for (uint32_t i = 0; r == 0 && i < capacity; i++) {
        teff__route *route;
        const teff_key key = teff_key_u64(i);
        r = teff__routes_add(&scene.routes, hash_of(&scene, &key), TYPE, &key, address_of(i),
                             &route);
    }
    const double bytes = (double)(teff__atomic_u64_load_relaxed(&scene.memory.bytes));
    const bool full = r == 0 && scene.routes.count == capacity;
    if (scene.routes.memory != NULL)
        teff__routes_finish(&scene.routes);
    return full ? bytes / capacity : 0;
}
