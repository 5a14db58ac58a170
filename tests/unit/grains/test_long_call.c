/* SPDX-License-Identifier: MIT */
/* Calls that take long: who is told what, when, and what the timeout says. */
#include "messaging/client.h"
#include "messaging/status.h"

#include "calls.h"

#include <uv.h>

enum { TOLD_MAX = 64 };

/* What the hook was told, in order. */
static struct told_long {
    teff_long_call call;
    char text[256];
    int64_t at_ns;
    int worker; /* that it ran on */
} told_of[TOLD_MAX];
static int told_count;

static void on_long(void *user, const teff_long_call *call)
{
    cr_expect_eq(user, told_of);
    cr_expect_eq(call->struct_size, sizeof(*call));
    if (told_count == TOLD_MAX)
        return;
    struct told_long *told = &told_of[told_count++];
    told->call = *call;
    (void)snprintf(told->text, sizeof(told->text), "%s", call->text);
    told->at_ns = teff__silo_now_ns(silo);
    told->worker = catalog_of_worker(0)->worker.running ? 0 : 1;
}

static void begin_long(void)
{
    begin_with((teff_silo_options){ .workers = 2, .long_call = on_long, .user = told_of });
}

TestSuite(long_call, .init = begin_long, .fini = end);

/* Lets the probe of that number live on that worker. */
static int visit(teff_task *task, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    return probe_set(task, &probe, NULL, NULL);
}

static void place(uint64_t key, int worker)
{
    cr_assert_eq(in_task(worker, visit, (void *)(uintptr_t)key), 0);
}

static bool is_probe(const teff_ref *reference, uint64_t key)
{
    const probe_ref probe = probe_at(key);
    return reference->type != NULL && teff_ref_equal(reference, &probe.ref);
}

/* A call of probe 1 that takes too long. How its failure reads is told in the story. */
static int rest_too_long(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(probe_rest(caller, &probe, &(struct ask){ .number = 1000 * SECOND }, NULL),
                 TEFF_ETIMEDOUT);
    cr_expect_eq(teff_outcome_last(caller)->code, TEFF_ETIMEDOUT);
    cr_expect(teff_outcome_last(caller)->may_have_run);
    cr_expect_str_eq(teff_outcome_last(caller)->method->name, "rest");
    tell("%s\n", teff_outcome_last(caller)->text);
    return 0;
}

static const char rest_text[] =
    "no answer in 30 s: probe/1 rest was running 20 s after the call, asleep for 20 s\n";

Test(long_call, a_running_one_of_the_same_worker_is_told_of_and_its_timeout_says_so)
{
    place(1, 1);
    const int64_t began_ns = teff__silo_now_ns(silo);
    cr_assert_eq(in_task(1, rest_too_long, NULL), 0);
    cr_assert_eq(told_count, 1);
    const struct told_long *told = &told_of[0];
    cr_expect_eq(told->at_ns, began_ns + 20 * SECOND);
    cr_expect_eq(told->worker, 1);
    cr_expect(is_probe(&told->call.grain, 1));
    cr_expect_eq(told->call.of, &probe_interface);
    cr_expect_str_eq(told->call.method->name, "rest");
    cr_expect_eq(told->call.age_ns, 20 * SECOND);
    cr_expect(told->call.running);
    cr_expect_eq(told->call.caller_kind, TEFF_CALLER_TASK);
    cr_expect_null(told->call.caller.type);
    cr_expect_null(told->call.behind);
    cr_expect_eq(told->call.behind_ns, 0);
    cr_expect_eq(told->call.wait, TEFF_WAIT_SLEEP);
    cr_expect_eq(told->call.wait_ns, 20 * SECOND);
    cr_expect_null(told->call.wait_for.type);
    cr_expect_str_eq(told->text, "probe/1 rest is running 20 s after the call, asleep for 20 s; "
                                 "called by a task");
    cr_expect_str_eq(story, rest_text);
    cr_expect_eq(silo_counts().ended[TEFF_END_TIMED_OUT], 1);
    cr_expect_eq(silo_counts().ended[TEFF_END_ERROR], 0);
}

