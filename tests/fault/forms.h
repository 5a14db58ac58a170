/* SPDX-License-Identifier: MIT */
/*
 * A silo's whole life with every form of call: awaited, started and claimed, with a completion
 * function, one way; from a task, a turn, a blocking client, a client on a loop, and the observers
 * of both; with buffers in arguments and results, under sources of cancellation that fire in the
 * middle. Something fails in it once; what and when, the test decides that includes this.
 *
 * Each call is counted when it is made and when it ends. How one may end is given where it is made.
 *
 * Threads: silos on threads run the grains, so all counters are atomic, and what is wrong is noted
 * for the test's own thread to tell.
 */
#ifndef TEFF_TESTS_FAULT_FORMS_H
#define TEFF_TESTS_FAULT_FORMS_H

#include "runtime/silo.h"

#include "teff.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#define MS     INT64_C(1000000)
#define SECOND INT64_C(1000000000)

enum {
    EACH = 25, /* calls of each form by each of the four callers */
    CALLERS = 4,
    LEFT = 2, /* of the futures, unclaimed when their caller goes */
    SLOTS_MAX = 1024,
    /* how a call may end, beside 0 and what fails */
    MAY_CANCEL = 1,
    MAY_GO = 2,      /* TEFF_EGONE */
    MAY_STOP = 4,    /* TEFF_EUNAVAILABLE */
    MAY_NOT_WAIT = 8 /* TEFF_EWOULDBLOCK */
};

/* --- What is counted ----------------------------------------------------------------------- */

static teff_silo *silo;

static struct {
    /* calls made, and ended; those that failed, and were cancelled; one-way ones that were sent */
    teff__atomic_u32 made, ended, failed, cancelled, sent;
    teff__atomic_u32 slots;           /* completions that will run */
    teff__atomic_u32 observed;        /* turns of observers */
    teff__atomic_u32 under;           /* calls that were to be made under a source */
    teff__atomic_u32 told;            /* turns whose source fired while they lingered */
    teff__atomic_u32 runs[SLOTS_MAX]; /* by completion */
    uint64_t queued;                  /* calls that were cancelled before their turn began */
    teff__atomic_u32 wrong;
    char text[256]; /* what was wrong first */
} seen;

static uint32_t count_of(const teff__atomic_u32 *counter)
{
    return teff__atomic_u32_load_relaxed(counter);
}

static uint32_t add(teff__atomic_u32 *counter)
{
    return teff__atomic_u32_add_relaxed(counter, 1);
}

static __attribute__((format(printf, 1, 2))) void wrong(const char *format, ...)
{
    va_list arguments;
    if (add(&seen.wrong) != 0)
        return;
    va_start(arguments, format);
    (void)vsnprintf(seen.text, sizeof(seen.text), format, arguments);
    va_end(arguments);
}

/* The code of something that failed for want of what the test withheld. */
static bool honest(int r);

static void must_be_honest(int r, const char *what)
{
    if (r != 0 && !honest(r))
        wrong("%s: %s", what, teff_status_name(r));
}

/* A call has ended. */
static void ended(int r, unsigned may, const char *what)
{
    (void)add(&seen.ended);
    if (r == TEFF_ECANCELED && (may & MAY_CANCEL) != 0) {
        (void)add(&seen.cancelled);
        return;
    }
    if ((r == TEFF_EGONE && (may & MAY_GO) != 0) ||
        (r == TEFF_EUNAVAILABLE && (may & MAY_STOP) != 0) ||
        (r == TEFF_EWOULDBLOCK && (may & MAY_NOT_WAIT) != 0))
        return;
    if (r != 0)
        (void)add(&seen.failed);
    must_be_honest(r, what);
}

/* --- The grain ----------------------------------------------------------------------------- */

struct parcel {
    teff_bytes *bytes[2];
    int64_t number;
    teff_ref watcher; /* an observer, or none */
};
struct receipt {
    teff_bytes *bytes;
    int64_t number;
};

