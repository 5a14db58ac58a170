/* SPDX-License-Identifier: MIT */
/* Messages: their sizes, what is copied into them, and their way home. */
#include "messaging/message.h"

#include <criterion/criterion.h>

static teff__memory memory;
static teff__postbox box, other, third;

enum { MESSAGES_MAX = 3 }; /* so that a pool is empty soon */

static void begin(void)
{
    teff__memory_init(&memory, 0);
    teff__postbox_init(&box, &memory, MESSAGES_MAX);
    teff__postbox_init(&other, &memory, MESSAGES_MAX);
    teff__postbox_init(&third, &memory, MESSAGES_MAX);
}

/* teff_assert: Criterion's own asserts count for nothing after the test. */
static void end(void)
{
    teff__postbox_flush(&box);
    teff__postbox_flush(&other);
    teff__postbox_flush(&third);
    teff__postbox_finish(&box);
    teff__postbox_finish(&other);
    teff__postbox_finish(&third);
    teff_assert(teff__atomic_u64_load_relaxed(&memory.bytes) == 0);
}

TestSuite(message, .init = begin, .fini = end);

static const teff_method methods[] = {
    { "small", 24, 8, 0 },
    { "medium", 200, 100, 0 },
    { "large", 1024, 1024, 0 },
};
static const teff_interface sizes = { { "sizes" }, methods, 3 };

Test(message, its_class_is_the_smallest_that_holds_argument_and_result)
{
    cr_assert_eq(teff__message_class(0, 0), 0);
    cr_assert_eq(teff__message_class(64, 64), 0);
    cr_assert_eq(teff__message_class(128, 0), 0);
    cr_assert_eq(teff__message_class(65, 64), 1);
    cr_assert_eq(teff__message_class(1, 113), 1); /* each part takes whole 16 bytes */
    cr_assert_eq(teff__message_class(256, 256), 1);
    cr_assert_eq(teff__message_class(257, 256), 2);
    cr_assert_eq(teff__message_class(1024, 1024), 2);
}

Test(message, one_taken_for_a_method_has_room_for_both_its_values)
{
    static const uint32_t bytes[] = { 256, 640, 2304 };
    for (uint32_t number = 0; number < 3; number++) {
        teff__message *message = teff__postbox_take(&box, &sizes, number);
        cr_assert_not_null(message);
        cr_assert_eq(message->size_class, number);
        cr_assert_eq(teff__message_bytes(message->size_class), bytes[number]);
        cr_assert_eq(message->value, 64);
        cr_assert_eq(message->method, number);
        cr_assert_eq(message->of, &sizes);
        cr_assert_eq(message->kind, TEFF__MESSAGE_REQUEST);
        cr_assert_eq(message->flags, 0);
        cr_assert_eq(message->hops, 0);
        teff__postbox_drop(&box, message);
    }
}

Test(message, a_value_of_any_size_is_copied_whole_and_nothing_beside_it)
{
    static unsigned char from[1024], to[64 + 1024 + 64];
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(i * 7 + i / 256 + 1);
    for (size_t size = 0; size <= 1024; size++) {
        memset(to, 0xee, sizeof(to));
        teff__value_copy(to + 64, from, size);
        for (size_t i = 0; i < sizeof(to); i++) {
            const bool inside = i >= 64 && i < 64 + size;
            const unsigned char expected =
                inside ? (unsigned char)((i - 64) * 7 + (i - 64) / 256 + 1) : 0xee;
            cr_assert_eq(to[i], expected, "size %zu, byte %zu", size, i);
        }
    }
}

Test(message, clearing_a_result_of_any_size_takes_whole_16_bytes_and_no_more)
{
    static unsigned char to[64 + 1024 + 64];
    for (size_t size = 0; size <= 1024; size++) {
        const size_t blocks = (size + 15) / 16 * 16;
        memset(to, 0xee, sizeof(to));
        teff__value_clear(to + 64, size);
        for (size_t i = 0; i < sizeof(to); i++)
            cr_assert_eq(to[i], i >= 64 && i < 64 + blocks ? 0 : 0xee, "size %zu, byte %zu", size,
                         i);
    }
}

Test(message, a_text_that_fits_is_kept_whole)
{
    teff__message *message = teff__postbox_take(&box, &sizes, 0);
    cr_assert_null(teff__message_text(message));
    teff__message_set_text(message, "the room is full");
    cr_assert_str_eq(teff__message_text(message), "the room is full");
    teff__message_set_text(message, "");
    cr_assert_str_eq(teff__message_text(message), "");
    teff__postbox_drop(&box, message);
}

