/* SPDX-License-Identifier: MIT */
/*
 * A simulated silo with one client, and a grain type, `probe`, whose turns and hooks a test puts
 * together. Criterion runs each test in a process of its own, so all of this begins anew with each.
 *
 * Inside turns and tasks use cr_expect: cr_assert leaves by a jump that is not for other stacks. In what runs before and
 * after a test use teff_assert: Criterion 2.4 prints what its own asserts find there, and counts the test as passed.
 */
#ifndef TEFF_TESTS_UNIT_GRAINS_FIXTURE_H
#define TEFF_TESTS_UNIT_GRAINS_FIXTURE_H

#include "runtime/silo.h"

#include "teff.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MS     INT64_C(1000000)
#define SECOND INT64_C(1000000000)

struct ask {
    int64_t number;
    char text[48];
};
struct told {
    int64_t number;
    uint64_t route; /* of the activation that answers */
};

#define PROBE_METHODS(METHOD, SELF)                                                                \
    METHOD(SELF, set, struct ask, teff_none, 0)                                                    \
    METHOD(SELF, get, teff_none, struct told, 0)                                                   \
    METHOD(SELF, rest, struct ask, struct told, 0)                                                 \
    METHOD(SELF, brief, struct ask, struct told, TEFF_TIMEOUT_MS(500))                             \
    METHOD(SELF, fail, struct ask, struct told, 0)                                                 \
    METHOD(SELF, note, struct ask, teff_none, TEFF_ONE_WAY)                                        \
    METHOD(SELF, leave, teff_none, struct told, 0)                                                 \
    METHOD(SELF, act, struct ask, struct told, 0)
TEFF_INTERFACE(probe, PROBE_METHODS);
TEFF_INTERFACE_DEFINE(probe, PROBE_METHODS);

struct probe {
    int64_t number;
};
TEFF_HANDLERS(probe, struct probe, probe, PROBE_METHODS);

static teff_silo *silo;
static teff_client *client;

/* What happened, counted outside the grains. */
static struct {
    int activated, deactivated, turns, reason;
} seen;

/* What happened, told in order. */
static char story[4096];

static __attribute__((format(printf, 1, 2), unused)) void tell(const char *format, ...)
{
    const size_t length = strlen(story);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(story + length, sizeof(story) - length, format, arguments);
    va_end(arguments);
}

/* What a test lets hooks, and turns of `act`, do. */
static int (*activating)(teff_turn *turn, struct probe *self);
static void (*deactivating)(teff_turn *turn, struct probe *self, int reason);
static int (*acting)(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret);

/* --- The grain ----------------------------------------------------------------------------- */

static int probe_on_set(teff_turn *turn, struct probe *self, const struct ask *arg, teff_none *ret)
{
    (void)turn, (void)ret;
    seen.turns++;
    self->number = arg->number;
    return 0;
}

static int probe_on_get(teff_turn *turn, struct probe *self, const teff_none *arg, struct told *ret)
{
    (void)arg;
    seen.turns++;
    ret->number = self->number;
    ret->route = teff_turn_self(turn).route;
    return 0;
}

/* Sleeps for so many nanoseconds; gives what the sleep returned. */
static int probe_on_rest(teff_turn *turn, struct probe *self, const struct ask *arg,
                         struct told *ret)
{
    (void)self;
    seen.turns++;
    if (arg->text[0] != '\0')
        tell("%s(", arg->text);
    ret->number = teff_sleep(turn, arg->number);
    if (arg->text[0] != '\0')
        tell("%s)", arg->text);
    return 0;
}

static int probe_on_brief(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    return probe_on_rest(turn, self, arg, ret);
}

static int probe_on_fail(teff_turn *turn, struct probe *self, const struct ask *arg,
                         struct told *ret)
{
    (void)self;
    seen.turns++;
    ret->number = 4711;
    return arg->text[0] != '\0' ? teff_turn_fail(turn, (int)arg->number, "%s", arg->text)
                                : (int)arg->number;
}

static int probe_on_note(teff_turn *turn, struct probe *self, const struct ask *arg, teff_none *ret)
{
    (void)turn, (void)ret;
    seen.turns++;
    self->number++;
    tell("%d ", (int)arg->number);
    return 0;
}

static int probe_on_leave(teff_turn *turn, struct probe *self, const teff_none *arg,
                          struct told *ret)
{
    (void)self, (void)arg;
    seen.turns++;
    ret->route = teff_turn_self(turn).route;
    return teff_turn_deactivate(turn);
}

static int probe_on_act(teff_turn *turn, struct probe *self, const struct ask *arg,
                        struct told *ret)
{
    seen.turns++;
    return acting(turn, self, arg, ret);
}

static int probe_activate(teff_turn *turn, void *self)
{
    seen.activated++;
    return activating != NULL ? activating(turn, self) : 0;
}

static void probe_deactivate(teff_turn *turn, void *self, int reason)
{
    seen.deactivated++;
    seen.reason = reason;
    if (deactivating != NULL)
        deactivating(turn, self, reason);
}

static const teff_handlers *const probe_implements[] = { &probe_handlers, NULL };
static const teff_grain_type probe_grain = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "probe" },
    .state_size = sizeof(struct probe),
    .implements = probe_implements,
    .activate = probe_activate,
    .deactivate = probe_deactivate,
};

/* --- The silo ------------------------------------------------------------------------------ */

/* What a test does to a silo before it starts, or NULL. */
static void (*created)(void);

/* Missing options: the seed is 1. */
TEFF__INLINE void begin_with(teff_silo_options options)
{
    options.struct_size = sizeof(options);
    options.simulated = true;
    options.seed = options.seed != 0 ? options.seed : 1;
    teff_assert(teff_silo_create(&options, &silo) == 0);
    if (created != NULL)
        created();
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

TEFF__INLINE void begin(void)
{
    begin_with((teff_silo_options){ 0 });
}

TEFF__INLINE void begin_four_workers(void)
{
    begin_with((teff_silo_options){ .workers = 4 });
}

/* Nothing may be left. */
TEFF__INLINE void end(void)
{
    if (silo == NULL)
        return;
    teff_assert(teff_client_destroy(client) == NULL);
    teff_assert(teff_silo_stop(silo) == 0);
    teff_assert(teff__silo_open_count(silo) == 0);
    teff_assert(teff__silo_grain_count(silo) == 0);
    silo = teff_silo_destroy(silo);
    teff_assert(silo == NULL);
}

/* Runs a task to its end and gives what it returned. */
TEFF__INLINE int in_task(int worker, int (*run)(teff_task *task, void *user), void *user)
{
    int result = 4711;
    teff_future future = { 0 };
    cr_assert_eq(teff_silo_spawn(silo, worker, run, user, client, &future), 0);
    cr_assert_eq(teff_task_claim(client, future, &result), 0);
    return result;
}

/* What the silo has allocated now. */
TEFF__INLINE uint64_t bytes_allocated(void)
{
    return teff__atomic_u64_load_relaxed(&teff__silo_memory(silo)->bytes);
}

/* Starts a task that nobody claims. */
TEFF__INLINE void spawn(int worker, int (*run)(teff_task *task, void *user), void *user)
{
    cr_assert_eq(teff_silo_spawn(silo, worker, run, user, NULL, NULL), 0);
}

/* The probe of that number, asked by the client for what it has; -1: the call failed. */
TEFF__INLINE int64_t number_of(uint64_t key)
{
    struct told told = { .number = -1 };
    probe_ref probe = probe_at(key);
    (void)probe_get(client, &probe, NULL, &told);
    return told.number;
}

#endif
