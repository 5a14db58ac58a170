/* SPDX-License-Identifier: MIT */
/*
 * The silo's options: defaults, ranges, and layouts of programs that were compiled earlier.
 */
#include "runtime/options.h"

#include "teff.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)
#define DAY    (86400 * SECOND)

static teff_silo_options blank(void)
{
    return (teff_silo_options){ .struct_size = sizeof(teff_silo_options), .simulated = true };
}

static int read_options(teff_silo_options options, teff_silo_options *ret)
{
    teff_silo_options unseen;
    return teff__options_read(ret != NULL ? ret : &unseen, &options, 64);
}

static void expect_defaults(const teff_silo_options *got)
{
    cr_expect_eq(got->response_timeout_ns, 30 * SECOND);
    cr_expect_eq(got->stop_timeout_ns, 10 * SECOND);
    cr_expect_eq(got->long_call_ns, 20 * SECOND);
    cr_expect_eq(got->mailbox_max, 65536);
    cr_expect_eq(got->routes_max, 1000000);
    cr_expect_eq(got->placement, TEFF_PLACE_CALLER);
    cr_expect_eq(got->routes_ttl_ns, 240 * SECOND);
    cr_expect_eq(got->idle_ns, 900 * SECOND);
    cr_expect_eq(got->idle_quantum_ns, 60 * SECOND);
    cr_expect_eq(got->activate_timeout_ns, 30 * SECOND);
    cr_expect_eq(got->deactivate_timeout_ns, 30 * SECOND);
    cr_expect_eq(got->stuck_ns, 7200 * SECOND);
    cr_expect_eq(got->activations_max, 0);
    cr_expect_eq(got->mailbox_warn, 0);
    cr_expect_eq(got->shed_at_percent, 0);
    cr_expect_eq(got->shed_to_percent, 75);
    cr_expect_eq(got->shed_period_ns, 5 * SECOND);
    cr_expect(got->notice == NULL);
}

Test(options, nothing_asked_is_the_defaults)
{
    teff_silo_options got;
    cr_assert_eq(read_options(blank(), &got), 0);
    expect_defaults(&got);
    cr_expect_eq(got.workers, 1); /* simulated */
    cr_assert_eq(teff__options_read(&got, NULL, 1), 0);
    expect_defaults(&got);
    cr_expect_eq(got.workers, 1); /* as many as there are cores, and no more than that */
}

/* Where each time stands. */
static const size_t times[] = {
    offsetof(teff_silo_options, response_timeout_ns),
    offsetof(teff_silo_options, stop_timeout_ns),
    offsetof(teff_silo_options, long_call_ns),
    offsetof(teff_silo_options, routes_ttl_ns),
    offsetof(teff_silo_options, idle_ns),
    offsetof(teff_silo_options, idle_quantum_ns),
    offsetof(teff_silo_options, activate_timeout_ns),
    offsetof(teff_silo_options, deactivate_timeout_ns),
    offsetof(teff_silo_options, stuck_ns),
    offsetof(teff_silo_options, shed_period_ns),
};
enum { TIMES = sizeof(times) / sizeof(*times) };

static int64_t *time_at(teff_silo_options *options, size_t offset)
{
    return (int64_t *)(void *)((char *)options + offset);
}

Test(options, no_time_is_negative)
{
    for (unsigned i = 0; i < TIMES; i++) {
        teff_silo_options options = blank();
        *time_at(&options, times[i]) = -1;
        cr_expect_eq(read_options(options, NULL), TEFF_EINVAL, "the time at %zu", times[i]);
        *time_at(&options, times[i]) = INT64_MIN;
        cr_expect_eq(read_options(options, NULL), TEFF_EINVAL, "the time at %zu", times[i]);
    }
}

Test(options, a_time_may_be_all_there_is_and_a_sum_with_a_clocks_does_not_overflow)
{
    static const int64_t century_ns = 36500 * DAY;
    for (unsigned i = 0; i < TIMES; i++) {
        teff_silo_options options = blank(), got;
        *time_at(&options, times[i]) = INT64_MAX;
        cr_assert_eq(read_options(options, &got), 0);
        const int64_t kept_ns = *time_at(&got, times[i]);
        const bool age = times[i] == offsetof(teff_silo_options, idle_ns) ||
                         times[i] == offsetof(teff_silo_options, routes_ttl_ns);
        cr_expect_gt(kept_ns, century_ns);
        cr_expect_eq(kept_ns == INT64_MAX, age, "the time at %zu", times[i]);
    }
}

Test(options, ages_that_marks_cannot_tell_are_never)
{
    teff_silo_options options = blank(), got;
    options.idle_ns = 30 * DAY;
    options.routes_ttl_ns = 10 * DAY;
    cr_assert_eq(read_options(options, &got), 0);
    cr_expect_eq(got.idle_ns, 30 * DAY);
    cr_expect_eq(got.routes_ttl_ns, 10 * DAY);
    options.idle_ns++;
    options.routes_ttl_ns++;
    cr_assert_eq(read_options(options, &got), 0);
    cr_expect_eq(got.idle_ns, INT64_MAX);
    cr_expect_eq(got.routes_ttl_ns, INT64_MAX);
}

