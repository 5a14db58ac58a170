/* SPDX-License-Identifier: MIT */
#include "messaging/bytes.h"

#include "messaging/message.h"
#include "runtime/silo.h"

#include "teff.h"

#include <criterion/criterion.h>
#include <string.h>

static teff_silo *silo;

static void begin(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options), .simulated = true };
    teff_assert(teff_silo_create(&options, &silo) == 0);
}

static void end(void)
{
    teff_assert(teff_silo_destroy(silo) == NULL);
}

TestSuite(bytes, .init = begin, .fini = end);

static uint32_t count_of(const teff_bytes *bytes)
{
    return teff__atomic_u32_load_relaxed(&bytes->count);
}

static uint64_t allocated(void)
{
    return teff__atomic_u64_load_relaxed(&teff__silo_memory(silo)->bytes);
}

Test(bytes, a_buffer_is_a_copy_with_one_count)
{
    char text[] = "hello";
    teff_bytes *bytes = NULL;
    cr_assert_eq(teff_bytes_create(silo, text, 5, &bytes), 0);
    text[0] = 'j';
    cr_assert_eq(teff_bytes_size(bytes), 5);
    cr_assert_eq(memcmp(teff_bytes_data(bytes), "hello", 5), 0);
    cr_assert_eq(count_of(bytes), 1);
    cr_assert_null(teff_bytes_unref(bytes));
}

Test(bytes, its_first_byte_is_aligned_to_16)
{
    for (size_t size = 1; size < 100; size += 7) {
        teff_bytes *bytes = NULL;
        char data[100] = { 0 };
        cr_assert_eq(teff_bytes_create(silo, data, size, &bytes), 0);
        cr_assert_eq((uintptr_t)teff_bytes_data(bytes) % 16, 0);
        teff_bytes_unref(bytes);
    }
}

Test(bytes, the_last_count_frees_it_and_no_other_does)
{
    const uint64_t before = allocated();
    teff_bytes *bytes = NULL;
    cr_assert_eq(teff_bytes_create(silo, "x", 1, &bytes), 0);
    cr_assert_eq(teff_bytes_ref(bytes), bytes);
    cr_assert_eq(count_of(bytes), 2);
    cr_assert_null(teff_bytes_unref(bytes));
    cr_assert_eq(count_of(bytes), 1);
    cr_assert_gt(allocated(), before);
    cr_assert_null(teff_bytes_unref(bytes));
    cr_assert_eq(allocated(), before);
}

Test(bytes, null_is_the_empty_buffer)
{
    cr_assert_null(teff_bytes_data(NULL));
    cr_assert_eq(teff_bytes_size(NULL), 0);
    cr_assert_null(teff_bytes_ref(NULL));
    cr_assert_null(teff_bytes_unref(NULL));
}

Test(bytes, of_size_0_there_is_none_to_free)
{
    const uint64_t before = allocated();
    teff_bytes *bytes = (teff_bytes *)&bytes;
    cr_assert_eq(teff_bytes_create(silo, "x", 0, &bytes), 0);
    cr_assert_null(bytes);
    bytes = (teff_bytes *)&bytes;
    cr_assert_eq(teff_bytes_create(silo, NULL, 0, &bytes), 0);
    cr_assert_null(bytes);
    cr_assert_eq(allocated(), before);
}

Test(bytes, wrong_arguments_leave_the_result_alone)
{
    teff_bytes *const untouched = (teff_bytes *)&untouched;
    teff_bytes *bytes = untouched;
    cr_assert_eq(teff_bytes_create(NULL, "x", 1, &bytes), TEFF_EINVAL);
    cr_assert_eq(teff_bytes_create(silo, NULL, 1, &bytes), TEFF_EINVAL);
    cr_assert_eq(teff_bytes_create(silo, "x", 1, NULL), TEFF_EINVAL);
    cr_assert_eq(bytes, untouched);
}

Test(bytes, a_size_that_no_memory_has_is_enomem_and_not_a_small_buffer)
{
    static const size_t sizes[] = { SIZE_MAX,      SIZE_MAX - 15, SIZE_MAX - 31,
                                    SIZE_MAX - 32, SIZE_MAX - 48, SIZE_MAX / 2 };
    teff_bytes *bytes = NULL;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        cr_assert_eq(teff_bytes_create(silo, "x", sizes[i], &bytes), TEFF_ENOMEM, "%zu", i);
    cr_assert_null(bytes);
}

