/* SPDX-License-Identifier: MIT */
/*
 * The silo: grains, and the workers that run them.
 *
 * Created, types registered, started: active until stopped, and then destroyed. Several silos live
 * side by side in one process. A silo runs in one of three ways:
 *
 *   on threads    of its own, one for each worker
 *   on a loop     of the program's (`loop`), with one worker and no thread: grains run on that
 *                 loop, a slice of about 50 us at a time, between its other callbacks. It keeps
 *                 uv_run going until it has stopped
 *   simulated     (`simulated`): nothing runs but inside teff_silo_run, teff_silo_advance and
 *                 blocking calls of clients, and time passes only in the last two: the same seed
 *                 does the same thing twice. A wait that nothing can end is TEFF_EDEADLOCK
 *
 * A process that forked keeps its silos in the parent: any call in the child is TEFF_EINVALIDSTATE.
 */
#ifndef TEFF_SILO_H
#define TEFF_SILO_H

#include "teff/export.h"
#include "teff/grain.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uv_loop_s;

/* A silo, known by its pointer. */
typedef struct teff_silo teff_silo;

typedef struct teff_long_call teff_long_call; /* teff/inspect.h */
typedef struct teff_notice teff_notice;       /* teff/inspect.h */

/* As `routes_max`: no routes are kept. */
#define TEFF_ROUTES_NONE UINT32_MAX

/* Zero in a member means its default. Set struct_size to sizeof(teff_silo_options). */
typedef struct teff_silo_options {
    size_t struct_size; /* sizeof(teff_silo_options) */
    /* at most 64; 0: one for each usable core, or 1 if simulated or on a loop */
    uint32_t workers;
    struct uv_loop_s *loop; /* NULL: on threads; else borrowed until stopped */
    size_t stack_bytes;     /* of a turn or task; 0: 64 KiB */

    /*
     * On each worker `worker_start` runs first and `worker_stop` last. The former may give a
     * context for teff_turn_worker_context; non-zero makes teff_silo_start fail with it. `user` is
     * handed to both and borrowed until stopped.
     */
    int (*worker_start)(void *user, uint32_t worker, void **ret_context);
    void (*worker_stop)(void *user, void *context);
    void *user;

    bool simulated; /* runs inside calls only; see the top of this file */
    /*
     * Of all chance in the silo; 0: from the kernel. Two silos of one seed give their observers the
     * same keys, so a reference of the one may reach an observer of the other.
     */
    uint64_t seed;

    /* of calls that name none; 0: 30 s (as Orleans); see teff_silo_set_response_timeout */
    int64_t response_timeout_ns;
    int64_t stop_timeout_ns; /* how long stop lets running requests end; 0: 10 s */

    /* Suspended turns and tasks on each worker; 0: as vm.max_map_count lets them be guarded. */
    uint32_t suspended_max;
    /* What the silo may allocate, stacks excepted; beyond it TEFF_ENOMEM. 0: no limit. */
    uint64_t memory_bytes_max;
    /* Messages that wait for one grain; beyond it TEFF_EOVERLOADED. 0: 65,536. */
    uint32_t mailbox_max;

    /*
     * How old a call is that is long: `long_call`, which may be NULL, is told of it then, and once
     * more after each further such time. 0: 20 s; INT64_MAX: none is long. It runs on a worker's
     * thread, outside of locks, with `user`; it must return soon, and may log, count, fire a source
     * or spawn a task, but neither call grains nor block. See teff_long_call in teff/inspect.h.
     */
    int64_t long_call_ns;
    void (*long_call)(void *user, const teff_long_call *call);

    /*
     * What the silo wants somebody to know: a mailbox that fills, an activation that it gave up,
     * memory that runs short. NULL: nobody. Runs as `long_call` does. See teff_notice in
     * teff/inspect.h.
     */
    void (*notice)(void *user, const teff_notice *notice);

    /*
     * Each worker's cache of the ways to grains on other workers: so many entries, of which the
     * least recently used make room. 3 to 16,777,215; 0: 1,000,000; TEFF_ROUTES_NONE: none is kept,
     * each call asks the directory.
     */
    uint32_t routes_max;
    teff_placement placement; /* of types that say nothing */
    /*
     * For how long a route is kept that nobody uses. 0: 240 s; INT64_MAX, or more than 10 days: as
     * long as there is room.
     */
    int64_t routes_ttl_ns;

    /* Of types that say nothing; 0: 15 min; INT64_MAX: never. See teff_grain_type. */
    int64_t idle_ns;
    int64_t idle_quantum_ns; /* how finely that is kept; 0: 1 min; at least 1 ms */

    /*
     * How long `activate` and `deactivate` may take; 0: 30 s each; INT64_MAX: for ever. A hook that
     * sleeps is woken then with TEFF_ECANCELED. One that still waits is given up: after `activate`
     * callers get TEFF_ECANCELED, after `deactivate` the next activation serves the mail.
     */
    int64_t activate_timeout_ns, deactivate_timeout_ns;
    /*
     * How long a turn may take that is suspended, not one that runs. Then the activation is given up:
     * the turn's call ends with TEFF_ESTUCK, what waits is served by a new activation, and the old
     * one's state is kept until its turn ends, unheard. 0: 2 h; INT64_MAX: for ever.
     */
    int64_t stuck_ns;

    uint64_t activations_max; /* in the silo; beyond it TEFF_EOVERLOADED. 0: no limit */
    /*
     * Messages that wait for one grain: more give a notice, once, and again only after half of them
     * or less was left. 0, or no less than mailbox_max: none do.
     */
    uint32_t mailbox_warn;

    /*
     * Shedding, off while shed_at_percent is 0: when so much of the memory is used (of
     * memory_bytes_max, or of what the system lets this process have), the grains that were idle for
     * longest, as their ages count, are deactivated until shed_to_percent should be (0: 75; less
     * than shed_at_percent). Each worker looks at it every shed_period_ns (0: 5 s) and sheds its own
     * share. Grains that have work, or whose types are never idle, stay.
     */
    uint32_t shed_at_percent, shed_to_percent;
    int64_t shed_period_ns;
} teff_silo_options;

