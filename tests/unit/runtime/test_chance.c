/* SPDX-License-Identifier: MIT */
#include "runtime/chance.h"

#include <criterion/criterion.h>

/* The published first numbers of splitmix64 from the seed 1234567. */
Test(chance, is_splitmix64)
{
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317),  UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),  UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821),
    };
    teff__chance chance;
    teff__chance_init(&chance, 1234567);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        cr_assert_eq(teff__chance_next(&chance), expected[i]);
}

Test(chance, same_seed_gives_the_same_numbers)
{
    teff__chance a, b;
    teff__chance_init(&a, 42);
    teff__chance_init(&b, 42);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(teff__chance_next(&a), teff__chance_next(&b));
}

Test(chance, other_seeds_give_other_numbers)
{
    teff__chance a, b;
    teff__chance_init(&a, 1);
    teff__chance_init(&b, 2);
    cr_assert_neq(teff__chance_next(&a), teff__chance_next(&b));
}

Test(chance, without_a_seed_no_two_are_alike)
{
    teff__chance a, b;
    teff__chance_init(&a, 0);
    teff__chance_init(&b, 0);
    cr_assert_neq(a.state, b.state);
    cr_assert_neq(teff__chance_next(&a), teff__chance_next(&b));
}

Test(chance, every_bit_is_set_about_half_the_time)
{
    teff__chance chance;
    int set[64] = { 0 };
    teff__chance_init(&chance, 7);
    for (int i = 0; i < 10000; i++) {
        uint64_t number = teff__chance_next(&chance);
        for (int bit = 0; bit < 64; bit++)
            set[bit] += (int)(number >> bit & 1);
    }
    for (int bit = 0; bit < 64; bit++) /* six times the standard deviation */
        cr_assert(set[bit] > 4700 && set[bit] < 5300, "bit %d: %d of 10000", bit, set[bit]);
}
