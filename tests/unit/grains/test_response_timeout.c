/* SPDX-License-Identifier: MIT */
/*
 * The silo's response timeout changes while it runs, and is then true for calls in flight. It is 30 s
 * at first.
 */
#include "grains/observer.h"

#include "calls.h"

static void begin_two(void)
{
    begin_with((teff_silo_options){ .workers = 2 });
}

TestSuite(response_timeout, .init = begin_two, .fini = end);

#define set_timeout(NS) cr_expect_eq(teff_silo_set_response_timeout(silo, NS), 0)

/* Sets it when so much time has passed. */
static struct later {
    int64_t after_ns, timeout_ns;
} later;

static int set_later_run(teff_task *task, void *user)
{
    (void)user;
    cr_expect_eq(teff_sleep(task, later.after_ns), 0);
    set_timeout(later.timeout_ns);
    return 0;
}

static void set_later(int64_t after_ns, int64_t timeout_ns)
{
    later = (struct later){ after_ns, timeout_ns };
    cr_expect_eq(teff_silo_spawn(silo, 1, set_later_run, NULL, NULL, NULL), 0);
}

static uint64_t next_key = 1000;

/* How long a call that rests so long took, and what it came to: `code`. */
static int64_t rest(teff_caller *caller, int64_t rest_ns, int code)
{
    probe_ref probe = probe_at(next_key++);
    const int64_t before_ns = teff__silo_now_ns(silo);
    cr_expect_eq(probe_rest(caller, &probe, &(struct ask){ .number = rest_ns }, NULL), code);
    return teff__silo_now_ns(silo) - before_ns;
}

static void expect_about(int64_t took_ns, int64_t deadline_ns)
{
    cr_expect_geq(took_ns, deadline_ns, "%lld", (long long)took_ns);
    cr_expect_leq(took_ns, deadline_ns + MS, "%lld", (long long)took_ns);
}

/* In a turn that has time enough, whatever is set. */
static int in_long_turn(body_of_caller *body)
{
    struct told told = { .number = -4711 };
    probe_ref probe = probe_at(77);
    acting = act_body;
    bodies[0] = body;
    cr_assert_eq(probe_act(teff_within(client, 1000 * SECOND), &probe, &(struct ask){ 0 }, &told),
                 0);
    return (int)told.number;
}

static void by_all(body_of_caller *body, int result)
{
    cr_assert_eq(body(client, NULL), result);
    cr_assert_eq(in_task(0, body, NULL), result);
    cr_assert_eq(in_long_turn(body), result);
}

/* --- Calls in flight ----------------------------------------------------------------------- */

static int shorten(teff_caller *caller, void *user)
{
    (void)user;
    set_timeout(0); /* 30 s */
    set_later(500 * MS, SECOND);
    expect_about(rest(caller, 100 * SECOND, TEFF_ETIMEDOUT), SECOND);
    expect_about(rest(caller, 100 * SECOND, TEFF_ETIMEDOUT), SECOND); /* so from now on */
    set_timeout(0);
    set_later(5 * SECOND, SECOND);
    expect_about(rest(caller, 100 * SECOND, TEFF_ETIMEDOUT), 5 * SECOND); /* at once */
    return 1;
}

Test(response_timeout, case_6_a_call_in_flight_of_30_s_ends_after_1_s_when_that_is_set)
{
    by_all(shorten, 1);
}

static int lengthen(teff_caller *caller, void *user)
{
    (void)user;
    set_timeout(SECOND);
    set_later(500 * MS, 60 * SECOND);
    cr_expect_eq(rest(caller, 45 * SECOND, 0), 45 * SECOND);
    set_timeout(SECOND);
    set_later(500 * MS, 60 * SECOND);
    expect_about(rest(caller, 90 * SECOND, TEFF_ETIMEDOUT), 60 * SECOND);
    return 2;
}

Test(response_timeout, a_longer_one_holds_for_calls_in_flight_too)
{
    cr_assert_eq(lengthen(client, NULL), 2);
    cr_assert_eq(in_task(0, lengthen, NULL), 2);
    cr_assert_eq(in_task(1, lengthen, NULL), 2);
}

