/* SPDX-License-Identifier: MIT */
/* Buffers that arrive: by each form of call, on one worker, across two, and from a client. */
#include "buffers.h"

TestSuite(buffers, .init = open_two, .fini = close_silo);

/* --- Each form ----------------------------------------------------------------------------------- */

static int done_calls;
static teff_bytes *done_bytes; /* what the completion was given; not counted */

static void echoed(teff_caller *caller, void *user, const teff_outcome *outcome,
                   const struct sack *ret)
{
    (void)caller;
    cr_expect_eq(user, &done_calls);
    cr_expect_eq(outcome->code, 0);
    done_calls++;
    done_bytes = ret->bytes;
    cr_expect_eq(count_of(ret->bytes), 2);
    teff_bytes_unref(ret->bytes);
}

static void by_await(teff_caller *caller, uint64_t key, teff_bytes *bytes)
{
    box_ref box = box_at(key);
    struct sack ret = { 0 };
    cr_expect_eq(box_echo(caller, &box, &(struct sack){ bytes, 5 }, &ret), 0);
    cr_expect_eq(ret.bytes, bytes); /* the same object: nothing is copied */
    cr_expect_eq(last_seen, bytes);
    cr_expect_eq(ret.number, 5);
    cr_expect_eq(count_of(bytes), 2); /* ours, and the result's */
    teff_bytes_unref(ret.bytes);
    cr_expect_eq(box_echo(caller, &box, &(struct sack){ bytes, 5 }, NULL), 0);
    cr_expect_eq(count_of(bytes), 1); /* nobody asked for the result */
}

static void by_future(teff_caller *caller, uint64_t key, teff_bytes *bytes)
{
    box_ref box = box_at(key);
    struct sack ret = { 0 };
    teff_future future = box_echo_start(caller, &box, &(struct sack){ bytes, 6 });
    cr_expect_eq(count_of(bytes), 2); /* ours, and the request's */
    cr_expect_eq(box_echo_claim(caller, future, &ret), 0);
    cr_expect_eq(ret.bytes, bytes);
    cr_expect_eq(ret.number, 6);
    cr_expect_eq(count_of(bytes), 2);
    teff_bytes_unref(ret.bytes);
    future = box_echo_start(caller, &box, &(struct sack){ bytes, 6 });
    cr_expect_eq(box_echo_claim(caller, future, NULL), 0);
    cr_expect_eq(count_of(bytes), 1);
}

static void by_then(teff_caller *caller, uint64_t key, teff_bytes *bytes)
{
    box_ref box = box_at(key);
    cr_expect_eq(box_echo_then(caller, &box, &(struct sack){ bytes, 7 }, echoed, &done_calls), 0);
    cr_expect_eq(count_of(bytes), 2);
}

static void by_send(teff_caller *caller, uint64_t key, teff_bytes *bytes)
{
    box_ref box = box_at(key);
    cr_expect_eq(box_note_send(caller, &box, &(struct sack){ bytes, 8 }), 0);
    cr_expect_eq(box_note(caller, &box, &(struct sack){ bytes, 8 }, NULL), 0);
    cr_expect_eq(box_keep_send(caller, &box, &(struct sack){ bytes, 8 }), 0);
}

struct job {
    uint64_t key;
    teff_bytes *bytes;
    void (*form)(teff_caller *caller, uint64_t key, teff_bytes *bytes);
};

static int do_job(teff_task *task, void *user)
{
    const struct job *job = user;
    job->form(task, job->key, job->bytes);
    (void)teff_sleep(task, SECOND); /* there as long as its completions may come */
    return 0;
}

static int job_of_turn(teff_turn *turn, const struct sack *arg, struct sack *ret)
{
    const struct job *job = (const struct job *)teff_bytes_data(arg->bytes);
    (void)ret;
    job->form(turn, job->key, job->bytes);
    return 0;
}

/* Box 1 lives on worker 0, and box 2 on worker 1. */
static void place(void)
{
    cr_assert_eq(in_task(0, settle_box, (void *)1), 0);
    cr_assert_eq(in_task(1, settle_box, (void *)2), 0);
}

