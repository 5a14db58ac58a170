/* SPDX-License-Identifier: MIT */
/*
 * A completion's token is freed by the function it was made for: a second run would read freed
 * memory, which the address sanitizer sees, and count once too often, which book_close does.
 */
#include "stress_forms_grains.h"

#include <string.h>
#include <time.h>

TEFF_INTERFACE_DEFINE(shelf, SHELF_METHODS);

/* --- Buffers ------------------------------------------------------------------------------- */

enum { BYTES_MAX = 512 };
/* Longer than stop waits for deactivation, and twice as long longer than for what is left then. */
#define BLOCK_NS INT64_C(1200000000)

static teff_bytes *bytes_make(teff_silo *silo, uint64_t stamp)
{
    uint64_t words[BYTES_MAX / 8];
    const size_t count = 1 + stamp % (BYTES_MAX / 8);
    teff_bytes *bytes = NULL;
    for (size_t i = 0; i < count; i++)
        words[i] = stamp;
    if (teff_bytes_create(silo, words, count * 8, &bytes) != 0)
        fail("no memory for a buffer");
    return bytes;
}

static void bytes_check(const teff_bytes *bytes, uint64_t stamp)
{
    const uint64_t *words = teff_bytes_data(bytes);
    const size_t count = teff_bytes_size(bytes) / 8;
    if (count != 1 + stamp % (BYTES_MAX / 8) || words[0] != stamp || words[count - 1] != stamp)
        fail("a buffer of %zu words is not what was sent", count);
}

struct parcel parcel_make(const book *in, teff__chance *chance, int64_t nap_ns)
{
    struct parcel parcel = { .stamp = teff__chance_next(chance), .nap_ns = nap_ns };
    parcel.bytes[0] = bytes_make(in->silo, parcel.stamp);
    parcel.bytes[1] = below(chance, 2) == 0 ? bytes_make(in->silo, parcel.stamp) : NULL;
    return parcel;
}

void parcel_drop(struct parcel *parcel)
{
    for (int i = 0; i < 2; i++)
        parcel->bytes[i] = teff_bytes_unref(parcel->bytes[i]);
}

/* --- Ends ---------------------------------------------------------------------------------- */

static bool is_refusal(int r)
{
    return r == TEFF_EUNAVAILABLE || r == TEFF_EINVALIDSTATE;
}

/* Enters how a call ended. False: the silo stops. */
static bool enter(book *in, int r, const char *what)
{
    switch (r) {
    case 0:
        tick(&in->succeeded);
        break;
    case TEFF_ETIMEDOUT:
        tick(&in->timed_out);
        break;
    case TEFF_ECANCELED:
        tick(&in->cancelled);
        break;
    case TEFF_EGONE:
        tick(&in->gone);
        break;
    case TEFF_EUNAVAILABLE:
    case TEFF_EINVALIDSTATE:
        tick(&in->refused);
        break;
    default:
        fail("%s ends with %s", what, teff_status_name(r));
    }
    return !is_refusal(r);
}

/* An awaited or claimed call has ended. */
static bool receive(book *in, int r, struct receipt *receipt, uint64_t stamp, const char *what)
{
    struct receipt untouched;
    memset(&untouched, 0xa5, sizeof(untouched));
    tick(&in->answered);
    if (r == 0) {
        if (receipt->stamp != stamp)
            fail("%s has another's answer", what);
        bytes_check(receipt->bytes, stamp);
        receipt->bytes = teff_bytes_unref(receipt->bytes);
    } else if (memcmp(receipt, &untouched, sizeof(untouched)) != 0) {
        fail("%s ended with %s, and the result was written", what, teff_status_name(r));
    }
    return enter(in, r, what);
}

typedef struct token {
    book *in;
    uint64_t stamp;
} token;

static token *token_make(book *in, uint64_t stamp)
{
    token *made = malloc(sizeof(*made));
    if (made == NULL)
        fail("no memory for a token");
    *made = (token){ in, stamp };
    return made;
}

