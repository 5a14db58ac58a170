/* SPDX-License-Identifier: MIT */
/*
 * The grains of stress_calls, and the ledger in which their turns note what they saw.
 *
 * The ledger lies outside of the grains, so it survives activations. What a grain's turns alone
 * touch is plain memory on purpose: turns of one grain run one after the other, also on different
 * workers, and where the runtime does not order them the thread sanitizer sees it. The flags and
 * counters are relaxed atomics, which order nothing.
 *
 * A *target* is what senders call; some of its methods suspend, one asks for deactivation. A *leaf*
 * is what targets call. So no call goes round in a circle.
 */
#ifndef TEFF_TESTS_STRESS_CALLS_GRAINS_H
#define TEFF_TESTS_STRESS_CALLS_GRAINS_H

#include "runtime/atomic.h"

#include "teff.h"

/* Of one grain. */
typedef struct account {
    teff__atomic_u32 busy;  /* a turn of it runs or is suspended; hooks are turns */
    teff__atomic_u32 alive; /* activations that came and have not gone */
    teff__atomic_u64 turns, activated, deactivated;
    teff__atomic_u64 asked; /* a leaf: the calls of targets that succeeded */
    uint32_t *seen;         /* a target: by sender, the last message that ran. Its turns only */
    int worker;             /* on which it was activated last. Its turns only */
} account;

typedef struct ledger {
    account *targets, *leaves;
    uint32_t target_count, leaf_count;
    teff__atomic_u64 suspended; /* turns that awaited a leaf or slept */
    teff__atomic_u64 moved;     /* activations on another worker than the one before */
} ledger;

/* A sender numbers its messages to each grain from 1. */
struct work {
    uint32_t target, sender, number;
    uint32_t leaf; /* ask: which one */
    bool leave;    /* ask: the leaf shall be deactivated */
    int64_t nap_ns;
};
struct worked {
    uint32_t target, sender, number;
};
struct touch {
    uint32_t leaf;
    bool leave;
};

#define TARGET_METHODS(METHOD, SELF)                                                               \
    METHOD(SELF, quick, struct work, struct worked, 0) /* returns */                               \
    METHOD(SELF, leave, struct work, struct worked, 0) /* asks for deactivation */                 \
    METHOD(SELF, ask, struct work, struct worked, 0)   /* awaits a leaf */                         \
    METHOD(SELF, nap, struct work, struct worked, 0)   /* sleeps */
TEFF_INTERFACE(target, TARGET_METHODS);

#define LEAF_METHODS(METHOD, SELF) METHOD(SELF, touch, struct touch, teff_none, 0)
TEFF_INTERFACE(leaf, LEAF_METHODS);

/* Their context is the ledger; worker_start gives each worker a pointer to its number, from 1. */
extern const teff_grain_type target_type, leaf_type;

/* Where an account is in the ledger, for messages. */
const char *account_name(const ledger *notes, const account *own, char text[32]);

#endif
