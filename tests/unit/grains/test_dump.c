/* SPDX-License-Identifier: MIT */
/*
 * What a dump says, to the letter. Time is simulated, so that ages are what they are.
 */
#include "calls.h"

static void begin_two_workers(void)
{
    begin_with((teff_silo_options){ .workers = 2 });
}

TestSuite(dump, .init = begin_two_workers, .fini = end);

static char lines[1010][512];
static int count;

static void take_line(void *user, const char *text)
{
    cr_expect_eq(user, &count);
    cr_expect_null(strchr(text, '\n'));
    if (count < 1010)
        (void)snprintf(lines[count], sizeof(lines[0]), "%s", text);
    count++;
}

static void take_dump(void)
{
    count = 0;
    cr_assert_eq(teff_silo_dump(silo, take_line, &count), 0);
}

/* Whether the lines are these; NULL ends them. The first two are of the silo. */
static void are(const char *const *expected)
{
    int i = 0;
    for (; expected[i] != NULL; i++)
        cr_assert_str_eq(i < count ? lines[i] : "(nothing)", expected[i]);
    cr_assert_eq(count, i, "%s", lines[i]);
}

Test(dump, a_silo_at_rest)
{
    take_dump();
    are((const char *const[]){
        "silo: active, 2 workers, 1 client",
        "calls: 0 opened, 0 open; answers: 0 late, 0 unknown; 0 futures unclaimed",
        "worker 0: 0 grains, 0 open calls, 0 tasks; of turns and tasks 0 in a call, 0 in futures, "
        "0 asleep, 0 queued behind",
        "worker 1: 0 grains, 0 open calls, 0 tasks; of turns and tasks 0 in a call, 0 in futures, "
        "0 asleep, 0 queued behind",
        "client 1, which blocks: 0 open calls",
        NULL,
    });
}

/* Calls the probe called "slow", which sleeps for ten seconds. */
static int call_slow(teff_caller *caller, void *user)
{
    (void)user;
    struct told told;
    probe_ref slow = { 0 };
    cr_expect_eq(probe_at_text("slow", 4, &slow), 0);
    return probe_rest(caller, &slow, &(struct ask){ .number = 10 * SECOND }, &told);
}

/* Lines from the third on, which are not of the silo as a whole. */
static void calls_are(const char *const *expected)
{
    int at = 2;
    for (; *expected != NULL; expected++) {
        while (at < count && lines[at][0] != ' ' && (*expected)[0] == ' ')
            at++;
        cr_assert_str_eq(at < count ? lines[at] : "(nothing)", *expected);
        at++;
    }
    while (at < count && lines[at][0] != ' ')
        at++;
    cr_assert_eq(at, count, "%s", lines[at]);
}

Test(dump, a_call_and_where_it_is)
{
    spawn(0, call_slow, NULL);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    send_turn(6, 0, call_slow);
    cr_assert_eq(teff_silo_advance(silo, 1500 * MS), 0);
    take_dump();
    calls_are((const char *const[]){
        "  2.500 s: a task awaits probe/\"slow\" probe.rest, due in 27.500 s: runs on worker 0 "
        "and sleeps",
        "  2.500 s: probe/\"slow\" probe.rest sleeps for 7.500 s more; 1 queued behind",
        "  1.500 s: probe/6 probe.act awaits probe/\"slow\" probe.rest, due in 28.500 s: queued "
        "on worker 0, number 1 behind probe.rest, which sleeps",
        NULL,
    });
    cr_assert_eq(teff_silo_advance(silo, 20 * SECOND), 0);
    take_dump();
    calls_are((const char *const[]){ NULL });
}

static int wait_for_three(teff_caller *caller, void *user)
{
    (void)user;
    teff_future futures[3];
    for (int i = 0; i < 3; i++)
        futures[i] = start_rest(caller, 10 + (uint64_t)i, (i + 1) * SECOND);
    return teff_await_all(caller, futures, 3);
}

Test(dump, futures_that_somebody_waits_for)
{
    send_turn(1, 0, wait_for_three);
    cr_assert_eq(teff_silo_advance(silo, 1500 * MS), 0);
    take_dump();
    calls_are((const char *const[]){
        "  1.500 s: probe/1 probe.act awaits probe/11 probe.rest (2 to come), due in 28.500 s: "
        "runs on worker 0 and sleeps",
        "  1.500 s: probe/1 probe.act awaits probe/12 probe.rest (2 to come), due in 28.500 s: "
        "runs on worker 0 and sleeps",
        "  1.500 s: probe/11 probe.rest sleeps for 0.500 s more",
        "  1.500 s: probe/12 probe.rest sleeps for 1.500 s more", NULL });
}

