/* SPDX-License-Identifier: MIT */
/* Requests whose source fires before their turn has begun: they are answered, and never run. */
#include "grains/activate.h"
#include "grains/canceling.h"
#include "grains/dispatch.h"

#include "under_source.h"

TestSuite(cancel_queued, .init = begin_canceling, .fini = end_canceling);

/* --- In a mailbox -------------------------------------------------------------------------------- */

static int call_busy(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    struct told told = { .number = 4711 };
    const int64_t before_ns = teff_now_ns(caller);
    cr_expect_eq(probe_get(under(caller), &probe, NULL, &told), TEFF_ECANCELED);
    expect_canceled(caller, false);
    cr_expect_eq(told.number, 4711);
    cr_expect_eq(teff_now_ns(caller) - before_ns, MS); /* not behind the turn that is suspended */
    return 0;
}

Test(cancel_queued, on_the_callers_worker_it_is_answered_at_once_and_did_not_run)
{
    keep_busy(HERE);
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, call_busy, (void *)HERE), 0);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_QUEUED), 1);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_RUNNING), 0);
    cr_assert_eq(holders(), 1);
    cr_assert_eq(teff_silo_advance(silo, 7200 * SECOND), 0);
    cr_assert_eq(seen.turns, 0);
}

static int wait_for_busy(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    const int64_t before_ns = teff_now_ns(caller);
    cr_expect_eq(probe_get(waiting(caller), &probe, NULL, NULL), TEFF_ECANCELED);
    expect_canceled(caller, false);
    const teff_future future = probe_get_start(waiting(caller), &probe, NULL);
    cr_expect_eq(probe_get_claim(caller, future, NULL), TEFF_ECANCELED);
    expect_canceled(caller, false); /* and so does one that comes later, before it was sent */
    cr_expect_eq(teff_now_ns(caller) - before_ns, MS);
    return 0;
}

Test(cancel_queued, a_caller_that_waits_for_the_callee_is_answered_at_once_too)
{
    keep_busy(HERE);
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, wait_for_busy, (void *)HERE), 0);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_QUEUED), 1);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_UNSENT), 1);
}

Test(cancel_queued, from_another_worker_it_is_answered_at_once)
{
    keep_busy(THERE);
    spawn(0, fire, NULL);
    cr_assert_eq(in_task(0, wait_for_busy, (void *)THERE), 0);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_QUEUED), 1);
}

Test(cancel_queued, a_clients_is_answered_at_once)
{
    keep_busy(THERE);
    spawn(0, fire, NULL);
    wait_for_busy(client, (void *)THERE);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_QUEUED), 1);
    cr_assert_eq(holders(), 1);
}

Test(cancel_queued, a_client_that_does_not_wait_hears_of_it_before_the_callee_does)
{
    keep_busy(THERE);
    probe_ref probe = probe_at(THERE);
    const teff_future future = probe_get_start(under(client), &probe, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(holders(), 3); /* the client's callback, and the request */
    teff_cancel_fire(cancel);
    cr_assert_eq(probe_get_claim(client, future, NULL), TEFF_ECANCELED);
    expect_canceled(client, true);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(holders(), 1);
    cr_assert_eq(silo_counts().late, 1); /* the callee's answer */
    cr_assert_eq(teff_silo_advance(silo, 7200 * SECOND), 0);
    cr_assert_eq(seen.turns, 0);
}

static int ended;

static void ends_queued(teff_caller *caller, void *user, const teff_outcome *outcome,
                        const struct told *ret)
{
    (void)user;
    cr_expect_not_null(caller);
    cr_expect_eq(outcome->code, TEFF_ECANCELED);
    cr_expect_not(outcome->may_have_run);
    cr_expect_null(ret);
    ended++;
}

static int each_form(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    teff_future futures[2];
    for (int i = 0; i < 2; i++) {
        futures[i] = probe_get_start(waiting(caller), &probe, NULL);
        cr_expect_eq(probe_get_then(waiting(caller), &probe, NULL, ends_queued, NULL), 0);
        cr_expect_eq(probe_note_send(waiting(caller), &probe, &(struct ask){ .number = i }), 0);
        cr_expect_eq(probe_get_send(under(caller), &probe, NULL), 0);
        cr_expect_eq(probe_note_send(caller, &probe, &(struct ask){ .number = 10 + i }), 0);
    }
    cr_expect_eq(probe_get(waiting(caller), &probe, NULL, NULL), TEFF_ECANCELED);
    expect_canceled(caller, false);
    cr_expect_eq(teff_await_all(caller, futures, 2), 0);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(probe_get_claim(caller, futures[i], NULL), TEFF_ECANCELED);
        expect_canceled(caller, false);
    }
    return caller == client ? 0 : teff_sleep(caller, MS);
}

