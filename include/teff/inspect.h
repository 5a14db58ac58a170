/* SPDX-License-Identifier: MIT */
/*
 * What goes on in a silo: how calls ended, how many are open. For statistics, health checks and
 * whoever looks for the one that hangs.
 */
#ifndef TEFF_INSPECT_H
#define TEFF_INSPECT_H

#include "teff/caller.h"
#include "teff/export.h"
#include "teff/interface.h"
#include "teff/reference.h"
#include "teff/silo.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How a call ended. Each ends once, by whatever came first. One-way calls are not counted: nobody
 * hears how they end.
 */
typedef enum teff_end {
    TEFF_END_RESPONSE,      /* it was answered, and well */
    TEFF_END_ERROR,         /* the grain's own code, or a negative one that its handler returned */
    TEFF_END_REJECTED,      /* TEFF_EREJECTED: it did not run, and another time it may */
    TEFF_END_OVERLOADED,    /* TEFF_EOVERLOADED, TEFF_ELIMIT, TEFF_ENOMEM */
    TEFF_END_UNRECOVERABLE, /* TEFF_EINVAL, TEFF_EINVALIDSTATE: it did not run, and never will */
    TEFF_END_TIMED_OUT,     /* TEFF_ETIMEDOUT: nobody answered before its deadline */
    TEFF_END_CANCELED_UNSENT, /* TEFF_ECANCELED: its source had fired before it was sent */
    TEFF_END_CANCELED_QUEUED, /* while it waited for its turn, so that it never ran */
    /* while it ran, so that its handler may have returned TEFF_ECANCELED; or was under way; or its
       caller ended first */
    TEFF_END_CANCELED_RUNNING,
    TEFF_END_STOPPED,  /* TEFF_EUNAVAILABLE: the silo stopped */
    TEFF_END_GONE,     /* TEFF_EGONE: the activation or observer was gone */
    TEFF_END_STUCK,    /* TEFF_ESTUCK: the activation was given up as stuck */
    TEFF_END_DEADLOCK, /* TEFF_EDEADLOCK: it could never have ended */
    TEFF_ENDS          /* how many there are */
} teff_end;

/* What a silo has counted since its start. Set struct_size to sizeof(teff_counts). */
typedef struct teff_counts {
    size_t struct_size;        /* sizeof(teff_counts) */
    uint64_t opened;           /* calls that want an answer, and futures of tasks */
    uint64_t open;             /* of those, how many have not ended */
    uint64_t late;             /* answers that came after the call had ended, and were dropped */
    uint64_t unknown;          /* answers to calls that never were, and were dropped */
    uint64_t unclaimed;        /* futures that their callers left when they ended */
    uint64_t ended[TEFF_ENDS]; /* how the others ended, by teff_end */
} teff_counts;

/*
 * Fills in *ret: a statistic, exact where nothing moves meanwhile. Costs about a microsecond, takes
 * no lock and allocates nothing.
 *
 * Ownership: writes *ret, whose struct_size is set.
 * Threads:   any.
 * Suspends:  no.
 * Errors:    TEFF_EINVAL: an argument is NULL, or struct_size is wrong. TEFF_EINVALIDSTATE: never
 *            started, or in a child that forked.
 */
TEFF_EXPORT int teff_silo_counts(const teff_silo *silo, teff_counts *ret);

/* What a silo has counted of its grains. Set struct_size to sizeof(teff_grain_counts). */
typedef struct teff_grain_counts {
    size_t struct_size; /* sizeof(teff_grain_counts) */
    uint64_t resident;  /* activations that there are, of stateless workers too */
    uint64_t made;      /* that there ever were: one that never ran is among them */
    uint64_t gone[TEFF_DEACTIVATED_REASONS]; /* of those, why they went: TEFF_DEACTIVATED_… */
    uint64_t routes;                         /* that workers keep to grains on other workers */
} teff_grain_counts;

/*
 * Fills in *ret: a statistic, exact where nothing moves meanwhile. Takes no lock and allocates
 * nothing.
 *
 * Ownership: writes *ret, whose struct_size is set.
 * Threads:   any.
 * Suspends:  no.
 * Errors:    as teff_silo_counts.
 */
