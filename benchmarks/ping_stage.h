/* SPDX-License-Identifier: MIT */
/*
 * What ping measures: silos, and callers that each await grains of their own.
 *
 *   host    a silo with pinned workers, and this thread's client of it
 *   stage   N callers on a host; each is a task that calls its own grain in a loop, or two in turn:
 *           one that was activated on its own worker and one on the next. An outside stage has one
 *           caller, the host's client.
 *
 * A run spawns the tasks, lets them warm up, looks at the counters at the beginning and the end of
 * a window, and stops and claims the tasks. All through the public API; only allocations and open
 * callbacks are read from inside.
 *
 * Threads: the one that made the host.
 */
#ifndef TEFF_BENCHMARKS_PING_STAGE_H
#define TEFF_BENCHMARKS_PING_STAGE_H

#include "benchmarks/harness.h"

#include <stdint.h>

enum {
    PING_WORKERS_MAX = 2,
    PING_CALLERS_MAX = 4096,
    PING_SAMPLE_EVERY = 64 /* a latency run times one of so many calls of each caller */
};

typedef struct teff_silo teff_silo;

typedef struct ping_host {
    teff_silo *silo;
    struct teff_caller *client;
    unsigned workers;
} ping_host;

typedef struct ping_stage ping_stage;

/* All per call. */
typedef struct ping_result {
    double ns, cpu_ns, allocations, bytes;
} ping_result;

/*
 * Zeroed on failure. The functions of this module that return int say on stderr what failed: 0, or
 * -1.
 */
int ping_host_init(ping_host *host, unsigned workers);
void ping_host_finish(ping_host *host);

/*
 * Activates the grains, too. Stages of one host have different numbers of callers. Borrows the
 * host. NULL: failed.
 */
ping_stage *ping_stage_create(ping_host *host, unsigned callers);

/* One caller, outside the silo. */
ping_stage *ping_stage_create_outside(ping_host *host);
void ping_stage_destroy(ping_stage *stage);

int ping_stage_run(ping_stage *stage, int64_t duration_ns, ping_result *ret);

/* A run whose calls are timed now and then, and that measures nothing else. Adds nanoseconds. */
int ping_stage_latency(ping_stage *stage, int64_t duration_ns, bench_samples *samples);

/* Has each grain run as many turns as it was called, and is no callback open? */
int ping_stage_check(ping_stage *stage, uint64_t *ret_calls);

#endif