/* From a task and a turn of worker 0, and from the client, to either box. */
static void from_everywhere(void (*form)(teff_caller *, uint64_t, teff_bytes *), uint32_t after)
{
    box_ref asked = box_at(3);
    place();
    cr_assert_eq(in_task(0, settle_box, (void *)3), 0);
    acting = job_of_turn;
    for (uint64_t key = 1; key <= 2; key++) {
        struct job job = { key, bytes_of("told"), form };
        teff_bytes *order = NULL;
        cr_assert_eq(in_task(0, do_job, &job), 0);
        cr_assert_eq(teff_silo_run(silo), 0);
        cr_assert_eq(count_of(job.bytes), after);
        cr_assert_eq(teff_bytes_create(silo, &job, sizeof(job), &order), 0);
        cr_assert_eq(box_act(client, &asked, &(struct sack){ order, 0 }, NULL), 0);
        cr_assert_eq(teff_silo_run(silo), 0);
        cr_assert_eq(count_of(job.bytes), after);
        cr_assert_eq(count_of(order), 1);
        teff_bytes_unref(order);
        form(client, key, job.bytes);
        (void)teff_client_run(client, SECOND);
        cr_assert_eq(teff_silo_run(silo), 0);
        cr_assert_eq(count_of(job.bytes), after);
        teff_bytes_unref(job.bytes);
    }
}

Test(buffers, an_awaited_call_takes_the_same_object_there_and_back)
{
    from_everywhere(by_await, 1);
    cr_assert_eq(turns, 3 + 2 * 3 * 2 + 2);
}

Test(buffers, a_future_takes_the_same_object_there_and_back)
{
    from_everywhere(by_future, 1);
    cr_assert_eq(turns, 3 + 2 * 3 * 2 + 2);
}

Test(buffers, a_completion_is_given_the_same_object)
{
    from_everywhere(by_then, 1);
    cr_assert_eq(done_calls, 6);
    cr_assert_eq(turns, 3 + 2 * 3 + 2);
}

Test(buffers, a_one_way_message_takes_it_and_gives_it_back)
{
    from_everywhere(by_send, 2); /* the box has kept one */
    cr_assert_eq(turns, 3 + 2 * 3 * 3 + 2);
}

/* --- Several, and none --------------------------------------------------------------------------- */

static int swap_fifteen(teff_caller *caller, void *user)
{
    box_ref box = box_at((uint64_t)(uintptr_t)user);
    struct sacks arg, ret = { 0 };
    char letter[] = "a";
    for (int i = 0; i < 15; i++, letter[0]++)
        arg.bytes[i] = i == 4 ? NULL : bytes_of(letter); /* NULL is one, too */
    cr_expect_eq(box_swap(caller, &box, &arg, &ret), 0);
    for (int i = 0; i < 15; i++) {
        cr_expect_eq(ret.bytes[i], arg.bytes[14 - i]);
        if (arg.bytes[i] != NULL)
            cr_expect_eq(count_of(arg.bytes[i]), 2);
    }
    for (int i = 0; i < 15; i++) {
        teff_bytes_unref(ret.bytes[i]);
        teff_bytes_unref(arg.bytes[i]);
    }
    cr_expect_eq(held(), 0);
    return 0;
}

Test(buffers, fifteen_go_there_and_fifteen_come_back)
{
    place();
    cr_assert_eq(in_task(0, swap_fifteen, (void *)1), 0);
    cr_assert_eq(in_task(0, swap_fifteen, (void *)2), 0);
    swap_fifteen(client, (void *)1);
    swap_fifteen(client, (void *)2);
}

Test(buffers, null_as_argument_sends_empty_buffers)
{
    box_ref box = box_at(1);
    struct sack ret = { (teff_bytes *)&ret, 1 };
    struct sacks all;
    memset(&all, 0xff, sizeof(all));
    cr_assert_eq(box_echo(client, &box, NULL, &ret), 0);
    cr_assert_null(ret.bytes);
    cr_assert_eq(box_swap(client, &box, NULL, &all), 0);
    for (int i = 0; i < 15; i++)
        cr_assert_null(all.bytes[i]);
}

Test(buffers, one_buffer_may_stand_in_an_argument_several_times)
{
    box_ref box = box_at(1);
    struct sacks arg, ret;
    teff_bytes *bytes = bytes_of("all the same");
    for (int i = 0; i < 15; i++)
        arg.bytes[i] = bytes;
    cr_assert_eq(box_swap(client, &box, &arg, &ret), 0);
    cr_assert_eq(count_of(bytes), 16);
    for (int i = 0; i < 15; i++)
        teff_bytes_unref(ret.bytes[i]);
    cr_assert_eq(count_of(bytes), 1);
    teff_bytes_unref(bytes);
}

/* --- Who owns what ------------------------------------------------------------------------------- */