/*
 * Makes a silo that is not running yet. `options` may be NULL.
 *
 * Ownership: copies *options; gives a silo, free with teff_silo_destroy.
 * Threads:   any.
 * Errors:    TEFF_EINVAL: struct_size is wrong, a member is out of its range, or a silo on a loop
 *            is to have several workers or to be simulated.
 *            TEFF_ELIMIT: too many workers, or routes_max is. TEFF_ENOMEM.
 */
TEFF_EXPORT int teff_silo_create(const teff_silo_options *options, teff_silo **ret);

/*
 * Makes a grain type known; before start. `context` is what teff_turn_context gives to its turns.
 *
 * Ownership: copies *type; borrows all that it points to until the silo is destroyed, and `context`
 *            until stopped.
 * Threads:   one at a time.
 * Errors:    TEFF_EINVAL: the type is not well formed: no name or one over 255 bytes, a state over
 *            1 MiB, no interface, over 64 or one twice, a handler missing, a value over
 *            TEFF_VALUE_MAX, an option that is unknown, more buffers than a value holds or any in
 *            the result of a one-way row, a negative time, an unknown placement, stateless_max
 *            over 65,535.
 *            TEFF_EINVALIDSTATE: the name is taken, or the silo has been started.
 *            TEFF_ELIMIT: more than 65,535 types. TEFF_ENOMEM.
 */
TEFF_EXPORT int teff_silo_register(teff_silo *silo, const teff_grain_type *type, void *context);

/*
 * What was wrong with the type that teff_silo_register last refused, as a sentence for a log; ""
 * where none was.
 *
 * Ownership: static.
 * Threads:   as teff_silo_register.
 */
TEFF_EXPORT const char *teff_silo_register_reason(const teff_silo *silo);

/*
 * Starts the workers and returns when all are ready. If one fails, those before it are stopped
 * again, and the silo may be destroyed only.
 *
 * Threads: one at a time; the loop's where the silo runs on one.
 * Errors:  TEFF_EINVALIDSTATE: not just created. TEFF_ENOMEM, TEFF_ELIMIT, a negated errno, what
 *          worker_start returned.
 */
TEFF_EXPORT int teff_silo_start(teff_silo *silo);

