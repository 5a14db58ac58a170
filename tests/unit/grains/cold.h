/* SPDX-License-Identifier: MIT */
/*
 * The first call to grains that nobody has called, made by many callers on all workers at once: each
 * grain is activated once, and every caller is answered by that one activation.
 *
 * Its checks are teff_assert, so that it serves a test of Criterion's and a plain program as well.
 */
#ifndef TEFF_TESTS_UNIT_GRAINS_COLD_H
#define TEFF_TESTS_UNIT_GRAINS_COLD_H

#include "runtime/silo.h"

#include "teff.h"

#include <stdlib.h>
#include <string.h>

enum { CALLERS = 100, WAVE = 100 };

typedef struct cold {
    uint32_t workers, grain_count;
    teff_silo *silo;
    teff_client *client;
    teff__atomic_u32 here; /* callers that came to a wave, over all waves */
    teff__atomic_u32 wrong;
    teff__atomic_u32 *activated; /* by grain */
    teff__atomic_u32 *turns;     /* by grain */
} cold;

struct named {
    uint64_t grain, activation; /* the latter: which of the grain's, from 1 */
};
#define COLD_METHODS(METHOD, SELF) METHOD(SELF, first, teff_none, struct named, 0)
TEFF_INTERFACE(single, COLD_METHODS);
TEFF_INTERFACE_DEFINE(single, COLD_METHODS);

struct single {
    uint64_t activation;
};
TEFF_HANDLERS(single, struct single, single, COLD_METHODS);

static uint64_t own_number(const teff_turn *turn)
{
    uint64_t number;
    memcpy(&number, teff_turn_key(turn)->bytes, sizeof(number));
    return number;
}

static int single_activate(teff_turn *turn, void *state)
{
    struct single *self = state;
    const cold *of = teff_turn_context(turn);
    self->activation = teff__atomic_u32_add_relaxed(&of->activated[own_number(turn)], 1) + 1;
    return 0;
}

static int single_on_first(teff_turn *turn, struct single *self, const teff_none *arg,
                           struct named *ret)
{
    const cold *of = teff_turn_context(turn);
    (void)arg;
    (void)teff__atomic_u32_add_relaxed(&of->turns[own_number(turn)], 1);
    *ret = (struct named){ own_number(turn), self->activation };
    return 0;
}

static const teff_handlers *const single_implements[] = { &single_handlers, NULL };
static const teff_grain_type single_grain = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "single" },
    .state_size = sizeof(struct single),
    .implements = single_implements,
    .activate = single_activate,
};

/* All go the same way and begin each wave together: so the workers come to a grain at one time. */
static int call_all(teff_task *task, void *user)
{
    cold *of = user;
    teff_future futures[WAVE];
    for (uint32_t from = 0, due = CALLERS; from < of->grain_count; from += WAVE, due += CALLERS) {
        const uint32_t left = of->grain_count - from, count = left < WAVE ? left : WAVE;
        (void)teff__atomic_u32_add_relaxed(&of->here, 1);
        while (teff__atomic_u32_load_relaxed(&of->here) < due)
            if (teff_sleep(task, 20000) != 0)
                return 1;
        for (uint32_t i = 0; i < count; i++) {
            single_ref to = single_at(from + i);
            futures[i] = single_first_start(task, &to, NULL);
        }
        for (uint32_t i = 0; i < count; i++) {
            struct named ret = { 0 };
            const int r = single_first_claim(task, futures[i], &ret);
            if (r != 0 || ret.grain != from + i || ret.activation != 1)
                (void)teff__atomic_u32_add_relaxed(&of->wrong, 1);
        }
    }
    return 0;
}

static void call_from_everywhere(cold *of)
{
    teff_future futures[CALLERS];
    for (uint32_t i = 0; i < CALLERS; i++)
        teff_assert(teff_silo_spawn(of->silo, (int)(i % of->workers), call_all, of, of->client,
                                    &futures[i]) == 0);
    for (uint32_t i = 0; i < CALLERS; i++) {
        int result = 4711;
        teff_assert(teff_task_claim(of->client, futures[i], &result) == 0);
        teff_assert(result == 0);
    }
}

/* What was made and not valid, for another worker was first, has gone again without having run. */
static uint64_t check_counts(const cold *of)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    teff_assert(teff_silo_grain_counts(of->silo, &counts) == 0);
    teff_assert(counts.resident == of->grain_count);
    teff_assert(counts.made - counts.gone[TEFF_DEACTIVATED_DUPLICATE] == of->grain_count);
    for (int reason = 1; reason < TEFF_DEACTIVATED_REASONS; reason++)
        if (reason != TEFF_DEACTIVATED_DUPLICATE)
            teff_assert(counts.gone[reason] == 0);
    teff_assert(teff__silo_grain_count(of->silo) == of->grain_count);
    return counts.gone[TEFF_DEACTIVATED_DUPLICATE];
}

/* A silo of so many workers, all callers on all of them, each call to each grain; and no failure. Returns
 * how many activations were made and came too late. */
TEFF__INLINE uint64_t activate_each_once(uint32_t workers, uint32_t grain_count)
{
    cold of = { .workers = workers, .grain_count = grain_count };
    of.activated = calloc(grain_count, sizeof(*of.activated));
    of.turns = calloc(grain_count, sizeof(*of.turns));
    teff_assert(of.activated != NULL && of.turns != NULL);
    const teff_silo_options options = { .struct_size = sizeof(options), .workers = workers };
    teff_assert(teff_silo_create(&options, &of.silo) == 0);
    teff_assert(teff_silo_register(of.silo, &single_grain, &of) == 0);
    teff_assert(teff_silo_start(of.silo) == 0);
    teff_assert(teff_client_create(of.silo, NULL, &of.client) == 0);

    call_from_everywhere(&of);
    teff_assert(teff__atomic_u32_load_relaxed(&of.wrong) == 0);
    for (uint32_t k = 0; k < grain_count; k++) {
        teff_assert(teff__atomic_u32_load_relaxed(&of.activated[k]) == 1);
        teff_assert(teff__atomic_u32_load_relaxed(&of.turns[k]) == CALLERS);
    }
    const uint64_t late = check_counts(&of);

    teff_assert(teff_client_destroy(of.client) == NULL);
    teff_assert(teff_silo_destroy(of.silo) == NULL);
    free(of.activated);
    free(of.turns);
    return late;
}

#endif
