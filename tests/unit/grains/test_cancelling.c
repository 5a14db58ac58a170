/* SPDX-License-Identifier: MIT */
/* Calls under a source of cancellation. */
#include "fixture.h"

#include "messaging/cancel.h"
#include "runtime/thread.h"

static teff_cancel *cancel;

static void begin_under(void)
{
    begin_with((teff_silo_options){ .workers = 2 });
    teff_assert(teff_cancel_create(silo, &cancel) == 0);
}

static void end_under(void)
{
    teff_assert(teff_cancel_unref(cancel) == NULL);
    end();
}

TestSuite(cancelling, .init = begin_under, .fini = end_under);

/* The caller, whose next call stands under the source. */
static teff_caller *under(teff_caller *caller)
{
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = cancel };
    return teff_with(caller, &options);
}

static uint32_t holders(const teff_cancel *source)
{
    return teff__atomic_u32_load_relaxed(&source->count);
}

/* Once all that it was told has been done. */
static uint32_t holders_at_rest(const teff_cancel *source)
{
    teff_assert(teff_silo_run(silo) == 0);
    return holders(source);
}

static const struct ask an_hour = { .number = 3600 * SECOND };

static void expect_canceled(const teff_caller *caller, bool may_have_run)
{
    const teff_outcome *outcome = teff_outcome_last(caller);
    cr_expect_eq(outcome->code, TEFF_ECANCELED);
    cr_expect_eq(outcome->may_have_run, may_have_run);
    cr_expect_str_eq(outcome->text,
                     "cancelled by its caller: the outcome says whether the call may have run");
}

/* --- Fired before -------------------------------------------------------------------------------- */

static void never(teff_caller *caller, void *user, const teff_outcome *outcome,
                  const struct told *ret)
{
    (void)caller, (void)user, (void)outcome, (void)ret;
    cr_expect_fail("never called");
}

static int call_after(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    struct told told = { .number = 4711 };
    (void)user;
    cr_expect_eq(probe_get(under(caller), &probe, NULL, &told), TEFF_ECANCELED);
    expect_canceled(caller, false);
    cr_expect_eq(told.number, 4711);
    const teff_future future = probe_get_start(under(caller), &probe, NULL);
    expect_canceled(caller, false);
    cr_expect_eq(probe_get_claim(caller, future, &told), TEFF_ECANCELED);
    expect_canceled(caller, false);
    cr_expect_eq(probe_get_then(under(caller), &probe, NULL, never, NULL), TEFF_ECANCELED);
    expect_canceled(caller, false);
    cr_expect_eq(probe_note_send(under(caller), &probe, NULL), TEFF_ECANCELED);
    expect_canceled(caller, false);
    cr_expect_eq(probe_note(under(caller), &probe, NULL, NULL), TEFF_ECANCELED);
    expect_canceled(caller, false);
    return 0;
}

static int call_after_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                              struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    return call_after(turn, NULL);
}

Test(cancelling, after_it_has_fired_nothing_is_sent_and_no_grain_activated)
{
    teff_cancel_fire(cancel);
    call_after(client, NULL);
    cr_assert_eq(in_task(0, call_after, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff__silo_grain_count(silo), 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(seen.turns, 0);
    probe_ref other = probe_at(2);
    acting = call_after_in_turn;
    cr_assert_eq(probe_act(client, &other, NULL, NULL), 0);
    cr_assert_eq(seen.turns, 1);
    cr_assert_eq(holders(cancel), 1);
    cr_assert_eq(number_of(1), 0); /* and a call without the source goes on as always */
}

/* --- Fired meanwhile ----------------------------------------------------------------------------- */

/* The source fires from a task of that worker after so many nanoseconds. */
static int64_t fire_after_ns = MS;

static int fire(teff_task *task, void *user)
{
    (void)user;
    cr_expect_eq(teff_sleep(task, fire_after_ns), 0);
    teff_cancel_fire(cancel);
    teff_cancel_fire(cancel); /* a second time does nothing */
    return 0;
}

static int await_one(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    struct told told = { .number = 4711 };
    const int64_t before_ns = teff_now_ns(caller);
    cr_expect_eq(probe_rest(under(caller), &probe, &an_hour, &told), TEFF_ECANCELED);
    expect_canceled(caller, true);
    cr_expect_eq(told.number, 4711);
    cr_expect_eq(teff_now_ns(caller) - before_ns, MS);
    return 0;
}

static int await_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                         struct told *ret)
{
    (void)self, (void)ret;
    return await_one(turn, (void *)(uintptr_t)arg->number);
}

Test(cancelling, a_clients_awaited_call_ends_when_it_fires)
{
    spawn(0, fire, NULL);
    await_one(client, (void *)1);
    cr_assert_eq(seen.turns, 1);
    cr_assert_eq(holders_at_rest(cancel), 1); /* the turn was told, and has ended */
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

Test(cancelling, a_tasks_awaited_call_ends_when_it_fires_on_another_worker)
{
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, await_one, (void *)1), 0);
    cr_assert_eq(holders(cancel), 1);
}

