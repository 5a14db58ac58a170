/* SPDX-License-Identifier: MIT */
/*
 * Stateless workers from all workers and clients at once: never more activations of one grain than
 * its type allows, checked inside the grains, while members leave at once, rest, fail to come, and
 * come back; and no call is lost.
 *
 *     stress_stateless [calls=20000] [workers=4] [clients=2] [seed=1]
 *
 * `calls` of each caller: two tasks on each worker, and the clients.
 */
#include "runtime/chance.h"

#include "teff.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAINS = 4, IN_FLIGHT = 6, CLIENTS_MAX = 16, WORKERS_MAX = 64 };

struct work {
    uint64_t grain;
    uint64_t kind; /* see serve */
};

#define CREW_METHODS(METHOD, SELF) METHOD(SELF, serve, struct work, teff_none, 0)
TEFF_INTERFACE(crew, CREW_METHODS);
TEFF_INTERFACE_DEFINE(crew, CREW_METHODS);

struct crew {
    bool inside; /* a turn runs: another one must not */
};
TEFF_HANDLERS(crew, struct crew, crew, CREW_METHODS);

/* By type, then by grain. */
static const uint32_t max_of[2] = { 1, 3 };
static atomic_uint living[2][GRAINS], highest[2];
static atomic_ullong asked, served, made, failed, wrong;
static atomic_int callers_left;
static uint64_t calls = 20000, workers = 4, clients = 2, seed = 1;
static teff_silo *silo;

static int type_of(const teff_turn *turn)
{
    return strcmp(teff_turn_self(turn).type->text, "single") == 0 ? 0 : 1;
}

static uint64_t grain_of(const teff_turn *turn)
{
    uint64_t key;
    memcpy(&key, teff_turn_key(turn)->bytes, sizeof(key));
    return key;
}

static int crew_activate(teff_turn *turn, void *self)
{
    const int type = type_of(turn);
    const unsigned now = atomic_fetch_add(&living[type][grain_of(turn)], 1) + 1;
    unsigned before = atomic_load(&highest[type]);
    (void)self;
    while (now > before && !atomic_compare_exchange_weak(&highest[type], &before, now))
        ;
    if (now > max_of[type])
        atomic_fetch_add(&wrong, 1);
    if (atomic_fetch_add(&made, 1) % 97 == 96) {
        atomic_fetch_sub(&living[type][grain_of(turn)], 1);
        return 7;
    }
    return 0;
}

static void crew_deactivate(teff_turn *turn, void *self, int reason)
{
    (void)self;
    if (reason != TEFF_DEACTIVATED_STOP && grain_of(turn) % 2 == 0)
        (void)teff_sleep(turn, 50000);
    atomic_fetch_sub(&living[type_of(turn)][grain_of(turn)], 1);
}

static int crew_on_serve(teff_turn *turn, struct crew *self, const struct work *arg, teff_none *ret)
{
    (void)ret;
    if (self->inside || grain_of(turn) != arg->grain)
        atomic_fetch_add(&wrong, 1);
    self->inside = true;
    if (arg->kind % 4 == 1)
        (void)teff_sleep(turn, 0);
    if (arg->kind % 8 == 2)
        (void)teff_sleep(turn, 20000);
    if (arg->kind % 16 == 3)
        (void)teff_turn_deactivate(turn);
    self->inside = false;
    atomic_fetch_add(&served, 1);
    return 0;
}

static const teff_handlers *const implements[] = { &crew_handlers, NULL };

static teff_grain_type grain_type(const char *name, uint32_t max)
{
    return (teff_grain_type){ .struct_size = sizeof(teff_grain_type),
                              .name = { name },
                              .state_size = sizeof(struct crew),
                              .implements = implements,
                              .activate = crew_activate,
                              .deactivate = crew_deactivate,
                              .stateless_max = max };
}

/* --- Callers --------------------------------------------------------------------------------- */

static const teff_name names[2] = { { "single" }, { "three" } };

/* A few calls in flight at a time; by fresh references and by old ones. */
static void call_many(teff_caller *caller, uint64_t number)
{
    teff__chance chance;
    crew_ref kept[2][GRAINS];
    teff__chance_init(&chance, seed * 1000 + number);
    for (int type = 0; type < 2; type++)
        for (uint64_t grain = 0; grain < GRAINS; grain++)
            kept[type][grain] =
                (crew_ref){ .ref = { .type = &names[type], .key = teff_key_u64(grain) } };
    for (uint64_t done = 0; done < calls;) {
        teff_future futures[IN_FLIGHT];
        const uint64_t count = 1 + teff__chance_next(&chance) % IN_FLIGHT;
        atomic_fetch_add(&asked, count);
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t type = teff__chance_next(&chance) % 2;
            const struct work work = { teff__chance_next(&chance) % GRAINS,
                                       teff__chance_next(&chance) >> 32 };
            futures[i] = crew_serve_start(caller, &kept[type][work.grain], &work);
        }
        for (uint64_t i = 0; i < count; i++, done++) {
            const int r = crew_serve_claim(caller, futures[i], NULL);
            if (r == 7) {
                atomic_fetch_add(&failed, 1);
            } else if (r != 0) {
                atomic_fetch_add(&wrong, 1);
                (void)fprintf(stderr, "a call: %d %s\n", r, teff_outcome_last(caller)->text);
            }
        }
    }
    atomic_fetch_sub(&callers_left, 1);
}

