/* SPDX-License-Identifier: MIT */
/*
 * Stopping in full swing.
 *
 *   stress_stop [rounds=200; 40 under the sanitizers] [workers=2] [tasks=8] [clients=2] [seed=1]
 *               [seconds_max=300]
 *
 * Each round starts two silos side by side in this process, lets clients and tasks call until they
 * are refused, and stops one silo after the other; the second one must not notice what happens to
 * the first. They are stopped by another thread, by two threads at once, or by teff_silo_stop_then
 * from within a turn, waited for or not; while a client or a turn sleeps for an hour, too. Each
 * call ends once: with success before, with TEFF_EUNAVAILABLE or TEFF_EINVALIDSTATE after, and ran
 * if it succeeded and did not run if its outcome says so. After a warm-up, rounds leave memory,
 * threads and descriptors as they were.
 */
#include "stress_calls_common.h"

#include "runtime/chance.h"
#include "runtime/memory.h"
#include "runtime/silo.h"
#include "runtime/thread.h"

#include "teff.h"

#include <dirent.h>
#include <semaphore.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

enum {
    SILOS = 2,
    GRAINS = 100,
    TASKS_MAX = 64,
    CLIENTS_MAX = 16,
    /*
     * What the process may grow by after the warm-up, in pages: a few pages leaked in each round
     * show in 200 rounds, and the allocators need some hundreds to settle.
     */
    RESIDENT_GROWN_MAX = 1024,
    SIZE_GROWN_MAX = 32768
};
#define HOUR_NS INT64_C(3600000000000)

typedef enum way { BY_THREAD, BY_TURN, BY_TWO_THREADS, BY_TURN_UNWAITED, WAYS } way;

struct one;

typedef struct visitor {
    struct one *one;
    teff__chance chance;
    teff__thread thread;
    uint64_t succeeded,
        uncertain; /* calls: well; not, but their outcome says that they may have run */
    bool sleeps;   /* first, for an hour */
} visitor;

/* One silo for one round. */
typedef struct one {
    teff_silo *silo;
    visitor visitors[CLIENTS_MAX + TASKS_MAX];
    uint32_t clients, tasks;
    teff__atomic_u64 turns;
    teff__atomic_u64 succeeded,
        uncertain;                /* of calls by turns, as above; one-way messages are uncertain */
    teff__atomic_u32 activations; /* came and not gone */
    teff__atomic_u32 visitors_ended; /* tasks and clients */
    teff__atomic_u32 stop_result;    /* of stop_then's callback, + 1 */
    teff__atomic_u32 sleeping;       /* turns that sleep for an hour */
    sem_t stopped;
} one;

static const char *stage = "starting"; /* what main does; for the watchdog */
static unsigned long long stage_round;

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs in round %llu, %s", stage_round, stage);
}

static void check(int r, const char *what)
{
    if (r != 0)
        fail("round %llu: %s: %s", stage_round, what, teff_status_name(r));
}

/* --- The grain -------------------------------------------------------------------------------- */

#define PLACE_METHODS(METHOD, SELF)                                                                \
    METHOD(SELF, visit, teff_none, teff_none, 0)                                                   \
    METHOD(SELF, relay, uint64_t, teff_none, 0) /* awaits another place, of a higher number */     \
    METHOD(SELF, sleep, teff_none, teff_none, 0)                                                   \
    METHOD(SELF, halt, teff_none, teff_none, 0) /* stops the silo from within */
TEFF_INTERFACE(place, PLACE_METHODS);
TEFF_INTERFACE_DEFINE(place, PLACE_METHODS);
struct place {
    bool here;
};
TEFF_HANDLERS(place, struct place, place, PLACE_METHODS);

static one *count_turn(teff_turn *turn)
{
    one *self = teff_turn_context(turn);
    (void)teff__atomic_u64_add_relaxed(&self->turns, 1);
    return self;
}

static int place_on_visit(teff_turn *turn, struct place *self, const teff_none *arg, teff_none *ret)
{
    (void)arg;
    (void)ret;
    (void)count_turn(turn);
    if (!self->here)
        fail("a turn of a place that was not activated");
    return 0;
}

static int place_on_relay(teff_turn *turn, struct place *self, const uint64_t *arg, teff_none *ret)
{
    place_ref to = place_at(*arg);
    (void)self;
    (void)ret;
    one *of = count_turn(turn);
    const int r = place_visit(turn, &to, NULL, NULL);
    if (r == 0)
        (void)teff__atomic_u64_add_relaxed(&of->succeeded, 1);
    else if (teff_outcome_last(turn)->may_have_run)
        (void)teff__atomic_u64_add_relaxed(&of->uncertain, 1);
    return teff_turn_pass(turn, r);
}