static void each_form_from(int worker, uint64_t key)
{
    keep_busy(key);
    spawn(1, fire, NULL);
    if (worker < 0) {
        each_form(client, (void *)(uintptr_t)key);
        while (ended < 2)
            cr_assert_eq(teff_client_run(client, 0), 0);
    } else {
        cr_assert_eq(in_task(worker, each_form, (void *)(uintptr_t)key), 0);
    }
    cr_assert_eq(ended, 2);
    cr_assert_eq(holders(), 1);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_QUEUED), 5);
    cr_assert_eq(teff_silo_advance(silo, 7200 * SECOND), 0);
    cr_assert_eq(seen.turns, 2); /* those without a source, in their order */
    cr_assert_str_eq(story, "10 11 ");
}

Test(cancel_queued, every_form_of_call_ends_and_those_without_a_source_run_in_their_order)
{
    each_form_from(0, HERE);
}

Test(cancel_queued, every_form_of_call_ends_from_another_worker)
{
    each_form_from(0, THERE);
}

Test(cancel_queued, every_form_of_a_clients_calls_ends)
{
    each_form_from(-1, HERE);
}

static int fill_mailbox(teff_task *task, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(probe_note_send(under(task), &probe, NULL), 0);
    cr_expect_eq(probe_note_send(under(task), &probe, NULL), TEFF_EOVERLOADED);
    teff_cancel_fire(cancel);
    cr_expect_eq(teff_sleep(task, 0), 0);
    cr_expect_eq(teff_sleep(task, MS), 0);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(probe_note_send(task, &probe, &(struct ask){ .number = i }), 0);
    cr_expect_eq(probe_note_send(task, &probe, NULL), TEFF_EOVERLOADED);
    return 0;
}

Test(cancel_room, what_was_cancelled_leaves_its_room_in_the_mailbox)
{
    begin_canceling_with((teff_silo_options){ .mailbox_max = 4 });
    keep_busy(HERE);
    cr_assert_eq(in_task(0, fill_mailbox, (void *)HERE), 0);
    cr_assert_eq(teff_silo_advance(silo, 3600 * SECOND), 0);
    cr_assert_str_eq(story, "0 1 2 3 ");
    end_canceling();
}

static int many_queued(teff_task *task, void *user)
{
    (void)user;
    for (uint64_t i = 0; i < 3000; i++) {
        probe_ref probe = probe_at(HERE + i % 2);
        cr_expect_eq(probe_note_send(i % 3 != 0 ? under(task) : task, &probe, NULL), 0);
    }
    return 0;
}

Test(cancel_queued, all_in_several_mailboxes_go_and_the_others_stay)
{
    keep_busy(HERE);
    keep_busy(THERE);
    cr_assert_eq(in_task(0, many_queued, NULL), 0);
    cr_assert_eq(holders(), 2001);
    teff_cancel_fire(cancel);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(holders(), 1);
    cr_assert_eq(teff_silo_advance(silo, 3600 * SECOND), 0);
    cr_assert_eq(seen.turns, 1000);
}

