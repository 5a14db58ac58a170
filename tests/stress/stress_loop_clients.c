/* SPDX-License-Identifier: MIT */
/*
 * Clients on a loop, with everything that can end their calls, at once.
 *
 *   stress_loop_clients [rounds=12] [calls=20000] [in_flight=300] [blocking=2] [workers=2] [seed=1]
 *               [seconds_max=300]
 *
 * Each round makes a silo, a thread with a uv loop and two clients on it, and `blocking` threads
 * with a blocking client each. The loop's clients keep `in_flight` calls under way through
 * completions that open the next one, `calls` in all: with deadlines that pass, under a source that
 * fires now and then, to grains that call an observer back; clients are closed and made again
 * meanwhile. The silo stops when all is done, or at a random time: by another thread, by the loop's
 * own, or by stop_then.
 *
 * Every call that was opened completes exactly once, on the loop's thread, with an answer that is
 * its own or a code that it may have; an observer hears each grain in order, and only while it
 * lives; and nothing is left in the end.
 */
#include "stress_calls_common.h"

#include "runtime/chance.h"
#include "runtime/silo.h"
#include "runtime/thread.h"

#include "teff.h"

#include <time.h>
#include <uv.h>

enum { IN_FLIGHT_MAX = 4096, BLOCKING_MAX = 32, CLIENTS = 2, GRAINS = 40 };

typedef struct stress stress;

/* One call at a time, for ever. */
struct lane {
    struct seat *seat;
    uint64_t stamp; /* of the call that is open; 0: none is */
    bool hasty, cancellable;
};

/* A client on the loop, and the lanes that call by it. */
struct seat {
    stress *of;
    teff_client *client; /* NULL: being closed */
    teff_ref observer;
    bool observing;
    struct lane lanes[IN_FLIGHT_MAX / CLIENTS];
    uint64_t heard[GRAINS]; /* the last number that each grain told */
};

struct stress {
    unsigned long long rounds, calls, in_flight, blocking, workers, seed, seconds_max;
    teff_silo *silo;
    uv_loop_t loop;
    uv_timer_t tick;
    uintptr_t thread; /* the loop's */
    teff__chance chance;
    struct seat seats[CLIENTS];
    teff_cancel *source;
    uint64_t stamp;                       /* of the newest call */
    uint64_t ticks, stop_at_tick;         /* 0: the loop's thread does not stop the silo */
    bool ending;                          /* no more calls are opened */
    teff__atomic_u32 stopping;            /* set before anybody stops the silo */
    teff__atomic_u64 opened, completed;   /* of this round; the watchdog reads them */
    teff__atomic_u64 told, blocking_done; /* statistics */
    uint64_t answered, cancelled, timed_out, unavailable, closed, all;
};

static stress whole;

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs: %llu of %llu calls completed, %llu callbacks are open",
         (unsigned long long)teff__atomic_u64_load_relaxed(&whole.completed),
         (unsigned long long)teff__atomic_u64_load_relaxed(&whole.opened),
         (unsigned long long)teff__silo_open_count(whole.silo));
}

static uint64_t below(stress *of, uint64_t bound)
{
    return teff__chance_next(&of->chance) % bound;
}

static bool stops(stress *of)
{
    return teff__atomic_u32_load_seq_cst(&of->stopping) != 0;
}

/* --- The grain, and the observer that it calls ------------------------------------------------ */

struct news {
    uint64_t grain, number;
};
#define WATCH_METHODS(METHOD, SELF)                                                                \
    METHOD(SELF, tell, struct news, teff_none, TEFF_ONE_WAY)                                       \
    METHOD(SELF, ask, struct news, struct news, 0)
TEFF_INTERFACE(watch, WATCH_METHODS);
TEFF_INTERFACE_DEFINE(watch, WATCH_METHODS);

