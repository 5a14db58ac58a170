/* SPDX-License-Identifier: MIT */
/*
 * Mail that arrives in every state of an activation, from its own worker, from another one and from a
 * client: none is lost, and that of one sender is served in order.
 */
#include "lives.h"

#include "slow_locator.h"

static void begin_mail(void)
{
    begin_with((teff_silo_options){ .workers = 2,
                                    .activate_timeout_ns = 10 * SECOND,
                                    .deactivate_timeout_ns = 3 * SECOND,
                                    .stuck_ns = 3 * SECOND });
}

TestSuite(life_mail, .init = begin_mail, .fini = end);

/* Six notes with a second between the third and the fourth, each told as it is served. */
static int send_six(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    for (int64_t i = 1; i <= 6; i++) {
        cr_expect_eq(probe_note_send(caller, &probe, &(struct ask){ .number = i }), 0);
        if (i == 3)
            cr_expect_eq(teff_sleep(caller, SECOND), 0);
    }
    return get_number(caller, 1) < 0 ? -1 : 0;
}

/* By each kind of sender; `prepare` brings the grain, on worker 0, into the state. */
static void send_in_state(int (*prepare)(teff_task *task, void *user), const char *expected)
{
    for (int sender = -1; sender < 2; sender++) {
        story[0] = '\0';
        memset(&seen, 0, sizeof(seen));
        cr_assert_eq(in_task(0, prepare, NULL), 0);
        cr_expect_eq(sender < 0 ? send_six(client, NULL) : in_task(sender, send_six, NULL), 0);
        cr_expect_str_eq(story, expected, "sender %d: %s", sender, story);
        activating = NULL; /* it goes, and the next one begins anew */
        deactivating = NULL;
        probe_ref probe = probe_at(1);
        cr_expect_eq(probe_leave(client, &probe, NULL, NULL), 0);
        cr_assert_eq(teff_silo_advance(silo, 30 * SECOND), 0);
        cr_assert_eq(teff__silo_grain_count(silo), 0);
        cr_assert_eq(grain_counts().resident, 0);
    }
}

static int prepare_nothing(teff_task *task, void *user)
{
    (void)task, (void)user;
    return 0;
}

Test(life_mail, where_there_is_none_yet)
{
    send_in_state(prepare_nothing, "1 2 3 4 5 6 ");
}

static int prepare_valid(teff_task *task, void *user)
{
    (void)user;
    return get_number(task, 1);
}

Test(life_mail, where_it_is_valid)
{
    send_in_state(prepare_valid, "1 2 3 4 5 6 ");
}

static int activate_slowly(teff_turn *turn, struct probe *self)
{
    (void)self;
    const int r = teff_sleep(turn, 2 * SECOND);
    tell("+ ");
    return r;
}

/* Its first call is one way, so that the task does not wait for it. */
static int prepare_activating(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    activating = activate_slowly;
    return probe_set_send(task, &probe, NULL);
}

Test(life_mail, while_it_activates)
{
    send_in_state(prepare_activating, "+ 1 2 3 4 5 6 ");
}

static int prepare_busy(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    return probe_rest_send(task, &probe, &(struct ask){ 2 * SECOND, "" });
}

Test(life_mail, while_a_turn_is_suspended)
{
    send_in_state(prepare_busy, "1 2 3 4 5 6 ");
}

static void deactivate_slowly(teff_turn *turn, struct probe *self, int reason)
{
    (void)self, (void)reason;
    if (seen.deactivated > 1)
        return;
    cr_expect_eq(teff_sleep(turn, 2 * SECOND), 0);
    tell("- ");
}

static int prepare_deactivating(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    deactivating = deactivate_slowly;
    return probe_leave(task, &probe, NULL, NULL);
}

Test(life_mail, while_it_deactivates)
{
    send_in_state(prepare_deactivating, "- 1 2 3 4 5 6 ");
}

static void deactivate_never(teff_turn *turn, struct probe *self, int reason)
{
    (void)self, (void)reason;
    if (seen.deactivated == 1)
        (void)wait_for_task(turn);
}

/* It is abandoned between the third and the fourth. */
static int prepare_abandoned_in_deactivate(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    task_ns = 20 * SECOND;
    deactivating = deactivate_never;
    cr_expect_eq(probe_leave(task, &probe, NULL, NULL), 0);
    return teff_sleep(task, 2500 * MS);
}

Test(life_mail, while_it_is_abandoned_in_deactivate)
{
    send_in_state(prepare_abandoned_in_deactivate, "1 2 3 4 5 6 ");
}

static int hang(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    return wait_for_task(turn);
}

static int prepare_stuck(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    task_ns = 20 * SECOND;
    acting = hang;
    cr_expect_eq(probe_act_send(task, &probe, NULL), 0);
    return teff_sleep(task, 2500 * MS);
}

Test(life_mail, while_it_is_abandoned_as_stuck)
{
    send_in_state(prepare_stuck, "1 2 3 4 5 6 ");
}

static int prepare_gone(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(probe_leave(task, &probe, NULL, NULL), 0);
    return teff_sleep(task, 0);
}

Test(life_mail, where_it_is_gone)
{
    send_in_state(prepare_gone, "1 2 3 4 5 6 ");
}

/* --- With a directory that needs time -------------------------------------------------------- */

static void begin_slow(void)
{
    created = slow_install;
    slow.at_once = true;
    begin_mail();
}

static void end_slow(void)
{
    slow.at_once = true;
    end();
}

TestSuite(life_mail_slow, .init = begin_slow, .fini = end_slow);

static int send_six_at_once(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    for (int64_t i = 1; i <= 6; i++)
        cr_expect_eq(probe_note_send(task, &probe, &(struct ask){ .number = i }), 0);
    return 0;
}

Test(life_mail_slow, of_one_that_is_stuck_it_waits_for_the_next_to_be_registered)
{
    cr_assert_eq(in_task(0, prepare_stuck, NULL), 0);
    cr_assert_eq(in_task(1, send_six_at_once, NULL), 0);
    slow.at_once = false;
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(grain_counts().gone[TEFF_DEACTIVATED_STUCK], 1);
    cr_expect_str_eq(story, "");
    cr_assert_eq(slow.asked_count, 1);
    cr_assert_eq(in_task(1, send_six_at_once, NULL), 0);
    cr_expect_str_eq(story, "");
    slow_answer_all();
    slow.at_once = true;
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_expect_str_eq(story, "1 2 3 4 5 6 1 2 3 4 5 6 ", "%s", story);
    cr_expect_eq(number_of(1), 12);
    cr_expect_eq(grain_counts().resident, 1);
}
