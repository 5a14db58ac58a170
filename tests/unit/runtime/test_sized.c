/* SPDX-License-Identifier: MIT */
/*
 * Structures that say their size: taken from programs of other versions, and given to them.
 */
#include "runtime/sized.h"

#include "teff/status.h"

#include <criterion/criterion.h>

#include <stdint.h>

/* As an old program knew it, as we do, and as a later one will. */
typedef struct layout {
    size_t struct_size;
    uint64_t first, second, third;
} layout;

enum { OLD = offsetof(layout, second), OURS = offsetof(layout, third), LATER = sizeof(layout) };

Test(sized, an_older_layout_is_taken_with_zeroes_for_the_rest)
{
    const layout from = { OLD, 1, 2, 3 };
    layout taken = { 9, 9, 9, 9 };
    cr_assert_eq(teff__sized_copy(&taken, OURS, OLD, &from), 0);
    cr_expect_eq(taken.first, 1);
    cr_expect_eq(taken.second, 0);
    cr_expect_eq(taken.third, 9); /* not ours to touch */
}

Test(sized, a_newer_layout_is_taken_where_it_asks_for_nothing_new)
{
    layout from = { LATER, 1, 2, 0 }, taken;
    cr_assert_eq(teff__sized_copy(&taken, OURS, OLD, &from), 0);
    cr_expect_eq(taken.second, 2);
    from.third = 1;
    cr_expect_eq(teff__sized_copy(&taken, OURS, OLD, &from), TEFF_EINVAL);
}

Test(sized, an_older_layout_is_given_no_more_than_it_has)
{
    const layout from = { OURS, 1, 2, 0 };
    layout given = { OLD, 9, 9, 9 };
    cr_assert_eq(teff__sized_give(&given, OURS, OLD, &from), 0);
    cr_expect_eq(given.first, 1);
    cr_expect_eq(given.second, 9);
}

Test(sized, a_newer_layout_is_given_zeroes_for_what_we_do_not_know)
{
    const layout from = { LATER, 1, 2, 7 };
    layout given = { LATER, 9, 9, 9 };
    cr_assert_eq(teff__sized_give(&given, OURS, OLD, &from), 0);
    cr_expect_eq(given.second, 2);
    cr_expect_eq(given.third, 0);
}

Test(sized, sizes_that_are_none_are_refused)
{
    static const size_t wrong[] = { 0, 1, OLD - 8, OLD + 1, 1 << 20 };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        const layout from = { wrong[i], 1, 2, 0 };
        layout given = { wrong[i], 9, 9, 9 }, taken = { 9, 9, 9, 9 };
        cr_expect_eq(teff__sized_copy(&taken, OURS, OLD, &from), TEFF_EINVAL);
        cr_expect_eq(teff__sized_give(&given, OURS, OLD, &from), TEFF_EINVAL);
        cr_expect_eq(given.first, 9);
        cr_expect_eq(taken.first, 9);
    }
}
