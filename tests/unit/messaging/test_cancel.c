/* SPDX-License-Identifier: MIT */
/* Sources, their branches, and the lists of calls in those; no call is sent here. */
#include "messaging/cancel.h"

#include "messaging/client.h"
#include "runtime/silo.h"

#include "teff.h"

#include <criterion/criterion.h>

static const teff__callback_terms never = { 0, TEFF__DEADLINE_NEVER };
static bool detailed;
static teff_silo *silo;
static teff__exchange *exchange;
static teff__registry *registry;
static teff_cancel *cancel;

static void begin(void)
{
    const teff_silo_options options = {
        .struct_size = sizeof(options), .workers = 2, .simulated = true, .seed = 1
    };
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    exchange = teff__silo_exchange(silo);
    registry = &exchange->registry;
    teff_assert(teff_cancel_create(silo, &cancel) == 0);
}

static void end(void)
{
    teff_assert(teff_cancel_unref(cancel) == NULL);
    teff_assert(teff_silo_destroy(silo) == NULL);
}

TestSuite(cancel, .init = begin, .fini = end);

static uint32_t count_of(const teff_cancel *source)
{
    return teff__atomic_u32_load_relaxed(&source->count);
}

static uint64_t allocated(void)
{
    return teff__atomic_u64_load_relaxed(&teff__silo_memory(silo)->bytes);
}

/* A callback of that stripe, under the source. */
static uint64_t open_in(teff__stripe *stripe)
{
    int r = 0;
    cr_assert_eq(teff__stripe_need_details(stripe), 0);
    teff__callback *callback = teff__stripe_take(stripe, &r);
    cr_assert_not_null(callback);
    const uint64_t id = teff__stripe_open(stripe, callback, NULL, &never, TEFF__CALLBACK_CANCEL);
    cr_assert_eq(teff__cancel_link(cancel, registry, id), 0);
    return id;
}

static void close_in(teff__stripe *stripe, uint64_t id)
{
    teff__callback *callback = teff__stripe_settle(stripe, id, &detailed);
    cr_assert_not_null(callback);
    teff__cancel_unlink(registry, id);
    teff__stripe_free(stripe, callback);
}

static const teff__cancel_branch *newest_branch(void)
{
    return teff__atomic_pointer_load_relaxed(&cancel->branches);
}

Test(cancel, a_new_source_has_not_fired_and_lists_nothing)
{
    cr_assert_not(teff__cancel_fired(cancel));
    cr_assert_null(newest_branch());
    cr_assert_eq(count_of(cancel), 1);
}

Test(cancel, null_is_no_source)
{
    teff_cancel *none = NULL;
    teff_cancel_fire(NULL);
    cr_assert_null(teff_cancel_ref(NULL));
    cr_assert_null(teff_cancel_unref(NULL));
    cr_assert_eq(teff_cancel_create(NULL, &none), TEFF_EINVAL);
    cr_assert_eq(teff_cancel_create(silo, NULL), TEFF_EINVAL);
    cr_assert_null(none);
}

Test(cancel, without_memory_there_is_none)
{
    teff_cancel *const untouched = (teff_cancel *)&untouched;
    teff_cancel *none = untouched;
    teff__memory_fail_at(teff__silo_memory(silo), 1);
    cr_assert_eq(teff_cancel_create(silo, &none), TEFF_ENOMEM);
    cr_assert_eq(none, untouched);
}

Test(cancel, the_last_count_frees_it)
{
    const uint64_t before = allocated();
    teff_cancel *other = NULL;
    cr_assert_eq(teff_cancel_create(silo, &other), 0);
    cr_assert_eq(teff_cancel_ref(other), other);
    cr_assert_null(teff_cancel_unref(other));
    cr_assert_gt(allocated(), before);
    cr_assert_null(teff_cancel_unref(other));
    cr_assert_eq(allocated(), before);
}

Test(cancel, it_lists_the_newest_call_first_each_by_its_whole_id)
{
    teff__stripe *stripe = &registry->stripes[0];
    uint64_t ids[3];
    /* Generations differ from slot to slot. */
    for (int times = 0; times < 3; times++)
        close_in(stripe, open_in(stripe));
    for (int i = 0; i < 3; i++)
        ids[i] = open_in(stripe);
    const teff__cancel_branch *branch = newest_branch();
    cr_assert_null(branch->next);
    cr_assert_eq(teff__cancel_first(registry, branch), ids[2]);
    cr_assert_eq(teff__cancel_next(registry, ids[2]), ids[1]);
    cr_assert_eq(teff__cancel_next(registry, ids[1]), ids[0]);
    cr_assert_eq(teff__cancel_next(registry, ids[0]), 0);
    cr_assert_gt(ids[0] >> TEFF__GENERATION_SHIFT, 3);
    for (int i = 0; i < 3; i++)
        close_in(stripe, ids[i]);
}

