/* SPDX-License-Identifier: MIT */
/* Observers: who may call one, when it is served, what it answers and may do. */
#include "observing.h"

TestSuite(observer, .init = begin_observed, .fini = end);

/* --- Who calls ----------------------------------------------------------------------------------- */

static int ask_ear(teff_caller *caller, void *user)
{
    ear_ref to = the_ear();
    struct line ret = { .number = 4711 };
    const int r = ear_hear(caller, &to, &(struct line){ (int64_t)(intptr_t)user, "a" }, &ret);
    cr_expect_eq(r, 0);
    cr_expect_eq(ret.number, (int64_t)(intptr_t)user + 1);
    cr_expect_eq(teff_outcome_last(caller)->code, 0);
    cr_expect(teff_outcome_last(caller)->may_have_run);
    return r;
}

static int ask_ear_in_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                           struct told *ret)
{
    (void)self, (void)ret;
    return ask_ear(turn, (void *)(intptr_t)arg->number);
}

Test(observer, a_turn_awaits_it_while_its_client_waits_for_that_turn)
{
    probe_ref probe = probe_at(1);
    acting = ask_ear_in_turn;
    cr_assert_eq(probe_act(client, &probe, &(struct ask){ .number = 5 }, NULL), 0);
    cr_assert_str_eq(ear.heard, "a5 ");
}

Test(observer, a_task_of_any_worker_awaits_it)
{
    cr_assert_eq(in_task(0, ask_ear, (void *)1), 0);
    cr_assert_eq(in_task(1, ask_ear, (void *)2), 0);
    cr_assert_str_eq(ear.heard, "a1 a2 ");
}

Test(observer, its_own_client_awaits_it_and_serves_itself)
{
    cr_assert_eq(ask_ear(client, (void *)3), 0);
    cr_assert_str_eq(ear.heard, "a3 ");
}

Test(observer, a_request_that_came_before_its_client_waits_is_served_at_once)
{
    probe_ref probe = probe_at(1);
    acting = ask_ear_in_turn;
    const teff_future future = probe_act_start(client, &probe, &(struct ask){ .number = 5 });
    cr_assert_eq(teff_silo_run(silo), 0); /* the request lies in the client's mail */
    const int64_t before_ns = teff_now_ns(client);
    cr_assert_eq(probe_act_claim(client, future, NULL), 0);
    cr_assert_eq(teff_now_ns(client), before_ns);
    cr_assert_str_eq(ear.heard, "a5 ");
}

Test(observer, a_request_that_was_taken_where_nothing_may_be_served_is_served_by_the_next_wait)
{
    probe_ref probe = probe_at(1);
    acting = ask_ear_in_turn;
    teff_future done[2] = { probe_act_start(client, &probe, &(struct ask){ .number = 5 }),
                            probe_get_start(client, &(probe_ref){ probe_at(2).ref }, NULL) };
    size_t first = 9;
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(teff_await_any(client, done, 2, &first),
                 0); /* takes the mail, and need not wait */
    cr_assert_eq(first, 1);
    const int64_t before_ns = teff_now_ns(client);
    cr_assert_eq(teff_sleep(client, SECOND), 0);
    cr_assert_eq(teff_now_ns(client), before_ns + SECOND);
    cr_assert_eq(probe_act_claim(client, done[0], NULL), 0);
    cr_assert_eq(teff_now_ns(client), before_ns + SECOND);
}

Test(observer, another_client_calls_it)
{
    teff_client *other = NULL;
    ear_ref to = the_ear();
    struct line ret;
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    const teff_future future = ear_hear_start(other, &to, &(struct line){ 8, "c" });
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_eq(ear_hear_claim(other, future, &ret), 0);
    cr_assert_eq(ret.number, 9);
    cr_assert_null(teff_client_destroy(other));
}

static void heard(teff_caller *caller, void *user, const teff_outcome *outcome,
                  const struct line *ret)
{
    cr_expect_not_null(caller);
    cr_expect_eq(outcome->code, 0);
    *(int64_t *)user += ret->number;
}

static int64_t sum;

static int every_form(teff_caller *caller, void *user)
{
    ear_ref to = the_ear();
    struct line ret;
    (void)user;
    const teff_future future = ear_hear_start(caller, &to, &(struct line){ 1, "f" });
    cr_expect_eq(ear_hear_then(caller, &to, &(struct line){ 2, "t" }, heard, &sum), 0);
    cr_expect_eq(ear_hear_send(caller, &to, &(struct line){ 3, "s" }), 0);
    cr_expect_eq(ear_mute(caller, &to, &(struct line){ 4, "o" }, NULL), 0);
    cr_expect_eq(ear_hear(caller, &to, &(struct line){ 5, "a" }, &ret), 0);
    cr_expect_eq(ret.number, 6);
    cr_expect_eq(ear_hear_claim(caller, future, &ret), 0);
    cr_expect_eq(ret.number, 2);
    return teff_sleep(caller, SECOND);
}