static void complete(teff_caller *caller, token *of, const teff_outcome *outcome, bool has_result)
{
    if (has_result != (outcome->code == 0))
        fail("a completion has a result with %s", teff_status_name(outcome->code));
    if (caller == NULL && outcome->code != TEFF_EGONE)
        fail("a completion without caller hears %s", teff_status_name(outcome->code));
    tick(&of->in->completed);
    (void)enter(of->in, outcome->code, "a call with a completion");
    of->in = NULL;
    free(of);
}

static void on_receipt(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct receipt *ret)
{
    const uint64_t stamp = ((token *)user)->stamp;
    if (ret != NULL) {
        if (ret->stamp != stamp)
            fail("a completion has another's answer");
        bytes_check(ret->bytes, stamp);
        (void)teff_bytes_unref(ret->bytes);
    }
    complete(caller, user, outcome, ret != NULL);
}

static void on_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                    const teff_none *ret)
{
    complete(caller, user, outcome, ret != NULL);
}

/* A call with a completion was made, or not. */
static bool promised(book *in, int r, token *of)
{
    if (r == 0)
        return true;
    tick(&in->completed); /* here: it never runs */
    free(of);
    return enter(in, r, "a call with a completion, at once,");
}

/* --- Calls --------------------------------------------------------------------------------- */

static teff_caller *with(teff_caller *as, terms on)
{
    const teff_call_options options = { .struct_size = sizeof(options),
                                        .timeout_ns = on.timeout_ns,
                                        .cancel = on.cancel };
    return on.timeout_ns != 0 || on.cancel != NULL ? teff_with(as, &options) : as;
}

static shelf_ref some_shelf(teff__chance *chance)
{
    return shelf_at(below(chance, SHELVES));
}

bool call_await(book *in, teff__chance *chance, teff_caller *as, terms on, int64_t nap_ns)
{
    struct parcel parcel = parcel_make(in, chance, nap_ns);
    struct receipt receipt;
    shelf_ref to = some_shelf(chance);
    memset(&receipt, 0xa5, sizeof(receipt));
    tick(&in->called);
    const int r = shelf_carry(with(as, on), &to, &parcel, &receipt);
    parcel_drop(&parcel);
    return receive(in, r, &receipt, parcel.stamp, "a call");
}

bool call_then(book *in, teff__chance *chance, teff_caller *as, terms on, int64_t nap_ns)
{
    struct parcel parcel = parcel_make(in, chance, nap_ns);
    shelf_ref to = some_shelf(chance);
    token *of = token_make(in, parcel.stamp);
    tick(&in->thens);
    const int r = shelf_carry_then(with(as, on), &to, &parcel, on_receipt, of);
    parcel_drop(&parcel);
    return promised(in, r, of);
}

bool call_send(book *in, teff__chance *chance, teff_caller *as)
{
    struct parcel parcel = parcel_make(in, chance, -1);
    shelf_ref to = some_shelf(chance);
    /* Of what has a result, too, which nobody takes. */
    const int r = below(chance, 2) == 0 ? shelf_keep_send(as, &to, &parcel)
                                        : shelf_carry_send(as, &to, &parcel);
    parcel_drop(&parcel);
    if (r == 0)
        tick(&in->sent);
    else if (!is_refusal(r))
        fail("a send ends with %s", teff_status_name(r));
    return r == 0;
}

bool call_notify(book *in, teff__chance *chance, teff_caller *as, const teff_ref *watcher)
{
    struct parcel parcel = parcel_make(in, chance, -1);
    shelf_ref to = shelf_at(NOTIFIERS + below(chance, SHELVES));
    token *of = token_make(in, parcel.stamp);
    parcel.watcher = *watcher;
    tick(&in->thens);
    const int r = shelf_notify_then(as, &to, &parcel, on_done, of);
    parcel_drop(&parcel);
    return promised(in, r, of);
}

