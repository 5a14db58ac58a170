/* SPDX-License-Identifier: MIT */
#include "runtime/inbox.h"

#include <criterion/criterion.h>
#include <pthread.h>

static teff__inbox inbox; /* zeroed is the same as initialized */

/* Takes everything and expects these links, in this order. */
#define assert_taken(...)                                                                          \
    do {                                                                                           \
        teff__link *const expected[] = { __VA_ARGS__ };                                            \
        const teff__link *link = teff__inbox_take(&inbox);                                         \
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {                      \
            cr_assert_eq(link, expected[i], "link %zu", i);                                        \
            link = link->next;                                                                     \
        }                                                                                          \
        cr_assert_null(link);                                                                      \
    } while (0)

Test(inbox, empty_one_gives_nothing)
{
    teff__inbox_init(&inbox);
    cr_assert(teff__inbox_empty(&inbox));
    cr_assert_null(teff__inbox_take(&inbox));
}

Test(inbox, gives_everything_oldest_first)
{
    teff__link a, b, c;
    cr_assert_not(teff__inbox_push(&inbox, &a));
    cr_assert_not(teff__inbox_push(&inbox, &b));
    cr_assert_not(teff__inbox_push(&inbox, &c));
    cr_assert_not(teff__inbox_empty(&inbox));
    assert_taken(&a, &b, &c);
    cr_assert(teff__inbox_empty(&inbox));
    cr_assert_null(teff__inbox_take(&inbox));
}

Test(inbox, chain_linked_newest_first_keeps_its_place_among_the_others)
{
    teff__link a, b, c, d, e;
    teff__inbox_push(&inbox, &a);
    d.next = &c;
    c.next = &b;
    teff__inbox_push_chain(&inbox, &d, &b);
    teff__inbox_push(&inbox, &e);
    assert_taken(&a, &b, &c, &d, &e);
}

Test(inbox, link_may_be_pushed_again_once_it_was_taken)
{
    teff__link a, b;
    for (int round = 0; round < 3; round++) {
        teff__inbox_push(&inbox, &a);
        teff__inbox_push(&inbox, &b);
        assert_taken(&a, &b);
        teff__inbox_push(&inbox, &b);
        assert_taken(&b);
    }
}

Test(inbox, sleeper_is_to_be_woken_by_the_first_that_pushes)
{
    teff__link a, b;
    cr_assert(teff__inbox_sleep(&inbox));
    cr_assert(teff__inbox_push(&inbox, &a));
    cr_assert_not(teff__inbox_push(&inbox, &b));
    teff__inbox_awake(&inbox);
    assert_taken(&a, &b);
}

Test(inbox, consumer_does_not_fall_asleep_over_what_has_arrived)
{
    teff__link a, b;
    teff__inbox_push(&inbox, &a);
    cr_assert_not(teff__inbox_sleep(&inbox));
    cr_assert_not(teff__inbox_push(&inbox, &b), "it is awake and needs no waking");
    assert_taken(&a, &b);
    cr_assert(teff__inbox_sleep(&inbox));
}

Test(inbox, consumer_that_woke_by_itself_needs_no_waking)
{
    teff__link a;
    cr_assert(teff__inbox_sleep(&inbox));
    teff__inbox_awake(&inbox);
    cr_assert_not(teff__inbox_push(&inbox, &a));
    assert_taken(&a);
}

enum { PRODUCERS = 4, EACH = 10000 };
typedef struct numbered {
    teff__link link;
    int producer, number;
} numbered;
static numbered nodes[PRODUCERS][EACH];

static void *produce(void *argument)
{
    numbered *mine = argument;
    for (int i = 0; i < EACH; i++)
        teff__inbox_push(&inbox, &mine[i].link);
    return NULL;
}

Test(inbox, order_of_each_producer_is_kept)
{
    pthread_t threads[PRODUCERS];
    int next[PRODUCERS] = { 0 };
    for (int p = 0; p < PRODUCERS; p++) {
        for (int i = 0; i < EACH; i++) {
            nodes[p][i].producer = p;
            nodes[p][i].number = i;
        }
        cr_assert_eq(pthread_create(&threads[p], NULL, produce, nodes[p]), 0);
    }
    for (int taken = 0; taken < PRODUCERS * EACH;)
        for (teff__link *link = teff__inbox_take(&inbox); link != NULL; link = link->next) {
            const numbered *node = teff__container_of(link, numbered, link);
            cr_assert_eq(node->number, next[node->producer]);
            next[node->producer]++;
            taken++;
        }
    for (int p = 0; p < PRODUCERS; p++) {
        cr_assert_eq(pthread_join(threads[p], NULL), 0);
        cr_assert_eq(next[p], EACH);
    }
    cr_assert_null(teff__inbox_take(&inbox));
}
