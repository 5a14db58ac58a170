/* SPDX-License-Identifier: MIT */
/*
 * Each way that a call ends: its status, whether it may have run, and the one counter that it is
 * counted by. Cancellation of what is queued or has a turn: test_cancelling.c.
 */
#include "grains/observer.h"

#include "calls.h"

static void begin_small(void)
{
    begin_with((teff_silo_options){ .workers = 2,
                                    .mailbox_max = 2,
                                    .response_timeout_ns = SECOND,
                                    .stuck_ns = 20 * SECOND,
                                    .idle_ns = INT64_MAX,
                                    .stop_timeout_ns = 100 * MS });
}

TestSuite(ends, .init = begin_small, .fini = end);

/* A type that has another interface than its caller thinks. */
#define OTHER_METHODS(METHOD, SELF) METHOD(SELF, nothing, teff_none, teff_none, 0)
TEFF_INTERFACE(other, OTHER_METHODS);
TEFF_INTERFACE_DEFINE(other, OTHER_METHODS);

static uint64_t key = 1000;
static teff_cancel *source;
static teff_outcome outcome; /* of the call that is looked at */

static int note(teff_caller *caller, int r)
{
    outcome = *teff_outcome_last(caller);
    cr_expect_eq(outcome.code, r);
    return r;
}

static int get(teff_caller *caller, uint64_t of)
{
    probe_ref probe = probe_at(of);
    return note(caller, probe_get(caller, &probe, NULL, NULL));
}

static int rest(teff_caller *caller, uint64_t of, int64_t rest_ns)
{
    probe_ref probe = probe_at(of);
    return note(caller, probe_rest(caller, &probe, &(struct ask){ .number = rest_ns }, NULL));
}

static int answer(teff_caller *caller, void *user)
{
    (void)user;
    return get(caller, key++);
}

static int fail_with(teff_caller *caller, int code)
{
    probe_ref probe = probe_at(key++);
    return note(caller, probe_fail(caller, &probe, &(struct ask){ .number = code }, NULL));
}

static int fail_positive(teff_caller *caller, void *user)
{
    (void)user;
    return fail_with(caller, 7);
}

static int fail_negative(teff_caller *caller, void *user)
{
    (void)user;
    return fail_with(caller, TEFF_EUNAVAILABLE);
}

static int deactivate_at_once(teff_turn *turn, struct probe *self)
{
    (void)self;
    return teff_turn_deactivate(turn);
}

static int forward_for_ever(teff_caller *caller, void *user)
{
    (void)user;
    activating = deactivate_at_once;
    const int r = get(caller, key++);
    activating = NULL;
    return r;
}

static int overflow(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(key);
    (void)user;
    cr_expect_eq(probe_rest_send(caller, &probe, &(struct ask){ .number = 10 * MS }), 0);
    cr_expect_eq(teff_sleep(caller, MS), 0); /* it runs */
    cr_expect_eq(probe_note_send(caller, &probe, NULL), 0);
    cr_expect_eq(probe_note_send(caller, &probe, NULL), 0);
    return get(caller, key++);
}

static int name_no_type(teff_caller *caller, void *user)
{
    probe_ref nowhere = probe_of(&(teff_name){ "nobody" }, teff_key_u64(1));
    (void)user;
    return note(caller, probe_get(caller, &nowhere, NULL, NULL));
}

static int ask_for_another_interface(teff_caller *caller, void *user)
{
    other_ref probe = other_of(&probe_grain.name, teff_key_u64(key++));
    (void)user;
    return note(caller, other_nothing(caller, &probe, NULL, NULL));
}

static int time_out(teff_caller *caller, void *user)
{
    (void)user;
    return rest(caller, key++, 3 * SECOND);
}

static int expire_in_mailbox(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(key);
    (void)user;
    cr_expect_eq(probe_rest_send(caller, &probe, &(struct ask){ .number = 2 * SECOND }), 0);
    return get(caller, key++);
}

