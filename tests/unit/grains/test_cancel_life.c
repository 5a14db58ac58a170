/* SPDX-License-Identifier: MIT */
/* What a source leaves behind: nothing; how its calls are counted; and observers under one. */
#include "observing.h"

#include "under_source.h"

TestSuite(cancel_life, .init = begin_canceling, .fini = end_canceling);

/* --- How they end -------------------------------------------------------------------------------- */

static int end_in_each_way(teff_task *task, void *user)
{
    probe_ref here = probe_at(HERE), there = probe_at(THERE);
    (void)user;
    const teff_future running = probe_rest_start(under(task), &there, &an_hour);
    const teff_future queued = probe_get_start(under(task), &here, NULL);
    cr_expect_eq(teff_sleep(task, MS), 0);
    teff_cancel_fire(cancel);
    cr_expect_eq(probe_rest_claim(task, running, NULL), TEFF_ECANCELED);
    expect_canceled(task, true);
    cr_expect_eq(probe_get_claim(task, queued, NULL), TEFF_ECANCELED);
    expect_canceled(task, false);
    cr_expect_eq(probe_get(under(task), &here, NULL, NULL), TEFF_ECANCELED);
    expect_canceled(task, false);
    return 0;
}

Test(cancel_life, each_way_to_be_cancelled_is_counted_once)
{
    keep_busy(HERE);
    const teff_counts before = silo_counts();
    cr_assert_eq(in_task(0, end_in_each_way, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    const teff_counts after = silo_counts();
    cr_assert_eq(after.ended[TEFF_END_CANCELED_UNSENT], 1);
    cr_assert_eq(after.ended[TEFF_END_CANCELED_QUEUED], 1);
    cr_assert_eq(after.ended[TEFF_END_CANCELED_RUNNING], 1);
    cr_assert_eq(after.open, before.open);
    cr_assert_eq(after.late, 1); /* of the turn that was told */
}

/* Case 7: the callback is there once, ends once, and leaves once. */
Test(cancel_life, case_7_under_a_source_that_has_fired_a_call_ends_once)
{
    probe_ref probe = probe_at(HERE);
    const teff_counts before = silo_counts();
    teff_cancel_fire(cancel);
    const teff_future future = probe_get_start(under(client), &probe, NULL);
    cr_assert_eq(probe_get_claim(client, future, NULL), TEFF_ECANCELED);
    const teff_counts after = silo_counts();
    cr_assert_eq(after.ended[TEFF_END_CANCELED_UNSENT], 1);
    cr_assert_eq(after.opened - before.opened, 1);
    cr_assert_eq(after.open, 0);
    cr_assert_eq(holders(), 1);
    cr_assert_eq(seen.turns, 0);
}

/* --- What they leave ----------------------------------------------------------------------------- */

enum { EACH_FORM = 125000 };

static int completed;

static void complete(teff_caller *caller, void *user, const teff_outcome *outcome,
                     const struct told *ret)
{
    (void)caller, (void)user, (void)ret;
    cr_expect_eq(outcome->code, 0);
    completed++;
}

static void each_form_often(teff_caller *caller, uint64_t key, int times)
{
    probe_ref probe = probe_at(key);
    for (int i = 0; i < times; i++) {
        cr_expect_eq(probe_get(i % 2 == 0 ? under(caller) : waiting(caller), &probe, NULL, NULL),
                     0);
        const teff_future future = probe_get_start(under(caller), &probe, NULL);
        cr_expect_eq(probe_get_then(under(caller), &probe, NULL, complete, NULL), 0);
        cr_expect_eq(probe_get_send(under(caller), &probe, NULL), 0);
        cr_expect_eq(probe_get_claim(caller, future, NULL), 0);
    }
}

static int a_million(teff_task *task, void *user)
{
    (void)user;
    for (uint64_t key = HERE; key <= THERE; key++) {
        each_form_often(task, key, 100);
        cr_expect_eq(teff_sleep(task, MS), 0);
        const uint64_t before = bytes_allocated();
        each_form_often(task, key, EACH_FORM);
        cr_expect_eq(teff_sleep(task, MS), 0);
        cr_expect_eq(bytes_allocated(), before);
        cr_expect_eq(holders(), 1);
    }
    return 0;
}

Test(cancel_life, a_million_finished_calls_of_all_forms_leave_nothing)
{
    cr_assert_eq(in_task(0, a_million, NULL), 0);
    cr_assert_eq(seen.turns, 8 * (EACH_FORM + 100));
    cr_assert_eq(completed, 2 * (EACH_FORM + 100));
}

static int cancel_a_round(teff_task *task, void *user)
{
    probe_ref here = probe_at(HERE), there = probe_at(THERE);
    teff_cancel *each = NULL;
    (void)user;
    cr_expect_eq(teff_cancel_create(silo, &each), 0);
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = each };
    teff_future futures[4];
    for (int i = 0; i < 4; i++)
        futures[i] =
            probe_rest_start(teff_with(task, &options), i % 2 == 0 ? &here : &there, &an_hour);
    cr_expect_eq(teff_sleep(task, MS), 0);
    teff_cancel_fire(each);
    teff_cancel_unref(each);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(probe_rest_claim(task, futures[i], NULL), TEFF_ECANCELED);
    return teff_sleep(task, MS);
}

Test(cancel_life, sources_that_have_fired_leave_nothing)
{
    cr_assert_eq(in_task(0, cancel_a_round, NULL), 0);
    const uint64_t before = bytes_allocated();
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(in_task(0, cancel_a_round, NULL), 0);
    cr_assert_eq(bytes_allocated(), before);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_QUEUED) + ended_as(TEFF_END_CANCELED_RUNNING), 4004);
}

