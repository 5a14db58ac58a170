/* SPDX-License-Identifier: MIT */
/*
 * Counting open calls: all of them exactly, or those that a filter lets through. Nothing is
 * allocated. Workers walk their own stripes; those of clients are walked by whoever asks, through
 * the words that anybody may read.
 */
#include "grains/dispatch.h"
#include "grains/inspect.h"
#include "grains/observer.h"
#include "messaging/count.h"

#include "runtime/sized.h"
#include "teff/status.h"

#define TIMEOUT_NS INT64_C(1000000000)

typedef struct job {
    teff_call_filter filter;
    teff__grains *grains;
    uint64_t target; /* of filter.grain */
    int64_t now_ns;
    teff__atomic_u64 count;
} job;

/* A stripe under a job: what the predicate sees. */
typedef struct walk {
    const job *of;
    int worker;
} walk;

/* Whether the grain of that hash lives where the filter wants it; an observer lives nowhere. */
static bool lives_there(const job *of, uint64_t target)
{
    teff__grain_record record;
    if (of->filter.target == TEFF_TARGET_ANY)
        return true;
    if (teff__target_is_observer(target))
        return of->filter.target == TEFF_TARGET_OBSERVER;
    return of->filter.target == TEFF_TARGET_WORKER && target != 0 &&
           teff__directory_find_hash(&of->grains->directory, target, &record) &&
           teff__address_worker(record.address) == of->filter.worker;
}

static bool is_counted(void *user, const teff__open_callback *callback)
{
    const walk *at = user;
    const job *of = at->of;
    const int64_t age_ns = of->now_ns > callback->opened_ns ? of->now_ns - callback->opened_ns : 0;
    if ((of->filter.grain != NULL && callback->target != of->target) ||
        age_ns < of->filter.older_ns || !lives_there(of, callback->target))
        return false;
    const teff_open_call call = {
        .id = callback->id,
        .age_ns = age_ns,
        .left_ns = callback->deadline_ns == TEFF__DEADLINE_NEVER
                       ? INT64_MAX
                       : callback->deadline_ns - of->now_ns,
        .worker = at->worker,
    };
    return of->filter.matches == NULL || of->filter.matches(of->filter.user, &call);
}

/* The quick walks are for what they can tell; the predicate can tell all. */
static uint64_t count_stripe(const job *of, const teff__stripe *stripe, int worker)
{
    const teff_call_filter *filter = &of->filter;
    if (filter->matches == NULL && filter->target == TEFF_TARGET_ANY) {
        if (filter->grain != NULL && filter->older_ns == 0)
            return teff__stripe_count_grain(stripe, of->target);
        if (filter->grain == NULL && filter->older_ns != 0)
            return teff__stripe_count_older(stripe, of->now_ns - filter->older_ns);
    }
    walk at = { of, worker };
    return teff__stripe_count_if(stripe, is_counted, &at);
}

static void count_worker(teff__catalog *catalog, void *user)
{
    job *of = user;
    uint64_t count = 0;
    for (uint32_t i = 0; i < catalog->stripes_used; i++)
        count += count_stripe(of, &catalog->stripes[i], (int)catalog->worker.index);
    (void)teff__atomic_u64_add_relaxed(&of->count, count);
}

static int take_filter(job *ret, teff__grains *grains, const teff_call_filter *from)
{
    teff_call_filter *filter = &ret->filter;
    int r = teff__sized_copy(filter, sizeof(*filter), sizeof(*filter), from);
    if (r == 0 && (filter->older_ns < 0 || filter->timeout_ns < 0 ||
                   (unsigned)filter->target > TEFF_TARGET_OBSERVER ||
                   (filter->target == TEFF_TARGET_WORKER &&
                    filter->worker >= grains->exchange->workers_count)))
        r = TEFF_EINVAL;
    if (r != 0 || filter->grain == NULL)
        return r;
    if (teff__observer_is(filter->grain)) {
        ret->target = teff__observer_target(filter->grain);
        return ret->target != 0 ? 0 : TEFF_EINVAL;
    }
    const teff__type *type = teff__dispatch_type(grains, filter->grain);
    if (type == NULL)
        return TEFF_EINVAL;
    ret->target = teff__key_hash(&grains->seed, type->id, &filter->grain->key);
    return 0;
}

static int count_all(const teff__exchange *exchange, uint64_t *ret)
{
    uint64_t count;
    if (exchange->registry.stripes == NULL || teff__exchange_forked(exchange))
        return TEFF_EINVALIDSTATE;
    if (!teff__registry_open_count_exact(&exchange->registry, &count))
        return TEFF_ETIMEDOUT;
    *ret = count;
    return 0;
}

int teff_silo_count_open(teff_silo *silo, const teff_call_filter *filter, uint64_t *ret)
{
    if (silo == NULL || ret == NULL)
        return TEFF_EINVAL;
    teff__grains *grains = teff__silo_grains(silo);
    teff__exchange *exchange = grains->exchange;
    if (filter == NULL)
        return count_all(exchange, ret);
    int r = teff__inspect_check(grains);
    job asked = { .grains = grains };
    if (r == 0)
        r = take_filter(&asked, grains, filter);
    if (r != 0)
        return r;
    asked.now_ns = teff__clock_now_ns(&exchange->clock);
    const int64_t timeout_ns = filter->timeout_ns != 0 ? filter->timeout_ns : TIMEOUT_NS;
    uint64_t silent;
    teff__inspect(grains, teff__exchange_all(exchange), count_worker, &asked,
                  teff__time_add(asked.now_ns, timeout_ns), &silent);
    if (silent != 0)
        return TEFF_ETIMEDOUT;
    uint64_t count = teff__atomic_u64_load_relaxed(&asked.count);
    for (uint32_t i = TEFF__STRIPES_WORKERS; i < TEFF__STRIPES; i++)
        count += count_stripe(&asked, &exchange->registry.stripes[i], -1);
    *ret = count;
    return 0;
}
