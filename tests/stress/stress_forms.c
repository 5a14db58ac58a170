/* SPDX-License-Identifier: MIT */
/*
 * Calls of every form that nobody waits for, that come too late, and that a stop cuts off.
 *
 *   stress_forms [calls=10000] [stops=100] [workers=2] [tasks=48] [clients=2] [seed=1]
 *                [seconds_max=300]
 *
 * `calls` times turns, tasks, blocking clients and clients on loops start calls, with buffers in
 * arguments and results, and return or go without claiming them; and as often they call with
 * deadlines so short that the handlers answer, with buffers, after the caller has gone on. Then
 * `stops` silos are stopped with all of it in flight: awaited calls, futures, completions, one-way
 * messages, observers, sources that fire before, during and after the stop, turns that sleep. One
 * of a hundred has turns and tasks that sleep for an hour (it takes a second), one has so many that
 * their stacks are dropped, and one so many activations that some are (two and three seconds).
 *
 * Each call that was made has ended once, each completion ran once, each buffer is gone, or the
 * silo could not be destroyed. Under the address sanitizer frames of functions that have returned
 * are kept for a while, so that a write into one is seen.
 */
#include "stress_forms_grains.h"

#include "runtime/silo.h"
#include "runtime/thread.h"

#include <time.h>
#include <uv.h>

enum { TASKS_MAX = 256, CLIENTS_MAX = 16, TICKETS_HELD = 8, WAITS = 400, BLOCKERS = 8, PARTS = 50 };

/* Read by the address sanitizer before main. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_stack_use_after_return=1";
}

typedef struct part {
    book in;
    unsigned long long units;    /* to be done */
    teff__atomic_u64 tickets;    /* taken of them */
    teff__atomic_u64 left, late; /* units done */
    teff__atomic_u64 told;       /* of calls that take long */
    teff_cancel *source;         /* of a round: everybody's */
} part;

typedef struct driver {
    part *of;
    teff__chance chance;
    teff__thread thread;
    bool on_loop;
} driver;

static unsigned long long calls = 10000, stops = 100, workers = 2, tasks = 48, clients = 2,
                          seed = 1;
static unsigned long long seconds_max = 300;
static const char *stage = "starting";
static unsigned long long stage_round;
static const part *stage_part;

static void on_watchdog(int number)
{
    (void)number;
    const book *in = &stage_part->in;
    fail("it hangs, %s, round %llu: %llu units, calls %llu/%llu, completions %llu/%llu", stage,
         stage_round, reading(&stage_part->tickets), reading(&in->answered), reading(&in->called),
         reading(&in->completed), reading(&in->thens));
}

static void check(int r, const char *what)
{
    if (r != 0)
        fail("%s, round %llu: %s: %s", stage, stage_round, what, teff_status_name(r));
}

static void pause_ns(int64_t ns)
{
    const struct timespec pause = { ns / 1000000000, ns % 1000000000 };
    (void)nanosleep(&pause, NULL);
}

/* --- Leaving, and coming too late ------------------------------------------------------------ */

static bool take_ticket(driver *self, unsigned long long *ret)
{
    *ret = teff__atomic_u64_add_relaxed(&self->of->tickets, 1);
    return *ret < self->of->units;
}

/* A deadline that naps of `late_nap` outlast, or nearly do. */
static terms short_terms(driver *self)
{
    return (terms){ .timeout_ns = 1000 + (int64_t)below(&self->chance, 200000) };
}

static int64_t late_nap(driver *self)
{
    return 50000 + (int64_t)below(&self->chance, 350000);
}

static int leaver_main(teff_task *task, void *user)
{
    driver *self = user; /* whose own task waits for this one */
    call_and_leave(&self->of->in, &self->chance, task, (terms){ 0 }, below(&self->chance, 3) == 0);
    (void)call_then(&self->of->in, &self->chance, task, (terms){ 0 }, -1);
    return 0;
}

/* A task comes and goes. */
static void leave_by_task(driver *self, teff_caller *as)
{
    teff_future future;
    int result = -1;
    check(teff_silo_spawn(self->of->in.silo, TEFF_WORKER_ANY, leaver_main, self, as, &future),
          "spawn");
    check(teff_task_claim(as, future, &result), "a task's claim");
    check(result, "a task");
}

static void leave(driver *self, teff_caller *as, bool may_spawn)
{
    if (may_spawn && below(&self->chance, 2) == 0)
        leave_by_task(self, as);
    else
        (void)call_leaver(&self->of->in, &self->chance, as, (terms){ 0 });
    tick(&self->of->left);
}

