/* SPDX-License-Identifier: MIT */
/* Callers: the options of the next call, the deadline that comes of them, and the last outcome. */
#include "messaging/caller.h"

#include "runtime/worker.h"

#include "teff/status.h"

#include <criterion/criterion.h>

#define MS     INT64_C(1000000)
#define SECOND INT64_C(1000000000)

static teff__clock clock_now; /* at 5 s */
static const teff__call_defaults defaults = { 30 * SECOND, &clock_now };
static teff__worker worker; /* on whose thread the caller runs */
static teff_caller caller;

static const teff_method plain = { "plain", 8, 8, 0 };
static const teff_method half = { "half", 8, 8, TEFF_TIMEOUT_MS(500) };
static const teff_method brief = { "brief", 8, 8, TEFF_TIMEOUT_MS(50) | TEFF_READ_ONLY };
static const teff_method patient = { "patient", 8, 8, TEFF_TIMEOUT_MS(UINT32_MAX) };

/* What a worker cached a while ago. */
static const int64_t cached_ns = 4 * SECOND;

static void begin(void)
{
    teff__clock_init(&clock_now, true);
    clock_now.simulated_ns = 5 * SECOND;
    worker.clock = &clock_now;
    worker.running = true;
    teff__atomic_u64_store_relaxed(&worker.thread, teff__thread_self());
    teff__caller_init(&caller, TEFF__CALLER_TURN, &worker, INT64_MAX);
}

TestSuite(caller, .init = begin);

static void expect(const teff_method *method, int64_t deadline_ns, uint32_t flags)
{
    int64_t found_ns = 0;
    uint32_t found = 4711;
    cr_assert_eq(teff__caller_deadline(&caller, method, cached_ns, &defaults, &found_ns, &found),
                 0);
    cr_assert_eq(found_ns, deadline_ns, "%lld", (long long)found_ns);
    cr_assert_eq(found, flags);
}

static void expect_invalid(void)
{
    int64_t deadline_ns = 1;
    uint32_t flags = 1;
    cr_assert_eq(teff__caller_deadline(&caller, &plain, cached_ns, &defaults, &deadline_ns, &flags),
                 TEFF_EINVAL);
    cr_assert_eq(deadline_ns, 1);
    expect(&plain, 34 * SECOND, TEFF__CALLBACK_DEFAULT); /* used up */
}

Test(caller, a_call_that_says_nothing_has_the_silos_timeout)
{
    expect(&plain, 34 * SECOND, TEFF__CALLBACK_DEFAULT);
}

Test(caller, a_rows_timeout_comes_before_the_silos)
{
    expect(&half, cached_ns + 500 * MS, 0);
    expect(&patient, cached_ns + INT64_C(4294967295) * MS, 0);
}

Test(caller, a_short_timeout_is_measured_from_the_clock_not_from_a_cached_time)
{
    expect(&brief, 5 * SECOND + 50 * MS, 0);
    teff_within(&caller, 99999999);
    expect(&plain, 5 * SECOND + 99999999, 0);
    teff_within(&caller, 100 * MS);
    expect(&plain, cached_ns + 100 * MS, 0);
}

Test(caller, a_calls_own_timeout_comes_before_the_rows_and_holds_once)
{
    cr_assert_eq(teff_within(&caller, 2 * SECOND), &caller);
    expect(&half, 6 * SECOND, 0);
    expect(&half, cached_ns + 500 * MS, 0);

    const teff_call_options options = { .struct_size = sizeof(options), .timeout_ns = 3 * SECOND };
    cr_assert_eq(teff_with(&caller, &options), &caller);
    expect(&half, 7 * SECOND, 0);
    expect(&half, cached_ns + 500 * MS, 0);
}

Test(caller, options_without_a_timeout_leave_the_rows_and_the_silos)
{
    const teff_call_options options = { .struct_size = sizeof(options) };
    teff_with(&caller, &options);
    expect(&half, cached_ns + 500 * MS, 0);
    teff_with(&caller, &options);
    expect(&plain, 34 * SECOND, TEFF__CALLBACK_DEFAULT);
}

Test(caller, the_options_given_last_are_the_ones_that_hold)
{
    const teff_call_options options = { .struct_size = sizeof(options) };
    teff_within(&caller, SECOND);
    teff_within(&caller, 2 * SECOND);
    expect(&plain, 6 * SECOND, 0);
    teff_within(&caller, SECOND);
    teff_with(&caller, &options);
    expect(&plain, 34 * SECOND, TEFF__CALLBACK_DEFAULT);
}