Test(cancel_queued, only_requests_of_that_source_go)
{
    teff_cancel *other = NULL;
    probe_ref probe = probe_at(HERE);
    cr_assert_eq(teff_cancel_create(silo, &other), 0);
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = other };
    keep_busy(HERE);
    cr_assert_eq(probe_note_send(under(client), &probe, &(struct ask){ .number = 1 }), 0);
    cr_assert_eq(probe_note_send(teff_with(client, &options), &probe, &(struct ask){ .number = 2 }),
                 0);
    cr_assert_eq(probe_note_send(under(client), &probe, &(struct ask){ .number = 3 }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    teff_cancel_fire(cancel);
    cr_assert_eq(teff_silo_advance(silo, 3600 * SECOND), 0);
    cr_assert_str_eq(story, "2 ");
    teff_cancel_unref(other);
}

/* --- Before a mailbox ---------------------------------------------------------------------------- */

Test(cancel_queued, case_126_a_request_on_its_way_activates_no_grain)
{
    probe_ref probe = probe_at(NEW);
    const teff_future now = probe_get_start(under(client), &probe, NULL);
    const teff_future then = probe_get_start(waiting(client), &probe, NULL);
    cr_assert_eq(probe_note_send(under(client), &probe, NULL), 0);
    teff_cancel_fire(cancel); /* all three lie in a worker's inbox */
    teff__memory_fail_at(teff__silo_memory(silo), 1);
    cr_assert_eq(probe_get_claim(client, now, NULL), TEFF_ECANCELED);
    expect_canceled(client, true);
    cr_assert_eq(probe_get_claim(client, then, NULL), TEFF_ECANCELED);
    expect_canceled(client, false);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(seen.activated + seen.turns, 0);
    cr_assert_eq(teff__silo_grain_count(silo), 2); /* HERE and THERE */
    /* not even memory was asked for */
    cr_assert_eq(teff__atomic_u64_load_relaxed(&teff__silo_memory(silo)->fail_at), 1);
    teff__memory_fail_at(teff__silo_memory(silo), 0);
}

/* The grain is made for the call, on this worker, and has not run when the source fires. */
static int fire_at_once(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    const teff_future future = probe_get_start(under(caller), &probe, NULL);
    teff_cancel_fire(cancel);
    cr_expect_eq(probe_get_claim(caller, future, NULL), TEFF_ECANCELED);
    expect_canceled(caller, false);
    return 0;
}

Test(cancel_queued, a_grain_that_was_made_for_it_is_not_activated)
{
    cr_assert_eq(in_task(0, fire_at_once, (void *)NEW), 0);
    cr_assert_eq(seen.activated + seen.turns, 0);
    cr_assert_eq(teff__silo_grain_count(silo), 2);
    cr_assert_eq(number_of(NEW), 0); /* and can be, like any */
    cr_assert_eq(seen.activated, 1);
}

static int fire_before_another(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    const teff_future first = probe_get_start(under(caller), &probe, NULL);
    const teff_future second = probe_get_start(caller, &probe, NULL);
    teff_cancel_fire(cancel);
    cr_expect_eq(probe_get_claim(caller, first, NULL), TEFF_ECANCELED);
    expect_canceled(caller, false);
    cr_expect_eq(probe_get_claim(caller, second, NULL), 0);
    return 0;
}

Test(cancel_queued, another_call_behind_it_activates_the_grain)
{
    cr_assert_eq(in_task(0, fire_before_another, (void *)NEW), 0);
    cr_assert_eq(seen.activated, 1);
    cr_assert_eq(seen.turns, 1);
}

Test(cancel_queued, one_that_arrives_later_is_answered_at_once)
{
    probe_ref probe = probe_at(THERE);
    const int64_t before_ns = teff_now_ns(client);
    keep_busy(THERE);
    const teff_future future = probe_get_start(waiting(client), &probe, NULL);
    teff_cancel_fire(cancel); /* the worker has no branch of it, and is not told */
    cr_assert_eq(probe_get_claim(client, future, NULL), TEFF_ECANCELED);
    expect_canceled(client, false);
    cr_assert_eq(teff_now_ns(client), before_ns);
}

/* The source fires after the request has made an activation, and before it is taken in. */
Test(cancel_queued, an_activation_that_it_has_just_made_goes_again)
{
    teff__catalog *catalog = teff__silo_grains(silo)->catalogs[0];
    const probe_ref probe = probe_at(NEW);
    const teff__type *type = teff__dispatch_type(catalog->grains, &probe.ref);
    const uint64_t hash = teff__key_hash(&catalog->grains->seed, type->id, &probe.ref.key);
    uint64_t address = 0;
    teff__message *message = NULL;
    cr_assert_eq(teff__postbox_take_under(&catalog->postbox, &probe_interface, 0, cancel, &message),
                 0);
    message->correlation = 0;
    cr_assert_eq(teff__activation_create(catalog, type, &probe.ref.key, hash, &address, NULL), 0);
    cr_assert_eq(teff__silo_grain_count(silo), 3);
    teff_cancel_fire(cancel);
    cr_assert_eq(teff__canceling_deliver(catalog, teff__catalog_own(catalog, address), message),
                 TEFF_ECANCELED);
    teff__postbox_drop(&catalog->postbox, message);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff__silo_grain_count(silo), 2);
    cr_assert_eq(seen.activated, 0);
}

