/* SPDX-License-Identifier: MIT */
/*
 * The silo's life: options, start and its unwinding, stop from everywhere, and what is refused
 * when.
 */
#include "fixture.h"

#include "runtime/thread.h"

static void options_of(teff_silo_options *ret)
{
    *ret = (teff_silo_options){ .struct_size = sizeof(*ret), .simulated = true, .seed = 1 };
}

static int create(const teff_silo_options *options)
{
    teff_silo *made = NULL;
    const int r = teff_silo_create(options, &made);
    cr_expect_eq(made != NULL, r == 0);
    cr_expect_null(teff_silo_destroy(made));
    return r;
}

/* --- Options ------------------------------------------------------------------------------- */

Test(silo, options_of_an_old_layout_are_completed_and_nonsense_is_refused)
{
    struct {
        teff_silo_options options;
        uint64_t newer[2];
    } later = { .options = { .simulated = true } };
    teff_silo_options options;
    options_of(&options);
    options.stop_timeout_ns = -1; /* behind the old layout's end: not looked at */
    options.struct_size = offsetof(teff_silo_options, response_timeout_ns);
    cr_assert_eq(create(&options), 0);
    options.struct_size -= 8;
    cr_assert_eq(create(&options), TEFF_EINVAL);
    static const size_t sizes[] = { 0, 1, 8, sizeof(options) - 1, 1 << 20, SIZE_MAX };
    options_of(&options);
    for (int i = 0; i < 6; i++) {
        options.struct_size = sizes[i];
        cr_assert_eq(create(&options), TEFF_EINVAL);
    }
    later.options.struct_size = sizeof(later);
    cr_assert_eq(create(&later.options), 0);
    later.newer[1] = 1; /* asks for what this version does not know */
    cr_assert_eq(create(&later.options), TEFF_EINVAL);
}

Test(silo, options_out_of_their_range_are_refused)
{
    int loop;
    teff_silo_options options;
    options_of(&options);
    options.response_timeout_ns = -1;
    cr_assert_eq(create(&options), TEFF_EINVAL);
    options_of(&options);
    options.stop_timeout_ns = -1;
    cr_assert_eq(create(&options), TEFF_EINVAL);
    options_of(&options);
    options.loop = (struct uv_loop_s *)(void *)&loop;
    cr_assert_eq(create(&options), TEFF_EINVAL);
    options_of(&options);
    cr_assert_eq(teff_silo_create(&options, NULL), TEFF_EINVAL);
    cr_assert_eq(create(NULL), 0);
}

Test(silo, a_stack_size_out_of_its_range_is_refused)
{
    static const size_t wrong[] = { 1, 8192, 65537, (size_t)32 << 20, SIZE_MAX };
    teff_silo_options options;
    for (int i = 0; i < 5; i++) {
        options_of(&options);
        options.stack_bytes = wrong[i];
        cr_assert_eq(create(&options), TEFF_EINVAL, "%zu", wrong[i]);
    }
    options_of(&options);
    options.stack_bytes = 128 * 1024;
    cr_assert_eq(create(&options), 0);
}

Test(silo, there_may_be_64_workers)
{
    teff_silo_options options;
    options_of(&options);
    options.workers = 65;
    cr_assert_eq(create(&options), TEFF_ELIMIT);
    options.workers = UINT32_MAX;
    cr_assert_eq(create(&options), TEFF_ELIMIT);
    begin_with((teff_silo_options){ .workers = 64 });
    for (uint64_t key = 0; key < 200; key++)
        cr_assert_eq(number_of(key), 0);
    cr_assert_eq(seen.activated, 200);
    end();
}

/* --- What is possible when ----------------------------------------------------------------- */

static void never(void *user, int result)
{
    (void)user, (void)result;
    tell("never ");
}

static int give_seven(teff_task *task, void *user)
{
    (void)task, (void)user;
    return 7;
}

Test(silo, before_its_start_nothing_else_is_possible)
{
    teff_silo_options options;
    options_of(&options);
    cr_assert_eq(teff_silo_create(&options, &silo), 0);
    cr_assert_eq(teff_silo_stop(silo), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_stop_then(silo, never, NULL), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_run(silo), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_advance(silo, 1), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_client_create(silo, NULL, &client), TEFF_EINVALIDSTATE);
    cr_assert_null(client);
    cr_assert_eq(teff_silo_spawn(silo, 0, give_seven, NULL, NULL, NULL), TEFF_EINVALIDSTATE);
    cr_assert_null(teff_silo_destroy(silo));
}

Test(silo, it_starts_once_and_takes_no_type_afterwards)
{
    teff_grain_type other = probe_grain;
    other.name.text = "other"; /* nothing else is wrong with it */
    begin();
    cr_assert_eq(teff_silo_start(silo), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_register(silo, &other, NULL), TEFF_EINVALIDSTATE);
    cr_assert_eq(number_of(1), 0);
    end();
}

