/* SPDX-License-Identifier: MIT */
/* Turns that do not end: their activations are given up and replaced. */
#include "lives.h"

static void begin_stuck(void)
{
    begin_with((teff_silo_options){ .workers = 2, .stuck_ns = 3 * SECOND, .notice = on_notice });
}

TestSuite(stuck, .init = begin_stuck, .fini = end);

static int64_t began_ns;

/* Waits for a task the first time; then says what it still did, and how that went. */
static int hang(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)arg;
    self->number = 77;
    if (seen.activated == 1)
        cr_expect_eq(wait_for_task(turn), 0);
    cr_expect_eq(self->number, 77); /* its state is kept */
    ret->number = 4711;
    tell("end ");
    return 0;
}

/* A call that hangs, of a task. */
static int call_hanging(teff_task *task, void *user)
{
    struct told told = { .number = -1 };
    probe_ref probe = probe_at(1);
    (void)user;
    began_ns = teff__silo_now_ns(silo);
    const int r = probe_act(task, &probe, NULL, &told);
    cr_expect_eq(told.number, -1);
    cr_expect(teff_outcome_last(task)->may_have_run);
    tell("%s after %d s ", teff_status_name(r), (int)(since(began_ns) / SECOND));
    return 0;
}

static int note_and_count(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    const int count = (int)(intptr_t)user;
    cr_expect_eq(probe_note_send(task, &probe, &(struct ask){ .number = count }), 0);
    const int number = get_number(task, 1);
    cr_expect_eq(number, count, "%d", number);
    return 0;
}

