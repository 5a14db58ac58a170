/* SPDX-License-Identifier: MIT */
/*
 * Each turn checks, in this order: whose turn it is, that no other one runs, that its activation is
 * the grain's one valid one and has not asked to go, that it is on that one's worker, and that the
 * message is its sender's next one.
 *
 * What an activation knows of itself stands in its state, written by `activate` and wiped by
 * `deactivate`: a turn on a state that is gone finds no seal there.
 */
#include "stress_routes_grains.h"

#include "stress_calls_common.h"

#define SEAL UINT64_C(0x7465666620697321)
#define GONE UINT64_C(0xdeaddeaddeaddead)

enum { NAP_NS = 20000 };

struct target {
    uint64_t seal;  /* SEAL, of the one below */
    uint64_t stamp; /* which activation */
    int worker;
    bool leaving;
};

TEFF_INTERFACE_DEFINE(target, TARGET_METHODS);
TEFF_HANDLERS(target, struct target, target, TARGET_METHODS);

static uint32_t own_number(const teff_turn *turn)
{
    uint64_t number;
    memcpy(&number, teff_turn_key(turn)->bytes,
           sizeof(number)); /* its lowest byte first, as ours */
    return (uint32_t)number;
}

static int own_worker(const teff_turn *turn)
{
    return *(const int *)teff_turn_worker_context(turn);
}

static account *own_account(const teff_turn *turn)
{
    const ledger *notes = teff_turn_context(turn);
    return &notes->grains[own_number(turn)];
}

/* --- What every turn checks ------------------------------------------------------------------- */

static void enter(account *own, uint32_t grain)
{
    uint32_t busy = 0;
    if (!teff__atomic_u32_cas_relaxed(&own->busy, &busy, 1))
        fail("two turns of grain %u overlap", grain);
}

static void leave(account *own)
{
    teff__atomic_u32_store_relaxed(&own->busy, 0);
}

/* The activation is the grain's one, whole, and where it was made. */
static void check_valid(teff_turn *turn, const account *own, const struct target *self)
{
    const uint32_t grain = own_number(turn);
    const uint64_t valid = teff__atomic_u64_load_relaxed(&own->valid);
    if (self->seal != (SEAL ^ self->stamp))
        fail("a turn of grain %u has the state of %s", grain,
             self->seal == GONE ? "an activation that is gone" : "none that was activated");
    if (self->stamp != valid)
        fail("a turn of grain %u runs in activation %llu, while the valid one is %llu", grain,
             (unsigned long long)self->stamp, (unsigned long long)valid);
    if (own_worker(turn) != self->worker || own->worker != self->worker)
        fail("a turn of grain %u runs on worker %d, but it was activated on %d", grain,
             own_worker(turn), self->worker);
}

static void check_next(const ledger *notes, account *own, const struct work *arg)
{
    if (arg->sender == OF_A_GRAIN) {
        own->asked++;
        return;
    }
    if (arg->sender >= notes->sender_count)
        fail("grain %u got a message of sender %u, which there is not", arg->grain, arg->sender);
    received *of = &own->senders[arg->sender];
    tally *kind = (arg->acts & SENT_ONE_WAY) != 0 ? &of->one_way : &of->calls;
    if (notes->ordered && arg->number <= of->last)
        fail("grain %u: after message %u of sender %u comes message %u", arg->grain, of->last,
             arg->sender, arg->number);
    of->last = arg->number > of->last ? arg->number : of->last;
    kind->count++;
    kind->sum += arg->number;
}

/* --- Hooks ------------------------------------------------------------------------------------ */

static int target_activate(teff_turn *turn, void *state)
{
    ledger *notes = teff_turn_context(turn);
    const uint32_t grain = own_number(turn);
    account *own = own_account(turn);
    struct target *self = state;
    uint64_t none = 0;
    enter(own, grain);
    if (self->seal != 0 || self->stamp != 0 || self->worker != 0 || self->leaving)
        fail("grain %u is activated with a state that is not zeroed", grain);
    const uint64_t stamp = teff__atomic_u64_add_relaxed(&notes->stamps, 1) + 1;
    if (!teff__atomic_u64_cas_relaxed(&own->valid, &none, stamp))
        fail("grain %u has activation %llu, and %llu is made", grain, (unsigned long long)none,
             (unsigned long long)stamp);
    if (stamp % 32 == 0)
        (void)teff_sleep(turn, NAP_NS); /* so that mail comes meanwhile */
    if (is_flaky(grain) && stamp % 4 == 0) {
        (void)teff__atomic_u64_add_relaxed(&own->refused, 1);
        teff__atomic_u64_store_relaxed(&own->valid, 0);
        leave(own);
        return teff_turn_fail(turn, NOT_TODAY, "grain %u, activation %llu", grain,
                              (unsigned long long)stamp);
    }
    self->seal = SEAL ^ stamp;
    self->stamp = stamp;
    self->worker = own_worker(turn);
    if (own->worker != 0 && own->worker != self->worker)
        (void)teff__atomic_u64_add_relaxed(&notes->moved, 1);
    own->worker = self->worker;
    (void)teff__atomic_u64_add_relaxed(&own->activated, 1);
    leave(own);
    return 0;
}

static void target_deactivate(teff_turn *turn, void *state, int reason)
{
    const uint32_t grain = own_number(turn);
    account *own = own_account(turn);
    struct target *self = state;
    enter(own, grain);
    check_valid(turn, own, self);
    if (self->leaving && reason != TEFF_DEACTIVATED_REQUEST)
        fail("grain %u asked to go, and is deactivated for the reason %d", grain, reason);
    if (self->stamp % 32 == 1)
        (void)teff_sleep(turn, NAP_NS);
    check_valid(turn, own, self); /* nobody came in between */
    *self = (struct target){ .seal = GONE };
    teff__atomic_u64_store_relaxed(&own->valid, 0);
    (void)teff__atomic_u64_add_relaxed(&own->deactivated, 1);
    leave(own);
}

