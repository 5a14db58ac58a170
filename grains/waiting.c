/* SPDX-License-Identifier: MIT */
#include "grains/waiting.h"

#include "grains/task.h"
#include "grains/turn.h"

void teff__waiting_begin(teff__waiting_walk *walk, teff__catalog *catalog)
{
    *walk = (teff__waiting_walk){ .catalog = catalog,
                                  .number = ++catalog->walks,
                                  .sleeper = catalog->sleepers.next };
    if (walk->number == 0) /* an await that no walk has seen has that number */
        walk->number = ++catalog->walks;
}

/* Who waits. */
static void fill_in_caller(teff__waiting *waiting, const teff_caller *caller)
{
    *waiting = (teff__waiting){ .caller = caller };
    if (caller->kind == TEFF__CALLER_TURN) {
        const teff__turn *turn = (const teff__turn *)(const void *)caller;
        waiting->activation = turn->activation;
        waiting->request = turn->request;
    }
}

/*
 * Whether an open callback is what somebody waits for that this walk has not told of. Who waits for
 * several futures stands in each of them; and in those that are left after the wait has ended,
 * until it goes on.
 */
static bool tells_of(const teff__waiting_walk *walk, uint64_t word, teff__await *await)
{
    if ((word & TEFF__CALLBACK_STATE) != TEFF__CALLBACK_OPEN || await == NULL)
        return false;
    if ((word & TEFF__CALLBACK_FUTURE) == 0)
        return true;
    if (await->remaining <= 0 || await->seen == walk->number)
        return false;
    await->seen = walk->number;
    return true;
}

static bool next_await(teff__waiting_walk *walk, teff__waiting *ret)
{
    const teff__stripe *stripe = &walk->catalog->stripes[walk->stripe];
    const uint32_t made = teff__atomic_u32_load_relaxed(&stripe->made);
    while (walk->slot < made) {
        const uint32_t slot = walk->slot++;
        const teff__callback_columns *columns = stripe->columns;
        const int64_t deadline_ns = teff__atomic_i64_load_relaxed(&columns->deadline_ns[slot]);
        if (deadline_ns == INT64_MAX) /* nothing is open there: no need to touch the slot */
            continue;
        const teff__callback *callback = &stripe->callbacks[slot];
        const uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
        teff__await *await = callback->value;
        if (!tells_of(walk, word, await))
            continue;
        const bool future = (word & TEFF__CALLBACK_FUTURE) != 0;
        fill_in_caller(ret, await->caller);
        ret->what = future ? TEFF__WAITING_FUTURES : TEFF__WAITING_CALL;
        ret->remaining = future ? (uint32_t)await->remaining : 0;
        ret->id = teff__stripe_open_id(stripe, slot);
        ret->target = teff__stripe_target(stripe, ret->id);
        ret->since_ns = teff__atomic_i64_load_relaxed(&columns->opened_ns[slot]);
        ret->deadline_ns = deadline_ns;
        return true;
    }
    return false;
}

static bool next_sleeper(teff__waiting_walk *walk, teff__waiting *ret)
{
    if (walk->sleeper == &walk->catalog->sleepers)
        return false;
    const teff__sleeper *sleeper = teff__container_of(walk->sleeper, teff__sleeper, ring);
    walk->sleeper = walk->sleeper->next;
    fill_in_caller(ret, sleeper->caller);
    ret->what = TEFF__WAITING_SLEEP;
    ret->since_ns = sleeper->since_ns;
    ret->deadline_ns = sleeper->timer.deadline_ns;
    return true;
}

bool teff__waiting_next(teff__waiting_walk *walk, teff__waiting *ret)
{
    for (; walk->stripe < walk->catalog->stripes_used; walk->stripe++, walk->slot = 0) {
        if (next_await(walk, ret))
            return true;
    }
    return next_sleeper(walk, ret);
}

const teff__message *teff__waiting_mail(const teff__activation *activation,
                                        const teff__message *after)
{
    const teff__link *link = after == NULL ? activation->mailbox.head : after->link.next;
    while (link != NULL && ((const teff__message *)link)->kind != TEFF__MESSAGE_REQUEST)
        link = link->next;
    return (const teff__message *)link;
}
