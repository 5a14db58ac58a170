/* SPDX-License-Identifier: MIT */
/*
 * Notices: on which stack they come, what a program may do there, and what is refused.
 */
#include "noticing.h"

#include "grains/notice.h"
#include "messaging/exchange.h"

#include <semaphore.h>
#include <time.h>

static void begin_small(void)
{
    begin_noticing((teff_silo_options){ .workers = 2, .mailbox_warn = 2, .activations_max = 2 });
}

TestSuite(notice, .init = begin_small, .fini = end);

static const teff__catalog *catalog_of(const teff_notice *notice)
{
    return teff__silo_grains(silo)->catalogs[notice->worker];
}

/* --- Where --------------------------------------------------------------------------------- */

static int send_three(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    for (int i = 0; i < 3; i++)
        cr_expect_eq(probe_note_send(task, &probe, &(struct ask){ .number = i }), 0);
    tell("sent ");
    return 0;
}

static void tell_where(const teff_notice *notice)
{
    cr_expect(teff__worker_here(&catalog_of(notice)->worker));
    tell("noticed:%d ", (int)notice->kind);
}

Test(notice, it_comes_between_turns_and_not_in_the_one_that_gave_cause)
{
    noticing = tell_where;
    spawn(0, send_three, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    /* The task is over before; what it sent runs in the same pass. */
    cr_assert_str_eq(story, "sent 0 1 2 noticed:0 ");
}

static void expect_no_lock(const teff_notice *notice)
{
    (void)notice;
    /* Whoever held a lock of the silo's would find it taken, or out of order, here. */
    teff__mutex_lock(&teff__silo_grains(silo)->exchange->lock);
    teff__mutex_unlock(&teff__silo_grains(silo)->exchange->lock);
    (void)teff__silo_grain_count(silo); /* takes those of the directory */
}

Test(notice, no_lock_is_held)
{
    noticing = expect_no_lock;
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(number_of(2), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_GRAINS], 1);
}

/* --- What may be done there ---------------------------------------------------------------- */

static teff_cancel *cancel;

static int call_after(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    tell("task ");
    return probe_get(task, &probe, NULL, NULL);
}

static void react(const teff_notice *notice)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    cr_expect_eq(teff_silo_spawn(silo, notice->worker, call_after, NULL, NULL, NULL), 0);
    teff_cancel_fire(cancel);
    cr_expect_eq(teff_silo_grain_counts(silo, &counts), 0);
    cr_expect_eq(counts.resident, 1);
}

Test(notice, there_a_program_may_spawn_a_task_fire_a_source_and_count)
{
    int code = 4711;
    cr_assert_eq(teff_cancel_create(silo, &cancel), 0);
    const teff_call_options under = { .struct_size = sizeof(under), .cancel = cancel };
    probe_ref probe = probe_at(1);
    noticing = react;
    cr_assert_eq(probe_rest_send(client, &probe, &(struct ask){ .number = SECOND }), 0);
    const teff_future future = probe_get_start(teff_with(client, &under), &probe, NULL);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(probe_note_send(client, &probe, NULL), 0);
    code = probe_get_claim(client, future, NULL);
    cr_assert_eq(code, TEFF_ECANCELED); /* before the rest was over */
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
    cr_assert_str_eq(strstr(story, "task "), "task ");
    cr_assert_null(teff_cancel_unref(cancel));
    cancel = NULL;
}

static void wait_there(const teff_notice *notice)
{
    teff_client *made = NULL;
    uint64_t count = 4711;
    const teff_call_filter filter = { .struct_size = sizeof(filter), .older_ns = 1 };
    probe_ref probe = probe_at(1);
    (void)notice;
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_count_open(silo, &filter, &count), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_client_create(silo, NULL, &made), TEFF_EINVALIDSTATE);
    cr_expect_eq(probe_get(client, &probe, NULL, NULL), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_run(silo), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_silo_destroy(silo), silo);
}

Test(notice, there_a_program_may_not_wait)
{
    noticing = wait_there;
    spawn(0, send_three, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_MAILBOX], 1);
}

static void stopped(void *user, int result)
{
    (void)user;
    tell("stopped:%d ", result);
}

static void stop_there(const teff_notice *notice)
{
    (void)notice;
    cr_expect_eq(teff_silo_stop_then(silo, stopped, NULL), 0);
}

Test(notice, there_a_program_may_begin_to_stop)
{
    noticing = stop_there;
    cr_assert_eq(number_of(1), 0);
    (void)number_of(2); /* takes the last place, and is served or not: the silo stops */
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_str_eq(story, "stopped:0 ");
    cr_assert_eq(seen.activated, seen.deactivated);
}

/* --- What each says ------------------------------------------------------------------------ */

