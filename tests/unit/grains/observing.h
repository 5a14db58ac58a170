/* SPDX-License-Identifier: MIT */
/* A simulated silo of two workers whose client has an observer, `ear`, that notes what it hears. */
#ifndef TEFF_TESTS_UNIT_GRAINS_OBSERVING_H
#define TEFF_TESTS_UNIT_GRAINS_OBSERVING_H

/* before a variable that is called as their parameters are */
#include "grains/observer.h"
#include "messaging/bytes.h"

#include "fixture.h"

/* --- The observer -------------------------------------------------------------------------------- */

struct line {
    int64_t number;
    char text[40];
};
struct letter {
    teff_bytes *bytes;
};
#define EAR_METHODS(METHOD, SELF)                                                                  \
    METHOD(SELF, hear, struct line, struct line, 0)                                                \
    METHOD(SELF, post, struct letter, struct letter, TEFF_ARG_BYTES(1) | TEFF_RET_BYTES(1))        \
    METHOD(SELF, mute, struct line, teff_none, TEFF_ONE_WAY)                                       \
    METHOD(SELF, act, struct line, struct line, 0)
TEFF_INTERFACE(ear, EAR_METHODS);
TEFF_INTERFACE_DEFINE(ear, EAR_METHODS);

struct ear {
    char heard[256];
    int calls;
    bool busy;
    teff_ref ref;
};
TEFF_HANDLERS(ear, struct ear, ear, EAR_METHODS);

static struct ear ear;
static int (*observing)(teff_turn *turn, struct ear *self, const struct line *arg,
                        struct line *ret);

static void note(struct ear *self, const struct line *arg)
{
    const size_t length = strlen(self->heard);
    cr_expect_not(self->busy); /* one at a time */
    self->calls++;
    (void)snprintf(self->heard + length, sizeof(self->heard) - length, "%s%d ", arg->text,
                   (int)arg->number);
}

/* A negative number: fails with the opposite, and the text. */
static int ear_on_hear(teff_turn *turn, struct ear *self, const struct line *arg, struct line *ret)
{
    note(self, arg);
    ret->number = arg->number + 1;
    return arg->number < 0 ? teff_turn_fail(turn, (int)-arg->number, "deaf to %s", arg->text) : 0;
}

static int ear_on_post(teff_turn *turn, struct ear *self, const struct letter *arg,
                       struct letter *ret)
{
    (void)turn;
    self->calls++;
    ret->bytes = teff_bytes_ref(arg->bytes);
    return teff_bytes_size(arg->bytes) > 4 ? 6 : 0; /* … and then gives no count */
}

static int ear_on_mute(teff_turn *turn, struct ear *self, const struct line *arg, teff_none *ret)
{
    (void)turn, (void)ret;
    note(self, arg);
    return 0;
}

static int ear_on_act(teff_turn *turn, struct ear *self, const struct line *arg, struct line *ret)
{
    note(self, arg);
    return observing(turn, self, arg, ret);
}

TEFF__INLINE void begin_observed(void)
{
    begin_with((teff_silo_options){ .workers = 2 });
    teff_assert(teff_observer_begin(client, &ear_handlers, &ear, &ear.ref) == 0);
}

/* What a reference to the observer is to its stubs. */
TEFF__INLINE ear_ref the_ear(void)
{
    return (ear_ref){ ear.ref };
}

TEFF__INLINE uint32_t held(void)
{
    return teff__atomic_u32_load_relaxed(&teff__silo_exchange(silo)->held);
}

#endif
