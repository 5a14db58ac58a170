/* SPDX-License-Identifier: MIT */
/*
 * The scene that test_gdb.py looks at: known turns and tasks that are suspended, and two functions
 * at which a debugger stops. With the argument `simulated` all of it happens on one thread; with
 * `abort` the program does so instead of stopping at the first.
 *
 *     task asking ─► clerk 7: ask ─► vault "north/12": open, sleeps
 *     task waiting: sleeps
 *     task impatient ─► vault 2^64 + 5: open, sleeps, under a timeout of 1000 s
 *     task gathering ─► vaults 8 and 9: open, sleep; it awaits both
 *     clerk 10: a completion ─► vault 10: open, sleeps
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <teff.h>

#define HOUR INT64_C(3600000000000)

struct order {
    int number;
};
#define CLERK_METHODS(METHOD, SELF)                                                                \
    METHOD(SELF, ask, struct order, struct order, 0)                                               \
    METHOD(SELF, later, struct order, teff_none, 0)
#define VAULT_METHODS(METHOD, SELF)                                                                \
    METHOD(SELF, look, struct order, struct order, 0)                                              \
    METHOD(SELF, open, struct order, struct order, 0)
TEFF_INTERFACE(clerk, CLERK_METHODS);
TEFF_INTERFACE(vault, VAULT_METHODS);

struct clerk {
    int asked;
};
struct vault {
    int opened;
};
TEFF_GRAIN(clerk, CLERK_METHODS);
TEFF_GRAIN(vault, VAULT_METHODS);

static int clerk_on_ask(teff_turn *turn, struct clerk *self, const struct order *arg,
                        struct order *ret)
{
    vault_ref vault;
    self->asked = arg->number;
    int r = vault_at_text("north/12", strlen("north/12"), &vault);
    if (r == 0)
        r = vault_open(turn, &vault, arg, ret); /* the clerk waits here */
    self->asked = 0;
    return teff_turn_pass(turn, r);
}

static void on_looked(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct order *ret)
{
    vault_ref vault = vault_at(10);
    (void)user, (void)outcome;
    if (caller != NULL)
        (void)vault_open(teff_within(caller, HOUR), &vault, ret, NULL);
}

static int clerk_on_later(teff_turn *turn, struct clerk *self, const struct order *arg,
                          teff_none *ret)
{
    vault_ref vault = vault_at(11);
    (void)self, (void)ret;
    return vault_look_then(turn, &vault, arg, on_looked, NULL);
}

static int vault_on_look(teff_turn *turn, struct vault *self, const struct order *arg,
                         struct order *ret)
{
    (void)turn, (void)arg;
    ret->number = self->opened;
    return 0;
}

static int vault_on_open(teff_turn *turn, struct vault *self, const struct order *arg,
                         struct order *ret)
{
    const int r = teff_sleep(turn, HOUR); /* the vault sleeps here */
    self->opened = ret->number = arg->number;
    return r;
}

static int asking(teff_task *task, void *user)
{
    clerk_ref clerk = clerk_at(7);
    return clerk_ask(teff_within(task, HOUR), &clerk, user, NULL);
}

static int waiting(teff_task *task, void *user)
{
    (void)user;
    return teff_sleep(task, HOUR);
}

static int impatient(teff_task *task, void *user)
{
    vault_ref vault = vault_of(&vault_grain.name, teff_key_u128(1, 5));
    return vault_open(teff_within(task, INT64_C(1000000000000)), &vault, user, NULL);
}

static int gathering(teff_task *task, void *user)
{
    vault_ref vaults[] = { vault_at(8), vault_at(9) };
    teff_future futures[2];
    for (int i = 0; i < 2; i++)
        futures[i] = vault_open_start(teff_within(task, HOUR), &vaults[i], user);
    const int r = teff_await_all(task, futures, 2);
    return r != 0 ? r : vault_open_claim(task, futures[0], NULL);
}

static int arranging(teff_task *task, void *user)
{
    clerk_ref clerk = clerk_at(10);
    return clerk_later(task, &clerk, user, NULL);
}

/* The debugger stops at these two. */
void scene_set(const teff_silo *scene);
void scene_inside(void);

__attribute__((noinline)) void scene_set(const teff_silo *scene)
{
    __asm__ volatile("" : : "r"(scene) : "memory");
}

__attribute__((noinline)) void scene_inside(void)
{
    __asm__ volatile("" : : : "memory");
}

static int visiting(teff_task *task, void *user)
{
    (void)task, (void)user;
    scene_inside();
    return 0;
}

static int spawn(teff_silo *silo, teff_client *client, struct order *order, const char *how)
{
    int (*const tasks[])(teff_task *, void *) = { asking, waiting, impatient, gathering,
                                                  arranging };
    teff_future future;
    int r = 0, result;
    for (size_t i = 0; r == 0 && i < sizeof(tasks) / sizeof(tasks[0]); i++)
        r = teff_silo_spawn(silo, 0, tasks[i], order, NULL, NULL);
    if (r == 0)
        r = teff_sleep(client, INT64_C(300000000)); /* until they all wait */
    if (strcmp(how, "abort") == 0)
        abort();
    scene_set(silo);
    if (r == 0)
        r = teff_silo_spawn(silo, 1, visiting, NULL, client, &future);
    return r == 0 ? teff_task_claim(client, future, &result) : r;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    const teff_silo_options options = {
        .struct_size = sizeof(options),
        .workers = 2,
        .simulated = strcmp(how, "simulated") == 0,
        .seed = 1,
        .response_timeout_ns = INT64_C(500000000000),
        .stop_timeout_ns = 1000000,
    };
    struct order order = { 31 };
    teff_silo *silo = NULL;
    teff_client *client = NULL;
    int r = teff_silo_create(&options, &silo);
    if (r == 0)
        r = teff_silo_register(silo, &clerk_grain, NULL);
    if (r == 0)
        r = teff_silo_register(silo, &vault_grain, NULL);
    if (r == 0)
        r = teff_silo_start(silo);
    if (r == 0)
        r = teff_client_create(silo, NULL, &client);
    if (r == 0)
        r = spawn(silo, client, &order, how);
    teff_client_destroy(client);
    teff_silo_destroy(silo);
    if (r != 0)
        fprintf(stderr, "%s\n", teff_status_text(r));
    return r != 0;
}