/* Calls under a source of their own that fires while they are open. */
static void cancel_some(driver *self, teff_caller *as)
{
    terms on = { 0 };
    book *in = &self->of->in;
    check(teff_cancel_create(in->silo, &on.cancel), "a source");
    (void)call_then(in, &self->chance, as, on, late_nap(self));
    call_and_leave(in, &self->chance, as, on, false);
    teff_cancel_fire(on.cancel);
    (void)call_then(in, &self->chance, as, on, -1);
    (void)teff_cancel_unref(on.cancel);
}

static void come_late(driver *self, teff_caller *as, bool waits)
{
    book *in = &self->of->in;
    const terms on = short_terms(self);
    const uint64_t dice = below(&self->chance, 8);
    if (dice == 0)
        cancel_some(self, as);
    else if (dice <= 2 || !waits)
        (void)call_then(in, &self->chance, as, on, late_nap(self));
    else if (dice <= 4)
        call_and_claim(in, &self->chance, as, on, late_nap(self));
    else
        (void)call_await(in, &self->chance, as, on, late_nap(self));
    tick(&self->of->late);
}

static int task_main(teff_task *task, void *user)
{
    driver *self = user;
    for (unsigned long long ticket; take_ticket(self, &ticket);) {
        if (ticket % 2 == 0)
            leave(self, task, true);
        else
            come_late(self, task, true);
    }
    return 0;
}

static void watch(driver *self, teff_client *client)
{
    teff_ref watcher;
    check(teff_observer_begin(client, watcher_handlers_of(), &self->of->in, &watcher),
          "an observer");
    (void)call_notify(&self->of->in, &self->chance, client, &watcher);
    if (below(&self->chance, 4) == 0)
        check(teff_observer_end(client, &watcher), "an observer's end");
}

/* A client comes, and goes with all that it began. True: there is more to do. */
static bool client_visit(driver *self)
{
    teff_client *client;
    unsigned long long ticket;
    bool more = true;
    check(teff_client_create(self->of->in.silo, NULL, &client), "a client");
    watch(self, client);
    for (int i = 0; i < TICKETS_HELD && (more = take_ticket(self, &ticket)); i++) {
        if (ticket % 4 == 0) {
            call_and_leave(&self->of->in, &self->chance, client, (terms){ 0 }, i % 2 == 0);
            tick(&self->of->left);
        } else if (ticket % 2 == 0) {
            leave(self, client, true);
        } else {
            come_late(self, client, true);
        }
        (void)teff_client_run(client, i % 4 == 0 ? 20000 : 0);
    }
    if (teff_client_destroy(client) != NULL)
        fail("a client was not destroyed");
    return more;
}

static void on_closed(void *user)
{
    *(bool *)user = true;
}

static void close_and_run(teff_client *client, uv_loop_t *loop)
{
    bool closed = false;
    check(teff_client_close_then(client, on_closed, &closed), "closing a client");
    (void)uv_run(loop, UV_RUN_DEFAULT);
    if (!closed)
        fail("a client on a loop was not closed");
}

static bool loop_visit(driver *self, uv_loop_t *loop)
{
    teff_client *client;
    unsigned long long ticket;
    bool more = true;
    check(teff_client_create(self->of->in.silo, loop, &client), "a client on a loop");
    watch(self, client);
    for (int i = 0; i < TICKETS_HELD && (more = take_ticket(self, &ticket)); i++) {
        if (ticket % 2 == 0) {
            call_and_leave(&self->of->in, &self->chance, client, (terms){ 0 }, false);
            tick(&self->of->left);
        } else {
            come_late(self, client, false);
        }
        (void)uv_run(loop, i % 4 == 3 ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    }
    close_and_run(client, loop);
    return more;
}

static void client_main(void *user)
{
    driver *self = user;
    uv_loop_t loop;
    if (!self->on_loop) {
        while (client_visit(self)) {
        }
        return;
    }
    check(uv_loop_init(&loop), "a loop");
    while (loop_visit(self, &loop)) {
    }
    check(uv_loop_close(&loop), "closing a loop");
}

/* Whatever is suspended for a moment takes long here, and so does what waits behind it. */
static void on_long(void *user, const teff_long_call *call)
{
    part *self = user;
    if (call->age_ns < 1 || call->grain.type == NULL || call->method == NULL ||
        (call->caller_kind == TEFF_CALLER_GRAIN) != (call->caller.type != NULL) ||
        strstr(call->text, call->method->name) == NULL)
        fail("a long call makes no sense: %s", call->text);
    (void)teff__atomic_u64_add_relaxed(&self->told, 1);
}

static void begin(part *self, int64_t stop_timeout_ns, uint64_t own_seed)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = (uint32_t)workers,
                                        .seed = own_seed,
                                        .stop_timeout_ns = stop_timeout_ns,
                                        .user = self,
                                        .long_call_ns = 1,
                                        .long_call = on_long };
    memset(self, 0, sizeof(*self));
    stage_part = self;
    check(teff_silo_create(&options, &self->in.silo), "create");
    check(teff_silo_register(self->in.silo, &shelf_type, &self->in), "register");
    check(teff_silo_start(self->in.silo), "start");
}