static int keep_own(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(next_key++);
    const int64_t before_ns = teff__silo_now_ns(silo);
    (void)user;
    set_timeout(0);
    set_later(100 * MS, 200 * MS);
    expect_about(rest(teff_within(caller, 3 * SECOND), 9 * SECOND, TEFF_ETIMEDOUT), 3 * SECOND);
    const int64_t then_ns = teff__silo_now_ns(silo);
    set_later(100 * MS, 40 * SECOND);
    cr_expect_eq(probe_brief(caller, &probe, &(struct ask){ .number = 9 * SECOND }, NULL),
                 TEFF_ETIMEDOUT);
    expect_about(teff__silo_now_ns(silo) - then_ns, 500 * MS);
    cr_expect_lt(then_ns - before_ns, 4 * SECOND);
    return 3;
}

Test(response_timeout, a_calls_own_and_a_rows_do_not_move)
{
    by_all(keep_own, 3);
}

static void tell_code(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct told *ret)
{
    (void)caller, (void)ret;
    tell("%d after %lld ms, ", outcome->code,
         (long long)((teff__silo_now_ns(silo) - *(int64_t *)user) / MS));
}

static int start_and_then(teff_caller *caller, void *user)
{
    static int64_t began_ns;
    probe_ref probe = probe_at(next_key++);
    struct told told;
    (void)user;
    began_ns = teff__silo_now_ns(silo);
    set_timeout(0);
    set_later(500 * MS, SECOND);
    const teff_future first = start_rest(caller, next_key++, 100 * SECOND);
    const teff_future own = start_rest(teff_within(caller, 2 * SECOND), next_key++, 100 * SECOND);
    cr_expect_eq(probe_rest_then(caller, &probe, &(struct ask){ .number = 100 * SECOND }, tell_code,
                                 &began_ns),
                 0);
    cr_expect_eq(probe_rest_claim(caller, first, &told), TEFF_ETIMEDOUT);
    expect_about(teff__silo_now_ns(silo) - began_ns, SECOND);
    cr_expect_eq(probe_rest_claim(caller, own, &told), TEFF_ETIMEDOUT);
    expect_about(teff__silo_now_ns(silo) - began_ns, 2 * SECOND);
    return 4;
}

Test(response_timeout, started_calls_and_completions_have_the_new_one)
{
    cr_assert_eq(in_task(0, start_and_then, NULL), 4);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "-10006 after 1000 ms, ");
    story[0] = '\0';
    cr_assert_eq(start_and_then(client, NULL), 4);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_str_eq(story, "-10006 after 2000 ms, "); /* when it was run */
    story[0] = '\0';
    cr_assert_eq(in_long_turn(start_and_then), 4);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "-10006 after 2000 ms, "); /* after its turn */
}

/* --- What a turn calls --------------------------------------------------------------------- */

static int64_t inner_ns, detached_ns;
static bool detached_first;

static int call_inside(teff_caller *turn, void *user)
{
    static const teff_call_options detached = { .struct_size = sizeof(detached), .detached = true };
    (void)user;
    if (!detached_first)
        inner_ns = rest(turn, 500 * SECOND, TEFF_ETIMEDOUT);
    detached_ns = rest(teff_with(turn, &detached), 500 * SECOND, TEFF_ETIMEDOUT);
    return 0;
}

static void call_within(int64_t turn_ns, int64_t timeout_ns)
{
    probe_ref probe = probe_at(next_key++);
    acting = act_body;
    bodies[0] = call_inside;
    set_timeout(0);
    set_later(SECOND, timeout_ns);
    cr_assert_eq(probe_act(teff_within(client, turn_ns), &probe, &(struct ask){ 0 }, NULL),
                 TEFF_ETIMEDOUT);
    cr_assert_eq(teff_silo_advance(silo, 300 * SECOND), 0);
}