Test(long_call, the_hook_runs_on_the_callers_worker_where_that_is_another_one)
{
    place(1, 0);
    cr_assert_eq(in_task(1, rest_too_long, NULL), 0);
    cr_assert_eq(told_count, 1);
    cr_expect_eq(told_of[0].worker, 1);
    cr_expect_eq(told_of[0].call.caller_kind, TEFF_CALLER_TASK);
    cr_expect_str_eq(story, rest_text);
}

Test(long_call, of_a_client_the_hook_runs_on_the_grains_worker)
{
    place(1, 0);
    rest_too_long(client, NULL);
    cr_assert_eq(told_count, 1);
    cr_expect_eq(told_of[0].worker, 0);
    cr_expect_eq(told_of[0].call.caller_kind, TEFF_CALLER_CLIENT);
    cr_expect_null(told_of[0].call.caller.type);
    cr_expect_str_eq(told_of[0].text, "probe/1 rest is running 20 s after the call, asleep for "
                                      "20 s; called by a client");
    cr_expect_str_eq(story, rest_text);
    cr_expect_eq(silo_counts().ended[TEFF_END_TIMED_OUT], 1);
}

/* --- Who called ---------------------------------------------------------------------------- */

static int start_too_long(teff_caller *caller, void *user)
{
    (void)user;
    const teff_future future = start_rest(caller, 1, 1000 * SECOND);
    cr_expect_eq(probe_rest_claim(caller, future, NULL), TEFF_ETIMEDOUT);
    tell("%s\n", teff_outcome_last(caller)->text);
    return 0;
}

static void on_too_long(teff_caller *caller, void *user, const teff_outcome *outcome,
                        const struct told *ret)
{
    (void)caller, (void)user, (void)ret;
    cr_expect_eq(outcome->code, TEFF_ETIMEDOUT);
    cr_expect(outcome->may_have_run);
    tell("%s\n", outcome->text);
}

static int then_too_long(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    return probe_rest_then(caller, &probe, &(struct ask){ .number = 1000 * SECOND }, on_too_long,
                           NULL);
}

/* A turn of probe 9, on that worker, calls probe 1, on worker 0. */
static void call_from_turn(int worker, body_of_caller *body)
{
    place(1, 0);
    place(9, worker);
    send_turn(9, 0, body);
    cr_assert_eq(teff_silo_advance(silo, 40 * SECOND), 0);
    cr_assert_eq(told_count, 1);
    cr_expect_eq(told_of[0].worker, worker);
    cr_expect_eq(told_of[0].call.caller_kind, TEFF_CALLER_GRAIN);
    cr_expect(is_probe(&told_of[0].call.caller, 9));
    cr_expect_str_eq(story, rest_text);
}

Test(long_call, a_turn_that_awaits_is_named)
{
    call_from_turn(0, rest_too_long);
}

Test(long_call, a_turn_that_awaits_on_another_worker_is_named)
{
    call_from_turn(1, rest_too_long);
}

Test(long_call, a_turn_that_has_a_future_is_named)
{
    call_from_turn(0, start_too_long);
}

Test(long_call, a_turn_that_has_a_future_on_another_worker_is_named)
{
    call_from_turn(1, start_too_long);
}

Test(long_call, a_turn_that_has_a_completion_is_named)
{
    call_from_turn(0, then_too_long);
}

Test(long_call, a_turn_that_has_a_completion_on_another_worker_is_named)
{
    call_from_turn(1, then_too_long);
}

static int cancellable_too_long(teff_caller *caller, void *user)
{
    teff_cancel *cancel = NULL;
    cr_expect_eq(teff_cancel_create(silo, &cancel), 0);
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = cancel };
    rest_too_long(teff_with(caller, &options), user);
    (void)teff_cancel_unref(cancel);
    return 0;
}

Test(long_call, a_turn_whose_call_has_a_source_is_named)
{
    call_from_turn(1, cancellable_too_long);
}

static int then_and_sleep(teff_task *task, void *user)
{
    (void)then_too_long(task, user);
    return teff_sleep(task, 40 * SECOND);
}

Test(long_call, a_task_that_has_a_completion_is_a_task)
{
    place(1, 0);
    cr_assert_eq(in_task(1, then_and_sleep, NULL), 0);
    cr_assert_eq(told_count, 1);
    cr_expect_eq(told_of[0].call.caller_kind, TEFF_CALLER_TASK);
    cr_expect_null(told_of[0].call.caller.type);
    cr_expect_str_eq(story, rest_text);
}

