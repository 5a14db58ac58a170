/* SPDX-License-Identifier: MIT */
/*
 * Two workers place one grain with each other, again and again, while it comes and goes; a third one
 * places it anywhere. Each sends it numbered one-way messages: none is lost, each sender's come in
 * order, and there is one activation at a time. A simulated silo for each seed.
 */
#include "runtime/chance.h"
#include "runtime/silo.h"

#include "teff.h"

#include <criterion/criterion.h>
#include <string.h>

enum { SENDERS_MAX = 3, MESSAGES = 60 };

struct numbered {
    uint32_t sender, number;
    bool leave;
};
#define WANTED_METHODS(METHOD, SELF) METHOD(SELF, note, struct numbered, teff_none, TEFF_ONE_WAY)
TEFF_INTERFACE(wanted, WANTED_METHODS);
TEFF_INTERFACE_DEFINE(wanted, WANTED_METHODS);

struct wanted {
    int nothing;
};
TEFF_HANDLERS(wanted, struct wanted, wanted, WANTED_METHODS);

/* What its turns saw, in this seed's silo. */
static struct {
    uint32_t last[SENDERS_MAX], turns, overtaken, active, active_max;
} seen;
static uint64_t seed;

static int wanted_activate(teff_turn *turn, void *state)
{
    (void)turn, (void)state;
    if (++seen.active > seen.active_max)
        seen.active_max = seen.active;
    return 0;
}

static void wanted_deactivate(teff_turn *turn, void *state, int reason)
{
    (void)turn, (void)state, (void)reason;
    seen.active--;
}

static int wanted_on_note(teff_turn *turn, struct wanted *self, const struct numbered *arg,
                          teff_none *ret)
{
    (void)self, (void)ret;
    seen.turns++;
    seen.overtaken += arg->number <= seen.last[arg->sender];
    seen.last[arg->sender] = arg->number;
    return arg->leave ? teff_turn_deactivate(turn) : 0;
}

static const teff_handlers *const wanted_implements[] = { &wanted_handlers, NULL };
static const teff_grain_type wanted_grain = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "wanted" },
    .state_size = sizeof(struct wanted),
    .implements = wanted_implements,
    .activate = wanted_activate,
    .deactivate = wanted_deactivate,
};

/* On worker 0 it wants the grain on 1, on 1 it wants it on 0, and on 2 anywhere. */
static uint32_t choose_place(uint32_t own, teff__chance *chance)
{
    return own < 2 ? 1 - own : (uint32_t)(teff__chance_next(chance) % 3);
}

static int send_all(teff_task *task, void *user)
{
    const uint32_t own = *(const uint32_t *)user;
    wanted_ref to = wanted_at(1);
    teff__chance chance;
    teff__chance_init(&chance, seed * 7 + own + 1);
    for (uint32_t number = 1; number <= MESSAGES; number++) {
        const struct numbered arg = { own, number, teff__chance_next(&chance) % 3 == 0 };
        const teff_call_options place = { .struct_size = sizeof(place),
                                          .place = choose_place(own, &chance) + 1 };
        to.ref.route = 0;
        cr_expect_eq(wanted_note_send(teff_with(task, &place), &to, &arg), 0);
        if (teff__chance_next(&chance) % 3 == 0)
            (void)teff_sleep(task, (int64_t)(teff__chance_next(&chance) % 4) * 1000);
    }
    return teff_sleep(task, 1000000000); /* stop would end what is still under way */
}

static void send_from(uint32_t senders)
{
    static uint32_t numbers[SENDERS_MAX] = { 0, 1, 2 };
    const teff_silo_options options = {
        .struct_size = sizeof(options), .simulated = true, .seed = seed, .workers = 3
    };
    teff_silo *silo;
    teff_client *client;
    teff_future futures[SENDERS_MAX];
    int result;
    memset(&seen, 0, sizeof(seen));
    cr_assert_eq(teff_silo_create(&options, &silo), 0);
    cr_assert_eq(teff_silo_register(silo, &wanted_grain, NULL), 0);
    cr_assert_eq(teff_silo_start(silo), 0);
    cr_assert_eq(teff_client_create(silo, NULL, &client), 0);
    for (uint32_t i = 0; i < senders; i++)
        cr_assert_eq(teff_silo_spawn(silo, (int)i, send_all, &numbers[i], client, &futures[i]), 0);
    for (uint32_t i = 0; i < senders; i++)
        cr_assert_eq(teff_task_claim(client, futures[i], &result), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(seen.turns, senders * MESSAGES, "seed %llu: %u turns", (unsigned long long)seed,
                 seen.turns);
    cr_assert_eq(seen.overtaken, 0, "seed %llu: overtaken", (unsigned long long)seed);
    cr_assert_eq(seen.active_max, 1, "seed %llu: two at once", (unsigned long long)seed);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_null(teff_silo_destroy(silo));
}

Test(placed, with_each_other_by_two_workers_loses_nothing_and_keeps_order)
{
    for (seed = 1; seed <= 300; seed++)
        send_from(2);
}

Test(placed, with_each_other_while_a_third_moves_it_loses_nothing_and_keeps_order)
{
    for (seed = 1; seed <= 320; seed++) /* 309: two probes that meet waiting routes */
        send_from(3);
}
