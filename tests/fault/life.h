/* SPDX-License-Identifier: MIT */
/*
 * The life itself: a silo with a task, a turn, a blocking client and a client on a loop that make
 * calls of every form (forms.h), stopped with some under way.
 */
#ifndef TEFF_TESTS_FAULT_LIFE_H
#define TEFF_TESTS_FAULT_LIFE_H

#include "forms.h"

#ifndef LIFE_LOOP_INIT /* the test's own call, which is not to fail */
#define LIFE_LOOP_INIT uv_loop_init
#endif

enum { WATCHES = 3, IN_FLIGHT = 4, ROUNDS_MAX = 5000 };

static struct {
    bool simulated;
    uv_loop_t loop;
    teff_client *own, *looped;
    struct form watcher, looped_watcher; /* their observers */
    bool closed;
    teff__atomic_u32 tasks_ended;
    uint32_t tasks;
    int stopped;
} here;

static int task_main(teff_task *task, void *user)
{
    teff_future futures[EACH];
    (void)user;
    make_calls(task, 100, futures, true);
    claim_calls(task, futures, true);
    (void)add(&here.tasks_ended);
    return 42;
}

/* A call without a result has ended. */
static void on_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                    const teff_none *ret)
{
    (void)caller, (void)ret;
    if (add(user) != 0)
        wrong("a completion ran twice");
    ended(outcome->code, MAY_CANCEL | MAY_STOP, "then, without a result");
}

/* Lets all that is under way end, but for so many futures. */
static void drive(uint32_t unclaimed)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (here.simulated && teff_silo_advance(silo, MS) != 0)
            wrong("the simulated silo does not run");
        if (here.own != NULL)
            (void)teff_client_run(here.own, here.simulated ? 0 : MS);
        if (here.looped != NULL)
            (void)uv_run(&here.loop, UV_RUN_NOWAIT);
        if (count_of(&here.tasks_ended) == here.tasks &&
            count_of(&seen.made) == count_of(&seen.ended) + unclaimed)
            return;
    }
    wrong("of %u calls %u have ended, of %u tasks %u", count_of(&seen.made), count_of(&seen.ended),
          here.tasks, count_of(&here.tasks_ended));
}

/* Lets grains call an observer of this client's. */
static void begin_watches(teff_client *client, struct form *watcher)
{
    struct parcel parcel = { .number = 4 };
    const int r = teff_observer_begin(client, &watcher_handlers, watcher, &parcel.watcher);
    must_be_honest(r, "observer_begin");
    for (int i = 0; r == 0 && i < WATCHES; i++) {
        form_ref to = form_at((uint64_t)(200 + i));
        parcel.bytes[0] = bytes_make("parcel for an observer");
        teff__atomic_u32 *slot = &seen.runs[add(&seen.slots)];
        (void)add(&seen.made);
        const int s = form_watch_then(client, &to, &parcel, on_done, slot);
        if (s != 0) {
            (void)add(slot);
            ended(s, 0, "watch, at once");
        }
        (void)teff_bytes_unref(parcel.bytes[0]);
    }
}

/* Lets a turn make calls of each form. */
static void begin_turn(teff_client *client)
{
    const int64_t first = 300;
    form_ref to = form_at(250);
    teff__atomic_u32 *slot = &seen.runs[add(&seen.slots)];
    (void)add(&seen.made);
    const int r = form_all_then(client, &to, &first, on_done, slot);
    if (r != 0) {
        (void)add(slot);
        ended(r, 0, "all, at once");
    }
}

/* Calls that will not have ended when their client goes, or the silo stops. */
static void begin_in_flight(teff_client *client)
{
    for (int i = 0; i < IN_FLIGHT; i++) {
        form_ref to = form_at((uint64_t)(400 + i));
        const struct parcel parcel = { .bytes = { NULL, bytes_make("parcel, in flight") } };
        teff__atomic_u32 *slot = &seen.runs[add(&seen.slots)];
        (void)add(&seen.made);
        const int r = form_linger_then(client, &to, &parcel, on_receipt, slot);
        if (r != 0) {
            (void)add(slot);
            ended(r, 0, "linger, at once");
        }
        (void)form_linger_start(client, &to, &parcel);
        (void)teff_bytes_unref(parcel.bytes[1]);
    }
}

static void count_line(void *user, const char *text)
{
    *(int *)user += text[0] != '\0';
}

