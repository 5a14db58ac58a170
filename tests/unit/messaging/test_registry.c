/* SPDX-License-Identifier: MIT */
/*
 * The callback registry: opening, settling once, claiming from elsewhere, the gate, and its limits.
 */
#include "messaging/count.h"

#include "teff/status.h"

#include <criterion/criterion.h>

static const teff__callback_terms terms = { 500, 1000 };
static bool detailed;
static teff__memory memory;
static teff__registry registry;
static teff__stripe *stripe;  /* a worker's, the sixth */
static teff__stripe *clients; /* a client's, the first */

static void begin(void)
{
    teff__memory_init(&memory, 0);
    teff_assert(teff__registry_init(&registry, &memory, 2) == 0);
    stripe = &registry.stripes[5];
    clients = &registry.stripes[64];
}

/* teff_assert: Criterion's own asserts count for nothing after the test. */
static void end(void)
{
    teff__registry_finish(&registry);
    teff_assert(teff__atomic_u64_load_relaxed(&memory.bytes) == 0);
}

TestSuite(registry, .init = begin, .fini = end);

static uint64_t open_in(teff__stripe *in, void *waiter, uint32_t flags)
{
    int status = 0;
    teff__callback *callback = teff__stripe_take(in, &status);
    cr_assert_not_null(callback);
    return teff__stripe_open(in, callback, waiter, &terms, flags);
}

static uint64_t open_client(uint32_t flags)
{
    int status = 0;
    uint64_t id = 0;
    teff__callback *callback = teff__stripe_take(clients, &status);
    cr_assert_not_null(callback);
    cr_assert(teff__stripe_open_shared(clients, callback, &terms, flags, &id));
    return id;
}

static int64_t deadline_of(const teff__stripe *of, uint32_t slot)
{
    return teff__atomic_i64_load_relaxed(&of->columns->deadline_ns[slot]);
}

Test(registry, workers_share_the_first_half_in_runs_of_neighbours)
{
    cr_assert_eq(registry.stripes[0].worker, 0);
    cr_assert_eq(registry.stripes[31].worker, 0);
    cr_assert_eq(registry.stripes[32].worker, 1);
    cr_assert_eq(registry.stripes[63].worker, 1);
    cr_assert_eq(registry.stripes[64].worker, TEFF__NO_WORKER);
    cr_assert_eq(registry.stripes[127].worker, TEFF__NO_WORKER);
}

Test(registry, every_one_of_64_workers_has_a_stripe)
{
    teff__registry_finish(&registry);
    cr_assert_eq(teff__registry_init(&registry, &memory, 64), 0);
    for (uint32_t i = 0; i < 64; i++)
        cr_assert_eq(registry.stripes[i].worker, i);
}

Test(registry, an_id_names_stripe_slot_and_generation)
{
    cr_assert_eq(open_in(stripe, NULL, 0), 0x10a0000);
    cr_assert_eq(open_in(stripe, NULL, 0), 0x10a0001);
    cr_assert_eq(open_client(0), 0x1800000);
    cr_assert_eq(teff__registry_stripe(&registry, 0x10a0001), stripe);
    cr_assert_eq(teff__registry_stripe(&registry, 0x1800000), clients);
}

Test(registry, a_callback_is_settled_once_and_still_names_who_waited)
{
    int waiter;
    const uint64_t id = open_in(stripe, &waiter, 0);
    teff__callback *callback = teff__stripe_settle(stripe, id, &detailed);
    cr_assert_not_null(callback);
    cr_assert_eq(callback->value, &waiter);
    cr_assert_null(teff__stripe_settle(stripe, id, &detailed));
}

Test(registry, a_stale_id_does_not_reach_the_slots_next_callback)
{
    const uint64_t stale = open_in(stripe, NULL, 0);
    cr_assert_not_null(teff__stripe_settle(stripe, stale, &detailed));
    const uint64_t id = open_in(stripe, NULL, 0);
    cr_assert_eq(id, 0x20a0000);
    cr_assert_null(teff__stripe_settle(stripe, stale, &detailed));
    cr_assert_not_null(teff__stripe_settle(stripe, id, &detailed));
}

