/* SPDX-License-Identifier: MIT */
/*
 * The grains of stress_routes, and the ledger in which their turns note what they saw.
 *
 * The ledger lies outside of the grains, so it survives activations. What a grain's turns alone
 * touch is plain memory on purpose: turns of one grain run one after the other, also on different
 * workers, and where the runtime does not order them the thread sanitizer sees it. The words that
 * name activations are relaxed atomics, which order nothing.
 *
 * Grains with keys in the upper half call those in the lower one, which call nobody: so no call
 * goes round in a circle. One in sixteen fails now and then in `activate`.
 */
#ifndef TEFF_TESTS_STRESS_ROUTES_GRAINS_H
#define TEFF_TESTS_STRESS_ROUTES_GRAINS_H

#include "runtime/atomic.h"

#include "teff.h"

#include <string.h>

/* The code of a grain that does not activate. */
enum { NOT_TODAY = 77 };

/* Messages of one sender to one grain: how many, and the sum of their numbers, in which one that is
 * lost and another that comes twice do not cancel out. */
typedef struct tally {
    uint32_t count;
    uint64_t sum;
} tally;

/* What a grain has had of one sender. */
typedef struct received {
    uint32_t last;        /* the highest number */
    tally calls, one_way; /* with an answer, and without */
} received;

/* Of one grain. */
typedef struct account {
    teff__atomic_u64 valid; /* the stamp of its one valid activation; 0: it has none */
    teff__atomic_u64 hint;  /* the way by which somebody reached it last, for everybody to try */
    teff__atomic_u32 busy;  /* a turn of it runs or is suspended; hooks are turns */
    teff__atomic_u64 turns, activated, deactivated, refused;
    teff__atomic_u64 asked_min, asked_max; /* by other grains: certainly, and perhaps */
    uint64_t asked;                        /* turns that those got. Its turns only */
    received *senders;                     /* by sender. Its turns only */
    int worker;                            /* where it was activated last. Its turns only */
} account;

typedef struct ledger {
    account *grains;
    uint32_t grain_count, sender_count;
    bool ordered;               /* each sender's messages are to come in the order sent */
    teff__atomic_u64 stamps;    /* activations so far: each has a number of its own */
    teff__atomic_u64 moved;     /* activations on another worker than the one before */
    teff__atomic_u64 then_open; /* completions of turns that are to run yet */
} ledger;

/* What a turn is to do, beside noting its message; and whether anybody waits for that. */
enum { LEAVE = 1, NAP = 2, ASK = 4, ASK_TWO = 8, ASK_THEN = 16, SENT_ONE_WAY = 32 };

/* Messages of grains to grains have this sender, and no number. */
#define OF_A_GRAIN UINT32_MAX

/* A sender numbers its messages to each grain from 1. */
struct work {
    uint32_t grain, sender, number, acts;
    uint32_t others[2]; /* ask: whom */
};
struct worked {
    uint32_t grain, sender, number;
    uint64_t route; /* of the activation that answers */
};

#define TARGET_METHODS(METHOD, SELF)                                                               \
    METHOD(SELF, work, struct work, struct worked, 0)                                              \
    METHOD(SELF, note, struct work, teff_none, TEFF_ONE_WAY)
TEFF_INTERFACE(target, TARGET_METHODS);

/* Its context is the ledger; worker_start gives each worker a pointer to its number, from 1. */
extern const teff_grain_type target_type;

/*
 * Was the call passed on as often as it may be, and has certainly not run? So it may end where grains
 * move as fast as messages do.
 */
static inline bool is_forwarded_too_often(const teff_outcome *outcome)
{
    return outcome->code == TEFF_EREJECTED && !outcome->may_have_run &&
           strncmp(outcome->text, "Forwarding failed", 17) == 0;
}

/* Does it fail to activate now and then? Then it gets no one-way messages: who would hear of it? */
static inline bool is_flaky(uint32_t grain)
{
    return grain % 16 == 5;
}

#endif
