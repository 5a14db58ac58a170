/* SPDX-License-Identifier: MIT */
/*
 * What the benchmark `calls` measures: every form of a call but the plain ping, and both ways to run
 * on a program's loop. Each measurement checks that the work was done.
 *
 * Threads: one, which is pinned to core 1; silos on threads have their workers on the others.
 */
#ifndef TEFF_BENCHMARKS_CALLS_FORMS_H
#define TEFF_BENCHMARKS_CALLS_FORMS_H

#include <stdint.h>

enum { CALLS_GRAINS = 100 };

typedef struct teff_silo teff_silo;
typedef struct uv_loop_s uv_loop_t;

/* A silo on threads, and this thread's client of it. */
typedef struct calls_host {
    teff_silo *silo;
    struct teff_caller *client;
    unsigned workers;
} calls_host;

/* The functions that return int say on stderr what failed: 0, or -1. */
int calls_host_init(calls_host *host, unsigned workers);
void calls_host_finish(calls_host *host);

/* What one turn does for `duration_ns`, again and again; nanoseconds for one of them. */
typedef enum calls_form {
    CALLS_AWAITED,     /* awaits 100 grains, one after the other */
    CALLS_START_CLAIM, /* starts 100 calls, awaits all, claims them */
    CALLS_SEND,        /* sends to 100 grains, and lets them run; per message */
    CALLS_SEND_CROSS,  /* the same to grains of the next worker, all of which have run */
    CALLS_VALUE,       /* awaits one grain, with 64 bytes of value */
    CALLS_BYTES        /* the same with a buffer of 64 KiB, of which nothing is copied */
} calls_form;

int calls_run(calls_host *host, calls_form form, int64_t duration_ns, double *ret_ns);

/* 100 calls under way, by completions, of a client on a loop of this thread's. */
int calls_then(calls_host *host, int64_t duration_ns, double *ret_ns);

/* 100 tasks that each await a grain, in a silo on a loop of this thread's. */
int calls_same_loop(int64_t duration_ns, double *ret_ns);

/* Bytes of resident memory for each of so many turns that are suspended in an awaited call. */
int calls_suspended(unsigned turns, double *ret_bytes);

#endif