static int task_run(teff_task *task, void *user)
{
    call_many(task, (uint64_t)(uintptr_t)user);
    return 0;
}

static void *client_run(void *user)
{
    teff_client *client;
    if (teff_client_create(silo, NULL, &client) != 0)
        abort();
    call_many(client, (uint64_t)(uintptr_t)user);
    if (teff_client_destroy(client) != NULL)
        abort();
    return NULL;
}

/* --- The program ----------------------------------------------------------------------------- */

static void read_arguments(int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        unsigned long long value;
        if (sscanf(arguments[i], "calls=%llu", &value) == 1)
            calls = value;
        else if (sscanf(arguments[i], "workers=%llu", &value) == 1 && value <= WORKERS_MAX)
            workers = value;
        else if (sscanf(arguments[i], "clients=%llu", &value) == 1 && value <= CLIENTS_MAX)
            clients = value;
        else if (sscanf(arguments[i], "seed=%llu", &value) == 1)
            seed = value;
        else {
            (void)fprintf(stderr, "usage: %s [calls=N] [workers=1-64] [clients=0-16] [seed=N]\n",
                          arguments[0]);
            exit(2);
        }
    }
}

static void require(bool ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "FAILED: %s\n", what);
        exit(1);
    }
}

static void begin(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = (uint32_t)workers };
    const teff_grain_type single = grain_type("single", max_of[0]),
                          three = grain_type("three", max_of[1]);
    require(teff_silo_create(&options, &silo) == 0, "create");
    require(teff_silo_register(silo, &single, NULL) == 0, "register");
    require(teff_silo_register(silo, &three, NULL) == 0, "register");
    require(teff_silo_start(silo) == 0, "start");
}

static void check(void)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    uint64_t gone = 0;
    require(teff_silo_grain_counts(silo, &counts) == 0, "counts");
    for (int reason = 0; reason < TEFF_DEACTIVATED_REASONS; reason++)
        gone += counts.gone[reason];
    (void)printf("%llu calls, %llu served, %llu failed to activate; %llu made; at most %u and %u\n",
                 atomic_load(&asked), atomic_load(&served), atomic_load(&failed),
                 atomic_load(&made), atomic_load(&highest[0]), atomic_load(&highest[1]));
    require(atomic_load(&wrong) == 0, "a grain or a caller saw something wrong");
    require(atomic_load(&served) + atomic_load(&failed) == atomic_load(&asked), "calls were lost");
    require(atomic_load(&highest[0]) == max_of[0], "at most one, and one at times");
    require(atomic_load(&highest[1]) == max_of[1], "at most three, and three at times");
    require(counts.resident == 0 && counts.made == gone, "activations are left");
    require(atomic_load(&failed) > 0, "no activation failed");
    for (int type = 0; type < 2; type++)
        for (int grain = 0; grain < GRAINS; grain++)
            require(atomic_load(&living[type][grain]) == 0, "a deactivation is missing");
}

int main(int count, char **arguments)
{
    pthread_t threads[CLIENTS_MAX];
    teff_client *waiter;
    read_arguments(count, arguments);
    const uint64_t tasks = 2 * workers, callers = tasks + clients;
    atomic_store(&callers_left, (int)callers);
    begin();
    for (uint64_t i = 0; i < tasks; i++)
        require(teff_silo_spawn(silo, (int)(i % workers), task_run, (void *)(uintptr_t)i, NULL,
                                NULL) == 0,
                "spawn");
    for (uint64_t i = 0; i < clients; i++)
        require(pthread_create(&threads[i], NULL, client_run, (void *)(uintptr_t)(tasks + i)) == 0,
                "thread");
    for (uint64_t i = 0; i < clients; i++)
        (void)pthread_join(threads[i], NULL);
    require(teff_client_create(silo, NULL, &waiter) == 0, "client");
    while (atomic_load(&callers_left) > 0)
        (void)teff_sleep(waiter, 1000000);
    require(teff_client_destroy(waiter) == NULL, "client");
    require(teff_silo_stop(silo) == 0, "stop");
    check();
    require(teff_silo_destroy(silo) == NULL, "destroy");
    return 0;
}
