/* SPDX-License-Identifier: MIT */
/* How clients on a loop end, and how they fare when their silo stops. */
#include "fixture_loop.h"

TestSuite(client_loop_stop, .init = begin_loop, .fini = end_loop, .timeout = 60);

/* --- Closing ------------------------------------------------------------------------------- */

Test(client_loop_stop, what_is_open_is_cancelled_before_the_client_is_closed)
{
    static struct heard heard[4];
    static int heard_before_closed = -1;
    static struct probe watcher;
    teff_ref watching;
    probe_ref probe = probe_at(1);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(rest_then(guest, 1, 15 * SECOND, &heard[i]), 0);
    cr_assert_eq(probe_note_then(guest, &probe, &(struct ask){ .number = 1 }, on_none, &heard[3]),
                 0);
    (void)probe_rest_start(guest, &probe, &(struct ask){ .number = 15 * SECOND });
    cr_assert_eq(teff_observer_begin(guest, &probe_handlers, &watcher, &watching), 0);
    cr_assert_eq(teff_client_close_then(guest, on_client_closed, &heard_before_closed), 0);
    cr_assert_eq(heard_all, 0);
    cr_assert_eq(closed_count, 0);

    cr_assert_eq(teff_client_close_then(guest, NULL, NULL), TEFF_EINVALIDSTATE);
    cr_assert_eq(rest_then(guest, 1, 0, &heard[0]), TEFF_EINVALIDSTATE);
    cr_assert_eq(probe_note_send(guest, &probe, &(struct ask){ .number = 1 }), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_observer_end(guest, &watching), TEFF_EINVALIDSTATE);
    guest = NULL;
    run_loop();
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(heard[i].count, 1);
        cr_assert_eq(heard[i].code, i < 3 ? TEFF_ECANCELED : 0);
    }
    cr_assert_eq(closed_count, 1);
    cr_assert_eq(heard_before_closed, 4);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