Test(notice, each_kind_is_a_sentence)
{
    static const struct {
        teff_notice_kind kind;
        uint64_t count;
        bool grain;
        const char *text;
    } rows[] = {
        { TEFF_NOTICE_MAILBOX, 7, true, "worker 0: probe/1: 7 messages wait for it" },
        { TEFF_NOTICE_ACTIVATE, 0, true,
          "worker 0: probe/1: given up: activate is not over within activate_timeout_ns" },
        { TEFF_NOTICE_DEACTIVATE, 0, true,
          "worker 0: probe/1: given up: deactivate is not over within deactivate_timeout_ns" },
        { TEFF_NOTICE_STUCK, 0, true,
          "worker 0: probe/1: given up: a turn has been suspended for longer than stuck_ns" },
        { TEFF_NOTICE_GRAINS, 9, false,
          "worker 0: 9 grains are in memory: no more may be (activations_max)" },
        { TEFF_NOTICE_MEMORY, 11, false,
          "worker 0: 11 grains are to go, if they may: memory is short (shed_at_percent)" },
    };
    teff__catalog *catalog = teff__silo_grains(silo)->catalogs[0];
    cr_assert_eq(in_task(0, send_three, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    uint32_t slot = 0;
    const teff__activation *activation = teff__slotmap_next(&catalog->activations, &slot);
    cr_assert_not_null(activation);
    memset(&noticed, 0, sizeof(noticed));
    for (int i = 0; i < NOTICE_KINDS; i++) {
        cr_assert(
            teff__notice(catalog, rows[i].kind, rows[i].grain ? activation : NULL, rows[i].count));
        cr_expect_eq(noticed.times[rows[i].kind], 1);
        cr_expect_eq(noticed.last.count, rows[i].count);
        cr_expect_str_eq(noticed.text, rows[i].text);
        cr_expect_eq(noticed.last.grain.type != NULL, rows[i].grain);
        if (rows[i].grain)
            cr_expect_eq(noticed.last.grain.route, activation->record.address);
    }
}

static int give_hundred(teff_task *task, void *user)
{
    teff__catalog *catalog = teff__silo_grains(silo)->catalogs[0];
    int kept = 0;
    (void)task, (void)user;
    for (uint64_t i = 1; i <= 100; i++)
        kept += teff__notice(catalog, TEFF_NOTICE_STUCK, NULL, i);
    return kept;
}

Test(notice, a_turn_may_give_so_many_that_some_are_lost_but_not_without_a_word)
{
    cr_assert_eq(in_task(0, give_hundred, NULL), 96);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(noticed.times[TEFF_NOTICE_STUCK], 96);
    cr_assert_eq(noticed.last.count, 96);
}

/* --- On threads ---------------------------------------------------------------------------- */

static sem_t told_on_thread;

static void on_thread_notice(void *user, const teff_notice *notice)
{
    (void)user, (void)notice;
    (void)sem_post(&told_on_thread);
}

static int send_again(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    for (int i = 0; i < 3; i++)
        (void)probe_set_send(task, &probe, NULL);
    return 0;
}

Test(notice_on_threads, a_worker_does_not_go_to_sleep_over_one, .timeout = 100)
{
    struct timespec until;
    const teff_silo_options options = {
        .struct_size = sizeof(options), .workers = 1, .mailbox_warn = 2, .notice = on_thread_notice
    };
    cr_assert_eq(sem_init(&told_on_thread, 0, 0), 0);
    cr_assert_eq(teff_silo_create(&options, &silo), 0);
    cr_assert_eq(teff_silo_register(silo, &probe_grain, &seen), 0);
    cr_assert_eq(teff_silo_start(silo), 0);
    cr_assert_eq(teff_client_create(silo, NULL, &client), 0);
    for (int i = 0; i < 20; i++) /* from here on it runs many items in a pass */
        cr_assert_eq(number_of(1), 0);
    spawn(0, send_again, NULL);
    /* All of it is done in one pass, and nothing else comes to wake the worker. */
    cr_assert_eq(clock_gettime(CLOCK_REALTIME, &until), 0);
    until.tv_sec += 30;
    cr_expect_eq(sem_timedwait(&told_on_thread, &until), 0);
    end();
}

Test(notice_to_nobody, where_none_is_wanted_all_of_it_is_nothing)
{
    begin_with((teff_silo_options){ .mailbox_warn = 2, .activations_max = 1 });
    cr_assert_eq(in_task(0, send_three, NULL), 0);
    cr_assert_eq(in_task(0, give_hundred, NULL), 100);
    cr_assert_eq(number_of(2), -1);
    cr_assert_eq(teff_outcome_last(client)->code, TEFF_EOVERLOADED);
    end();
}