/* Starts some; returns how many. */
static size_t start(book *in, teff__chance *chance, teff_caller *as, terms on, int64_t nap_ns,
                    teff_future *futures, uint64_t *stamps)
{
    const size_t count = 1 + below(chance, STARTS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct parcel parcel = parcel_make(in, chance, nap_ns);
        shelf_ref to = some_shelf(chance);
        tick(&in->started);
        stamps[i] = parcel.stamp;
        futures[i] = shelf_carry_start(with(as, on), &to, &parcel);
        parcel_drop(&parcel);
    }
    return count;
}

void call_and_leave(book *in, teff__chance *chance, teff_caller *as, terms on, bool waits)
{
    teff_future futures[STARTS_MAX];
    uint64_t stamps[STARTS_MAX];
    const int64_t nap_ns = below(chance, 2) == 0 ? (int64_t)below(chance, 300000) : -1;
    const size_t count = start(in, chance, as, on, nap_ns, futures, stamps);
    size_t index = count;
    if (!waits)
        return;
    const int r = below(chance, 4) == 0 ? teff_await_all(as, futures, count)
                                        : teff_await_any(as, futures, count, &index);
    if (r != 0)
        fail("waiting for futures ends with %s", teff_status_name(r));
}

void call_and_claim(book *in, teff__chance *chance, teff_caller *as, terms on, int64_t nap_ns)
{
    teff_future futures[STARTS_MAX];
    uint64_t stamps[STARTS_MAX];
    const size_t count = start(in, chance, as, on, nap_ns, futures, stamps);
    const size_t first = below(chance, count);
    for (size_t k = 0; k < count; k++) {
        const size_t i = (first + k) % count;
        struct receipt receipt;
        memset(&receipt, 0xa5, sizeof(receipt));
        tick(&in->called);
        tick(&in->claimed);
        const int r = shelf_carry_claim(as, futures[i], &receipt);
        (void)receive(in, r, &receipt, stamps[i], "a claim");
    }
}

/* Waits for an hour, where it may wait. */
static void on_receipt_stay(teff_caller *caller, void *user, const teff_outcome *outcome,
                            const struct receipt *ret)
{
    book *in = ((token *)user)->in;
    teff__chance chance = { ((token *)user)->stamp };
    on_receipt(caller, user, outcome, ret);
    tick(&in->ready);
    if (caller != NULL)
        call_and_claim(in, &chance, caller, (terms){ .timeout_ns = HOUR_NS }, HOUR_NS);
}

/* A completion that comes at once and then stays. */
static void then_stay(book *in, teff__chance *chance, teff_caller *as)
{
    struct parcel parcel = parcel_make(in, chance, -1);
    shelf_ref to = shelf_at(LEAVERS + below(chance, SHELVES));
    token *of = token_make(in, parcel.stamp);
    tick(&in->thens);
    const int r = shelf_carry_then(as, &to, &parcel, on_receipt_stay, of);
    parcel_drop(&parcel);
    if (!promised(in, r, of))
        tick(&in->ready);
}

void call_and_stay(book *in, teff__chance *chance, teff_caller *as, bool as_task)
{
    const terms on = { .timeout_ns = HOUR_NS };
    tick(&in->ready);
    (void)call_then(in, chance, as, on, HOUR_NS);
    if (as_task)
        then_stay(in, chance, as); /* a turn's would have to wait for it */
    call_and_leave(in, chance, as, on, false);
    call_and_claim(in, chance, as, on, HOUR_NS);
}

bool call_leaver(book *in, teff__chance *chance, teff_caller *as, terms on)
{
    struct parcel parcel = parcel_make(in, chance, -1);
    struct receipt receipt;
    shelf_ref to = shelf_at(LEAVERS + below(chance, SHELVES));
    memset(&receipt, 0xa5, sizeof(receipt));
    tick(&in->called);
    const int r = shelf_leave(with(as, on), &to, &parcel, &receipt);
    parcel_drop(&parcel);
    return receive(in, r, &receipt, parcel.stamp, "a call to one that leaves futures");
}

