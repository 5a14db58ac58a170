/* SPDX-License-Identifier: MIT */
/*
 * Counting: which end a code or an answer is, what is open, and what of it meets a condition.
 */
#include "messaging/count.h"

#include "teff/status.h"

#include <criterion/criterion.h>

#include <string.h>

static teff__memory memory;
static teff__registry registry;
static teff__stripe *stripe; /* a worker's, the second one */
static bool detailed;

static void begin(void)
{
    teff__memory_init(&memory, 0);
    teff_assert(teff__registry_init(&registry, &memory, 1) == 0);
    stripe = &registry.stripes[1];
}

static void end(void)
{
    teff__registry_finish(&registry);
    teff_assert(teff__atomic_u64_load_relaxed(&memory.bytes) == 0);
}

TestSuite(count, .init = begin, .fini = end);

static uint64_t open_in(teff__stripe *in, int64_t opened_ns, int64_t deadline_ns, uint64_t target)
{
    int status = 0;
    const teff__callback_terms terms = { opened_ns, deadline_ns };
    teff__callback *callback = teff__stripe_take(in, &status);
    cr_assert_not_null(callback);
    const uint64_t id = teff__stripe_open(in, callback, NULL, &terms, 0);
    teff__stripe_set_target(in, id, target);
    return id;
}

static void settle(teff__stripe *in, uint64_t id)
{
    cr_assert_not_null(teff__stripe_settle(in, id, &detailed));
}

static teff_counts counts(void)
{
    teff_counts counted = { .struct_size = sizeof(counted) };
    teff__registry_counts(&registry, &counted);
    return counted;
}

