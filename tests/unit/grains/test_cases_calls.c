/* SPDX-License-Identifier: MIT */
/* Conformance cases of the runtime in one process about calls and stop, by their numbers. */
#include "messaging/client.h"
#include "runtime/thread.h"

#include "calls.h"

#include "teff/bytes.h"

TestSuite(cases_calls, .init = begin, .fini = end);

/* --- 11: an error with a text -------------------------------------------------------------- */

static int fail_with_text(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    cr_expect_eq(probe_fail(caller, &probe, &(struct ask){ 42, "of type 42" }, NULL), 42);
    cr_expect_str_eq(teff_outcome_last(caller)->text, "of type 42");
    cr_expect_eq(teff_outcome_last(caller)->method, &probe_interface.methods[probe_number_fail]);
    return 5;
}

Test(cases_calls, case_11_the_grains_code_and_text_reach_a_local_caller_and_a_client)
{
    by_each(fail_with_text, 5);
}

TestSuite(cases_on_four, .init = begin_four_workers, .fini = end);

Test(cases_on_four, case_11_and_callers_on_other_workers)
{
    for (int worker = 0; worker < 4; worker++)
        cr_assert_eq(in_task(worker, fail_with_text, NULL), 5);
}

/* --- 15 and 16: what is copied, and what is not -------------------------------------------- */

struct page {
    unsigned char bytes[1024];
};
struct sheet {
    teff_bytes *bytes;
};

#define SHELF_METHODS(METHOD, SELF)                                                                \
    METHOD(SELF, scribble, struct page, struct page, 0)                                            \
    METHOD(SELF, look, struct sheet, struct sheet, TEFF_ARG_BYTES(1) | TEFF_RET_BYTES(1))          \
    METHOD(SELF, list, teff_none, struct page, 0)
TEFF_INTERFACE(shelf, SHELF_METHODS);
TEFF_INTERFACE_DEFINE(shelf, SHELF_METHODS);

struct shelf {
    struct page page;
};
TEFF_HANDLERS(shelf, struct shelf, shelf, SHELF_METHODS);

static const void *data_there;

/* Changes its argument, which is its own copy. */
static int shelf_on_scribble(teff_turn *turn, struct shelf *self, const struct page *arg,
                             struct page *ret)
{
    (void)turn, (void)self;
    memset((void *)(uintptr_t)arg, 9, sizeof(*arg));
    *ret = *arg;
    return 0;
}

static int shelf_on_look(teff_turn *turn, struct shelf *self, const struct sheet *arg,
                         struct sheet *ret)
{
    (void)turn, (void)self;
    data_there = teff_bytes_data(arg->bytes);
    ret->bytes = teff_bytes_ref(arg->bytes);
    return 0;
}

static int shelf_on_list(teff_turn *turn, struct shelf *self, const teff_none *arg,
                         struct page *ret)
{
    (void)turn, (void)arg;
    if (self->page.bytes[0] == 0)
        memset(&self->page, 5, sizeof(self->page));
    *ret = self->page;
    return 0;
}

static const teff_handlers *const shelf_implements[] = { &shelf_handlers, NULL };
static const teff_grain_type shelf_grain = { .struct_size = sizeof(teff_grain_type),
                                             .name = { "shelf" },
                                             .state_size = sizeof(struct shelf),
                                             .implements = shelf_implements };

static void begin_shelf(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .simulated = true,
                                        .seed = 1 };
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_register(silo, &shelf_grain, NULL) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

TestSuite(cases_of_values, .init = begin_shelf, .fini = end);

static void expect_all(const struct page *page, unsigned char value)
{
    for (size_t i = 0; i < sizeof(page->bytes); i++)
        cr_expect_eq(page->bytes[i], value);
}

static int scribble(teff_caller *caller, void *user)
{
    struct page mine, back = { { 0 } };
    shelf_ref shelf = shelf_at(1);
    (void)user;
    memset(&mine, 3, sizeof(mine));
    cr_expect_eq(shelf_scribble(caller, &shelf, &mine, &back), 0);
    expect_all(&mine, 3);
    expect_all(&back, 9);
    cr_expect_eq(shelf_scribble_claim(caller, shelf_scribble_start(caller, &shelf, &mine), &back),
                 0);
    expect_all(&mine, 3);
    expect_all(&back, 9);
    return 5;
}