Test(caller, another_timeout_leaves_what_else_was_asked_for)
{
    const teff_call_options detached = { .struct_size = sizeof(detached),
                                         .timeout_ns = SECOND,
                                         .detached = true };
    caller.deadline_ns = 10 * SECOND;
    teff_within(teff_with(&caller, &detached), 60 * SECOND);
    expect(&plain, 64 * SECOND, 0);
    teff_within(&caller, 60 * SECOND);
    expect(&plain, 10 * SECOND, 0);
}

Test(caller, what_was_invalid_is_not_mended_by_another_timeout)
{
    teff_within(teff_with(&caller, NULL), SECOND);
    expect_invalid();
    teff_within(teff_within(&caller, -1), SECOND);
    expect_invalid();
}

Test(caller, options_of_a_newer_layout_may_ask_for_what_is_known)
{
    struct {
        teff_call_options options;
        uint64_t newer;
    } later = { .options = { .struct_size = sizeof(later), .timeout_ns = SECOND } };
    teff_with(&caller, &later.options);
    expect(&plain, 5 * SECOND, 0);
    later.newer = 1;
    teff_with(&caller, &later.options);
    expect_invalid();
}

Test(caller, options_of_the_first_layout_ask_for_what_there_was)
{
    struct {
        _Alignas(8) char first[32]; /* size, timeout, source, detached */
        char behind[sizeof(teff_call_options) - 32];
    } old;
    const teff_call_options asked = { .struct_size = 32, .timeout_ns = SECOND };
    cr_assert_eq(sizeof(teff_call_options), 48);
    memcpy(&old, &asked, sizeof(old));
    memset(old.behind, 0xff, sizeof(old.behind)); /* not theirs: a source would be waited for */
    int token = 0;
    teff_cancel *const cancel = (teff_cancel *)&token;
    memcpy(old.first + 16, &cancel, sizeof(cancel));
    teff_with(&caller, (const teff_call_options *)(const void *)&old);
    cr_assert_eq(caller.next, TEFF__NEXT_TIMEOUT | TEFF__NEXT_CANCEL);
    expect(&plain, 5 * SECOND, 0);
}

Test(caller, options_of_the_second_layout_say_nothing_of_a_place)
{
    union {
        teff_call_options options;
        char bytes[sizeof(teff_call_options)];
    } old = { .options = { .struct_size = 40, .detached = true } };
    memset(old.bytes + 40, 0xff, sizeof(old) - 40);
    teff_with(&caller, &old.options);
    cr_assert_eq(caller.next, TEFF__NEXT_DETACHED);
}

Test(caller, a_place_waits_for_the_next_call_and_stays_beside_another_timeout)
{
    static const uint32_t asked[] = { 1, 64, 65535, 65536, UINT32_MAX };
    static const uint16_t noted[] = { 1, 64, 65535, 65535, 65535 }; /* no silo has so many */
    for (int i = 0; i < 5; i++) {
        teff_with(&caller, &(teff_call_options){ .struct_size = sizeof(teff_call_options),
                                                 .place = asked[i] });
        teff_within(&caller, SECOND);
        cr_assert_eq(caller.next, TEFF__NEXT_TIMEOUT | TEFF__NEXT_PLACE);
        cr_assert_eq(caller.place, noted[i]);
        expect(&plain, 5 * SECOND, 0);
        cr_assert_eq(caller.next, 0);
    }
}

Test(caller, a_turns_own_deadline_is_the_latest_for_its_calls)
{
    caller.deadline_ns = 10 * SECOND;
    expect(&plain, 10 * SECOND, TEFF__CALLBACK_DEFAULT);
    expect(&half, cached_ns + 500 * MS, 0);
    teff_within(&caller, 60 * SECOND);
    expect(&plain, 10 * SECOND, 0);
    caller.deadline_ns = 34 * SECOND;
    expect(&plain, 34 * SECOND, TEFF__CALLBACK_DEFAULT);
}

Test(caller, a_detached_call_may_outlive_its_turn)
{
    const teff_call_options longer = { .struct_size = sizeof(longer),
                                       .timeout_ns = 60 * SECOND,
                                       .detached = true };
    const teff_call_options detached = { .struct_size = sizeof(detached), .detached = true };
    caller.deadline_ns = 10 * SECOND;
    teff_with(&caller, &longer);
    expect(&plain, 64 * SECOND, 0);
    teff_with(&caller, &detached);
    expect(&plain, 34 * SECOND, TEFF__CALLBACK_DEFAULT | TEFF__CALLBACK_DETACHED);
    expect(&plain, 10 * SECOND, TEFF__CALLBACK_DEFAULT);
}

Test(caller, a_timeout_beyond_all_time_never_comes)
{
    teff_within(&caller, INT64_MAX);
    expect(&plain, INT64_MAX, 0);
}