static int place_on_sleep(teff_turn *turn, struct place *self, const teff_none *arg, teff_none *ret)
{
    one *of = count_turn(turn);
    (void)self;
    (void)arg;
    (void)ret;
    (void)teff__atomic_u32_add_relaxed(&of->sleeping, 1);
    return teff_sleep(turn, HOUR_NS);
}

static void on_stopped(void *user, int result)
{
    one *self = user;
    (void)teff__atomic_u32_add_relaxed(&self->stop_result, result == 0 ? 1 : 1000);
    (void)sem_post(&self->stopped);
}

static int place_on_halt(teff_turn *turn, struct place *self, const teff_none *arg, teff_none *ret)
{
    one *of = count_turn(turn);
    (void)self;
    (void)arg;
    (void)ret;
    if (teff_silo_stop(of->silo) != TEFF_EWOULDBLOCK)
        fail("a turn may wait for stop");
    check(teff_silo_stop_then(of->silo, on_stopped, of), "stop_then from a turn");
    return 0;
}

static int place_activate(teff_turn *turn, void *self)
{
    one *of = teff_turn_context(turn);
    ((struct place *)self)->here = true;
    (void)teff__atomic_u32_add_relaxed(&of->activations, 1);
    return 0;
}

static void place_deactivate(teff_turn *turn, void *self, int reason)
{
    one *of = teff_turn_context(turn);
    (void)self;
    if (reason != TEFF_DEACTIVATED_STOP)
        fail("a place is deactivated for the reason %d", reason);
    (void)teff__atomic_u32_add_relaxed(&of->activations, UINT32_MAX);
}

static const teff_handlers *const place_implements[] = { &place_handlers, NULL };
static const teff_grain_type place_type = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "place" },
    .state_size = sizeof(struct place),
    .implements = place_implements,
    .activate = place_activate,
    .deactivate = place_deactivate,
};

/* --- Callers ---------------------------------------------------------------------------------- */

static bool is_refusal(int r)
{
    return r == TEFF_EUNAVAILABLE || r == TEFF_EINVALIDSTATE;
}

/*
 * Calls until it is refused, and then is refused again; but a relay may be refused on a worker that
 * has heard of stop before the caller's own has.
 */
static void call_on(visitor *self, teff_caller *as)
{
    int r;
    bool relayed;
    do {
        const uint64_t number = teff__chance_next(&self->chance) % GRAINS;
        const uint64_t dice = teff__chance_next(&self->chance) % 8;
        place_ref to = place_at(number);
        if (dice == 0)
            self->uncertain += place_visit_send(as, &to, NULL) == 0;
        relayed = dice == 1;
        if (relayed) {
            const uint64_t next = number + 1 + teff__chance_next(&self->chance) % GRAINS;
            r = place_relay(as, &to, &next, NULL);
        } else {
            r = place_visit(as, &to, NULL, NULL);
        }
        self->succeeded += r == 0;
        self->uncertain += r != 0 && teff_outcome_last(as)->may_have_run;
    } while (r == 0 || (relayed && is_refusal(r)));
    for (int i = 0; i < 3 && is_refusal(r); i++) {
        place_ref to = place_at(teff__chance_next(&self->chance) % GRAINS);
        r = place_visit(as, &to, NULL, NULL);
        if (r == 0)
            fail("round %llu: a call succeeds after one was refused", stage_round);
    }
    if (!is_refusal(r))
        fail("round %llu: a call ends with %s: %s", stage_round, teff_status_name(r),
             teff_outcome_last(as)->text);
}

static void visitor_ended(visitor *self)
{
    (void)teff__atomic_u32_add_relaxed(&self->one->visitors_ended, 1);
}

static int task_main(teff_task *task, void *user)
{
    visitor *self = user;
    if (self->sleeps && teff_sleep(task, HOUR_NS) != TEFF_EUNAVAILABLE)
        fail("round %llu: a task slept an hour", stage_round);
    call_on(self, task);
    visitor_ended(self);
    return 0;
}

static void client_main(void *user)
{
    visitor *self = user;
    teff_client *client;
    const int r = teff_client_create(self->one->silo, NULL, &client);
    if (r != 0 && r != TEFF_EINVALIDSTATE)
        check(r, "a client");
    if (r == 0) {
        if (self->sleeps && teff_sleep(client, HOUR_NS) != TEFF_EUNAVAILABLE)
            fail("round %llu: a client slept an hour", stage_round);
        call_on(self, client);
        if (teff_client_destroy(client) != NULL)
            fail("round %llu: a client was not destroyed", stage_round);
    }
    visitor_ended(self);
}

/* --- A round ---------------------------------------------------------------------------------- */

