/* SPDX-License-Identifier: MIT */
/* What became of a call, in every form: teff_outcome_last, turn_fail, turn_pass, may_have_run. */
#include "grains/turn.h"

#include "calls.h"

TestSuite(outcome, .init = begin, .fini = end);
TestSuite(outcome_on_four, .init = begin_four_workers, .fini = end);

/* One call of a row, in each form. */
enum form { CALL, START, THEN, FORMS };

static struct {
    int count, code;
    bool may_have_run;
    const teff_method *method;
    char text[300];
} got;

static void note(const teff_outcome *outcome)
{
    got.count++;
    got.code = outcome->code;
    got.may_have_run = outcome->may_have_run;
    got.method = outcome->method;
    (void)snprintf(got.text, sizeof(got.text), "%s", outcome->text);
}

static void note_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct told *ret)
{
    (void)caller, (void)user;
    cr_expect_eq(ret != NULL, outcome->code == 0);
    note(outcome);
}

/* Any of the rows that take an ask and give a told. */
static int ask_in(enum form form, teff_caller *caller, probe_ref *probe, uint32_t row,
                  const struct ask *arg)
{
    const teff_interface *of = &probe_interface;
    const int before = got.count;
    int r;
    if (form == THEN) {
        r = teff_call_then(caller, &probe->ref, of, row, arg, probe_act_thunk,
                           (teff__any *)note_done, NULL);
        if (r == 0) {
            cr_expect_eq(teff_outcome_last(caller)->code, 0);
            while (got.count == before)
                cr_expect_eq(caller == client ? teff_client_run(client, INT64_MAX)
                                              : teff_sleep(caller, MS),
                             0);
            return got.code;
        }
    } else if (form == START) {
        r = teff_call_claim(caller, teff_call_start(caller, &probe->ref, of, row, arg), of, row,
                            NULL);
    } else {
        r = teff_call(caller, &probe->ref, of, row, arg, NULL);
    }
    note(teff_outcome_last(caller));
    cr_expect_eq(r, got.code);
    return r;
}

static void expect(int code, bool may_have_run, const char *method, const char *text)
{
    cr_expect_eq(got.code, code, "code %d", got.code);
    cr_expect_eq(got.may_have_run, may_have_run, "of code %d", code);
    cr_expect_str_eq(got.method != NULL ? got.method->name : "none", method);
    cr_expect_str_eq(got.text, text);
}

/* --- What it tells ------------------------------------------------------------------------- */

static int tell_all(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5), nowhere = probe_of(&(teff_name){ "nobody" }, teff_key_u64(1));
    const struct ask second = { .number = SECOND };
    (void)user;
    for (enum form form = CALL; form < FORMS; form++) {
        (void)ask_in(form, caller, &probe, probe_number_rest, NULL);
        expect(0, true, "rest", "");
        (void)ask_in(form, caller, &probe, probe_number_fail, &(struct ask){ 7, "full" });
        expect(7, true, "fail", "full");
        (void)ask_in(form, caller, &probe, probe_number_fail, &(struct ask){ .number = 8 });
        expect(8, true, "fail", teff_status_text(8));
        (void)ask_in(form, caller, &probe, probe_number_fail,
                     &(struct ask){ .number = TEFF_EREJECTED });
        expect(TEFF_EREJECTED, true, "fail", teff_status_text(TEFF_EREJECTED));
        (void)ask_in(form, teff_within(caller, MS), &probe, probe_number_rest, &second);
        expect(TEFF_ETIMEDOUT, true, "rest",
               "no answer before the deadline: the outcome says whether the call may have run");
        cr_expect_eq(teff_sleep(caller, 2 * SECOND), 0); /* it is free again */
        (void)ask_in(form, teff_within(caller, 0), &probe, probe_number_rest, NULL);
        expect(TEFF_EINVAL, false, "rest",
               "an argument or option is invalid: see the function's description");
        (void)ask_in(form, caller, &nowhere, probe_number_rest, NULL);
        expect(TEFF_EINVAL, false, "rest",
               form == START ? "an argument or option is invalid: see the function's description"
                             : "no grain type of the reference's name was registered");
        (void)ask_in(form, caller, &probe, probe_number_act, &second);
        expect(6, true, "act", "six");
    }
    return 5;
}

static int answer_six(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    if (arg->number == 0)
        return act_body(turn, self, arg, ret);
    return teff_turn_fail(turn, 6, "%s", "six");
}

