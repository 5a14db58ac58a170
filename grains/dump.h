/* SPDX-License-Identifier: MIT */
/*
 * What teff_silo_dump gathers before it prints: one structure, allocated by whoever asks and filled
 * in by the workers, each on its own thread.
 *
 *   collect    every worker tells of its open calls and sleepers; the oldest are kept
 *   find       every worker looks which of those calls are requests that it has: in a turn that is
 *              suspended, or queued behind one
 *   print      grains/dump_print.c: no lock is held, and nothing of the silo is touched but the
 *              directory and the types
 *
 * Threads: workers write under `lock`; who asks writes before and after they walk.
 */
#ifndef TEFF_GRAINS_DUMP_H
#define TEFF_GRAINS_DUMP_H

#include "grains/waiting.h"

enum { TEFF__DUMP_MAX = 1000 }; /* calls and sleepers that are told of; more is no help to read */

/* What a caller does for the call; or that it sleeps. */
typedef enum teff__dump_form {
    TEFF__DUMP_AWAITED,
    TEFF__DUMP_STARTED, /* nobody waits for it at the moment */
    TEFF__DUMP_FUTURES, /* it is one of several that its caller waits for */
    TEFF__DUMP_THEN,
    TEFF__DUMP_SLEEP
} teff__dump_form;

typedef enum teff__dump_place {
    TEFF__DUMP_UNKNOWN, /* on its way, or runnable: it is no suspended turn, nor behind one */
    TEFF__DUMP_RUNNING, /* its turn is suspended */
    TEFF__DUMP_QUEUED   /* behind one that is */
} teff__dump_place;

/* What a turn does: a request's method, or what `hook` says where there is none. */
typedef struct teff__dump_work {
    const teff_interface *of; /* NULL: not known, or no request */
    const teff_method *method;
    const char *hook;
} teff__dump_work;

/* A grain and what it does; no type: a task, a client, or not known. */
typedef struct teff__dump_party {
    const teff__type *type;
    teff_key key;
    teff__dump_work work;
} teff__dump_party;

/* An open call, or one that sleeps. */
typedef struct teff__dump_entry {
    uint64_t id, target;
    int64_t since_ns, deadline_ns;
    int32_t owner;      /* the caller's worker; or its stripe, of a client: negated */
    uint32_t remaining; /* FUTURES: so many more are waited for */
    uint32_t behind;    /* of a caller that waits: what is in its mailbox */
    teff__dump_form form;
    teff__dump_party caller;
    teff__dump_place place;
    uint32_t worker;             /* RUNNING, QUEUED: where */
    uint32_t position;           /* QUEUED: 1 is the next one */
    teff__waiting_for what;      /* RUNNING: what its turn waits for */
    teff__dump_party callee;     /* RUNNING, QUEUED */
    teff__dump_work holds_it_up; /* QUEUED: what the grain does now */
} teff__dump_entry;

/* A worker's own numbers. */
typedef struct teff__dump_worker {
    uint64_t open, grains, tasks;
    uint64_t waits_call, waits_futures, sleeps; /* turns and tasks */
    uint64_t behind;                            /* requests behind those turns */
} teff__dump_worker;

typedef struct teff__dump_client {
    uint32_t number; /* 0: none has that stripe */
    bool on_loop;
    uint64_t open;
} teff__dump_client;

typedef struct teff__dump {
    teff__grains *grains;
    void (*line)(void *user, const char *text);
    void *user;
    int64_t now_ns;
    /* workers, as bits: have not answered, or not for the second time; have ended */
    uint64_t silent, silent_then, ended;
    teff__mutex lock;
    uint64_t found; /* guarded by lock */
    uint32_t count; /* of entries; guarded by lock */
    /* guarded by lock; a heap whose first is the youngest, while they are collected */
    teff__dump_entry entries[TEFF__DUMP_MAX];
    teff__dump_worker workers[TEFF__WORKERS_MAX]; /* each its own */
    teff__dump_client clients[TEFF__STRIPES - TEFF__STRIPES_WORKERS];
} teff__dump;

TEFF__INTERNAL void teff__dump_print(teff__dump *dump);

#endif