#define FORM_METHODS(METHOD, SELF)                                                                 \
    METHOD(SELF, carry, struct parcel, struct receipt, TEFF_ARG_BYTES(2) | TEFF_RET_BYTES(1))      \
    METHOD(SELF, linger, struct parcel, struct receipt, TEFF_ARG_BYTES(2) | TEFF_RET_BYTES(1))     \
    METHOD(SELF, drop, struct parcel, teff_none, TEFF_ARG_BYTES(2) | TEFF_ONE_WAY)                 \
    METHOD(SELF, watch, struct parcel, teff_none, TEFF_ARG_BYTES(2)) /* calls the watcher */       \
    METHOD(SELF, all, int64_t, teff_none, 0) /* makes calls of each form from a turn */
TEFF_INTERFACE(form, FORM_METHODS);
TEFF_INTERFACE_DEFINE(form, FORM_METHODS);
struct form {
    teff_bytes *kept;
};
TEFF_HANDLERS(form, struct form, form, FORM_METHODS);

static teff_bytes *bytes_make(const char *text)
{
    teff_bytes *bytes = NULL;
    must_be_honest(teff_bytes_create(silo, text, strlen(text), &bytes), "bytes_create");
    return bytes;
}

static void check_parcel(const struct parcel *arg)
{
    for (int i = 0; i < 2; i++)
        if (arg->bytes[i] != NULL && memcmp(teff_bytes_data(arg->bytes[i]), "parcel", 6) != 0)
            wrong("a parcel with another content");
}

static int form_on_carry(teff_turn *turn, struct form *self, const struct parcel *arg,
                         struct receipt *ret)
{
    (void)self;
    check_parcel(arg);
    char *scratch = arg->number % 3 == 0 ? teff_turn_alloc(turn, 3000) : NULL;
    if (scratch != NULL)
        memset(scratch, 1, 3000);
    ret->number = arg->number;
    /* What came is passed on, or something new is given; a failure gives nothing. */
    ret->bytes = arg->number % 2 == 0 ? teff_bytes_ref(arg->bytes[0]) : bytes_make("receipt");
    return arg->number % 3 == 0 && scratch == NULL ? teff_bytes_unref(ret->bytes), TEFF_ENOMEM : 0;
}

/* In the frame of a turn that lingers. */
static void on_told(void *user)
{
    if (*(int *)user != 0)
        wrong("a turn was told twice that its source had fired");
    *(int *)user = 1;
    (void)add(&seen.told);
}

static int form_on_linger(teff_turn *turn, struct form *self, const struct parcel *arg,
                          struct receipt *ret)
{
    int told = 0;
    int r = teff_turn_on_cancel(turn, on_told, &told);
    if (r == 0)
        r = teff_sleep(turn, MS);
    if (r == TEFF_ECANCELED && !teff_cancel_fired(teff_turn_cancel(turn)))
        wrong("a turn gives up, and its source has not fired");
    return r != 0 ? r : form_on_carry(turn, self, arg, ret);
}

/* Keeps a buffer from one message to the next; every eighth one lets the activation end. */
static int form_on_drop(teff_turn *turn, struct form *self, const struct parcel *arg,
                        teff_none *ret)
{
    (void)ret;
    check_parcel(arg);
    teff_bytes *before = self->kept;
    self->kept = teff_bytes_ref(arg->bytes[1]);
    (void)teff_bytes_unref(before);
    return arg->number % 8 == 0 ? teff_turn_deactivate(turn) : 0;
}

static void on_receipt(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct receipt *ret);
static void receive(int r, unsigned may, struct receipt *receipt, const char *what);

/* Awaits the observer, calls it once more with a completion, and leaves a future behind. */
static int form_on_watch(teff_turn *turn, struct form *self, const struct parcel *arg,
                         teff_none *ret)
{
    form_ref to = { arg->watcher };
    struct receipt receipt;
    (void)self, (void)ret;
    memset(&receipt, 0xa5, sizeof(receipt));
    (void)add(&seen.made);
    receive(form_carry(turn, &to, arg, &receipt), MAY_GO | MAY_STOP, &receipt, "to an observer");
    (void)form_carry_start(turn, &to, arg);
    (void)add(&seen.made);
    teff__atomic_u32 *slot = &seen.runs[add(&seen.slots)];
    const int r = form_carry_then(turn, &to, arg, on_receipt, slot);
    if (r != 0) {
        (void)add(slot);
        ended(r, MAY_GO | MAY_STOP, "then, to an observer");
    }
    must_be_honest(form_drop_send(turn, &to, arg), "send, to an observer");
    return 0;
}