Test(outcome, it_tells_code_text_method_and_whether_it_may_have_run_in_every_form)
{
    acting = answer_six;
    cr_assert_eq(tell_all(client, NULL), 5);
    cr_assert_eq(in_task(0, tell_all, NULL), 5);
}

Test(outcome_on_four, it_does_so_across_workers)
{
    acting = answer_six;
    cr_assert_eq(tell_all(client, NULL), 5);
    for (int worker = 0; worker < 4; worker++)
        cr_assert_eq(in_task(worker, tell_all, NULL), 5);
}

static int has_none_yet(teff_caller *caller, void *user)
{
    const teff_outcome *outcome = teff_outcome_last(caller);
    (void)user;
    cr_expect_eq(outcome->code, 0);
    cr_expect_not(outcome->may_have_run);
    cr_expect_null(outcome->method);
    cr_expect_str_eq(outcome->text, "");
    return 5;
}

Test(outcome, before_the_first_call_there_is_none_and_null_has_an_outcome_too)
{
    cr_assert_eq(has_none_yet(client, NULL), 5);
    cr_assert_eq(in_task(0, has_none_yet, NULL), 5);
    cr_assert_eq(in_turn(1, has_none_yet), 5);
    cr_assert_eq(in_turn(1, has_none_yet), 5); /* nor does it last from turn to turn */
    cr_assert_eq(teff_outcome_last(NULL)->code, TEFF_EINVAL);
    cr_assert_not_null(teff_outcome_last(NULL)->text);
}

static int send_after_failure(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    const struct ask no = { 7, "no" };
    cr_expect_eq(probe_fail(caller, &probe, &no, NULL), 7);
    cr_expect_eq(probe_note_send(caller, &probe, NULL), 0);
    cr_expect_eq(teff_outcome_last(caller)->code, 0);
    cr_expect(teff_outcome_last(caller)->may_have_run);
    cr_expect_str_eq(teff_outcome_last(caller)->method->name, "note");
    cr_expect_str_eq(teff_outcome_last(caller)->text, "");
    cr_expect_eq(probe_fail(caller, &probe, &no, NULL), 7);
    const teff_future future = probe_get_start(caller, &probe, NULL);
    cr_expect_eq(teff_outcome_last(caller)->code, 0);
    cr_expect_str_eq(teff_outcome_last(caller)->method->name, "get");
    cr_expect_eq(probe_fail(caller, &probe, &no, NULL), 7);
    cr_expect_eq(probe_get_claim(caller, future, NULL), 0);
    cr_expect_eq(teff_outcome_last(caller)->code, 0);
    return 5;
}

Test(outcome, a_call_that_went_well_leaves_nothing_of_the_failure_before_it)
{
    by_each(send_after_failure, 5);
}

/* --- Failing, and passing on --------------------------------------------------------------- */

static char long_text[600];

static int fail_in_odd_ways(teff_turn *turn, struct probe *self, const struct ask *arg,
                            struct told *ret)
{
    probe_ref probe = probe_at(5);
    (void)self;
    ret->number = 4711;
    switch (arg->number) {
    case 1: /* twice: the last one counts */
        (void)teff_turn_fail(turn, 3, "first");
        return teff_turn_fail(turn, 3, "second");
    case 2: /* with its own text as an argument */
        (void)teff_turn_fail(turn, 3, "inner");
        return teff_turn_fail(turn, 3, "outer: %s", ((teff__turn *)(void *)turn)->text);
    case 3: /* said no, and then yes */
        (void)teff_turn_fail(turn, 3, "no");
        return 0;
    case 4: /* too long for any response */
        return teff_turn_fail(turn, 3, "%s", long_text);
    case 5: /* passed on, a later call having gone well */
        cr_expect_eq(probe_fail(turn, &probe, &(struct ask){ 7, "deep" }, NULL), 7);
        cr_expect_eq(probe_rest(turn, &probe, NULL, NULL), 0);
        return teff_turn_pass(turn, 7);
    case 6: /* failed, then passed on one of the same code */
        (void)teff_turn_fail(turn, 7, "mine");
        return teff_turn_pass(turn, probe_fail(turn, &probe, &(struct ask){ 7, "deep" }, NULL));
    case 7: /* passed on, then failed with the same code */
        (void)teff_turn_pass(turn, probe_fail(turn, &probe, &(struct ask){ 7, "deep" }, NULL));
        return teff_turn_fail(turn, 7, "mine");
    case 8: /* passed on what the runtime could not do */
        return teff_turn_pass(turn, probe_rest(teff_within(turn, MS), &probe,
                                               &(struct ask){ .number = 10 * MS }, NULL));
    case 9: /* passed on what a claim gave */
        return teff_turn_pass(
            turn, probe_fail_claim(turn, probe_fail_start(turn, &probe, &(struct ask){ 7, "deep" }),
                                   NULL));
    default:
        return teff_turn_pass(turn, 0);
    }
}