TEFF_EXPORT int teff_silo_grain_counts(const teff_silo *silo, teff_grain_counts *ret);

/* What a notice is about. */
typedef enum teff_notice_kind {
    TEFF_NOTICE_MAILBOX,    /* `count` messages wait for the grain: more than mailbox_warn */
    TEFF_NOTICE_ACTIVATE,   /* the grain was given up: `activate` took too long */
    TEFF_NOTICE_DEACTIVATE, /* the grain was given up: `deactivate` took too long */
    TEFF_NOTICE_STUCK,      /* the grain was given up: a turn took longer than stuck_ns */
    TEFF_NOTICE_GRAINS,     /* there are `count` activations: no more may be */
    TEFF_NOTICE_MEMORY      /* memory is short: `count` activations are to go, those that may */
} teff_notice_kind;

/* What a silo lets the program know: `notice` of teff_silo_options. All of it is borrowed. */
struct teff_notice {
    size_t struct_size;    /* sizeof(teff_notice) */
    teff_notice_kind kind; /* what it is about */
    int worker;            /* that noticed */
    teff_ref grain;        /* its type is NULL where it is about none */
    uint64_t count;        /* by kind; else 0 */
    const char *text;      /* all of it as a sentence, for a log */
};

/* An open call, as a filter's function sees it. */
typedef struct teff_open_call {
    uint64_t id;     /* no other call of the silo has it; a dump names it */
    int64_t age_ns;  /* since it was made */
    int64_t left_ns; /* until its deadline, which may just be over; INT64_MAX: it has none */
    int worker;      /* whose turn or task made it; -1: a client */
} teff_open_call;

/* Where the callee is. */
typedef enum teff_target {
    TEFF_TARGET_ANY,     /* wherever it is */
    TEFF_TARGET_WORKER,  /* a grain that lives on worker `worker` */
    TEFF_TARGET_OBSERVER /* a client's observer */
} teff_target;

/*
 * Which open calls to count: those that meet every condition given. Zero in a member means: no
 * condition, or its default. Set struct_size to sizeof(teff_call_filter).
 */
typedef struct teff_call_filter {
    size_t struct_size;    /* sizeof(teff_call_filter) */
    const teff_ref *grain; /* calls to it; an observer stands for all of its client's */
    teff_target target;    /* calls to what is there */
    uint32_t worker;       /* with TEFF_TARGET_WORKER */
    int64_t older_ns;      /* calls made at least so long ago */
    /*
     * Runs for each call that meets the others, on each worker's thread and on the one that asks:
     * several at once, so `user` is to be shared with care. It may call nothing of teff, and holds
     * up the worker as long as it runs. Both are borrowed until the count returns.
     */
    bool (*matches)(void *user, const teff_open_call *call);
    void *user;
    int64_t timeout_ns; /* how long to wait for the workers; 0: 1 s */
} teff_call_filter;

/*
 * Counts open calls. `filter` NULL: all of them, exactly as of one moment while it ran; no worker
 * is asked. Else each worker is asked by message and counts its own, so those of one worker are of
 * one moment, and the sum is of several. Calls of clients are counted as they are seen.
 *
 * One count or dump at a time asks the workers of a silo; those of other threads wait for it.
 *
 * Ownership: borrows *filter until it returns. Allocates nothing.
 * Threads:   any but the silo's own; of a simulated silo the one that started it. On the thread of
 *            the loop that the silo runs on it counts at once.
 * Suspends:  blocks, with a filter, until the workers have answered; then for timeout_ns at most,
 *            and as long as one counts that has begun.
 * Errors:    *ret is then untouched. TEFF_EINVAL: an argument is NULL, or the filter is wrong.
 *            TEFF_EWOULDBLOCK: with a filter, in a turn, task, completion or observer of the silo.
 *            TEFF_ETIMEDOUT: a worker has not answered (teff_silo_dump names it); without a filter,
 *            calls opened and ended so fast that no moment was seen: teff_silo_counts has about
 *            as many. TEFF_EINVALIDSTATE: never started, another thread's simulated silo, or in a
 *            child that forked.
 */
