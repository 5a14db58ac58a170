/* SPDX-License-Identifier: MIT */
/* Buffers that do not arrive: whoever drops a message gives them back. */
#include "buffers.h"

TestSuite(buffers_dropped, .init = open_two, .fini = close_silo);

static teff_bytes *bytes; /* of the test */

static void settle_boxes(void)
{
    bytes = bytes_of("dropped");
    cr_assert_eq(in_task(0, settle_box, (void *)1), 0);
    cr_assert_eq(in_task(1, settle_box, (void *)2), 0);
    turns = 0;
}

/* All counts but the test's own are back. */
static void all_back(void)
{
    cr_assert_eq(count_of(bytes), 1);
    cr_assert_eq(held(), 1);
    teff_bytes_unref(bytes);
}

/* Runs the same in a task of worker 0, with box 1 here and box 2 there, and with the client. */
static void by_all(int (*run)(teff_caller *caller, void *user))
{
    settle_boxes();
    cr_assert_eq(in_task(0, run, (void *)1), 0);
    cr_assert_eq(in_task(0, run, (void *)2), 0);
    cr_assert_eq(run(client, (void *)1), 0);
    cr_assert_eq(run(client, (void *)2), 0);
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    (void)teff_client_run(client, 0);
}

static const struct sack *sack_of(int64_t number)
{
    static struct sack sacks[2];
    struct sack *sack = &sacks[number != 0];
    *sack = (struct sack){ bytes, number };
    return sack;
}

/* --- Time, and nobody who waits ------------------------------------------------------------------ */

static int times_out(teff_caller *caller, void *user)
{
    box_ref box = box_at((uint64_t)(uintptr_t)user);
    struct sack ret = { 0 };
    cr_expect_eq(box_nap(teff_within(caller, 10 * MS), &box, sack_of(SECOND), &ret),
                 TEFF_ETIMEDOUT);
    cr_expect_null(ret.bytes);
    return 0;
}

Test(buffers_dropped, a_late_answer_gives_its_own_back)
{
    by_all(times_out);
    cr_assert_geq(naps_ended, 1);
    all_back();
}

static int expires(teff_caller *caller, void *user)
{
    box_ref box = box_at((uint64_t)(uintptr_t)user);
    const teff_future nap = box_nap_start(caller, &box, sack_of(SECOND));
    cr_expect_eq(box_echo(teff_within(caller, 10 * MS), &box, sack_of(0), NULL), TEFF_ETIMEDOUT);
    return box_nap_claim(caller, nap, NULL);
}

Test(buffers_dropped, an_expired_request_gives_its_own_back)
{
    by_all(expires);
    cr_assert_eq(turns, 4); /* the naps */
    all_back();
}

static int leaves_futures(teff_caller *caller, void *user)
{
    teff_client *other = NULL;
    box_ref box = box_at((uint64_t)(uintptr_t)user);
    if (caller == client) {
        cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
        caller = other;
    }
    (void)box_echo_start(caller, &box, sack_of(0));
    cr_expect_eq(box_echo(caller, &box, NULL, NULL), 0); /* by now the first one has ended */
    (void)box_nap_start(caller, &box, sack_of(SECOND));
    (void)box_echo_start(caller, &box, sack_of(0));
    cr_expect_null(teff_client_destroy(other));
    return 0;
}

Test(buffers_dropped, futures_that_nobody_claims_give_theirs_back)
{
    by_all(leaves_futures);
    cr_assert_eq(turns, 16);
    all_back();
}

static int cancels(teff_caller *caller, void *user)
{
    box_ref box = box_at((uint64_t)(uintptr_t)user);
    teff_cancel *cancel = NULL;
    cr_expect_eq(teff_cancel_create(silo, &cancel), 0);
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = cancel };
    const teff_future nap = box_nap_start(teff_with(caller, &options), &box, sack_of(SECOND));
    const teff_future queued = box_echo_start(teff_with(caller, &options), &box, sack_of(0));
    cr_expect_eq(teff_sleep(caller, MS), 0); /* the one runs, the other is queued */
    teff_cancel_fire(cancel);
    cr_expect_eq(box_nap_claim(caller, nap, NULL), TEFF_ECANCELED);
    cr_expect_eq(box_echo_claim(caller, queued, NULL), TEFF_ECANCELED);
    cr_expect_eq(box_echo(teff_with(caller, &options), &box, sack_of(0), NULL), TEFF_ECANCELED);
    teff_cancel_unref(cancel);
    return 0;
}

