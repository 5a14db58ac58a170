/* SPDX-License-Identifier: MIT */
/*
 * The echo checks nothing: its callers check that each answer is the next one. The driver's turn
 * does what it was ordered to for a while, in rounds of 100, and takes the time itself.
 */
#include "benchmarks/calls_grain.h"

#include "benchmarks/calls_forms.h"
#include "benchmarks/machine.h"

#include <string.h>

enum {
    WARM_UP_PART = 5, /* of the duration */
    BUFFER_BYTES = 65536,
    ROUNDS_PER_ASK = 4,
    ROUNDS_PER_LOOK = 16, /* at the clock, and of sends before all are known to have run */
    LOST = 1,             /* positive codes: an answer was not the next one … */
    COPIED = 2            /* … or the buffer not the same object */
};

TEFF_INTERFACE_DEFINE(calls_echo, CALLS_ECHO_METHODS);
TEFF_INTERFACE_DEFINE(calls_driver, CALLS_DRIVER_METHODS);
TEFF_INTERFACE_DEFINE(calls_hanger, CALLS_HANGER_METHODS);

/* --- The echo ------------------------------------------------------------------------------ */

struct calls_echo {
    uint64_t turns;
};
TEFF_HANDLERS(calls_echo, struct calls_echo, calls_echo, CALLS_ECHO_METHODS);

static int calls_echo_on_add(teff_turn *turn, struct calls_echo *self, const struct calls_arg *arg,
                             struct calls_ret *ret)
{
    (void)turn;
    self->turns += arg->add;
    ret->turns = self->turns;
    return 0;
}

static int calls_echo_on_look(teff_turn *turn, struct calls_echo *self,
                              const struct calls_buffer *arg, struct calls_ret *ret)
{
    if (teff_bytes_data(arg->bytes) != arg->data || teff_bytes_size(arg->bytes) != BUFFER_BYTES)
        return teff_turn_fail(turn, COPIED, "the buffer is not the same");
    self->turns++;
    ret->turns = self->turns;
    return 0;
}

/* Until its caller gives up, or the silo stops. */
static int calls_echo_on_wait(teff_turn *turn, struct calls_echo *self, const teff_none *arg,
                              teff_none *ret)
{
    (void)self, (void)arg, (void)ret;
    return teff_sleep(turn, teff_turn_deadline_ns(turn) - teff_now_ns(turn));
}

static const teff_handlers *const calls_echo_implements[] = { &calls_echo_handlers, NULL };
const teff_grain_type calls_echo_grain = { .struct_size = sizeof(teff_grain_type),
                                           .name = { "calls_echo" },
                                           .state_size = sizeof(struct calls_echo),
                                           .implements = calls_echo_implements };

/* --- The driver ---------------------------------------------------------------------------- */

struct calls_driver {
    calls_echo_ref echoes[CALLS_GRAINS];
    uint64_t turns[CALLS_GRAINS]; /* that each echo has run for this driver */
    unsigned rounds;              /* of sends to another worker */
    struct calls_buffer buffer;
};
TEFF_HANDLERS(calls_driver, struct calls_driver, calls_driver, CALLS_DRIVER_METHODS);

static const struct calls_arg one = { .add = 1 };

static int await_each(teff_turn *turn, struct calls_driver *self)
{
    struct calls_ret ret;
    for (unsigned i = 0; i < CALLS_GRAINS; i++) {
        const int r = calls_echo_add(turn, &self->echoes[i], &one, &ret);
        if (r != 0 || ret.turns != ++self->turns[i])
            return r != 0 ? r : LOST;
    }
    return 0;
}

static int start_and_claim(teff_turn *turn, struct calls_driver *self)
{
    struct calls_ret ret;
    teff_future futures[CALLS_GRAINS];
    for (unsigned i = 0; i < CALLS_GRAINS; i++)
        futures[i] = calls_echo_add_start(turn, &self->echoes[i], &one);
    int r = teff_await_all(turn, futures, CALLS_GRAINS);
    for (unsigned i = 0; r == 0 && i < CALLS_GRAINS; i++) {
        r = calls_echo_add_claim(turn, futures[i], &ret);
        if (r == 0 && ret.turns != ++self->turns[i])
            r = LOST;
    }
    return r;
}

static int send_each(teff_turn *turn, struct calls_driver *self)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < CALLS_GRAINS; i++) {
        r = calls_echo_add_send(turn, &self->echoes[i], &one);
        self->turns[i]++;
    }
    return r;
}

/*
 * To another worker: now and then the last echo answers when it has run what it was sent, so that
 * no more than a few hundred messages are under way, and neither side often waits for the other.
 */
static int send_and_ask(teff_turn *turn, struct calls_driver *self)
{
    struct calls_ret ret;
    int r = send_each(turn, self);
    if (r != 0 || ++self->rounds % ROUNDS_PER_ASK != 0)
        return r;
    r = calls_echo_add(turn, &self->echoes[CALLS_GRAINS - 1], NULL, &ret);
    return r != 0 || ret.turns == self->turns[CALLS_GRAINS - 1] ? r : LOST;
}

/* On this worker: lets them run. */
static int send_and_yield(teff_turn *turn, struct calls_driver *self)
{
    const int r = send_each(turn, self);
    return r != 0 ? r : teff_sleep(turn, 0);
}

