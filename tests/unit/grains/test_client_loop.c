/* SPDX-License-Identifier: MIT */
/* Clients on a program's loop: how their calls end, and what they let the loop do meanwhile. */
#include "fixture_loop.h"

TestSuite(client_loop, .init = begin_loop, .fini = end_loop, .timeout = 60);

Test(client_loop, completions_run_on_the_loop_once_each_and_never_in_their_opener)
{
    enum { CALLS = 500 };
    static struct heard heard[CALLS];
    for (uint64_t i = 0; i < CALLS; i++)
        cr_assert_eq(rest_then(guest, i, 0, &heard[i]), 0);
    cr_assert_eq(heard_all, 0);
    run_loop();
    for (int i = 0; i < CALLS; i++) {
        cr_assert_eq(heard[i].count, 1);
        cr_assert_eq(heard[i].code, 0);
        cr_assert_eq(heard[i].thread, teff__thread_self());
        cr_assert_eq(heard[i].caller, guest);
    }
}

Test(client_loop, one_way_calls_complete_on_the_loop_too)
{
    static struct heard heard;
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_note_then(guest, &probe, &(struct ask){ .number = 1 }, on_none, &heard), 0);
    cr_assert_eq(heard.count, 0);
    run_loop();
    cr_assert_eq(heard.count, 1);
    cr_assert_eq(heard.code, 0);
}

Test(client_loop, an_idle_client_does_not_keep_the_loop)
{
    static struct heard heard;
    run_loop();
    cr_assert_eq(rest_then(guest, 1, 20 * MS, &heard), 0);
    cr_assert(uv_loop_alive(&loop));
    run_loop(); /* returns once it has run */
    cr_assert_eq(heard.count, 1);
    cr_assert_not(uv_loop_alive(&loop));
    run_loop();
}

Test(client_loop, nowait_and_once_work)
{
    static struct heard heard;
    cr_assert_eq(rest_then(guest, 1, 30 * MS, &heard), 0);
    cr_assert_neq(uv_run(&loop, UV_RUN_NOWAIT), 0);
    cr_assert_eq(heard.count, 0);
    while (uv_run(&loop, UV_RUN_NOWAIT) != 0)
        continue;
    cr_assert_eq(heard.count, 1);
    cr_assert_eq(rest_then(guest, 1, 30 * MS, &heard), 0);
    int rounds = 0;
    while (uv_run(&loop, UV_RUN_ONCE) != 0)
        rounds++;
    cr_assert_eq(heard.count, 2);
    cr_assert_lt(rounds, 2000); /* it blocks, after a while of spinning */
}

Test(client_loop, nothing_that_waits_is_allowed)
{
    struct told told = { .number = 4711 };
    size_t index;
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_get(guest, &probe, NULL, &told), TEFF_EWOULDBLOCK);
    cr_assert_eq(told.number, 4711);
    cr_assert_eq(teff_sleep(guest, MS), TEFF_EWOULDBLOCK);
    cr_assert_eq(teff_client_run(guest, 0), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_client_destroy(guest), guest);

    teff_future future = probe_rest_start(guest, &probe, &(struct ask){ .number = 50 * MS });
    cr_assert_eq(probe_rest_claim(guest, future, &told), TEFF_EWOULDBLOCK);
    cr_assert_eq(teff_await_all(guest, &future, 1), TEFF_EWOULDBLOCK);
    cr_assert_eq(teff_await_any(guest, &future, 1, &index), TEFF_EWOULDBLOCK);
    run_loop(); /* a future keeps it, until it is settled */
    cr_assert_eq(teff_await_any(guest, &future, 1, &index), 0);
    cr_assert_eq(probe_rest_claim(guest, future, &told), 0);
    cr_assert_eq(told.number, 0);
    cr_assert_eq(probe_rest_claim(guest, future, &told), TEFF_EINVAL);
}

/* --- Deadlines ----------------------------------------------------------------------------- */