Test(cases_of_values, case_15_a_callee_that_changes_1024_bytes_leaves_the_callers_unchanged)
{
    by_each(scribble, 5);
}

static int look(teff_caller *caller, void *user)
{
    static const char data[4096] = "four kilobytes";
    struct sheet mine = { NULL }, back = { NULL };
    shelf_ref shelf = shelf_at(1);
    (void)user;
    cr_expect_eq(teff_bytes_create(silo, data, sizeof(data), &mine.bytes), 0);
    for (int i = 0; i < 2; i++) {
        data_there = NULL;
        cr_expect_eq(i == 0
                         ? shelf_look(caller, &shelf, &mine, &back)
                         : shelf_look_claim(caller, shelf_look_start(caller, &shelf, &mine), &back),
                     0);
        cr_expect_eq(data_there, teff_bytes_data(mine.bytes));
        cr_expect_eq(back.bytes, mine.bytes);
        (void)teff_bytes_unref(back.bytes);
    }
    cr_expect_arr_eq(teff_bytes_data(mine.bytes), data, sizeof(data));
    (void)teff_bytes_unref(mine.bytes);
    return 5;
}

Test(cases_of_values, case_15_4_kb_as_a_buffer_are_the_same_object_at_both_ends)
{
    by_each(look, 5);
}

static void change_list(teff_caller *caller, void *user, const teff_outcome *outcome,
                        const struct page *ret)
{
    (void)caller, (void)user, (void)outcome;
    expect_all(ret, 5);
    memset((void *)(uintptr_t)ret, 7, sizeof(*ret));
    tell("changed");
}

Test(cases_of_values, case_16_a_caller_that_changes_the_result_leaves_the_grains_unchanged)
{
    struct page page;
    shelf_ref shelf = shelf_at(1);
    cr_assert_eq(shelf_list(client, &shelf, NULL, &page), 0);
    expect_all(&page, 5);
    memset(&page, 6, sizeof(page));
    cr_assert_eq(shelf_list_then(client, &shelf, NULL, change_list, NULL), 0);
    cr_assert_eq(teff_client_run(client, SECOND), 0);
    cr_assert_str_eq(story, "changed");
    cr_assert_eq(shelf_list(client, &shelf, NULL, &page), 0);
    expect_all(&page, 5);
}

/* --- 17: 1,000 at once --------------------------------------------------------------------- */

static int counted;

static int count_in_grain(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    if (arg->text[0] != '\0')
        return act_body(turn, self, arg, ret);
    ret->number = ++self->number;
    return 0;
}

static void count_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct told *ret)
{
    (void)caller, (void)user;
    cr_expect_eq(outcome->code, 0);
    counted += ret != NULL && ret->number == counted + 1;
}

static int call_1000(teff_caller *caller, void *user)
{
    static teff_future futures[1000];
    struct told told = { 0 };
    probe_ref probe = probe_at(5);
    (void)user;
    for (int i = 0; i < 1000; i++)
        futures[i] = probe_act_start(caller, &probe, NULL);
    cr_expect_eq(teff_await_all(caller, futures, 1000), 0);
    int results = 0;
    for (int i = 0; i < 1000; i++)
        results += probe_act_claim(caller, futures[i], &told) == 0 && told.number == i + 1;
    return results;
}