Test(observer, each_form_of_call_reaches_it_in_the_order_made)
{
    cr_assert_eq(in_task(1, every_form, NULL), 0);
    cr_assert_str_eq(ear.heard, "f1 t2 s3 o4 a5 ");
    cr_assert_eq(sum, 3);
    ear.heard[0] = '\0';
    every_form(client, NULL);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_str_eq(ear.heard, "f1 t2 s3 o4 a5 ");
    cr_assert_eq(sum, 6);
}

static int send_hundred(teff_task *task, void *user)
{
    ear_ref to = the_ear();
    (void)user;
    for (int i = 0; i < 100; i++)
        cr_expect_eq(ear_act_send(task, &to, &(struct line){ .number = i }), 0);
    return 0;
}

static int64_t expected;

static int in_order(teff_turn *turn, struct ear *self, const struct line *arg, struct line *ret)
{
    (void)turn, (void)ret;
    self->heard[0] = '\0';
    cr_expect_eq(arg->number, expected);
    expected++;
    return 0;
}

Test(observer, a_hundred_calls_of_one_sender_come_in_their_order)
{
    observing = in_order;
    cr_assert_eq(in_task(0, send_hundred, NULL), 0);
    (void)teff_client_run(client, 0);
    cr_assert_eq(expected, 100);
}

/* --- When it is served --------------------------------------------------------------------------- */

Test(observer, nothing_is_served_while_its_client_neither_waits_nor_runs)
{
    ear_ref to = the_ear();
    cr_assert_eq(ear_mute(client, &to, &(struct line){ 1, "m" }, NULL), 0);
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    cr_assert_eq(ear.calls, 0);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_eq(ear.calls, 1);
    cr_assert_eq(teff_client_run(client, 0), TEFF_ETIMEDOUT);
}

static int mute_later(teff_task *task, void *user)
{
    ear_ref to = the_ear();
    cr_expect_eq(teff_sleep(task, SECOND), 0);
    return ear_mute(task, &to, &(struct line){ (int64_t)(intptr_t)user, "l" }, NULL);
}

Test(observer, a_blocking_client_serves_in_a_call_in_sleep_in_awaits_and_in_run)
{
    probe_ref probe = probe_at(1);
    const struct ask rest = { .number = 2 * SECOND };
    spawn(0, mute_later, (void *)1);
    cr_assert_eq(probe_rest(client, &probe, &rest, NULL), 0);
    cr_assert_str_eq(ear.heard, "l1 ");
    spawn(1, mute_later, (void *)2);
    cr_assert_eq(teff_sleep(client, 2 * SECOND), 0);
    cr_assert_str_eq(ear.heard, "l1 l2 ");
    spawn(0, mute_later, (void *)3);
    const teff_future future = probe_rest_start(client, &probe, &rest);
    cr_assert_eq(teff_await_all(client, &future, 1), 0);
    cr_assert_eq(probe_rest_claim(client, future, NULL), 0);
    cr_assert_str_eq(ear.heard, "l1 l2 l3 ");
    spawn(0, mute_later, (void *)4);
    const int64_t before_ns = teff_now_ns(client);
    cr_assert_eq(teff_client_run(client, INT64_MAX), 0);
    cr_assert_eq(teff_now_ns(client) - before_ns, SECOND);
    cr_assert_str_eq(ear.heard, "l1 l2 l3 l4 ");
}

Test(observer, an_expired_request_gets_no_turn)
{
    teff_client *other = NULL;
    ear_ref to = the_ear();
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    const teff_future future =
        ear_hear_start(teff_within(other, MS), &to, &(struct line){ .number = 1 });
    cr_assert_eq(teff_silo_advance(silo, MS), 0);
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_eq(ear.calls, 0);
    cr_assert_eq(ear_hear_claim(other, future, NULL), TEFF_ETIMEDOUT);
    cr_assert_null(teff_client_destroy(other));
}

static int waits_briefly(teff_task *task, void *user)
{
    ear_ref to = the_ear();
    (void)user;
    cr_expect_eq(ear_hear(teff_within(task, SECOND), &to, NULL, NULL), TEFF_ETIMEDOUT);
    cr_expect(teff_outcome_last(task)->may_have_run);
    return 0;
}

Test(observer, a_call_to_one_that_nobody_serves_times_out)
{
    spawn(0, waits_briefly, NULL);
    cr_assert_eq(teff_silo_advance(silo, 2 * SECOND), 0);
    cr_assert_eq(teff__silo_open_count(silo), 0);
    cr_assert_eq(teff_client_run(client, 0), 0); /* only now it is looked at, and refused */
    cr_assert_eq(ear.calls, 0);
}

