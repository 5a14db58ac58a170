/* SPDX-License-Identifier: MIT */
/* Completions of blocking clients: teff_client_run, waiting meanwhile, and the client's end. */
#include "messaging/client.h"
#include "runtime/thread.h"

#include "calls.h"

TestSuite(then_client, .init = begin, .fini = end);

static void tell_outcome(teff_caller *caller, void *user, const teff_outcome *outcome,
                         const struct told *ret)
{
    cr_expect_eq(caller, client);
    tell("%s[%d %s %s %s %s]", (const char *)user, outcome->code,
         outcome->may_have_run ? "ran" : "not", outcome->method->name, outcome->text,
         ret != NULL ? "ret" : "null");
}

static void tell_code(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct told *ret)
{
    cr_expect_eq(caller, client);
    cr_expect_eq(ret != NULL, outcome->code == 0);
    tell("%s%d ", (const char *)user, outcome->code);
}

static void tell_note(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const teff_none *ret)
{
    cr_expect_eq(caller, client);
    cr_expect_null(ret);
    tell("%s%d ", (const char *)user, outcome->code);
}

static int rest_then(uint64_t key, int64_t duration_ns, const char *user)
{
    probe_ref probe = probe_at(key);
    return probe_rest_then(client, &probe, &(struct ask){ .number = duration_ns }, tell_code,
                           (void *)(uintptr_t)user);
}

/* --- Running ------------------------------------------------------------------------------- */

Test(then_client, one_runs_in_client_run_only_and_once)
{
    struct told told;
    probe_ref probe = probe_at(1), other = probe_at(2);
    cr_assert_eq(probe_get_then(client, &probe, NULL, tell_outcome, ""), 0);
    cr_assert_eq(teff_outcome_last(client)->code, 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(probe_get(client, &other, NULL, &told), 0); /* nor while it waits */
    cr_assert_str_eq(story, "");
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_str_eq(story, "[0 ran get  ret]");
    cr_assert_eq(teff_client_run(client, 0), TEFF_ETIMEDOUT);
    cr_assert_eq(teff_silo_advance(silo, 100 * SECOND), 0);
    cr_assert_eq(teff_client_run(client, 0), TEFF_ETIMEDOUT);
    cr_assert_str_eq(story, "[0 ran get  ret]");
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

Test(then_client, a_failure_comes_with_text_and_origin)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(
        probe_fail_then(client, &probe, &(struct ask){ 7, "the room is full" }, tell_outcome, ""),
        0);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    cr_assert_str_eq(story, "[7 ran fail the room is full null]");
}

Test(then_client, what_is_refused_where_it_arrives_comes_with_its_text)
{
    probe_ref probe = probe_at(1);
    teff__silo_grains(silo)->mailbox_max = 1;
    teff__silo_grains(silo)->catalogs[0]->mailbox_look = 1;
    cr_assert_eq(probe_rest_send(client, &probe, &(struct ask){ .number = 10 * MS }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(probe_note_send(client, &probe, NULL), 0); /* fills it */
    cr_assert_eq(probe_get_then(client, &probe, NULL, tell_outcome, ""), 0);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    cr_assert_str_eq(story, "[-10008 not get the grain's mailbox is full null]");
}

Test(then_client, in_a_simulated_silo_an_answer_after_the_deadline_comes_too_late)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_rest_then(teff_within(client, 10 * MS), &probe,
                                 &(struct ask){ .number = 20 * MS }, tell_code, ""),
                 0);
    cr_assert_eq(teff_silo_advance(silo, 100 * MS), 0);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_str_eq(story, "-10006 ");
}

Test(then_client, run_waits_for_the_first_and_a_later_one_needs_another_run)
{
    const int64_t before_ns = teff_now_ns(client);
    cr_assert_eq(rest_then(1, 20 * MS, "b"), 0);
    cr_assert_eq(rest_then(2, 10 * MS, "a"), 0);
    cr_assert_eq(teff_client_run(client, 5 * MS), TEFF_ETIMEDOUT);
    cr_assert_eq(teff_now_ns(client) - before_ns, 5 * MS);
    cr_assert_eq(teff_client_run(client, 0), TEFF_ETIMEDOUT);
    cr_assert_eq(teff_now_ns(client) - before_ns, 5 * MS);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    cr_assert_eq(teff_now_ns(client) - before_ns, 10 * MS);
    cr_assert_str_eq(story, "a0 ");
    cr_assert_eq(teff_client_run(client, INT64_MAX), 0);
    cr_assert_eq(teff_now_ns(client) - before_ns, 20 * MS);
    cr_assert_str_eq(story, "a0 b0 ");
    cr_assert_eq(teff_client_run(client, INT64_MAX), TEFF_ETIMEDOUT); /* at rest for ever */
}

Test(then_client, all_that_are_ready_run_in_the_order_they_ended)
{
    for (uint64_t i = 0; i < 5; i++)
        cr_assert_eq(rest_then(i, (int64_t)(5 - i) * MS,
                               (const char *[]){ "0:", "1:", "2:", "3:", "4:" }[i]),
                     0);
    cr_assert_eq(teff_silo_advance(silo, 10 * MS), 0);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_str_eq(story, "4:0 3:0 2:0 1:0 0:0 ");
}

Test(then_client, its_deadline_ends_one_in_run_and_while_the_client_waits_for_others)
{
    const int64_t before_ns = teff_now_ns(client);
    probe_ref probe = probe_at(1), brief = probe_at(2);
    const struct ask hour = { .number = 3600 * SECOND };
    cr_assert_eq(probe_rest_then(teff_within(client, 10 * MS), &probe, &hour, tell_code, "a"), 0);
    cr_assert_eq(probe_brief_then(client, &brief, &hour, tell_code, "b"), 0);
    cr_assert_eq(rest_then(3, 3600 * SECOND, "c"), 0);
    cr_assert_eq(teff_client_run(client, INT64_MAX), 0);
    cr_assert_eq(teff_now_ns(client) - before_ns, 10 * MS);
    cr_assert_str_eq(story, "a-10006 ");
    cr_assert_eq(teff_sleep(client, 600 * MS), 0); /* over the 500 ms of the row */
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_str_eq(story, "a-10006 b-10006 ");
    cr_assert_eq(teff_client_run(client, INT64_MAX), 0);
    const int64_t took_ns = teff_now_ns(client) - before_ns;
    cr_assert(took_ns >= 30 * SECOND && took_ns <= 30 * SECOND + MS);
    cr_assert_str_eq(story, "a-10006 b-10006 c-10006 ");
}

Test(then_client, that_of_a_one_way_row_runs_in_the_next_run)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_note_then(client, &probe, &(struct ask){ .number = 3 }, tell_note, "n"), 0);
    cr_assert_str_eq(story, "");
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_str_eq(story, "n0 ");
    cr_assert_eq(number_of(1), 1);
}

