/* SPDX-License-Identifier: MIT */
/*
 * A simulated silo with one client, and a grain type, `box`, whose values are buffers. A test ends
 * with `close_silo`, which proves that no buffer, source, callback or grain is left.
 *
 * Inside turns and tasks use cr_expect: cr_assert leaves by a jump that is not for other stacks.
 */
#ifndef TEFF_TESTS_UNIT_GRAINS_BUFFERS_H
#define TEFF_TESTS_UNIT_GRAINS_BUFFERS_H

#include "messaging/bytes.h"
#include "runtime/silo.h"

#include "teff.h"

#include <criterion/criterion.h>
#include <string.h>

#define MS     INT64_C(1000000)
#define SECOND INT64_C(1000000000)

struct sack {
    teff_bytes *bytes;
    int64_t number;
};
struct sacks {
    teff_bytes *bytes[15];
};

#define BOX_METHODS(METHOD, SELF)                                                                  \
    METHOD(SELF, echo, struct sack, struct sack, TEFF_ARG_BYTES(1) | TEFF_RET_BYTES(1))            \
    METHOD(SELF, swap, struct sacks, struct sacks, TEFF_ARG_BYTES(15) | TEFF_RET_BYTES(15))        \
    METHOD(SELF, keep, struct sack, teff_none, TEFF_ARG_BYTES(1))                                  \
    METHOD(SELF, kept, teff_none, struct sack, TEFF_RET_BYTES(1))                                  \
    METHOD(SELF, refuse, struct sack, struct sack, TEFF_ARG_BYTES(1) | TEFF_RET_BYTES(1))          \
    METHOD(SELF, note, struct sack, teff_none, TEFF_ARG_BYTES(1) | TEFF_ONE_WAY)                   \
    METHOD(SELF, nap, struct sack, struct sack, TEFF_ARG_BYTES(1) | TEFF_RET_BYTES(1))             \
    METHOD(SELF, leave, struct sack, struct sack, TEFF_ARG_BYTES(1) | TEFF_RET_BYTES(1))           \
    METHOD(SELF, act, struct sack, struct sack, TEFF_ARG_BYTES(1) | TEFF_RET_BYTES(1))
TEFF_INTERFACE(box, BOX_METHODS);
TEFF_INTERFACE_DEFINE(box, BOX_METHODS);

struct box {
    teff_bytes *kept;
};
TEFF_HANDLERS(box, struct box, box, BOX_METHODS);

static teff_silo *silo;
static teff_client *client;

static int turns, naps_ended, activation_result;
static teff_bytes *last_seen; /* the buffer of the last argument; not counted */

/* What a test lets turns of `act` do. */
static int (*acting)(teff_turn *turn, const struct sack *arg, struct sack *ret);

static int box_on_echo(teff_turn *turn, struct box *self, const struct sack *arg, struct sack *ret)
{
    (void)turn, (void)self;
    turns++;
    last_seen = arg->bytes;
    ret->bytes = teff_bytes_ref(arg->bytes);
    ret->number = arg->number;
    return 0;
}

/* Gives all 15, in the opposite order. */
static int box_on_swap(teff_turn *turn, struct box *self, const struct sacks *arg,
                       struct sacks *ret)
{
    (void)turn, (void)self;
    turns++;
    for (int i = 0; i < 15; i++)
        ret->bytes[i] = teff_bytes_ref(arg->bytes[14 - i]);
    return 0;
}

static int box_on_keep(teff_turn *turn, struct box *self, const struct sack *arg, teff_none *ret)
{
    (void)turn, (void)ret;
    turns++;
    teff_bytes_unref(self->kept);
    self->kept = teff_bytes_ref(arg->bytes);
    return 0;
}

/* Gives what it has kept away. */
static int box_on_kept(teff_turn *turn, struct box *self, const teff_none *arg, struct sack *ret)
{
    (void)turn, (void)arg;
    turns++;
    ret->bytes = self->kept;
    self->kept = NULL;
    return 0;
}