Test(response_timeout, a_turns_calls_end_with_it_unless_detached_also_by_a_new_one)
{
    call_within(10 * SECOND, 60 * SECOND);
    expect_about(inner_ns, 10 * SECOND);
    expect_about(detached_ns, 60 * SECOND);
    call_within(40 * SECOND, 60 * SECOND); /* the silo's was the earlier one, and is not now */
    expect_about(inner_ns, 40 * SECOND);
    call_within(10 * SECOND, 5 * SECOND); /* the turn's was the earlier one, and is not now */
    expect_about(inner_ns, 5 * SECOND);
    expect_about(detached_ns, 5 * SECOND);
    detached_first = true;
    call_within(10 * SECOND, 60 * SECOND);
    expect_about(detached_ns, 60 * SECOND);
    call_within(4 * SECOND, 5 * SECOND);
    expect_about(detached_ns, 5 * SECOND);
}

static int open_for_long(teff_caller *turn, void *user)
{
    static int64_t began_ns;
    probe_ref probe = probe_at(next_key++);
    const struct ask ask = { .number = 500 * SECOND };
    (void)user;
    began_ns = teff__silo_now_ns(silo);
    return probe_rest_then(turn, &probe, &ask, tell_code, &began_ns);
}

Test(response_timeout, a_turns_calls_with_a_completion_end_with_its_deadline_too)
{
    probe_ref probe = probe_at(1);
    acting = act_body;
    bodies[0] = open_for_long;
    cr_assert_eq(probe_act(teff_within(client, 40 * SECOND), &probe, &(struct ask){ 0 }, NULL), 0);
    set_timeout(60 * SECOND);
    cr_assert_eq(teff_silo_advance(silo, 100 * SECOND), 0);
    cr_assert_str_eq(story, "-10006 after 40000 ms, ");
}

static void tell_caller(teff_caller *caller, void *user, const teff_outcome *outcome,
                        const struct told *ret)
{
    (void)user, (void)ret;
    tell("%d %s, ", outcome->code, caller != NULL ? "as a turn" : "alone");
}

static int open_detached(teff_caller *turn, void *user)
{
    static const teff_call_options detached = { .struct_size = sizeof(detached), .detached = true };
    probe_ref probe = probe_at(next_key++);
    (void)user;
    return probe_rest_then(teff_with(turn, &detached), &probe,
                           &(struct ask){ .number = 5 * SECOND }, tell_caller, NULL);
}

Test(response_timeout, a_completion_is_a_turn_also_after_the_deadline_of_the_one_that_opened_it)
{
    probe_ref probe = probe_at(1);
    acting = act_body;
    bodies[0] = open_detached;
    cr_assert_eq(probe_act(teff_within(client, SECOND), &probe, &(struct ask){ 0 }, NULL), 0);
    set_timeout(20 * SECOND);
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    cr_assert_str_eq(story, "0 as a turn, ");
}

static int64_t own_deadlines[2];

static int watch_deadline(teff_caller *turn, void *user)
{
    (void)user;
    own_deadlines[0] = teff_turn_deadline_ns(turn);
    cr_expect_eq(teff_sleep(turn, 2 * SECOND), 0);
    own_deadlines[1] = teff_turn_deadline_ns(turn);
    return 6;
}

Test(response_timeout, a_running_turns_own_deadline_stays)
{
    const int64_t now_ns = teff__silo_now_ns(silo);
    set_later(SECOND, 90 * SECOND);
    cr_assert_eq(in_turn(1, watch_deadline), 6);
    cr_assert_eq(own_deadlines[0], now_ns + 30 * SECOND);
    cr_assert_eq(own_deadlines[1], now_ns + 30 * SECOND);
}

/* --- What waits for its turn ---------------------------------------------------------------- */

static int get_queued(teff_task *task, void *user)
{
    struct told told;
    probe_ref probe = probe_at(1);
    (void)user;
    tell("%d ", probe_get(task, &probe, NULL, &told));
    return 0;
}