/* --- The grain ----------------------------------------------------------------------------- */

struct shelf {
    teff_bytes *kept;
    bool blocks;
};
TEFF_HANDLERS(shelf, struct shelf, shelf, SHELF_METHODS);

static void check_parcel(const struct parcel *arg)
{
    bytes_check(arg->bytes[0], arg->stamp);
    if (arg->bytes[1] != NULL)
        bytes_check(arg->bytes[1], arg->stamp);
}

static int give(const book *in, const struct parcel *arg, struct receipt *ret)
{
    check_parcel(arg); /* after a nap as well: it is borrowed until the turn ends */
    ret->stamp = arg->stamp;
    ret->bytes =
        arg->stamp % 2 == 0 ? teff_bytes_ref(arg->bytes[0]) : bytes_make(in->silo, arg->stamp);
    return 0;
}

static int shelf_on_carry(teff_turn *turn, struct shelf *self, const struct parcel *arg,
                          struct receipt *ret)
{
    book *in = teff_turn_context(turn);
    (void)self;
    tick(&in->turns);
    check_parcel(arg);
    if (arg->stamp % 7 == 0)
        memset(teff_turn_alloc(turn, 3000), 1, 3000);
    const int r = arg->nap_ns >= 0 ? teff_sleep(turn, arg->nap_ns) : 0;
    return r != 0 ? r : give(in, arg, ret);
}

static int shelf_on_leave(teff_turn *turn, struct shelf *self, const struct parcel *arg,
                          struct receipt *ret)
{
    book *in = teff_turn_context(turn);
    teff__chance chance = { arg->stamp };
    const terms on = { .timeout_ns =
                           below(&chance, 2) == 0 ? 1 + (int64_t)below(&chance, 400000) : 0 };
    (void)self;
    tick(&in->turns);
    call_and_leave(in, &chance, turn, on, below(&chance, 3) == 0);
    if (below(&chance, 4) == 0)
        (void)call_then(in, &chance, turn, on, -1);
    if (below(&chance, 16) == 0)
        (void)teff_turn_deactivate(turn); /* that completion's caller may be gone */
    return give(in, arg, ret);
}

static int shelf_on_notify(teff_turn *turn, struct shelf *self, const struct parcel *arg,
                           teff_none *ret)
{
    book *in = teff_turn_context(turn);
    shelf_ref to = { arg->watcher };
    struct receipt receipt;
    (void)self, (void)ret;
    tick(&in->turns);
    (void)shelf_carry_start(turn, &to, arg); /* left behind */
    if (shelf_keep_send(turn, &to, arg) == 0)
        tick(&in->sent);
    token *of = token_make(in, arg->stamp);
    tick(&in->thens);
    (void)promised(in, shelf_carry_then(turn, &to, arg, on_receipt, of), of);
    if (arg->stamp % 4 != 0)
        return 0;
    memset(&receipt, 0xa5, sizeof(receipt));
    tick(&in->called);
    const int r = shelf_carry(teff_within(turn, 5000000), &to, arg, &receipt);
    (void)receive(in, r, &receipt, arg->stamp, "a call to an observer");
    return 0;
}

static int shelf_on_keep(teff_turn *turn, struct shelf *self, const struct parcel *arg,
                         teff_none *ret)
{
    book *in = teff_turn_context(turn);
    (void)ret;
    tick(&in->turns);
    check_parcel(arg);
    teff_bytes *before = self->kept;
    self->kept = teff_bytes_ref(arg->bytes[1]);
    (void)teff_bytes_unref(before);
    return 0;
}

