/* SPDX-License-Identifier: MIT */
/*
 * Sources of cancellation: which open calls stand under one.
 *
 * A source has a branch for each worker and each client's stripe that ever opened a call under it,
 * in a list that only grows. A branch lists the open callbacks of its owner, linked through their
 * details, and only the owner reads or changes it; so a call with a source costs a few words, and
 * one without pays nothing. Firing marks the source and posts one message to each owner, which then
 * ends what its branch lists.
 *
 * A call that is opened while the source fires is missed by neither side: its opener links it and
 * then looks at the mark; whoever fires sets the mark and then looks for branches. "I set mine, then
 * look at yours": all four are seq_cst. Where the branch was there already, its message comes to the
 * owner's own thread, before the call (which then sees the mark) or after it.
 *
 * A source is counted: by its holders, by each branch that lists a call, and by each message.
 *
 * Threads:
 *   fired, fire, ref, unref    any
 *   link, unlink, first, next  the branch's owner
 */
#ifndef TEFF_MESSAGING_CANCEL_H
#define TEFF_MESSAGING_CANCEL_H

#include "messaging/exchange.h"

#include "teff/cancel.h"

typedef struct teff__cancel_branch {
    teff__message message; /* to the owner, once; of no class: it is never dropped */
    teff_cancel *cancel;
    uint32_t owner;                   /* a worker's index, or a client's stripe's; fixed */
    uint32_t first;                   /* the newest call's link, or 0; owner only */
    struct teff__cancel_branch *next; /* fixed once published */
} teff__cancel_branch;

struct teff_cancel {
    teff__exchange *exchange;
    teff__atomic_pointer branches; /* owners push; whoever fires */
    teff__atomic_u32 count;        /* any thread */
    teff__atomic_u32 fired;        /* any thread */
};

static inline bool teff__cancel_fired(const teff_cancel *cancel)
{
    return teff__atomic_u32_load_seq_cst(&cancel->fired) != 0;
}

/* Enters an open callback, whose word says so (TEFF__CALLBACK_CANCEL). TEFF_ENOMEM. */
TEFF__INTERNAL int teff__cancel_link(teff_cancel *cancel, const teff__registry *registry,
                                     uint64_t id);

/* Takes it out again; the source may go with it. */
TEFF__INTERNAL void teff__cancel_unlink(const teff__registry *registry, uint64_t id);

/* The id of a branch's newest call, or of the one behind another; 0: none. */
TEFF__INTERNAL uint64_t teff__cancel_first(const teff__registry *registry,
                                           const teff__cancel_branch *branch);
TEFF__INTERNAL uint64_t teff__cancel_next(const teff__registry *registry, uint64_t id);

/* The owner has dealt with a branch's message, or nobody will. */
TEFF__INTERNAL void teff__cancel_told(teff__message *message);

#endif