/* --- Observers ----------------------------------------------------------------------------------- */

static void begin_observing(void)
{
    begin_canceling();
    teff_assert(teff_observer_begin(client, &ear_handlers, &ear, &ear.ref) == 0);
}

static void end_observing(void)
{
    teff_assert(teff_observer_end(client, &ear.ref) == 0);
    end_canceling();
}

TestSuite(cancel_observer, .init = begin_observing, .fini = end_observing);

/* The first call runs when the client looks at its mail; by then the source has fired, or not. */
static int call_observer(teff_task *task, void *user)
{
    ear_ref to = the_ear();
    struct line told = { .number = -1 };
    (void)user;
    cr_expect_eq(ear_hear(waiting(task), &to, &(struct line){ .number = 1 }, &told),
                 TEFF_ECANCELED);
    expect_canceled(task, false);
    cr_expect_eq(told.number, -1);
    return 0;
}

static int spawn_call(teff_turn *turn, struct ear *self, const struct line *arg, struct line *ret)
{
    (void)turn, (void)self, (void)arg, (void)ret;
    teff_cancel_fire(cancel);
    return 0;
}

/* A handler that runs fires the source under which another request waits behind it. */
Test(cancel_observer, a_request_that_waits_for_an_observer_is_answered_and_does_not_run)
{
    ear_ref to = the_ear();
    teff_future future = { 0 };
    int result = -1;
    observing = spawn_call;
    cr_assert_eq(ear_act_send(client, &to, &(struct line){ .number = 7 }), 0);
    cr_assert_eq(teff_silo_spawn(silo, 0, call_observer, NULL, client, &future), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(holders(), 2);
    cr_assert_eq(teff_task_claim(client, future, &result), 0);
    cr_assert_eq(result, 0);
    cr_assert_str_eq(ear.heard, "7 ");
    cr_assert_eq(holders(), 1);
    cr_assert_eq(ended_as(TEFF_END_CANCELED_QUEUED), 1);
}

Test(cancel_observer, a_request_that_lies_in_the_mail_does_not_run)
{
    teff_future future = { 0 };
    int result = -1;
    cr_assert_eq(teff_silo_spawn(silo, 0, call_observer, NULL, client, &future), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    teff_cancel_fire(cancel);
    cr_assert_eq(teff_task_claim(client, future, &result), 0);
    cr_assert_eq(result, 0);
    cr_assert_str_eq(ear.heard, "");
}

static teff_future busy_one;

/* Inside a handler the client takes mail, and serves none: there requests wait in its queue. */
static int fire_behind_mail(teff_turn *turn, struct ear *self, const struct line *arg,
                            struct line *ret)
{
    (void)turn, (void)self, (void)arg, (void)ret;
    cr_expect_eq(teff_silo_run(silo), 0);
    teff__client_take((teff__client *)(void *)client);
    cr_expect_eq(holders(), 3); /* two requests, taken */
    teff_cancel_fire(cancel);
    teff__client_take((teff__client *)(void *)client);
    cr_expect_eq(holders(), 1);
    return 0;
}

Test(cancel_observer, requests_that_were_taken_are_answered_when_it_fires)
{
    ear_ref to = the_ear();
    int result = -1;
    observing = fire_behind_mail;
    cr_assert_eq(ear_act_send(client, &to, &(struct line){ .number = 7 }), 0);
    cr_assert_eq(teff_silo_spawn(silo, 0, call_observer, NULL, client, &busy_one), 0);
    cr_assert_eq(ear_mute_send(under(client), &to, &(struct line){ .number = 8 }), 0);
    cr_assert_eq(ear_mute_send(client, &to, &(struct line){ .number = 9 }), 0);
    cr_assert_eq(teff_task_claim(client, busy_one, &result), 0);
    cr_assert_eq(result, 0);
    cr_assert_str_eq(ear.heard, "7 9 ");
}

static int look_at_token(teff_turn *turn, struct ear *self, const struct line *arg,
                         struct line *ret)
{
    (void)self, (void)arg;
    cr_expect_eq(teff_turn_cancel(turn), cancel);
    cr_expect_not(teff_cancel_fired(teff_turn_cancel(turn)));
    teff_cancel_fire(cancel);
    cr_expect(teff_cancel_fired(teff_turn_cancel(turn)));
    cr_expect_eq(teff_turn_on_cancel(turn, tell_of, NULL), TEFF_EINVALIDSTATE);
    ret->number = 77;
    return 0;
}

static int call_look(teff_task *task, void *user)
{
    ear_ref to = the_ear();
    struct line told = { .number = -1 };
    (void)user;
    cr_expect_eq(ear_act(waiting(task), &to, &(struct line){ .number = 1 }, &told), 0);
    cr_expect_eq(told.number, 77);
    return 0;
}

Test(cancel_observer, a_handler_sees_the_source_and_answers_who_waits_for_it)
{
    observing = look_at_token;
    cr_assert_eq(in_task(0, call_look, NULL), 0);
    cr_assert_eq(holders(), 1);
    cr_assert_eq(ear.calls, 1);
}

static int call_fails(teff_task *task, void *user)
{
    ear_ref to = the_ear();
    (void)user;
    cr_expect_eq(ear_hear(under(task), &to, &(struct line){ .number = -5, .text = "you" }, NULL),
                 5);
    cr_expect_str_eq(teff_outcome_last(task)->text, "deaf to you");
    return 0;
}

Test(cancel_observer, a_failure_of_one_has_its_text)
{
    cr_assert_eq(in_task(0, call_fails, NULL), 0);
    cr_assert_eq(holders(), 1);
}