static void on_gone(teff_caller *caller, void *user, const teff_outcome *outcome,
                    const struct told *ret)
{
    (void)user, (void)ret;
    cr_expect_null(caller);
    cr_expect_eq(outcome->code, TEFF_EGONE);
    tell("gone");
}

static int then_and_go(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    (void)probe_rest_then(caller, &probe, &(struct ask){ .number = 1000 * SECOND }, on_gone, NULL);
    return teff_turn_deactivate(caller);
}

Test(long_call, a_caller_that_is_gone_is_not_named)
{
    place(1, 0);
    place(9, 1);
    send_turn(9, 0, then_and_go);
    cr_assert_eq(teff_silo_advance(silo, 40 * SECOND), 0);
    cr_assert_eq(told_count, 1);
    cr_expect_eq(told_of[0].call.caller_kind, TEFF_CALLER_UNKNOWN);
    cr_expect_null(told_of[0].call.caller.type);
    cr_expect_str_eq(told_of[0].text,
                     "probe/1 rest is running 20 s after the call, asleep for 20 s");
    cr_expect_str_eq(story, "gone");
}

Test(long_call, a_client_without_a_wait_is_told_by_its_completion)
{
    then_too_long(client, NULL);
    while (teff_client_run(client, 40 * SECOND) == TEFF_ETIMEDOUT)
        continue;
    cr_assert_eq(told_count, 1);
    cr_expect_str_eq(story, rest_text);
}

