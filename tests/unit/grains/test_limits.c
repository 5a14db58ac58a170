/* SPDX-License-Identifier: MIT */
/*
 * Limits: mailboxes that are long and that are full, activations that there may be, memory. What is
 * refused has not run, changes nothing, and says why.
 */
#include "noticing.h"

enum { WARN = 4, MAX = 8 };

static void begin_small(void)
{
    begin_noticing((teff_silo_options){ .workers = 2, .mailbox_warn = WARN, .mailbox_max = MAX });
}

TestSuite(limits_of_mailboxes, .init = begin_small, .fini = end);

/* --- Mailboxes ----------------------------------------------------------------------------- */

/* Puts so many requests into the mailbox of probe 1, each of which rests for a second. */
static int send_rests(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    for (intptr_t i = 0; i < (intptr_t)user; i++)
        cr_expect_eq(probe_rest_send(task, &probe, &(struct ask){ .number = SECOND }), 0);
    return 0;
}

/* On the worker where probe 1 lives. Time does not pass. */
static void send(intptr_t count)
{
    cr_assert_eq(in_task(0, send_rests, (void *)count), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
}

/* From now on one request of probe 1 runs, and nothing waits. */
static void occupy(void)
{
    send(1);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 0);
}

static void serve(int count)
{
    cr_assert_eq(teff_silo_advance(silo, count * SECOND), 0);
}

Test(limits_of_mailboxes, more_than_mailbox_warn_give_one_notice_however_many_come)
{
    occupy();
    send(WARN);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 0);
    send(1);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    cr_assert_eq(noticed.last.count, 5);
    cr_assert_eq(noticed.last.worker, 0);
    cr_assert_str_eq(noticed.type, "probe");
    cr_assert_str_eq(noticed.text, "worker 0: probe/1: 5 messages wait for it");
    send(3);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
}

Test(limits_of_mailboxes, mailbox_max_is_still_where_calls_are_refused)
{
    struct told told;
    probe_ref probe = probe_at(1);
    occupy();
    send(MAX);
    cr_assert_eq(probe_get(client, &probe, NULL, &told), TEFF_EOVERLOADED);
    cr_assert_str_eq(teff_outcome_last(client)->text, "the grain's mailbox is full");
    cr_assert_not(teff_outcome_last(client)->may_have_run);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    serve(1);
    cr_assert_eq(probe_get_send(client, &probe, NULL), 0);
    serve(8);
    cr_assert_eq(seen.turns, 10); /* the one, the eight, and the last */
}

static int overfill(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    (void)send_rests(task, (void *)(intptr_t)MAX);
    cr_expect_eq(probe_get(task, &probe, NULL, NULL), TEFF_EOVERLOADED);
    cr_expect_str_eq(teff_outcome_last(task)->text, "the grain's mailbox is full");
    cr_expect_eq(probe_get_send(task, &probe, NULL), TEFF_EOVERLOADED);
    cr_expect_str_eq(teff_outcome_last(task)->text, "the grain's mailbox is full");
    return 0;
}

Test(limits_of_mailboxes, where_it_is_seen_at_once_it_says_the_same)
{
    occupy();
    cr_assert_eq(in_task(0, overfill, NULL), 0);
}

Test(limits_of_mailboxes, the_next_notice_comes_once_half_was_left_and_not_before)
{
    occupy();
    send(WARN + 1);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    serve(2); /* one runs, three wait: not half */
    send(2);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    serve(3); /* one runs, two wait: half */
    send(2);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    send(1);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 2);
    cr_assert_eq(noticed.last.count, 5);
}