/*
 * Sets `response_timeout_ns` anew: of calls to come, and of those that wait and name no timeout of
 * their own, from when they were made. One that has waited longer by now ends at once.
 *
 * What a turn calls ends with the turn's own deadline, as before; and that stays what it was when
 * the turn began, also where its caller now waits longer, or not any more.
 *
 * Threads:  any; the last value set counts.
 * Suspends: no.
 * Time:     `timeout_ns` 0: 30 s. Calls of other workers and clients get it as soon as those look
 *           at their mail: a worker after the turn that runs, a client when it waits.
 * Errors:   TEFF_EINVAL: negative. TEFF_EINVALIDSTATE: while teff_silo_start runs, or stopped.
 */
TEFF_EXPORT int teff_silo_set_response_timeout(teff_silo *silo, int64_t timeout_ns);

/*
 * Asks for all grains to be deactivated that have had no turn for `idle_ns` (0: all that have no
 * work), whatever their types say; in the background, a few at a time.
 *
 * Threads:  any.
 * Suspends: no.
 * Errors:   TEFF_EINVAL: `idle_ns` is negative. TEFF_EINVALIDSTATE: not active.
 */
TEFF_EXPORT int teff_silo_collect(teff_silo *silo, int64_t idle_ns);

/*
 * Stops: takes no more calls, lets running requests end and grains deactivate (at most
 * stop_timeout_ns), settles every call that is left with TEFF_EUNAVAILABLE, and stops the workers.
 * Once it has begun, turns, tasks and hooks call nobody either, detached calls included: each is
 * TEFF_EUNAVAILABLE, and has not run. A turn that has not returned when all time is over loses its
 * stack, un-unwound, and `deactivate` of its grain does not run.
 *
 * Threads:  any but the silo's own. Several may call it; each gets the result.
 * Suspends: blocks until stopped. On the thread of clients it delivers their completions and runs
 *           their observers meanwhile.
 * Time:     stop_timeout_ns, a second more for what is deactivated then and another for what still
 *           waits; 5 s beyond that, so 7 s beyond stop_timeout_ns, before a turn that never yields
 *           is called stuck.
 * Errors:   TEFF_EWOULDBLOCK: called on a worker, in a completion function, or on the loop that the
 *           silo runs on. TEFF_EINVALIDSTATE: never started. TEFF_ESTUCK: a turn never yielded;
 *           nothing it can reach was freed.
 */
TEFF_EXPORT int teff_silo_stop(teff_silo *silo);

/*
 * Begins to stop and returns at once; `stopped` runs once with stop's result, 0. On the silo's loop
 * where it has one: there it may also destroy the silo; else as the last act of its last thread,
 * where it may signal, but not destroy: let it do uv_async_send to your loop or post a semaphore,
 * and destroy the silo there. Where a turn never yields, it never runs.
 *
 * Ownership: borrows `user` until `stopped` has run.
 * Threads:   any, also a worker's.
 * Suspends:  no.
 * Errors:    `stopped` never runs then. TEFF_EINVAL: it is NULL. TEFF_EINVALIDSTATE: never started,
 *            or stopped. TEFF_ENOMEM: it has not begun to stop.
 */
TEFF_EXPORT int teff_silo_stop_then(teff_silo *silo, void (*stopped)(void *user, int result),
                                    void *user);

/*
 * Of a simulated silo: runs all that can run now, on this thread, until nothing can. Time stands
 * still.
 *
 * Threads: the one that started the silo.
 * Errors:  TEFF_EINVALIDSTATE: not simulated, not active, or called from inside it.
 */
TEFF_EXPORT int teff_silo_run(teff_silo *silo);

/*
 * The same while `duration_ns` passes, from one deadline to the next.
 *
 * Threads: the one that started the silo.
 * Errors:  as teff_silo_run. TEFF_EINVAL: `duration_ns` is negative.
 */
TEFF_EXPORT int teff_silo_advance(teff_silo *silo, int64_t duration_ns);

/*
 * Frees a silo, stopping it first where it runs; NULL is allowed. Returns NULL; or the silo, with
 * nothing freed, where it cannot: clients, buffers or cancellation sources of it are left (it has
 * stopped all the same), it is stuck, or this thread may not block (see teff_silo_stop).
 *
 * What a turn's own code held when its stack was dropped, or a grain's state whose `deactivate` did
 * not run, nobody gives back: a silo with such a buffer or source cannot be destroyed.
 *
 * Ownership: takes `silo`, if it returns NULL.
 * Threads:   one; no other may use the silo any more.
 * Suspends:  blocks where it must stop.
 */
TEFF_EXPORT teff_silo *teff_silo_destroy(teff_silo *silo);

#endif