struct request {
    uint64_t stamp, grain;
    int64_t nap_ns;   /* 0: none */
    uint64_t observe; /* whether `observer` names one */
    watch_ref observer;
};
#define ECHO_METHODS(METHOD, SELF) METHOD(SELF, say, struct request, uint64_t, 0)
TEFF_INTERFACE(echo, ECHO_METHODS);
struct echo {
    uint64_t told;
};
TEFF_GRAIN(echo, ECHO_METHODS);

static int echo_on_say(teff_turn *turn, struct echo *grain, const struct request *arg,
                       uint64_t *ret)
{
    *ret = arg->stamp;
    if (arg->nap_ns != 0)
        (void)teff_sleep(turn, arg->nap_ns);
    if (arg->observe == 0)
        return 0;
    watch_ref observer = arg->observer;
    struct news news = { arg->grain, 0 }, answer;
    for (int i = 0; i < 3; i++) {
        news.number = ++grain->told;
        (void)watch_tell_send(turn, &observer, &news);
    }
    news.number = ++grain->told;
    if (watch_ask(turn, &observer, &news, &answer) == 0 && answer.number != news.number)
        fail("an observer's answer is another call's");
    return 0;
}

static int heard(struct seat *seat, const struct news *news)
{
    if (teff__thread_self() != seat->of->thread)
        fail("an observer runs on another thread");
    if (!seat->observing)
        fail("an observer runs that has ended");
    if (news->number <= seat->heard[news->grain])
        fail("grain %llu told %llu after %llu", (unsigned long long)news->grain,
             (unsigned long long)news->number, (unsigned long long)seat->heard[news->grain]);
    seat->heard[news->grain] = news->number;
    (void)teff__atomic_u64_add_relaxed(&seat->of->told, 1);
    return 0;
}

static int watch_on_tell(teff_turn *turn, struct seat *seat, const struct news *arg, teff_none *ret)
{
    (void)turn, (void)ret;
    return heard(seat, arg);
}

static int watch_on_ask(teff_turn *turn, struct seat *seat, const struct news *arg,
                        struct news *ret)
{
    (void)turn;
    *ret = *arg;
    return heard(seat, arg);
}
TEFF_HANDLERS(watch, struct seat, watch, WATCH_METHODS);

/* --- The loop's calls ------------------------------------------------------------------------- */

static void open_next(struct lane *lane);

static void on_said(teff_caller *caller, void *user, const teff_outcome *outcome,
                    const uint64_t *ret)
{
    struct lane *lane = user;
    stress *of = lane->seat->of;
    (void)caller;
    if (teff__thread_self() != of->thread)
        fail("a completion runs on another thread");
    if (lane->stamp == 0)
        fail("a call completes twice, or one that was refused does");
    (void)teff__atomic_u64_add_relaxed(&of->completed, 1);
    if (outcome->code == 0 ? *ret != lane->stamp : ret != NULL)
        fail("a call got another one's answer, or one with a failure");
    switch (outcome->code) {
    case 0:
        of->answered++;
        break;
    case TEFF_ETIMEDOUT:
        of->timed_out++;
        if (!lane->hasty)
            fail("a call without a timeout of its own timed out");
        break;
    case TEFF_ECANCELED:
        of->cancelled++;
        if (!lane->cancellable && lane->seat->client != NULL)
            fail("a call is cancelled that nobody cancelled");
        break;
    case TEFF_EUNAVAILABLE:
        of->unavailable++;
        if (!stops(of))
            fail("a call is unavailable in an active silo");
        break;
    default:
        fail("a call ends with %s: %s", teff_status_name(outcome->code), outcome->text);
    }
    lane->stamp = 0;
    open_next(lane);
}

