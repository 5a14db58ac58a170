/* SPDX-License-Identifier: MIT */
/* Activations: how they come, serve one turn at a time, and go; what waits for them meanwhile. */
#include "fixture.h"

TestSuite(activation, .init = begin, .fini = end);

static void expect_seen(int activated, int deactivated)
{
    cr_expect_eq(seen.activated, activated, "activated %d", seen.activated);
    cr_expect_eq(seen.deactivated, deactivated, "deactivated %d", seen.deactivated);
}

static uint64_t leave(uint64_t key)
{
    struct told told = { 0 };
    probe_ref probe = probe_at(key);
    cr_assert_eq(probe_leave(client, &probe, NULL, &told), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    return told.route;
}

Test(activation, a_grain_is_activated_by_its_first_call_only)
{
    cr_assert_eq(teff__silo_grain_count(silo), 0);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(number_of(1), 0);
    expect_seen(1, 0);
    cr_assert_eq(teff__silo_grain_count(silo), 1);
}

Test(activation, on_request_it_goes_once_its_turn_has_ended_and_comes_with_the_next_call)
{
    (void)leave(1);
    expect_seen(1, 1);
    cr_assert_eq(seen.reason, TEFF_DEACTIVATED_REQUEST);
    cr_assert_eq(teff__silo_grain_count(silo), 0);
    cr_assert_eq(number_of(1), 0);
    expect_seen(2, 1);
}

static int leave_twice(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    cr_expect_eq(teff_turn_deactivate(turn), 0);
    cr_expect_eq(teff_turn_deactivate(turn), 0);
    cr_expect_eq(teff_sleep(turn, SECOND), 0); /* and it waits for the turn's end */
    expect_seen(1, 0);
    return 0;
}

Test(activation, asking_twice_is_asking_once)
{
    probe_ref probe = probe_at(1);
    acting = leave_twice;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    expect_seen(1, 1);
}

Test(activation, its_state_begins_as_zeroes_each_time)
{
    probe_ref probe = probe_at(1);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(number_of(1), 0);
        cr_assert_eq(probe_set(client, &probe, &(struct ask){ .number = 5 }, NULL), 0);
        cr_assert_eq(number_of(1), 5);
        (void)leave(1);
    }
}

static int set_state(teff_turn *turn, struct probe *self)
{
    (void)turn;
    cr_expect_eq(self->number, 0);
    cr_expect_eq((uintptr_t)self % 16, 0);
    self->number = 99;
    return 0;
}

static void look_at_state(teff_turn *turn, struct probe *self, int reason)
{
    (void)turn;
    tell("%d:%d ", (int)self->number, reason);
}

Test(activation, its_hooks_see_its_state)
{
    probe_ref probe = probe_at(1);
    activating = set_state;
    deactivating = look_at_state;
    cr_assert_eq(number_of(1), 99);
    cr_assert_eq(probe_set(client, &probe, &(struct ask){ .number = 5 }, NULL), 0);
    (void)leave(1);
    cr_assert_str_eq(story, "5:1 ");
}

Test(activation, each_one_of_a_grain_has_a_route_of_its_own)
{
    struct told told;
    probe_ref probe = probe_at(1);
    const uint64_t first = leave(1), second = leave(1);
    cr_assert_neq(first, 0);
    cr_assert_neq(first, second);
    cr_assert_eq(probe_get(client, &probe, NULL, &told), 0);
    cr_assert_neq(told.route, first);
    cr_assert_neq(told.route, second);
    const uint64_t third = told.route;
    cr_assert_eq(probe_get(client, &probe, NULL, &told), 0);
    cr_assert_eq(told.route, third);
}

static int call_by_old_reference(teff_task *task, void *user)
{
    struct told told;
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(probe_set(task, &probe, &(struct ask){ .number = 5 }, NULL), 0);
    cr_expect_eq(probe_leave(task, &probe, NULL, NULL), 0);
    cr_expect_eq(teff_sleep(task, 0), 0);
    cr_expect_eq(probe_get(task, &probe, NULL, &told), 0);
    cr_expect_eq(told.number, 0);
    cr_expect_eq(probe.ref.route, told.route);
    return 0;
}

Test(activation, a_reference_to_the_last_one_finds_the_next)
{
    cr_assert_eq(in_task(0, call_by_old_reference, NULL), 0);
    expect_seen(2, 1);
}

/* --- Failing to activate ------------------------------------------------------------------- */

static int refuse(teff_turn *turn, struct probe *self)
{
    (void)self;
    cr_expect_eq(teff_sleep(turn, SECOND), 0);
    return seen.activated < 2 ? teff_turn_fail(turn, 12, "no such room") : 0;
}

static int expect_refusal(teff_task *task, void *user)
{
    struct told told = { 1, 2 };
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(probe_get(task, &probe, NULL, &told), 12);
    cr_expect_str_eq(teff_outcome_last(task)->text, "no such room");
    cr_expect_not(teff_outcome_last(task)->may_have_run);
    cr_expect_eq(told.number, 1);
    tell("refused ");
    return 0;
}

