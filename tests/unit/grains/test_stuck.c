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