Test(cancelling, a_turns_awaited_call_ends_when_it_fires_on_its_own_worker)
{
    probe_ref probe = probe_at(2);
    acting = await_in_turn;
    cr_assert_eq(number_of(2), 0);
    spawn(0, fire, NULL);
    spawn(1, fire, NULL); /* whichever of the two is its worker */
    cr_assert_eq(probe_act(client, &probe, &(struct ask){ .number = 1 }, NULL), 0);
    cr_assert_eq(holders(cancel), 1);
}

static int start_many(teff_caller *caller, void *user)
{
    teff_future futures[10];
    (void)user;
    for (uint64_t i = 0; i < 10; i++) {
        probe_ref probe = probe_at(i);
        futures[i] = probe_rest_start(under(caller), &probe, &an_hour);
    }
    cr_expect_eq(teff_await_all(caller, futures, 10), 0);
    for (int i = 0; i < 10; i++) {
        cr_expect_eq(probe_rest_claim(caller, futures[i], NULL), TEFF_ECANCELED);
        expect_canceled(caller, true);
    }
    return 0;
}

Test(cancelling, all_futures_under_it_end_at_once)
{
    spawn(1, fire, NULL);
    const int64_t before_ns = teff_now_ns(client);
    start_many(client, NULL);
    cr_assert_eq(teff_now_ns(client) - before_ns, MS);
    cr_assert_eq(holders_at_rest(cancel), 1);
    cr_assert_eq(seen.turns, 10);
}

Test(cancelling, a_tasks_futures_under_it_end_at_once)
{
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, start_many, NULL), 0);
    cr_assert_eq(holders(cancel), 1);
}

static int ended;

static void ends_canceled(teff_caller *caller, void *user, const teff_outcome *outcome,
                          const struct told *ret)
{
    cr_expect_not_null(caller);
    cr_expect_eq(user, &ended);
    cr_expect_eq(outcome->code, TEFF_ECANCELED);
    cr_expect(outcome->may_have_run);
    cr_expect_null(ret);
    ended++;
}

static int then_many(teff_caller *caller, void *user)
{
    (void)user;
    for (uint64_t i = 0; i < 10; i++) {
        probe_ref probe = probe_at(i);
        cr_expect_eq(probe_rest_then(under(caller), &probe, &an_hour, ends_canceled, &ended), 0);
    }
    cr_expect_eq(ended, 0);
    return teff_sleep(caller, SECOND);
}

Test(cancelling, completions_hear_of_it_once_and_not_inside_fire)
{
    for (uint64_t i = 0; i < 10; i++) {
        probe_ref probe = probe_at(i);
        cr_assert_eq(probe_rest_then(under(client), &probe, &an_hour, ends_canceled, &ended), 0);
    }
    teff_cancel_fire(cancel);
    cr_assert_eq(ended, 0);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_eq(ended, 10);
    cr_assert_eq(holders_at_rest(cancel), 1);
}

Test(cancelling, a_tasks_completions_hear_of_it_once)
{
    spawn(1, fire, NULL);
    cr_assert_eq(in_task(0, then_many, NULL), 0);
    cr_assert_eq(ended, 10);
}

