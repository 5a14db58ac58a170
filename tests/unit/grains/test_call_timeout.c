/* SPDX-License-Identifier: MIT */
/* Time: a timeout fires at its deadline or within a millisecond after it, never before. */
#include "fixture.h"

static void begin_one_second(void)
{
    begin_with((teff_silo_options){ .workers = 2, .response_timeout_ns = SECOND });
}

TestSuite(timeout, .init = begin_one_second, .fini = end);

/* How long it took until the call failed with TEFF_ETIMEDOUT; negative: it did something else. */
static int64_t rest(teff_caller *caller, uint64_t key, int64_t rest_ns, int64_t timeout_ns)
{
    struct told told = { 1, 2 };
    probe_ref probe = probe_at(key);
    const int64_t before_ns = teff__silo_now_ns(silo);
    const int r = probe_rest(timeout_ns != 0 ? teff_within(caller, timeout_ns) : caller, &probe,
                             &(struct ask){ .number = rest_ns }, &told);
    cr_expect_eq(teff_outcome_last(caller)->code, r);
    if (r != TEFF_ETIMEDOUT)
        return r != 0 ? r : -1;
    cr_expect_eq(told.number, 1);
    cr_expect(teff_outcome_last(caller)->may_have_run);
    cr_expect_str_eq(teff_outcome_last(caller)->method->name, "rest");
    return teff__silo_now_ns(silo) - before_ns;
}

static void expect_about(int64_t took_ns, int64_t deadline_ns)
{
    cr_expect_geq(took_ns, deadline_ns, "%lld", (long long)took_ns);
    cr_expect_leq(took_ns, deadline_ns + MS, "%lld", (long long)took_ns);
}

static int time_out(teff_caller *caller, void *user)
{
    (void)user;
    expect_about(rest(caller, 1, 5 * SECOND, 0), SECOND);
    expect_about(rest(caller, 2, 5 * SECOND, 20 * MS), 20 * MS);
    expect_about(rest(caller, 3, 500 * SECOND, 100 * SECOND), 100 * SECOND);
    expect_about(rest(caller, 4, 5 * SECOND, 1), 1);
    return 0;
}

Test(timeout, a_clients_call_ends_at_its_deadline)
{
    time_out(client, NULL);
}

Test(timeout, a_tasks_call_ends_at_its_deadline)
{
    cr_assert_eq(in_task(0, time_out, NULL), 0);
}

static int time_out_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                            struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    return time_out(turn, NULL);
}

Test(timeout, a_turns_call_ends_at_its_deadline)
{
    probe_ref probe = probe_at(9);
    acting = time_out_in_turn;
    cr_assert_eq(probe_act(teff_within(client, 1000 * SECOND), &probe, NULL, NULL), 0);
}

Test(timeout, a_call_that_is_answered_just_before_its_deadline_is_answered)
{
    cr_assert_eq(rest(client, 1, SECOND - 1, 0), -1);
    cr_assert_eq(rest(client, 1, 99 * MS, 100 * MS), -1);
}

static int64_t took[40];

static int time_out_after(teff_task *task, void *user)
{
    const int i = (int)(intptr_t)user;
    took[i] = rest(task, 100 + (uint64_t)i, 5 * SECOND, 1 + (i * 7 % 40) * INT64_C(333333));
    return 0;
}

Test(timeout, many_deadlines_close_together_each_fire_in_time)
{
    for (int i = 0; i < 40; i++)
        spawn(i % 2, time_out_after, (void *)(intptr_t)i);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    for (int i = 0; i < 40; i++)
        expect_about(took[i], 1 + (i * 7 % 40) * INT64_C(333333));
}

static int time_out_brief(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    const int64_t before_ns = teff__silo_now_ns(silo);
    const struct ask ask = { .number = 800 * MS };
    (void)user;
    cr_expect_eq(probe_brief(caller, &probe, &ask, NULL), TEFF_ETIMEDOUT);
    expect_about(teff__silo_now_ns(silo) - before_ns, 500 * MS);
    cr_expect_eq(probe_brief(teff_within(caller, 3 * SECOND), &probe, &ask, NULL), 0);
    cr_expect_eq(probe_rest(caller, &probe, &ask, NULL), 0);
    return 0;
}

Test(timeout, a_row_has_its_own_and_another_row_of_the_grain_the_silos)
{
    time_out_brief(client, NULL);
    cr_assert_eq(in_task(0, time_out_brief, NULL), 0);
}

/* --- The late answer ----------------------------------------------------------------------- */

static int get_after_timeout(teff_caller *caller, void *user)
{
    struct told told = { .number = -1 };
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(probe_set(caller, &probe, &(struct ask){ .number = 77 }, NULL), 0);
    expect_about(rest(caller, 1, 1500 * MS, 0), SECOND);
    /* The next call uses the same slot; the answer of the last one comes while it waits. */
    cr_expect_eq(probe_get(caller, &probe, NULL, &told), 0);
    cr_expect_eq(told.number, 77);
    return 0;
}