Test(buffers, a_handler_keeps_one_beyond_its_turn_with_a_count)
{
    box_ref box = box_at(1);
    struct sack ret = { 0 };
    teff_bytes *bytes = bytes_of("mine");
    cr_assert_eq(box_keep(client, &box, &(struct sack){ bytes, 0 }, NULL), 0);
    cr_assert_eq(count_of(bytes), 2);
    teff_bytes_unref(bytes);
    cr_assert_eq(box_kept(client, &box, NULL, &ret), 0);
    cr_assert_eq(ret.bytes, bytes);
    cr_assert_eq(count_of(bytes), 1);
    cr_assert_eq(memcmp(teff_bytes_data(bytes), "mine", 4), 0);
    teff_bytes_unref(ret.bytes);
}

static int refused_from_task(teff_task *task, void *user)
{
    teff_bytes *bytes = user;
    for (uint64_t key = 1; key <= 2; key++) {
        box_ref box = box_at(key);
        struct sack ret = { NULL, 4711 };
        cr_expect_eq(box_refuse(task, &box, &(struct sack){ bytes, 0 }, &ret), 7);
        cr_expect_str_eq(teff_outcome_last(task)->text, "no room");
        cr_expect_null(ret.bytes);
        cr_expect_eq(ret.number, 4711);
        cr_expect_eq(count_of(bytes), 1);
    }
    return 0;
}

