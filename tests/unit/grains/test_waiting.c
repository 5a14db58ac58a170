/* SPDX-License-Identifier: MIT */
/*
 * What waits on a worker, as a walk over it tells: who, for what, and what is queued behind.
 */
#include "grains/dispatch.h"
#include "grains/waiting.h"

#include "calls.h"

TestSuite(waiting, .init = begin, .fini = end);

static teff__waiting found[8];

/* Walks over a worker and gives how many wait. */
static int walk_over(int worker)
{
    teff__waiting_walk walk;
    int count = 0;
    teff__waiting_begin(&walk, teff__silo_grains(silo)->catalogs[worker]);
    while (count < 8 && teff__waiting_next(&walk, &found[count]))
        count++;
    return count;
}

static uint64_t hash_of(const probe_ref *probe)
{
    const teff__grains *grains = teff__silo_grains(silo);
    return teff__key_hash(&grains->seed, teff__dispatch_type(grains, &probe->ref)->id,
                          &probe->ref.key);
}

/* Calls probe 2, which sleeps for ten seconds. */
static int call_slow(teff_caller *caller, void *user)
{
    (void)user;
    struct told told;
    probe_ref slow = probe_at(2);
    return probe_rest(caller, &slow, &(struct ask){ .number = 10 * SECOND }, &told);
}

Test(waiting, nobody_waits_where_grains_only_are)
{
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(number_of(2), 0);
    cr_assert_eq(walk_over(0), 0);
}

Test(waiting, a_turn_in_a_call_and_a_turn_that_sleeps)
{
    const int64_t began_ns = teff_now_ns(client);
    send_turn(1, 0, call_slow);
    cr_assert_eq(teff_silo_advance(silo, 2 * SECOND), 0);
    cr_assert_eq(walk_over(0), 2);

    const probe_ref one = probe_at(1), two = probe_at(2);
    cr_assert_eq(found[0].what, TEFF__WAITING_CALL);
    cr_assert(teff__key_equal(&found[0].activation->record.key, &one.ref.key));
    cr_assert_eq(found[0].caller->kind, TEFF__CALLER_TURN);
    cr_assert_eq(found[0].request->method, probe_number_act);
    cr_assert_eq(found[0].request->correlation, 0); /* it was sent */
    cr_assert_eq(found[0].target, hash_of(&two));
    cr_assert_eq(found[0].since_ns, began_ns);
    cr_assert_eq(found[0].deadline_ns, began_ns + 30 * SECOND);

    cr_assert_eq(found[1].what, TEFF__WAITING_SLEEP);
    cr_assert(teff__key_equal(&found[1].activation->record.key, &two.ref.key));
    cr_assert_eq(found[1].request->method, probe_number_rest);
    cr_assert_eq(found[1].request->correlation, found[0].id); /* which the other waits for */
    cr_assert_eq(found[1].since_ns, began_ns);
    cr_assert_eq(found[1].deadline_ns, began_ns + 10 * SECOND);

    cr_assert_eq(teff_silo_advance(silo, 8 * SECOND), 0);
    cr_assert_eq(walk_over(0), 0);
}

static int call_under_source(teff_task *task, void *source)
{
    teff_with(task,
              &(teff_call_options){ .struct_size = sizeof(teff_call_options), .cancel = source });
    return call_slow(task, NULL);
}

Test(waiting, a_task_whose_call_has_a_source)
{
    teff_cancel *source;
    cr_assert_eq(teff_cancel_create(silo, &source), 0);
    spawn(0, call_under_source, source);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(walk_over(0), 2);
    cr_assert_eq(found[0].what, TEFF__WAITING_CALL);
    cr_assert_eq(found[0].caller->kind, TEFF__CALLER_TASK);
    cr_assert_null(found[0].activation);
    cr_assert_null(found[0].request);
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    cr_assert_null(teff_cancel_unref(source));
}

/* Waits for three futures, which end after one second, two and three. */
static int wait_for_all(teff_caller *caller, void *user)
{
    (void)user;
    teff_future futures[3];
    for (int i = 0; i < 3; i++)
        futures[i] = start_rest(caller, 10 + (uint64_t)i, (i + 1) * SECOND);
    return teff_await_all(caller, futures, 3);
}

static int wait_for_any(teff_caller *caller, void *user)
{
    (void)user;
    size_t index = 4711;
    teff_future futures[3];
    for (int i = 0; i < 3; i++)
        futures[i] = start_rest(caller, 10 + (uint64_t)i, (i + 1) * SECOND);
    return teff_await_any(caller, futures, 3, &index);
}

Test(waiting, who_waits_for_several_futures_is_told_of_once)
{
    send_turn(1, 0, wait_for_all);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(walk_over(0), 4); /* and the three that sleep */
    cr_assert_eq(found[0].what, TEFF__WAITING_FUTURES);
    cr_assert_eq(found[0].remaining, 3);
    cr_assert_eq(found[1].what, TEFF__WAITING_SLEEP);

    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(walk_over(0), 3);
    cr_assert_eq(found[0].what, TEFF__WAITING_FUTURES);
    cr_assert_eq(found[0].remaining, 2);
    cr_assert_eq(walk_over(0), 3); /* a second walk finds the same */
    cr_assert_eq(teff_silo_advance(silo, 2 * SECOND), 0);
}

Test(waiting, a_wait_that_has_ended_is_none_though_its_turn_has_not_gone_on)
{
    send_turn(1, 0, wait_for_any);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(walk_over(0), 4);
    cr_assert_eq(found[0].remaining, 1);
    teff__catalog_end(teff__silo_grains(silo)->catalogs[0], found[0].id, NULL, TEFF_ETIMEDOUT);
    cr_assert_eq(walk_over(0), 3); /* two futures are open, and nobody waits for them */
    cr_assert_eq(found[0].what, TEFF__WAITING_SLEEP);
    cr_assert_eq(teff_silo_advance(silo, 3 * SECOND), 0);
}

static void told_then(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct told *ret)
{
    (void)caller, (void)user, (void)outcome, (void)ret;
}

/* Makes a call with a completion, and sleeps meanwhile. */
static int complete_and_sleep(teff_caller *caller, void *user)
{
    (void)user;
    probe_ref quick = probe_at(3);
    (void)probe_get_then(caller, &quick, NULL, told_then, NULL);
    return teff_sleep(caller, SECOND);
}

Test(waiting, requests_wait_in_the_mailbox_in_their_order)
{
    probe_ref busy = probe_at(1);
    send_turn(1, 0, complete_and_sleep);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(probe_note_send(client, &busy, &(struct ask){ 0 }), 0);
    cr_assert_eq(probe_set_send(client, &busy, &(struct ask){ 0 }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(walk_over(0), 1);
    cr_assert_eq(found[0].activation->mail_count, 3); /* the completion, too */
    const teff__message *first = teff__waiting_mail(found[0].activation, NULL);
    cr_assert_eq(first->method, probe_number_note);
    const teff__message *second = teff__waiting_mail(found[0].activation, first);
    cr_assert_eq(second->method, probe_number_set);
    cr_assert_null(teff__waiting_mail(found[0].activation, second));
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
}

static int sleep_in_hook(teff_turn *turn, struct probe *self)
{
    (void)self;
    return teff_sleep(turn, SECOND);
}

Test(waiting, a_hook_has_no_request)
{
    probe_ref probe = probe_at(1);
    activating = sleep_in_hook;
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ 0 }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(walk_over(0), 1);
    cr_assert_null(found[0].request);
    cr_assert_not_null(found[0].activation);
    cr_assert_eq(teff__waiting_mail(found[0].activation, NULL)->method, probe_number_note);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
}
