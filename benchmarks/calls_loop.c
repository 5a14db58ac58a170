/* SPDX-License-Identifier: MIT */
/* The measurements on a loop of this thread's: a client on it, and a silo on it. */
#include "benchmarks/calls_forms.h"
#include "benchmarks/calls_grain.h"
#include "benchmarks/machine.h"

#include <uv.h>

enum {
    WARM_UP_PART = 5,    /* of the duration */
    CALLS_PER_LOOK = 256 /* at the clock */
};

/* From the end of the warm-up to the end. */
typedef struct window {
    int64_t warm_ns, end_ns; /* when it begins and ends, at the earliest */
    int64_t from_ns, to_ns;
    uint64_t calls, from_calls, to_calls;
    bool ending;
    int failed; /* the first status that was not 0 */
} window;

static void window_begin(window *of, int64_t duration_ns)
{
    const int64_t now_ns = machine_now_ns();
    *of = (window){ .warm_ns = now_ns + duration_ns / WARM_UP_PART,
                    .end_ns = now_ns + duration_ns / WARM_UP_PART + duration_ns };
}

/* One more call has been answered. */
static inline void window_count(window *of)
{
    if (++of->calls % CALLS_PER_LOOK != 0)
        return;
    const int64_t now_ns = machine_now_ns();
    if (of->from_ns == 0) {
        if (now_ns < of->warm_ns)
            return;
        of->from_ns = now_ns;
        of->from_calls = of->calls;
    } else if (!of->ending && now_ns >= of->end_ns) { /* however late: some were answered since */
        of->to_ns = now_ns;
        of->to_calls = of->calls;
        of->ending = true;
    }
}

static int window_result(const window *of, double *ret_ns)
{
    if (of->failed != 0)
        return calls_complain("a call failed, or was not the next of its grain", of->failed);
    if (of->to_calls <= of->from_calls)
        return calls_complain("not one call was answered", 0);
    *ret_ns = (double)(of->to_ns - of->from_ns) / (double)(of->to_calls - of->from_calls);
    return 0;
}

/* A caller of either kind, with a grain of its own. */
typedef struct loop_caller {
    calls_echo_ref echo;
    uint64_t turns; /* that its grain has run */
    window *in;
} loop_caller;

static const struct calls_arg one = { .add = 1 };

static void note(loop_caller *caller, int code)
{
    if (code != 0 && caller->in->failed == 0)
        caller->in->failed = code;
    caller->in->ending |= code != 0;
}

static void check(loop_caller *caller, uint64_t turns)
{
    if (caller->turns != 0 && turns != caller->turns + 1)
        note(caller, TEFF_EINVALIDSTATE);
    caller->turns = turns;
    window_count(caller->in);
}

/* --- A client on the loop ------------------------------------------------------------------ */

static void on_added(teff_caller *client, void *user, const teff_outcome *outcome,
                     const struct calls_ret *ret)
{
    loop_caller *caller = user;
    if (outcome->code != 0) {
        note(caller, outcome->code);
        return;
    }
    check(caller, ret->turns);
    if (!caller->in->ending)
        note(caller, calls_echo_add_then(client, &caller->echo, &one, on_added, caller));
}

int calls_then(calls_host *host, int64_t duration_ns, double *ret_ns)
{
    static loop_caller callers[CALLS_GRAINS];
    uv_loop_t loop;
    teff_client *client = NULL;
    window in;
    int r = uv_loop_init(&loop);
    if (r == 0)
        r = teff_client_create(host->silo, &loop, &client);
    if (r != 0)
        return calls_complain("no client on a loop", r);
    window_begin(&in, duration_ns);
    for (unsigned i = 0; i < CALLS_GRAINS; i++) {
        callers[i] = (loop_caller){ .echo = calls_echo_at(i), .in = &in };
        note(&callers[i],
             calls_echo_add_then(client, &callers[i].echo, &one, on_added, &callers[i]));
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* until nothing is under way */
    r = teff_client_close_then(client, NULL, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (r != 0 || uv_loop_close(&loop) != 0)
        return calls_complain("the loop is not empty", r);
    return window_result(&in, ret_ns);
}

/* --- A silo on the loop -------------------------------------------------------------------- */

/* What stops the silo when the last caller has ended. */
typedef struct loop_silo {
    teff_silo *silo;
    unsigned running;
} loop_silo;

typedef struct loop_task {
    loop_caller caller;
    loop_silo *on;
} loop_task;

static void on_stopped(void *user, int result)
{
    (void)user;
    (void)result;
}

static int caller_main(teff_task *task, void *user)
{
    loop_task *job = user;
    struct calls_ret ret;
    while (!job->caller.in->ending) {
        const int r = calls_echo_add(task, &job->caller.echo, &one, &ret);
        if (r != 0)
            note(&job->caller, r);
        else
            check(&job->caller, ret.turns);
    }
    if (--job->on->running == 0)
        note(&job->caller, teff_silo_stop_then(job->on->silo, on_stopped, NULL));
    return 0;
}

static int start_on(uv_loop_t *loop, teff_silo **ret)
{
    const teff_silo_options options = { .struct_size = sizeof(options), .loop = loop };
    int r = teff_silo_create(&options, ret);
    if (r == 0)
        r = teff_silo_register(*ret, &calls_echo_grain, NULL);
    return r == 0 ? teff_silo_start(*ret) : r;
}

int calls_same_loop(int64_t duration_ns, double *ret_ns)
{
    static loop_task tasks[CALLS_GRAINS];
    uv_loop_t loop;
    window in;
    loop_silo on = { NULL, 0 };
    int r = uv_loop_init(&loop);
    if (r == 0)
        r = start_on(&loop, &on.silo);
    window_begin(&in, duration_ns);
    for (unsigned i = 0; r == 0 && i < CALLS_GRAINS; i++) {
        tasks[i] = (loop_task){ .caller = { .echo = calls_echo_at(i), .in = &in }, .on = &on };
        r = teff_silo_spawn(on.silo, TEFF_WORKER_ANY, caller_main, &tasks[i], NULL, NULL);
        on.running += r == 0;
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* until the silo has stopped */
    on.silo = teff_silo_destroy(on.silo);
    if (r != 0 || on.silo != NULL || uv_loop_close(&loop) != 0)
        return calls_complain("no silo on a loop, or it does not stop", r);
    return window_result(&in, ret_ns);
}