Test(client_loop, deadlines_come_though_nothing_else_wakes_the_loop)
{
    static struct heard heard[3];
    const int64_t before_ns = teff_now_ns(guest);
    cr_assert_eq(rest_then(teff_within(guest, 60 * MS), 1, 15 * SECOND, &heard[0]), 0);
    cr_assert_eq(rest_then(teff_within(guest, 20 * MS), 2, 15 * SECOND, &heard[1]), 0);
    run_loop();
    const int64_t took_ns = teff_now_ns(guest) - before_ns;
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(heard[i].count, 1);
        cr_assert_eq(heard[i].code, TEFF_ETIMEDOUT);
    }
    cr_assert_geq(took_ns, 60 * MS);
    cr_assert_lt(took_ns, 5 * SECOND); /* the machine may be busy; without a timer it would be 15 */
}

static int ticks;

static void on_tick(uv_timer_t *timer)
{
    if (++ticks == 20)
        uv_close((uv_handle_t *)timer, NULL);
}

Test(client_loop, deadlines_come_beside_timers_of_the_programs)
{
    static struct heard heard;
    static uv_timer_t timer;
    cr_assert_eq(uv_timer_init(&loop, &timer), 0);
    cr_assert_eq(uv_timer_start(&timer, on_tick, 1, 3), 0);
    cr_assert_eq(rest_then(teff_within(guest, 20 * MS), 1, 15 * SECOND, &heard), 0);
    run_loop();
    cr_assert_eq(ticks, 20);
    cr_assert_eq(heard.count, 1);
    cr_assert_eq(heard.code, TEFF_ETIMEDOUT);
}

/* --- Between our prepare callback and the poll --------------------------------------------- */

/* Started before a client is made, a prepare callback runs after the client's. */
static uv_prepare_t after_ours;

/* Stopped and not closed: a loop that closes something does not wait in its poll. */
static void on_prepare_once(uv_prepare_t *handle)
{
    (void)uv_prepare_stop(handle);
    step();
}

static void behind_ours(void (*run)(void))
{
    close_guest();
    step = run;
    cr_assert_eq(uv_prepare_init(&loop, &after_ours), 0);
    cr_assert_eq(uv_prepare_start(&after_ours, on_prepare_once), 0);
    guest = on_loop();
}

static void run_behind_ours(void)
{
    run_loop();
    uv_close((uv_handle_t *)&after_ours, NULL);
    run_loop();
}

static struct heard told_late;

static void open_with_a_deadline(void)
{
    cr_expect_eq(rest_then(teff_within(guest, 20 * MS), 1, 30 * SECOND, &told_late), 0);
}

Test(client_loop, a_deadline_that_is_set_just_before_the_poll_is_kept)
{
    behind_ours(open_with_a_deadline);
    run_behind_ours();
    cr_assert_eq(told_late.code, TEFF_ETIMEDOUT);
}

static void send_with_a_completion(void)
{
    probe_ref probe = probe_at(1);
    cr_expect_eq(probe_note_then(guest, &probe, &(struct ask){ .number = 1 }, on_none, &told_late),
                 0);
}

Test(client_loop, what_is_complete_just_before_the_poll_does_not_wait_for_it)
{
    behind_ours(send_with_a_completion);
    run_behind_ours();
    cr_assert_eq(told_late.count, 1);
}

static teff_future started;

static void claim_when_all_has_come(void)
{
    struct told told;
    const teff__inbox *mail = &((const teff__client *)(const void *)guest)->stripe->mail;
    const teff__link *newest; /* there are two when it has another behind it */
    while ((newest = teff__atomic_pointer_load_acquire(&mail->head)) == NULL ||
           newest->next == NULL)
        teff__cpu_relax();
    while (probe_rest_claim(guest, started, &told) == TEFF_EWOULDBLOCK)
        continue;
}

Test(client_loop, completions_that_a_claim_brings_along_do_not_wait_for_the_poll)
{
    probe_ref probe = probe_at(1);
    behind_ours(claim_when_all_has_come);
    cr_assert_eq(rest_then(guest, 1, 100 * MS, &told_late), 0);
    started = probe_rest_start(guest, &probe, &(struct ask){ .number = 0 });
    run_behind_ours();
    cr_assert_eq(told_late.count, 1);
}

static teff_ref watching;
static struct probe watcher;

static void end_observer(void)
{
    cr_expect_eq(teff_observer_end(guest, &watching), 0);
}

