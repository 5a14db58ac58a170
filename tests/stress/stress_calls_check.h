/* SPDX-License-Identifier: MIT */
/*
 * What the senders of stress_calls know, and what is checked when they have ended.
 */
#ifndef TEFF_TESTS_STRESS_CALLS_CHECK_H
#define TEFF_TESTS_STRESS_CALLS_CHECK_H

#include "stress_calls_grains.h"

#include "runtime/chance.h"
#include "runtime/thread.h"

enum { WORKERS_MAX = 64 };

/* Whoever sends: a thread with a client, or a task. What is not atomic is its own. */
typedef struct sender {
    ledger *ledger;
    teff_silo *silo;
    uint32_t index;
    int worker; /* of a task; -1: a client */
    uint64_t share, leaving;
    teff__chance chance;
    target_ref *refs;  /* by target */
    uint32_t *numbers; /* by target: of the last message sent */
    bool *unawaited;   /* by target: its last message was one way */
    uint64_t calls, sends, leaves;
    teff__atomic_u64 ended;   /* calls; the watchdog and the progress line read it */
    teff__atomic_u64 waiting; /* target << 32 | number; 0: it does not wait */
    teff__thread thread;      /* a client's */
    teff_future future;       /* a task's */
} sender;

typedef struct stress {
    ledger ledger;
    teff_silo *silo;
    sender *senders;
    uint32_t sender_count;
    unsigned long long calls, workers, tasks, clients, grains, leaves, leaving, seed, seconds_max;
    int numbers[WORKERS_MAX];
} stress;

void pause_ms(long ms);

/* As many turns ran for each grain as messages were sent to it. All senders have ended. */
void check_turns(const stress *self);

/* Waits until nothing moves: what is registered are the activations that came and did not go. */
void check_left(const stress *self);

/* Stops and destroys the silo, and checks that nothing is left. */
void check_stop(stress *self);

/* Prints the table. */
void show(const stress *self, int64_t duration_ns);

#endif