TEFF_EXPORT int teff_silo_count_open(teff_silo *silo, const teff_call_filter *filter,
                                     uint64_t *ret);

/*
 * Says what goes on, in lines for a log: `line` gets each, without a newline. The silo; how its
 * calls ended; of each worker and client, what is open and waits: who has called whom, for how long
 * and until when, where that call is, and what it is queued behind; and who sleeps. The 1,000 oldest
 * calls and sleeps are told of, all are counted. A worker that does not answer is named.
 *
 * Workers are asked one after the other of two questions, and the silo goes on meanwhile: a call may
 * be told of that has just ended. What the lines say is for people, and may change.
 *
 * Ownership: borrows `line`, `user`, and, in it, `text`. Allocates once and frees that.
 * Threads:   any but the silo's own; of a simulated silo the one that started it. `line` runs on
 *            it, under no lock, when all has been gathered. The silo may stop meanwhile, but not be
 *            destroyed.
 * Suspends:  blocks until the workers have answered, for 2 s at most.
 * Time:      each worker walks its open calls, and the mailboxes behind turns that are suspended;
 *            grains that only are there cost nothing.
 * Errors:    nothing has been said then. TEFF_EINVAL: an argument is NULL. TEFF_EWOULDBLOCK: in a
 *            turn, task, completion or observer of the silo. TEFF_EINVALIDSTATE: never started,
 *            another thread's simulated silo, or in a child that forked. TEFF_ENOMEM.
 */
TEFF_EXPORT int teff_silo_dump(teff_silo *silo, void (*line)(void *user, const char *text),
                               void *user);

/* Who made a call. */
typedef enum teff_caller_kind {
    TEFF_CALLER_UNKNOWN, /* gone, or not known where it is told */
    TEFF_CALLER_GRAIN,   /* a turn or hook of a grain */
    TEFF_CALLER_TASK,    /* a task */
    TEFF_CALLER_CLIENT   /* a client or one of its observers */
} teff_caller_kind;

/* What a suspended turn waits for. */
typedef enum teff_wait {
    TEFF_WAIT_CALL,    /* for the answer of a call */
    TEFF_WAIT_FUTURES, /* for futures, of calls or tasks */
    TEFF_WAIT_SLEEP    /* in teff_sleep */
} teff_wait;

/*
 * A call that nobody has answered for long, as `long_call` of teff_silo_options is told: a call of a
 * grain whose turn is suspended, be it that turn's own or one that waits behind it. Calls of
 * observers, one-way calls, and those of a grain whose turn computes, or blocks its thread, and so
 * never suspends, are not told of.
 *
 * The last status that came before a call's deadline is part of the timeout's text.
 *
 * Ownership: all of it is borrowed until `long_call` returns; names, methods and interfaces are as
 *            the program registered them.
 * Threads:   the worker of the caller, where that is a turn or task; else that of the grain.
 */
struct teff_long_call {
    size_t struct_size;           /* sizeof(teff_long_call): later ones have more at the end */
    teff_ref grain;               /* the one that was called */
    const teff_interface *of;     /* by which interface */
    const teff_method *method;    /* what it was asked */
    int64_t age_ns;               /* since the call was made */
    bool running;                 /* its turn is suspended; false: it waits for its turn */
    teff_caller_kind caller_kind; /* who made the call */
    teff_ref caller;              /* with TEFF_CALLER_GRAIN: which; else its type is NULL */

    /* Of one that waits: behind which method's turn; NULL: a hook, or a completion function. */
    const teff_method *behind;
    int64_t behind_ns; /* since that one's call was made; 0: it has ended, or was one way */

    teff_wait wait;      /* what the suspended turn waits for */
    uint32_t wait_count; /* with TEFF_WAIT_FUTURES: how many are to end yet; else 1 */
    int64_t wait_ns;     /* since the call was made, or the sleep began */
    teff_ref wait_for;   /* the grain that it has called; its type is NULL: none, or not known */

    const char *text; /* all of it, in a line */
};

#endif