static int fire_before(teff_caller *caller, void *user)
{
    (void)user;
    cr_expect_eq(teff_cancel_create(silo, &source), 0);
    const teff_call_options under = { .struct_size = sizeof(under), .cancel = source };
    teff_cancel_fire(source);
    const int r = get(teff_with(caller, &under), key++);
    source = teff_cancel_unref(source);
    return r;
}

static int fire_soon(teff_task *task, void *user)
{
    (void)user;
    cr_expect_eq(teff_sleep(task, 100 * MS), 0);
    teff_cancel_fire(source);
    source = teff_cancel_unref(source);
    return 0;
}

static int fire_while_it_runs(teff_caller *caller, void *user)
{
    (void)user;
    cr_expect_eq(teff_cancel_create(silo, &source), 0);
    const teff_call_options under = { .struct_size = sizeof(under), .cancel = source };
    cr_expect_eq(teff_silo_spawn(silo, 1, fire_soon, NULL, NULL, NULL), 0);
    return rest(teff_with(caller, &under), key++, 500 * MS);
}

static struct probe ear;

static int call_an_ended_observer(teff_caller *caller, void *user)
{
    (void)user;
    probe_ref probe = *(const probe_ref *)user;
    return note(caller, probe_get(caller, &probe, NULL, NULL));
}

static int wait_for_nothing(teff_caller *caller, void *user)
{
    (void)user;
    return rest(teff_within(caller, INT64_MAX), key++, INT64_MAX);
}

static int get_stuck(teff_caller *caller, void *user)
{
    (void)user;
    return rest(teff_within(caller, 60 * SECOND), key++, 50 * SECOND);
}

enum { CLIENT = 1, TASK = 2, TURN = 4, ALL = 7 };

static const struct row {
    const char *name;
    body_of_caller *body;
    teff_end end;
    int code;
    bool may_have_run;
    int callers;
} rows[] = {
    { "answered", answer, TEFF_END_RESPONSE, 0, true, ALL },
    { "the grain's code", fail_positive, TEFF_END_ERROR, 7, true, ALL },
    { "a handler's negative code", fail_negative, TEFF_END_ERROR, TEFF_EUNAVAILABLE, true, ALL },
    { "rejected", forward_for_ever, TEFF_END_REJECTED, TEFF_EREJECTED, false, ALL },
    { "a full mailbox", overflow, TEFF_END_OVERLOADED, TEFF_EOVERLOADED, false, ALL },
    { "no such type", name_no_type, TEFF_END_UNRECOVERABLE, TEFF_EINVAL, false, ALL },
    { "another interface", ask_for_another_interface, TEFF_END_UNRECOVERABLE, TEFF_EINVAL, false,
      ALL },
    { "timed out", time_out, TEFF_END_TIMED_OUT, TEFF_ETIMEDOUT, true, ALL },
    { "expired in the mailbox", expire_in_mailbox, TEFF_END_TIMED_OUT, TEFF_ETIMEDOUT, true, ALL },
    { "fired before", fire_before, TEFF_END_CANCELED_UNSENT, TEFF_ECANCELED, false, ALL },
    { "fired while it runs", fire_while_it_runs, TEFF_END_CANCELED_RUNNING, TEFF_ECANCELED, true,
      ALL },
    /* by a turn: that one would be so at the same time */
    { "stuck", get_stuck, TEFF_END_STUCK, TEFF_ESTUCK, true, CLIENT | TASK },
    { "an observer that ended", call_an_ended_observer, TEFF_END_GONE, TEFF_EGONE, false, ALL },
    { "nothing can end it", wait_for_nothing, TEFF_END_DEADLOCK, TEFF_EDEADLOCK, true, CLIENT },
};

static probe_ref ended;
static const struct row *row_now;

static int row_code;

static int run_row(teff_caller *caller, void *user)
{
    (void)user;
    row_code = row_now->body(caller, &ended);
    return 0;
}