/* --- Inside one ---------------------------------------------------------------------------- */

static int depth;

static void do_what_it_may(teff_caller *caller, void *user, const teff_outcome *outcome,
                           const struct told *ret)
{
    struct told told = { .number = -1 };
    probe_ref probe = probe_at(5), noted = probe_at(6);
    (void)user, (void)outcome;
    cr_expect_eq(ret->number, 23);
    cr_expect_eq(probe_get(caller, &probe, NULL, &told), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_outcome_last(caller)->code, TEFF_EWOULDBLOCK);
    cr_expect_not(teff_outcome_last(caller)->may_have_run);
    cr_expect_eq(teff_sleep(caller, 0), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_client_run(caller, 0), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_client_destroy(caller), caller);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    cr_expect_eq(probe_note_send(caller, &noted, &(struct ask){ .number = depth }), 0);
    cr_expect_eq(probe_note(caller, &noted, &(struct ask){ .number = depth }, NULL), 0);
    if (++depth < 3)
        cr_expect_eq(probe_get_then(caller, &probe, NULL, do_what_it_may, NULL), 0);
}

Test(then_client, inside_one_the_client_may_send_start_and_open_but_not_wait_or_stop)
{
    probe_ref probe = probe_at(5);
    cr_assert_eq(probe_set(client, &probe, &(struct ask){ .number = 23 }, NULL), 0);
    cr_assert_eq(probe_get_then(client, &probe, NULL, do_what_it_may, NULL), 0);
    for (int i = 1; i <= 3; i++) {
        cr_assert_eq(teff_client_run(client, SECOND), 0);
        cr_assert_eq(depth, i);
        cr_assert_eq(probe_set(client, &probe, &(struct ask){ .number = 23 }, NULL), 0);
    }
    cr_assert_str_eq(story, "0 0 1 1 2 2 ");
    cr_assert_eq(teff_silo_stop(silo), 0); /* outside it may */
}

static void stopped(void *user, int result)
{
    (void)user;
    tell("stopped%d ", result);
}