static void pause_ns(int64_t ns)
{
    const struct timespec pause = { ns / 1000000000, ns % 1000000000 };
    (void)nanosleep(&pause, NULL);
}

static void begin(one *self, uint32_t workers, uint64_t seed, bool sleepers)
{
    const teff_silo_options options = {
        .struct_size = sizeof(options),
        .workers = workers,
        .seed = seed,
        .stop_timeout_ns = sleepers ? 20000000 : 0, /* a turn that sleeps is waited for so long */
    };
    check(sem_init(&self->stopped, 0, 0), "semaphore");
    check(teff_silo_create(&options, &self->silo), "create");
    check(teff_silo_register(self->silo, &place_type, self), "register");
    check(teff_silo_start(self->silo), "start");
    for (uint32_t i = 0; i < self->clients + self->tasks; i++) {
        visitor *each = &self->visitors[i];
        each->one = self;
        teff__chance_init(&each->chance, seed * 1009 + i + 1);
        each->sleeps = sleepers && i % 4 == 1;
        if (i < self->clients)
            check(teff__thread_start(&each->thread, client_main, each, "client"), "thread");
        else
            check(teff_silo_spawn(self->silo, TEFF_WORKER_ANY, task_main, each, NULL, NULL),
                  "spawn");
    }
}

/* Sends a turn that does `number` by a client of this thread's; the answer may be lost to stop. */
static void send_turn(one *self, uint32_t number)
{
    teff_client *client;
    place_ref to = place_at(GRAINS * 3 + number);
    check(teff_client_create(self->silo, NULL, &client), "a client");
    check(teff_call_send(client, &to.ref, &place_interface, number, NULL), "send");
    (void)teff__atomic_u64_add_relaxed(&self->uncertain, 1);
    if (teff_client_destroy(client) != NULL)
        fail("round %llu: main's client was not destroyed", stage_round);
}

static void stop_main(void *user)
{
    const one *self = user;
    check(teff_silo_stop(self->silo), "stop");
}

static void stop(one *self, way by)
{
    teff__thread other;
    switch (by) {
    case BY_TURN:
    case BY_TURN_UNWAITED:
        send_turn(self, place_number_halt);
        if (by == BY_TURN)
            while (sem_wait(&self->stopped) != 0) {
            }
        break;
    case BY_TWO_THREADS:
        check(teff__thread_start(&other, stop_main, self, "stopper"), "thread");
        check(teff_silo_stop(self->silo), "stop, the second");
        teff__thread_join(&other);
        break;
    default:
        check(teff_silo_stop(self->silo), "stop");
        break;
    }
}

static void destroy_main(void *user)
{
    one *self = user;
    self->silo = teff_silo_destroy(self->silo);
}

/* Destroys it, now and then from a thread that did not exist while the silo ran. */
static void destroy(one *self, bool elsewhere)
{
    teff__thread other;
    if (elsewhere) {
        check(teff__thread_start(&other, destroy_main, self, "destroyer"), "thread");
        teff__thread_join(&other);
    } else {
        destroy_main(self);
    }
    if (self->silo != NULL)
        fail("round %llu: the silo was not destroyed", stage_round);
}

static void end(one *self, way by, bool elsewhere)
{
    teff_client *client;
    for (uint32_t i = 0; i < self->clients; i++)
        teff__thread_join(&self->visitors[i].thread);
    if (by == BY_TURN_UNWAITED) /* stop may still be under way */
        check(teff_silo_stop(self->silo), "stop, once more");
    if (teff_client_create(self->silo, NULL, &client) != TEFF_EINVALIDSTATE)
        fail("round %llu: a client of a stopped silo", stage_round);
    if (teff_silo_spawn(self->silo, 0, task_main, self, NULL, NULL) != TEFF_EINVALIDSTATE)
        fail("round %llu: a task of a stopped silo", stage_round);
    if (teff__silo_open_count(self->silo) != 0 || teff__silo_grain_count(self->silo) != 0)
        fail("round %llu: after stop %llu callbacks are open, %llu grains registered", stage_round,
             (unsigned long long)teff__silo_open_count(self->silo),
             (unsigned long long)teff__silo_grain_count(self->silo));
    destroy(self, elsewhere);

    uint64_t succeeded = teff__atomic_u64_load_relaxed(&self->succeeded);
    uint64_t uncertain = teff__atomic_u64_load_relaxed(&self->uncertain);
    for (uint32_t i = 0; i < self->clients + self->tasks; i++) {
        succeeded += self->visitors[i].succeeded;
        uncertain += self->visitors[i].uncertain;
    }
    const uint64_t turns = teff__atomic_u64_load_relaxed(&self->turns);
    if (turns < succeeded || turns > succeeded + uncertain)
        fail("round %llu: %llu turns ran of %llu calls that succeeded and %llu that may have run",
             stage_round, (unsigned long long)turns, (unsigned long long)succeeded,
             (unsigned long long)uncertain);
    if (teff__atomic_u32_load_relaxed(&self->visitors_ended) != self->clients + self->tasks)
        fail("round %llu: %u of %u tasks and clients ended", stage_round,
             teff__atomic_u32_load_relaxed(&self->visitors_ended), self->clients + self->tasks);
    if (teff__atomic_u32_load_relaxed(&self->activations) != 0)
        fail("round %llu: %u activations are left", stage_round,
             teff__atomic_u32_load_relaxed(&self->activations));
    const uint32_t expected = by == BY_TURN || by == BY_TURN_UNWAITED;
    if (teff__atomic_u32_load_relaxed(&self->stop_result) != expected)
        fail("round %llu: `stopped` ran %u times well, expected %u", stage_round,
             teff__atomic_u32_load_relaxed(&self->stop_result), expected);
    (void)sem_destroy(&self->stopped);
}