/* Awaits what does not come before the silo stops; or returns, with a completion open. */
static int shelf_on_wait(teff_turn *turn, struct shelf *self, const struct parcel *arg,
                         teff_none *ret)
{
    book *in = teff_turn_context(turn);
    teff__chance chance = { arg->stamp };
    (void)self, (void)ret;
    tick(&in->turns);
    (void)teff_turn_alloc(turn, 100);
    if (arg->nap_ns < 0) {
        call_and_stay(in, &chance, turn, false);
        return 0;
    }
    (void)call_then(in, &chance, turn, (terms){ .timeout_ns = HOUR_NS }, HOUR_NS);
    tick(&in->ready);
    return 0;
}

/* Keeps the worker from all else, but only once: its thread lives for one silo. */
static void block_once(int64_t ns)
{
    static _Thread_local bool blocked;
    const struct timespec pause = { ns / 1000000000, ns % 1000000000 };
    if (!blocked)
        blocked = nanosleep(&pause, NULL) == 0;
}

/* The same, and blocks: at the end of the turn, or when it is deactivated. */
static int shelf_on_block(teff_turn *turn, struct shelf *self, const struct parcel *arg,
                          teff_none *ret)
{
    const int r = shelf_on_wait(turn, self, arg, ret);
    self->blocks = arg->nap_ns >= 0;
    if (!self->blocks)
        block_once(BLOCK_NS);
    return r;
}

static void shelf_deactivate(teff_turn *turn, void *self, int reason)
{
    struct shelf *shelf = self;
    (void)turn, (void)reason;
    if (shelf->blocks)
        block_once(2 * BLOCK_NS);
    shelf->kept = teff_bytes_unref(shelf->kept);
}

static const teff_handlers *const shelf_implements[] = { &shelf_handlers, NULL };
const teff_grain_type shelf_type = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "shelf" },
    .state_size = sizeof(struct shelf),
    .implements = shelf_implements,
    .deactivate = shelf_deactivate,
};

/* --- The observer -------------------------------------------------------------------------- */

TEFF_HANDLERS(watcher, book, shelf, SHELF_METHODS);

static int watcher_on_carry(teff_turn *turn, book *in, const struct parcel *arg,
                            struct receipt *ret)
{
    teff__chance chance = { arg->stamp };
    tick(&in->observed);
    if (below(&chance, 2) == 0)
        (void)call_then(in, &chance, turn, (terms){ 0 }, -1);
    else
        (void)call_send(in, &chance, turn);
    return give(in, arg, ret);
}

static int watcher_on_leave(teff_turn *turn, book *in, const struct parcel *arg,
                            struct receipt *ret)
{
    return watcher_on_carry(turn, in, arg, ret);
}

static int watcher_on_keep(teff_turn *turn, book *in, const struct parcel *arg, teff_none *ret)
{
    (void)turn, (void)ret;
    tick(&in->observed);
    check_parcel(arg);
    return 0;
}

static int watcher_on_notify(teff_turn *turn, book *in, const struct parcel *arg, teff_none *ret)
{
    return watcher_on_keep(turn, in, arg, ret);
}

static int watcher_on_wait(teff_turn *turn, book *in, const struct parcel *arg, teff_none *ret)
{
    return watcher_on_keep(turn, in, arg, ret);
}

static int watcher_on_block(teff_turn *turn, book *in, const struct parcel *arg, teff_none *ret)
{
    return watcher_on_keep(turn, in, arg, ret);
}

const teff_handlers *watcher_handlers_of(void)
{
    return &watcher_handlers;
}

/* --- The book ------------------------------------------------------------------------------ */

void book_close(const book *in, const char *when)
{
    if (reading(&in->called) != reading(&in->answered))
        fail("%s: %llu calls were awaited or claimed, %llu have ended", when, reading(&in->called),
             reading(&in->answered));
    if (reading(&in->thens) != reading(&in->completed))
        fail("%s: %llu completions were promised, %llu have run", when, reading(&in->thens),
             reading(&in->completed));
}
