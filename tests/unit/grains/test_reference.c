/* SPDX-License-Identifier: MIT */
/* References: plain values of 64 bytes, and what makes two of them the same grain. */
#include "teff/reference.h"

#include "teff/interface.h"

#include <criterion/criterion.h>
#include <string.h>

#define LAMP_METHODS(METHOD, SELF) METHOD(SELF, light, teff_none, teff_none, 0)
TEFF_INTERFACE(lamp, LAMP_METHODS);
TEFF_INTERFACE_DEFINE(lamp, LAMP_METHODS);

Test(reference, it_has_64_bytes_and_so_has_a_typed_one)
{
    cr_assert_eq(sizeof(teff_ref), 64);
    cr_assert_eq(sizeof(lamp_ref), 64);
}

Test(reference, a_typed_one_names_the_type_called_as_its_interface)
{
    lamp_ref lamp = lamp_at(5);
    teff_key five = teff_key_u64(5);
    cr_assert_str_eq(lamp.ref.type->text, "lamp");
    cr_assert_eq(lamp.ref.route, 0);
    cr_assert_arr_eq(&lamp.ref.key, &five, sizeof(five));
}

Test(reference, a_text_key_that_is_too_long_leaves_the_reference_untouched)
{
    lamp_ref lamp, before;
    memset(&lamp, 0x5a, sizeof(lamp));
    before = lamp;
    cr_assert_lt(lamp_at_text("01234567890123456789012345678901234567890123456", 47, &lamp), 0);
    cr_assert_arr_eq(&lamp, &before, sizeof(lamp));
    cr_assert_eq(lamp_at_text("hall", 4, &lamp), 0);
    cr_assert_eq(lamp.ref.key.size, 4);
    cr_assert_str_eq(lamp.ref.type->text, "lamp");
}

Test(reference, the_name_counts_as_text_and_the_route_not_at_all)
{
    char text[] = "lamp";
    const teff_name copy = { text };
    lamp_ref a = lamp_at(1), b = lamp_of(&copy, teff_key_u64(1));
    a.ref.route = 17;
    cr_assert_neq(a.ref.type, b.ref.type);
    cr_assert(teff_ref_equal(&a.ref, &b.ref));
    cr_assert(teff_ref_equal(&b.ref, &a.ref));
    cr_assert(teff_ref_equal(&a.ref, &a.ref));
}

Test(reference, another_name_or_key_is_another_grain)
{
    const teff_name lamps = { "lamps" };
    teff_ref one = lamp_at(1).ref, two = lamp_at(2).ref;
    teff_ref other = lamp_of(&lamps, teff_key_u64(1)).ref;
    teff_ref wide = lamp_of(&lamp_interface.name, teff_key_u128(0, 1)).ref;
    cr_assert_not(teff_ref_equal(&one, &two));
    cr_assert_not(teff_ref_equal(&one, &other));
    cr_assert_not(teff_ref_equal(&one, &wide));
}

Test(reference, a_zeroed_one_equals_only_another)
{
    const teff_name nameless = { NULL };
    teff_ref zero = { 0 }, also = { 0 }, lamp = lamp_at(0).ref, half = { 0 };
    half.type = &nameless;
    cr_assert(teff_ref_equal(&zero, &also));
    cr_assert_not(teff_ref_equal(&zero, &lamp));
    cr_assert_not(teff_ref_equal(&lamp, &zero));
    half.key = lamp.key;
    cr_assert_not(teff_ref_equal(&half, &lamp));
}