Test(buffers, a_failing_handlers_result_is_not_taken)
{
    box_ref box = box_at(1);
    teff_bytes *bytes = bytes_of("kept by its owner");
    place();
    cr_assert_eq(in_task(0, refused_from_task, bytes), 0);
    cr_assert_eq(box_refuse(client, &box, &(struct sack){ bytes, 0 }, NULL), 7);
    cr_assert_eq(box_refuse_send(client, &box, &(struct sack){ bytes, 0 }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(count_of(bytes), 1);
    teff_bytes_unref(bytes);
}

static int send_echo(teff_task *task, void *user)
{
    for (uint64_t key = 1; key <= 2; key++) {
        box_ref box = box_at(key);
        cr_expect_eq(box_echo_send(task, &box, &(struct sack){ user, 0 }), 0);
    }
    return 0;
}

Test(buffers, the_result_of_what_was_sent_one_way_is_released)
{
    box_ref box = box_at(1);
    teff_bytes *bytes = bytes_of("nobody asks");
    place();
    cr_assert_eq(in_task(0, send_echo, bytes), 0);
    cr_assert_eq(in_task(1, send_echo, bytes), 0);
    cr_assert_eq(box_echo_send(client, &box, &(struct sack){ bytes, 0 }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(turns, 2 + 5);
    cr_assert_eq(count_of(bytes), 1);
    teff_bytes_unref(bytes);
}

static int then_without_unref(teff_turn *turn, const struct sack *arg, struct sack *ret)
{
    box_ref box = box_at(5);
    /* it hands on what it borrows: the callee's turn outlives this one */
    ret->bytes = NULL;
    return box_keep_send(turn, &box, arg);
}

Test(buffers, a_borrowed_buffer_can_be_sent_on)
{
    box_ref box = box_at(4), last = box_at(5);
    teff_bytes *bytes = bytes_of("passed on");
    struct sack ret = { 0 };
    acting = then_without_unref;
    cr_assert_eq(box_act(client, &box, &(struct sack){ bytes, 0 }, NULL), 0);
    teff_bytes_unref(bytes);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(box_kept(client, &last, NULL, &ret), 0);
    cr_assert_eq(ret.bytes, bytes);
    cr_assert_eq(count_of(bytes), 1);
    teff_bytes_unref(ret.bytes);
}

static int borrows_while_it_sleeps(teff_turn *turn, const struct sack *arg, struct sack *ret)
{
    (void)ret;
    cr_expect_eq(teff_sleep(turn, SECOND), 0);
    cr_expect_eq(memcmp(teff_bytes_data(arg->bytes), "lent", 4), 0);
    cr_expect_eq(count_of(arg->bytes), 1);
    return 0;
}

Test(buffers, a_handler_borrows_its_argument_until_it_returns_also_when_its_caller_has_gone)
{
    box_ref box = box_at(1);
    teff_bytes *bytes = bytes_of("lent");
    acting = borrows_while_it_sleeps;
    cr_assert_eq(box_act(teff_within(client, MS), &box, &(struct sack){ bytes, 0 }, NULL),
                 TEFF_ETIMEDOUT);
    teff_bytes_unref(bytes);
    cr_assert_eq(held(), 1);
    cr_assert_eq(teff_silo_advance(silo, 2 * SECOND), 0);
    cr_assert_eq(held(), 0);
}

/* --- Tables made by hand ------------------------------------------------------------------------- */

static const teff_method wrong_methods[] = { { "echo", 8, 16, TEFF_ARG_BYTES(2) },
                                             { "swap", 16, 8, TEFF_RET_BYTES(2) },
                                             { "keep", 0, 0, TEFF_ARG_BYTES(1) },
                                             { "kept", 7, 0, TEFF_ARG_BYTES(1) },
                                             { "refuse", 0, 0, TEFF_RET_BYTES(15) } };
static const teff_interface wrong_box = { { "box" }, wrong_methods, 5 };

static void never(teff_caller *caller, void *user, const teff_outcome *outcome, const void *ret)
{
    (void)caller, (void)user, (void)outcome, (void)ret;
    cr_expect_fail("never called");
}

static void never_thunk(teff__any *done, teff_caller *caller, void *user,
                        const teff_outcome *outcome, const void *ret)
{
    (void)done;
    never(caller, user, outcome, ret);
}

static int call_wrong(teff_caller *caller, void *user)
{
    box_ref box = box_at(1);
    (void)user;
    for (uint32_t i = 0; i < 5; i++) {
        /* of the declared size only: whatever lies behind it is not to be read */
        char *arg = malloc(wrong_methods[i].arg_size + 1), ret[16] = { 0 };
        memset(arg, 0xff, wrong_methods[i].arg_size + 1);
        cr_expect_eq(teff_call(caller, &box.ref, &wrong_box, i, arg, ret), TEFF_EINVAL);
        cr_expect_not(teff_outcome_last(caller)->may_have_run);
        const teff_future future = teff_call_start(caller, &box.ref, &wrong_box, i, arg);
        cr_expect_eq(teff_call_claim(caller, future, &wrong_box, i, ret), TEFF_EINVAL);
        cr_expect_eq(teff_call_then(caller, &box.ref, &wrong_box, i, arg, never_thunk,
                                    (teff__any *)never, NULL),
                     TEFF_EINVAL);
        if (wrong_methods[i].options & TEFF_ARG_BYTES(15))
            cr_expect_eq(teff_call_send(caller, &box.ref, &wrong_box, i, arg), TEFF_EINVAL);
        free(arg);
    }
    return 0;
}

Test(buffers, more_of_them_than_a_value_holds_is_refused_before_anything_is_read)
{
    cr_assert_eq(in_task(0, call_wrong, NULL), 0);
    call_wrong(client, NULL);
    cr_assert_eq(turns, 0);
}

/* As the box's own, but for what stands in each row's options. */
static int call_differing(teff_caller *caller, void *user)
{
    static const uint64_t differing[] = { 0, TEFF_ARG_BYTES(1), TEFF_RET_BYTES(1),
                                          TEFF_ARG_BYTES(1) | TEFF_RET_BYTES(2) };
    box_ref box = box_at(1);
    teff_bytes *bytes = user;
    for (int i = 0; i < 4; i++) {
        teff_method methods[box_number_count];
        memcpy(methods, box_methods, sizeof(methods));
        methods[box_number_echo].options = differing[i];
        const teff_interface forged = { { "box" }, methods, box_number_count };
        struct sack ret = { NULL, 4711 };
        cr_expect_eq(
            teff_call(caller, &box.ref, &forged, box_number_echo, &(struct sack){ bytes, 1 }, &ret),
            TEFF_EINVAL);
        cr_expect_str_eq(teff_outcome_last(caller)->text,
                         "the grain's type does not implement that interface");
        cr_expect_eq(ret.number, 4711);
        cr_expect_eq(count_of(bytes), 1);
    }
    return 0;
}

Test(buffers, an_interface_of_the_same_name_with_other_buffers_is_another_interface)
{
    teff_bytes *bytes = bytes_of("x");
    cr_assert_eq(in_task(0, call_differing, bytes), 0);
    call_differing(client, bytes);
    cr_assert_eq(turns, 0);
    teff_bytes_unref(bytes);
}

/* --- The silo's end ------------------------------------------------------------------------------ */

Test(buffers_left, destroy_returns_the_silo_until_the_last_one_is_given_back)
{
    open_silo();
    box_ref box = box_at(1);
    teff_bytes *bytes = bytes_of("left"), *other = bytes_of("over");
    struct sack ret = { 0 };
    cr_assert_eq(box_echo(client, &box, &(struct sack){ bytes, 0 }, &ret), 0);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_eq(teff_silo_destroy(silo), silo);
    teff_bytes_unref(bytes);
    cr_assert_eq(teff_silo_destroy(silo), silo);
    cr_assert_eq(memcmp(teff_bytes_data(ret.bytes), "left", 4), 0);
    teff_bytes_unref(ret.bytes);
    cr_assert_eq(teff_silo_destroy(silo), silo);
    teff_bytes_unref(other);
    cr_assert_null(teff_silo_destroy(silo));
}