/* --- What it answers ----------------------------------------------------------------------------- */

static int fail_at_ear(teff_caller *caller, void *user)
{
    ear_ref to = the_ear();
    struct line ret = { .number = 4711 };
    (void)user;
    cr_expect_eq(ear_hear(caller, &to, &(struct line){ -12, "jazz" }, &ret), 12);
    cr_expect_str_eq(teff_outcome_last(caller)->text, "deaf to jazz");
    cr_expect(teff_outcome_last(caller)->may_have_run);
    cr_expect_eq(teff_outcome_last(caller)->method, &ear_methods[ear_number_hear]);
    cr_expect_eq(ret.number, 4711);
    return 0;
}

Test(observer, it_fails_with_a_code_and_a_text)
{
    cr_assert_eq(in_task(0, fail_at_ear, NULL), 0);
    fail_at_ear(client, NULL);
}

static int post_letters(teff_caller *caller, void *user)
{
    ear_ref to = the_ear();
    teff_bytes *small = NULL, *large = NULL;
    struct letter ret = { NULL };
    (void)user;
    cr_expect_eq(teff_bytes_create(silo, "abc", 3, &small), 0);
    cr_expect_eq(teff_bytes_create(silo, "abcdef", 6, &large), 0);
    cr_expect_eq(ear_post(caller, &to, &(struct letter){ small }, &ret), 0);
    cr_expect_eq(ret.bytes, small); /* the same object */
    cr_expect_eq(teff__atomic_u32_load_relaxed(&small->count), 2);
    teff_bytes_unref(ret.bytes);
    cr_expect_eq(ear_post(caller, &to, &(struct letter){ small }, NULL), 0);
    cr_expect_eq(ear_post_send(caller, &to, &(struct letter){ small }), 0);
    ret.bytes = NULL;
    cr_expect_eq(ear_post(caller, &to, &(struct letter){ large }, &ret), 6);
    cr_expect_null(ret.bytes);
    cr_expect_eq(teff__atomic_u32_load_relaxed(&small->count), 1);
    /* The handler took one, and failed: it keeps that. */
    cr_expect_eq(teff__atomic_u32_load_relaxed(&large->count), 2);
    teff_bytes_unref(large);
    teff_bytes_unref(large);
    teff_bytes_unref(small);
    return 0;
}

Test(observer, buffers_go_there_and_come_back)
{
    cr_assert_eq(in_task(0, post_letters, NULL), 0);
    post_letters(client, NULL);
    cr_assert_eq(held(), 0);
}

static int wrong_interface(teff_caller *caller, void *user)
{
    static const teff_method methods[] = { { "hear", 8, 8, 0 } };
    static const teff_interface other = { { "other" }, methods, 1 },
                                same = { { "ear" }, methods, 1 },
                                nameless = { { NULL }, ear_methods, ear_number_count };
    const teff_interface *const wrong[] = { &other, &same, &nameless, &probe_interface };
    teff_ref to = ear.ref;
    struct ask arg = { 0 };
    struct told ret;
    (void)user;
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(teff_call(caller, &to, wrong[i], 0, &arg, &ret), TEFF_EINVAL, "%d", i);
        cr_expect_str_eq(teff_outcome_last(caller)->text,
                         "the observer does not implement that interface");
        cr_expect_not(teff_outcome_last(caller)->may_have_run);
        cr_expect_eq(teff_call_send(caller, &to, wrong[i], 0, &arg), 0);
    }
    return 0;
}

Test(observer, another_interface_is_refused_with_a_text)
{
    cr_assert_eq(in_task(0, wrong_interface, NULL), 0);
    wrong_interface(client, NULL);
    cr_assert_eq(ear.calls, 0);
}

/* --- What its handlers may do -------------------------------------------------------------------- */

