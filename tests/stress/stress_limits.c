/* SPDX-License-Identifier: MIT */
/*
 * activations_max while every worker makes grains and lets them go.
 *
 *   stress_limits [tasks=16] [calls=4000] [grains=64] [max=20] [workers=4] [seed=1] [seconds_max=300]
 *
 * Tasks on every worker call one of `grains` grains at random, and now and then ask it to go; no
 * more than `max` of them may be there. The grains count themselves in their hooks, and check:
 *
 *   never are there more than `max`, not even for a moment
 *   a call succeeds, or is TEFF_EOVERLOADED and has not run
 *   a call to one that was refused succeeds once enough have gone: no place is lost
 *   at the end as many have been deactivated as activated
 */
#include "stress_calls_common.h"

#include "runtime/chance.h"
#include "runtime/silo.h"

#include "teff.h"
#include "teff/inspect.h"

enum { TASKS_MAX = 256, LEAVES_EVERY = 3 };

static struct {
    unsigned long long tasks, calls, grains, max, workers, seed, seconds_max;
    teff_silo *silo;
    teff__atomic_u64 there, activated, deactivated, served, refused, notices;
} stress = {
    .tasks = 16, .calls = 4000, .grains = 64, .max = 20, .workers = 4, .seed = 1, .seconds_max = 300
};

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs after %llu calls",
         (unsigned long long)teff__atomic_u64_load_relaxed(&stress.served));
}

static void expect(int r)
{
    if (r != 0)
        fail("%s", teff_status_name(r));
}

/* --- The grain -------------------------------------------------------------------------------- */

#define GUEST_METHODS(METHOD, SELF)                                                                \
    METHOD(SELF, stay, teff_none, teff_none, 0)                                                    \
    METHOD(SELF, leave, teff_none, teff_none, 0)
TEFF_INTERFACE(guest, GUEST_METHODS);
TEFF_INTERFACE_DEFINE(guest, GUEST_METHODS);
struct guest {
    bool here;
};
TEFF_HANDLERS(guest, struct guest, guest, GUEST_METHODS);

static int guest_on_stay(teff_turn *turn, struct guest *self, const teff_none *arg, teff_none *ret)
{
    (void)turn, (void)arg, (void)ret;
    if (!self->here)
        fail("a turn of one that is not there");
    return 0;
}

static int guest_on_leave(teff_turn *turn, struct guest *self, const teff_none *arg, teff_none *ret)
{
    (void)guest_on_stay(turn, self, arg, ret);
    return teff_turn_deactivate(turn);
}

static int guest_activate(teff_turn *turn, void *self)
{
    const uint64_t there = teff__atomic_u64_add_relaxed(&stress.there, 1) + 1;
    (void)turn;
    if (there > stress.max)
        fail("%llu are there", (unsigned long long)there);
    (void)teff__atomic_u64_add_relaxed(&stress.activated, 1);
    ((struct guest *)self)->here = true;
    return 0;
}

static void guest_deactivate(teff_turn *turn, void *self, int reason)
{
    (void)turn, (void)self, (void)reason;
    (void)teff__atomic_u64_add_relaxed(&stress.there, UINT64_MAX);
    (void)teff__atomic_u64_add_relaxed(&stress.deactivated, 1);
}

static const teff_handlers *const guest_implements[] = { &guest_handlers, NULL };
static const teff_grain_type guest_grain = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "guest" },
    .state_size = sizeof(struct guest),
    .implements = guest_implements,
    .activate = guest_activate,
    .deactivate = guest_deactivate,
};

/* --- Calls ------------------------------------------------------------------------------------ */

static int visit(teff_caller *caller, teff__chance *chance)
{
    guest_ref guest = guest_at(teff__chance_next(chance) % stress.grains);
    const bool leave = teff__chance_next(chance) % LEAVES_EVERY == 0;
    const int r =
        leave ? guest_leave(caller, &guest, NULL, NULL) : guest_stay(caller, &guest, NULL, NULL);
    if (r == 0)
        (void)teff__atomic_u64_add_relaxed(&stress.served, 1);
    else if (r == TEFF_EOVERLOADED && !teff_outcome_last(caller)->may_have_run)
        (void)teff__atomic_u64_add_relaxed(&stress.refused, 1);
    else
        fail("a call ended with %s", teff_status_name(r));
    return r;
}