Test(limits_of_mailboxes, what_clients_and_other_workers_send_counts_too)
{
    probe_ref probe = probe_at(1);
    occupy();
    send(3);
    cr_assert_eq(in_task(1, send_rests, (void *)1), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 0);
    cr_assert_eq(probe_get_send(client, &probe, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    cr_assert_eq(noticed.last.count, 5);
}

Test(limits_of_mailboxes, so_does_what_is_sent_under_a_source)
{
    teff_cancel *cancel = NULL;
    cr_assert_eq(teff_cancel_create(silo, &cancel), 0);
    const teff_call_options under = { .struct_size = sizeof(under), .cancel = cancel };
    probe_ref probe = probe_at(1);
    occupy();
    send(WARN);
    cr_assert_eq(probe_get_send(teff_with(client, &under), &probe, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    send(3);
    teff_future future = probe_get_start(teff_with(client, &under), &probe, NULL);
    cr_assert_eq(probe_get_claim(client, future, NULL), TEFF_EOVERLOADED);
    cr_assert_null(teff_cancel_unref(cancel));
}

/* Five notes to each of a hundred grains, so fast that none of them runs in between. */
static int flood(teff_task *task, void *user)
{
    for (uint64_t key = 100; key < 200; key++) {
        probe_ref probe = probe_at(key);
        for (intptr_t i = 0; i < (intptr_t)user; i++)
            cr_expect_eq(probe_set_send(task, &probe, NULL), 0);
    }
    return 0;
}

static bool told_of[100];

static void remember(const teff_notice *notice)
{
    uint64_t key = 0;
    cr_expect_eq(teff_key_get_u64(&notice->grain.key, &key), 0);
    cr_assert(key >= 100 && key < 200);
    cr_expect_not(told_of[key - 100]);
    told_of[key - 100] = true;
}

Test(limits_of_mailboxes, too_many_at_once_to_be_told_of_are_told_of_with_their_next_request)
{
    noticing = remember;
    cr_assert_eq(in_task(0, flood, (void *)(intptr_t)(WARN + 1)), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 32);
    memset(told_of, 0, sizeof(told_of));
    cr_assert_eq(in_task(0, flood, (void *)(intptr_t)(WARN + 3)), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 64);
}

/* The grain leaves with all of it waiting, and comes back. */
Test(limits_of_mailboxes, a_grain_that_leaves_with_its_mailbox_long_serves_all_of_it)
{
    probe_ref probe = probe_at(1);
    occupy();
    cr_assert_eq(probe_leave_send(client, &probe, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    send(WARN);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    serve(1);
    cr_assert_eq(seen.activated, 2);
    send(1); /* three wait, and one runs: four */
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    serve(8);
    cr_assert_eq(seen.turns, 1 + 1 + WARN + 1);
}

Test(limits, a_warning_that_is_no_lower_than_the_limit_is_none)
{
    begin_noticing((teff_silo_options){ .mailbox_warn = MAX + 2, .mailbox_max = MAX });
    occupy();
    send(MAX);
    cr_assert_eq(number_of(1), -1);
    cr_assert_eq(teff_outcome_last(client)->code, TEFF_EOVERLOADED);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 0);
    end();
}

Test(limits, where_nobody_wants_to_know_a_warning_changes_nothing)
{
    begin_with((teff_silo_options){ .mailbox_warn = 1 });
    occupy();
    send(MAX);
    serve(MAX + 1);
    cr_assert_eq(seen.turns, MAX + 1);
    end();
}

Test(limits, a_warning_at_one_is_given_again_when_the_mailbox_was_empty)
{
    begin_noticing((teff_silo_options){ .mailbox_warn = 1 });
    occupy();
    send(2);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    serve(1);
    send(1);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    serve(2);
    send(2);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 2);
    end();
}

/* --- Activations --------------------------------------------------------------------------- */

static const char no_place[] =
    "Failed to create an instance: there are activations_max of them in the silo";

static void begin_few(void)
{
    begin_noticing((teff_silo_options){ .workers = 4, .activations_max = 3 });
}

TestSuite(limits_of_activations, .init = begin_few, .fini = end);

static void leave(uint64_t key)
{
    probe_ref probe = probe_at(key);
    cr_assert_eq(probe_leave(client, &probe, NULL, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
}

static void expect_no_place(uint64_t key)
{
    cr_assert_eq(number_of(key), -1);
    cr_assert_eq(teff_outcome_last(client)->code, TEFF_EOVERLOADED);
    cr_assert_str_eq(teff_outcome_last(client)->text, no_place);
    cr_assert_not(teff_outcome_last(client)->may_have_run);
}

Test(limits_of_activations, there_are_so_many_and_no_more)
{
    for (uint64_t key = 1; key <= 3; key++)
        cr_assert_eq(number_of(key), 0);
    for (uint64_t key = 4; key < 100; key++)
        expect_no_place(key);
    for (uint64_t key = 1; key <= 3; key++) /* those that are there go on */
        cr_assert_eq(number_of(key), 0);
    cr_assert_eq(seen.activated, 3);
    cr_assert_eq(teff__silo_grain_count(silo), 3);
    leave(2);
    cr_assert_eq(number_of(4), 0);
    expect_no_place(2);
}

Test(limits_of_activations, one_notice_is_given_each_time_the_last_place_is_taken)
{
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(number_of(2), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_GRAINS], 0);
    cr_assert_eq(number_of(3), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_GRAINS], 1);
    cr_assert_eq(noticed.last.count, 3);
    cr_assert_null(noticed.last.grain.type);
    cr_assert_str_eq(strchr(noticed.text, ':'),
                     ": 3 grains are in memory: no more may be (activations_max)");
    for (uint64_t key = 4; key < 20; key++)
        expect_no_place(key);
    cr_assert_eq(noticed.times[TEFF_NOTICE_GRAINS], 1);
    leave(1);
    cr_assert_eq(noticed.times[TEFF_NOTICE_GRAINS], 1);
    cr_assert_eq(number_of(4), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_GRAINS], 2);
}

static int call_a_fourth(teff_caller *caller, void *user)
{
    teff_future future;
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    cr_expect_eq(probe_get(caller, &probe, NULL, NULL), TEFF_EOVERLOADED);
    cr_expect_str_eq(teff_outcome_last(caller)->text, no_place);
    cr_expect_not(teff_outcome_last(caller)->may_have_run);
    cr_expect_eq(probe_get_send(caller, &probe, NULL), TEFF_EOVERLOADED);
    cr_expect_str_eq(teff_outcome_last(caller)->text, no_place);
    future = probe_get_start(caller, &probe, NULL);
    cr_expect_eq(probe_get_claim(caller, future, NULL), TEFF_EOVERLOADED);
    return 0;
}

Test(limits_of_activations, workers_are_refused_where_they_call)
{
    for (uint64_t key = 1; key <= 3; key++)
        cr_assert_eq(number_of(key), 0);
    for (int worker = 0; worker < 4; worker++)
        cr_assert_eq(in_task(worker, call_a_fourth, (void *)(uintptr_t)(10 + worker)), 0);
    cr_assert_eq(seen.activated, 3);
}

Test(limits_of_activations, one_that_comes_back_for_its_mail_keeps_its_place)
{
    probe_ref probe = probe_at(1);
    for (uint64_t key = 1; key <= 3; key++)
        cr_assert_eq(number_of(key), 0);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(probe_rest_send(client, &probe, &(struct ask){ .number = SECOND }), 0);
        cr_assert_eq(probe_leave_send(client, &probe, NULL), 0);
        cr_assert_eq(probe_rest_send(client, &probe, &(struct ask){ .number = SECOND }), 0);
        cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
        expect_no_place(4);
        cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    }
    cr_assert_eq(seen.activated, 3 + 10);
    cr_assert_eq(noticed.times[TEFF_NOTICE_GRAINS], 1);
}

static int never_activates(teff_turn *turn, struct probe *self)
{
    (void)turn, (void)self;
    return 7;
}

Test(limits_of_activations, one_that_fails_gives_its_place_back)
{
    activating = never_activates;
    for (uint64_t key = 1; key < 20; key++) {
        cr_assert_eq(number_of(key), -1);
        cr_assert_eq(teff_outcome_last(client)->code, 7);
    }
    activating = NULL;
    for (uint64_t key = 1; key <= 3; key++)
        cr_assert_eq(number_of(key), 0);
    expect_no_place(4);
}

Test(limits_of_activations, so_does_one_for_which_there_is_no_memory)
{
    probe_ref probe = probe_at(3);
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(number_of(2), 0);
    for (uint64_t n = 1;; n++) {
        teff__memory_fail_at(teff__silo_memory(silo), n);
        const int r = probe_get(client, &probe, NULL, NULL);
        teff__memory_fail_at(teff__silo_memory(silo), 0);
        if (r == 0)
            break;
        cr_assert_eq(r, TEFF_ENOMEM);
        cr_assert_lt(n, 20);
    }
    expect_no_place(4);
    leave(3);
    cr_assert_eq(number_of(4), 0);
}

Test(limits_of_activations, a_grain_whose_request_is_called_off_before_its_turn_takes_none)
{
    teff_cancel *cancel = NULL;
    cr_assert_eq(teff_cancel_create(silo, &cancel), 0);
    const teff_call_options under = { .struct_size = sizeof(under), .cancel = cancel };
    for (uint64_t key = 1; key < 20; key++) {
        probe_ref probe = probe_at(key);
        cr_assert_eq(probe_get_send(teff_with(client, &under), &probe, NULL), 0);
    }
    teff_cancel_fire(cancel);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(seen.activated, 0);
    for (uint64_t key = 1; key <= 3; key++)
        cr_assert_eq(number_of(key), 0);
    expect_no_place(4);
    cr_assert_null(teff_cancel_unref(cancel));
}

/* --- Memory -------------------------------------------------------------------------------- */

TestSuite(limits_of_memory, .init = begin, .fini = end);

static const char no_memory[] = "Failed to create an instance, or the way to it: out of memory";

Test(limits_of_memory, a_grain_for_which_there_is_none_is_refused_and_made_when_there_is_again)
{
    teff__memory *memory = teff__silo_memory(silo);
    cr_assert_eq(number_of(1), 0); /* what calls need is there */
    const uint64_t bytes = bytes_allocated();
    memory->bytes_max = bytes; /* not one more */
    for (uint64_t key = 2; key < 50; key++) {
        cr_assert_eq(number_of(key), -1);
        cr_assert_eq(teff_outcome_last(client)->code, TEFF_ENOMEM);
        cr_assert_str_eq(teff_outcome_last(client)->text, no_memory);
        cr_assert_not(teff_outcome_last(client)->may_have_run);
    }
    cr_assert_eq(number_of(1), 0); /* that is there goes on */
    cr_assert_eq(bytes_allocated(), bytes);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff__silo_grain_count(silo), 1);
    cr_assert_eq(seen.activated, 1);
    memory->bytes_max = 0;
    for (uint64_t key = 2; key < 50; key++)
        cr_assert_eq(number_of(key), 0);
}

Test(limits_of_memory, what_a_grain_that_goes_gives_back_another_one_gets)
{
    teff__memory *memory = teff__silo_memory(silo);
    for (uint64_t key = 1; key <= 100;
         key++) /* what the directory needs for all of them is there */
        cr_assert_eq(number_of(key), 0);
    for (uint64_t key = 9; key <= 100; key++)
        leave(key);
    memory->bytes_max = bytes_allocated();
    for (uint64_t key = 8; key < 100; key++) {
        cr_assert_eq(number_of(key + 1), -1);
        leave(key);
        cr_assert_eq(number_of(key + 1), 0);
    }
    cr_assert_eq(bytes_allocated(), memory->bytes_max);
    memory->bytes_max = 0;
}

static int create_until_refused(teff_task *task, void *user)
{
    uint64_t *made = user;
    int r = 0;
    for (*made = 0; r == 0; ++*made) {
        probe_ref probe = probe_at(*made);
        r = probe_get(task, &probe, NULL, NULL);
        cr_expect_eq(teff_outcome_last(task)->may_have_run, r == 0);
    }
    cr_expect_str_eq(teff_outcome_last(task)->text, no_memory);
    --*made;
    return r;
}

Test(limits, a_silo_that_may_not_allocate_more_has_so_many_grains_until_some_go)
{
    enum { ROOM = 16 << 20 };
    uint64_t made = 0;
    begin_with((teff_silo_options){ .memory_bytes_max = ROOM });
    cr_assert_eq(number_of(0), 0); /* what the client needs is there */
    cr_assert_eq(in_task(0, create_until_refused, &made), TEFF_ENOMEM);
    cr_assert_gt(made, 10000);
    cr_assert_leq(bytes_allocated(), ROOM);
    cr_assert_eq(teff__silo_grain_count(silo), made);
    cr_assert_eq(number_of(made - 1), 0);
    for (uint64_t key = 0; key < 100; key++)
        leave(key);
    for (uint64_t key = 0; key < 100; key++)
        cr_assert_eq(number_of(key), 0);
    end();
}