Test(caller, options_that_are_null_are_the_calls_error)
{
    cr_assert_eq(teff_with(&caller, NULL), &caller);
    expect_invalid();
}

Test(caller, options_of_another_size_are_the_calls_error)
{
    teff_call_options options = { .struct_size = 32 - 8, .timeout_ns = SECOND };
    teff_with(&caller, &options);
    expect_invalid();
    options.struct_size = 36;
    teff_with(&caller, &options);
    expect_invalid();
    options.struct_size = 0;
    teff_with(&caller, &options);
    expect_invalid();
}

Test(caller, a_negative_timeout_is_the_calls_error)
{
    const teff_call_options options = { .struct_size = sizeof(options), .timeout_ns = -1 };
    teff_with(&caller, &options);
    expect_invalid();
    teff_within(&caller, -1);
    expect_invalid();
    teff_within(&caller, 0);
    expect_invalid();
}

Test(caller, a_source_of_cancellation_is_noted_for_the_next_call_only)
{
    int token = 0;
    const teff_call_options options = { .struct_size = sizeof(options),
                                        .cancel = (teff_cancel *)(void *)&token };
    teff_with(&caller, &options);
    teff_within(&caller, SECOND);
    cr_assert(caller.next & TEFF__NEXT_CANCEL);
    int64_t deadline_ns;
    uint32_t flags;
    cr_assert_eq((void *)caller.next_cancel, &token);
    cr_assert_eq(teff__caller_deadline(&caller, &plain, cached_ns, &defaults, &deadline_ns, &flags),
                 0);
    cr_assert_eq(caller.next, 0);
}

Test(caller, null_is_no_caller)
{
    const teff_call_options options = { .struct_size = sizeof(options) };
    cr_assert_null(teff_with(NULL, &options));
    cr_assert_null(teff_within(NULL, SECOND));
    cr_assert_eq(teff_outcome_last(NULL)->code, TEFF_EINVAL);
    cr_assert_str_eq(teff_outcome_last(NULL)->text, "no caller was given");
}

static void expect_outcome(int code, bool may_have_run, const teff_method *method, const char *text)
{
    const teff_outcome *outcome = teff_outcome_last(&caller);
    cr_assert_eq(outcome->code, code);
    cr_assert_eq(outcome->may_have_run, may_have_run);
    cr_assert_eq(outcome->method, method);
    cr_assert_str_eq(outcome->text, text);
}

Test(caller, before_its_first_call_there_is_nothing_to_say)
{
    expect_outcome(0, false, NULL, "");
}

Test(caller, a_failure_without_a_text_has_its_status_text)
{
    cr_assert_eq(teff__caller_fail(&caller, TEFF_EINVAL, false, &plain, NULL), TEFF_EINVAL);
    expect_outcome(TEFF_EINVAL, false, &plain,
                   "an argument or option is invalid: see the function's description");
    cr_assert_eq(teff__caller_fail_copy(&caller, TEFF_EINVAL, true, NULL, NULL), TEFF_EINVAL);
    expect_outcome(TEFF_EINVAL, true, NULL,
                   "an argument or option is invalid: see the function's description");
}

Test(caller, a_failures_text_is_kept_when_its_source_is_gone)
{
    char text[] = "the room is full";
    cr_assert_eq(teff__caller_fail_copy(&caller, 3, true, &plain, text), 3);
    memset(text, 'x', sizeof(text) - 1);
    expect_outcome(3, true, &plain, "the room is full");
    cr_assert_eq(teff__caller_succeed(&caller, &half), 0);
    expect_outcome(0, true, &half, "");
}

Test(caller, a_failures_text_is_cut_to_255_characters)
{
    char text[400];
    memset(text, 'x', sizeof(text));
    text[399] = '\0';
    (void)teff__caller_fail_copy(&caller, 3, true, &plain, text);
    cr_assert_eq(strlen(teff_outcome_last(&caller)->text), 255);
}

Test(caller, a_failure_uses_up_the_options)
{
    teff_within(&caller, SECOND);
    (void)teff__caller_fail(&caller, TEFF_EUNAVAILABLE, false, &plain, NULL);
    expect(&plain, 34 * SECOND, TEFF__CALLBACK_DEFAULT);
}

Test(caller, another_threads_wishes_are_not_the_callers)
{
    teff__atomic_u64_store_relaxed(&worker.thread, teff__thread_self() + 1);
    cr_assert_eq(teff_within(&caller, -1), &caller);
    cr_assert_eq(teff_with(&caller, NULL), &caller);
    teff__atomic_u64_store_relaxed(&worker.thread, teff__thread_self());
    expect(&plain, 34 * SECOND, TEFF__CALLBACK_DEFAULT);
}