static void driver_init(driver *self, part *of, uint64_t number, bool on_loop)
{
    self->of = of;
    self->on_loop = on_loop;
    teff__chance_init(&self->chance, seed * 1009 + stage_round * 131071 + number + 1);
}

/* Stopped, and all clients gone: nothing may be left, but for grains whose turns were dropped. */
static void end(part *self, bool dropped)
{
    const uint64_t open = teff__silo_open_count(self->in.silo),
                   grains = teff__silo_grain_count(self->in.silo);
    if (open != 0 || (grains != 0 && !dropped))
        fail("%s, round %llu: %llu callbacks are open, %llu grains registered", stage, stage_round,
             (unsigned long long)open, (unsigned long long)grains);
    self->in.silo = teff_silo_destroy(self->in.silo);
    if (self->in.silo != NULL)
        fail("%s, round %llu: the silo was not destroyed", stage, stage_round);
}

static void leave_and_come_late(part *self)
{
    static driver drivers[TASKS_MAX + CLIENTS_MAX];
    teff_future futures[TASKS_MAX];
    teff_client *client;
    stage = "calling";
    begin(self, 0, seed);
    self->units = 2 * calls;
    check(teff_client_create(self->in.silo, NULL, &client), "a client");
    for (uint32_t i = 0; i < tasks + clients; i++) {
        driver_init(&drivers[i], self, i, i % 2 == 1);
        if (i < tasks)
            check(teff_silo_spawn(self->in.silo, TEFF_WORKER_ANY, task_main, &drivers[i], client,
                                  &futures[i]),
                  "spawn");
        else
            check(teff__thread_start(&drivers[i].thread, client_main, &drivers[i], "client"),
                  "thread");
    }
    for (uint32_t i = 0; i < tasks; i++) {
        int result = -1;
        check(teff_task_claim(client, futures[i], &result), "a driver's claim");
    }
    for (uint32_t i = (uint32_t)tasks; i < tasks + clients; i++)
        teff__thread_join(&drivers[i].thread);
    if (teff_client_destroy(client) != NULL)
        fail("the main client was not destroyed");
    check(teff_silo_stop(self->in.silo), "stop");
    end(self, false);
    book_close(&self->in, stage);
    if (reading(&self->left) + reading(&self->late) != self->units)
        fail("%llu of %llu units were done", reading(&self->left) + reading(&self->late),
             self->units);
    if (reading(&self->in.timed_out) == 0 || reading(&self->in.succeeded) == 0 ||
        reading(&self->in.cancelled) == 0)
        fail("no call timed out, succeeded or was cancelled");
}

/* --- Stopping -------------------------------------------------------------------------------- */

/* One call of some form. False: the silo stops. */
static bool call_any(driver *self, teff_caller *as, bool waits)
{
    book *in = &self->of->in;
    teff__chance *chance = &self->chance;
    const uint64_t dice = below(chance, 12);
    const int64_t nap_ns = below(chance, 2) == 0 ? (int64_t)below(chance, 2000000) : -1;
    const terms on = { .cancel = below(chance, 4) == 0 ? self->of->source : NULL,
                       .timeout_ns = below(chance, 8) == 0 ? 50000 : 0 };
    if (dice == 0 && waits)
        return call_leaver(in, chance, as, on);
    if (dice == 1 && waits)
        call_and_claim(in, chance, as, on, nap_ns);
    else if (dice <= 3)
        call_and_leave(in, chance, as, on, false);
    else if (dice <= 5)
        return call_send(in, chance, as);
    else if (dice <= 8 && waits)
        return call_await(in, chance, as, on, nap_ns);
    return call_then(in, chance, as, on, nap_ns);
}

static int stopped_task_main(teff_task *task, void *user)
{
    driver *self = user;
    while (call_any(self, task, true)) {
    }
    return 0;
}