static int rest_in_hook(teff_turn *turn, struct probe *self)
{
    (void)self;
    cr_expect_null(teff_turn_cancel(turn));
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, (void *)(uintptr_t) "never"), 0);
    return teff_sleep(turn, SECOND);
}

Test(cancel_queued, one_whose_grain_is_being_activated_is_answered_at_once)
{
    activating = rest_in_hook;
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, call_busy, (void *)NEW), 0);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_QUEUED), 1);
    cr_assert_eq(teff_silo_advance(silo, 2 * SECOND), 0);
    cr_assert_eq(seen.activated, 1); /* that had begun, and goes on */
    cr_assert_eq(seen.turns, 0);
    cr_assert_str_eq(story, "");
}

static void rest_in_end(teff_turn *turn, struct probe *self, int reason)
{
    (void)self, (void)reason;
    (void)teff_sleep(turn, SECOND);
}

Test(cancel_queued, one_that_waits_for_the_grains_next_activation_is_answered_at_once)
{
    probe_ref probe = probe_at(HERE);
    deactivating = rest_in_end;
    cr_assert_eq(probe_leave(client, &probe, NULL, NULL), 0);
    seen.turns = 0;
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, call_busy, (void *)HERE), 0);
    cr_assert_eq(teff_silo_advance(silo, 2 * SECOND), 0);
    cr_assert_eq(seen.activated, 0); /* there was no mail left for which it would come again */
    cr_assert_eq(seen.deactivated, 1);
}

Test(cancel_queued, one_that_is_to_be_forwarded_goes_no_further)
{
    /* A client's goes to the worker of the hash first; of many grains on worker 1, some are not. */
    for (uint64_t key = NEW; key < NEW + 20; key++)
        cr_assert_eq(in_task(1, settle_probe, (void *)(uintptr_t)key), 0);
    seen.turns = 0;
    teff_future futures[20];
    for (uint64_t i = 0; i < 20; i++) {
        probe_ref probe = probe_at(NEW + i);
        futures[i] = probe_get_start(waiting(client), &probe, NULL);
    }
    teff_cancel_fire(cancel);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(probe_get_claim(client, futures[i], NULL), TEFF_ECANCELED);
        expect_canceled(client, false);
    }
    cr_assert_eq(seen.turns, 0);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_QUEUED), 20);
}

/* --- Without memory ------------------------------------------------------------------------------ */

Test(cancel_queued, without_memory_for_the_branch_it_is_answered_when_its_turn_comes)
{
    probe_ref probe = probe_at(THERE);
    const int64_t before_ns = teff_now_ns(client);
    keep_busy(THERE);
    const teff_future future =
        probe_get_start(teff_within(waiting(client), 7200 * SECOND), &probe, NULL);
    teff__memory_fail_at(teff__silo_memory(silo), 1); /* the branch of the callee's worker */
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff__atomic_u64_load_relaxed(&teff__silo_memory(silo)->fail_at), 0);
    teff_cancel_fire(cancel);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(holders(), 2);
    cr_assert_eq(probe_get_claim(client, future, NULL), TEFF_ECANCELED);
    expect_canceled(client, false);
    cr_assert_eq(teff_now_ns(client) - before_ns, 3600 * SECOND);
    cr_assert_eq(seen.turns, 0);
}

/* --- Stop ---------------------------------------------------------------------------------------- */

Test(cancel_stop, stop_refuses_what_is_queued_and_it_leaves_its_source)
{
    begin_canceling_with((teff_silo_options){ .stop_timeout_ns = SECOND });
    keep_busy(HERE);
    probe_ref probe = probe_at(HERE);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(probe_note_send(under(client), &probe, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(holders(), 11);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_null(teff_cancel_unref(cancel));
    cr_assert_null(teff_silo_destroy(silo));
}
