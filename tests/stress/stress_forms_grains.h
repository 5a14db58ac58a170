/* SPDX-License-Identifier: MIT */
/*
 * The grain and the calls of stress_forms: calls of every form with buffers in arguments and
 * results, each entered in a book when it is made and when it ends.
 */
#ifndef TEFF_TESTS_STRESS_FORMS_GRAINS_H
#define TEFF_TESTS_STRESS_FORMS_GRAINS_H

#include "stress_calls_common.h"

#include "runtime/chance.h"

#include "teff.h"

#define HOUR_NS INT64_C(3600000000000)

/* Shelves that call others are none of those that are called, or they would wait for themselves. */
enum { SHELVES = 60, LEAVERS = 1000, NOTIFIERS = 2000, WAITERS = 3000, STARTS_MAX = 4 };

/* What happened in one silo. All any thread's. */
typedef struct book {
    teff_silo *silo;
    teff__atomic_u64 called, answered; /* awaited and claimed */
    teff__atomic_u64 thens, completed; /* completion functions promised, and run */
    teff__atomic_u64 started, claimed; /* futures, and those that were claimed */
    teff__atomic_u64 sent, turns, observed;
    teff__atomic_u64 succeeded, timed_out, cancelled, refused, gone; /* how calls ended */
    teff__atomic_u64 ready; /* turns and tasks that are as far as the test wants them */
} book;

/* The bytes of each buffer repeat its first 8, which are the stamp. */
struct parcel {
    teff_bytes *bytes[2];
    uint64_t stamp; /* seeds what the handler decides */
    int64_t nap_ns; /* -1: none */
    teff_ref watcher;
};
struct receipt {
    teff_bytes *bytes;
    uint64_t stamp;
};

#define SHELF_BYTES (TEFF_ARG_BYTES(2) | TEFF_RET_BYTES(1))
#define SHELF_METHODS(METHOD, SELF)                                                                \
    METHOD(SELF, carry, struct parcel, struct receipt, SHELF_BYTES)   /* naps, then answers */     \
    METHOD(SELF, leave, struct parcel, struct receipt, SHELF_BYTES)   /* leaves futures behind */  \
    METHOD(SELF, notify, struct parcel, teff_none, TEFF_ARG_BYTES(2)) /* calls the watcher */      \
    METHOD(SELF, keep, struct parcel, teff_none, TEFF_ARG_BYTES(2) | TEFF_ONE_WAY)                 \
    METHOD(SELF, wait, struct parcel, teff_none, TEFF_ARG_BYTES(2))  /* awaits a long nap */       \
    METHOD(SELF, block, struct parcel, teff_none, TEFF_ARG_BYTES(2)) /* then it blocks a thread */
TEFF_INTERFACE(shelf, SHELF_METHODS);

extern const teff_grain_type shelf_type;
const teff_handlers *watcher_handlers_of(void); /* for observers; `self` is the book */

/* How a call is bounded; {0}: by the silo's defaults. */
typedef struct terms {
    int64_t timeout_ns;
    teff_cancel *cancel;
} terms;

static inline uint64_t below(teff__chance *chance, uint64_t bound)
{
    return teff__chance_next(chance) % bound;
}

static inline void tick(teff__atomic_u64 *counter)
{
    (void)teff__atomic_u64_add_relaxed(counter, 1);
}

static inline unsigned long long reading(const teff__atomic_u64 *counter)
{
    return (unsigned long long)teff__atomic_u64_load_relaxed(counter);
}

/* A parcel whose two buffers are the caller's to drop. */
struct parcel parcel_make(const book *in, teff__chance *chance, int64_t nap_ns);
void parcel_drop(struct parcel *parcel);

/* Each makes one call to some shelf. False: it was refused at once because the silo stops. */
bool call_await(book *in, teff__chance *chance, teff_caller *as, terms on, int64_t nap_ns);
bool call_then(book *in, teff__chance *chance, teff_caller *as, terms on, int64_t nap_ns);
bool call_send(book *in, teff__chance *chance, teff_caller *as);
/* Sends the watcher's reference to a shelf that will call it. */
bool call_notify(book *in, teff__chance *chance, teff_caller *as, const teff_ref *watcher);

/* Starts up to STARTS_MAX calls and may wait for one of them, but claims none. */
void call_and_leave(book *in, teff__chance *chance, teff_caller *as, terms on, bool waits);
/* Starts as many and claims them all, in any order. */
void call_and_claim(book *in, teff__chance *chance, teff_caller *as, terms on, int64_t nap_ns);

/* Calls a shelf whose turn does the former. */
bool call_leaver(book *in, teff__chance *chance, teff_caller *as, terms on);
/*
 * Makes calls that last an hour, and waits for them; so does, for a task, one of its completions.
 * Should the frames be dropped, they hold no buffers.
 */
void call_and_stay(book *in, teff__chance *chance, teff_caller *as, bool as_task);

/* After the end: all that was entered has ended, once. */
void book_close(const book *in, const char *when);

#endif