static void stopped_client(driver *self)
{
    teff_client *client;
    teff_ref watcher;
    if (teff_client_create(self->of->in.silo, NULL, &client) != 0)
        return; /* stop was faster */
    if (teff_observer_begin(client, watcher_handlers_of(), &self->of->in, &watcher) == 0)
        (void)call_notify(&self->of->in, &self->chance, client, &watcher);
    while (call_any(self, client, true))
        (void)teff_client_run(client, 0);
    /* Some go at once, with all that is open; some hear how it ends. */
    while (below(&self->chance, 4) != 0 && teff_client_run(client, 100000) != TEFF_EUNAVAILABLE) {
    }
    if (teff_client_destroy(client) != NULL)
        fail("a client was not destroyed");
}

static void stopped_loop_client(driver *self)
{
    teff_client *client;
    teff_ref watcher;
    uv_loop_t loop;
    check(uv_loop_init(&loop), "a loop");
    if (teff_client_create(self->of->in.silo, &loop, &client) == 0) {
        if (teff_observer_begin(client, watcher_handlers_of(), &self->of->in, &watcher) == 0)
            (void)call_notify(&self->of->in, &self->chance, client, &watcher);
        while (call_any(self, client, false)) {
            (void)uv_run(&loop, UV_RUN_NOWAIT);
            pause_ns(20000);
        }
        for (uint64_t turns = below(&self->chance, 20); turns > 0; turns--)
            (void)uv_run(&loop, UV_RUN_NOWAIT);
        close_and_run(client, &loop);
    }
    check(uv_loop_close(&loop), "closing a loop");
}

static void stopped_client_main(void *user)
{
    driver *self = user;
    if (self->on_loop)
        stopped_loop_client(self);
    else
        stopped_client(self);
}

static int waiting_task_main(teff_task *task, void *user)
{
    part *self = user;
    teff__chance chance;
    teff__chance_init(&chance, seed + stage_round + reading(&self->in.ready));
    call_and_stay(&self->in, &chance, task, true);
    return 0;
}

/*
 * How turns and tasks wait for an hour: together with what else goes on; or so many, behind some
 * that block their workers at the end of their turns, or when they are deactivated.
 */
typedef enum waits { WAIT_BESIDE, WAIT_BLOCKED, WAIT_IDLE } waits;

static void begin_waits(part *self, teff__chance *chance, uint32_t count, waits how)
{
    teff_client *client;
    uint32_t ready = count;
    check(teff_client_create(self->in.silo, NULL, &client), "a client");
    for (uint32_t i = 0; i < count; i++) {
        const bool blocks = how != WAIT_BESIDE && i < BLOCKERS;
        const bool stays = how != WAIT_IDLE && (blocks || i % 2 == 0);
        shelf_ref to = shelf_at(WAITERS + i);
        struct parcel parcel = parcel_make(&self->in, chance, stays ? -1 : 0);
        check(blocks ? shelf_block_send(client, &to, &parcel)
                     : shelf_wait_send(client, &to, &parcel),
              "a waiter");
        parcel_drop(&parcel);
        if (how == WAIT_IDLE || i % 4 != 0)
            continue;
        check(teff_silo_spawn(self->in.silo, TEFF_WORKER_ANY, waiting_task_main, self, NULL, NULL),
              "spawn");
        ready += 2; /* the task, and a completion of its */
    }
    if (teff_client_destroy(client) != NULL)
        fail("a client was not destroyed");
    while (reading(&self->in.ready) < ready)
        pause_ns(100000);
    pause_ns(1000000);
}

static void on_stopped(void *user, int result)
{
    teff__atomic_u32_store_release((teff__atomic_u32 *)user, result == 0 ? 1 : 2);
}

/* Stops it, while the source fires: before, or during, or later. */
static void stop(part *self)
{
    teff__atomic_u32 stopped = { 0 };
    const unsigned way = (unsigned)(stage_round % 4);
    if (way == 0)
        teff_cancel_fire(self->source);
    if (way != 1)
        check(teff_silo_stop_then(self->in.silo, on_stopped, &stopped), "stop_then");
    if (way == 2)
        teff_cancel_fire(self->source);
    check(teff_silo_stop(self->in.silo), "stop");
    if (way != 1 && teff__atomic_u32_load_acquire(&stopped) != 1)
        fail("`stopped` did not run");
}