static int ask_in_odd_ways(teff_caller *caller, void *user)
{
    char cut[256];
    probe_ref probe = probe_at(6);
    (void)user;
    memset(long_text, 'x', sizeof(long_text) - 1);
    for (enum form form = CALL; form < FORMS; form++) {
        static const struct {
            int code;
            const char *method, *text;
        } expected[] = {
            { 0, "act", "" },
            { 3, "act", "second" },
            { 3, "act", "outer: inner" },
            { 0, "act", "" },
            { 3, "act", NULL },
            { 7, "act", NULL },
            { 7, "fail", "deep" },
            { 7, "act", "mine" },
            { TEFF_ETIMEDOUT, "rest",
              "no answer before the deadline: the outcome says whether the call may have run" },
            { 7, "fail", "deep" },
        };
        for (int i = 0; i < 10; i++) {
            (void)ask_in(form, caller, &probe, probe_number_act, &(struct ask){ .number = i });
            if (i == 8)
                cr_expect_eq(teff_sleep(caller, 20 * MS), 0);
            if (i == 4) { /* cut to what the message has room for */
                const size_t length = strlen(got.text);
                cr_expect_geq(length, 100);
                cr_expect_lt(length, sizeof(cut));
                memset(cut, 'x', length);
                cut[length] = '\0';
                expect(3, true, "act", cut);
            } else {
                expect(expected[i].code, true, expected[i].method,
                       i == 5 ? teff_status_text(7) : expected[i].text);
            }
        }
    }
    return 5;
}

Test(outcome, turn_fail_and_turn_pass_say_whose_failure_it_was_in_every_form)
{
    acting = fail_in_odd_ways;
    cr_assert_eq(ask_in_odd_ways(client, NULL), 5);
    cr_assert_eq(in_task(0, ask_in_odd_ways, NULL), 5);
}

Test(outcome_on_four, turn_fail_and_turn_pass_say_so_across_workers)
{
    acting = fail_in_odd_ways;
    cr_assert_eq(ask_in_odd_ways(client, NULL), 5);
    for (int worker = 0; worker < 4; worker++)
        cr_assert_eq(in_task(worker, ask_in_odd_ways, NULL), 5);
}

/* --- Whether it may have run --------------------------------------------------------------- */

static void begin_small(void)
{
    begin_with((teff_silo_options){ .mailbox_max = 1 });
}

TestSuite(outcome_of_small_mailboxes, .init = begin_small, .fini = end);

static int overload(teff_caller *caller, void *user)
{
    (void)user;
    for (enum form form = CALL; form < FORMS; form++) {
        probe_ref probe = probe_at(5);
        cr_expect_eq(probe_rest_send(caller, &probe, &(struct ask){ .number = SECOND }), 0);
        cr_expect_eq(teff_sleep(caller, MS), 0);
        cr_expect_eq(probe_note_send(caller, &probe, NULL), 0); /* fills the mailbox */
        (void)ask_in(form, caller, &probe, probe_number_rest, NULL);
        cr_expect_eq(got.code, TEFF_EOVERLOADED);
        cr_expect_not(got.may_have_run);
        cr_expect_eq(teff_sleep(caller, 2 * SECOND), 0);
    }
    return 5;
}

Test(outcome_of_small_mailboxes, a_call_that_a_full_mailbox_refused_did_not_run)
{
    by_each(overload, 5);
}

static int fail_to_activate(teff_turn *turn, struct probe *self)
{
    const teff_key key = teff_key_u64(5);
    (void)self;
    return memcmp(teff_turn_key(turn), &key, sizeof(key)) == 0 ? teff_turn_fail(turn, 9, "no room")
                                                               : 0;
}

static int call_what_cannot_be_activated(teff_caller *caller, void *user)
{
    /* a turn cannot wait for its own completion */
    const enum form end = teff_turn_key(caller) != NULL ? THEN : FORMS;
    (void)user;
    for (enum form form = CALL; form < end; form++) {
        probe_ref probe = probe_at(5);
        (void)ask_in(form, caller, &probe, probe_number_rest, NULL);
        expect(9, false, "rest", "no room");
    }
    return 5;
}

Test(outcome, a_call_to_a_grain_that_cannot_be_activated_did_not_run)
{
    activating = fail_to_activate;
    by_each(call_what_cannot_be_activated, 5);
}