Test(buffers_dropped, cancelled_calls_give_theirs_back)
{
    by_all(cancels);
    cr_assert_eq(turns, 4);
    all_back();
}

static teff_cancel *fired_by_turn;

static int fires_and_answers(teff_turn *turn, const struct sack *arg, struct sack *ret)
{
    (void)turn;
    teff_cancel_fire(fired_by_turn);
    ret->bytes = teff_bytes_ref(arg->bytes);
    return 0;
}

static int answered_too_late(teff_caller *caller, void *user)
{
    box_ref box = box_at((uint64_t)(uintptr_t)user);
    struct sack ret = { 0 };
    cr_expect_eq(teff_cancel_create(silo, &fired_by_turn), 0);
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = fired_by_turn };
    cr_expect_eq(box_act(teff_with(caller, &options), &box, sack_of(0), &ret), TEFF_ECANCELED);
    cr_expect_null(ret.bytes);
    teff_cancel_unref(fired_by_turn);
    return 0;
}

Test(buffers_dropped, an_answer_that_comes_after_its_source_has_fired_gives_its_own_back)
{
    acting = fires_and_answers;
    by_all(answered_too_late);
    cr_assert_eq(turns, 4);
    all_back();
}

/* --- Refused ------------------------------------------------------------------------------------- */

