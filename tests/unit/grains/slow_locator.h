/* SPDX-License-Identifier: MIT */
/*
 * A locator that a test holds in its hand: it says LATER to everything, or, while `at_once`, does it; what is asked waits
 * until the test lets it go. It knows some grains, by value, as one in another process would.
 */
#ifndef TEFF_TESTS_UNIT_GRAINS_SLOW_LOCATOR_H
#define TEFF_TESTS_UNIT_GRAINS_SLOW_LOCATOR_H

#include "fixture.h"

#include "grains/catalog.h"

#include "teff/status.h"

enum { SLOW_GRAINS = 32, SLOW_ASKED = 64 };

static struct {
    bool at_once;
    int refuses;                           /* what it answers, if not 0 */
    teff__grain_record known[SLOW_GRAINS]; /* type 0: free */
    teff__locator_ask *asked[SLOW_ASKED];  /* in the order in which they were */
    uint32_t asked_count;
    uint32_t finds, enters, leaves; /* how often it did so */
} slow;

static teff__grain_record *slow_known(uint64_t hash)
{
    for (int i = 0; i < SLOW_GRAINS; i++) {
        if (slow.known[i].type != 0 && slow.known[i].hash == hash)
            return &slow.known[i];
    }
    return NULL;
}

static uint64_t slow_find_now(uint64_t hash)
{
    const teff__grain_record *known = slow_known(hash);
    slow.finds++;
    return known != NULL ? known->address : 0;
}

static uint64_t slow_enter_now(const teff__grain_record *grain, uint64_t previous)
{
    teff__grain_record *known = slow_known(grain->hash);
    slow.enters++;
    for (int i = 0; known == NULL; i++) {
        teff_assert(i < SLOW_GRAINS);
        if (slow.known[i].type == 0)
            *(known = &slow.known[i]) = *grain;
    }
    if (known->address == previous)
        known->address = grain->address;
    return known->address;
}

static void slow_leave_now(const teff__grain_record *grain)
{
    teff__grain_record *known = slow_known(grain->hash);
    slow.leaves++;
    if (known != NULL && known->address == grain->address)
        known->type = 0;
}

static int slow_find(void *self, uint64_t hash, uint32_t type, const teff_key *key, uint64_t *ret)
{
    (void)self, (void)type, (void)key;
    if (!slow.at_once)
        return TEFF__LOCATOR_LATER;
    *ret = slow_find_now(hash);
    return slow.refuses;
}

static int slow_enter(void *self, teff__grain_record *record, uint64_t previous, uint64_t *ret)
{
    (void)self;
    if (!slow.at_once)
        return TEFF__LOCATOR_LATER;
    *ret = slow.refuses == 0 ? slow_enter_now(record, previous) : 0;
    return slow.refuses;
}

static int slow_move(void *self, teff__grain_record *record, uint64_t address)
{
    (void)self;
    if (!slow.at_once)
        return TEFF__LOCATOR_LATER;
    const uint64_t previous = record->address;
    record->address = address;
    (void)slow_enter_now(record, previous);
    return 0;
}

static int slow_leave(void *self, teff__grain_record *record)
{
    (void)self;
    if (!slow.at_once)
        return TEFF__LOCATOR_LATER;
    slow_leave_now(record);
    return 0;
}

static void slow_ask(void *self, teff__locator_ask *ask)
{
    (void)self;
    teff_assert(slow.asked_count < SLOW_ASKED);
    slow.asked[slow.asked_count++] = ask;
}

/* Lets the question of that place go; those behind it move up. Nobody takes notice before the silo runs. */
TEFF__INLINE void slow_answer(uint32_t place)
{
    cr_assert_lt(place, slow.asked_count);
    teff__locator_ask *ask = slow.asked[place];
    slow.asked_count--;
    memmove(&slow.asked[place], &slow.asked[place + 1],
            (slow.asked_count - place) * sizeof(slow.asked[0]));
    ask->code = slow.refuses;
    ask->address = 0;
    if (slow.refuses == 0) {
        switch (ask->op) {
        case TEFF__LOCATOR_FIND:
            ask->address = slow_find_now(ask->grain.hash);
            break;
        case TEFF__LOCATOR_ENTER:
            ask->address = slow_enter_now(&ask->grain, ask->previous);
            break;
        case TEFF__LOCATOR_LEAVE:
            slow_leave_now(&ask->grain);
            break;
        }
    }
    teff__exchange_post(teff__silo_grains(silo)->exchange, ask->worker, &ask->message);
}

/* Runs the silo and lets everything go in its order, until nothing is asked any more. */
TEFF__INLINE void slow_answer_all(void)
{
    cr_assert_eq(teff_silo_run(silo), 0);
    while (slow.asked_count != 0) {
        slow_answer(0);
        cr_assert_eq(teff_silo_run(silo), 0);
    }
}

static const teff__locator_ops slow_ops = { slow_find, slow_enter, slow_move, slow_leave,
                                            slow_ask,  NULL,       NULL };

/* For `created`. */
TEFF__INLINE void slow_install(void)
{
    teff__silo_grains(silo)->locator = (teff__locator){ &slow_ops, &slow };
}

#endif