static void queue_behind(int64_t busy_ns)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_rest_send(client, &probe, &(struct ask){ .number = busy_ns }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    spawn(0, get_queued, NULL);
    spawn(1, get_queued, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
}

Test(response_timeout, requests_in_a_mailbox_wait_longer_when_it_is_longer)
{
    queue_behind(45 * SECOND);
    set_timeout(60 * SECOND);
    cr_assert_eq(teff_silo_advance(silo, 44 * SECOND), 0);
    cr_assert_str_eq(story, "");
    cr_assert_eq(teff_silo_advance(silo, 2 * SECOND), 0);
    cr_assert_str_eq(story, "0 0 ");
    cr_assert_eq(seen.turns, 3);
}

Test(response_timeout, requests_in_a_mailbox_never_run_when_it_was_shorter)
{
    queue_behind(20 * SECOND);
    set_timeout(SECOND);
    cr_assert_eq(teff_silo_advance(silo, 2 * SECOND), 0);
    cr_assert_str_eq(story, "-10006 -10006 ");
    cr_assert_eq(teff_silo_advance(silo, 60 * SECOND), 0);
    cr_assert_eq(seen.turns, 1);
    cr_assert_eq(silo_counts().late, 2);
}

Test(response_timeout, a_queued_turn_begins_with_the_deadline_that_its_call_has_then)
{
    probe_ref probe = probe_at(1);
    const int64_t now_ns = teff__silo_now_ns(silo);
    cr_assert_eq(probe_rest_send(client, &probe, &(struct ask){ .number = 3 * SECOND }), 0);
    send_turn(1, 0, watch_deadline); /* one that nobody waits for has none */
    set_later(SECOND, 90 * SECOND);
    cr_assert_eq(in_turn(1, watch_deadline), 6);
    cr_assert_eq(own_deadlines[0], now_ns + 90 * SECOND);
}

Test(response_timeout, one_way_requests_do_not_expire_whatever_is_set)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_rest_send(client, &probe, &(struct ask){ .number = 50 * SECOND }), 0);
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ .number = 8 }), 0);
    set_timeout(MS);
    cr_assert_eq(teff_silo_advance(silo, 60 * SECOND), 0);
    cr_assert_str_eq(story, "8 ");
}

/* --- Observers ----------------------------------------------------------------------------- */

static int observed(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    tell("heard %d, ", teff_turn_deadline_ns(turn) == INT64_MAX);
    return 0;
}

static teff_ref ear;

static int ask_observer(teff_task *task, void *user)
{
    probe_ref to = { ear };
    (void)user;
    tell("%d, ", probe_act(task, &to, &(struct ask){ 0 }, NULL));
    return 0;
}

Test(response_timeout, requests_to_observers_wait_longer_or_never_run_too)
{
    static struct probe self;
    acting = observed;
    cr_assert_eq(teff_observer_begin(client, &probe_handlers, &self, &ear), 0);
    spawn(0, ask_observer, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    set_timeout(60 * SECOND);
    cr_assert_eq(teff_silo_advance(silo, 40 * SECOND), 0);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "heard 0, 0, ");

    spawn(1, ask_observer, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    set_timeout(SECOND);
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
    cr_assert_str_eq(story, "heard 0, 0, -10006, ");
    cr_assert_eq(teff_client_run(client, 0), 0); /* it refuses the request */
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "heard 0, 0, -10006, ");
    cr_assert_eq(silo_counts().late, 1);
    cr_assert_eq(teff_observer_end(client, &ear), 0);
}

/* --- Setting it ---------------------------------------------------------------------------- */

static int64_t timeout_of_worker(int worker)
{
    return catalog_of_worker(worker)->defaults.response_timeout_ns;
}

Test(response_timeout, of_several_set_one_after_the_other_the_last_counts_everywhere)
{
    for (int round = 0; round < 3; round++) {
        for (int seconds = 1; seconds <= 5; seconds++)
            set_timeout((round * 10 + seconds) * SECOND);
        cr_assert_eq(timeout_of_worker(0), round == 0 ? 30 * SECOND : (round * 10 - 5) * SECOND);
        cr_assert_eq(teff_silo_run(silo), 0);
        cr_assert_eq(timeout_of_worker(0), (round * 10 + 5) * SECOND);
        cr_assert_eq(timeout_of_worker(1), (round * 10 + 5) * SECOND);
    }
    expect_about(rest(client, 100 * SECOND, TEFF_ETIMEDOUT), 25 * SECOND);
}

