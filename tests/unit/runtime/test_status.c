/* SPDX-License-Identifier: MIT */
#include "teff/status.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <uv.h>

Test(status, numbers_are_the_published_ones)
{
    cr_assert_eq(TEFF_OK, 0);
    cr_assert_eq(TEFF_EINVAL, -10001);
    cr_assert_eq(TEFF_EINVALIDSTATE, -10002);
    cr_assert_eq(TEFF_ENOMEM, -10003);
    cr_assert_eq(TEFF_ELIMIT, -10004);
    cr_assert_eq(TEFF_EWOULDBLOCK, -10005);
    cr_assert_eq(TEFF_ETIMEDOUT, -10006);
    cr_assert_eq(TEFF_ECANCELED, -10007);
    cr_assert_eq(TEFF_EOVERLOADED, -10008);
    cr_assert_eq(TEFF_EREJECTED, -10009);
    cr_assert_eq(TEFF_EUNAVAILABLE, -10010);
    cr_assert_eq(TEFF_EDEADLOCK, -10011);
    cr_assert_eq(TEFF_EGONE, -10012);
    cr_assert_eq(TEFF_ESTUCK, -10013);
}

Test(status, name_is_the_constant_as_written)
{
    cr_assert_str_eq(teff_status_name(0), "TEFF_OK");
    cr_assert_str_eq(teff_status_name(-10001), "TEFF_EINVAL");
    cr_assert_str_eq(teff_status_name(-10006), "TEFF_ETIMEDOUT");
    cr_assert_str_eq(teff_status_name(-10013), "TEFF_ESTUCK");
}

Test(status, name_and_text_of_a_libuv_code_are_libuvs_own)
{
    cr_assert_str_eq(teff_status_name(UV_EMFILE), "EMFILE");
    cr_assert_str_eq(teff_status_text(UV_EMFILE), "too many open files");
    cr_assert_str_eq(teff_status_name(UV_EOF), "EOF");
    cr_assert_str_eq(teff_status_text(UV_EOF), "end of file");
}

Test(status, text_says_what_happened)
{
    cr_assert_str_eq(teff_status_text(TEFF_OK), "done");
    cr_assert_str_eq(teff_status_text(TEFF_EOVERLOADED),
                     "too much is waiting already: slow down, and try again later");
}

Test(status, positive_codes_are_the_grains_own)
{
    cr_assert_str_eq(teff_status_text(1), "the grain said no (a code of its own interface)");
    cr_assert_str_eq(teff_status_text(INT_MAX), "the grain said no (a code of its own interface)");
    cr_assert_str_eq(teff_status_name(1), "(grain)");
}

Test(status, numbers_in_no_table_are_unknown)
{
    static const int numbers[] = { -9999, -10000, -10014, INT_MIN };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        cr_assert_str_eq(teff_status_name(numbers[i]), "(unknown)");
        cr_assert_str_eq(teff_status_text(numbers[i]),
                         "no status of teff's or libuv's: see where it came from");
    }
}

Test(status, every_number_has_a_name_and_a_text)
{
    for (int status = -20000; status <= 20000; status++) {
        cr_assert(teff_status_name(status) != NULL && *teff_status_name(status) != '\0');
        cr_assert(teff_status_text(status) != NULL && *teff_status_text(status) != '\0');
    }
}