/* One grain, so that only the argument differs. */
static int await_value(teff_turn *turn, struct calls_driver *self)
{
    struct calls_ret ret;
    for (unsigned i = 0; i < CALLS_GRAINS; i++) {
        const int r = calls_echo_add(turn, &self->echoes[0], &one, &ret);
        if (r != 0 || ret.turns != ++self->turns[0])
            return r != 0 ? r : LOST;
    }
    return 0;
}

static int await_buffer(teff_turn *turn, struct calls_driver *self)
{
    struct calls_ret ret;
    for (unsigned i = 0; i < CALLS_GRAINS; i++) {
        const int r = calls_echo_look(turn, &self->echoes[0], &self->buffer, &ret);
        if (r != 0 || ret.turns != ++self->turns[0])
            return r != 0 ? r : LOST;
    }
    return 0;
}

static int (*const rounds[])(teff_turn *turn, struct calls_driver *self) = {
    [CALLS_AWAITED] = await_each,  [CALLS_START_CLAIM] = start_and_claim,
    [CALLS_SEND] = send_and_yield, [CALLS_SEND_CROSS] = send_and_ask,
    [CALLS_VALUE] = await_value,   [CALLS_BYTES] = await_buffer,
};

/* All that was sent has run: each echo answers behind it. */
static int flush(teff_turn *turn, struct calls_driver *self)
{
    struct calls_ret ret;
    for (unsigned i = 0; i < CALLS_GRAINS; i++) {
        const int r = calls_echo_add(turn, &self->echoes[i], NULL, &ret);
        if (r != 0 || ret.turns != self->turns[i])
            return r != 0 ? r : LOST;
    }
    return 0;
}

static int run_for(teff_turn *turn, struct calls_driver *self, int32_t form, int64_t duration_ns,
                   double *ret_ns)
{
    const int64_t start_ns = machine_now_ns();
    uint64_t done = 0;
    int r = 0;
    int64_t now_ns;
    do {
        for (int i = 0; r == 0 && i < ROUNDS_PER_LOOK; i++, done += CALLS_GRAINS)
            r = rounds[form](turn, self);
        now_ns = machine_now_ns();
    } while (r == 0 && now_ns - start_ns < duration_ns);
    if (r == 0)
        r = flush(turn, self);
    *ret_ns = (double)(now_ns - start_ns) / (double)done;
    return r;
}

/* The echoes, where they are and how many turns they have run by now. */
static int meet(teff_turn *turn, struct calls_driver *self, uint64_t first_key)
{
    struct calls_ret ret;
    for (unsigned i = 0; i < CALLS_GRAINS; i++) {
        self->echoes[i] = calls_echo_at(first_key + i);
        const int r = calls_echo_add(turn, &self->echoes[i], &one, &ret);
        if (r != 0)
            return r;
        self->turns[i] = ret.turns;
    }
    return 0;
}

static int calls_driver_on_drive(teff_turn *turn, struct calls_driver *self,
                                 const struct calls_order *arg, struct calls_report *ret)
{
    static const char zeroes[BUFFER_BYTES];
    double warm_ns;
    int r = meet(turn, self, arg->first_key);
    if (r == 0)
        r = teff_bytes_create(arg->silo, zeroes, sizeof(zeroes), &self->buffer.bytes);
    if (r != 0)
        return r;
    self->buffer.data = teff_bytes_data(self->buffer.bytes);
    r = run_for(turn, self, arg->form, arg->duration_ns / WARM_UP_PART, &warm_ns);
    if (r == 0)
        r = run_for(turn, self, arg->form, arg->duration_ns, &ret->ns);
    self->buffer.bytes = teff_bytes_unref(self->buffer.bytes);
    return r;
}

static const teff_handlers *const calls_driver_implements[] = { &calls_driver_handlers, NULL };
const teff_grain_type calls_driver_grain = { .struct_size = sizeof(teff_grain_type),
                                             .name = { "calls_driver" },
                                             .state_size = sizeof(struct calls_driver),
                                             .implements = calls_driver_implements };

/* --- The one that hangs -------------------------------------------------------------------- */

struct calls_hanger {
    uint64_t unused[2];
};
TEFF_HANDLERS(calls_hanger, struct calls_hanger, calls_hanger, CALLS_HANGER_METHODS);

static int calls_hanger_on_meet(teff_turn *turn, struct calls_hanger *self, const teff_none *arg,
                                teff_none *ret)
{
    (void)turn, (void)self, (void)arg, (void)ret;
    return 0;
}

static int calls_hanger_on_hang(teff_turn *turn, struct calls_hanger *self, const teff_none *arg,
                                teff_none *ret)
{
    (void)self, (void)arg, (void)ret;
    calls_echo_ref echo = calls_echo_at(0);
    return calls_echo_wait(turn, &echo, NULL, NULL);
}

static const teff_handlers *const calls_hanger_implements[] = { &calls_hanger_handlers, NULL };
const teff_grain_type calls_hanger_grain = { .struct_size = sizeof(teff_grain_type),
                                             .name = { "calls_hanger" },
                                             .state_size = sizeof(struct calls_hanger),
                                             .implements = calls_hanger_implements };