Test(long_call, a_client_on_a_loop_is_told_by_its_completion)
{
    uv_loop_t loop;
    teff_client *guest = NULL;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(teff_client_create(silo, &loop, &guest), 0);
    then_too_long(guest, NULL);
    for (int i = 0; i < 40; i++) {
        cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_expect_eq(told_count, 1);
    cr_expect_str_eq(story, rest_text);
    (void)start_rest(guest, 2, 1000 * SECOND); /* its status is kept when the client goes */
    cr_assert_eq(teff_silo_advance(silo, 25 * SECOND), 0);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    cr_expect_eq(told_count, 2);
    cr_assert_eq(teff_client_close_then(guest, NULL, NULL), 0);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

/* --- Queued -------------------------------------------------------------------------------- */

static int get_too_long(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(teff_sleep(task, 5250 * MS), 0);
    cr_expect_eq(probe_get(task, &probe, NULL, NULL), TEFF_ETIMEDOUT);
    tell("%s\n", teff_outcome_last(task)->text);
    return 0;
}

Test(long_call, one_that_waits_for_its_turn_is_told_of_with_what_runs)
{
    place(1, 0);
    const int64_t began_ns = teff__silo_now_ns(silo);
    spawn(0, rest_too_long, NULL);
    cr_assert_eq(in_task(0, get_too_long, NULL), 0);
    cr_assert_eq(told_count, 2);
    const struct told_long *told = &told_of[1];
    cr_expect_eq(told->at_ns, began_ns + 25250 * MS);
    cr_expect(is_probe(&told->call.grain, 1));
    cr_expect_str_eq(told->call.method->name, "get");
    cr_expect_eq(told->call.age_ns, 20 * SECOND);
    cr_expect_not(told->call.running);
    cr_expect_str_eq(told->call.behind->name, "rest");
    cr_expect_eq(told->call.behind_ns, 25250 * MS);
    cr_expect_str_eq(told->text,
                     "probe/1 get is queued 20 s after the call, behind rest of 25.2 s, "
                     "asleep for 25.2 s; called by a task");
    char expected[512];
    (void)snprintf(expected, sizeof(expected),
                   "%sno answer in 30 s: probe/1 get was queued 20 s after the call, behind rest "
                   "of 25.2 s, asleep for 25.2 s\n",
                   rest_text);
    cr_expect_str_eq(story, expected);
}

Test(long_call, one_that_comes_when_the_call_in_front_has_been_given_up_is_told_of)
{
    probe_ref probe = probe_at(1);
    place(1, 0);
    rest_too_long(client, NULL);
    /* The last look found nothing, and another one would not be due yet. */
    cr_assert_eq(teff_silo_advance(silo, 2 * SECOND), 0);
    cr_assert_eq(told_count, 1);
    const int64_t began_ns = teff__silo_now_ns(silo);
    cr_expect_eq(probe_get(client, &probe, NULL, NULL), TEFF_ETIMEDOUT);
    cr_assert_eq(told_count, 2);
    cr_expect_eq(told_of[1].at_ns, began_ns + 20 * SECOND);
    cr_expect_str_eq(told_of[1].call.behind->name, "rest");
    cr_expect_eq(told_of[1].call.behind_ns, 0);
    cr_expect_str_eq(teff_outcome_last(client)->text,
                     "no answer in 30 s: probe/1 get was queued 20 s after the call, behind rest, "
                     "asleep for 52 s");
}

static int sleep_long(teff_turn *turn, struct probe *self)
{
    (void)self;
    return teff_sleep(turn, 100 * SECOND);
}

Test(long_call, a_hook_that_does_not_end_has_no_method)
{
    activating = sleep_long;
    probe_ref probe = probe_at(1);
    cr_expect_eq(probe_get(client, &probe, NULL, NULL), TEFF_ETIMEDOUT);
    cr_assert_eq(told_count, 1);
    cr_expect_not(told_of[0].call.running);
    cr_expect_null(told_of[0].call.behind);
    cr_expect_str_eq(teff_outcome_last(client)->text,
                     "no answer in 30 s: probe/1 get was queued 20 s after the call, behind a hook "
                     "or completion, asleep for 20 s");
}

/* --- What the running one waits for -------------------------------------------------------- */

static int call_probe_1(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    (void)probe_rest(caller, &probe, &(struct ask){ .number = 1000 * SECOND }, NULL);
    return 0;
}

static int call_probes(teff_caller *caller, void *user)
{
    const teff_future futures[2] = { start_rest(caller, 1, 1000 * SECOND),
                                     start_rest(caller, 2, 1000 * SECOND) };
    (void)user;
    return teff_await_all(caller, futures, 2);
}

/* What the call of probe 9's turn, which runs that, is told to wait for. */
static const struct told_long *waits_for(body_of_caller *body)
{
    probe_ref probe = probe_at(9);
    place(9, 1);
    acting = act_body;
    bodies[0] = body;
    (void)probe_act(client, &probe, &(struct ask){ 0 }, NULL);
    for (int i = 0; i < told_count; i++)
        if (is_probe(&told_of[i].call.grain, 9))
            return &told_of[i];
    cr_assert_fail("it was not told of");
    return NULL;
}

Test(long_call, one_that_waits_for_a_grain_says_which)
{
    place(1, 0);
    const struct told_long *told = waits_for(call_probe_1);
    cr_expect_eq(told->call.wait, TEFF_WAIT_CALL);
    cr_expect_eq(told->call.wait_count, 1);
    cr_expect(is_probe(&told->call.wait_for, 1));
    cr_expect_str_eq(told->text, "probe/9 act is running 20 s after the call, waiting 20 s for "
                                 "probe/1; called by a client");
}

Test(long_call, one_that_waits_for_several_says_how_many)
{
    const struct told_long *told = waits_for(call_probes);
    cr_expect_eq(told->call.wait, TEFF_WAIT_FUTURES);
    cr_expect_eq(told->call.wait_count, 2);
    cr_expect_null(told->call.wait_for.type);
    cr_expect_str_eq(told->text, "probe/9 act is running 20 s after the call, waiting 20 s for 2 "
                                 "futures; called by a client");
}

/* --- How often ----------------------------------------------------------------------------- */

Test(long_call, one_that_goes_on_is_told_of_once_in_each_further_period)
{
    probe_ref probe = probe_at(1);
    const int64_t began_ns = teff__silo_now_ns(silo);
    const struct ask ask = { .number = 99 * SECOND };
    cr_assert_eq(probe_rest(teff_within(client, 1000 * SECOND), &probe, &ask, NULL), 0);
    cr_assert_eq(told_count, 4);
    for (int i = 0; i < told_count; i++) {
        cr_expect_eq(told_of[i].at_ns, began_ns + (i + 1) * 20 * SECOND);
        cr_expect_eq(told_of[i].call.age_ns, (i + 1) * 20 * SECOND);
    }
}

static int tick(teff_task *task, void *user)
{
    (void)user;
    while (teff_sleep(task, SECOND) == 0)
        continue;
    return 0;
}

Test(long_call, one_on_a_worker_that_has_other_work_is_told_of_at_the_very_moment)
{
    place(1, 0);
    spawn(0, tick, NULL);
    cr_assert_eq(teff_silo_advance(silo, 500 * MS), 0);
    const int64_t began_ns = teff__silo_now_ns(silo);
    rest_too_long(client, NULL);
    cr_assert_eq(told_count, 1);
    cr_expect_eq(told_of[0].at_ns, began_ns + 20 * SECOND);
}

Test(long_call, those_that_end_in_time_and_those_one_way_are_not_told_of)
{
    probe_ref probe = probe_at(1);
    const struct ask ask = { .number = 20 * SECOND - 1 };
    for (int i = 0; i < 5; i++)
        cr_assert_eq(probe_rest(client, &probe, &ask, NULL), 0);
    cr_assert_eq(probe_rest_send(client, &probe, &(struct ask){ .number = 100 * SECOND }), 0);
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ 0 }), 0);
    cr_assert_eq(teff_silo_advance(silo, 200 * SECOND), 0);
    cr_expect_eq(told_count, 0);
}

