/* SPDX-License-Identifier: MIT */
/*
 * Who calls the grains of stress_routes: tasks on each worker, threads with a blocking client, and a
 * thread with a client on a loop. Each chooses by a seeded generator of its own whom it calls, by
 * which reference, and in which form, until the round is over; then it waits for its own answers.
 *
 * A reference is one of four: fresh; the sender's own, by which it called before; an old one, that
 * it kept from an earlier time and never renews by calling; or the way that another sender, on
 * another worker perhaps, found last.
 */
#ifndef TEFF_TESTS_STRESS_ROUTES_SENDERS_H
#define TEFF_TESTS_STRESS_ROUTES_SENDERS_H

#include "stress_routes_grains.h"

#include "runtime/chance.h"
#include "runtime/thread.h"

/* The forms of a call, and how many of one may be under way for a sender. */
enum { AWAITED, STARTED, COMPLETED, ONE_WAY, FORMS };
enum { FLIGHTS = 16 };

/* What a sender knows of a grain. */
typedef struct acquaintance {
    target_ref own, old;
    uint32_t number;      /* of the last message */
    tally calls, one_way; /* sent; without those that certainly had no turn */
} acquaintance;

typedef struct sender sender;

/* A call under way with a completion. */
typedef struct flight {
    sender *from;
    struct work arg;
    bool open;
} flight;

/* What is not atomic is the sender's own. */
struct sender {
    ledger *notes;
    teff_silo *silo;
    const teff__atomic_u32 *over; /* the round is */
    uint32_t index;
    int worker; /* of a task; -1: a client */
    uint32_t workers;
    uint32_t leaving, moving; /* of a thousand messages; of 16 steps */
    teff__chance chance;
    acquaintance *grains; /* by number */
    flight flights[FLIGHTS];
    uint32_t open;                   /* flights */
    uint64_t calls[FORMS], rejected; /* the latter: passed on too often */
    teff__atomic_u64 ended, waiting; /* calls; grain << 32 | number, 0: it does not wait */
    teff_client *client;             /* on a loop */
    teff__thread thread;             /* of a client */
    teff_future future;              /* of a task */
};

int sender_task_main(teff_task *task, void *user);
void sender_client_main(void *user);
void sender_loop_main(void *user);

#endif
