/* SPDX-License-Identifier: MIT */
/* Futures: whose they are, and how they leave their caller's list. */
#include "messaging/future.h"

#include "messaging/client.h"
#include "runtime/worker.h"

#include "teff/status.h"

#include <criterion/criterion.h>

static const teff__callback_terms never = { 0, TEFF__DEADLINE_NEVER };
static bool detailed;
static teff__memory memory;
static teff__registry registry;
static teff__worker workers[2];
static teff_caller task, other_task, far_task; /* far_task runs on worker 1 */
static teff__client client, other_client;
static teff__message answer;

static void begin(void)
{
    teff__memory_init(&memory, 0);
    teff_assert(teff__registry_init(&registry, &memory, 2) == 0);
    workers[1].index = 1;
    teff__caller_init(&task, TEFF__CALLER_TASK, &workers[0], INT64_MAX);
    teff__caller_init(&other_task, TEFF__CALLER_TASK, &workers[0], INT64_MAX);
    teff__caller_init(&far_task, TEFF__CALLER_TASK, &workers[1], INT64_MAX);
    teff__caller_init(&client.caller, TEFF__CALLER_CLIENT, &client, INT64_MAX);
    teff__caller_init(&other_client.caller, TEFF__CALLER_CLIENT, &other_client, INT64_MAX);
    client.stripe = &registry.stripes[64];
    client.stripe->owner = &client;
    other_client.stripe = &registry.stripes[65];
    other_client.stripe->owner = &other_client;
}

static void end(void)
{
    teff__registry_finish(&registry);
}

TestSuite(future, .init = begin, .fini = end);

static uint64_t add(teff_caller *caller, teff__stripe *stripe)
{
    int status = 0;
    teff__callback *callback = teff__stripe_take(stripe, &status);
    cr_assert_not_null(callback);
    cr_assert_eq(teff__stripe_need_details(stripe), 0);
    const uint64_t id = teff__stripe_open(stripe, callback, NULL, &never, TEFF__CALLBACK_FUTURE);
    teff__future_add(&registry, caller, id, NULL);
    return id;
}

static void settle(uint64_t id, void *value, int code)
{
    teff__callback *callback =
        teff__stripe_settle(teff__registry_stripe(&registry, id), id, &detailed);
    cr_assert_not_null(callback);
    callback->value = value;
    callback->code = code;
}

static int take(teff_caller *caller, uint64_t id, teff__message **ret)
{
    cr_assert_not_null(teff__future_find(&registry, caller, id));
    return teff__future_take(&registry, caller, id, ret);
}

Test(future, it_is_found_by_its_caller_open_or_settled_until_it_is_taken)
{
    teff__message *found = NULL;
    const uint64_t id = add(&task, &registry.stripes[0]);
    cr_assert_eq(teff__future_find(&registry, &task, id), &registry.stripes[0].callbacks[0]);
    settle(id, &answer, 0);
    cr_assert_eq(take(&task, id, &found), 0);
    cr_assert_eq(found, &answer);
    cr_assert_null(teff__future_find(&registry, &task, id));
}

Test(future, one_that_ended_without_an_answer_gives_its_code)
{
    teff__message *found = &answer;
    const uint64_t id = add(&task, &registry.stripes[0]);
    settle(id, NULL, TEFF_EUNAVAILABLE);
    cr_assert_eq(take(&task, id, &found), TEFF_EUNAVAILABLE);
    cr_assert_null(found);
}

Test(future, it_is_not_found_by_anybody_else)
{
    const uint64_t id = add(&task, &registry.stripes[0]);
    const uint64_t far = add(&far_task, &registry.stripes[32]);
    const uint64_t of_client = add(&client.caller, client.stripe);
    cr_assert_null(teff__future_find(&registry, &other_task, id));
    cr_assert_null(teff__future_find(&registry, &far_task, id));
    cr_assert_null(teff__future_find(&registry, &client.caller, id));
    cr_assert_null(teff__future_find(&registry, &task, far));
    cr_assert_null(teff__future_find(&registry, &task, of_client));
    cr_assert_null(teff__future_find(&registry, &other_client.caller, of_client));
    cr_assert_not_null(teff__future_find(&registry, &far_task, far));
    cr_assert_not_null(teff__future_find(&registry, &client.caller, of_client));
}

