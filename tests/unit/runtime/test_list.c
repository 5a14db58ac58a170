/* SPDX-License-Identifier: MIT */
#include "runtime/list.h"

#include <criterion/criterion.h>

Test(queue, gives_links_in_the_order_pushed)
{
    teff__queue queue;
    teff__link a, b, c;
    teff__queue_init(&queue);
    teff__queue_push(&queue, &a);
    teff__queue_push(&queue, &b);
    teff__queue_push(&queue, &c);
    cr_assert_eq(teff__queue_pop(&queue), &a);
    cr_assert_eq(teff__queue_pop(&queue), &b);
    cr_assert_eq(teff__queue_pop(&queue), &c);
    cr_assert_null(teff__queue_pop(&queue));
}

Test(queue, pop_of_an_empty_one_is_null)
{
    teff__queue queue;
    teff__queue_init(&queue);
    cr_assert_null(teff__queue_pop(&queue));
    cr_assert_null(teff__queue_pop(&queue));
}

Test(queue, takes_links_again_after_it_ran_empty)
{
    teff__queue queue;
    teff__link a, b;
    teff__queue_init(&queue);
    teff__queue_push(&queue, &a);
    cr_assert_eq(teff__queue_pop(&queue), &a);
    teff__queue_push(&queue, &b);
    teff__queue_push(&queue, &a);
    cr_assert_eq(teff__queue_pop(&queue), &b);
    cr_assert_eq(teff__queue_pop(&queue), &a);
    cr_assert_null(teff__queue_pop(&queue));
}

Test(queue, append_moves_everything_to_the_end)
{
    teff__queue queue, from;
    teff__link a, b, c, d;
    teff__queue_init(&queue);
    teff__queue_init(&from);
    teff__queue_push(&queue, &a);
    teff__queue_push(&from, &b);
    teff__queue_push(&from, &c);
    teff__queue_append(&queue, &from);
    teff__queue_push(&queue, &d);
    cr_assert_null(teff__queue_pop(&from));
    cr_assert_eq(teff__queue_pop(&queue), &a);
    cr_assert_eq(teff__queue_pop(&queue), &b);
    cr_assert_eq(teff__queue_pop(&queue), &c);
    cr_assert_eq(teff__queue_pop(&queue), &d);
    cr_assert_null(teff__queue_pop(&queue));
}

Test(queue, append_to_an_empty_one_moves_everything)
{
    teff__queue queue, from;
    teff__link a, b;
    teff__queue_init(&queue);
    teff__queue_init(&from);
    teff__queue_push(&from, &a);
    teff__queue_append(&queue, &from);
    teff__queue_push(&queue, &b);
    cr_assert_eq(teff__queue_pop(&queue), &a);
    cr_assert_eq(teff__queue_pop(&queue), &b);
    cr_assert_null(teff__queue_pop(&queue));
}

Test(queue, append_of_an_empty_one_changes_nothing)
{
    teff__queue queue, from;
    teff__link a, b;
    teff__queue_init(&queue);
    teff__queue_init(&from);
    teff__queue_push(&queue, &a);
    teff__queue_append(&queue, &from);
    teff__queue_push(&queue, &b);
    cr_assert_eq(teff__queue_pop(&queue), &a);
    cr_assert_eq(teff__queue_pop(&queue), &b);
    cr_assert_null(teff__queue_pop(&queue));
}

Test(ring, is_empty_until_something_is_pushed)
{
    teff__ring head, a;
    teff__ring_init(&head);
    cr_assert(teff__ring_empty(&head));
    teff__ring_push_back(&head, &a);
    cr_assert_not(teff__ring_empty(&head));
    teff__ring_remove(&a);
    cr_assert(teff__ring_empty(&head));
}

Test(ring, goes_round_in_the_order_pushed_both_ways)
{
    teff__ring head, a, b, c;
    teff__ring_init(&head);
    teff__ring_push_back(&head, &a);
    teff__ring_push_back(&head, &b);
    teff__ring_push_back(&head, &c);
    cr_assert(head.next == &a && a.next == &b && b.next == &c && c.next == &head);
    cr_assert(head.previous == &c && c.previous == &b && b.previous == &a && a.previous == &head);
}

Test(ring, removal_from_the_middle_and_both_ends_joins_the_rest)
{
    teff__ring head, a, b, c, d;
    teff__ring_init(&head);
    teff__ring_push_back(&head, &a);
    teff__ring_push_back(&head, &b);
    teff__ring_push_back(&head, &c);
    teff__ring_push_back(&head, &d);
    teff__ring_remove(&b);
    cr_assert(a.next == &c && c.previous == &a);
    teff__ring_remove(&a);
    cr_assert(head.next == &c && c.previous == &head);
    teff__ring_remove(&d);
    cr_assert(c.next == &head && head.previous == &c);
}

Test(ring, an_unlinked_node_may_be_removed_again)
{
    teff__ring head, a, b;
    teff__ring_init(&head);
    teff__ring_push_back(&head, &a);
    teff__ring_push_back(&head, &b);
    teff__ring_remove(&a);
    cr_assert(a.next == &a && a.previous == &a);
    teff__ring_remove(&a);
    cr_assert(head.next == &b && b.next == &head);
}