Test(registry, a_forged_id_settles_nothing)
{
    cr_assert_null(teff__stripe_settle(stripe, 0x10a0000, &detailed)); /* nothing was ever opened */
    const uint64_t id = open_in(stripe, NULL, 0);
    cr_assert_null(teff__stripe_settle(stripe, 0x00a0000, &detailed)); /* generation 0 */
    cr_assert_null(teff__stripe_settle(stripe, 0x20a0000, &detailed)); /* the next one */
    cr_assert_null(teff__stripe_settle(stripe, 0x10a0001, &detailed)); /* a slot that is not made */
    cr_assert_null(teff__stripe_settle(stripe, 0x10bffff, &detailed)); /* the last slot */
    cr_assert_not_null(teff__stripe_settle(stripe, id, &detailed));
}

Test(registry, flags_do_not_hide_an_open_callback)
{
    const uint64_t id = open_in(stripe, NULL, TEFF__CALLBACK_DEFAULT | TEFF__CALLBACK_FUTURE);
    cr_assert_not_null(teff__stripe_settle(stripe, id, &detailed));
    cr_assert_null(teff__stripe_settle(stripe, id, &detailed));
}

Test(registry, a_settled_future_keeps_its_slot_until_it_is_freed)
{
    const uint64_t id = open_in(stripe, NULL, TEFF__CALLBACK_FUTURE);
    teff__callback *callback = teff__stripe_settle(stripe, id, &detailed);
    cr_assert_eq(open_in(stripe, NULL, 0), 0x10a0001);
    teff__stripe_free(stripe, callback);
    cr_assert_eq(open_in(stripe, NULL, 0), 0x20a0000);
}

Test(registry, the_last_generation_is_used_and_its_slot_retired)
{
    const uint64_t first = open_in(stripe, NULL, 0);
    teff__callback *callback = teff__stripe_settle(stripe, first, &detailed);
    teff__atomic_u64_store_relaxed(&callback->word, (TEFF__GENERATION_MAX - 1)
                                                        << TEFF__CALLBACK_SHIFT);
    const uint64_t last = open_in(stripe, NULL, 0);
    cr_assert_eq(last, 0xffffffffff0a0000);
    cr_assert_null(
        teff__stripe_settle(stripe, 0x00000000000a0000, &detailed)); /* as if it had wrapped */
    cr_assert_not_null(teff__stripe_settle(stripe, last, &detailed));
    cr_assert_null(teff__stripe_settle(stripe, 0x00000000000a0000, &detailed));
    cr_assert_eq(open_in(stripe, NULL, 0), 0x10a0001);
}

Test(registry, a_slot_is_retired_after_as_many_generations_as_there_may_be)
{
    stripe->generation_max = 3;
    cr_assert_not_null(teff__stripe_settle(stripe, open_in(stripe, NULL, 0), &detailed));
    cr_assert_not_null(teff__stripe_settle(stripe, open_in(stripe, NULL, 0), &detailed));
    cr_assert_eq(open_in(stripe, NULL, 0), 0x30a0000);
    cr_assert_not_null(teff__stripe_settle(stripe, 0x30a0000, &detailed));
    cr_assert_eq(open_in(stripe, NULL, 0), 0x10a0001);
}

Test(registry, a_clients_slot_is_retired_too)
{
    clients->generation_max = 1;
    const uint64_t id = open_client(0);
    cr_assert(teff__stripe_claim(clients, id, NULL, 0));
    teff__stripe_free(clients, teff__stripe_at(clients, id));
    cr_assert_eq(open_client(0), 0x1800001);
}

Test(registry, deadlines_lie_at_their_slots_and_go_with_the_call)
{
    const uint64_t id = open_in(stripe, NULL, 0);
    cr_assert_eq(deadline_of(stripe, 0), 1000);
    cr_assert_eq(stripe->low_ns, 1000);
    cr_assert_eq(teff__stripe_open_id(stripe, 0), id);
    cr_assert_not_null(teff__stripe_settle(stripe, id, &detailed));
    cr_assert_eq(deadline_of(stripe, 0), INT64_MAX);

    const uint64_t of_client = open_client(0);
    cr_assert_eq(deadline_of(clients, 0), 1000);
    cr_assert(teff__stripe_claim(clients, of_client, NULL, 0));
    cr_assert_eq(deadline_of(clients, 0), 1000); /* the line is the owner's alone */
    teff__stripe_received(clients, 0);
    cr_assert_eq(deadline_of(clients, 0), INT64_MAX);
}

