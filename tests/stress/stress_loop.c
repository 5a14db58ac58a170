/* SPDX-License-Identifier: MIT */
/*
 * A silo on the program's loop, and threads around it.
 *
 *   stress_loop [rounds=100; 20 under the sanitizers] [clients=3] [calls=200] [seconds_max=300]
 *
 * Each round starts a silo on the one loop, runs the loop on this thread or on another, lets
 * threads call and spawn meanwhile, and stops it: by a thread that waits, by several, by one that
 * destroys it, or by the last task, from whose callback it is destroyed. Every call is answered,
 * every task runs, and the loop is empty at the end.
 */
#include "stress_calls_common.h"

#include "runtime/fiber.h"
#include "runtime/silo.h"
#include "runtime/thread.h"

#include "teff.h"

#include <uv.h>

#if defined(TEFF__FIBER_ASAN) || defined(TEFF__FIBER_TSAN)
enum { ROUNDS = 20 };
#else
enum { ROUNDS = 100 };
#endif

enum { CLIENTS_MAX = 16, WAYS = 4 };

struct number {
    uint64_t n;
};
#define ADDER_METHODS(METHOD, SELF) METHOD(SELF, add, struct number, struct number, 0)
TEFF_INTERFACE(adder, ADDER_METHODS);

struct adder {
    uint64_t n;
};
TEFF_GRAIN(adder, ADDER_METHODS);

static int adder_on_add(teff_turn *turn, struct adder *self, const struct number *arg,
                        struct number *ret)
{
    (void)turn;
    ret->n = self->n += arg->n;
    return 0;
}

static unsigned long long round_number, calls = 200, clients = 3;
static uv_loop_t loop;
static teff_silo *silo;
static teff__atomic_u32 tasks_run, threads_ended, told;

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs in round %llu", round_number);
}

static void check(bool good, const char *what)
{
    if (!good)
        fail("round %llu: %s", round_number, what);
}

static int count_task(teff_task *task, void *user)
{
    adder_ref adder = adder_at((uint64_t)(uintptr_t)user);
    struct number ret;
    (void)teff__atomic_u32_add_relaxed(&tasks_run, 1);
    return adder_add(task, &adder, &(struct number){ 1 }, &ret);
}

static void destroy_when_told(void *user, int result)
{
    (void)user;
    check(result == 0, "stopped with an error");
    if (teff__atomic_u32_add_relaxed(&told, 1) == 0)
        silo = teff_silo_destroy(silo);
    check(silo == NULL, "it was not destroyed by whom it told");
}

static int stop_task(teff_task *task, void *user)
{
    (void)task, (void)user;
    check(teff_silo_stop(silo) == TEFF_EWOULDBLOCK, "a task may wait for stop");
    return teff_silo_stop_then(silo, destroy_when_told, NULL);
}

/* The last thread, or each, ends the silo in the round's way. */
static void end_silo(bool last)
{
    switch (round_number % WAYS) {
    case 0:
        if (last)
            check(teff_silo_stop(silo) == 0, "stop failed");
        break;
    case 1: /* all at once, the first of them too early for the others' calls */
        check(teff_silo_stop(silo) == 0, "one of several stops failed");
        break;
    case 2:
        if (last)
            silo = teff_silo_destroy(silo);
        break;
    default:
        if (last)
            check(teff_silo_spawn(silo, 0, stop_task, NULL, NULL, NULL) == 0, "no stopping task");
        break;
    }
}

static void visit(void *user)
{
    const uint64_t key = (uint64_t)(uintptr_t)user;
    const bool refusable = round_number % WAYS == 1;
    adder_ref adder = adder_at(key);
    struct number ret;
    teff_client *client = NULL;
    int r = teff_client_create(silo, NULL, &client);
    check(r == 0 || (refusable && r == TEFF_EINVALIDSTATE), "no client");
    for (uint64_t i = 1; r == 0 && i <= calls; i++) {
        r = adder_add(client, &adder, &(struct number){ 1 }, &ret);
        check((r == 0 && ret.n == i) || (refusable && r == TEFF_EUNAVAILABLE), "a wrong answer");
        if (r == 0 && i % 4 == 0) {
            const int spawned =
                teff_silo_spawn(silo, 0, count_task, (void *)(uintptr_t)(key + 100), NULL, NULL);
            check(spawned == 0 || (refusable && spawned == TEFF_EINVALIDSTATE), "no task");
        }
    }
    check(teff_client_destroy(client) == NULL, "a client is left");
    end_silo(teff__atomic_u32_add_acq_rel(&threads_ended, 1) == clients - 1);
}

static void run_loop(void *user)
{
    (void)user;
    check(uv_run(&loop, UV_RUN_DEFAULT) == 0, "the loop is not empty");
}

static void one_round(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options), .loop = &loop };
    teff__thread threads[CLIENTS_MAX], looper;
    const bool elsewhere = round_number / WAYS % 2 == 1;
    teff__atomic_u32_store_relaxed(&tasks_run, 0);
    teff__atomic_u32_store_relaxed(&threads_ended, 0);
    teff__atomic_u32_store_relaxed(&told, 0);
    check(teff_silo_create(&options, &silo) == 0 &&
              teff_silo_register(silo, &adder_grain, NULL) == 0 && teff_silo_start(silo) == 0,
          "it does not start");
    for (uint64_t i = 0; i < clients; i++)
        check(teff__thread_start(&threads[i], visit, (void *)(uintptr_t)(i + 1), "client") == 0,
              "no thread");
    if (elsewhere)
        check(teff__thread_start(&looper, run_loop, NULL, "loop") == 0, "no thread");
    else
        run_loop(NULL);
    for (uint64_t i = 0; i < clients; i++)
        teff__thread_join(&threads[i]);
    if (elsewhere)
        teff__thread_join(&looper);
    if (silo != NULL)
        silo = teff_silo_destroy(silo);
    check(silo == NULL, "the silo is left");
    check(round_number % WAYS == 1 ||
              teff__atomic_u32_load_relaxed(&tasks_run) == clients * (calls / 4),
          "a task did not run");
}

int main(int count, char **given)
{
    unsigned long long rounds = ROUNDS, seconds_max = 300;
    const argument known[] = {
        { "rounds", &rounds, 1, 1000000 },
        { "clients", &clients, 1, CLIENTS_MAX },
        { "calls", &calls, 1, 1000000 },
        { "seconds_max", &seconds_max, 1, 86400 },
    };
    arguments_read("stress_loop", known, sizeof(known) / sizeof(known[0]), count, given);
    watchdog_start(seconds_max, on_watchdog);
    check(uv_loop_init(&loop) == 0, "no loop");
    for (; round_number < rounds; round_number++)
        one_round();
    check(uv_loop_close(&loop) == 0, "something is left on the loop");
    printf("%llu rounds on one loop: every call was answered, every task ran\n", rounds);
    return 0;
}
