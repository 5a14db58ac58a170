/* SPDX-License-Identifier: MIT */
/*
 * Each turn checks, in this order: whose turn it is, that the grain has exactly one activation,
 * that no other turn runs, that it is on its activation's worker, that this activation did not ask
 * to go, and that the message is its sender's next one.
 */
#include "stress_calls_grains.h"

#include "stress_calls_common.h"

struct target {
    int worker;
    bool leaving;
};
struct leaf {
    int worker;
    bool leaving;
};

TEFF_INTERFACE_DEFINE(target, TARGET_METHODS);
TEFF_INTERFACE_DEFINE(leaf, LEAF_METHODS);
TEFF_HANDLERS(target, struct target, target, TARGET_METHODS);
TEFF_HANDLERS(leaf, struct leaf, leaf, LEAF_METHODS);

const char *account_name(const ledger *notes, const account *own, char text[32])
{
    const bool leaf = own >= notes->leaves && own < notes->leaves + notes->leaf_count;
    (void)snprintf(text, 32, "%s %u", leaf ? "leaf" : "target",
                   (unsigned)(own - (leaf ? notes->leaves : notes->targets)));
    return text;
}

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

static void enter(const ledger *notes, account *own)
{
    char name[32];
    uint32_t busy = 0;
    if (!teff__atomic_u32_cas_relaxed(&own->busy, &busy, 1))
        fail("two turns of %s overlap", account_name(notes, own, name));
}

static void leave(account *own)
{
    teff__atomic_u32_store_relaxed(&own->busy, 0);
}

static void enter_turn(const ledger *notes, account *own, int worker, int expected, bool leaving)
{
    char name[32];
    const uint32_t alive = teff__atomic_u32_load_relaxed(&own->alive);
    enter(notes, own);
    (void)account_name(notes, own, name);
    if (alive != 1)
        fail("a turn of %s runs while it has %u activations", name, alive);
    if (worker != expected || worker != own->worker)
        fail("a turn of %s runs on worker %d, but it was activated on %d (state), %d (ledger)",
             name, worker, expected, own->worker);
    if (leaving)
        fail("%s serves a message after the turn that asked for its deactivation", name);
    (void)teff__atomic_u64_add_relaxed(&own->turns, 1);
}

/* --- Hooks ------------------------------------------------------------------------------------ */

static void activated(ledger *notes, account *own, int worker, bool fresh)
{
    char name[32];
    enter(notes, own);
    if (!fresh)
        fail("%s was activated with a state that is not zeroed", account_name(notes, own, name));
    if (teff__atomic_u32_add_relaxed(&own->alive, 1) != 0)
        fail("%s has two activations", account_name(notes, own, name));
    if (teff__atomic_u64_add_relaxed(&own->activated, 1) > 0 && own->worker != worker)
        (void)teff__atomic_u64_add_relaxed(&notes->moved, 1);
    own->worker = worker;
    leave(own);
}

static void deactivated(const ledger *notes, account *own, bool leaving, int reason)
{
    char name[32];
    enter(notes, own);
    if (reason != (leaving ? TEFF_DEACTIVATED_REQUEST : TEFF_DEACTIVATED_STOP))
        fail("%s is deactivated for the reason %d", account_name(notes, own, name), reason);
    (void)teff__atomic_u64_add_relaxed(&own->deactivated, 1);
    if (teff__atomic_u32_add_relaxed(&own->alive, UINT32_MAX) != 1)
        fail("%s is deactivated twice", account_name(notes, own, name));
    leave(own);
}

static int target_activate(teff_turn *turn, void *state)
{
    struct target *self = state;
    ledger *notes = teff_turn_context(turn);
    activated(notes, &notes->targets[own_number(turn)], own_worker(turn),
              self->worker == 0 && !self->leaving);
    self->worker = own_worker(turn);
    return 0;
}

static void target_deactivate(teff_turn *turn, void *state, int reason)
{
    const struct target *self = state;
    const ledger *notes = teff_turn_context(turn);
    deactivated(notes, &notes->targets[own_number(turn)], self->leaving, reason);
}