Test(bytes, the_silos_limit_of_memory_holds_for_buffers)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .simulated = true,
                                        .memory_bytes_max = 100000 };
    static char data[200000];
    teff_silo *small = NULL;
    teff_bytes *bytes = NULL;
    cr_assert_eq(teff_silo_create(&options, &small), 0);
    cr_assert_eq(teff_bytes_create(small, data, sizeof(data), &bytes), TEFF_ENOMEM);
    cr_assert_null(bytes);
    cr_assert_eq(teff_bytes_create(small, data, 1000, &bytes), 0);
    teff_bytes_unref(bytes);
    cr_assert_null(teff_silo_destroy(small));
}

Test(bytes, a_silo_is_not_destroyed_before_its_last_buffer)
{
    teff_silo *other = NULL;
    const teff_silo_options options = { .struct_size = sizeof(options), .simulated = true };
    teff_bytes *bytes = NULL;
    cr_assert_eq(teff_silo_create(&options, &other), 0);
    cr_assert_eq(teff_bytes_create(other, "x", 1, &bytes), 0);
    cr_assert_eq(teff_silo_destroy(other), other);
    cr_assert_eq(teff_bytes_size(bytes), 1);
    teff_bytes_unref(bytes);
    cr_assert_null(teff_silo_destroy(other));
}

/* --- In messages --------------------------------------------------------------------------------- */

Test(bytes, a_message_holds_the_first_ones_of_its_value_and_gives_them_back_once)
{
    static const teff_method methods[] = { { "put", 24, 0, TEFF_ARG_BYTES(2) } };
    static const teff_interface of = { { "put" }, methods, 1 };
    teff__postbox postbox;
    teff_bytes *bytes[3];
    for (int i = 0; i < 3; i++)
        cr_assert_eq(teff_bytes_create(silo, "x", 1, &bytes[i]), 0);
    teff__postbox_init(&postbox, teff__silo_memory(silo), 10);
    teff__message *message = teff__postbox_take(&postbox, &of, 0);
    memcpy(teff__message_value(message), bytes, sizeof(bytes));
    teff__message_hold(message, &methods[0]);
    cr_assert_eq(count_of(bytes[0]), 2);
    cr_assert_eq(count_of(bytes[1]), 2);
    cr_assert_eq(count_of(bytes[2]), 1);
    teff__message_release(message);
    teff__message_release(message); /* it holds none any more */
    for (int i = 0; i < 3; i++)
        cr_assert_eq(count_of(bytes[i]), 1);

    teff__message_hold(message, &methods[0]);
    teff__postbox_drop(&postbox, message);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(count_of(bytes[i]), 1);
        teff_bytes_unref(bytes[i]);
    }
    teff__postbox_finish(&postbox);
}

Test(bytes, whoever_drops_a_foreign_message_gives_its_buffers_back_at_once)
{
    static const teff_method methods[] = { { "put", 8, 0, TEFF_ARG_BYTES(1) } };
    static const teff_interface of = { { "put" }, methods, 1 };
    teff__postbox home, foreign;
    teff_bytes *bytes = NULL;
    cr_assert_eq(teff_bytes_create(silo, "x", 1, &bytes), 0);
    teff__postbox_init(&home, teff__silo_memory(silo), 10);
    teff__postbox_init(&foreign, teff__silo_memory(silo), 10);
    for (int i = 0; i < 2; i++) {
        teff__message *message = teff__postbox_take(&home, &of, 0);
        memcpy(teff__message_value(message), &bytes, sizeof(bytes));
        teff__message_hold(message, &methods[0]);
        cr_assert_eq(count_of(bytes), 2);
        if (i == 0)
            teff__postbox_drop(&foreign, message);
        else
            teff__message_send_home(message);
        cr_assert_eq(count_of(bytes), 1);
    }
    teff__postbox_flush(&foreign);
    teff__postbox_finish(&foreign);
    teff__postbox_finish(&home);
    teff_bytes_unref(bytes);
}