static void make_calls(teff_caller *as, int64_t first, teff_future *futures, bool waits);
static void claim_calls(teff_caller *as, const teff_future *futures, bool waits);

static int form_on_all(teff_turn *turn, struct form *self, const int64_t *arg, teff_none *ret)
{
    teff_future futures[EACH];
    (void)self, (void)ret;
    make_calls(turn, *arg, futures, true);
    claim_calls(turn, futures, true);
    return 0;
}

static void form_deactivate(teff_turn *turn, void *self, int reason)
{
    struct form *form = self;
    (void)turn, (void)reason;
    form->kept = teff_bytes_unref(form->kept);
}

static const teff_handlers *const form_implements[] = { &form_handlers, NULL };
static const teff_grain_type form_type = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "form" },
    .state_size = sizeof(struct form),
    .implements = form_implements,
    .deactivate = form_deactivate,
};

/* --- The observer: the same interface, whose `carry` calls a grain in turn ------------------- */

TEFF_HANDLERS(watcher, struct form, form, FORM_METHODS);

static int watcher_on_carry(teff_turn *turn, struct form *self, const struct parcel *arg,
                            struct receipt *ret)
{
    form_ref to = form_at(7);
    struct parcel parcel = { .bytes = { arg->bytes[0], arg->bytes[1] }, .number = arg->number };
    (void)add(&seen.observed);
    must_be_honest(form_drop_send(turn, &to, &parcel), "an observer's send");
    (void)add(&seen.made);
    teff__atomic_u32 *slot = &seen.runs[add(&seen.slots)];
    const int r = form_carry_then(turn, &to, &parcel, on_receipt, slot);
    if (r != 0) {
        (void)add(slot);
        ended(r, MAY_STOP, "an observer's then");
    }
    return form_on_carry(turn, self, arg, ret);
}

static int watcher_on_linger(teff_turn *turn, struct form *self, const struct parcel *arg,
                             struct receipt *ret)
{
    return watcher_on_carry(turn, self, arg, ret);
}

static int watcher_on_drop(teff_turn *turn, struct form *self, const struct parcel *arg,
                           teff_none *ret)
{
    (void)turn, (void)self, (void)ret;
    check_parcel(arg);
    return 0;
}

static int watcher_on_watch(teff_turn *turn, struct form *self, const struct parcel *arg,
                            teff_none *ret)
{
    return watcher_on_drop(turn, self, arg, ret);
}

static int watcher_on_all(teff_turn *turn, struct form *self, const int64_t *arg, teff_none *ret)
{
    (void)turn, (void)self, (void)arg, (void)ret;
    return 0;
}

/* --- The calls ----------------------------------------------------------------------------- */

/* An awaited or claimed call has ended: a failure has left the receipt alone. */
static void receive(int r, unsigned may, struct receipt *receipt, const char *what)
{
    struct receipt untouched;
    memset(&untouched, 0xa5, sizeof(untouched));
    if (r != 0 && memcmp(receipt, &untouched, sizeof(untouched)) != 0)
        wrong("%s: %s, and wrote the result", what, teff_status_name(r));
    if (r == 0)
        receipt->bytes = teff_bytes_unref(receipt->bytes);
    ended(r, may, what);
}

/* At last: the outcome of a call with a completion function, whose slot is `user`. */
static void on_receipt(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct receipt *ret)
{
    if (add(user) != 0)
        wrong("a completion ran twice");
    if ((caller == NULL) != (outcome->code == TEFF_EGONE))
        wrong("a completion without caller heard %s", teff_status_name(outcome->code));
    if ((ret != NULL) != (outcome->code == 0))
        wrong("a result with %s", teff_status_name(outcome->code));
    if (ret != NULL)
        (void)teff_bytes_unref(ret->bytes);
    ended(outcome->code, MAY_CANCEL | MAY_GO | MAY_STOP, "then");
}