static int calls_nobody(teff_caller *caller, void *user)
{
    static const teff_method methods[] = { { "take", sizeof(struct sack), 0, TEFF_ARG_BYTES(1) } };
    static const teff_interface unknown = { { "unknown" }, methods, 1 };
    static const teff_name none = { "no such type" };
    box_ref box = box_at((uint64_t)(uintptr_t)user), nobody = box_of(&none, teff_key_u64(1));
    cr_expect_eq(teff_call(caller, &box.ref, &unknown, 0, sack_of(0), NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call_send(caller, &box.ref, &unknown, 0, sack_of(0)), 0);
    cr_expect_eq(box_echo(caller, &nobody, sack_of(0), NULL), TEFF_EINVAL);
    cr_expect_eq(box_note_send(caller, &nobody, sack_of(0)), TEFF_EINVAL);
    box.ref.key.size = 9;
    box.ref.route = 0;
    cr_expect_eq(box_echo(caller, &box, sack_of(0), NULL), TEFF_EINVAL);
    const teff_future future = box_echo_start(caller, &box, sack_of(0));
    cr_expect_eq(box_echo_claim(caller, future, NULL), TEFF_EINVAL);
    return 0;
}

Test(buffers_dropped, requests_to_what_does_not_exist_give_theirs_back)
{
    by_all(calls_nobody);
    cr_assert_eq(turns, 0);
    all_back();
}

static int fails_to_activate(teff_caller *caller, void *user)
{
    box_ref box = box_at(10 + (uint64_t)(uintptr_t)user);
    (void)box_note_send(caller, &box, sack_of(0));
    cr_expect_eq(box_echo(caller, &box, sack_of(0), NULL), 9);
    cr_expect_str_eq(teff_outcome_last(caller)->text, "no box today");
    return 0;
}

static void fail_activations(void)
{
    activation_result = 9;
}

Test(buffers_dropped, what_waits_for_an_activation_that_fails_gives_its_own_back)
{
    settle_boxes();
    fail_activations();
    cr_assert_eq(in_task(0, fails_to_activate, (void *)1), 0);
    cr_assert_eq(fails_to_activate(client, (void *)2), 0);
    cr_assert_eq(turns, 0);
    all_back();
}

Test(buffers_dropped_small, a_full_mailbox_gives_them_back)
{
    open_silo_with((teff_silo_options){ .workers = 2, .mailbox_max = 1 });
    settle_boxes();
    box_ref box = box_at(1);
    const teff_future nap = box_nap_start(client, &box, sack_of(SECOND));
    cr_assert_eq(teff_silo_run(silo), 0);
    teff_future futures[5];
    for (int i = 0; i < 5; i++)
        futures[i] = box_echo_start(client, &box, sack_of(0));
    for (int i = 0; i < 3; i++)
        cr_assert_eq(box_note_send(client, &box, sack_of(0)), 0);
    cr_assert_eq(count_of(bytes), 10);
    cr_assert_eq(box_nap_claim(client, nap, NULL), 0);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(box_echo_claim(client, futures[i], NULL), i == 0 ? 0 : TEFF_EOVERLOADED);
    cr_assert_eq(turns, 2);
    all_back();
    close_silo();
}

static int fill_from_task(teff_task *task, void *user)
{
    box_ref box = box_at((uint64_t)(uintptr_t)user);
    const teff_future nap = box_nap_start(task, &box, sack_of(SECOND));
    (void)teff_sleep(task, MS);
    const teff_future waits = box_echo_start(task, &box, sack_of(0));
    (void)teff_sleep(task, MS);
    cr_expect_eq(box_echo(task, &box, sack_of(0), NULL), TEFF_EOVERLOADED);
    cr_expect_eq(box_note_send(task, &box, sack_of(0)),
                 (uintptr_t)user == 1 ? TEFF_EOVERLOADED : 0); /* there it is seen later */
    cr_expect_eq(box_echo_claim(task, waits, NULL), 0);
    return box_nap_claim(task, nap, NULL);
}

Test(buffers_dropped_small, a_full_mailbox_of_the_same_worker_or_another_gives_them_back)
{
    open_silo_with((teff_silo_options){ .workers = 2, .mailbox_max = 1 });
    settle_boxes();
    cr_assert_eq(in_task(0, fill_from_task, (void *)1), 0);
    cr_assert_eq(in_task(0, fill_from_task, (void *)2), 0);
    cr_assert_eq(turns, 4);
    all_back();
    close_silo();
}

/* --- On the way ---------------------------------------------------------------------------------- */

static int leaves_with_mail(teff_caller *caller, void *user)
{
    box_ref box = box_at((uint64_t)(uintptr_t)user);
    struct sack ret = { 0 };
    const teff_future leaving = box_leave_start(caller, &box, sack_of(0));
    const teff_future next = box_echo_start(caller, &box, sack_of(0));
    cr_expect_eq(box_echo_claim(caller, next, &ret), 0);
    cr_expect_eq(ret.bytes, bytes);
    teff_bytes_unref(ret.bytes);
    return box_leave_claim(caller, leaving, NULL);
}

Test(buffers_dropped, mail_of_a_grain_that_deactivates_goes_to_the_next_one_with_its_buffers)
{
    by_all(leaves_with_mail);
    cr_assert_eq(turns, 8);
    all_back();
}

static int activate_elsewhere(teff_task *task, void *user)
{
    (void)user;
    for (uint64_t key = 20; key < 30; key++) {
        box_ref box = box_at(key);
        cr_expect_eq(box_echo(task, &box, sack_of(0), NULL), 0);
    }
    return 0;
}

Test(buffers_dropped, a_request_that_is_forwarded_takes_its_buffers_along)
{
    settle_boxes();
    cr_assert_eq(in_task(1, activate_elsewhere, NULL), 0);
    for (uint64_t key = 20; key < 30; key++) { /* half of them go to worker 0 first */
        box_ref box = box_at(key);
        struct sack ret = { 0 };
        cr_assert_eq(box_echo(client, &box, sack_of(0), &ret), 0);
        cr_assert_eq(ret.bytes, bytes);
        teff_bytes_unref(ret.bytes);
    }
    all_back();
}

/* --- The silo stops ------------------------------------------------------------------------------ */

static void completed(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct sack *ret)
{
    (void)caller, (void)outcome;
    ++*(int *)user;
    if (ret != NULL)
        teff_bytes_unref(ret->bytes);
}

static int completions;

static int leaves_much_open(teff_caller *caller, void *user)
{
    for (uint64_t key = 1; key <= 6; key++) {
        box_ref box = box_at(key);
        (void)box_nap_start(caller, &box, sack_of(1000 * SECOND));
        (void)box_echo_start(caller, &box, sack_of(0));
        (void)box_note_send(caller, &box, sack_of(0));
        (void)box_echo_then(caller, &box, sack_of(0), completed, &completions);
    }
    box_ref box = box_at(1);
    if (user != NULL)
        (void)box_nap(caller, &box, sack_of(1000 * SECOND), NULL);
    return 0;
}

Test(buffers_dropped, with_everything_in_flight_stop_gives_all_back)
{
    settle_boxes();
    for (int i = 0; i < 10; i++)
        cr_assert_eq(teff_silo_spawn(silo, i % 2, leaves_much_open, &silo, NULL, NULL), 0);
    leaves_much_open(client, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_gt(count_of(bytes), 100);
    cr_assert_eq(teff_silo_stop(silo), 0);
    while (teff_client_run(client, 0) == 0)
        continue;
    cr_assert_eq(completions, 66);
    cr_assert_null(teff_client_destroy(client));
    client = NULL;
    cr_assert_eq(teff_silo_destroy(silo), silo);
    all_back();
}

Test(buffers_dropped, with_mail_not_even_looked_at_stop_gives_all_back)
{
    settle_boxes();
    leaves_much_open(client, NULL);
    cr_assert_eq(teff_silo_stop(silo), 0);
    while (teff_client_run(client, 0) == 0)
        continue;
    cr_assert_null(teff_client_destroy(client));
    client = NULL;
    cr_assert_eq(teff_silo_destroy(silo), silo);
    all_back();
}

static int never_ends_in_time(teff_turn *turn, const struct sack *arg, struct sack *ret)
{
    (void)arg, (void)ret;
    (void)teff_sleep(turn, 1000 * SECOND);
    naps_ended++;
    be_slow(100 * SECOND);
    return 0;
}

static int waits_for_it(teff_task *task, void *user)
{
    box_ref box = box_at((uint64_t)(uintptr_t)user);
    (void)box_echo_start(task, &box, sack_of(0));
    return box_act(task, &box, sack_of(1), NULL);
}

Test(buffers_dropped_late, a_turn_whose_stack_is_dropped_gives_its_argument_back)
{
    open_two();
    acting = never_ends_in_time;
    settle_boxes();
    for (uintptr_t key = 100; key < 300; key++)
        cr_assert_eq(teff_silo_spawn(silo, 0, waits_for_it, (void *)key, NULL, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(turns, 200 + 200);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_lt(naps_ended, 200); /* the first ones took all the time that there was */
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(teff_silo_destroy(silo), silo);
    all_back();
    cr_assert_null(teff_silo_destroy(silo));
}

static int begun;

static void waits_for_ever(teff_caller *caller, void *user, const teff_outcome *outcome,
                           const struct sack *ret)
{
    (void)user, (void)outcome;
    begun++;
    if (ret != NULL)
        teff_bytes_unref(ret->bytes);
    if (caller != NULL)
        (void)teff_sleep(caller, 1000 * SECOND);
    be_slow(100 * SECOND);
}

static int completes(teff_turn *turn, const struct sack *arg, struct sack *ret)
{
    box_ref box = box_at(1);
    (void)ret;
    return box_echo_then(turn, &box, arg, waits_for_ever, NULL);
}

Test(buffers_dropped_late, a_completion_whose_stack_is_dropped_was_called_all_the_same_and_once)
{
    open_two();
    acting = completes;
    settle_boxes();
    for (uint64_t key = 100; key < 300; key++) {
        box_ref box = box_at(key);
        cr_assert_eq(box_act(client, &box, sack_of(0), NULL), 0);
    }
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(begun, 200);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(begun, 200);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(teff_silo_destroy(silo), silo);
    all_back();
    cr_assert_null(teff_silo_destroy(silo));
}

static int resumed;

static int takes_its_answer_slowly(teff_task *task, void *user)
{
    box_ref box = box_at((uint64_t)(uintptr_t)user);
    struct sack ret = { 0 };
    (void)box_echo_start(task, &box, sack_of(0));
    (void)box_nap(task, &box, sack_of(SECOND), &ret);
    teff_bytes_unref(ret.bytes);
    resumed++;
    be_slow(100 * SECOND);
    return 0;
}

Test(buffers_dropped_late, answers_and_futures_of_tasks_whose_stacks_are_dropped_give_theirs_back)
{
    open_two();
    settle_boxes();
    for (uintptr_t key = 1000; key < 1600; key++)
        cr_assert_eq(teff_silo_spawn(silo, 0, takes_its_answer_slowly, (void *)key, NULL, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(turns, 1200); /* all futures are settled, and all naps have begun */
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(naps_ended, 600);
    cr_assert_gt(resumed, 0);
    cr_assert_lt(resumed, 600);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(teff_silo_destroy(silo), silo);
    all_back();
    cr_assert_null(teff_silo_destroy(silo));
}