static void stop_round(part *self, teff__chance *chance)
{
    static driver drivers[TASKS_MAX + CLIENTS_MAX];
    const bool hard = stage_round % 100 == 7;
    const uint32_t callers = 6, threads = (uint32_t)clients;
    begin(self, hard ? 10000000 : 50000 + (int64_t)below(chance, 4000000), seed + stage_round);
    check(teff_cancel_create(self->in.silo, &self->source), "a source");
    if (hard)
        begin_waits(self, chance, 8, WAIT_BESIDE);
    for (uint32_t i = 0; i < callers + threads; i++) {
        driver_init(&drivers[i], self, i, i % 2 == 1);
        if (i < callers)
            check(teff_silo_spawn(self->in.silo, TEFF_WORKER_ANY, stopped_task_main, &drivers[i],
                                  NULL, NULL),
                  "spawn");
        else
            check(
                teff__thread_start(&drivers[i].thread, stopped_client_main, &drivers[i], "client"),
                "thread");
    }
    pause_ns((int64_t)below(chance, 2000000));
    stop(self);
    for (uint32_t i = callers; i < callers + threads; i++)
        teff__thread_join(&drivers[i].thread);
    if (stage_round % 4 == 3) {
        if (stage_round % 8 == 3 && teff_silo_destroy(self->in.silo) != self->in.silo)
            fail("a silo was destroyed while there is a source of its");
        teff_cancel_fire(self->source);
    }
    (void)teff_cancel_unref(self->source);
    end(self, false);
    book_close(&self->in, stage);
}

/* So many wait when it ends, behind some that block, that the last do not come to their end. */
static void dropped_round(part *self, teff__chance *chance, waits how)
{
    begin(self, 10000000, seed + stage_round);
    begin_waits(self, chance, WAITS, how);
    check(teff_silo_stop(self->in.silo), "stop");
    end(self, true);
    /* Their calls never ended; but what was promised to somebody else was kept. */
    if (reading(&self->in.thens) != reading(&self->in.completed))
        fail("%llu completions were promised, %llu have run", reading(&self->in.thens),
             reading(&self->in.completed));
}

static void add_up(book *sum, const book *of)
{
    const teff__atomic_u64 *from[] = { &of->called,    &of->thens,   &of->started,   &of->sent,
                                       &of->observed,  &of->turns,   &of->succeeded, &of->timed_out,
                                       &of->cancelled, &of->refused, &of->gone };
    teff__atomic_u64 *to[] = { &sum->called,    &sum->thens,   &sum->started,   &sum->sent,
                               &sum->observed,  &sum->turns,   &sum->succeeded, &sum->timed_out,
                               &sum->cancelled, &sum->refused, &sum->gone };
    for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++)
        (void)teff__atomic_u64_add_relaxed(to[i], reading(from[i]));
}

static void tell(const char *what, const book *in)
{
    printf(
        "%-8s %llu awaited or claimed, %llu futures, %llu completions, %llu one way, %llu turns, "
        "%llu of observers\n"
        "%-8s succeeded %llu, timed out %llu, cancelled %llu, refused %llu, gone %llu\n",
        what, reading(&in->called), reading(&in->started), reading(&in->thens), reading(&in->sent),
        reading(&in->turns), reading(&in->observed), "", reading(&in->succeeded),
        reading(&in->timed_out), reading(&in->cancelled), reading(&in->refused),
        reading(&in->gone));
}

int main(int count, char **given)
{
    static part one;
    static book sum;
    const argument known[] = {
        { "calls", &calls, 0, 100000000 },
        { "stops", &stops, 0, 1000000 },
        { "workers", &workers, 1, 64 },
        { "tasks", &tasks, 1, TASKS_MAX },
        { "clients", &clients, 0, CLIENTS_MAX },
        { "seed", &seed, 1, UINT32_MAX },
        { "seconds_max", &seconds_max, 1, 86400 },
    };
    teff__chance chance;
    arguments_read("stress_forms", known, sizeof(known) / sizeof(known[0]), count, given);
    teff__chance_init(&chance, seed);
    stage_part = &one;
    watchdog_start(seconds_max, on_watchdog);
    if (calls > 0) {
        leave_and_come_late(&one);
        tell("calls", &one.in);
        printf("%-8s %llu left their futures, %llu came late, %llu took long\n", "",
               reading(&one.left), reading(&one.late), reading(&one.told));
        (void)fflush(stdout);
    }
    stage = "stopping";
    for (stage_round = 0; stage_round < stops; stage_round++) {
        if (stage_round % 100 == 57)
            dropped_round(&one, &chance, WAIT_BLOCKED);
        else if (stage_round % 100 == 83)
            dropped_round(&one, &chance, WAIT_IDLE);
        else
            stop_round(&one, &chance);
        add_up(&sum, &one.in);
        if (stops >= 10 * PARTS && (stage_round + 1) % (stops / PARTS) == 0) {
            printf("%llu of %llu stops\n", stage_round + 1, stops);
            (void)fflush(stdout);
        }
    }
    if (stops > 0)
        tell("stops", &sum);
    printf("stress_forms: passed: %llu calls of each kind, %llu stops, seed %llu\n", calls, stops,
           seed);
    return 0;
}