/* The next call stands under the source, where there is one; each second waits for the callee. */
static teff_caller *under(teff_caller *as, teff_cancel *cancel)
{
    const teff_call_options options = { .struct_size = sizeof(options),
                                        .cancel = cancel,
                                        .cancel_waits = add(&seen.under) % 2 != 0 };
    return cancel != NULL ? teff_with(as, &options) : as;
}

static void call_and_wait(teff_caller *as, form_ref *to, const struct parcel *parcel, bool waits)
{
    struct receipt receipt;
    memset(&receipt, 0xa5, sizeof(receipt));
    (void)add(&seen.made);
    receive(form_carry(as, to, parcel, &receipt), waits ? 0 : MAY_NOT_WAIT, &receipt, "a call");
}

static void call_then(teff_caller *as, form_ref *to, const struct parcel *parcel,
                      teff_cancel *cancel)
{
    (void)add(&seen.made);
    teff__atomic_u32 *slot = &seen.runs[add(&seen.slots)];
    as = under(as, cancel);
    const int r = cancel != NULL ? form_linger_then(as, to, parcel, on_receipt, slot)
                                 : form_carry_then(as, to, parcel, on_receipt, slot);
    if (r != 0) {
        (void)add(slot);
        ended(r, cancel != NULL ? MAY_CANCEL : 0, "then, at once");
    }
}

/* EACH calls of each form. The source of every fifth fires after half of them. */
static void make_calls(teff_caller *as, int64_t first, teff_future *futures, bool waits)
{
    teff_cancel *source = NULL;
    teff_bytes *shared = bytes_make("parcel, shared");
    must_be_honest(teff_cancel_create(silo, &source), "cancel_create");
    for (int i = 0; i < EACH; i++) {
        const struct parcel parcel = { .bytes = { shared, bytes_make("parcel, own") },
                                       .number = first + i };
        form_ref to = form_at((uint64_t)(first + i) % 20), other = form_at((uint64_t)i);
        const bool lingers = i % 5 == 2;
        teff_cancel *cancel = lingers ? source : NULL; /* which may be missing */
        call_and_wait(as, &to, &parcel, waits);
        (void)add(&seen.made);
        futures[i] = lingers ? form_linger_start(under(as, cancel), &to, &parcel)
                             : form_carry_start(as, &to, &parcel);
        call_then(as, &other, &parcel, cancel);
        const int r = form_drop_send(as, &other, &parcel);
        must_be_honest(r, "send");
        if (r == 0)
            (void)add(&seen.sent);
        if (i % 4 == 0) /* a result that nobody asked for, with a buffer in it */
            must_be_honest(form_carry_send(as, &other, &parcel), "send of what has a result");
        (void)teff_bytes_unref(parcel.bytes[1]);
        if (i == EACH / 2)
            teff_cancel_fire(source);
    }
    (void)teff_bytes_unref(shared);
    (void)teff_cancel_unref(source);
}

/* Claims all but the last of the futures; those are cancelled when the caller goes. */
static void claim_calls(teff_caller *as, const teff_future *futures, bool waits)
{
    size_t index = EACH;
    const int any = teff_await_any(as, futures, EACH, &index);
    if (waits && (any == 0) != (index < EACH))
        wrong("await_any: %s, and the index %zu", teff_status_name(any), index);
    if (waits)
        must_be_honest(any, "await_any");
    if (waits)
        must_be_honest(teff_await_all(as, futures, EACH - LEFT), "await_all");
    for (int i = 0; i < EACH - LEFT; i++) {
        const unsigned may = i % 5 == 2 ? MAY_CANCEL : 0;
        struct receipt receipt;
        memset(&receipt, 0xa5, sizeof(receipt));
        const int r = may != 0 ? form_linger_claim(as, futures[i], &receipt)
                               : form_carry_claim(as, futures[i], &receipt);
        receive(r, may, &receipt, "a claim");
    }
    for (int i = 0; i < LEFT; i++)
        (void)add(&seen.ended); /* nobody hears how */
}

#endif