static void open_next(struct lane *lane)
{
    static const int64_t timeouts_ns[] = { 1000, 20000, 100000, 1000000, 5000000 };
    struct seat *seat = lane->seat;
    stress *of = seat->of;
    if (seat->client == NULL || of->ending)
        return;
    if (teff__atomic_u64_load_relaxed(&of->opened) >= of->calls) {
        of->ending = true;
        return;
    }
    struct request arg = { .stamp = ++of->stamp, .grain = below(of, GRAINS) };
    if (below(of, 16) == 0)
        arg.nap_ns = (int64_t)below(of, 300000) + 1;
    if (seat->observing && below(of, 16) == 0) {
        arg.observe = 1;
        arg.observer.ref = seat->observer;
    }
    teff_call_options options = { .struct_size = sizeof(options) };
    lane->hasty = below(of, 8) == 0;
    lane->cancellable = below(of, 4) == 0;
    if (lane->hasty)
        options.timeout_ns = timeouts_ns[below(of, 5)];
    if (lane->cancellable)
        options.cancel = of->source;
    echo_ref to = echo_at(arg.grain);
    lane->stamp = arg.stamp;
    (void)teff__atomic_u64_add_relaxed(&of->opened, 1);
    const int r = echo_say_then(teff_with(seat->client, &options), &to, &arg, on_said, lane);
    if (r == 0)
        return;
    if (r != TEFF_EUNAVAILABLE || !stops(of))
        fail("a call is refused with %s", teff_status_name(r));
    if (lane->stamp != arg.stamp)
        fail("a call that is refused completes");
    lane->stamp = 0;
    (void)teff__atomic_u64_add_relaxed(&of->opened, UINT64_MAX);
    of->ending = true;
}

/* --- Clients that come and go ----------------------------------------------------------------- */

static void seat_open(struct seat *seat)
{
    stress *of = seat->of;
    const int r = teff_client_create(of->silo, &of->loop, &seat->client);
    if (r == TEFF_EINVALIDSTATE && stops(of)) {
        of->ending = true;
        return;
    }
    if (r != 0)
        fail("no client on the loop: %s", teff_status_name(r));
    const int observes = teff_observer_begin(seat->client, &watch_handlers, seat, &seat->observer);
    if (observes != 0 && !stops(of))
        fail("no observer: %s", teff_status_name(observes));
    seat->observing = observes == 0;
    for (uint64_t i = 0; i < of->in_flight / CLIENTS; i++)
        open_next(&seat->lanes[i]);
}

static void on_closed(void *user)
{
    struct seat *seat = user;
    for (uint64_t i = 0; i < seat->of->in_flight / CLIENTS; i++)
        if (seat->lanes[i].stamp != 0)
            fail("a client is closed before its calls have completed");
    seat->of->closed++;
    if (!seat->of->ending)
        seat_open(seat);
}

static void seat_close(struct seat *seat)
{
    teff_client *client = seat->client;
    seat->client = NULL;
    if (teff_client_close_then(client, on_closed, seat) != 0)
        fail("a client does not close");
}

/* A closed client ends its observers when it goes: until then they may be called. */
static void observer_end(struct seat *seat)
{
    if (!seat->observing || seat->client == NULL)
        return;
    if (teff_observer_end(seat->client, &seat->observer) != 0)
        fail("an observer does not end");
    seat->observing = false;
}

static void source_renew(stress *of)
{
    of->source = teff_cancel_unref(of->source);
    if (teff_cancel_create(of->silo, &of->source) != 0)
        fail("no source of cancellation");
}

static void stop_on_the_loop(stress *of)
{
    teff__atomic_u32_store_seq_cst(&of->stopping, 1);
    if (teff_silo_stop(of->silo) != 0)
        fail("the silo does not stop on the loop's thread");
    for (int k = 0; k < CLIENTS; k++)
        for (uint64_t i = 0; i < of->in_flight / CLIENTS; i++)
            if (of->seats[k].lanes[i].stamp != 0)
                fail("stop returns before the calls of its thread's clients have completed");
}