Test(long_call, a_status_does_not_outlive_its_call)
{
    probe_ref probe = probe_at(1);
    const struct ask ask = { .number = 25 * SECOND };
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(probe_rest(client, &probe, &ask, NULL), 0);
        /* The next call has the same slot, and is not long when it ends. */
        cr_assert_eq(probe_rest(teff_within(client, 10 * SECOND), &probe, &ask, NULL),
                     TEFF_ETIMEDOUT);
        cr_expect_str_eq(teff_outcome_last(client)->text, teff_status_text(TEFF_ETIMEDOUT));
        cr_assert_eq(teff_silo_advance(silo, 50 * SECOND), 0);
    }
    cr_expect_eq(told_count, 3);
}

static int rest_25_s(teff_task *task, void *user)
{
    probe_ref probe = probe_at((uint64_t)(uintptr_t)user);
    (void)probe_rest(task, &probe, &(struct ask){ .number = 25 * SECOND }, NULL);
    return 0;
}

/* How many statuses the worker keeps after so many calls at once of 25 s. */
static int kept_after(int worker, uintptr_t calls)
{
    int kept = 0;
    for (uintptr_t k = 0; k < calls; k++)
        spawn(worker, rest_25_s, (void *)(k + 1));
    cr_assert_eq(teff_silo_advance(silo, 30 * SECOND), 0);
    const teff__ring *statuses = &catalog_of_worker(worker)->statuses;
    for (const teff__ring *at = statuses->next; at != statuses; at = at->next)
        kept++;
    return kept;
}

Test(long_call, few_statuses_are_kept_of_calls_that_have_ended)
{
    cr_assert_eq(kept_after(0, 50), 50);
    for (int i = 0; i < 25; i++)
        (void)kept_after(0, 1);
    cr_assert_eq(kept_after(0, 1), 1);
}

/* --- The hook ------------------------------------------------------------------------------ */

static int hook_ran, task_ran;

static int note_task(teff_task *task, void *user)
{
    (void)task, (void)user;
    task_ran++;
    return 0;
}

static void use_silo(void *user, const teff_long_call *call)
{
    probe_ref probe = probe_at(5);
    teff_counts counts = { .struct_size = sizeof(counts) };
    (void)user, (void)call;
    hook_ran++;
    cr_expect_eq(probe_get(client, &probe, NULL, NULL), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_advance(silo, SECOND), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_counts(silo, &counts), 0);
    cr_expect_eq(teff_silo_spawn(silo, 0, note_task, NULL, NULL, NULL), 0);
}

static void begin_use(void)
{
    begin_with((teff_silo_options){ .workers = 2, .long_call = use_silo });
}

Test(long_call_hook, it_may_count_and_spawn_but_not_wait, .init = begin_use, .fini = end)
{
    spawn(0, rest_too_long, NULL);
    cr_assert_eq(teff_silo_advance(silo, 40 * SECOND), 0);
    cr_expect_eq(hook_ran, 1);
    cr_expect_eq(task_ran, 1);
}