static int then_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                        struct told *ret)
{
    probe_ref probe = probe_at(2);
    (void)self, (void)arg, (void)ret;
    return probe_rest_then(under(turn), &probe, &an_hour, ends_canceled, &ended);
}

static void fire_from_completion(teff_caller *caller, void *user, const teff_outcome *outcome,
                                 const struct told *ret)
{
    (void)caller, (void)user, (void)outcome, (void)ret;
    teff_cancel_fire(cancel);
    cr_expect_eq(ended, 0);
}

Test(cancelling, a_turns_completion_hears_of_it_when_a_completion_fires)
{
    probe_ref probe = probe_at(1), other = probe_at(3);
    acting = then_in_turn;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    cr_assert_eq(probe_get_then(client, &other, NULL, fire_from_completion, NULL), 0);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(ended, 1);
    cr_assert_eq(holders(cancel), 1);
}

static int fire_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                        struct told *ret)
{
    probe_ref probe = probe_at(2);
    (void)self, (void)arg, (void)ret;
    const teff_future future = probe_rest_start(under(turn), &probe, &an_hour);
    teff_cancel_fire(cancel);
    cr_expect_eq(probe_rest_claim(turn, future, NULL), TEFF_ECANCELED);
    return 0;
}

Test(cancelling, a_turn_may_fire_what_its_own_calls_stand_under)
{
    probe_ref probe = probe_at(1);
    acting = fire_in_turn;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    cr_assert_eq(holders_at_rest(cancel), 1);
}

static void fire_elsewhere(void *unused)
{
    (void)unused;
    teff_cancel_fire(cancel);
}

Test(cancelling, another_thread_may_fire_it)
{
    teff__thread thread;
    probe_ref probe = probe_at(1);
    const teff_future future = probe_rest_start(under(client), &probe, &an_hour);
    cr_assert_eq(teff__thread_start(&thread, fire_elsewhere, NULL, "elsewhere"), 0);
    teff__thread_join(&thread);
    cr_assert_eq(probe_rest_claim(client, future, NULL), TEFF_ECANCELED);
}

Test(cancelling, an_answer_that_came_first_counts)
{
    probe_ref probe = probe_at(1);
    struct told told = { .number = 4711 };
    const teff_future future = probe_get_start(under(client), &probe, NULL);
    cr_assert_eq(teff_silo_run(silo), 0); /* answered, and not taken yet */
    teff_cancel_fire(cancel);
    cr_assert_eq(probe_get_claim(client, future, &told), 0);
    cr_assert_eq(told.number, 0);
    cr_assert_eq(holders_at_rest(cancel), 1);
}

Test(cancelling, firing_after_the_end_changes_nothing)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_get(under(client), &probe, NULL, NULL), 0);
    const teff_future future = probe_get_start(under(client), &probe, NULL);
    cr_assert_eq(teff_await_all(client, &future, 1), 0);
    cr_assert_eq(holders(cancel), 1);
    teff_cancel_fire(cancel);
    cr_assert_eq(probe_get_claim(client, future, NULL), 0);
    cr_assert_eq(number_of(1), 0);
}

Test(cancelling, it_ends_the_calls_under_it_and_no_others)
{
    teff_cancel *other = NULL;
    probe_ref probe = probe_at(1);
    const struct ask second = { .number = SECOND };
    cr_assert_eq(teff_cancel_create(silo, &other), 0);
    const teff_call_options others = { .struct_size = sizeof(others), .cancel = other };
    const teff_future mine = probe_rest_start(under(client), &probe, &second);
    const teff_future theirs = probe_get_start(teff_with(client, &others), &probe, NULL);
    const teff_future free = probe_get_start(client, &probe, NULL);
    teff_cancel_fire(cancel);
    cr_assert_eq(probe_rest_claim(client, mine, NULL), TEFF_ECANCELED);
    cr_assert_eq(probe_get_claim(client, theirs, NULL), 0);
    cr_assert_eq(probe_get_claim(client, free, NULL), 0);
    cr_assert_eq(holders(other), 1);
    teff_cancel_unref(other);
}

/* --- Options ------------------------------------------------------------------------------------- */