Test(cancel, calls_leave_the_list_in_any_order)
{
    static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                      { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    teff__stripe *stripe = &registry->stripes[0];
    for (int i = 0; i < 6; i++) {
        const int *order = orders[i];
        uint64_t ids[3];
        for (int k = 0; k < 3; k++)
            ids[k] = open_in(stripe);
        close_in(stripe, ids[order[0]]);
        const uint64_t newer = ids[order[1] > order[2] ? order[1] : order[2]];
        const uint64_t older = ids[order[1] > order[2] ? order[2] : order[1]];
        cr_assert_eq(teff__cancel_first(registry, newest_branch()), newer);
        cr_assert_eq(teff__cancel_next(registry, newer), older);
        cr_assert_eq(teff__cancel_next(registry, older), 0);
        close_in(stripe, ids[order[1]]);
        cr_assert_eq(teff__cancel_first(registry, newest_branch()), ids[order[2]]);
        cr_assert_eq(teff__cancel_next(registry, ids[order[2]]), 0);
        close_in(stripe, ids[order[2]]);
        cr_assert_eq(teff__cancel_first(registry, newest_branch()), 0);
    }
}

Test(cancel, a_branch_that_lists_calls_counts_as_one_holder)
{
    teff__stripe *stripe = &registry->stripes[0];
    const uint64_t a = open_in(stripe), b = open_in(stripe);
    cr_assert_eq(count_of(cancel), 2);
    close_in(stripe, a);
    cr_assert_eq(count_of(cancel), 2);
    close_in(stripe, b);
    cr_assert_eq(count_of(cancel), 1);
}

Test(cancel, it_lives_as_long_as_a_call_under_it)
{
    teff__stripe *stripe = &registry->stripes[0];
    const uint64_t before = allocated(), id = open_in(stripe);
    teff_cancel_unref(cancel);
    cr_assert_gt(allocated(), before);
    close_in(stripe, id);
    cr_assert_lt(allocated(), before + 4096 * 4096); /* the details stay */
    cr_assert_eq(teff__atomic_u32_load_relaxed(&exchange->held), 0);
    cr_assert_eq(teff_cancel_create(silo, &cancel), 0);
}

Test(cancel, each_worker_and_each_client_has_one_branch_whatever_stripes_it_uses)
{
    teff__stripe *first = &registry->stripes[0], *second = &registry->stripes[1],
                 *other = &registry->stripes[40], *client = &registry->stripes[70],
                 *next = &registry->stripes[71];
    cr_assert_eq(first->worker, second->worker);
    cr_assert_eq(other->worker, 1);
    const uint64_t a = open_in(first), b = open_in(second), c = open_in(other), d = open_in(client),
                   e = open_in(next);
    int branches = 0;
    uint32_t owners = 0;
    for (const teff__cancel_branch *each = newest_branch(); each != NULL; each = each->next) {
        branches++;
        owners += each->owner;
    }
    cr_assert_eq(branches, 4);
    cr_assert_eq(owners, 0 + 1 + 70 + 71);
    cr_assert_eq(count_of(cancel), 5);
    /* The list of worker 0 goes through both of its stripes. */
    const teff__cancel_branch *of_worker_0 = newest_branch();
    while (of_worker_0->owner != 0)
        of_worker_0 = of_worker_0->next;
    cr_assert_eq(teff__cancel_first(registry, of_worker_0), b);
    cr_assert_eq(teff__cancel_next(registry, b), a);
    close_in(first, a);
    close_in(second, b);
    close_in(other, c);
    close_in(client, d);
    close_in(next, e);
    cr_assert_eq(count_of(cancel), 1);
}

Test(cancel, a_branch_for_which_there_is_no_memory_is_no_link_and_unlinking_is_harmless)
{
    teff__stripe *stripe = &registry->stripes[0];
    int r = 0;
    cr_assert_eq(teff__stripe_need_details(stripe), 0);
    teff__callback *callback = teff__stripe_take(stripe, &r);
    const uint64_t id = teff__stripe_open(stripe, callback, NULL, &never, TEFF__CALLBACK_CANCEL);
    teff__memory_fail_at(teff__silo_memory(silo), 1);
    cr_assert_eq(teff__cancel_link(cancel, registry, id), TEFF_ENOMEM);
    cr_assert_eq(count_of(cancel), 1);
    close_in(stripe, id);
    cr_assert_eq(count_of(cancel), 1);
}

Test(cancel, firing_posts_one_message_to_each_owner_once)
{
    teff__stripe *stripe = &registry->stripes[0], *other = &registry->stripes[40];
    const uint64_t a = open_in(stripe), b = open_in(stripe), c = open_in(other);
    teff_cancel_fire(cancel);
    cr_assert(teff__cancel_fired(cancel));
    cr_assert_eq(count_of(cancel), 5); /* ours, two branches, two messages */
    teff_cancel_fire(cancel);
    cr_assert_eq(count_of(cancel), 5);
    for (int i = 0; i < 2; i++) {
        teff__message *message = (teff__message *)teff__inbox_take(&exchange->workers[i]->inbox);
        cr_assert_not_null(message);
        cr_assert_eq(message->kind, TEFF__MESSAGE_CANCEL);
        cr_assert_null(message->link.next);
        teff__cancel_told(message);
    }
    cr_assert_eq(count_of(cancel), 3);
    close_in(stripe, a);
    close_in(stripe, b);
    close_in(other, c);
}

Test(cancel, firing_for_a_client_that_is_gone_tells_nobody)
{
    const uint64_t id = open_in(&registry->stripes[70]);
    teff_cancel_fire(cancel);
    cr_assert_eq(count_of(cancel), 2);
    cr_assert(teff__inbox_empty(&registry->stripes[70].mail));
    close_in(&registry->stripes[70], id);
}

Test(cancel, firing_an_unused_source_marks_it_only)
{
    teff_cancel_fire(cancel);
    cr_assert(teff__cancel_fired(cancel));
    cr_assert_eq(count_of(cancel), 1);
}