static void on_tick(uv_timer_t *timer)
{
    stress *of = timer->data;
    struct seat *any = &of->seats[below(of, CLIENTS)];
    of->ticks++;
    if (of->stop_at_tick != 0 && of->ticks == of->stop_at_tick)
        stop_on_the_loop(of);
    if (of->ending || stops(of)) {
        of->ending = true;
        for (int k = 0; k < CLIENTS; k++)
            observer_end(&of->seats[k]);
        uv_close((uv_handle_t *)timer, NULL);
        return;
    }
    if (below(of, 3) == 0) {
        teff_cancel_fire(of->source);
        source_renew(of);
    }
    if (below(of, 5) == 0 && any->client != NULL)
        seat_close(any);
}

static void loop_main(void *user)
{
    stress *of = user;
    of->thread = teff__thread_self();
    if (uv_loop_init(&of->loop) != 0 || uv_timer_init(&of->loop, &of->tick) != 0)
        fail("no loop");
    of->tick.data = of;
    (void)uv_timer_start(&of->tick, on_tick, 1, 1);
    source_renew(of);
    for (int k = 0; k < CLIENTS; k++)
        seat_open(&of->seats[k]);
    if (uv_run(&of->loop, UV_RUN_DEFAULT) != 0)
        fail("the loop ends with something on it");
    for (int k = 0; k < CLIENTS; k++)
        if (of->seats[k].client != NULL)
            seat_close(&of->seats[k]);
    if (uv_run(&of->loop, UV_RUN_DEFAULT) != 0 || uv_loop_close(&of->loop) != 0)
        fail("a closed client leaves something on the loop");
    of->source = teff_cancel_unref(of->source);
}

/* --- Blocking clients meanwhile --------------------------------------------------------------- */

typedef struct blocker {
    stress *of;
    teff__thread thread;
    uint64_t number;
} blocker;

static void blocking_main(void *user)
{
    blocker *one = user;
    teff_client *client;
    if (teff_client_create(one->of->silo, NULL, &client) != 0) {
        if (!stops(one->of))
            fail("no blocking client");
        return;
    }
    for (uint64_t i = 0; i < one->of->calls / 8; i++) {
        const struct request arg = { .stamp = one->number << 40 | i, .grain = i % GRAINS };
        echo_ref to = echo_at(arg.grain);
        uint64_t ret = 0;
        const bool hasty = i % 8 == 0;
        const int r = echo_say(hasty ? teff_within(client, 20000) : client, &to, &arg, &ret);
        if (r == 0 ? ret != arg.stamp
                   : !(r == TEFF_ETIMEDOUT && hasty) && !(r == TEFF_EUNAVAILABLE && stops(one->of)))
            fail("a blocking call: %s", teff_status_name(r));
        if (r == TEFF_EUNAVAILABLE)
            break;
        (void)teff__atomic_u64_add_relaxed(&one->of->blocking_done, 1);
    }
    if (teff_client_destroy(client) != NULL)
        fail("a blocking client was not destroyed");
}

/* --- Rounds ----------------------------------------------------------------------------------- */

static void pause_us(uint64_t us)
{
    const struct timespec pause = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };
    (void)nanosleep(&pause, NULL);
}

static void on_stopped(void *user, int result)
{
    if (result != 0)
        fail("stop_then ends with %s", teff_status_name(result));
    teff__atomic_u32_store_seq_cst(&((stress *)user)->stopping, 2);
}

static void start(stress *of)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = (uint32_t)of->workers,
                                        .seed = of->seed,
                                        /* statuses come and are kept beside all else */
                                        .long_call_ns = 1 };
    int r = teff_silo_create(&options, &of->silo);
    if (r == 0)
        r = teff_silo_register(of->silo, &echo_grain, of);
    if (r == 0)
        r = teff_silo_start(of->silo);
    if (r != 0)
        fail("no silo: %s", teff_status_name(r));
    of->ending = false;
    of->ticks = 0;
    teff__atomic_u32_store_seq_cst(&of->stopping, 0);
    teff__atomic_u64_store_relaxed(&of->opened, 0);
    teff__atomic_u64_store_relaxed(&of->completed, 0);
    for (int k = 0; k < CLIENTS; k++) {
        memset(&of->seats[k], 0, sizeof(of->seats[k]));
        of->seats[k].of = of;
        for (uint64_t i = 0; i < of->in_flight / CLIENTS; i++)
            of->seats[k].lanes[i].seat = &of->seats[k];
    }
}