static int set_and_rest(teff_caller *caller, void *user)
{
    (void)user;
    set_timeout(0);
    cr_expect_eq(teff_sleep(caller, MS), 0);
    set_timeout(2 * SECOND); /* the mail that says so is not read before the call is opened */
    expect_about(rest(caller, 9 * SECOND, TEFF_ETIMEDOUT), 2 * SECOND);
    return 7;
}

Test(response_timeout, whoever_sets_it_has_it_for_the_next_call)
{
    by_all(set_and_rest, 7);
}

Test(response_timeout, zero_is_30_s_and_a_negative_one_no_timeout_at_all_is_refused)
{
    set_timeout(SECOND);
    cr_assert_eq(teff_silo_set_response_timeout(silo, -1), TEFF_EINVAL);
    cr_assert_eq(teff_silo_set_response_timeout(NULL, 1), TEFF_EINVAL);
    expect_about(rest(client, 100 * SECOND, TEFF_ETIMEDOUT), SECOND);
    set_timeout(0);
    expect_about(rest(client, 100 * SECOND, TEFF_ETIMEDOUT), 30 * SECOND);
    set_timeout(INT64_MAX);
    /* nearly as long as a turn may take before it is stuck */
    cr_assert_eq(rest(client, 7000 * SECOND, 0), 7000 * SECOND);
}

Test(response_timeout, it_may_be_set_while_the_silo_stops_and_not_after)
{
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(teff_silo_set_response_timeout(silo, SECOND), TEFF_EINVALIDSTATE);
}

Test(response_timeout_before, start_takes_what_was_set_before_it)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .simulated = true,
                                        .response_timeout_ns = 5 * SECOND };
    cr_assert_eq(teff_silo_create(&options, &silo), 0);
    cr_assert_eq(teff_silo_register(silo, &probe_grain, &seen), 0);
    set_timeout(2 * SECOND);
    cr_assert_eq(teff_silo_start(silo), 0);
    cr_assert_eq(teff_client_create(silo, NULL, &client), 0);
    expect_about(rest(client, 100 * SECOND, TEFF_ETIMEDOUT), 2 * SECOND);
    cr_assert_eq(timeout_of_worker(0), 2 * SECOND);
    end();
}

/* --- What is walked ------------------------------------------------------------------------ */

static uint32_t walks(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TEFF__STRIPES; i++)
        count += teff__silo_exchange(silo)->registry.stripes[i].walks;
    return count;
}

static int call_often(teff_caller *caller, void *user)
{
    (void)user;
    for (int i = 0; i < 200; i++) {
        probe_ref probe = probe_at((uint64_t)i % 10);
        cr_expect_eq(probe_rest(caller, &probe, &(struct ask){ .number = 10 * MS }, NULL), 0);
    }
    return 0;
}

static int wait_for_many(teff_task *task, void *user)
{
    teff_future futures[40];
    (void)user;
    for (int i = 0; i < 40; i++) /* all within a millisecond */
        futures[i] = start_rest(teff_within(task, SECOND + i * 20 * MS / 1000), 2000 + (uint64_t)i,
                                100 * SECOND);
    for (int i = 0; i < 40; i++)
        cr_expect_eq(probe_rest_claim(task, futures[i], NULL), TEFF_ETIMEDOUT);
    return 0;
}

Test(response_timeout, a_stripe_is_not_walked_more_than_once_a_millisecond)
{
    cr_assert_eq(in_task(0, wait_for_many, NULL), 0);
    cr_assert_eq(walks(), 2); /* for the first, and a period later for all others */
}

Test(response_timeout, a_stripe_with_nothing_due_is_not_walked)
{
    cr_assert_eq(call_often(client, NULL), 0);
    cr_assert_eq(in_task(0, call_often, NULL), 0);
    cr_assert_eq(teff_silo_advance(silo, 1000 * SECOND), 0); /* those deadlines are forgotten */
    cr_assert_eq(walks(), 0);
    expect_about(rest(teff_within(client, SECOND), 5 * SECOND, TEFF_ETIMEDOUT), SECOND);
    cr_assert_eq(walks(), 1);
}