Test(future, an_awaited_call_is_none)
{
    int status = 0;
    teff__callback *callback = teff__stripe_take(&registry.stripes[0], &status);
    const uint64_t id = teff__stripe_open(&registry.stripes[0], callback, NULL, &never, 0);
    cr_assert_null(teff__future_find(&registry, &task, id));
}

Test(future, zero_and_made_up_ids_are_none)
{
    const uint64_t id = add(&task, &registry.stripes[0]);
    cr_assert_null(teff__future_find(&registry, &task, 0));
    cr_assert_null(teff__future_find(&registry, &task, id + (1 << 24)));
    cr_assert_null(teff__future_find(&registry, &task, id + 1));
    cr_assert_null(teff__future_find(&registry, &task, UINT64_MAX));
    cr_assert_null(teff__future_find(&registry, &client.caller, 0));
}

Test(future, ids_of_statuses_are_told_from_those_of_slots)
{
    int status = 4711;
    cr_assert(teff__future_is_status(teff__future_of_status(TEFF_ESTUCK), &status));
    cr_assert_eq(status, TEFF_ESTUCK);
    cr_assert(teff__future_is_status(teff__future_of_status(0), &status));
    cr_assert_eq(status, 0);
    cr_assert_not(teff__future_is_status(0, &status));
    cr_assert_not(teff__future_is_status(add(&task, &registry.stripes[0]), &status));
    cr_assert_null(teff__future_find(&registry, &task, teff__future_of_status(TEFF_EINVAL)));
}

Test(future, the_newest_is_the_first_and_its_id_is_whole)
{
    cr_assert_eq(teff__future_first(&registry, &task), 0);
    const uint64_t a = add(&task, &registry.stripes[0]);
    cr_assert_eq(teff__future_first(&registry, &task), a);
    const uint64_t b = add(&task, &registry.stripes[31]);
    cr_assert_eq(teff__future_first(&registry, &task), b);
    cr_assert_eq(teff__future_first(&registry, &other_task), 0);
}

/* Three are taken in that order; after each one the list has the others, newest first. */
static void take_three(const int order[3], const int firsts[3])
{
    teff__message *found;
    uint64_t ids[3];
    for (int i = 0; i < 3; i++) {
        ids[i] = add(&task, &registry.stripes[0]);
        settle(ids[i], &answer, 0);
    }
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(take(&task, ids[order[i]], &found), 0);
        cr_assert_eq(teff__future_first(&registry, &task), firsts[i] < 0 ? 0 : ids[firsts[i]]);
    }
    cr_assert_eq(task.futures, 0);
}

Test(future, they_leave_the_list_in_any_order)
{
    take_three((const int[]){ 0, 1, 2 }, (const int[]){ 2, 2, -1 });
    take_three((const int[]){ 2, 1, 0 }, (const int[]){ 1, 0, -1 });
    take_three((const int[]){ 1, 2, 0 }, (const int[]){ 2, 0, -1 });
    take_three((const int[]){ 1, 0, 2 }, (const int[]){ 2, 2, -1 });
    take_three((const int[]){ 2, 0, 1 }, (const int[]){ 1, 1, -1 });
}

Test(future, a_slot_that_is_free_again_serves_another_caller)
{
    teff__message *found;
    const uint64_t id = add(&task, &registry.stripes[0]);
    settle(id, &answer, 0);
    cr_assert_eq(take(&task, id, &found), 0);
    const uint64_t next = add(&other_task, &registry.stripes[0]);
    cr_assert_eq(next & 0xffffff, id & 0xffffff);
    cr_assert_null(teff__future_find(&registry, &task, id));
    cr_assert_null(teff__future_find(&registry, &task, next));
    cr_assert_not_null(teff__future_find(&registry, &other_task, next));
}