Test(client_loop_stop, only_clients_on_a_loop_are_closed)
{
    teff_client *blocking = NULL;
    cr_assert_eq(teff_client_create(silo, NULL, &blocking), 0);
    cr_assert_eq(teff_client_close_then(NULL, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_client_close_then(blocking, NULL, NULL), TEFF_EINVALIDSTATE);
    cr_assert_null(teff_client_destroy(blocking));
    cr_assert_eq(teff_client_close_then(guest, NULL, NULL), 0); /* nobody wants to know */
    guest = NULL;
    run_loop();
}

static void close_inside(teff_caller *caller, void *user, const teff_outcome *outcome,
                         const struct told *ret)
{
    probe_ref probe = probe_at(1);
    on_told(caller, user, outcome, ret);
    if (guest != NULL) {
        cr_expect_eq(teff_client_close_then(guest, on_client_closed, NULL), 0);
        guest = NULL;
    }
    cr_expect_eq(probe_get_then(caller, &probe, NULL, on_told, user), TEFF_EINVALIDSTATE);
}

Test(client_loop_stop, a_completion_may_close_its_client)
{
    static struct heard heard[10];
    probe_ref probe = probe_at(1);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(probe_rest_then(guest, &probe, &(struct ask){ .number = i < 5 ? 0 : MS },
                                     close_inside, &heard[i]),
                     0);
    run_loop();
    cr_assert_eq(closed_count, 1);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(heard[i].count, 1);
}

#define DOOR_METHODS(METHOD, SELF) METHOD(SELF, shut, teff_none, teff_none, 0)
TEFF_INTERFACE(door, DOOR_METHODS);
TEFF_INTERFACE_DEFINE(door, DOOR_METHODS);
struct door {
    int shut;
};
static int door_on_shut(teff_turn *turn, struct door *self, const teff_none *arg, teff_none *ret)
{
    (void)turn, (void)arg, (void)ret;
    self->shut++;
    cr_expect_eq(teff_client_close_then(guest, on_client_closed, NULL), 0);
    guest = NULL;
    return 0;
}
TEFF_HANDLERS(door, struct door, door, DOOR_METHODS);

static teff_ref watching;

static int shut_the_door(teff_turn *turn, struct probe *self, const struct ask *arg,
                         struct told *ret)
{
    door_ref to = { watching };
    (void)self, (void)arg;
    ret->number = door_shut(turn, &to, NULL, NULL);
    return 0;
}

Test(client_loop_stop, an_observers_handler_may_close_its_client)
{
    static struct door door;
    probe_ref probe = probe_at(1);
    acting = shut_the_door;
    cr_assert_eq(teff_observer_begin(guest, &door_handlers, &door, &watching), 0);
    cr_assert_eq(probe_act_send(guest, &probe, &(struct ask){ .number = 0 }), 0);
    run_loop();
    cr_assert_eq(door.shut, 1);
    cr_assert_eq(closed_count, 1);
}

static void destroy_silo(void *user)
{
    cr_expect_null(teff_silo_destroy(silo));
    silo = NULL;
    *(int *)user = 1;
}

Test(client_loop_stop, the_silo_may_go_when_its_last_client_has)
{
    static int destroyed;
    cr_assert_eq(teff_silo_destroy(silo), silo); /* stopped, but it has a client */
    cr_assert_eq(teff_client_close_then(guest, destroy_silo, &destroyed), 0);
    guest = NULL;
    run_loop();
    cr_assert_eq(destroyed, 1);
}

/* --- The silo stops ------------------------------------------------------------------------ */

static struct probe watcher;
static teff_client *deaf; /* its observers are never run */

/* Calls an observer, which may answer or not. */
static int ask_observer(teff_turn *turn, struct probe *self, const struct ask *arg,
                        struct told *ret)
{
    probe_ref to = { watching };
    (void)self, (void)arg;
    return probe_get(turn, &to, NULL, ret);
}

static int act_then(struct heard *heard)
{
    probe_ref probe = probe_at(1);
    acting = ask_observer;
    return probe_act_then(guest, &probe, &(struct ask){ .number = 0 }, on_told, heard);
}

static struct heard heard_of[3];

/* Once the grain has called the observer: later it could not, in a silo that stops. */
static void stop_here(void)
{
    const teff__client *of_guest = (const teff__client *)(const void *)guest;
    while (teff__inbox_empty(&of_guest->stripe->mail))
        teff__cpu_relax();
    cr_expect_eq(teff_silo_stop(silo), 0);
    /* It has delivered all itself. */
    cr_expect_eq(heard_of[0].count, 1);
    cr_expect_eq(heard_of[1].count, 1);
    cr_expect_eq(heard_of[2].count, 1);
}

Test(client_loop_stop, stop_on_the_loop_delivers_what_comes_and_runs_observers)
{
    watcher.number = 42;
    cr_assert_eq(teff_observer_begin(guest, &probe_handlers, &watcher, &watching), 0);
    cr_assert_eq(act_then(&heard_of[0]), 0);
    cr_assert_eq(rest_then(guest, 2, 10 * MS, &heard_of[1]), 0);
    cr_assert_eq(rest_then(guest, 3, 15 * SECOND, &heard_of[2]), 0);
    stop_here(); /* outside uv_run; the client has not been on its loop yet */
    cr_assert_eq(heard_of[0].code, 0);
    cr_assert_eq(heard_of[0].number, 42);
    cr_assert_eq(heard_of[1].code, 0);
    cr_assert_eq(teff_silo_destroy(silo), silo);
}

static void stop_in_uv_callback(void)
{
    cr_expect_eq(act_then(&heard_of[0]), 0);
    stop_here();
    cr_expect_eq(teff_observer_end(guest, &watching), 0);
}

Test(client_loop_stop, so_does_stop_in_a_callback_of_the_loop)
{
    watcher.number = 42;
    cr_assert_eq(teff_observer_begin(guest, &probe_handlers, &watcher, &watching), 0);
    cr_assert_eq(rest_then(guest, 2, 40 * MS, &heard_of[1]), 0);
    cr_assert_eq(rest_then(guest, 3, 15 * SECOND, &heard_of[2]), 0);
    step_after(20, stop_in_uv_callback);
    run_loop();
    cr_assert_eq(heard_of[0].code, 0);
    cr_assert_eq(heard_of[0].number, 42);
    cr_assert_eq(heard_of[1].code, 0);
}

static void stop_thread(void *unused)
{
    (void)unused;
    cr_expect_eq(teff_silo_stop(silo), 0);
}

static teff__thread other;

static void stop_elsewhere(void)
{
    cr_expect_eq(teff__thread_start(&other, stop_thread, NULL, "stopper"), 0);
}

/* A call that nobody will answer. */
static void open_unanswered(struct heard *heard)
{
    cr_assert_eq(teff_client_create(silo, NULL, &deaf), 0);
    cr_assert_eq(teff_observer_begin(deaf, &probe_handlers, &watcher, &watching), 0);
    cr_assert_eq(act_then(heard), 0);
}

Test(client_loop_stop, stop_elsewhere_ends_the_calls_and_wakes_the_loop)
{
    open_unanswered(&heard_of[0]);
    step_after(20, stop_elsewhere);
    run_loop();
    teff__thread_join(&other);
    cr_assert_eq(heard_of[0].count, 1);
    cr_assert_eq(heard_of[0].code, TEFF_EUNAVAILABLE);
    cr_assert_eq(rest_then(guest, 1, 0, &heard_of[1]), TEFF_EUNAVAILABLE);
    cr_assert_null(teff_client_destroy(deaf));
    cr_assert_eq(teff_silo_destroy(silo), silo); /* the guest is there */
}

static void close_while_stopping(void)
{
    const teff__client *of_guest = (const teff__client *)(const void *)guest;
    stop_elsewhere();
    while (teff__atomic_u32_load_seq_cst(&of_guest->stripe->gate) == 0)
        teff__cpu_relax();
    cr_expect_eq(teff_client_close_then(guest, on_client_closed, NULL), 0);
    guest = NULL;
}

Test(client_loop_stop, a_client_may_close_while_its_silo_stops)
{
    open_unanswered(&heard_of[0]);
    step_after(20, close_while_stopping);
    run_loop();
    teff__thread_join(&other);
    cr_assert_eq(heard_of[0].count, 1);
    cr_assert(heard_of[0].code == TEFF_ECANCELED || heard_of[0].code == TEFF_EUNAVAILABLE);
    cr_assert_eq(closed_count, 1);
    cr_assert_null(teff_client_destroy(deaf));
}

static void run_loop_thread(void *unused)
{
    (void)unused;
    cr_expect_eq(rest_then(guest, 1, MS, &heard_of[0]), 0);
    cr_expect_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}

Test(client_loop_stop, after_the_silo_any_thread_may_close_it)
{
    cr_assert_eq(teff__thread_start(&other, run_loop_thread, NULL, "loop"), 0);
    teff__thread_join(&other);
    cr_assert_eq(heard_of[0].count, 1);
    cr_assert_eq(teff_client_close_then(guest, NULL, NULL), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_stop(silo), 0);
    close_guest();
    cr_assert_eq(closed_count, 1);
}

static int told_stopped;
static uv_sem_t stopped_semaphore;

static void on_stopped(void *user, int result)
{
    cr_expect_eq(user, &told_stopped);
    cr_expect_eq(result, 0);
    uv_sem_post(&stopped_semaphore);
}

static void stop_inside(teff_caller *caller, void *user, const teff_outcome *outcome,
                        const struct told *ret)
{
    on_told(caller, user, outcome, ret);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    cr_expect_eq(teff_silo_stop_then(silo, on_stopped, &told_stopped), 0);
}

Test(client_loop_stop, in_a_completion_only_stop_then_is_allowed)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(uv_sem_init(&stopped_semaphore, 0), 0);
    cr_assert_eq(probe_get_then(guest, &probe, NULL, stop_inside, &heard_of[0]), 0);
    run_loop();
    cr_assert_eq(heard_of[0].count, 1);
    uv_sem_wait(&stopped_semaphore);
    uv_sem_destroy(&stopped_semaphore);
}