Test(activation, where_activate_fails_all_that_wait_get_its_code_and_text_and_the_next_tries_again)
{
    probe_ref probe = probe_at(1);
    activating = refuse;
    for (int i = 0; i < 3; i++)
        spawn(0, expect_refusal, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ .number = 1 }), 0);
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), 12);
    cr_assert_str_eq(teff_outcome_last(client)->text, "no such room");
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "refused refused refused ");
    cr_assert_eq(teff__silo_grain_count(silo), 0);
    expect_seen(1, 0);
    cr_assert_eq(number_of(1), 0);
    expect_seen(2, 0);
}

static int refuse_without_text(teff_turn *turn, struct probe *self)
{
    (void)turn, (void)self;
    return seen.activated == 1 ? 12 : TEFF_ENOMEM;
}

Test(activation, activate_may_fail_without_a_text_and_with_a_status)
{
    probe_ref probe = probe_at(1);
    activating = refuse_without_text;
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), 12);
    cr_assert_str_eq(teff_outcome_last(client)->text, teff_status_text(12));
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), TEFF_ENOMEM);
    cr_assert_str_eq(teff_outcome_last(client)->text, teff_status_text(TEFF_ENOMEM));
}

Test(activation, without_memory_for_its_state_there_is_none_and_later_there_is)
{
    probe_ref probe = probe_at(2);
    cr_assert_eq(number_of(1), 0); /* all else is there */
    teff__memory_fail_at(teff__silo_memory(silo), 1);
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), TEFF_ENOMEM);
    cr_assert_eq(teff__silo_grain_count(silo), 1);
    cr_assert_eq(number_of(2), 0);
}

/* --- One turn at a time -------------------------------------------------------------------- */

static int rest_and_tell(teff_task *task, void *user)
{
    struct ask ask = { .number = 10 * MS };
    probe_ref probe = probe_at(1);
    (void)snprintf(ask.text, sizeof(ask.text), "%s", (const char *)user);
    cr_expect_eq(probe_rest(task, &probe, &ask, NULL), 0);
    return 0;
}

Test(activation, a_turn_that_waits_lets_no_other_of_its_grain_run)
{
    spawn(0, rest_and_tell, (void *)(uintptr_t) "a");
    spawn(0, rest_and_tell, (void *)(uintptr_t) "b");
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "a(");
    spawn(0, rest_and_tell, (void *)(uintptr_t) "c"); /* what arrives meanwhile waits, too */
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "a(");
    cr_assert_eq(teff_silo_advance(silo, 15 * MS), 0);
    cr_assert_str_eq(story, "a(a)b(");
    cr_assert_eq(teff_silo_advance(silo, 15 * MS), 0);
    cr_assert_str_eq(story, "a(a)b(b)c(c)");
}

static int call_another(teff_turn *turn, struct probe *self, const struct ask *arg,
                        struct told *ret)
{
    probe_ref probe = probe_at(2);
    (void)ret;
    self->number = arg->number;
    cr_expect_eq(probe_rest(turn, &probe, &(struct ask){ .number = 10 * MS }, NULL), 0);
    cr_expect_eq(self->number, arg->number); /* nobody else was here */
    tell("%d ", (int)arg->number);
    return 0;
}

Test(activation, a_turn_that_awaits_a_call_lets_no_other_of_its_grain_run)
{
    probe_ref probe = probe_at(1);
    acting = call_another;
    for (int i = 1; i <= 3; i++)
        cr_assert_eq(probe_act_send(client, &probe, &(struct ask){ .number = i }), 0);
    cr_assert_eq(probe_set_send(client, &probe, &(struct ask){ .number = 9 }), 0);
    cr_assert_eq(teff_silo_advance(silo, 15 * MS), 0);
    cr_assert_str_eq(story, "1 ");
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_str_eq(story, "1 2 3 ");
    cr_assert_eq(number_of(1), 9);
}

static int wait_in_activate(teff_turn *turn, struct probe *self)
{
    probe_ref probe = probe_at(2);
    const teff_key two = teff_key_u64(2);
    if (memcmp(teff_turn_key(turn), &two, sizeof(two)) == 0)
        return 0;
    cr_expect_eq(probe_rest(turn, &probe, &(struct ask){ .number = SECOND }, NULL), 0);
    self->number = 7;
    return 0;
}

Test(activation, activate_may_call_other_grains_and_all_mail_waits_for_it)
{
    probe_ref probe = probe_at(1);
    activating = wait_in_activate;
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ .number = 1 }), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND / 2), 0);
    cr_assert_str_eq(story, "");
    cr_assert_eq(number_of(1), 8);
    cr_assert_str_eq(story, "1 ");
}

/* --- Mail that waits while it goes --------------------------------------------------------- */