Test(client_loop, the_loop_ends_when_the_last_observer_does_just_before_the_poll)
{
    behind_ours(end_observer);
    cr_assert_eq(teff_observer_begin(guest, &probe_handlers, &watcher, &watching), 0);
    run_behind_ours();
}

/* --- Cancellation -------------------------------------------------------------------------- */

static teff_cancel *source;

static void fire(void)
{
    teff_cancel_fire(source);
    cr_expect_eq(heard_all, 0); /* not inside it */
}

static void fire_elsewhere(void *unused)
{
    (void)unused;
    teff_cancel_fire(source);
}

static void open_under_the_source(struct heard *heard, int count)
{
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = source };
    for (int i = 0; i < count; i++)
        cr_assert_eq(rest_then(teff_with(guest, &options), 1, 15 * SECOND, &heard[i]), 0);
}

Test(client_loop, a_source_that_fires_on_the_loop_ends_its_calls)
{
    static struct heard heard[3];
    cr_assert_eq(teff_cancel_create(silo, &source), 0);
    open_under_the_source(heard, 3);
    step_after(20, fire);
    run_loop();
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(heard[i].count, 1);
        cr_assert_eq(heard[i].code, TEFF_ECANCELED);
    }
    teff_cancel_unref(source);
}

static teff__thread other;

static void start_fire_elsewhere(void)
{
    cr_expect_eq(teff__thread_start(&other, fire_elsewhere, NULL, "other"), 0);
}

Test(client_loop, a_source_that_fires_on_another_thread_wakes_the_loop)
{
    static struct heard heard[3];
    cr_assert_eq(teff_cancel_create(silo, &source), 0);
    open_under_the_source(heard, 3);
    step_after(20, start_fire_elsewhere);
    run_loop();
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(heard[i].count, 1);
        cr_assert_eq(heard[i].code, TEFF_ECANCELED);
    }
    teff__thread_join(&other);
    teff_cancel_unref(source);
}

/* --- Observers ----------------------------------------------------------------------------- */

enum { NOTES = 100 };

/* Notes so many numbers to the observer, and asks it how many it had. */
static int note_to_the_observer(teff_turn *turn, struct probe *self, const struct ask *arg,
                                struct told *ret)
{
    probe_ref to = { watching };
    (void)self, (void)arg;
    for (int i = 1; i <= NOTES; i++) {
        const int r = probe_note_send(turn, &to, &(struct ask){ .number = i });
        if (r != 0)
            return r;
    }
    return probe_get(turn, &to, NULL, ret);
}

static void observed(teff_caller *caller, void *user, const teff_outcome *outcome,
                     const struct told *ret)
{
    on_told(caller, user, outcome, ret);
    step_after(20, end_observer);
}

Test(client_loop, grains_call_its_observers_in_order_and_they_keep_the_loop)
{
    static struct heard heard;
    static char expected[4096];
    probe_ref probe = probe_at(1);
    acting = note_to_the_observer;
    for (int i = 1; i <= NOTES; i++)
        (void)snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%d ", i);
    cr_assert_eq(teff_observer_begin(guest, &probe_handlers, &watcher, &watching), 0);
    cr_assert_eq(probe_act_then(guest, &probe, &(struct ask){ .number = 0 }, observed, &heard), 0);
    run_loop();
    cr_assert_eq(heard.code, 0);
    cr_assert_eq(heard.number, NOTES);
    cr_assert_str_eq(story, expected);
    cr_assert_eq(teff_observer_end(guest, &watching), TEFF_EGONE); /* a step of the loop did */
}

/* --- Several clients, several threads ------------------------------------------------------ */

Test(client_loop, several_clients_share_a_loop)
{
    static struct heard heard[3][20];
    teff_client *clients[] = { guest, on_loop(), on_loop() };
    for (uint64_t k = 0; k < 3; k++)
        for (uint64_t i = 0; i < 20; i++)
            cr_assert_eq(rest_then(clients[k], i, (int64_t)i * MS / 4, &heard[k][i]), 0);
    cr_assert_eq(teff_client_close_then(clients[1], on_client_closed, NULL), 0);
    run_loop();
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 20; i++) {
            cr_assert_eq(heard[k][i].count, 1);
            cr_assert_eq(heard[k][i].caller, clients[k]);
            if (k != 1)
                cr_assert_eq(heard[k][i].code, 0);
        }
    }
    cr_assert_eq(closed_count, 1);
    cr_assert_eq(teff_client_close_then(clients[2], NULL, NULL), 0);
    run_loop();
}