/* --- Asking another grain, in each form ------------------------------------------------------- */

static void check_answer(const struct work *asked, const struct worked *answer)
{
    if (answer->grain != asked->grain || answer->sender != OF_A_GRAIN)
        fail("a grain that asked grain %u has the answer of grain %u", asked->grain, answer->grain);
}

static void note_asked(account *other, const teff_outcome *outcome)
{
    if (outcome->code != 0 && !is_forwarded_too_often(outcome))
        fail("a grain's call to another one: %s: %s", teff_status_name(outcome->code),
             outcome->text);
    if (outcome->code != 0)
        return;
    (void)teff__atomic_u64_add_relaxed(&other->asked_min, 1);
    (void)teff__atomic_u64_add_relaxed(&other->asked_max, 1);
}

static target_ref way_to(const ledger *notes, uint32_t grain)
{
    target_ref to = target_at(grain);
    to.ref.route = teff__atomic_u64_load_relaxed(&notes->grains[grain].hint);
    return to;
}

static void ask(teff_turn *turn, const ledger *notes, uint32_t grain)
{
    const struct work arg = { .grain = grain, .sender = OF_A_GRAIN };
    target_ref to = way_to(notes, grain);
    struct worked ret = { 0 };
    const int r = target_work(turn, &to, &arg, &ret);
    if (r == 0)
        check_answer(&arg, &ret);
    note_asked(&notes->grains[grain], teff_outcome_last(turn));
}

static void ask_two(teff_turn *turn, const ledger *notes, const uint32_t grains[2])
{
    struct work args[2];
    teff_future futures[2];
    for (int i = 0; i < 2; i++) {
        target_ref to = way_to(notes, grains[i]);
        args[i] = (struct work){ .grain = grains[i], .sender = OF_A_GRAIN };
        futures[i] = target_work_start(turn, &to, &args[i]);
    }
    for (int i = 1; i >= 0; i--) {
        struct worked ret = { 0 };
        const int r = target_work_claim(turn, futures[i], &ret);
        if (r == 0)
            check_answer(&args[i], &ret);
        note_asked(&notes->grains[grains[i]], teff_outcome_last(turn));
    }
}

static void on_asked(teff_caller *caller, void *user, const teff_outcome *outcome,
                     const struct worked *ret)
{
    ledger *notes = user;
    if (outcome->code == 0 ? caller == NULL || ret->sender != OF_A_GRAIN
                           : outcome->code != TEFF_EGONE && !is_forwarded_too_often(outcome))
        fail("the completion of a grain: %s", teff_status_name(outcome->code));
    if (outcome->code == 0)
        (void)teff__atomic_u64_add_relaxed(&notes->grains[ret->grain].asked_min, 1);
    (void)teff__atomic_u64_add_relaxed(&notes->then_open, UINT64_MAX);
}

static void ask_then(teff_turn *turn, ledger *notes, uint32_t grain)
{
    const struct work arg = { .grain = grain, .sender = OF_A_GRAIN };
    target_ref to = way_to(notes, grain);
    (void)teff__atomic_u64_add_relaxed(&notes->then_open, 1);
    (void)teff__atomic_u64_add_relaxed(&notes->grains[grain].asked_max, 1);
    const int r = target_work_then(turn, &to, &arg, on_asked, notes);
    if (r != 0)
        fail("a grain's call with a completion: %s", teff_status_name(r));
}

/* --- The handlers ----------------------------------------------------------------------------- */

static void serve(teff_turn *turn, struct target *self, const struct work *arg)
{
    ledger *notes = teff_turn_context(turn);
    account *own = own_account(turn);
    if (own_number(turn) != arg->grain)
        fail("grain %u got a message for grain %u", own_number(turn), arg->grain);
    enter(own, arg->grain);
    check_valid(turn, own, self);
    if (self->leaving)
        fail("grain %u serves a message after the turn that asked to go", arg->grain);
    (void)teff__atomic_u64_add_relaxed(&own->turns, 1);
    check_next(notes, own, arg);
    if ((arg->acts & ASK) != 0)
        ask(turn, notes, arg->others[0]);
    if ((arg->acts & ASK_TWO) != 0)
        ask_two(turn, notes, arg->others);
    if ((arg->acts & ASK_THEN) != 0)
        ask_then(turn, notes, arg->others[0]);
    if ((arg->acts & NAP) != 0)
        (void)teff_sleep(turn, NAP_NS);
    check_valid(turn, own, self); /* it may have been suspended */
    if ((arg->acts & LEAVE) != 0) {
        self->leaving = true;
        if (teff_turn_deactivate(turn) != 0)
            fail("a turn of grain %u may not ask to go", arg->grain);
    }
    leave(own);
}

static int target_on_work(teff_turn *turn, struct target *self, const struct work *arg,
                          struct worked *ret)
{
    serve(turn, self, arg);
    *ret = (struct worked){ arg->grain, arg->sender, arg->number, teff_turn_self(turn).route };
    return 0;
}

static int target_on_note(teff_turn *turn, struct target *self, const struct work *arg,
                          teff_none *ret)
{
    (void)ret;
    serve(turn, self, arg);
    return 0;
}

static const teff_handlers *const target_implements[] = { &target_handlers, NULL };

const teff_grain_type target_type = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "target" },
    .state_size = sizeof(struct target),
    .implements = target_implements,
    .activate = target_activate,
    .deactivate = target_deactivate,
};