/* How the silo of a round stops. */
enum { STOP_LAST, STOP_ELSEWHERE, STOP_ON_LOOP, STOP_THEN, WAYS };

static void round_run(stress *of, unsigned long long number)
{
    static blocker blockers[BLOCKING_MAX];
    teff__thread loop;
    const int way = (int)(number % WAYS);
    teff__chance_init(&of->chance, of->seed * 7919 + number);
    const uint64_t pause = below(of, 60000);
    start(of);
    of->stop_at_tick = way == STOP_ON_LOOP ? below(of, 30) + 1 : 0;
    if (teff__thread_start(&loop, loop_main, of, "loop") != 0)
        fail("no thread");
    for (uint64_t i = 0; i < of->blocking; i++) {
        blockers[i] = (blocker){ .of = of, .number = i + 1 };
        if (teff__thread_start(&blockers[i].thread, blocking_main, &blockers[i], "blocking") != 0)
            fail("no thread");
    }
    if (way == STOP_ELSEWHERE || way == STOP_THEN) {
        pause_us(pause);
        teff__atomic_u32_store_seq_cst(&of->stopping, 1);
        if (way == STOP_ELSEWHERE ? teff_silo_stop(of->silo) != 0
                                  : teff_silo_stop_then(of->silo, on_stopped, of) != 0)
            fail("the silo does not stop");
    }
    teff__thread_join(&loop);
    for (uint64_t i = 0; i < of->blocking; i++)
        teff__thread_join(&blockers[i].thread);
    const uint64_t opened = teff__atomic_u64_load_relaxed(&of->opened);
    if (opened != teff__atomic_u64_load_relaxed(&of->completed))
        fail("%llu calls were opened, %llu completed", (unsigned long long)opened,
             (unsigned long long)teff__atomic_u64_load_relaxed(&of->completed));
    of->all += opened;
    if (teff_silo_destroy(of->silo) != NULL)
        fail("the silo was not destroyed");
    if (way == STOP_THEN && teff__atomic_u32_load_seq_cst(&of->stopping) != 2)
        fail("stop_then has not told the end");
}

static void show(const stress *of)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        { "calls on the loop", of->all },
        { "answered", of->answered },
        { "cancelled", of->cancelled },
        { "timed out", of->timed_out },
        { "ended by stop", of->unavailable },
        { "told to observers", teff__atomic_u64_load_relaxed(&of->told) },
        { "clients closed", of->closed },
        { "blocking calls", teff__atomic_u64_load_relaxed(&of->blocking_done) },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("%-24s %10llu\n", rows[i].name, (unsigned long long)rows[i].value);
}

int main(int count, char **given)
{
    whole.rounds = 12, whole.calls = 20000, whole.in_flight = 300, whole.blocking = 2;
    whole.workers = 2, whole.seed = 1, whole.seconds_max = 300;
    const argument known[] = {
        { "rounds", &whole.rounds, 1, 1000000 },
        { "calls", &whole.calls, 1, 1000000000 },
        { "in_flight", &whole.in_flight, 2, IN_FLIGHT_MAX },
        { "blocking", &whole.blocking, 0, BLOCKING_MAX },
        { "workers", &whole.workers, 1, 64 },
        { "seed", &whole.seed, 1, UINT32_MAX },
        { "seconds_max", &whole.seconds_max, 1, 86400 },
    };
    arguments_read("stress_loop_clients", known, sizeof(known) / sizeof(known[0]), count, given);
    watchdog_start(whole.seconds_max, on_watchdog);
    for (unsigned long long i = 0; i < whole.rounds; i++)
        round_run(&whole, i);
    show(&whole);
    printf("stress_loop_clients: passed: seed %llu, %llu rounds\n", whole.seed, whole.rounds);
    return 0;
}