static int in_patient_turn(void)
{
    probe_ref probe = probe_at(77);
    acting = act_body;
    bodies[0] = run_row;
    return probe_act(teff_within(client, 60 * SECOND), &probe, &(struct ask){ 0 }, NULL);
}

static void check(const struct row *row, int caller)
{
    row_now = row;
    const teff_counts before = silo_counts();
    cr_assert_eq(caller == CLIENT ? run_row(client, NULL)
                 : caller == TASK ? in_task(0, run_row, NULL)
                                  : in_patient_turn(),
                 0);
    cr_expect_eq(row_code, row->code, "%s by %d: %d", row->name, caller, row_code);
    cr_expect_eq(outcome.may_have_run, row->may_have_run, "%s", row->name);
    const teff_counts after = silo_counts();
    for (int which = TEFF_END_RESPONSE + 1; which < TEFF_ENDS; which++)
        cr_expect_eq(after.ended[which] - before.ended[which], (unsigned)(which == (int)row->end),
                     "%s by %d: counter %d", row->name, caller, which);
    uint64_t all = 0;
    for (int which = 0; which < TEFF_ENDS; which++)
        all += after.ended[which];
    cr_expect_eq(all, after.opened - after.open, "%s", row->name);
    cr_expect_eq(after.unknown, 0);
    /* Beside the call that is looked at, the turn's own, and what the body sleeps and sends. */
    if (row->end == TEFF_END_RESPONSE)
        cr_expect_eq(after.ended[TEFF_END_RESPONSE] - before.ended[TEFF_END_RESPONSE],
                     (unsigned)(caller == CLIENT ? 1 : 2));
}

Test(ends, each_has_its_status_and_its_counter_and_says_whether_it_may_have_run)
{
    cr_assert_eq(teff_observer_begin(client, &probe_handlers, &ear, &ended.ref), 0);
    cr_assert_eq(teff_observer_end(client, &ended.ref), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        for (int caller = CLIENT; caller <= TURN; caller *= 2) {
            if (rows[i].callers & caller)
                check(&rows[i], caller);
        }
        cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    }
}

/* --- By stop ------------------------------------------------------------------------------- */

static int be_stopped(teff_task *task, void *user)
{
    (void)user;
    cr_expect_eq(rest(teff_within(task, 900 * SECOND), 5, 800 * SECOND), TEFF_EUNAVAILABLE);
    cr_expect(outcome.may_have_run);
    cr_expect_eq(get(task, 6), TEFF_EUNAVAILABLE); /* refused before it opens: no call, no end */
    cr_expect_not(outcome.may_have_run);
    return 0;
}

Test(ends, stop_ends_what_is_open_and_refuses_what_is_not)
{
    spawn(0, be_stopped, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    /* It waits behind the other one, whose turn does not end before the settling. */
    const teff_future future = start_rest(teff_within(client, 900 * SECOND), 5, 800 * SECOND);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(note(client, probe_rest_claim(client, future, NULL)), TEFF_EUNAVAILABLE);
    cr_assert_not(outcome.may_have_run);
    cr_assert_eq(get(client, 7), TEFF_EUNAVAILABLE);
    cr_assert_not(outcome.may_have_run);
    const teff_counts counts = silo_counts();
    cr_assert_eq(counts.ended[TEFF_END_STOPPED], 2);
    cr_assert_eq(counts.opened, 2);
    cr_assert_eq(counts.open, 0);
}

/* --- Callers that end first ---------------------------------------------------------------- */

static int leave_a_future(teff_task *task, void *user)
{
    (void)user;
    (void)start_rest(task, 8, 100 * MS);
    return 0;
}

Test(ends, a_future_whose_caller_ends_first_is_canceled_and_unclaimed)
{
    cr_assert_eq(in_task(0, leave_a_future, NULL), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    const teff_counts counts = silo_counts();
    cr_assert_eq(counts.ended[TEFF_END_CANCELED_RUNNING], 1);
    cr_assert_eq(counts.unclaimed, 1);
    cr_assert_eq(counts.late, 1);
    cr_assert_eq(counts.open, 0);
}