Test(options, the_idle_quantum_is_a_millisecond_at_least)
{
    teff_silo_options options = blank(), got;
    options.idle_quantum_ns = 999999;
    cr_expect_eq(read_options(options, NULL), TEFF_EINVAL);
    options.idle_quantum_ns = 1000000;
    options.idle_ns = 1; /* an age below it is taken, and rounded up where it is kept */
    cr_expect_eq(read_options(options, &got), 0);
    cr_expect_eq(got.idle_quantum_ns, 1000000);
    cr_expect_eq(got.idle_ns, 1);
}

Test(options, a_cache_of_routes_has_room_for_three_and_numbers_for_them)
{
    static const struct {
        uint32_t asked;
        int status;
        uint32_t kept;
    } rows[] = {
        { 1, TEFF_EINVAL, 0 },     { 2, TEFF_EINVAL, 0 },        { 3, 0, 3 },
        { 16777215, 0, 16777215 }, { 16777216, TEFF_ELIMIT, 0 }, { UINT32_MAX - 1, TEFF_ELIMIT, 0 },
        { TEFF_ROUTES_NONE, 0, 0 }
    };
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        teff_silo_options options = blank(), got;
        options.routes_max = rows[i].asked;
        cr_expect_eq(read_options(options, &got), rows[i].status, "%u", rows[i].asked);
        if (rows[i].status == 0)
            cr_expect_eq(got.routes_max, rows[i].kept);
    }
}

Test(options, an_unknown_placement_is_refused)
{
    teff_silo_options options = blank(), got;
    options.placement = (teff_placement)4;
    cr_expect_eq(read_options(options, NULL), TEFF_EINVAL);
    options.placement = (teff_placement)-1;
    cr_expect_eq(read_options(options, NULL), TEFF_EINVAL);
    options.placement = TEFF_PLACE_LEAST_LOADED;
    cr_assert_eq(read_options(options, &got), 0);
    cr_expect_eq(got.placement, TEFF_PLACE_LEAST_LOADED);
}

Test(options, shedding_ends_below_where_it_begins)
{
    static const struct {
        uint32_t at, to;
        int status;
    } rows[] = { { 80, 75, 0 },
                 { 80, 79, 0 },
                 { 80, 80, TEFF_EINVAL },
                 { 76, 0, 0 },
                 { 1, 1, TEFF_EINVAL },
                 { 75, 0, TEFF_EINVAL },
                 { 100, 99, 0 },
                 { 101, 75, TEFF_EINVAL },
                 { 80, 101, TEFF_EINVAL },
                 { UINT32_MAX, 1, TEFF_EINVAL },
                 { 0, 100, 0 },
                 { 0, 101, TEFF_EINVAL } };
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        teff_silo_options options = blank();
        options.shed_at_percent = rows[i].at;
        options.shed_to_percent = rows[i].to;
        cr_expect_eq(read_options(options, NULL), rows[i].status, "%u to %u", rows[i].at,
                     rows[i].to);
    }
}

/* --- Layouts of other versions ------------------------------------------------------------- */

Test(options, a_program_of_each_earlier_layout_gets_what_it_asks_for_and_defaults_for_the_rest)
{
    static const size_t sizes[] = { offsetof(teff_silo_options, response_timeout_ns),
                                    offsetof(teff_silo_options, long_call_ns),
                                    offsetof(teff_silo_options, notice) };
    for (unsigned i = 0; i < 3; i++) {
        /* Exactly its size, so that the address sanitizer sees a read past it. */
        const teff_silo_options asked = { .struct_size = sizes[i], .simulated = true, .seed = 42 };
        teff_silo_options *old = malloc(sizes[i]), got;
        teff_silo *silo = NULL;
        memcpy(old, &asked, sizes[i]);
        cr_assert_eq(teff__options_read(&got, old, 64), 0);
        expect_defaults(&got);
        cr_expect_eq(got.seed, 42);
        cr_assert_eq(teff_silo_create(old, &silo), 0);
        cr_assert_null(teff_silo_destroy(silo));
        free(old);
    }
}

Test(options, what_an_earlier_layout_has_behind_its_end_is_not_looked_at)
{
    teff_silo_options old, got;
    memset(&old, 0xff, sizeof(old));
    const teff_silo_options asked = { .struct_size = offsetof(teff_silo_options, notice),
                                      .simulated = true,
                                      .mailbox_max = 7 };
    memcpy(&old, &asked, asked.struct_size);
    cr_assert_eq(teff__options_read(&got, &old, 64), 0);
    cr_expect_eq(got.mailbox_max, 7);
    cr_expect_eq(got.mailbox_warn, 0);
    cr_expect_eq(got.routes_max, 1000000);
}

Test(options, the_members_behind_the_earlier_layouts_stand_where_they_stood)
{
    /* Of a program that was compiled against this header, on a machine of 64 bits. */
    cr_expect_eq(offsetof(teff_silo_options, response_timeout_ns), 72);
    cr_expect_eq(offsetof(teff_silo_options, long_call_ns), 112);
    cr_expect_eq(offsetof(teff_silo_options, notice), 128);
    cr_expect_eq(offsetof(teff_silo_options, routes_max), 136);
    cr_expect_eq(offsetof(teff_silo_options, placement), 140);
    cr_expect_eq(offsetof(teff_silo_options, activations_max), 192);
    cr_expect_eq(offsetof(teff_silo_options, shed_period_ns), 216);
    cr_expect_eq(sizeof(teff_silo_options), 224);
}