Test(stuck, one_is_replaced_and_what_waits_for_it_is_served) /* case 55 */
{
    acting = hang;
    task_ns = 20 * SECOND;
    spawn(0, call_hanging, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    for (intptr_t i = 1; i <= 3; i++)
        spawn(1, note_and_count, (void *)i);
    cr_assert_eq(teff_silo_advance(silo, 2999 * MS), 0);
    cr_expect_str_eq(story, "");
    cr_assert_eq(teff_silo_advance(silo, 50 * MS), 0); /* a 64th of the limit, and coarse time */
    cr_expect_eq(seen.activated, 2, "activated %d, %s", seen.activated, story);
    cr_assert_eq(in_task(1, note_and_count, (void *)4), 0);
    cr_expect_str_eq(story, "TEFF_ESTUCK after 3 s 1 2 3 4 ", "%s", story);
    expect_gone(TEFF_DEACTIVATED_STUCK, 1);
    cr_expect_eq(grain_counts().resident, 1);
    cr_expect_eq(silo_counts().ended[TEFF_END_STUCK], 1, "%d",
                 (int)silo_counts().ended[TEFF_END_STUCK]);
    cr_expect_eq(noticed.count, 1);
    cr_expect_str_eq(noticed.text, "worker 0: probe/1: given up: a turn has been suspended for "
                                   "longer than stuck_ns");
    cr_expect_eq(silo_counts().late, 0);
    story[0] = '\0';
    cr_assert_eq(teff_silo_advance(silo, 20 * SECOND), 0);
    cr_expect_str_eq(story, "end ");
    cr_expect_eq(silo_counts().late, 1); /* its answer was dropped */
    cr_expect_eq(seen.deactivated, 0);
    cr_expect_eq(number_of(1), 4);
}

/* --- Who called ---------------------------------------------------------------------------- */

static int expect_stuck(teff_caller *caller, void *user)
{
    (void)user;
    probe_ref probe = probe_at(1);
    cr_expect_eq(probe_act(caller, &probe, NULL, NULL), TEFF_ESTUCK);
    cr_expect(teff_outcome_last(caller)->may_have_run);
    cr_expect_str_eq(teff_outcome_last(caller)->text,
                     "given up: its turn was suspended for longer than stuck_ns");
    cr_expect_str_eq(teff_outcome_last(caller)->method->name, "act");
    cr_expect_eq(get_number(caller, 1), 0);
    return 5;
}

/* Lets the probe live on worker 0. */
static void place(void)
{
    cr_assert_eq(in_task(0, note_and_count, (void *)1), 0);
    story[0] = '\0';
}

Test(stuck, a_client_hears_so)
{
    acting = hang;
    place();
    cr_assert_eq(expect_stuck(client, NULL), 5);
}

Test(stuck, a_task_of_the_same_worker_hears_so)
{
    acting = hang;
    place();
    cr_assert_eq(in_task(0, expect_stuck, NULL), 5);
}

Test(stuck, a_task_of_another_worker_hears_so)
{
    acting = hang;
    place();
    cr_assert_eq(in_task(1, expect_stuck, NULL), 5);
}

Test(stuck, a_caller_that_gave_up_before_hears_nothing_and_nothing_is_late_twice)
{
    probe_ref probe = probe_at(1);
    acting = hang;
    task_ns = 20 * SECOND;
    cr_assert_eq(probe_act(teff_within(client, SECOND), &probe, NULL, NULL), TEFF_ETIMEDOUT);
    cr_assert_eq(teff_silo_advance(silo, 5 * SECOND), 0);
    cr_expect_eq(get_number(client, 1), 0);
    expect_gone(TEFF_DEACTIVATED_STUCK, 1);
    cr_assert_eq(teff_silo_advance(silo, 20 * SECOND), 0);
    cr_expect_eq(silo_counts().late, 1);
    cr_expect_eq(silo_counts().ended[TEFF_END_STUCK], 0);
}

Test(stuck, one_way_messages_get_stuck_too)
{
    probe_ref probe = probe_at(1);
    acting = hang;
    cr_assert_eq(probe_act_send(client, &probe, NULL), 0);
    cr_expect_eq(get_number(client, 1), 0);
    expect_gone(TEFF_DEACTIVATED_STUCK, 1);
    cr_expect_eq(silo_counts().ended[TEFF_END_STUCK], 0);
}

/* --- What is not stuck ----------------------------------------------------------------------- */

static int rest_often(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    for (int i = 0; i < 29; i++)
        cr_expect_eq(teff_sleep(turn, 100 * MS), 0);
    return 0;
}

Test(stuck, a_turn_that_ends_in_time_is_not)
{
    probe_ref probe = probe_at(1);
    acting = rest_often;
    for (int i = 0; i < 5; i++)
        cr_expect_eq(probe_act(client, &probe, NULL, NULL), 0);
    expect_gone(TEFF_DEACTIVATED_STUCK, 0);
    cr_expect_eq(seen.activated, 1);
}

static int sleep_six_seconds(teff_turn *turn, struct probe *self)
{
    (void)self;
    return teff_sleep(turn, 6 * SECOND);
}

Test(stuck, a_hook_is_not_for_it_has_a_limit_of_its_own)
{
    activating = sleep_six_seconds;
    cr_expect_eq(get_number(client, 1), 0);
    expect_gone(TEFF_DEACTIVATED_STUCK, 0);
}

static void begin_never(void)
{
    begin_with((teff_silo_options){ .stuck_ns = INT64_MAX, .response_timeout_ns = INT64_MAX });
}

TestSuite(never_stuck, .init = begin_never, .fini = end);

Test(never_stuck, a_turn_may_have_all_the_time_there_is)
{
    probe_ref probe = probe_at(1);
    cr_expect_eq(probe_rest(client, &probe, &(struct ask){ .number = 100000 * SECOND }, NULL), 0);
    cr_expect_eq(grain_counts().gone[TEFF_DEACTIVATED_STUCK], 0);
}

/* --- What it still does ---------------------------------------------------------------------- */

static void tell_completion(teff_caller *caller, void *user, const teff_outcome *outcome,
                            const struct told *ret)
{
    (void)user, (void)ret;
    tell("%s:%s ", caller == NULL ? "alone" : "turn", teff_status_name(outcome->code));
}

static void count_line(void *user, const char *text)
{
    (void)text;
    ++*(int *)user;
}

/* All that a turn may do, once its activation has been given up. */
static int live_on(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    probe_ref other = probe_at(2);
    (void)arg, (void)ret;
    if (seen.activated > 1)
        return 0;
    self->number = 77;
    char *mine = teff_turn_alloc(turn, 100);
    cr_expect_eq(
        probe_rest_then(turn, &other, &(struct ask){ .number = SECOND }, tell_completion, NULL),
        0); /* its answer comes while it is suspended, and waits for its end */
    cr_expect_eq(
        probe_rest_then(turn, &other, &(struct ask){ .number = 2500 * MS }, tell_completion, NULL),
        0); /* … and that comes when it is abandoned */
    const teff_future left = probe_get_start(turn, &other, NULL);
    cr_expect_neq(left.id, 0);
    cr_expect_eq(wait_for_task(turn), 0);

    cr_expect_eq(self->number, 77);
    cr_expect_eq(teff_turn_deactivate(turn), 0);
    cr_expect_eq(teff_turn_delay_deactivation(turn, SECOND), 0);
    cr_expect_eq(teff_sleep(turn, SECOND), 0);
    cr_expect_eq(get_number(turn, 2), 0);
    const teff_future future = probe_get_start(turn, &other, NULL);
    cr_expect_eq(probe_get_claim(turn, future, NULL), 0);
    memset(mine, 1, 100);
    cr_expect_not_null(teff_turn_alloc(turn, 5000));
    cr_expect_eq(probe_get_then(turn, &other, NULL, tell_completion, NULL), 0);
    probe_ref me = { teff_turn_self(turn) };
    cr_expect_eq(probe_note_send(turn, &me, &(struct ask){ .number = 9 }), 0); /* to the next one */
    cr_expect_eq(get_number(turn, 1), 1);
    cr_expect_eq(teff_sleep(turn, SECOND), 0);
    tell("unheard ");
    return teff_turn_fail(turn, 5, "unheard");
}

Test(stuck, whatever_the_turn_still_does_is_harmless)
{
    int lines = 0;
    probe_ref probe = probe_at(1);
    acting = live_on;
    task_ns = 10 * SECOND;
    (void)get_number(client, 2);
    seen.activated = 0;
    cr_expect_eq(probe_act(client, &probe, NULL, NULL), TEFF_ESTUCK);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_expect_str_eq(story, "alone:TEFF_EGONE ", "%s", story);
    cr_assert_eq(teff_silo_dump(silo, count_line, &lines), 0);
    cr_expect_gt(lines, 3);
    cr_assert_eq(teff_silo_advance(silo, 30 * SECOND), 0);
    cr_expect_str_eq(story, "alone:TEFF_EGONE alone:TEFF_EGONE alone:TEFF_EGONE 9 unheard ", "%s",
                     story);
    expect_gone(TEFF_DEACTIVATED_STUCK, 1);
    cr_expect_eq(get_number(client, 1), 1);
    cr_expect_eq(seen.deactivated, 0);
}

/* --- What waits ------------------------------------------------------------------------------ */

static int call_under_source(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = user };
    const int r = probe_get(teff_with(task, &options), &probe, NULL, NULL);
    tell("%s ", teff_status_name(r));
    return 0;
}