Test(cases_calls, case_17_a_grain_with_1000_calls_to_one_has_1000_results)
{
    struct told told;
    probe_ref caller = probe_at(1);
    acting = count_in_grain;
    bodies[0] = call_1000;
    cr_assert_eq(probe_act(client, &caller, &(struct ask){ 0, "call" }, &told), 0);
    cr_assert_eq(told.number, 1000);
    cr_assert_eq(number_of(5), 1000);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

static int call_1000_then(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    (void)user;
    for (int i = 0; i < 1000; i++)
        cr_expect_eq(probe_act_then(caller, &probe, NULL, count_done, NULL), 0);
    return 0;
}

Test(cases_calls, case_17_with_completions_too)
{
    probe_ref caller = probe_at(1);
    acting = count_in_grain;
    bodies[0] = call_1000_then;
    cr_assert_eq(probe_act(client, &caller, &(struct ask){ 0, "call" }, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(counted, 1000);
    cr_assert_eq(number_of(5), 1000);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

/* --- 18 to 20: one way --------------------------------------------------------------------- */

static int note_once(teff_caller *caller, void *user)
{
    probe_ref probe = probe_at(5);
    const uint64_t before = teff__silo_open_count(silo);
    const int turns = seen.turns;
    (void)user;
    cr_expect_eq(probe_note(caller, &probe, NULL, NULL), 0);
    cr_expect_eq(teff__silo_open_count(silo), before);
    cr_expect_eq(seen.turns, turns); /* it has returned before the grain ran */
    return 5;
}

Test(cases_calls, case_18_a_one_way_call_of_a_client_has_completed_when_it_returns)
{
    cr_assert_eq(note_once(client, NULL), 5);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(number_of(5), 1);
}

Test(cases_calls, case_19_a_one_way_call_inside_a_grain_too)
{
    cr_assert_eq(in_turn(1, note_once), 5);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(number_of(5), 1);
}

#define REFUSER_METHODS(METHOD, SELF)                                                              \
    METHOD(SELF, refuse, struct ask, teff_none, TEFF_ONE_WAY)                                      \
    METHOD(SELF, tally, teff_none, struct told, 0)
TEFF_INTERFACE(refuser, REFUSER_METHODS);

struct refuser {
    int64_t number;
};
TEFF_GRAIN(refuser, REFUSER_METHODS);

static int refuser_on_refuse(teff_turn *turn, struct refuser *self, const struct ask *arg,
                             teff_none *ret)
{
    (void)arg, (void)ret;
    self->number++;
    return teff_turn_fail(turn, 3, "no");
}

static int refuser_on_tally(teff_turn *turn, struct refuser *self, const teff_none *arg,
                            struct told *ret)
{
    (void)turn, (void)arg;
    ret->number = self->number;
    return 0;
}

static void begin_refuser(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .simulated = true,
                                        .seed = 1 };
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_register(silo, &refuser_grain, NULL) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

TestSuite(cases_one_way, .init = begin_refuser, .fini = end);

static int notes_done;

static void refuse_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                        const teff_none *ret)
{
    (void)caller, (void)user;
    notes_done += outcome->code == 0 && ret == NULL;
}

static int refuse_in_each_form(teff_caller *caller, void *user)
{
    struct told told = { 0 };
    refuser_ref refuser = refuser_at(1);
    (void)user;
    cr_expect_eq(refuser_refuse(caller, &refuser, NULL, NULL), 0);
    cr_expect_eq(refuser_refuse_send(caller, &refuser, NULL), 0);
    cr_expect_eq(refuser_refuse_claim(caller, refuser_refuse_start(caller, &refuser, NULL), NULL),
                 0);
    cr_expect_eq(refuser_refuse_then(caller, &refuser, NULL, refuse_done, NULL), 0);
    cr_expect_eq(teff_outcome_last(caller)->code, 0);
    cr_expect_eq(refuser_tally(caller, &refuser, NULL, &told), 0); /* it is usable */
    return (int)told.number;
}

Test(cases_one_way, case_20_where_a_one_way_method_fails_its_caller_sees_success)
{
    cr_assert_eq(refuse_in_each_form(client, NULL), 4);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_eq(notes_done, 1);
    cr_assert_eq(in_turn(1, refuse_in_each_form), 8);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(notes_done, 2);
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

/* --- 23, 30 to 32: stop -------------------------------------------------------------------- */

static teff__atomic_u32 released;

static int block_for_ever(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    while (teff__atomic_u32_load_relaxed(&released) == 0)
        if (teff_sleep(turn, 3600 * SECOND) != 0)
            return 77;
    return 0;
}

static void stop_when_the_client_sleeps(void *argument)
{
    const teff__client *sleeper = (const teff__client *)(const void *)client;
    while (teff__atomic_u32_load_seq_cst(&sleeper->stripe->sleeping) == 0)
        teff__cpu_relax();
    *(int *)argument = teff_silo_stop(silo);
}

static void begin_thread(void)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 1,
                                        .stop_timeout_ns = 10 * MS };
    teff_assert(teff_silo_create(&options, &silo) == 0);
    teff_assert(teff_silo_register(silo, &probe_grain, &seen) == 0);
    teff_assert(teff_silo_start(silo) == 0);
    teff_assert(teff_client_create(silo, NULL, &client) == 0);
}

TestSuite(cases_on_a_thread, .init = begin_thread, .fini = end);

/* Waits for another grain that is blocked: when stop ends that call, it says no more. */
static int wait_for_blocked(teff_turn *turn, struct probe *self, const struct ask *arg,
                            struct told *ret)
{
    probe_ref other = probe_at(2);
    if (arg->number == 0)
        return block_for_ever(turn, self, arg, ret);
    return teff_turn_pass(turn, probe_act(turn, &other, NULL, NULL));
}

Test(cases_on_a_thread, case_23_a_clients_call_inside_a_blocked_grain_fails_as_unavailable)
{
    int stop_result = -1;
    teff__thread thread;
    probe_ref probe = probe_at(1);
    const int64_t before_ns = teff_now_ns(client);
    acting = wait_for_blocked;
    cr_assert_eq(teff__thread_start(&thread, stop_when_the_client_sleeps, &stop_result, "stop"), 0);
    cr_assert_eq(probe_act(client, &probe, &(struct ask){ .number = 1 }, NULL), TEFF_EUNAVAILABLE);
    cr_assert_lt(teff_now_ns(client) - before_ns, 30 * SECOND);
    cr_assert(teff_outcome_last(client)->may_have_run);
    teff__thread_join(&thread);
    cr_assert_eq(stop_result, 0);
}

static int code_of_future(teff_future future)
{
    return probe_rest_claim(client, future, NULL);
}

Test(cases_calls, case_30_a_request_that_waits_for_2_s_ends_well_before_the_silo_is_gone)
{
    const int64_t before_ns = teff_now_ns(client);
    const teff_future rest = start_rest(client, 1, 2 * SECOND);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(teff_now_ns(client) - before_ns, 2 * SECOND);
    cr_assert_eq(code_of_future(rest), 0);
    cr_assert_eq(seen.deactivated, 1);
}

/* Succeeds only where it has slept all that time. */
static int sleep_well(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)ret;
    return teff_sleep(turn, arg->number);
}

static int last_code;

static void keep_code(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct told *ret)
{
    (void)caller, (void)user, (void)ret;
    last_code = outcome->code;
    counted++;
}

static void stop_with_open(int64_t duration_ns)
{
    const int64_t before_ns = teff_now_ns(client);
    probe_ref probe = probe_at(1);
    acting = sleep_well;
    cr_assert_eq(probe_act_then(teff_within(client, 7200 * SECOND), &probe,
                                &(struct ask){ .number = duration_ns }, keep_code, NULL),
                 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    const int64_t took_ns = teff_now_ns(client) - before_ns;
    cr_assert_geq(took_ns, 10 * SECOND);
    cr_assert_leq(took_ns, 12 * SECOND);
    (void)teff_client_run(client, 0);
    cr_assert_eq(counted, 1);
    cr_assert_eq(last_code, TEFF_EUNAVAILABLE);
}

Test(cases_calls, case_31_a_request_that_never_ends_does_not_hold_up_stop_nor_report_success)
{
    stop_with_open(INT64_MAX);
}

Test(cases_calls, case_32_a_request_that_needs_far_longer_than_the_limit_neither)
{
    stop_with_open(3600 * SECOND);
}
