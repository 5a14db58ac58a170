/* SPDX-License-Identifier: MIT */
#include "counter.h"

struct counter {
    int64_t value;
};
TEFF_GRAIN(counter, COUNTER_METHODS);

static int counter_on_incr(teff_turn *turn, struct counter *self, const teff_none *arg,
                           struct count *ret)
{
    (void)arg;
    if (self->value == INT64_MAX)
        return teff_turn_fail(turn, COUNTER_FULL, "the counter is full");
    ret->value = ++self->value;
    return 0;
}

static int counter_on_get(teff_turn *turn, struct counter *self, const teff_none *arg,
                          struct count *ret)
{
    (void)turn, (void)arg;
    ret->value = self->value;
    return 0;
}

static int counter_on_reset(teff_turn *turn, struct counter *self, const teff_none *arg,
                            teff_none *ret)
{
    (void)turn, (void)arg, (void)ret;
    self->value = 0;
    return 0;
}