Test(registry, the_end_claims_what_a_blocking_client_has_open_and_leaves_a_loops_to_its_owner)
{
    const uint64_t id = open_client(0);
    teff__stripe_end(clients, TEFF_EUNAVAILABLE);
    cr_assert_neq(teff__stripe_take_done(clients), 0);
    cr_assert_eq(clients->callbacks[id & 0x1ffff].code, TEFF_EUNAVAILABLE);

    teff__atomic_u32_store_relaxed(&clients->wake_by, 1);
    const uint64_t on_loop = open_in(clients, NULL, 0);
    teff__stripe_end(clients, TEFF_EUNAVAILABLE);
    cr_assert_eq(teff__stripe_take_done(clients), 0);
    cr_assert(teff__stripe_claim(clients, on_loop, NULL, TEFF_ECANCELED));
    teff__atomic_u32_store_relaxed(&clients->wake_by, 0);
}

Test(registry, open_callbacks_are_counted_over_all_stripes)
{
    cr_assert_eq(teff__registry_open_count(&registry), 0);
    const uint64_t a = open_in(stripe, NULL, 0), b = open_in(&registry.stripes[63], NULL, 0);
    const uint64_t c = open_client(0);
    cr_assert_eq(teff__registry_open_count(&registry), 3);
    cr_assert_not_null(teff__stripe_settle(stripe, a, &detailed));
    cr_assert_null(teff__stripe_settle(stripe, a, &detailed)); /* not counted again */
    cr_assert_eq(teff__registry_open_count(&registry), 2);
    cr_assert(teff__stripe_claim(clients, c, NULL, 0));
    cr_assert_not(teff__stripe_claim(clients, c, NULL, 0));
    cr_assert_eq(teff__registry_open_count(&registry), 2); /* its client has not received it */
    cr_assert_not_null(teff__stripe_settle(&registry.stripes[63], b, &detailed));
    cr_assert_eq(teff__registry_open_count(&registry), 1);
}

Test(registry, a_clients_callback_is_claimed_once_and_handed_over_with_its_end)
{
    int answer;
    const uint64_t id = open_client(0);
    cr_assert_eq(teff__stripe_take_done(clients), 0);
    cr_assert(teff__stripe_claim(clients, id, &answer, 0));
    cr_assert_not(teff__stripe_claim(clients, id, NULL, TEFF_ETIMEDOUT));
    cr_assert_eq(teff__stripe_take_done(clients), 1);
    cr_assert_eq(clients->callbacks[0].value, &answer);
    cr_assert_eq(clients->callbacks[0].code, 0);
    cr_assert_eq(teff__stripe_take_done(clients), 0);
}

Test(registry, claimed_callbacks_are_handed_over_in_the_order_claimed)
{
    const uint64_t a = open_client(0), b = open_client(0), c = open_client(0);
    cr_assert(teff__stripe_claim(clients, b, NULL, 0));
    cr_assert(teff__stripe_claim(clients, c, NULL, 0));
    cr_assert(teff__stripe_claim(clients, a, NULL, 0));
    cr_assert_eq(teff__stripe_take_done(clients), 2);
    cr_assert_eq(clients->callbacks[1].done, 3);
    cr_assert_eq(clients->callbacks[2].done, 1);
    cr_assert_eq(clients->callbacks[0].done, 0);
}

Test(registry, a_stale_or_forged_id_claims_nothing)
{
    cr_assert_not(teff__stripe_claim(clients, 0x1800000, NULL, 0));
    const uint64_t id = open_client(0);
    cr_assert_not(teff__stripe_claim(clients, 0x2800000, NULL, 0));
    cr_assert_not(teff__stripe_claim(clients, 0x1800001, NULL, 0));
    cr_assert(teff__stripe_claim(clients, id, NULL, 0));
    teff__stripe_free(clients, &clients->callbacks[0]);
    cr_assert_not(teff__stripe_claim(clients, id, NULL, 0));
}