/* --- What is left of it ----------------------------------------------------------------------- */

typedef struct usage {
    unsigned long size, resident, threads, descriptors;
} usage;

static unsigned long count_entries(const char *path)
{
    unsigned long count = 0;
    DIR *folder = opendir(path);
    if (folder == NULL)
        fail("cannot read %s", path);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(folder);
    return count;
}

static usage look(void)
{
    usage now = { 0 };
    teff__memory_purge();
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu %lu", &now.size, &now.resident) != 2)
        fail("cannot read /proc/self/statm");
    (void)fclose(file);
    now.threads = count_entries("/proc/self/task");
    now.descriptors = count_entries("/proc/self/fd");
    return now;
}

static void compare(const usage *before, const usage *after)
{
    printf("%-12s %10s %10s\n", "", "warm", "at the end");
    printf("%-12s %10lu %10lu\n", "size", before->size, after->size);
    printf("%-12s %10lu %10lu  pages\n", "resident", before->resident, after->resident);
    printf("%-12s %10lu %10lu\n", "threads", before->threads, after->threads);
    printf("%-12s %10lu %10lu\n", "descriptors", before->descriptors, after->descriptors);
    if (after->threads != before->threads || after->descriptors != before->descriptors)
        fail("threads or descriptors are left");
    /* The sanitizers keep what was freed, and shadows. */
    if (!SANITIZED && (after->resident > before->resident + RESIDENT_GROWN_MAX ||
                       after->size > before->size + SIZE_GROWN_MAX))
        fail("memory grows");
}

int main(int count, char **given)
{
    static one silos[SILOS];
    unsigned long long rounds = SANITIZED ? 40 : 200, workers = 2, tasks = 8, clients = 2, seed = 1;
    unsigned long long seconds_max = 300;
    const argument known[] = {
        { "rounds", &rounds, 1, 1000000 }, { "workers", &workers, 1, 64 },
        { "tasks", &tasks, 0, TASKS_MAX }, { "clients", &clients, 0, CLIENTS_MAX },
        { "seed", &seed, 1, UINT32_MAX },  { "seconds_max", &seconds_max, 1, 86400 },
    };
    teff__chance chance;
    usage warm = { 0 };
    arguments_read("stress_stop", known, sizeof(known) / sizeof(known[0]), count, given);
    teff__chance_init(&chance, seed);
    watchdog_start(seconds_max, on_watchdog);
    for (stage_round = 0; stage_round < rounds; stage_round++) {
        const bool sleepers = stage_round % 100 == 7; /* takes two seconds */
        const uint64_t swing_ns = teff__chance_next(&chance) % 4000000;
        if (stage_round == rounds / 4)
            warm = look();
        stage = "starting";
        for (uint32_t i = 0; i < SILOS; i++) {
            memset(&silos[i], 0, sizeof(silos[i]));
            silos[i].clients = (uint32_t)clients;
            silos[i].tasks = (uint32_t)tasks;
            begin(&silos[i], (uint32_t)workers, seed + stage_round, sleepers);
        }
        if (sleepers)
            for (uint32_t i = 0; i < SILOS; i++)
                send_turn(&silos[i], place_number_sleep);
        pause_ns((int64_t)swing_ns);
        for (uint32_t i = 0; i < SILOS; i++) {
            const way by = (way)((stage_round + i) % WAYS);
            stage = "stopping";
            stop(&silos[i], by);
            stage = "ending";
            end(&silos[i], by, stage_round % 3 == 0);
        }
    }
    const usage after = look();
    compare(&warm, &after);
    printf("stress_stop: passed: %llu rounds of %d silos, seed %llu\n", rounds, SILOS, seed);
    return 0;
}