/* Puts the buffer into the result, gives no count, and fails. */
static int box_on_refuse(teff_turn *turn, struct box *self, const struct sack *arg,
                         struct sack *ret)
{
    (void)self;
    turns++;
    ret->bytes = arg->bytes;
    return teff_turn_fail(turn, 7, "no room");
}

static int box_on_note(teff_turn *turn, struct box *self, const struct sack *arg, teff_none *ret)
{
    (void)turn, (void)self, (void)ret;
    turns++;
    last_seen = arg->bytes;
    return 0;
}

/* Sleeps, and answers in any case. */
static int box_on_nap(teff_turn *turn, struct box *self, const struct sack *arg, struct sack *ret)
{
    (void)self;
    turns++;
    (void)teff_sleep(turn, arg->number);
    naps_ended++;
    ret->bytes = teff_bytes_ref(arg->bytes);
    return 0;
}

static int box_on_leave(teff_turn *turn, struct box *self, const struct sack *arg, struct sack *ret)
{
    (void)self;
    turns++;
    ret->bytes = teff_bytes_ref(arg->bytes);
    return teff_turn_deactivate(turn);
}

static int box_on_act(teff_turn *turn, struct box *self, const struct sack *arg, struct sack *ret)
{
    (void)self;
    turns++;
    return acting(turn, arg, ret);
}

static int box_activate(teff_turn *turn, void *self)
{
    (void)self;
    return activation_result > 0 ? teff_turn_fail(turn, activation_result, "no box today") : 0;
}

static void box_deactivate(teff_turn *turn, void *self, int reason)
{
    struct box *box = self;
    (void)turn, (void)reason;
    box->kept = teff_bytes_unref(box->kept);
}

static const teff_handlers *const box_implements[] = { &box_handlers, NULL };
static const teff_grain_type box_grain = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "box" },
    .state_size = sizeof(struct box),
    .implements = box_implements,
    .activate = box_activate,
    .deactivate = box_deactivate,
};

TEFF__INLINE void open_silo_with(teff_silo_options options)
{
    options.struct_size = sizeof(options);
    options.simulated = true;
    options.seed = 1;
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &box_grain, NULL) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

TEFF__INLINE void open_silo(void)
{
    open_silo_with((teff_silo_options){ 0 });
}

TEFF__INLINE void open_two(void)
{
    open_silo_with((teff_silo_options){ .workers = 2 });
}

/* Nothing may be left. */
TEFF__INLINE void close_silo(void)
{
    teff_assert(teff_client_destroy(client) == NULL);
    teff_assert(teff_silo_stop(silo) == 0);
    teff_assert(teff__silo_open_count(silo) == 0);
    teff_assert(teff__silo_grain_count(silo) == 0);
    teff_assert(teff_silo_destroy(silo) == NULL);
}

TEFF__INLINE teff_bytes *bytes_of(const char *text)
{
    teff_bytes *bytes = NULL;
    teff_assert(teff_bytes_create(silo, text, strlen(text), &bytes) == 0);
    return bytes;
}

/* How many counts there are. */
TEFF__INLINE uint32_t count_of(const teff_bytes *bytes)
{
    return teff__atomic_u32_load_relaxed(&bytes->count);
}

/* How many buffers and sources the silo has. */
TEFF__INLINE uint32_t held(void)
{
    return teff__atomic_u32_load_relaxed(&teff__silo_exchange(silo)->held);
}

/* Runs a task to its end. */
TEFF__INLINE int in_task(int worker, int (*run)(teff_task *task, void *user), void *user)
{
    int result = 4711;
    teff_future future = { 0 };
    cr_assert_eq(teff_silo_spawn(silo, worker, run, user, client, &future), 0);
    cr_assert_eq(teff_task_claim(client, future, &result), 0);
    return result;
}

/* Activates the box of that number on the worker that runs the task. */
TEFF__INLINE int settle_box(teff_task *task, void *user)
{
    box_ref box = box_at((uint64_t)(uintptr_t)user);
    return box_keep(task, &box, NULL, NULL);
}

/* Time passes in the middle of a turn, as where one is slow. */
TEFF__INLINE void be_slow(int64_t ns)
{
    teff__silo_exchange(silo)->clock.simulated_ns += ns;
}

#endif