Test(cancelling, another_timeout_leaves_the_source)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_rest(teff_within(under(client), 5 * MS), &probe, &an_hour, NULL),
                 TEFF_ETIMEDOUT);
    cr_assert_eq(holders(cancel), 2); /* the call that timed out has left it, the turn has not */
    spawn(0, fire, NULL);
    cr_assert_eq(probe_rest(teff_within(under(client), SECOND), &probe, &an_hour, NULL),
                 TEFF_ECANCELED);
    cr_assert_eq(holders_at_rest(cancel), 1);
}

Test(cancelling, it_holds_for_the_next_call_only)
{
    probe_ref probe = probe_at(1);
    const struct ask rest = { .number = 2 * MS };
    spawn(0, fire, NULL);
    cr_assert_eq(probe_get(under(client), &probe, NULL, NULL), 0);
    cr_assert_eq(probe_rest(client, &probe, &rest, NULL), 0);
}

Test(cancelling, another_silos_source_is_refused)
{
    teff_silo *other = NULL;
    teff_cancel *foreign = NULL;
    probe_ref probe = probe_at(1);
    cr_assert_eq(teff_silo_create(NULL, &other), 0);
    cr_assert_eq(teff_cancel_create(other, &foreign), 0);
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = foreign };
    cr_assert_eq(probe_get(teff_with(client, &options), &probe, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(probe_note_send(teff_with(client, &options), &probe, NULL), TEFF_EINVAL);
    cr_assert_eq(probe_get_then(teff_with(client, &options), &probe, NULL, never, NULL),
                 TEFF_EINVAL);
    teff_cancel_fire(foreign); /* also where it has fired */
    cr_assert_eq(probe_get(teff_with(client, &options), &probe, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(seen.turns, 0);
    teff_cancel_unref(foreign);
    cr_assert_null(teff_silo_destroy(other));
}

Test(cancelling, calls_that_cannot_be_sent_leave_nothing_in_it)
{
    static const teff_name none = { "no such type" };
    probe_ref nobody = probe_of(&none, teff_key_u64(1));
    cr_assert_eq(probe_get(under(client), &nobody, NULL, NULL), TEFF_EINVAL);
    const teff_future future = probe_get_start(under(client), &nobody, NULL);
    cr_assert_eq(probe_get_claim(client, future, NULL), TEFF_EINVAL);
    cr_assert_eq(probe_get_then(under(client), &nobody, NULL, never, NULL), TEFF_EINVAL);
    cr_assert_eq(holders(cancel), 1);
    teff_cancel_fire(cancel);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

static int cannot_be_sent(teff_task *task, void *user)
{
    static const teff_name none = { "no such type" };
    probe_ref nobody = probe_of(&none, teff_key_u64(1));
    (void)user;
    cr_expect_eq(probe_get(under(task), &nobody, NULL, NULL), TEFF_EINVAL);
    const teff_future future = probe_get_start(under(task), &nobody, NULL);
    cr_expect_eq(probe_get_claim(task, future, NULL), TEFF_EINVAL);
    cr_expect_eq(probe_get_then(under(task), &nobody, NULL, never, NULL), TEFF_EINVAL);
    cr_expect_eq(holders(cancel), 1);
    return 0;
}

Test(cancelling, a_tasks_calls_that_cannot_be_sent_leave_nothing_in_it)
{
    cr_assert_eq(in_task(0, cannot_be_sent, NULL), 0);
}

/* --- Its life ------------------------------------------------------------------------------------ */

Test(cancelling, a_million_finished_calls_leave_nothing)
{
    probe_ref probe = probe_at(1);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(probe_get(under(client), &probe, NULL, NULL), 0);
    const uint64_t before = bytes_allocated();
    for (int i = 0; i < 1000000; i++)
        (void)probe_get(under(client), &probe, NULL, NULL);
    cr_assert_eq(bytes_allocated(), before);
    cr_assert_eq(seen.turns, 1000100);
    cr_assert_eq(holders(cancel), 1);
}

Test(cancelling, calls_go_on_without_their_source)
{
    teff_cancel *brief = NULL;
    probe_ref probe = probe_at(1);
    const struct ask second = { .number = SECOND };
    cr_assert_eq(teff_cancel_create(silo, &brief), 0);
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = brief };
    const teff_future future = probe_rest_start(teff_with(client, &options), &probe, &second);
    cr_assert_null(teff_cancel_unref(brief));
    cr_assert_eq(probe_rest_claim(client, future, NULL), 0);
    /* end_under sees that nothing of it is left */
}

Test(cancelling, a_fired_source_may_be_given_back_at_once)
{
    probe_ref probe = probe_at(1);
    const teff_future future = probe_rest_start(under(client), &probe, &an_hour);
    teff_cancel_fire(cancel);
    cr_assert_null(teff_cancel_unref(cancel));
    cancel = NULL;
    cr_assert_eq(probe_rest_claim(client, future, NULL), TEFF_ECANCELED);
}

Test(cancelling, a_client_that_goes_ends_its_calls_and_leaves_the_source)
{
    teff_client *other = NULL;
    probe_ref probe = probe_at(1);
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    (void)probe_rest_start(under(other), &probe, &an_hour);
    cr_assert_eq(probe_rest_then(under(other), &probe, &an_hour, ends_canceled, &ended), 0);
    cr_assert_null(teff_client_destroy(other));
    cr_assert_eq(ended, 1);
    cr_assert_eq(holders_at_rest(cancel), 3); /* what it sent, running and queued, is there still */
    teff_cancel_fire(cancel);
    cr_assert_eq(holders_at_rest(cancel), 1);
    cr_assert_eq(seen.turns, 1);
}

static int leave_open(teff_task *task, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    (void)probe_rest_start(under(task), &probe, &an_hour);
    return 0;
}

Test(cancelling, a_task_that_ends_leaves_the_source)
{
    cr_assert_eq(in_task(0, leave_open, (void *)1), 0);
    cr_assert_eq(in_task(1, leave_open, (void *)1), 0);
    cr_assert_eq(holders(cancel), 3); /* their requests, one running and one queued */
    teff_cancel_fire(cancel);
    cr_assert_eq(holders(cancel),
                 5); /* and two messages, one to a worker that has nothing to end */
    cr_assert_eq(holders_at_rest(cancel), 1);
    cr_assert_eq(seen.turns, 1);
}

static int outlive_stop(teff_task *task, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    cr_expect_eq(probe_rest(under(task), &probe, &an_hour, NULL), TEFF_ETIMEDOUT);
    return 0;
}

Test(cancelling_left, fired_after_stop_it_is_given_back_and_the_silo_destroyed)
{
    begin_under();
    cr_assert_eq(in_task(0, leave_open, (void *)1), 0);
    cr_assert_eq(in_task(1, outlive_stop, (void *)2), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_null(teff_client_destroy(client));
    teff_cancel_fire(cancel);
    cr_assert_null(teff_cancel_unref(cancel));
    cr_assert_null(teff_silo_destroy(silo));
}

Test(cancelling_left, while_it_is_left_the_silo_is_not_destroyed_and_fired_then_it_does_no_harm)
{
    begin_under();
    cr_assert_eq(in_task(0, leave_open, (void *)1), 0);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(teff_silo_destroy(silo), silo);
    teff_cancel_fire(cancel);
    cr_assert_eq(teff_silo_destroy(silo), silo);
    cr_assert_null(teff_cancel_unref(cancel));
    cr_assert_null(teff_silo_destroy(silo));
}

Test(cancelling_left, stop_ends_the_calls_under_it)
{
    begin_under();
    probe_ref probe = probe_at(1);
    struct told told;
    spawn(0, leave_open, (void *)3);
    const teff_future future = probe_rest_start(under(client), &probe, &an_hour);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(probe_rest_claim(client, future, &told), 0); /* the turn was woken and answered */
    cr_assert_eq(told.number, TEFF_EUNAVAILABLE);
    cr_assert_eq(holders(cancel), 1);
    cr_assert_eq(probe_get(under(client), &probe, NULL, NULL), TEFF_EUNAVAILABLE);
    teff_cancel_fire(cancel);
    cr_assert_eq(probe_get(under(client), &probe, NULL, NULL), TEFF_ECANCELED);
    end_under();
}