static int wait_for_any(teff_caller *caller, void *user)
{
    size_t index = 4711;
    const teff_future futures[2] = { start_rest(caller, 10, SECOND),
                                     start_rest(caller, 11, SECOND) };
    *(teff_future *)user = futures[0];
    return teff_await_any(caller, futures, 2, &index);
}

Test(dump, a_wait_that_has_ended_though_its_task_has_not_gone_on)
{
    teff_future first;
    spawn(0, wait_for_any, &first);
    cr_assert_eq(teff_silo_run(silo), 0);
    teff__catalog_end(teff__silo_grains(silo)->catalogs[0], first.id, NULL, TEFF_ETIMEDOUT);
    take_dump();
    calls_are((const char *const[]){
        "  0.000 s: a task has started probe/11 probe.rest, due in 30.000 s: runs on "
        "worker 0 and sleeps",
        "  0.000 s: probe/10 probe.rest sleeps for 1.000 s more",
        "  0.000 s: probe/11 probe.rest sleeps for 1.000 s more",
        NULL,
    });
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
}

static void told_then(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct told *ret)
{
    (void)caller, (void)user, (void)outcome, (void)ret;
}

static int start_and_then(teff_caller *caller, void *user)
{
    (void)user;
    probe_ref probe = probe_at(10);
    const teff_future left = start_rest(caller, 11, 5 * SECOND);
    (void)probe_rest_then(caller, &probe, &(struct ask){ .number = 5 * SECOND }, told_then, NULL);
    (void)left;
    return teff_sleep(caller, 3 * SECOND);
}

static int sleep_in_hook(teff_turn *turn, struct probe *self)
{
    (void)self;
    return teff_sleep(turn, 2 * SECOND);
}

Test(dump, what_was_started_what_completes_and_who_sleeps)
{
    int result;
    teff_future task;
    cr_assert_eq(teff_silo_spawn(silo, 1, start_and_then, NULL, client, &task), 0);
    send_turn(1, 0, start_and_then);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    const teff_future own = start_rest(client, 1, SECOND);
    activating = sleep_in_hook;
    probe_ref hooked = probe_at(2);
    (void)probe_get_then(client, &hooked, NULL, told_then, NULL);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    take_dump();
    calls_are((const char *const[]){
        "  2.000 s: probe/1 probe.act has started probe/11 probe.rest, due in 28.000 s: runs on "
        "worker 0 and sleeps",
        "  2.000 s: probe/1 is to hear of probe/10 probe.rest, due in 28.000 s: runs on worker "
        "0 and sleeps",
        "  2.000 s: probe/1 probe.act sleeps for 1.000 s more; 1 queued behind",
        "  2.000 s: probe/10 probe.rest sleeps for 3.000 s more; 1 queued behind",
        "  2.000 s: probe/11 probe.rest sleeps for 3.000 s more; 1 queued behind",
        "  1.000 s: probe/2 (activate) sleeps for 1.000 s more; 1 queued behind",
        "  2.000 s: a task has started probe/11 probe.rest, due in 28.000 s: queued on worker "
        "0, number 1 behind probe.rest, which sleeps",
        "  2.000 s: a task is to hear of probe/10 probe.rest, due in 28.000 s: queued on worker "
        "0, number 1 behind probe.rest, which sleeps",
        "  2.000 s: a task sleeps for 1.000 s more",
        "  2.000 s: client 1 has started a task, no deadline",
        "  1.000 s: client 1 has started probe/1 probe.rest, due in 29.000 s: queued on worker "
        "0, number 1 behind probe.act, which sleeps",
        "  1.000 s: client 1 is to hear of probe/2 probe.get, due in 29.000 s: queued on worker "
        "0, number 1 behind (activate), which sleeps",
        NULL });
    (void)own;
    cr_assert_eq(teff_task_claim(client, task, &result), 0);
    cr_assert_eq(teff_await_all(client, &own, 1), 0);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    cr_assert_eq(teff_silo_advance(silo, 10 * SECOND), 0);
}

static int watch(teff_caller *caller, void *user)
{
    return teff_call(caller, user, &probe_interface, probe_number_get, NULL, NULL);
}