/* Says what is under way. */
static void dump(void)
{
    int lines = 0;
    const int r = teff_silo_dump(silo, count_line, &lines);
    must_be_honest(r, "dump");
    if (r == 0 ? lines < 3 : lines != 0) /* silo, calls, a worker */
        wrong("a dump gave %d, and %d lines", r, lines);
}

static void live_on_clients(void)
{
    teff_future task = { 0 }, futures[EACH], looped_futures[EACH];
    int result = 4711;
    must_be_honest(teff_client_create(silo, NULL, &here.own), "client_create");
    must_be_honest(teff_client_create(silo, &here.loop, &here.looped), "client_create, on a loop");
    const int spawned =
        teff_silo_spawn(silo, 1, task_main, NULL, here.own, here.own != NULL ? &task : NULL);
    must_be_honest(spawned, "spawn");
    here.tasks += spawned == 0;
    if (here.looped != NULL) {
        begin_watches(here.looped, &here.looped_watcher);
        make_calls(here.looped, 0, looped_futures, false);
    }
    if (here.own != NULL) {
        begin_watches(here.own, &here.watcher);
        begin_turn(here.own);
        make_calls(here.own, 10, futures, true);
        claim_calls(here.own, futures, true);
    }
    drive(here.looped != NULL ? EACH : 0);
    if (here.looped != NULL)
        claim_calls(here.looped, looped_futures, false);
    if (here.own == NULL)
        return;
    if (spawned == 0) {
        const int r = teff_task_claim(here.own, task, &result);
        if (r != 0 || result != 42)
            wrong("a task: %s, %d", teff_status_name(r), result);
    }
    begin_in_flight(here.own);
    dump();
    if (teff_client_destroy(here.own) != NULL)
        wrong("a client was not destroyed");
    here.own = NULL;
}

static void on_closed(void *user)
{
    *(bool *)user = true;
}

static void on_stopped(void *user, int result)
{
    if (result != 0)
        wrong("stopped: %s", teff_status_name(result));
    ++*(int *)user;
}

static void stop(void)
{
    if (here.looped != NULL)
        begin_in_flight(here.looped);
    const int asked = teff_silo_stop_then(silo, on_stopped, &here.stopped);
    must_be_honest(asked, "stop_then");
    const int r = teff_silo_stop(silo);
    if (r != 0)
        wrong("stop: %s", teff_status_name(r));
    if (here.stopped != (asked == 0))
        wrong("`stopped` ran %d times", here.stopped);
    teff_counts counts = { .struct_size = sizeof(counts) };
    must_be_honest(teff_silo_counts(silo, &counts), "counts");
    seen.queued = counts.ended[TEFF_END_CANCELED_QUEUED];
    if (here.looped == NULL)
        return;
    if (teff_client_close_then(here.looped, on_closed, &here.closed) != 0)
        wrong("a client on a loop was not closed");
    (void)uv_run(&here.loop, UV_RUN_DEFAULT);
    if (!here.closed)
        wrong("`closed` never ran");
}

/* All that was made has ended, each once. Returns how many completions there were. */
static uint32_t settle_accounts(void)
{
    const uint32_t slots = count_of(&seen.slots);
    for (uint32_t i = 0; i < slots; i++) {
        if (count_of(&seen.runs[i]) != 1)
            wrong("a completion ran %u times", count_of(&seen.runs[i]));
    }
    if (count_of(&seen.made) != count_of(&seen.ended))
        wrong("%u calls were made and %u ended", count_of(&seen.made), count_of(&seen.ended));
    return slots;
}

/* One life. `created` is called with the silo when there is one, `over` before it is destroyed. */
static void live(const teff_silo_options *options, void (*created)(void), void (*over)(void))
{
    memset(&seen, 0, sizeof(seen));
    memset(&here, 0, sizeof(here));
    silo = NULL;
    here.simulated = options->simulated;
    if (LIFE_LOOP_INIT(&here.loop) != 0) {
        wrong("no loop");
        return;
    }
    const int made = teff_silo_create(options, &silo);
    must_be_honest(made, "create");
    if (made == 0) {
        created();
        const int registered = teff_silo_register(silo, &form_type, NULL);
        must_be_honest(registered, "register");
        const int started = teff_silo_start(silo);
        must_be_honest(started, "start");
        if (registered == 0 && started == 0)
            live_on_clients();
        if (started == 0)
            stop();
        over();
        silo = teff_silo_destroy(silo); /* in debug builds it asserts that no byte is left */
        if (silo != NULL)
            wrong("the silo was not destroyed");
    }
    if (uv_loop_close(&here.loop) != 0)
        wrong("something is left on the loop");
    (void)settle_accounts();
}

#endif