/* --- Options ------------------------------------------------------------------------------- */

static void begin_off(void)
{
    begin_with(
        (teff_silo_options){ .long_call_ns = INT64_MAX, .long_call = on_long, .user = told_of });
}

Test(long_call_options, none_is_long_where_that_is_for_ever, .init = begin_off, .fini = end)
{
    rest_too_long(client, NULL);
    cr_expect_eq(told_count, 0);
    tell("%s", "");
    char expected[256];
    (void)snprintf(expected, sizeof(expected), "%s\n", teff_status_text(TEFF_ETIMEDOUT));
    cr_expect_str_eq(story, expected);
}

static void begin_short(void)
{
    begin_with((teff_silo_options){ .workers = 2, .long_call_ns = 500 * MS });
}

Test(long_call_options, the_timeout_says_the_last_status_without_a_hook, .init = begin_short,
     .fini = end)
{
    probe_ref probe = probe_at(1);
    const struct ask ask = { .number = 100 * SECOND };
    cr_assert_eq(probe_rest(teff_within(client, 2250 * MS), &probe, &ask, NULL), TEFF_ETIMEDOUT);
    cr_expect_str_eq(teff_outcome_last(client)->text,
                     "no answer in 2.2 s: probe/1 rest was running 2 s after the call, asleep for "
                     "2 s");
}

Test(long_call_options, a_negative_time_is_refused)
{
    teff_silo *made = NULL;
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .simulated = true,
                                        .long_call_ns = -1 };
    cr_expect_eq(teff_silo_create(&options, &made), TEFF_EINVAL);
    cr_expect_null(made);
}

static int call_for_long(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    (void)probe_rest_start(teff_within(caller, 1000 * SECOND), &probe,
                           &(struct ask){ .number = 1000 * SECOND });
    (void)probe_rest(teff_within(caller, 1000 * SECOND), &probe,
                     &(struct ask){ .number = 1000 * SECOND }, NULL);
    return 0;
}

Test(long_call, what_is_kept_when_client_and_silo_go_is_dropped)
{
    teff_client *other = NULL;
    teff_future future = { 0 };
    place(1, 0);
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    cr_assert_eq(teff_silo_spawn(silo, 1, call_for_long, NULL, other, &future), 0);
    (void)start_rest(other, 2, 1000 * SECOND);
    cr_assert_eq(teff_silo_advance(silo, 21 * SECOND), 0);
    cr_expect_eq(teff_client_run(other, SECOND), TEFF_ETIMEDOUT); /* takes its mail */
    cr_expect_eq(told_count, 3);
    cr_expect_not(teff__ring_empty(&teff__client_of(other)->statuses));
    cr_expect_not(teff__ring_empty(&catalog_of_worker(1)->statuses));
    cr_assert_null(teff_client_destroy(other));
    cr_assert_eq(teff_silo_advance(silo, 20 * SECOND), 0);
    cr_expect_not(teff__ring_empty(&catalog_of_worker(1)->statuses));
}

/* Its client goes before it takes its mail. */
Test(long_call, what_is_under_way_when_the_client_goes_is_dropped)
{
    teff_client *other = NULL;
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    (void)start_rest(other, 2, 1000 * SECOND);
    cr_assert_eq(teff_silo_advance(silo, 21 * SECOND), 0);
    cr_expect_eq(told_count, 1);
    cr_assert_null(teff_client_destroy(other));
}

/* As where a sender sees the client still there, and posts when it is gone. */
Test(long_call, what_comes_when_the_client_is_gone_goes_home)
{
    enum { STRIPE = TEFF__STRIPES - 1 };
    const teff_long_call call = { .of = &probe_interface };
    teff__exchange *exchange = teff__silo_exchange(silo);
    teff__postbox postbox;
    teff__postbox_init(&postbox, exchange->memory, 8);
    teff__status *status = teff__status_take(&postbox, 1, &call);
    cr_assert_not_null(status);
    teff__link *link = &status->message.link;
    teff__client_post_chain(exchange, STRIPE, link, link);
    teff__postbox_finish(&postbox); /* asserts that all is there */
}
