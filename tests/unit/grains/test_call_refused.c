/* SPDX-License-Identifier: MIT */
/* Calls that are refused: each wrong argument has its own error, and what is full says so. */
#include "fixture.h"

#include "runtime/thread.h"

TestSuite(call_refused, .init = begin, .fini = end);

static const teff_name unknown = { "nobody" };

#define LAMP_METHODS(METHOD, SELF) METHOD(SELF, light, teff_none, teff_none, 0)
TEFF_INTERFACE(lamp, LAMP_METHODS);
TEFF_INTERFACE_DEFINE(lamp, LAMP_METHODS);

static void expect_outcome(const teff_caller *caller, int code, const char *part)
{
    const teff_outcome *outcome = teff_outcome_last(caller);
    cr_expect_eq(outcome->code, code);
    cr_expect_not(outcome->may_have_run);
    cr_expect_not_null(strstr(outcome->text, part), "%s", outcome->text);
}

/* Every mistake that a caller can make with the arguments, through any caller. */
static int make_mistakes(teff_caller *caller, void *user)
{
    struct told told = { 1, 2 };
    probe_ref good = probe_at(1), nameless = probe_of(NULL, teff_key_u64(1)),
              stranger = probe_of(&unknown, teff_key_u64(1)), keyless = good, tailed = good;
    (void)user;
    keyless.ref.key.kind = 9;
    tailed.ref.key.bytes[20] = 1; /* behind the 8 bytes of the number */

    cr_expect_eq(teff_call(NULL, &good.ref, &probe_interface, 1, NULL, &told), TEFF_EINVAL);
    cr_expect_eq(teff_call_send(NULL, &good.ref, &probe_interface, 1, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call(caller, NULL, &probe_interface, 1, NULL, &told), TEFF_EINVAL);
    expect_outcome(caller, TEFF_EINVAL, "argument");
    cr_expect_eq(teff_call(caller, &good.ref, NULL, 1, NULL, &told), TEFF_EINVAL);
    cr_expect_eq(teff_call(caller, &good.ref, &probe_interface, 8, NULL, &told), TEFF_EINVAL);
    cr_expect_eq(teff_call(caller, &good.ref, &probe_interface, UINT32_MAX, NULL, &told),
                 TEFF_EINVAL);
    cr_expect_eq(teff_call_send(caller, NULL, &probe_interface, 1, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call_send(caller, &good.ref, NULL, 1, NULL), TEFF_EINVAL);
    cr_expect_eq(teff_call_send(caller, &good.ref, &probe_interface, 8, NULL), TEFF_EINVAL);

    probe_ref *const wrong[] = { &nameless, &stranger, &keyless, &tailed };
    static const char *const why[] = { "names no grain type",
                                       "no grain type of the reference's name", "key is malformed",
                                       "key is malformed" };
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(probe_get(caller, wrong[i], NULL, &told), TEFF_EINVAL);
        expect_outcome(caller, TEFF_EINVAL, why[i]);
        cr_expect_eq(probe_get_send(caller, wrong[i], NULL), TEFF_EINVAL);
        expect_outcome(caller, TEFF_EINVAL, why[i]);
    }
    cr_expect_eq(told.number, 1);
    cr_expect_eq(told.route, 2);
    return 0;
}

Test(call_refused, a_clients_wrong_arguments)
{
    make_mistakes(client, NULL);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff__silo_grain_count(silo), 0);
}

Test(call_refused, a_tasks_wrong_arguments)
{
    cr_assert_eq(in_task(0, make_mistakes, NULL), 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff__silo_grain_count(silo), 0);
}

static int make_mistakes_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                                 struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    return make_mistakes(turn, NULL);
}

Test(call_refused, a_turns_wrong_arguments)
{
    probe_ref probe = probe_at(5);
    acting = make_mistakes_in_turn;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    cr_assert_eq(teff__silo_grain_count(silo), 1);
}

static int light(teff_caller *caller, void *user)
{
    lamp_ref lamp = lamp_of(&probe_grain.name, teff_key_u64(1));
    (void)user;
    const int r = lamp_light(caller, &lamp, NULL, NULL);
    expect_outcome(caller, TEFF_EINVAL, "does not implement that interface");
    return r;
}

Test(call_refused, an_interface_that_the_type_lacks)
{
    cr_assert_eq(light(client, NULL), TEFF_EINVAL);
    cr_assert_eq(in_task(0, light, NULL), TEFF_EINVAL);
    cr_assert_eq(seen.turns, 0);
}

static int options_wrong(teff_caller *caller, void *user)
{
    struct told told;
    const teff_call_options options = { .struct_size = 3 };
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(probe_get(teff_with(caller, NULL), &probe, NULL, &told), TEFF_EINVAL);
    cr_expect_eq(probe_get(teff_with(caller, &options), &probe, NULL, &told), TEFF_EINVAL);
    cr_expect_eq(probe_get(teff_within(caller, 0), &probe, NULL, &told), TEFF_EINVAL);
    cr_expect_eq(probe_get_send(teff_within(caller, -1), &probe, NULL), TEFF_EINVAL);
    cr_expect_eq(probe_note(teff_within(caller, -1), &probe, NULL, NULL), TEFF_EINVAL);
    expect_outcome(caller, TEFF_EINVAL, "argument or option");
    /* They hold for that one call only, and also when it fails for another reason. */
    cr_expect_eq(probe_get(caller, &probe, NULL, &told), 0);
    cr_expect_eq(teff_call(teff_within(caller, -1), NULL, &probe_interface, 1, NULL, &told),
                 TEFF_EINVAL);
    cr_expect_eq(probe_get(caller, &probe, NULL, &told), 0);
    return 0;
}