/* Sleeps in activate, so that mail waits. */
static int sleep_from_the_second(teff_turn *turn, struct probe *self)
{
    (void)self;
    return seen.activated == 2 ? teff_sleep(turn, 10 * SECOND) : 0;
}

Test(stuck, a_source_finds_the_requests_that_were_moved)
{
    teff_cancel *source = NULL;
    probe_ref probe = probe_at(1);
    acting = hang;
    activating = sleep_from_the_second;
    cr_assert_eq(teff_cancel_create(silo, &source), 0);
    cr_assert_eq(probe_act_send(client, &probe, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    spawn(0, call_under_source, source);
    spawn(1, call_under_source, source);
    cr_assert_eq(teff_silo_advance(silo, 4 * SECOND), 0);
    cr_assert_eq(seen.activated, 2);
    cr_expect_str_eq(story, "");
    teff_cancel_fire(source);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_expect_str_eq(story, "TEFF_ECANCELED TEFF_ECANCELED ");
    (void)teff_cancel_unref(source);
    cr_assert_eq(teff_silo_advance(silo, 20 * SECOND), 0);
    cr_expect_eq(seen.turns, 1); /* none of them ran */
}

Test(stuck, without_memory_it_is_given_up_later)
{
    probe_ref probe = probe_at(1);
    acting = hang;
    place();
    const teff_future stuck = probe_act_start(client, &probe, NULL);
    const teff_future behind = probe_get_start(client, &probe, NULL);
    cr_assert_eq(teff_silo_advance(silo, 2900 * MS), 0);
    teff__memory_fail_at(teff__silo_memory(silo), 1); /* of the replacement */
    cr_assert_eq(teff_silo_advance(silo, 150 * MS), 0);
    cr_expect_eq(teff__atomic_u64_load_relaxed(&teff__silo_memory(silo)->fail_at), 0);
    expect_gone(TEFF_DEACTIVATED_STUCK, 0);
    cr_assert_eq(teff_silo_advance(silo, 200 * MS), 0);
    expect_gone(TEFF_DEACTIVATED_STUCK, 1);
    cr_expect_eq(probe_act_claim(client, stuck, NULL), TEFF_ESTUCK);
    cr_expect_eq(probe_get_claim(client, behind, NULL), 0);
}

/* --- Stop ------------------------------------------------------------------------------------ */

static int sleep_for_ever(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    tell("%s ", teff_status_name(teff_sleep(turn, 1000 * SECOND)));
    return 0;
}

Test(stuck, stop_does_not_wait_for_what_was_given_up_and_ends_it)
{
    probe_ref probe = probe_at(1);
    acting = sleep_for_ever;
    cr_expect_eq(probe_act(client, &probe, NULL, NULL), TEFF_ESTUCK);
    const int64_t now_ns = teff__silo_now_ns(silo);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_expect_eq(since(now_ns), 0);
    silo = teff_silo_destroy(silo);
    cr_expect_str_eq(story, "TEFF_EUNAVAILABLE ");
}

static int woken;

/* Takes all the time that stop has for such turns, so that others are not reached. */
static int end_slowly(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    (void)teff_sleep(turn, 1000 * SECOND);
    woken++;
    teff__silo_exchange(silo)->clock.simulated_ns += 100 * SECOND;
    return 0;
}

Test(stuck, what_even_stop_could_not_end_is_freed_with_its_stack)
{
    enum { MANY = 200 };
    acting = end_slowly;
    for (uint64_t key = 1; key <= MANY; key++) {
        probe_ref probe = probe_at(key);
        cr_assert_eq(probe_act_send(client, &probe, NULL), 0);
    }
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_expect_eq(get_number(client, 1), 0); /* somebody waits, so time passes */
    expect_gone(TEFF_DEACTIVATED_STUCK, MANY);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_expect_lt(woken, MANY);
    cr_expect_eq(grain_counts().resident, 0);
    silo = teff_silo_destroy(silo); /* asserts that no byte is left */
    cr_assert_null(silo);
}