Test(silo, null_is_none)
{
    cr_assert_eq(teff_silo_register(NULL, &probe_grain, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_start(NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_stop(NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_stop_then(NULL, never, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_run(NULL), TEFF_EINVAL);
    cr_assert_eq(teff_silo_advance(NULL, 1), TEFF_EINVAL);
    cr_assert_eq(teff_client_create(NULL, NULL, &client), TEFF_EINVAL);
    cr_assert_null(teff_silo_destroy(NULL));
    cr_assert_null(teff_client_destroy(NULL));
}

Test(silo, after_stop_calls_are_unavailable_and_stopping_again_is_allowed)
{
    begin();
    probe_ref probe = probe_at(1);
    teff_client *other = NULL;
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(teff_silo_stop_then(silo, never, NULL), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_stop_then(silo, NULL, NULL), TEFF_EINVAL);
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), TEFF_EUNAVAILABLE);
    cr_assert_not(teff_outcome_last(client)->may_have_run);
    cr_assert_eq(probe_get_send(client, &probe, NULL), TEFF_EUNAVAILABLE);
    cr_assert_eq(teff_sleep(client, SECOND), TEFF_EUNAVAILABLE);
    cr_assert_eq(teff_client_create(silo, NULL, &other), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_spawn(silo, 0, give_seven, NULL, NULL, NULL), TEFF_EINVALIDSTATE);
    teff_future future = { 0 };
    cr_assert_eq(teff_silo_spawn(silo, 0, give_seven, NULL, client, &future), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_run(silo), TEFF_EINVALIDSTATE);
    cr_assert_eq(teff_silo_start(silo), TEFF_EINVALIDSTATE);
    cr_assert_eq(seen.turns, 1);
    cr_assert_str_eq(story, "");
    end();
}

Test(silo, time_does_not_go_backwards)
{
    begin();
    cr_assert_eq(teff_silo_advance(silo, -1), TEFF_EINVAL);
    const int64_t before_ns = teff__silo_now_ns(silo);
    cr_assert_eq(teff_silo_advance(silo, 12345), 0);
    cr_assert_eq(teff__silo_now_ns(silo) - before_ns, 12345);
    cr_assert_eq(number_of(1), 0); /* a call that needs no time takes none */
    cr_assert_eq(teff__silo_now_ns(silo) - before_ns, 12345);
    end();
}

/* --- Clients ------------------------------------------------------------------------------- */

Test(silo, there_may_be_64_clients)
{
    teff_client *clients[64], *more = NULL;
    begin();
    clients[0] = client;
    for (int i = 1; i < 64; i++)
        cr_assert_eq(teff_client_create(silo, NULL, &clients[i]), 0);
    cr_assert_eq(teff_client_create(silo, NULL, &more), TEFF_ELIMIT);
    cr_assert_null(more);
    for (int i = 0; i < 64; i++) {
        probe_ref probe = probe_at((uint64_t)i);
        cr_assert_eq(probe_get(clients[i], &probe, NULL, NULL), 0);
    }
    cr_assert_null(teff_client_destroy(clients[40]));
    cr_assert_eq(teff_client_create(silo, NULL, &clients[40]), 0);
    for (int i = 1; i < 64; i++)
        cr_assert_null(teff_client_destroy(clients[i]));
    end();
}

Test(silo, while_clients_are_left_it_is_stopped_but_not_destroyed)
{
    begin();
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(teff_silo_destroy(silo), silo);
    cr_assert_eq(number_of(1), -1);
    cr_assert_eq(teff_outcome_last(client)->code, TEFF_EUNAVAILABLE);
    cr_assert_null(teff_client_destroy(client));
    cr_assert_null(teff_silo_destroy(silo));
}

/* --- Stop, from inside --------------------------------------------------------------------- */

static void stopped(void *user, int result)
{
    tell("stopped:%d ", result);
    cr_expect_eq(user, &seen);
}

static int stop_inside(teff_caller *caller)
{
    teff_client *other = NULL;
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    cr_expect_eq(teff_silo_destroy(silo), silo);
    cr_expect_eq(teff_silo_run(silo), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_silo_advance(silo, 1), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_client_create(silo, NULL, &other), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_client_destroy(caller), caller); /* it is none */
    return 0;
}

static int stop_from_turn(teff_turn *turn, struct probe *self, const struct ask *arg,
                          struct told *ret)
{
    (void)self, (void)ret;
    if (arg->number == 0)
        return stop_inside(turn);
    const int r = teff_silo_stop_then(silo, stopped, &seen);
    cr_expect_eq(teff_silo_stop_then(silo, stopped, &seen), 0); /* each that asks is told */
    cr_expect_eq(teff_sleep(turn, SECOND), 0);                  /* a turn that runs may end */
    tell("ended ");
    return r;
}

static int stop_from_task(teff_task *task, void *user)
{
    (void)user;
    return stop_inside(task);
}

Test(silo, on_a_worker_stop_would_block)
{
    begin();
    probe_ref probe = probe_at(1);
    acting = stop_from_turn;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    cr_assert_eq(in_task(0, stop_from_task, NULL), 0);
    end();
}

Test(silo, a_turn_may_begin_to_stop_it_and_still_answers)
{
    begin_four_workers();
    probe_ref probe = probe_at(1);
    acting = stop_from_turn;
    cr_assert_eq(probe_act(client, &probe, &(struct ask){ .number = 1 }, NULL), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_str_eq(story, "ended stopped:0 stopped:0 ");
    cr_assert_eq(seen.deactivated, 1);
    cr_assert_eq(seen.reason, TEFF_DEACTIVATED_STOP);
    end();
}

static int call_during_stop(teff_turn *turn, struct probe *self, const struct ask *arg,
                            struct told *ret)
{
    probe_ref probe = probe_at(2);
    (void)self, (void)arg, (void)ret;
    cr_expect_eq(teff_silo_stop_then(silo, stopped, &seen), 0);
    cr_expect_eq(teff_sleep(turn, 1), 0);
    cr_expect_eq(probe_get(turn, &probe, NULL, NULL), TEFF_EUNAVAILABLE);
    cr_expect_not(teff_outcome_last(turn)->may_have_run);
    cr_expect_eq(probe_get_send(turn, &probe, NULL), TEFF_EUNAVAILABLE);
    return 0;
}

Test(silo, while_it_stops_it_takes_no_more_calls)
{
    begin_four_workers();
    probe_ref probe = probe_at(1);
    acting = call_during_stop;
    cr_assert_eq(probe_act(client, &probe, NULL, NULL), 0);
    cr_assert_eq(seen.activated, 1);
    end();
    cr_assert_str_eq(story, "stopped:0 ");
}

Test(silo, a_request_that_outlasts_the_stop_limit_is_told_so_and_does_not_hold_it_up)
{
    begin_with((teff_silo_options){ .workers = 2, .stop_timeout_ns = 3 * SECOND });
    teff_client *other = NULL;
    probe_ref probe = probe_at(1);
    const struct ask ask = { 1000 * SECOND, "rest" };
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    cr_assert_eq(probe_rest_send(client, &probe, &ask), 0);
    cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ .number = 1 }), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    const int64_t before_ns = teff__silo_now_ns(silo);
    cr_assert_null(teff_client_destroy(other));
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_geq(teff__silo_now_ns(silo) - before_ns, 3 * SECOND);
    cr_assert_leq(teff__silo_now_ns(silo) - before_ns, 5 * SECOND);
    cr_assert_str_eq(story, "rest(rest)"); /* its sleep was ended; what waited behind did not run */
    end();
}

/* --- The same seed ------------------------------------------------------------------------- */

static int wander(teff_task *task, void *user)
{
    const int number = (int)(intptr_t)user;
    for (int i = 0; i < 5; i++) {
        probe_ref probe = probe_at((uint64_t)((number * 7 + i * 3) % 11));
        cr_expect_eq(probe_note(task, &probe, &(struct ask){ .number = number * 10 + i }, NULL), 0);
        cr_expect_eq(probe_leave(task, &probe, NULL, NULL), 0);
        cr_expect_eq(teff_sleep(task, (number + i) % 3 * MS), 0);
    }
    return 0;
}

static void wander_all(uint64_t seed, char ret[sizeof(story)])
{
    story[0] = '\0';
    begin_with((teff_silo_options){ .workers = 4, .seed = seed });
    for (int i = 0; i < 20; i++) {
        probe_ref probe = probe_at((uint64_t)i % 11);
        cr_assert_eq(probe_note_send(client, &probe, &(struct ask){ .number = -i }), 0);
        spawn(i % 4, wander, (void *)(intptr_t)i);
    }
    cr_assert_eq(teff_silo_advance(silo, SECOND), 0);
    end();
    memcpy(ret, story, sizeof(story));
}

Test(silo, the_same_seed_does_the_same_thing_twice)
{
    static char first[sizeof(story)], second[sizeof(story)];
    wander_all(7, first);
    wander_all(7, second);
    cr_assert_eq(seen.turns, 2 * (20 + 20 * 5 * 2));
    cr_assert_str_eq(first, second);
    wander_all(8, second);
    cr_assert_str_neq(first, second); /* elsewhere by another seed, so in another order */
}