Test(dump, an_observer_is_called)
{
    teff_ref observer;
    struct probe self = { 0 };
    cr_assert_eq(teff_observer_begin(client, &probe_handlers, &self, &observer), 0);
    spawn(1, watch, &observer);
    cr_assert_eq(teff_silo_run(silo), 0);
    take_dump();
    calls_are((const char *const[]){
        "  0.000 s: a task awaits an observer of client 1, due in 30.000 s", NULL });
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_eq(teff_observer_end(client, &observer), 0);
}

static int call_many(teff_task *task, void *user)
{
    static teff_future futures[1200];
    (void)user;
    for (int i = 0; i < 1200; i++) {
        if (i == 300)
            cr_expect_eq(teff_sleep(task, SECOND), 0);
        futures[i] = start_rest(task, (uint64_t)i, 5 * SECOND);
    }
    return teff_await_all(task, futures, 1200);
}

Test(dump, of_many_the_oldest_are_told_of)
{
    spawn(0, call_many, NULL);
    cr_assert_eq(teff_silo_advance(silo, 2 * SECOND), 0);
    take_dump();
    cr_assert_eq(count, 2 + 2 + 1 + 1000 + 1);
    cr_assert_str_eq(lines[count - 1], "and 1400 more, not so old");
    int oldest = 0; /* calls, and who sleeps in them */
    for (int i = 0; i < count; i++)
        oldest += strncmp(lines[i], "  2.000 s", 9) == 0;
    cr_assert_eq(oldest, 600);
    cr_assert_eq(teff_silo_advance(silo, 20 * SECOND), 0);
}

Test(dump, a_name_that_is_not_for_a_line)
{
    probe_ref odd = { 0 };
    cr_assert_eq(probe_at_text("a\nb\"c", 5, &odd), 0);
    const teff_future future = probe_rest_start(client, &odd, &(struct ask){ .number = SECOND });
    cr_assert_eq(teff_silo_run(silo), 0);
    take_dump();
    calls_are((const char *const[]){
        "  0.000 s: probe/\"a\\x0ab\\\"c\" probe.rest sleeps for 1.000 s more",
        "  0.000 s: client 1 has started probe/\"a\\x0ab\\\"c\" probe.rest, due in 30.000 s: "
        "runs on worker 1 and sleeps",
        NULL });
    cr_assert_eq(teff_await_all(client, &future, 1), 0);
}

/* --- Misuse and its end ------------------------------------------------------------------------ */

static int dump_inside(teff_caller *caller, void *user)
{
    (void)caller, (void)user;
    count = 0;
    cr_expect_eq(teff_silo_dump(silo, take_line, &count), TEFF_EWOULDBLOCK);
    return 7;
}

static int completions;
static void dump_in_completion(teff_caller *caller, void *user, const teff_outcome *outcome,
                               const struct told *ret)
{
    (void)outcome, (void)ret;
    completions++;
    (void)dump_inside(caller, user);
}

Test(dump, it_is_not_for_the_silo_itself)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(in_turn(1, dump_inside), 7);
    cr_assert_eq(in_task(0, dump_inside, NULL), 7);
    cr_assert_eq(probe_get_then(client, &probe, NULL, dump_in_completion, NULL), 0);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    cr_assert_eq(completions, 1);
    cr_assert_eq(count, 0);
}

Test(dump, nothing_to_dump_or_nobody_to_tell)
{
    cr_assert_eq(teff_silo_dump(NULL, take_line, &count), TEFF_EINVAL);
    cr_assert_eq(teff_silo_dump(silo, NULL, NULL), TEFF_EINVAL);
}

Test(dump, without_memory_nothing_is_said)
{
    const uint64_t before = bytes_allocated();
    teff__memory_fail_at(teff__silo_memory(silo), 1);
    cr_assert_eq(teff_silo_dump(silo, take_line, &count), TEFF_ENOMEM);
    cr_assert_eq(count, 0);
    take_dump();
    cr_assert_eq(bytes_allocated(), before);
}

Test(dump, before_start_and_after_stop)
{
    teff_silo *other;
    teff_silo_options options = { .struct_size = sizeof(options), .simulated = true };
    cr_assert_eq(teff_silo_create(&options, &other), 0);
    cr_assert_eq(teff_silo_dump(other, take_line, &count), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_start(other), 0);
    cr_assert_eq(teff_silo_stop(other), 0);
    cr_assert_eq(teff_silo_dump(other, take_line, &count), 0);
    are((const char *const[]){
        "silo: stopped, 1 worker, 0 clients",
        "calls: 0 opened, 0 open; answers: 0 late, 0 unknown; 0 futures unclaimed",
        "worker 0 has ended",
        NULL,
    });
    cr_assert_null(teff_silo_destroy(other));
}
