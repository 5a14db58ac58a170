/* SPDX-License-Identifier: MIT */
/*
 * Counting calls: how they ended, how many are open, and how many of those meet a condition.
 *
 * A call that ended well is counted by nobody: a stripe counts those that opened, those that closed,
 * and how those that ended otherwise did; the rest is a difference. So the short way pays for one
 * counter at each end.
 *
 * No function here allocates, takes a lock, or runs anything while it walks but the predicate that
 * it was given.
 *
 * Threads: any for what opened, closed and ended; a walk's count is exact on the owner's thread, and
 *          a statistic on another.
 */
#ifndef TEFF_MESSAGING_COUNT_H
#define TEFF_MESSAGING_COUNT_H

#include "messaging/message.h"
#include "messaging/registry.h"

/* How a call ends that ends with a code and no answer. */
TEFF__INTERNAL teff_end teff__end_of_code(int code);

/* How a call ends with that answer. */
TEFF__INTERNAL teff_end teff__end_of_answer(const teff__message *answer);

/* Callbacks opened and not yet settled, in one pass: a statistic, exact where nothing moves. */
TEFF__INTERNAL uint64_t teff__registry_open_count(const teff__registry *registry);

/*
 * The same exactly, of one moment during the call: collects twice, until both agree. False: they
 * never did; *ret is then the statistic.
 */
TEFF__INTERNAL bool teff__registry_open_count_exact(const teff__registry *registry, uint64_t *ret);

/* All that the registry counts; ret->struct_size is left alone. */
TEFF__INTERNAL void teff__registry_counts(const teff__registry *registry, teff_counts *ret);

/* Open callbacks of a stripe for the grain of that hash. */
TEFF__INTERNAL uint32_t teff__stripe_count_grain(const teff__stripe *stripe, uint64_t target);

/* Open callbacks of a stripe that were opened at `before_ns` or earlier. */
TEFF__INTERNAL uint32_t teff__stripe_count_older(const teff__stripe *stripe, int64_t before_ns);

/* An open callback, as a predicate sees it. */
typedef struct teff__open_callback {
    uint64_t id;
    int64_t opened_ns, deadline_ns;
    uint64_t target;
} teff__open_callback;

/* Must not use the stripe. */
typedef bool teff__callback_predicate(void *user, const teff__open_callback *callback);

/* Open callbacks of a stripe that the predicate says yes to. */
TEFF__INTERNAL uint32_t teff__stripe_count_if(const teff__stripe *stripe,
                                              teff__callback_predicate *predicate, void *user);

#endif