static int tries_to_wait(teff_turn *turn, struct ear *self, const struct line *arg,
                         struct line *ret)
{
    probe_ref probe = probe_at(1);
    teff_future future = { 0 };
    int result;
    (void)arg, (void)ret;
    cr_expect_eq(probe_get(turn, &probe, NULL, NULL), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_outcome_last(turn)->code, TEFF_EWOULDBLOCK);
    future = probe_get_start(turn, &probe, NULL);
    cr_expect_eq(probe_get_claim(turn, future, NULL), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_sleep(turn, 0), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_spawn(silo, 0, mute_later, NULL, turn, &future), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_task_claim(turn, future, &result), TEFF_EINVAL);
    cr_expect_eq(teff_client_run(turn, 0), TEFF_EINVALIDSTATE); /* a turn is no client */
    cr_expect_eq(teff_client_destroy(turn), turn);
    cr_expect_eq(teff_client_close_then(turn, NULL, NULL), TEFF_EINVALIDSTATE);
    /* Nor by the client itself. */
    cr_expect_eq(probe_get(client, &probe, NULL, NULL), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_sleep(client, 1), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_client_run(client, 0), TEFF_EWOULDBLOCK);
    future = probe_get_start(client, &probe, NULL);
    cr_expect_eq(teff_await_all(client, &future, 1), TEFF_EWOULDBLOCK);
    cr_expect_eq(probe_get_claim(client, future, NULL), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_client_destroy(client), client);
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    cr_expect_eq(teff_turn_deactivate(turn), TEFF_EINVALIDSTATE);
    self->busy = false;
    return 0;
}

Test(observer, its_handlers_cannot_wait_nor_stop_anything)
{
    ear_ref to = the_ear();
    observing = tries_to_wait;
    cr_assert_eq(ear_act(client, &to, NULL, NULL), 0);
    cr_assert_eq(number_of(1), 0); /* the silo runs still */
}

static int completed;

static void asked(teff_caller *caller, void *user, const teff_outcome *outcome,
                  const struct told *ret)
{
    cr_expect_eq(caller, client);
    cr_expect_eq(user, &completed);
    cr_expect_eq(outcome->code, 0);
    cr_expect_eq(ret->number, 31);
    cr_expect_eq(ear.busy, false);
    completed++;
}

static int sends_and_thens(teff_turn *turn, struct ear *self, const struct line *arg,
                           struct line *ret)
{
    probe_ref probe = probe_at(1);
    ear_ref to = the_ear();
    (void)arg, (void)ret;
    self->busy = true;
    cr_expect_eq(probe_set_send(turn, &probe, &(struct ask){ .number = 31 }), 0);
    cr_expect_eq(probe_get_then(turn, &probe, NULL, asked, &completed), 0);
    cr_expect_eq(ear_mute(turn, &to, &(struct line){ 2, "me" }, NULL), 0); /* later, by itself */
    cr_expect_eq(completed, 0);
    self->busy = false;
    return 0;
}

Test(observer, its_handlers_may_send_and_have_completions_which_run_on_the_client)
{
    ear_ref to = the_ear();
    observing = sends_and_thens;
    cr_assert_eq(ear_act(client, &to, NULL, NULL), 0);
    for (int i = 0; i < 3 && completed == 0; i++)
        (void)teff_client_run(client, SECOND);
    cr_assert_eq(completed, 1);
    cr_assert_str_eq(ear.heard, "0 me2 ");
}

static int looks_round(teff_turn *turn, struct ear *self, const struct line *arg, struct line *ret)
{
    teff_ref own = teff_turn_self(turn);
    (void)arg, (void)ret;
    cr_expect(teff_ref_equal(&own, &self->ref));
    cr_expect_eq(memcmp(teff_turn_key(turn), &self->ref.key, sizeof(teff_key)), 0);
    cr_expect_eq(teff_turn_deadline_ns(turn) - teff_now_ns(turn), SECOND);
    cr_expect_null(teff_turn_context(turn));
    cr_expect_null(teff_turn_worker_context(turn));
    cr_expect_null(teff_turn_alloc(turn, 0));
    char *memory = teff_turn_alloc(turn, 5000);
    cr_expect_eq((uintptr_t)memory % 16, 0);
    for (int i = 0; i < 5000; i++)
        cr_expect_eq(memory[i], 0);
    memset(memory, 1, 5000);
    cr_expect_not_null(teff_turn_alloc(turn, 1));
    return 0;
}

Test(observer, its_turn_tells_what_a_turn_tells)
{
    ear_ref to = the_ear();
    observing = looks_round;
    cr_assert_eq(ear_act(teff_within(client, SECOND), &to, NULL, NULL), 0);
    const uint64_t before = bytes_allocated();
    cr_assert_eq(ear_act(teff_within(client, SECOND), &to, NULL, NULL), 0);
    cr_assert_eq(bytes_allocated(), before);
}

static int calls_with_less_time(teff_turn *turn, struct ear *self, const struct line *arg,
                                struct line *ret)
{
    probe_ref probe = probe_at(1);
    (void)self, (void)arg, (void)ret;
    return probe_rest_then(turn, &probe, &(struct ask){ .number = 5 * SECOND }, NULL, NULL) ==
                   TEFF_EINVAL
               ? 3
               : 0;
}

Test(observer, a_completion_that_is_null_is_refused_there_too)
{
    ear_ref to = the_ear();
    observing = calls_with_less_time;
    cr_assert_eq(ear_act(client, &to, NULL, NULL), 3);
}