static int note_activation(teff_turn *turn, struct probe *self)
{
    (void)turn, (void)self;
    tell("+ ");
    return 0;
}

static void note_deactivation(teff_turn *turn, struct probe *self, int reason)
{
    (void)self;
    tell("-%d ", reason);
    cr_expect_eq(teff_sleep(turn, 10 * MS), 0);
}

static int send_around_leaving(teff_task *task, void *user)
{
    struct told told;
    probe_ref probe = probe_at(1);
    (void)user;
    for (int i = 1; i <= 6; i++) {
        cr_expect_eq(probe_note_send(task, &probe, &(struct ask){ .number = i }), 0);
        if (i == 2)
            cr_expect_eq(probe_leave_send(task, &probe, NULL), 0);
        if (i == 4) /* while deactivate waits */
            cr_expect_eq(teff_sleep(task, 5 * MS), 0);
    }
    cr_expect_eq(probe_get(task, &probe, NULL, &told), 0);
    cr_expect_eq(told.number, 4); /* as many as the second one noted: it began with zeroes */
    return 0;
}

Test(activation, mail_that_waits_is_served_by_the_next_one_in_its_order)
{
    activating = note_activation;
    deactivating = note_deactivation;
    cr_assert_eq(in_task(0, send_around_leaving, NULL), 0);
    cr_assert_str_eq(story, "+ 1 2 -1 + 3 4 5 6 ");
    expect_seen(2, 1);
    cr_assert_eq(teff__silo_grain_count(silo), 1);
}

static int always_leave(teff_turn *turn, struct probe *self)
{
    (void)self;
    return teff_turn_deactivate(turn);
}

Test(activation, one_that_always_leaves_before_it_serves_is_given_up)
{
    probe_ref probe = probe_at(1);
    activating = always_leave;
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), TEFF_EREJECTED);
    cr_assert_not_null(strstr(teff_outcome_last(client)->text, "Forwarding failed"));
    cr_assert_not(teff_outcome_last(client)->may_have_run);
    cr_assert_eq(seen.turns, 0);
    cr_assert_eq(teff__silo_grain_count(silo), 0);
    activating = NULL;
    cr_assert_eq(number_of(1), 0);
}

static int leave_from_the_second(teff_turn *turn, struct probe *self)
{
    (void)self;
    return seen.activated >= 2 ? teff_turn_deactivate(turn) : 0;
}

static int call_behind_leaving(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(probe_leave_send(task, &probe, NULL), 0);
    return probe_get(task, &probe, NULL, NULL);
}

Test(activation, that_an_earlier_one_served_does_not_save_the_mail_of_those_that_never_do)
{
    activating = leave_from_the_second;
    cr_assert_eq(in_task(0, call_behind_leaving, NULL), TEFF_EREJECTED);
    cr_assert_eq(seen.turns, 1);
    cr_assert_eq(teff__silo_grain_count(silo), 0);
}

/* --- Stop ---------------------------------------------------------------------------------- */

Test(activation, when_the_silo_stops_all_go_and_learn_why)
{
    for (uint64_t key = 1; key <= 50; key++)
        cr_assert_eq(number_of(key), 0);
    end();
    expect_seen(50, 50);
    cr_assert_eq(seen.reason, TEFF_DEACTIVATED_STOP);
}

static void be_told(teff_turn *turn, struct probe *self, int reason)
{
    (void)self;
    cr_expect_eq(teff_sleep(turn, 10 * MS), 0);
    tell("-%d ", reason);
}

Test(activation, when_the_silo_stops_requests_that_run_and_wait_are_served_first)
{
    probe_ref probe = probe_at(1);
    deactivating = be_told;
    cr_assert_eq(probe_rest_send(client, &probe, &(struct ask){ 2 * SECOND, "rest" }), 0);
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ .number = 1 }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    end();
    cr_assert_str_eq(story, "rest(rest)1 -2 ");
    expect_seen(1, 1);
}

Test(activation, mail_that_still_waits_when_it_must_go_for_the_stop_is_served_by_it)
{
    probe_ref probe = probe_at(1);
    deactivating = be_told;
    /* Longer than stop lets requests end, but not than it lets grains deactivate. */
    cr_assert_eq(probe_rest_send(client, &probe, &(struct ask){ 10500 * MS, "rest" }), 0);
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ .number = 1 }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    end();
    cr_assert_str_eq(story, "rest(rest)1 -2 ");
    expect_seen(1, 1);
}

static int leave_and_stay(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    cr_expect_eq(teff_turn_deactivate(turn), 0);
    cr_expect_eq(teff_sleep(turn, 1000 * SECOND), TEFF_EUNAVAILABLE); /* stop asks meanwhile */
    return 0;
}

Test(activation, the_first_reason_is_kept)
{
    probe_ref probe = probe_at(1);
    acting = leave_and_stay;
    deactivating = look_at_state;
    cr_assert_eq(probe_act_send(client, &probe, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    end();
    cr_assert_str_eq(story, "0:1 ");
}