Test(call_refused, invalid_options_and_they_are_used_up_by_that_call)
{
    options_wrong(client, NULL);
    cr_assert_eq(in_task(0, options_wrong, NULL), 0);
    cr_assert_eq(seen.turns, 4);
}

static void use_client_elsewhere(void *argument)
{
    struct told told;
    teff_future future;
    int result = 0, *codes = argument;
    probe_ref probe = probe_at(1);
    codes[0] = probe_get(client, &probe, NULL, &told);
    codes[1] = probe_get_send(client, &probe, NULL);
    codes[2] = teff_sleep(client, 1);
    codes[3] = teff_task_claim(client, (teff_future){ 0 }, &result);
    codes[4] = teff_silo_spawn(silo, 0, light, NULL, client, &future);
    codes[5] = teff_client_destroy(client) == client;
    codes[6] = teff_call(client, NULL, NULL, 0, NULL, NULL);
}

Test(call_refused, a_client_that_belongs_to_another_thread)
{
    int codes[7] = { 0 };
    teff__thread thread;
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(teff__thread_start(&thread, use_client_elsewhere, codes, "elsewhere"), 0);
    teff__thread_join(&thread);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(codes[i], TEFF_EINVALIDSTATE, "%d: %d", i, codes[i]);
    cr_assert(codes[5]);
    cr_assert_eq(codes[6], TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_outcome_last(client)->code, 0); /* not that thread's to write */
    cr_assert_eq(teff__silo_open_count(silo), 0);
}

static int use_client_inside(teff_turn *turn, struct probe *self, const struct ask *arg,
                             struct told *ret)
{
    probe_ref probe = probe_at(1);
    (void)turn, (void)self, (void)arg, (void)ret;
    cr_expect_eq(probe_get(client, &probe, NULL, NULL), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_sleep(client, 1), TEFF_EWOULDBLOCK);
    return 0;
}

Test(call_refused, a_client_used_where_it_must_not_block)
{
    probe_ref probe = probe_at(1);
    acting = use_client_inside;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
}

static teff_turn *kept;

static int keep_turn(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    (void)self, (void)arg, (void)ret;
    kept = turn;
    return teff_sleep(turn, SECOND);
}

static void use_turn_elsewhere(void *argument)
{
    int *codes = argument;
    teff_future future;
    probe_ref probe = probe_at(2);
    codes[0] = probe_get(kept, &probe, NULL, NULL);
    codes[1] = probe_get_send(kept, &probe, NULL);
    codes[2] = teff_sleep(kept, 1);
    codes[3] = teff_silo_spawn(silo, 0, light, NULL, kept, &future);
}

Test(call_refused, a_turn_used_by_another_thread)
{
    int codes[4] = { 0 };
    teff__thread thread;
    probe_ref probe = probe_at(1);
    acting = keep_turn;
    cr_assert_eq(probe_act_send(client, &probe, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_not_null(kept);
    cr_assert_eq(teff__thread_start(&thread, use_turn_elsewhere, codes, "elsewhere"), 0);
    teff__thread_join(&thread);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(codes[i], TEFF_EINVALIDSTATE, "%d: %d", i, codes[i]);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
}

/* --- Full ---------------------------------------------------------------------------------- */

static void begin_small(void)
{
    begin_with((teff_silo_options){ .workers = 2, .mailbox_max = 3 });
}

TestSuite(mailbox_of_three, .init = begin_small, .fini = end);

static int call_get(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    const int r = probe_get(task, &probe, NULL, NULL);
    tell("%d ", r == TEFF_EOVERLOADED ? 1 : r);
    return 0;
}

static int fill_mailbox(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    cr_expect_eq(probe_rest_send(task, &probe, &(struct ask){ .number = SECOND }), 0);
    cr_expect_eq(teff_sleep(task, 1), 0); /* now it rests */
    for (int i = 0; i < 3; i++)
        cr_expect_eq(probe_get_send(task, &probe, NULL), 0);
    cr_expect_eq(probe_get(task, &probe, NULL, NULL), TEFF_EOVERLOADED);
    cr_expect_not(teff_outcome_last(task)->may_have_run);
    cr_expect_eq(probe_get_send(task, &probe, NULL), TEFF_EOVERLOADED);
    return 0;
}

Test(mailbox_of_three, full_is_overloaded_at_once_for_callers_of_every_worker)
{
    cr_assert_eq(in_task(0, fill_mailbox, NULL), 0);
    cr_assert_eq(seen.turns, 1);
    spawn(0, call_get, NULL);
    spawn(1, call_get, NULL);
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), TEFF_EOVERLOADED);
    cr_assert_str_eq(teff_outcome_last(client)->text, "the grain's mailbox is full");
    cr_assert_not(teff_outcome_last(client)->may_have_run);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "1 1 ");
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0); /* the three are served, and there is room */
    cr_assert_eq(seen.turns, 4);
    cr_assert_eq(number_of(1), 0);
}
