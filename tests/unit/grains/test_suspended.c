/* SPDX-License-Identifier: MIT */
/* Many at once: tasks and turns that are suspended, each on a stack of its own. */
#include "runtime/fiber.h"
#include "runtime/silo.h"
#include "teff.h"

#include <criterion/criterion.h>

#if defined(TEFF__FIBER_ASAN) || defined(TEFF__FIBER_TSAN)
enum { MANY = 3000 }; /* stacks are four times as large, and so is what the tool keeps of each */
#else
enum { MANY = 30000 };
#endif

struct nap {
    int64_t ns;
};
#define SLEEPER_METHODS(METHOD, SELF) METHOD(SELF, sleep, struct nap, teff_none, 0)
TEFF_INTERFACE(sleeper, SLEEPER_METHODS);

struct sleeper {
    int naps;
};
TEFF_GRAIN(sleeper, SLEEPER_METHODS);

static int sleeping, woken;

static int sleeper_on_sleep(teff_turn *turn, struct sleeper *self, const struct nap *arg,
                            teff_none *ret)
{
    (void)ret;
    sleeping++;
    const int r = teff_sleep(turn, arg->ns);
    self->naps++;
    woken++;
    return r;
}

static int call_sleeper(teff_task *task, void *user)
{
    sleeper_ref sleeper = sleeper_at((uint64_t)(uintptr_t)user);
    return sleeper_sleep(task, &sleeper, &(struct nap){ 1000000000 }, NULL);
}

static int just_sleep(teff_task *task, void *user)
{
    (void)user;
    sleeping++;
    const int r = teff_sleep(task, 1000000000);
    woken += r == 0;
    return r;
}

static teff_silo *start(uint32_t suspended_max)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .simulated = true,
                                        .suspended_max = suspended_max };
    teff_silo *silo = NULL;
    cr_assert_eq(teff_silo_create(&options, &silo), 0);
    cr_assert_eq(teff_silo_register(silo, &sleeper_grain, NULL), 0);
    cr_assert_eq(teff_silo_start(silo), 0);
    sleeping = woken = 0;
    return silo;
}

Test(suspended, thirty_thousand_stacks_wait_at_once_and_all_go_on)
{
    teff_silo *silo = start(0);
    for (uintptr_t i = 0; i < MANY / 2; i++)
        cr_assert_eq(teff_silo_spawn(silo, 0, call_sleeper, (void *)(i + 1), NULL, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    /* Each caller waits for its callee, and each callee sleeps. */
    cr_assert_eq(sleeping, MANY / 2);
    cr_assert_eq(woken, 0);
    cr_assert_eq(teff__silo_open_count(silo), MANY / 2);
    cr_assert_eq(teff_silo_advance(silo, 1000000000), 0);
    cr_assert_eq(woken, MANY / 2);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_null(teff_silo_destroy(silo));
}

Test(suspended, the_limit_is_an_error_of_the_one_that_is_too_much)
{
    teff_silo *silo = start(10);
    teff_client *client;
    teff_future futures[12];
    int results[12], limited = 0;
    cr_assert_eq(teff_client_create(silo, NULL, &client), 0);
    for (int i = 0; i < 12; i++)
        cr_assert_eq(teff_silo_spawn(silo, 0, just_sleep, NULL, client, &futures[i]), 0);
    cr_assert_eq(teff_silo_advance(silo, 1000000000), 0);
    for (int i = 0; i < 12; i++) {
        cr_assert_eq(teff_task_claim(client, futures[i], &results[i]), 0);
        cr_assert(results[i] == 0 || results[i] == TEFF_ELIMIT);
        limited += results[i] == TEFF_ELIMIT;
    }
    cr_assert_eq(limited, 2);
    cr_assert_eq(woken, 10);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_null(teff_silo_destroy(silo));
}