static struct heard elsewhere[2];
static uv_sem_t used, looked;

static void run_loop_elsewhere(void *unused)
{
    (void)unused;
    cr_expect_eq(rest_then(guest, 1, 5 * MS, &elsewhere[0]), 0); /* its first use is here */
    cr_expect_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_expect_eq(rest_then(guest, 1, 5 * MS, &elsewhere[1]), 0);
    cr_expect_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(elsewhere[i].count, 1);
        cr_expect_eq(elsewhere[i].thread, teff__thread_self());
    }
    uv_sem_post(&used);
    uv_sem_wait(&looked);
    cr_expect_eq(teff_client_close_then(guest, on_client_closed, NULL), 0);
    cr_expect_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}

Test(client_loop, it_belongs_to_the_thread_that_runs_its_loop)
{
    cr_assert_eq(uv_sem_init(&used, 0), 0);
    cr_assert_eq(uv_sem_init(&looked, 0), 0);
    cr_assert_eq(teff__thread_start(&other, run_loop_elsewhere, NULL, "other"), 0);
    uv_sem_wait(&used);
    cr_assert_eq(rest_then(guest, 1, 0, &elsewhere[0]), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_observer_begin(guest, &probe_handlers, &watcher, &watching),
                 TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_client_close_then(guest, NULL, NULL), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_client_destroy(guest), guest);
    uv_sem_post(&looked);
    teff__thread_join(&other);
    cr_assert_eq(closed_count, 1);
    guest = NULL;
    uv_sem_destroy(&used);
    uv_sem_destroy(&looked);
}

static void run_once_elsewhere(void *unused)
{
    (void)unused;
    cr_expect_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_expect_eq(elsewhere[0].thread, teff__thread_self());
    cr_expect_eq(teff_client_close_then(guest, on_client_closed, NULL), 0);
    cr_expect_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}

Test(client_loop, a_loop_that_goes_on_elsewhere_takes_its_client_along)
{
    cr_assert_eq(rest_then(guest, 1, 5 * MS, &elsewhere[0]), 0);
    cr_assert_eq(teff__thread_start(&other, run_once_elsewhere, NULL, "other"), 0);
    teff__thread_join(&other);
    cr_assert_eq(elsewhere[0].count, 1);
    cr_assert_eq(closed_count, 1);
    guest = NULL;
}

/* --- Simulated ----------------------------------------------------------------------------- */

static void begin_simulated(void)
{
    begin();
    teff_assert(uv_loop_init(&loop) == 0);
    guest = on_loop();
}

static void end_simulated(void)
{
    close_guest();
    teff_assert(uv_loop_close(&loop) == 0);
    end();
}

TestSuite(client_loop_simulated, .init = begin_simulated, .fini = end_simulated, .timeout = 60);

Test(client_loop_simulated, the_silo_moves_when_it_is_told_to_and_the_loop_tells)
{
    static struct heard heard;
    cr_assert_eq(rest_then(guest, 1, SECOND, &heard), 0);
    for (int i = 0; i < 10; i++)
        cr_assert_neq(uv_run(&loop, UV_RUN_NOWAIT), 0);
    cr_assert_eq(seen.turns, 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(heard.count, 0);
    run_loop();
    cr_assert_eq(heard.count, 1);
    cr_assert_eq(heard.code, 0);
}

static void advance_two_seconds(void)
{
    cr_expect_eq(teff_silo_advance(silo, 2 * SECOND), 0);
}

Test(client_loop_simulated, deadlines_come_when_the_silos_time_does)
{
    static struct heard heard;
    cr_assert_eq(rest_then(teff_within(guest, SECOND), 1, 10 * SECOND, &heard), 0);
    step_after(20, advance_two_seconds);
    run_loop();
    cr_assert_eq(heard.count, 1);
    cr_assert_eq(heard.code, TEFF_ETIMEDOUT);
}
