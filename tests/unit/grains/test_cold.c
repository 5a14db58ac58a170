/* SPDX-License-Identifier: MIT */
/* Cold grains, called first by everybody at once, on threads. */
#include "cold.h"

#include <criterion/criterion.h>

enum { SMALL = 200, FULL = 10000 };

Test(cold, a_few_grains_first_called_from_two_workers_at_once_are_activated_once_each)
{
    (void)activate_each_once(2, SMALL);
}

Test(cold, a_few_grains_first_called_from_four_workers_at_once_are_activated_once_each)
{
    (void)activate_each_once(4, SMALL);
}

Test(cold, ten_thousand_grains_first_called_from_two_workers_at_once_are_activated_once_each)
{
    (void)activate_each_once(2, FULL);
}

Test(cold, ten_thousand_grains_first_called_from_four_workers_at_once_are_activated_once_each)
{
    (void)activate_each_once(4, FULL);
}