Test(message, a_text_is_cut_to_what_its_class_has_room_for)
{
    static const size_t lengths[] = { 127, 511, 2175 };
    static char text[4000];
    static _Alignas(TEFF__CACHE_LINE) unsigned char place[2304 + 64];
    memset(text, 'x', sizeof(text) - 1);
    for (uint8_t size_class = 0; size_class < 3; size_class++) {
        const size_t bytes = teff__message_bytes(size_class);
        memset(place, 0, sizeof(place));
        memset(place + bytes, 0xee, 64);
        teff__message *message = (teff__message *)(void *)place;
        message->size_class = size_class;
        teff__message_set_text(message, text);
        cr_assert_eq(strlen(teff__message_text(message)), lengths[size_class]);
        for (size_t i = bytes; i < bytes + 64; i++)
            cr_assert_eq(place[i], 0xee);
    }
}

Test(message, answering_turns_the_request_round_in_place)
{
    teff__message *message = teff__postbox_take(&box, &sizes, 0);
    message->correlation = 77;
    teff__message_answer(message, -3, 4711);
    cr_assert_eq(message->kind, TEFF__MESSAGE_RESPONSE);
    cr_assert_eq(message->code, -3);
    cr_assert_eq(message->address, 4711);
    cr_assert_eq(message->correlation, 77);
    cr_assert_eq(message->home, &box.pools[0]);
    teff__postbox_drop(&box, message);
}

/* Takes all three that the pool may make; then there is none. */
static void take_all(teff__postbox *postbox, uint32_t number, teff__message *ret[3])
{
    for (int i = 0; i < 3; i++) {
        ret[i] = teff__postbox_take(postbox, &sizes, number);
        cr_assert_not_null(ret[i]);
    }
    cr_assert_null(teff__postbox_take(postbox, &sizes, number));
}

Test(message, dropped_at_home_it_is_there_at_once)
{
    teff__message *taken[3];
    take_all(&box, 0, taken);
    teff__postbox_drop(&box, taken[1]);
    cr_assert_eq(teff__postbox_take(&box, &sizes, 0), taken[1]);
    for (int i = 0; i < 3; i++)
        teff__postbox_drop(&box, taken[i]);
}

Test(message, dropped_elsewhere_it_goes_home_in_a_chain)
{
    teff__message *taken[3], *again[3];
    take_all(&box, 0, taken);
    for (int i = 0; i < 3; i++)
        teff__postbox_drop(&other, taken[i]);
    cr_assert_null(teff__postbox_take(&box, &sizes, 0)); /* held back, until … */
    teff__postbox_flush(&other);
    take_all(&box, 0, again);    /* … all three are home */
    teff__postbox_flush(&other); /* nothing is sent twice */
    for (int i = 0; i < 3; i++)
        teff__postbox_drop(&box, again[i]);
}

Test(message, a_chain_goes_home_when_another_homes_turn_comes)
{
    teff__message *taken[3], *one = teff__postbox_take(&third, &sizes, 0);
    take_all(&box, 0, taken);
    for (int i = 0; i < 3; i++)
        teff__postbox_drop(&other, taken[i]);
    teff__postbox_drop(&other, one);
    take_all(&box, 0, taken);
    for (int i = 0; i < 3; i++)
        teff__postbox_drop(&box, taken[i]);
}

Test(message, each_class_is_a_home_of_its_own)
{
    teff__message *small[3], *large[3];
    take_all(&box, 0, small);
    take_all(&box, 2, large);
    for (int i = 0; i < 3; i++) {
        teff__postbox_drop(&other, small[i]);
        teff__postbox_drop(&other, large[i]);
    }
    teff__postbox_flush(&other);
    take_all(&box, 0, small);
    take_all(&box, 2, large);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(small[i]->size_class, 0);
        cr_assert_eq(large[i]->size_class, 2);
        teff__postbox_drop(&box, small[i]);
        teff__postbox_drop(&box, large[i]);
    }
}

Test(message, one_that_begins_an_object_of_its_own_is_freed_by_whoever_drops_it)
{
    enum { BYTES = TEFF__MESSAGE_HEADER + 100 };
    teff__message *message = teff__memory_alloc(&memory, BYTES);
    message->size_class = TEFF__MESSAGE_HEAP;
    message->heap_bytes = BYTES;
    cr_assert_eq(teff__atomic_u64_load_relaxed(&memory.bytes), 164);
    teff__postbox_drop(&other, message);
    cr_assert_eq(teff__atomic_u64_load_relaxed(&memory.bytes), 0);
}

Test(message, without_memory_there_is_none_and_later_there_is)
{
    teff__memory_fail_at(&memory, 1);
    cr_assert_null(teff__postbox_take(&box, &sizes, 1));
    teff__message *message = teff__postbox_take(&box, &sizes, 1);
    cr_assert_not_null(message);
    teff__postbox_drop(&box, message);
}