Test(timeout, the_late_answer_changes_nothing)
{
    get_after_timeout(client, NULL);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(in_task(0, get_after_timeout, NULL), 0);
    cr_assert_eq(in_task(1, get_after_timeout, NULL), 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff_silo_advance(silo, 60 * SECOND), 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(seen.turns, 9);
}

static int time_out_and_end(teff_task *task, void *user)
{
    (void)user;
    expect_about(rest(task, 1, 3 * SECOND, 0), SECOND);
    return 0;
}

Test(timeout, a_late_answer_finds_neither_task_nor_client_and_is_dropped)
{
    teff_client *other = NULL;
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    expect_about(rest(other, 2, 3 * SECOND, 0), SECOND);
    cr_assert_null(teff_client_destroy(other));
    cr_assert_eq(in_task(0, time_out_and_end, NULL), 0);
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

/* --- Waiting in the mailbox ---------------------------------------------------------------- */

static int note_in_time(teff_task *task, void *user)
{
    struct told told;
    probe_ref probe = probe_at(1);
    const int64_t timeout_ns = (intptr_t)user;
    const int r = probe_get(teff_within(task, timeout_ns), &probe, NULL, &told);
    tell("%d:%d ", (int)(timeout_ns / MS), r == TEFF_ETIMEDOUT ? 1 : r);
    return 0;
}

Test(timeout, requests_that_expire_in_the_mailbox_never_run)
{
    probe_ref probe = probe_at(1);
    const struct ask ask = { .number = 2 * SECOND };
    cr_assert_eq(probe_rest_send(client, &probe, &ask), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    for (int worker = 0; worker < 2; worker++) {
        spawn(worker, note_in_time, (void *)(intptr_t)(500 * MS));
        spawn(worker, note_in_time, (void *)(intptr_t)(3000 * MS));
    }
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), TEFF_ETIMEDOUT);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "500:1 500:1 3000:0 3000:0 ");
    cr_assert_eq(seen.turns, 3);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

Test(timeout, a_send_that_waits_long_runs_all_the_same)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_rest_send(client, &probe, &(struct ask){ .number = 100 * SECOND }), 0);
    cr_assert_eq(probe_note_send(teff_within(client, MS), &probe, &(struct ask){ .number = 1 }), 0);
    cr_assert_eq(teff_silo_advance(silo, 99 * SECOND), 0);
    cr_assert_str_eq(story, "");
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "1 ");
}

/* --- A turn's own deadline ----------------------------------------------------------------- */

static int64_t inner_ns, deadline_ns;
static int compensation;

/* Asks for far more time than its caller gives it, then compensates. */
static int overstay(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    static const teff_call_options detached = { .struct_size = sizeof(detached), .detached = true };
    probe_ref probe = probe_at(3);
    (void)self, (void)arg, (void)ret;
    deadline_ns = teff_turn_deadline_ns(turn) - teff__silo_now_ns(silo);
    inner_ns = rest(turn, 2, 500 * SECOND, 100 * SECOND);
    cr_expect_eq(probe_get(turn, &probe, NULL, NULL), TEFF_ETIMEDOUT); /* no time is left */
    compensation =
        probe_rest(teff_with(turn, &detached), &probe, &(struct ask){ .number = 500 * MS }, NULL);
    return 0;
}

Test(timeout, a_turns_calls_end_with_its_own_deadline_unless_detached)
{
    probe_ref probe = probe_at(1);
    compensation = 4711;
    acting = overstay;
    cr_assert_eq(probe_act(teff_within(client, 2 * SECOND), &probe, NULL, NULL), TEFF_ETIMEDOUT);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(deadline_ns, 2 * SECOND);
    expect_about(inner_ns, 2 * SECOND);
    cr_assert_eq(compensation, 0);
    cr_assert_eq(seen.turns, 3); /* the call that had no time left never ran */
}

static int look_at_deadline(teff_turn *turn, struct probe *self, const struct ask *arg,
                            struct told *ret)
{
    (void)self, (void)arg;
    ret->number = teff_turn_deadline_ns(turn);
    tell("%d ", teff_turn_deadline_ns(turn) == INT64_MAX);
    return 0;
}

Test(timeout, a_turn_that_nobody_waits_for_has_no_deadline)
{
    probe_ref probe = probe_at(1);
    acting = look_at_deadline;
    cr_assert_eq(probe_act_send(client, &probe, NULL), 0);
    cr_assert_eq(probe_act(teff_within(client, INT64_MAX), &probe, NULL, NULL), 0);
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    cr_assert_str_eq(story, "1 1 0 ");
}

static void begin_patient(void)
{
    begin_with((teff_silo_options){
        .response_timeout_ns = INT64_MAX, .stop_timeout_ns = INT64_MAX, .stuck_ns = INT64_MAX });
}

TestSuite(patient, .init = begin_patient, .fini = end);

static int rest_long(teff_caller *caller, void *user)
{
    (void)user;
    return (int)rest(caller, 1, 100000 * SECOND, 0);
}

Test(patient, a_silo_may_have_all_the_time_there_is)
{
    cr_assert_eq(rest_long(client, NULL), -1);
    cr_assert_eq(in_task(0, rest_long, NULL), -1);
}
