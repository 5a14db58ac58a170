/* SPDX-License-Identifier: MIT */
/*
 * Sources of cancellation: which open calls, and which requests, stand under one.
 *
 * A source has a branch for each worker and each client's stripe that ever had to do with a call
 * under it, in a list that only grows. A branch lists what its owner has of them, and only the owner
 * reads or changes it; so a call with a source costs a few words, and one without pays nothing:
 *
 *   callbacks  open calls of its callers, linked through their slots' details
 *   requests   that lie in a mailbox of the owner's or run there, whoever sent them, linked through
 *              the entries that they carry
 *
 * Firing marks the source and posts one message to each owner, which then ends what its branch
 * lists: a queued request is answered and never runs, a running one's turn is told, and then the
 * callbacks end.
 *
 * What is entered while the source fires is missed by neither side: its owner enters it and then
 * looks at the mark; whoever fires sets the mark and then looks for branches. "I set mine, then look
 * at yours": all four are seq_cst. Where the branch was there already, its message comes to the
 * owner's own thread, before the call (which then sees the mark) or after it.
 *
 * A request is entered where it is taken into a mailbox and leaves when its answer is made, or it is
 * dropped; on its way it is in no list, and the mark is looked at where it arrives, and again before
 * its turn begins. Where there is no memory for a branch those looks are all there is.
 *
 * A source is counted: by its holders, by each branch that lists callbacks, by each request, and by
 * each message of its own.
 *
 * Threads:
 *   fired, fire, ref, unref           any
 *   link, unlink, first, next, enter  the branch's owner
 *   leave                             the branch's owner; any thread where it was not entered
 */
#ifndef TEFF_MESSAGING_CANCEL_H
#define TEFF_MESSAGING_CANCEL_H

#include "messaging/exchange.h"

#include "teff/cancel.h"

typedef struct teff__cancel_branch {
    teff__message message; /* to the owner, once; of no class: it is never dropped */
    teff_cancel *cancel;
    uint32_t owner;                   /* a worker's index, or a client's stripe's; fixed */
    uint32_t first;                   /* the newest callback's link, or 0; owner only */
    struct teff__cancel_branch *next; /* fixed once published */
    teff__ring requests;              /* entries, the oldest first; owner only */
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

/*
 * A request that carries an entry is taken into a mailbox of that owner, a worker or a client's
 * stripe; `place` is what the entry is to say. False: there is no memory for the branch. Look at the
 * mark afterwards, either way: at once, or before the turn.
 */
TEFF__INTERNAL bool teff__cancel_enter(teff__message *message, uint32_t owner, void *place);

/* Takes the request out of its list, if it is in one, and gives its count back. */
TEFF__INTERNAL void teff__cancel_leave(teff__message *message);

/* The source of a request that carries an entry, or NULL. */
static inline teff_cancel *teff__cancel_of(const teff__message *message)
{
    return (message->held & TEFF__HELD_SOURCE) != 0 ? teff__message_entry(message)->cancel : NULL;
}

/* Whether a request, of whatever kind, is not to run any more. */
static inline bool teff__cancel_refuses(const teff__message *message)
{
    const teff_cancel *cancel = teff__cancel_of(message);
    return cancel != NULL && teff__cancel_fired(cancel);
}

/* The owner has dealt with a branch's message, or nobody will. */
TEFF__INTERNAL void teff__cancel_told(teff__message *message);

#endif