Test(count, each_code_is_one_end)
{
    static const struct {
        int code;
        teff_end end;
    } table[] = {
        { 0, TEFF_END_RESPONSE },
        { 1, TEFF_END_ERROR },
        { TEFF_EREJECTED, TEFF_END_REJECTED },
        { TEFF_EOVERLOADED, TEFF_END_OVERLOADED },
        { TEFF_ELIMIT, TEFF_END_OVERLOADED },
        { TEFF_ENOMEM, TEFF_END_OVERLOADED },
        { TEFF_EINVAL, TEFF_END_UNRECOVERABLE },
        { TEFF_EINVALIDSTATE, TEFF_END_UNRECOVERABLE },
        { TEFF_EWOULDBLOCK, TEFF_END_UNRECOVERABLE },
        { TEFF_ETIMEDOUT, TEFF_END_TIMED_OUT },
        { TEFF_ECANCELED, TEFF_END_CANCELED_RUNNING },
        { TEFF_EUNAVAILABLE, TEFF_END_STOPPED },
        { TEFF_EGONE, TEFF_END_GONE },
        { TEFF_ESTUCK, TEFF_END_STUCK },
        { TEFF_EDEADLOCK, TEFF_END_DEADLOCK },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        cr_expect_eq(teff__end_of_code(table[i].code), table[i].end, "code %d", table[i].code);
}

Test(count, an_answers_end_depends_on_whether_it_ran)
{
    teff__message answer;
    memset(&answer, 0, sizeof(answer));
    cr_expect_eq(teff__end_of_answer(&answer), TEFF_END_RESPONSE);
    answer.code = TEFF_ECANCELED;
    cr_expect_eq(teff__end_of_answer(&answer), TEFF_END_CANCELED_QUEUED);
    answer.code = TEFF_EOVERLOADED;
    cr_expect_eq(teff__end_of_answer(&answer), TEFF_END_OVERLOADED);
    answer.flags = TEFF__MESSAGE_MAY_HAVE_RUN; /* the handler's own, or passed on */
    cr_expect_eq(teff__end_of_answer(&answer), TEFF_END_ERROR);
    answer.code = TEFF_ESTUCK;
    cr_expect_eq(teff__end_of_answer(&answer), TEFF_END_ERROR);
    answer.flags |= TEFF__MESSAGE_GIVEN_UP; /* the runtime's */
    cr_expect_eq(teff__end_of_answer(&answer), TEFF_END_STUCK);
    answer.flags = TEFF__MESSAGE_MAY_HAVE_RUN;
    answer.code = 7;
    cr_expect_eq(teff__end_of_answer(&answer), TEFF_END_ERROR);
    answer.code = 0;
    cr_expect_eq(teff__end_of_answer(&answer), TEFF_END_RESPONSE);
}

Test(count, a_registry_that_was_never_used_counts_nothing)
{
    uint64_t open = 1;
    cr_expect_eq(teff__registry_open_count(&registry), 0);
    cr_assert(teff__registry_open_count_exact(&registry, &open));
    cr_expect_eq(open, 0);
    cr_expect_eq(teff__stripe_count_grain(stripe, 0), 0);
    cr_expect_eq(teff__stripe_count_older(stripe, INT64_MAX), 0);
}

Test(count, stripes_of_both_halves_are_counted)
{
    uint64_t open = 0;
    (void)open_in(&registry.stripes[0], 0, 9, 1);
    (void)open_in(&registry.stripes[63], 0, 9, 1);
    const uint64_t id = open_in(&registry.stripes[127], 0, 9, 1);
    cr_assert(teff__registry_open_count_exact(&registry, &open));
    cr_expect_eq(open, 3);
    cr_expect_eq(teff__registry_open_count(&registry), 3);
    settle(&registry.stripes[127], id);
    cr_assert(teff__registry_open_count_exact(&registry, &open));
    cr_expect_eq(open, 2);
}

Test(count, one_stripe_of_the_second_half_is_found_alone)
{
    (void)open_in(&registry.stripes[127], 0, 9, 1);
    cr_expect_eq(teff__registry_open_count(&registry), 1);
}

Test(count, what_ended_well_is_the_difference)
{
    for (int i = 0; i < 5; i++)
        settle(stripe, open_in(stripe, 0, 9, 1));
    const uint64_t id = open_in(stripe, 0, 9, 1);
    teff__stripe_count_end(stripe, TEFF_END_TIMED_OUT);
    settle(stripe, id);
    (void)open_in(stripe, 0, 9, 1);
    const teff_counts counted = counts();
    cr_expect_eq(counted.opened, 7);
    cr_expect_eq(counted.open, 1);
    cr_expect_eq(counted.ended[TEFF_END_RESPONSE], 5);
    cr_expect_eq(counted.ended[TEFF_END_TIMED_OUT], 1);
    cr_expect_eq(counted.ended[TEFF_END_STOPPED], 0);
}

Test(count, one_that_was_never_opened_has_opened_and_ended)
{
    teff__stripe_count_unsent(stripe, TEFF_END_CANCELED_UNSENT);
    const teff_counts counted = counts();
    cr_expect_eq(counted.opened, 1);
    cr_expect_eq(counted.open, 0);
    cr_expect_eq(counted.ended[TEFF_END_CANCELED_UNSENT], 1);
    cr_expect_eq(counted.ended[TEFF_END_RESPONSE], 0);
}

Test(count, answers_are_late_or_to_calls_that_never_were)
{
    const uint64_t id = open_in(stripe, 0, 9, 1);
    settle(stripe, id);
    teff__registry_count_late(&registry, id);
    (void)open_in(stripe, 0, 9, 1); /* the same slot, a generation later */
    teff__registry_count_late(&registry, id);
    cr_expect_eq(counts().late, 2);
    cr_expect_eq(counts().unknown, 0);
    teff__registry_count_late(&registry, id + (UINT64_C(2) << TEFF__GENERATION_SHIFT));
    teff__registry_count_late(&registry, id + 1); /* a slot that was never made */
    teff__registry_count_late(&registry, teff__stripe_id(&registry.stripes[99], 0, 1));
    cr_expect_eq(counts().late, 2);
    cr_expect_eq(counts().unknown, 3);
}

Test(count, by_grain_only_open_ones_of_that_grain)
{
    uint64_t of_five[3];
    for (int i = 0; i < 3; i++)
        of_five[i] = open_in(stripe, 0, 9, 5);
    (void)open_in(stripe, 0, 9, 6);
    cr_expect_eq(teff__stripe_count_grain(stripe, 5), 3);
    settle(stripe, of_five[1]);
    cr_expect_eq(teff__stripe_count_grain(stripe, 5), 2);
    cr_expect_eq(teff__stripe_count_grain(stripe, 6), 1);
    cr_expect_eq(teff__stripe_count_grain(stripe, 7), 0);
}

Test(count, by_age_counts_those_that_never_end_too)
{
    (void)open_in(stripe, 10, 100, 1);
    (void)open_in(stripe, 20, TEFF__DEADLINE_NEVER, 0);
    (void)open_in(stripe, 30, 100, 1);
    cr_expect_eq(teff__stripe_count_older(stripe, 9), 0);
    cr_expect_eq(teff__stripe_count_older(stripe, 10), 1);
    cr_expect_eq(teff__stripe_count_older(stripe, 20), 2);
    cr_expect_eq(teff__stripe_count_older(stripe, 1000), 3);
}

typedef struct seen {
    teff__open_callback last;
    int calls;
} seen;

static bool later_than_50(void *user, const teff__open_callback *callback)
{
    seen *all = user;
    all->last = *callback;
    all->calls++;
    return callback->deadline_ns > 50;
}

Test(count, a_predicate_sees_each_open_callback_once)
{
    seen all = { .calls = 0 };
    (void)open_in(stripe, 1, 40, 7);
    settle(stripe, open_in(stripe, 2, 90, 8));
    (void)open_in(stripe, 3, 60, 8); /* in the slot of the one before */
    const uint64_t last = open_in(stripe, 4, 70, 9);
    settle(stripe, open_in(stripe, 5, 80, 9)); /* the newest slot is free */
    cr_expect_eq(teff__stripe_count_if(stripe, later_than_50, &all), 2);
    cr_expect_eq(all.calls, 3);
    cr_expect_eq(all.last.id, last);
    cr_expect_eq(all.last.opened_ns, 4);
    cr_expect_eq(all.last.target, 9);
}

Test(count, a_walk_finds_what_is_due_at_this_very_moment)
{
    uint32_t slot = 0;
    int64_t low_ns = INT64_MAX;
    for (int i = 0; i < 32; i++)
        (void)open_in(stripe, 0, i == 20 ? 500 : 600, 1);
    cr_expect_eq(teff__stripe_next_due(stripe, 499, &slot, &low_ns), 0);
    cr_expect_eq(low_ns, 500);
    slot = 0;
    low_ns = INT64_MAX;
    cr_expect_eq(teff__stripe_next_due(stripe, 500, &slot, &low_ns),
                 teff__stripe_open_id(stripe, 20));
}

Test(count, walking_for_deadlines_agrees_with_looking_at_each)
{
    enum { COUNT = 1000 };
    for (int i = 0; i < COUNT; i++)
        (void)open_in(stripe, 0, 1000 + i * 37 % COUNT, 1);
    for (int64_t now_ns = 995; now_ns < 1000 + COUNT + 5; now_ns += 83) {
        uint32_t slot = 0;
        int64_t low_ns = INT64_MAX;
        int due = 0;
        while (teff__stripe_next_due(stripe, now_ns, &slot, &low_ns) != 0)
            due++;
        const int expected = now_ns < 1000 ? 0 : (int)(now_ns - 999 < COUNT ? now_ns - 999 : COUNT);
        cr_expect_eq(due, expected, "%d due at %d, not %d", due, (int)now_ns, expected);
        cr_expect_eq(low_ns, expected == COUNT ? INT64_MAX : now_ns < 1000 ? 1000 : now_ns + 1);
    }
}