static int visit_often(teff_task *task, void *user)
{
    teff__chance chance;
    teff__chance_init(&chance, stress.seed + (uint64_t)(uintptr_t)user + 1);
    for (uint64_t i = 0; i < stress.calls; i++)
        (void)visit(task, &chance);
    return 0;
}

/* All go, and then `max` others come: not one place was lost. */
static void fill_up(teff_client *client)
{
    for (uint64_t key = 0; key < stress.grains; key++) {
        guest_ref guest = guest_at(key);
        const int r = guest_leave(client, &guest, NULL, NULL);
        if (r != 0 && r != TEFF_EOVERLOADED)
            expect(r);
    }
    uint64_t filled = 0;
    for (uint64_t key = 0; filled < stress.max; key++) {
        guest_ref guest = guest_at(key % stress.max);
        filled = guest_stay(client, &guest, NULL, NULL) == 0 ? filled + 1 : 0; /* in a row */
    }
}

static void on_notice(void *user, const teff_notice *notice)
{
    (void)user;
    if (notice->kind != TEFF_NOTICE_GRAINS || notice->count != stress.max)
        fail("a notice of something else: %s", notice->text);
    (void)teff__atomic_u64_add_relaxed(&stress.notices, 1);
}

static uint64_t told(const teff__atomic_u64 *count)
{
    return teff__atomic_u64_load_relaxed(count);
}

static void finish(teff_client *client)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    (void)teff_client_destroy(client);
    expect(teff_silo_stop(stress.silo));
    expect(teff_silo_grain_counts(stress.silo, &counts));
    if (told(&stress.there) != 0 || told(&stress.activated) != told(&stress.deactivated) ||
        counts.resident != 0)
        fail("%llu are left", (unsigned long long)told(&stress.there));
    if (teff_silo_destroy(stress.silo) != NULL)
        fail("something is left");
}

int main(int count_given, char **given)
{
    static teff_future futures[TASKS_MAX];
    const argument known[] = {
        { "tasks", &stress.tasks, 1, TASKS_MAX },
        { "calls", &stress.calls, 1, 1000000000 },
        { "grains", &stress.grains, 1, 1000000 },
        { "max", &stress.max, 1, 1000000 },
        { "workers", &stress.workers, 1, 64 },
        { "seed", &stress.seed, 1, UINT32_MAX },
        { "seconds_max", &stress.seconds_max, 1, 86400 },
    };
    teff_client *client = NULL;
    int result = 0;
    arguments_read("stress_limits", known, sizeof(known) / sizeof(known[0]), count_given, given);
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = (uint32_t)stress.workers,
                                        .activations_max = stress.max,
                                        .notice = on_notice };
    expect(teff_silo_create(&options, &stress.silo));
    expect(teff_silo_register(stress.silo, &guest_grain, NULL));
    expect(teff_silo_start(stress.silo));
    expect(teff_client_create(stress.silo, NULL, &client));
    watchdog_start(stress.seconds_max, on_watchdog);
    for (uint64_t i = 0; i < stress.tasks; i++)
        expect(teff_silo_spawn(stress.silo, (int)(i % stress.workers), visit_often,
                               (void *)(uintptr_t)i, client, &futures[i]));
    for (uint64_t i = 0; i < stress.tasks; i++)
        expect(teff_task_claim(client, futures[i], &result));
    fill_up(client);
    finish(client);
    if (stress.grains > stress.max && (told(&stress.refused) == 0 || told(&stress.notices) == 0))
        fail("the limit was never reached");
    printf("stress_limits: passed: %llu calls served, %llu refused; %llu activations, the last "
           "place taken %llu times, seed %llu\n",
           (unsigned long long)told(&stress.served), (unsigned long long)told(&stress.refused),
           (unsigned long long)told(&stress.activated), (unsigned long long)told(&stress.notices),
           stress.seed);
    return 0;
}