Test(registry, claiming_wakes_only_a_client_that_sleeps)
{
    const uint64_t a = open_client(0), b = open_client(0);
    cr_assert(teff__stripe_claim(clients, a, NULL, 0));
    cr_assert_eq(teff__atomic_u32_load_relaxed(&clients->sleeping), 0);
    teff__atomic_u32_store_relaxed(&clients->sleeping, 1);
    cr_assert(teff__stripe_claim(clients, b, NULL, 0));
    cr_assert_eq(teff__atomic_u32_load_relaxed(&clients->sleeping), 0);
}

Test(registry, behind_a_closed_gate_a_callback_is_open_but_the_opener_knows)
{
    int status = 0;
    uint64_t id = 0;
    const uint64_t before = open_client(0);
    teff__stripe_close_gate(clients);
    teff__callback *callback = teff__stripe_take(clients, &status);
    cr_assert_not(teff__stripe_open_shared(clients, callback, &terms, 0, &id));
    cr_assert_eq(id, 0x1800001);
    cr_assert(teff__stripe_claim(clients, before, NULL, 0));
    cr_assert(teff__stripe_claim(clients, id, NULL, TEFF_EUNAVAILABLE));
}

Test(registry, claiming_all_ends_what_is_open_and_nothing_else)
{
    const uint64_t ended = open_client(0), a = open_client(0),
                   b = open_client(TEFF__CALLBACK_FUTURE | TEFF__CALLBACK_DEFAULT);
    cr_assert(teff__stripe_claim(clients, ended, NULL, 7));
    (void)teff__stripe_take_done(clients);
    teff__stripe_close_gate(clients);
    teff__stripe_claim_all(clients, TEFF_EUNAVAILABLE);
    cr_assert_eq(teff__stripe_take_done(clients), 2);
    cr_assert_eq(clients->callbacks[1].done, 3);
    cr_assert_eq(clients->callbacks[2].done, 0);
    cr_assert_eq(clients->callbacks[0].code, 7);
    cr_assert_eq(clients->callbacks[1].code, TEFF_EUNAVAILABLE);
    cr_assert_eq(clients->callbacks[2].code, TEFF_EUNAVAILABLE);
    cr_assert_not(teff__stripe_claim(clients, a, NULL, 0));
    cr_assert_not(teff__stripe_claim(clients, b, NULL, 0));
}

Test(registry, a_full_stripe_is_overloaded_until_a_slot_is_free)
{
    int status = 0;
    const uint64_t id = open_in(stripe, NULL, 0);
    teff__atomic_u32_store_relaxed(&stripe->made, 131072); /* as if all had been opened */
    cr_assert_null(teff__stripe_take(stripe, &status));
    cr_assert_eq(status, TEFF_EOVERLOADED);
    cr_assert_not_null(teff__stripe_settle(stripe, id, &detailed));
    cr_assert_eq(open_in(stripe, NULL, 0), 0x20a0000);
}

Test(registry, the_last_slot_of_a_stripe_can_be_used)
{
    int status = 0;
    (void)open_in(stripe, NULL, 0);
    teff__atomic_u32_store_relaxed(&stripe->made, 131071);
    const uint64_t id = open_in(stripe, NULL, 0);
    cr_assert_eq(id, 0x10bffff);
    cr_assert_null(teff__stripe_take(stripe, &status));
    cr_assert_eq(status, TEFF_EOVERLOADED);
    cr_assert_not_null(teff__stripe_settle(stripe, id, &detailed));
}

Test(registry, a_stripe_that_cannot_reserve_its_slots_is_out_of_memory_for_the_moment)
{
    for (uint64_t n = 1; n <= 2; n++) {
        int status = 0;
        teff__memory_fail_at(&memory, n);
        cr_assert_null(teff__stripe_take(stripe, &status));
        cr_assert_eq(status, TEFF_ENOMEM);
    }
    const uint64_t id = open_in(stripe, NULL, 0);
    cr_assert_eq(id, 0x10a0000);
    cr_assert_not_null(teff__stripe_settle(stripe, id, &detailed));
}

Test(registry, without_memory_there_is_none_and_finishing_it_is_allowed)
{
    teff__registry_finish(&registry);
    teff__memory_fail_at(&memory, 1);
    cr_assert_eq(teff__registry_init(&registry, &memory, 1), TEFF_ENOMEM);
    teff__registry_finish(&registry);
}