static void begin_stop_inside(teff_caller *caller, void *user, const teff_outcome *outcome,
                              const struct told *ret)
{
    probe_ref probe = probe_at(5);
    (void)user, (void)outcome, (void)ret;
    cr_expect_eq(teff_silo_stop_then(silo, stopped, NULL), 0);
    cr_expect_eq(probe_get_then(caller, &probe, NULL, tell_code, ""), TEFF_EUNAVAILABLE);
    cr_expect_eq(probe_note_then(caller, &probe, NULL, tell_note, ""), TEFF_EUNAVAILABLE);
}

Test(then_client, one_may_begin_to_stop_the_silo)
{
    probe_ref probe = probe_at(5);
    cr_assert_eq(probe_get_then(client, &probe, NULL, begin_stop_inside, NULL), 0);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    cr_assert_eq(teff_client_run(client, SECOND), TEFF_EUNAVAILABLE);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_str_eq(story, "stopped0 ");
}

/* --- Who may run it ------------------------------------------------------------------------ */

static int run_on_worker(teff_task *task, void *user)
{
    (void)user;
    cr_expect_eq(teff_client_run(task, 0), TEFF_EINVALIDSTATE); /* no client */
    return teff_client_run(client, 0);
}

Test(then_client, run_is_refused_without_a_client_and_on_a_worker)
{
    cr_assert_eq(teff_client_run(NULL, 0), TEFF_EINVAL);
    cr_assert_eq(teff_client_run(client, -1), TEFF_EINVAL);
    cr_assert_eq(in_task(0, run_on_worker, NULL), TEFF_EWOULDBLOCK);
    cr_assert_eq(in_turn(1, (body_of_caller *)run_on_worker), TEFF_EWOULDBLOCK);
}

static void run_elsewhere(void *argument)
{
    *(int *)argument = teff_client_run(client, 0);
}

Test(then_client, run_is_refused_on_another_thread)
{
    int r = 0;
    teff__thread thread;
    cr_assert_eq(teff__thread_start(&thread, run_elsewhere, &r, "elsewhere"), 0);
    teff__thread_join(&thread);
    cr_assert_eq(r, TEFF_EINVALIDSTATE);
}

/* --- Its end, and the silo's --------------------------------------------------------------- */

static void open_no_more(teff_caller *caller, void *user, const teff_outcome *outcome,
                         const struct told *ret)
{
    probe_ref probe = probe_at(5);
    (void)user;
    cr_expect_eq(outcome->code, TEFF_ECANCELED);
    cr_expect(outcome->may_have_run);
    cr_expect_null(ret);
    cr_expect_eq(probe_get(caller, &probe, NULL, NULL), TEFF_EINVALIDSTATE);
    cr_expect_eq(probe_get_send(caller, &probe, NULL), TEFF_EINVALIDSTATE);
    cr_expect_eq(probe_get_then(caller, &probe, NULL, tell_code, ""), TEFF_EINVALIDSTATE);
    cr_expect_eq(probe_note_then(caller, &probe, NULL, tell_note, ""), TEFF_EINVALIDSTATE);
    const teff_future future = probe_get_start(caller, &probe, NULL);
    int status = 0;
    cr_expect(teff__future_is_status(future.id, &status));
    cr_expect_eq(status, TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_client_destroy(caller), caller);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    tell("told ");
}

