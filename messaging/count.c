/* SPDX-License-Identifier: MIT */
#include "messaging/count.h"

#include "teff/status.h"

/* How often the exact count collects before it gives up: something then opens all the time. */
enum { COLLECTS_MAX = 64 };

teff_end teff__end_of_code(int code)
{
    switch (code) {
    case 0:
        return TEFF_END_RESPONSE;
    case TEFF_EREJECTED:
        return TEFF_END_REJECTED;
    case TEFF_EOVERLOADED:
    case TEFF_ELIMIT:
    case TEFF_ENOMEM:
        return TEFF_END_OVERLOADED;
    case TEFF_ETIMEDOUT:
        return TEFF_END_TIMED_OUT;
    case TEFF_ECANCELED:
        return TEFF_END_CANCELED_RUNNING;
    case TEFF_EUNAVAILABLE:
        return TEFF_END_STOPPED;
    case TEFF_EGONE:
        return TEFF_END_GONE;
    case TEFF_ESTUCK:
        return TEFF_END_STUCK;
    case TEFF_EDEADLOCK:
        return TEFF_END_DEADLOCK;
    default:
        return code > 0 ? TEFF_END_ERROR : TEFF_END_UNRECOVERABLE;
    }
}

teff_end teff__end_of_answer(const teff__message *answer)
{
    const bool ran = (answer->flags & TEFF__MESSAGE_MAY_HAVE_RUN) != 0;
    if (answer->code == 0)
        return TEFF_END_RESPONSE;
    if (answer->code == TEFF_ECANCELED && !ran)
        return TEFF_END_CANCELED_QUEUED;
    if (answer->kind == TEFF__MESSAGE_STATUS || (answer->flags & TEFF__MESSAGE_GIVEN_UP) != 0)
        /* the runtime's own */
        return teff__end_of_code(answer->code);
    /* the turn did what its source asked for, and the caller waited to hear it */
    if (answer->code == TEFF_ECANCELED && (answer->flags & TEFF__MESSAGE_UNDER) != 0)
        return TEFF_END_CANCELED_RUNNING;
    return ran ? TEFF_END_ERROR : teff__end_of_code(answer->code);
}

/* The next stripe from *index on that has ever been used, which is moved behind it; NULL: none. */
static const teff__stripe *next_used(const teff__registry *registry, uint32_t *index)
{
    while (*index < TEFF__STRIPES) {
        const uint64_t rest =
            teff__atomic_u64_load_relaxed(&registry->used[*index / 64]) >> *index % 64;
        if (rest == 0) {
            *index = (*index / 64 + 1) * 64;
            continue;
        }
        const uint32_t found = *index + (uint32_t)__builtin_ctzll(rest);
        *index = found + 1;
        return &registry->stripes[found];
    }
    return NULL;
}

typedef struct collected {
    uint64_t opened, closed;
} collected;

/*
 * Closed first: a call that opens and closes in between is then missed, not counted negative.
 */
static collected collect(const teff__registry *registry)
{
    collected sum = { 0, 0 };
    const teff__stripe *stripe;
    for (uint32_t i = 0; (stripe = next_used(registry, &i)) != NULL;)
        sum.closed += teff__atomic_u64_load_acquire(&stripe->closed);
    for (uint32_t i = 0; (stripe = next_used(registry, &i)) != NULL;)
        sum.opened += teff__atomic_u64_load_acquire(&stripe->opened);
    return sum;
}

uint64_t teff__registry_open_count(const teff__registry *registry)
{
    const collected sum = collect(registry);
    return sum.opened - sum.closed;
}

bool teff__registry_open_count_exact(const teff__registry *registry, uint64_t *ret)
{
    collected before = collect(registry);
    for (int i = 1; i < COLLECTS_MAX; i++) {
        /* The counters only grow: where both sums are the same, each counter was. */
        const collected now = collect(registry);
        *ret = now.opened - now.closed;
        if (now.opened == before.opened && now.closed == before.closed)
            return true;
        before = now;
    }
    return false;
}

void teff__registry_counts(const teff__registry *registry, teff_counts *ret)
{
    uint64_t others = 0;
    for (int end = 0; end < TEFF_ENDS; end++)
        ret->ended[end] = 0;
    const teff__stripe *stripe;
    for (uint32_t i = 0; (stripe = next_used(registry, &i)) != NULL;) {
        const teff__stripe_ends *ends = &registry->ends[i - 1];
        for (int end = TEFF_END_RESPONSE + 1; end < TEFF_ENDS; end++) {
            const uint64_t count = teff__atomic_u64_load_relaxed(&ends->of[end]);
            ret->ended[end] += count;
            others += count;
        }
    }
    const collected sum = collect(registry);
    ret->opened = sum.opened;
    ret->open = sum.opened - sum.closed;
    /* An end is counted a moment before or after its call closes. */
    ret->ended[TEFF_END_RESPONSE] = sum.closed > others ? sum.closed - others : 0;
    ret->late = teff__atomic_u64_load_relaxed(&registry->late);
    ret->unknown = teff__atomic_u64_load_relaxed(&registry->unknown);
    ret->unclaimed = teff__atomic_u64_load_relaxed(&registry->unclaimed);
}

uint32_t teff__stripe_count_grain(const teff__stripe *stripe, uint64_t target)
{
    const uint32_t made = teff__atomic_u32_load_acquire(&stripe->made);
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < made; slot++) {
        const teff__callback_columns *columns = stripe->columns;
        count +=
            (uint32_t)(teff__atomic_u64_load_relaxed(&columns->target[slot]) == target) &
            (uint32_t)(teff__atomic_i64_load_relaxed(&columns->deadline_ns[slot]) != INT64_MAX);
    }
    return count;
}

uint32_t teff__stripe_count_older(const teff__stripe *stripe, int64_t before_ns)
{
    const uint32_t made = teff__atomic_u32_load_acquire(&stripe->made);
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < made; slot++) {
        const teff__callback_columns *columns = stripe->columns;
        count +=
            (uint32_t)(teff__atomic_i64_load_relaxed(&columns->opened_ns[slot]) <= before_ns) &
            (uint32_t)(teff__atomic_i64_load_relaxed(&columns->deadline_ns[slot]) != INT64_MAX);
    }
    return count;
}

uint32_t teff__stripe_count_if(const teff__stripe *stripe, teff__callback_predicate *predicate,
                               void *user)
{
    const uint32_t made = teff__atomic_u32_load_acquire(&stripe->made);
    if (made == 0) /* another's stripe, perhaps, that is being given its slots */
        return 0;
    /* The compiler must take the predicate to change the stripe, and would read these each time. */
    const teff__callback_columns *columns = stripe->columns;
    const teff__callback *callbacks = stripe->callbacks;
    uint64_t place = stripe->base; /* an id but for the generation */
    uint32_t count = 0;
    for (size_t slot = 0; slot < made; slot++, place++) {
        const int64_t deadline_ns = teff__atomic_i64_load_relaxed(&columns->deadline_ns[slot]);
        if (deadline_ns == INT64_MAX)
            continue;
        const uint64_t generation =
            teff__atomic_u64_load_relaxed(&callbacks[slot].word) >> TEFF__CALLBACK_SHIFT;
        const teff__open_callback open = { generation << TEFF__GENERATION_SHIFT | place,
                                           teff__atomic_i64_load_relaxed(&columns->opened_ns[slot]),
                                           deadline_ns,
                                           teff__atomic_u64_load_relaxed(&columns->target[slot]) };
        count += predicate(user, &open);
    }
    return count;
}