static int leaf_activate(teff_turn *turn, void *state)
{
    struct leaf *self = state;
    ledger *notes = teff_turn_context(turn);
    activated(notes, &notes->leaves[own_number(turn)], own_worker(turn),
              self->worker == 0 && !self->leaving);
    self->worker = own_worker(turn);
    return 0;
}

static void leaf_deactivate(teff_turn *turn, void *state, int reason)
{
    const struct leaf *self = state;
    const ledger *notes = teff_turn_context(turn);
    deactivated(notes, &notes->leaves[own_number(turn)], self->leaving, reason);
}

/* --- Targets ---------------------------------------------------------------------------------- */

static account *begin(teff_turn *turn, const struct target *self, const struct work *arg,
                      struct worked *ret)
{
    const ledger *notes = teff_turn_context(turn);
    if (own_number(turn) != arg->target)
        fail("target %u got a message for target %u", own_number(turn), arg->target);
    account *own = &notes->targets[arg->target];
    enter_turn(notes, own, own_worker(turn), self->worker, self->leaving);
    if (arg->number != own->seen[arg->sender] + 1)
        fail("target %u: after message %u of sender %u comes message %u", arg->target,
             own->seen[arg->sender], arg->sender, arg->number);
    own->seen[arg->sender] = arg->number;
    *ret = (struct worked){ arg->target, arg->sender, arg->number };
    return own;
}

static int target_on_quick(teff_turn *turn, struct target *self, const struct work *arg,
                           struct worked *ret)
{
    leave(begin(turn, self, arg, ret));
    return 0;
}

static int target_on_leave(teff_turn *turn, struct target *self, const struct work *arg,
                           struct worked *ret)
{
    account *own = begin(turn, self, arg, ret);
    const int r = teff_turn_deactivate(turn);
    self->leaving = true;
    leave(own);
    return r;
}

static int target_on_ask(teff_turn *turn, struct target *self, const struct work *arg,
                         struct worked *ret)
{
    ledger *notes = teff_turn_context(turn);
    account *own = begin(turn, self, arg, ret);
    leaf_ref to = leaf_at(arg->leaf);
    (void)teff__atomic_u64_add_relaxed(&notes->suspended, 1);
    const int r = leaf_touch(turn, &to, &(struct touch){ arg->leaf, arg->leave }, NULL);
    if (r == 0)
        (void)teff__atomic_u64_add_relaxed(&notes->leaves[arg->leaf].asked, 1);
    leave(own);
    return teff_turn_pass(turn, r);
}

static int target_on_nap(teff_turn *turn, struct target *self, const struct work *arg,
                         struct worked *ret)
{
    ledger *notes = teff_turn_context(turn);
    account *own = begin(turn, self, arg, ret);
    (void)teff__atomic_u64_add_relaxed(&notes->suspended, 1);
    const int r = teff_sleep(turn, arg->nap_ns);
    leave(own);
    return r;
}

/* --- Leaves ----------------------------------------------------------------------------------- */

static int leaf_on_touch(teff_turn *turn, struct leaf *self, const struct touch *arg,
                         teff_none *ret)
{
    const ledger *notes = teff_turn_context(turn);
    account *own = &notes->leaves[own_number(turn)];
    (void)ret;
    if (own_number(turn) != arg->leaf)
        fail("leaf %u got a message for leaf %u", own_number(turn), arg->leaf);
    enter_turn(notes, own, own_worker(turn), self->worker, self->leaving);
    if (arg->leave) {
        (void)teff_turn_deactivate(turn);
        self->leaving = true;
    }
    leave(own);
    return 0;
}

static const teff_handlers *const target_implements[] = { &target_handlers, NULL };
static const teff_handlers *const leaf_implements[] = { &leaf_handlers, NULL };

const teff_grain_type target_type = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "target" },
    .state_size = sizeof(struct target),
    .implements = target_implements,
    .activate = target_activate,
    .deactivate = target_deactivate,
};
const teff_grain_type leaf_type = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "leaf" },
    .state_size = sizeof(struct leaf),
    .implements = leaf_implements,
    .activate = leaf_activate,
    .deactivate = leaf_deactivate,
};