Test(then_client, destroy_runs_what_is_open_with_ecanceled_and_what_is_ready_as_it_ended)
{
    probe_ref probe = probe_at(5), other = probe_at(6);
    const struct ask hour = { .number = 3600 * SECOND };
    cr_assert_eq(probe_get_then(client, &other, NULL, tell_code, "r"), 0);
    cr_assert_eq(probe_note_then(client, &other, NULL, tell_note, "n"), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(probe_rest_then(client, &probe, &hour, open_no_more, NULL), 0);
    (void)start_rest(client, 7, 10 * MS);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(strlen(story), strlen("0 n0 r0 told "));
    cr_assert_not_null(strstr(story, "r0 "));
    cr_assert_not_null(strstr(story, "told "));
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(silo_counts().late, 1);
    cr_assert_eq(teff_client_create(silo, NULL, &client), 0);
    cr_assert_eq(teff_client_run(client, 0), TEFF_ETIMEDOUT);
}

static void begin_brief_stop(void)
{
    begin_with((teff_silo_options){ .stop_timeout_ns = 100 * MS });
}

TestSuite(then_client_stop, .init = begin_brief_stop, .fini = end);

Test(then_client_stop, stop_ends_one_whose_callee_is_stuck_with_eunavailable)
{
    const int64_t before_ns = teff_now_ns(client);
    cr_assert_eq(rest_then(1, 20 * SECOND, "stuck"), 0);
    cr_assert_eq(rest_then(2, 50 * MS, "quick"), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_leq(teff_now_ns(client) - before_ns, 3 * SECOND);
    while (teff_client_run(client, INT64_MAX) == 0)
        continue;
    cr_assert_str_eq(story, "quick0 stuck0 "); /* its sleep was ended, and it said so in time */
    cr_assert_eq(teff_client_run(client, INT64_MAX), TEFF_EUNAVAILABLE);
    cr_assert_eq(rest_then(1, 0, "no"), TEFF_EUNAVAILABLE);
    cr_assert_not(teff_outcome_last(client)->may_have_run);
}

Test(then_client_stop, its_deadline_ends_one_while_the_client_waits_for_stop)
{
    const int64_t before_ns = teff_now_ns(client);
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_rest_then(teff_within(client, 20 * MS), &probe,
                                 &(struct ask){ .number = 90 * MS }, tell_code, "late"),
                 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_geq(teff_now_ns(client) - before_ns, 90 * MS);
    while (teff_client_run(client, 0) == 0)
        continue;
    cr_assert_str_eq(story, "late-10006 ");
}

/* --- On threads ---------------------------------------------------------------------------- */

static void begin_two_threads(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 2,
                                        .stop_timeout_ns = 10 * MS };
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

TestSuite(then_client_threads, .init = begin_two_threads, .fini = end);

static int done_count;

static void count_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct told *ret)
{
    (void)ret;
    cr_expect_eq(caller, client);
    done_count += outcome->code == (int)(intptr_t)user;
}

Test(then_client_threads, each_of_10000_runs_once_on_the_clients_thread)
{
    for (int i = 0; i < 10000; i++) {
        probe_ref probe = probe_at((uint64_t)i % 100);
        cr_assert_eq(probe_get_then(client, &probe, NULL, count_done, NULL), 0);
        if (i % 1000 == 0)
            (void)teff_client_run(client, 0);
    }
    while (done_count < 10000)
        cr_assert_eq(teff_client_run(client, 10 * SECOND), 0);
    cr_assert_eq(done_count, 10000);
    cr_assert_eq(teff_client_run(client, 0), TEFF_ETIMEDOUT);
}

Test(then_client_threads, run_ends_a_call_at_its_deadline)
{
    probe_ref probe = probe_at(1);
    const int64_t before_ns = teff_now_ns(client);
    cr_assert_eq(probe_rest_then(teff_within(client, 5 * MS), &probe,
                                 &(struct ask){ .number = 50 * MS }, count_done,
                                 (void *)(intptr_t)TEFF_ETIMEDOUT),
                 0);
    cr_assert_eq(teff_client_run(client, INT64_MAX), 0);
    cr_assert_eq(done_count, 1);
    cr_assert_geq(teff_now_ns(client) - before_ns, 5 * MS);
    cr_assert_eq(teff_client_run(client, MS), TEFF_ETIMEDOUT);
}

static void stop_elsewhere(void *argument)
{
    const teff__client *sleeper = (const teff__client *)(const void *)client;
    while (teff__atomic_u32_load_seq_cst(&sleeper->stripe->sleeping) == 0)
        teff__cpu_relax();
    *(int *)argument = teff_silo_stop(silo);
}

Test(then_client_threads, stop_wakes_a_client_that_runs_with_eunavailable)
{
    int r = -1;
    teff__thread thread;
    cr_assert_eq(teff__thread_start(&thread, stop_elsewhere, &r, "stop"), 0);
    cr_assert_eq(teff_client_run(client, INT64_MAX), TEFF_EUNAVAILABLE);
    teff__thread_join(&thread);
    cr_assert_eq(r, 0);
}

static int hold(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    const teff__client *sleeper = (const teff__client *)(const void *)client;
    (void)turn, (void)self, (void)arg, (void)ret;
    while (teff__atomic_u32_load_seq_cst(&sleeper->stripe->gate) == 0)
        teff__cpu_relax();
    return 0;
}

Test(then_client_threads, what_is_open_when_stop_begins_elsewhere_still_completes_in_run)
{
    int r = -1;
    teff__thread thread;
    probe_ref probe = probe_at(1);
    acting = hold;
    cr_assert_eq(probe_act_then(client, &probe, NULL, count_done, NULL), 0);
    cr_assert_eq(teff__thread_start(&thread, stop_elsewhere, &r, "stop"), 0);
    cr_assert_eq(teff_client_run(client, INT64_MAX), 0);
    cr_assert_eq(done_count, 1);
    cr_assert_eq(teff_client_run(client, INT64_MAX), TEFF_EUNAVAILABLE);
    teff__thread_join(&thread);
    cr_assert_eq(r, 0);
}
