/* SPDX-License-Identifier: MIT */
/* Observers: how they end, what their references name, their limits, and stop. */
#include "observing.h"

TestSuite(observer_end, .init = begin_observed, .fini = end);

/* --- Its end ------------------------------------------------------------------------------------- */

static int ends_itself(teff_turn *turn, struct ear *self, const struct line *arg, struct line *ret)
{
    cr_expect_eq(teff_observer_end(turn, &self->ref), 0);
    cr_expect_eq(teff_observer_end(client, &self->ref), TEFF_EGONE);
    ret->number = arg->number;
    return 0;
}

Test(observer_end, it_may_end_itself_and_still_answers)
{
    ear_ref to = the_ear();
    struct line ret = { 0 };
    observing = ends_itself;
    const teff_future last = ear_act_start(client, &to, &(struct line){ .number = 3 });
    const teff_future waits = ear_hear_start(client, &to, &(struct line){ .number = 4 });
    cr_assert_eq(ear_act_claim(client, last, &ret), 0);
    cr_assert_eq(ret.number, 3);
    cr_assert_eq(ear_hear_claim(client, waits, NULL), TEFF_EGONE);
    cr_assert_eq(ear.calls, 1);
}

static int call_the_gone(teff_caller *caller, void *user)
{
    ear_ref to = the_ear();
    const int64_t before_ns = teff_now_ns(caller);
    (void)user;
    cr_expect_eq(ear_hear(caller, &to, NULL, NULL), TEFF_EGONE);
    cr_expect_not(teff_outcome_last(caller)->may_have_run);
    cr_expect_str_eq(teff_outcome_last(caller)->text, user != NULL ? user : "");
    cr_expect_eq(teff_now_ns(caller), before_ns);
    return 0;
}

Test(observer_end, a_call_to_one_that_has_ended_is_gone_at_once)
{
    ear_ref to = the_ear();
    static char text[] = "the observer has ended";
    cr_assert_eq(teff_observer_end(client, &ear.ref), 0);
    cr_assert_eq(teff_observer_end(client, &ear.ref), TEFF_EGONE);
    cr_assert_eq(in_task(0, call_the_gone, text), 0);
    call_the_gone(client, text);
    cr_assert_eq(ear_mute(client, &to, NULL, NULL), 0); /* one way: nobody hears of it */
    cr_assert_eq(teff_client_run(client, 0), 0);
    cr_assert_eq(ear.calls, 0);
}

Test(observer_end, a_call_to_one_whose_client_is_gone_is_gone_at_once)
{
    static char text[] = "the observer has ended, or its client is gone";
    teff_client *other = NULL;
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    cr_assert_eq(teff_observer_begin(other, &ear_handlers, &ear, &ear.ref), 0);
    cr_assert_null(teff_client_destroy(other));
    cr_assert_eq(in_task(0, call_the_gone, text), 0);
    call_the_gone(client, text);
}

Test(observer_end, a_client_that_goes_refuses_the_mail_that_waits)
{
    teff_client *other = NULL;
    teff_bytes *bytes = NULL;
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    cr_assert_eq(teff_observer_begin(other, &ear_handlers, &ear, &ear.ref), 0);
    cr_assert_eq(teff_bytes_create(silo, "abc", 3, &bytes), 0);
    ear_ref to = the_ear();
    const teff_future future = ear_hear_start(client, &to, NULL);
    const teff_future posted = ear_post_start(client, &to, &(struct letter){ bytes });
    cr_assert_eq(ear_post_send(client, &to, &(struct letter){ bytes }), 0);
    cr_assert_null(teff_client_destroy(other));
    cr_assert_eq(ear_hear_claim(client, future, NULL), TEFF_EGONE);
    cr_assert_str_eq(teff_outcome_last(client)->text, "the observer's client is gone");
    cr_assert_not(teff_outcome_last(client)->may_have_run);
    cr_assert_eq(ear_post_claim(client, posted, NULL), TEFF_EGONE);
    cr_assert_eq(ear.calls, 0);
    cr_assert_eq(teff__atomic_u32_load_relaxed(&bytes->count), 1);
    teff_bytes_unref(bytes);
}

static teff_client *going;
static teff_future came_late;

/*
 * As a sender does that saw the client read its mail a moment ago: it would look again now, and
 * find nothing, if the client took it meanwhile.
 */
static void send_late(teff_caller *caller, void *user, const teff_outcome *outcome,
                      const struct told *ret)
{
    teff__stripe *stripe = ((teff__client *)(void *)going)->stripe;
    ear_ref to = the_ear();
    (void)caller, (void)ret;
    cr_expect_eq(outcome->code, TEFF_ECANCELED);
    teff__atomic_u32_store_seq_cst(&stripe->reads_mail, 1);
    came_late = ear_post_start(client, &to, &(struct letter){ user });
    teff__atomic_u32_store_seq_cst(&stripe->reads_mail, 0);
    teff__client_take((teff__client *)(void *)going); /* … as where it waits for other claimers */
}

Test(observer_end, a_request_that_a_client_takes_while_it_goes_is_refused)
{
    teff_bytes *bytes = NULL;
    probe_ref probe = probe_at(1);
    cr_assert_eq(teff_client_create(silo, NULL, &going), 0);
    cr_assert_eq(teff_observer_begin(going, &ear_handlers, &ear, &ear.ref), 0);
    cr_assert_eq(teff_bytes_create(silo, "abc", 3, &bytes), 0);
    cr_assert_eq(probe_rest_then(going, &probe, &(struct ask){ SECOND, "" }, send_late, bytes), 0);
    cr_assert_null(teff_client_destroy(going));
    cr_assert_eq(ear_post_claim(client, came_late, NULL), TEFF_EGONE);
    cr_assert_eq(teff__atomic_u32_load_relaxed(&bytes->count), 1);
    teff_bytes_unref(bytes);
    cr_assert_eq(ear.calls, 0);
}

Test(observer_end, a_later_client_on_the_same_stripe_never_gets_an_earlier_ones_calls)
{
    teff_client *other = NULL;
    struct ear next = { .calls = 0 };
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    cr_assert_eq(teff_observer_begin(other, &ear_handlers, &ear, &ear.ref), 0);
    const teff__stripe *stripe = ((teff__client *)(void *)other)->stripe;
    cr_assert_null(teff_client_destroy(other));
    cr_assert_eq(teff_client_create(silo, NULL, &other), 0);
    cr_assert_eq(((teff__client *)(void *)other)->stripe, stripe);
    cr_assert_eq(teff_observer_begin(other, &ear_handlers, &next, &next.ref), 0);
    ear_ref to = the_ear();
    const teff_future future = ear_hear_start(client, &to, NULL);
    cr_assert_eq(teff_client_run(other, 0), 0);
    cr_assert_eq(ear_hear_claim(client, future, NULL), TEFF_EGONE);
    cr_assert_eq(ear.calls + next.calls, 0);
    cr_assert_not(teff_ref_equal(&ear.ref, &next.ref));
    cr_assert_eq(teff_observer_end(other, &ear.ref), TEFF_EGONE);
    cr_assert_eq(teff_observer_end(client, &next.ref), TEFF_EGONE); /* another client's */
    cr_assert_null(teff_client_destroy(other));
}

/* --- References ---------------------------------------------------------------------------------- */

Test(observer_end, references_are_equal_only_to_those_of_the_same_observer)
{
    teff_ref second, copy = ear.ref;
    cr_assert_eq(teff_observer_begin(client, &ear_handlers, &ear, &second), 0);
    cr_assert(teff_ref_equal(&ear.ref, &copy));
    cr_assert_not(teff_ref_equal(&ear.ref, &second));
    cr_assert_eq(teff_observer_end(client, &ear.ref), 0);
    cr_assert_eq(teff_observer_begin(client, &ear_handlers, &ear, &copy), 0);
    cr_assert_not(teff_ref_equal(&ear.ref, &copy)); /* the same slot again */
    cr_assert_eq(teff_observer_end(client, &ear.ref), TEFF_EGONE);
}

Test(observer_end, a_reference_to_another_silos_is_gone)
{
    teff_silo *first = silo, *second = NULL;
    teff_client *elsewhere = NULL;
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .simulated = true,
                                        .seed = 2 };
    struct ear other = { .calls = 0 };
    cr_assert_eq(teff_silo_create(&options, &second), 0);
    cr_assert_eq(teff_silo_start(second), 0);
    cr_assert_eq(teff_client_create(second, NULL, &elsewhere), 0);
    cr_assert_eq(teff_observer_begin(elsewhere, &ear_handlers, &other, &other.ref), 0);
    ear_ref to = the_ear();
    cr_assert_eq(ear_hear(elsewhere, &to, NULL, NULL), TEFF_EGONE);
    cr_assert_eq(teff_observer_end(elsewhere, &ear.ref), TEFF_EGONE);
    cr_assert_eq(ear.calls + other.calls, 0);
    cr_assert_null(teff_client_destroy(elsewhere));
    cr_assert_null(teff_silo_destroy(second));
    /* … and of one that is no more. */
    ear.ref = other.ref;
    static char text[] = "the observer has ended, or its client is gone";
    cr_assert_eq(in_task(0, call_the_gone, text), 0);
    cr_assert_eq(silo, first);
}

static int call_forged(teff_caller *caller, void *user)
{
    (void)user;
    for (size_t i = 0; i < sizeof(teff_key); i++) {
        ear_ref to = the_ear();
        ((unsigned char *)&to.ref.key)[i] ^= 0x41;
        const int r = ear_hear(caller, &to, NULL, NULL);
        cr_expect(r == TEFF_EGONE || r == TEFF_EINVAL, "%zu: %s", i, teff_status_name(r));
        cr_expect(i >= 2 && i < 18 ? true : r == TEFF_EINVAL, "%zu: %s", i, teff_status_name(r));
    }
    static const teff_name copied = { "(observer)" };
    ear_ref to = { { .type = &copied, .key = teff_key_u64(1) } };
    cr_expect_eq(ear_hear(caller, &to, NULL, NULL), TEFF_EINVAL);
    to.ref.key = teff_key_u128(0, 0);
    cr_expect_eq(ear_hear(caller, &to, NULL, NULL), TEFF_EINVAL); /* a worker's stripe */
    to.ref.key = teff_key_u128(UINT64_MAX, UINT64_MAX);           /* no stripe of that number */
    cr_expect_eq(ear_hear(caller, &to, NULL, NULL), TEFF_EINVAL);
    to.ref.key = teff_key_u128(UINT64_MAX, UINT64_C(64) << 55); /* some other silo's */
    cr_expect_eq(ear_hear(caller, &to, NULL, NULL), TEFF_EGONE);
    to.ref.key = ear.ref.key;
    to.ref.route = 12345;
    cr_expect_eq(ear_hear(caller, &to, &(struct line){ .number = 1 }, NULL), 0); /* by its text */
    return 0;
}

Test(observer_end, a_forged_key_reaches_nobody)
{
    cr_assert_eq(in_task(0, call_forged, NULL), 0);
    call_forged(client, NULL);
    cr_assert_eq(ear.calls, 2);
}

Test(observer_end, no_grain_type_may_have_its_name)
{
    teff_silo *other = NULL;
    teff_grain_type type = probe_grain;
    type.name.text = "(observer)";
    cr_assert_eq(teff_silo_create(NULL, &other), 0);
    cr_assert_eq(teff_silo_register(other, &type, NULL), TEFF_EINVAL);
    cr_assert_null(teff_silo_destroy(other));
}

/* --- Mistakes and limits ------------------------------------------------------------------------- */

static int not_a_client(teff_task *task, void *user)
{
    teff_ref ref = { 0 };
    (void)user;
    cr_expect_eq(teff_observer_begin(task, &ear_handlers, &ear, &ref), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_observer_end(task, &ear.ref), TEFF_EINVALIDSTATE);
    cr_expect_eq(teff_observer_begin(client, &ear_handlers, &ear, &ref), 0); /* the same thread */
    cr_expect_eq(teff_observer_end(client, &ref), 0);
    return 0;
}

Test(observer_end, what_is_wrong_is_refused_and_the_reference_left_alone)
{
    teff_ref ref = { .route = 4711 };
    static const teff_ref none = { 0 };
    cr_assert_eq(teff_observer_begin(NULL, &ear_handlers, &ear, &ref), TEFF_EINVAL);
    cr_assert_eq(teff_observer_begin(client, NULL, &ear, &ref), TEFF_EINVAL);
    cr_assert_eq(teff_observer_begin(client, &ear_handlers, NULL, &ref), TEFF_EINVAL);
    cr_assert_eq(teff_observer_begin(client, &ear_handlers, &ear, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_observer_begin(client, &(teff_handlers){ 0 }, &ear, &ref), TEFF_EINVAL);
    cr_assert_eq(teff_observer_begin(client, &(teff_handlers){ &ear_interface, NULL }, &ear, &ref),
                 TEFF_EINVAL);
    cr_assert_eq(teff_observer_end(NULL, &ear.ref), TEFF_EINVAL);
    cr_assert_eq(teff_observer_end(client, NULL), TEFF_EINVAL);
    cr_assert_eq(teff_observer_end(client, &none), TEFF_EGONE);
    cr_assert_eq(teff_observer_end(client, &(teff_ref){ probe_at(1).ref.type, 0, ear.ref.key }),
                 TEFF_EGONE);
    cr_assert_eq(in_task(0, not_a_client, NULL), 0);
    cr_assert_eq(ref.route, 4711);
    teff__memory_fail_at(teff__silo_memory(silo), 1);
    cr_assert_eq(teff_observer_begin(client, &ear_handlers, &ear, &ref), TEFF_ENOMEM);
    cr_assert_eq(ref.route, 4711);
}

Test(observer_end, a_client_has_at_most_65536)
{
    static teff_ref refs[65536];
    for (int i = 1; i < 65536; i++)
        cr_assert_eq(teff_observer_begin(client, &ear_handlers, &ear, &refs[i]), 0);
    cr_assert_eq(teff_observer_begin(client, &ear_handlers, &ear, &refs[0]), TEFF_ELIMIT);
    ear_ref last = { refs[65535] };
    struct line ret;
    cr_assert_eq(ear_hear(client, &last, &(struct line){ .number = 1 }, &ret), 0);
    cr_assert_eq(ret.number, 2);
    cr_assert_eq(teff_observer_end(client, &refs[1000]), 0);
    cr_assert_eq(teff_observer_begin(client, &ear_handlers, &ear, &refs[0]), 0);
}

/* --- Stop ---------------------------------------------------------------------------------------- */

static int then_tells(teff_turn *turn, struct probe *self, const struct ask *arg, struct told *ret)
{
    ear_ref to = the_ear();
    (void)self, (void)arg, (void)ret;
    tell("%d ", ear_hear(turn, &to, &(struct line){ 5, "s" }, NULL));
    return 0;
}

Test(observer_end, stop_serves_it_for_a_turn_that_awaits_it)
{
    probe_ref probe = probe_at(1);
    acting = then_tells;
    const teff_future future = probe_act_start(client, &probe, NULL);
    cr_assert_eq(teff_silo_run(silo), 0); /* it waits for the observer by now */
    cr_assert_str_eq(story, "");
    const int64_t before_ns = teff_now_ns(client);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_str_eq(story, "0 ");
    cr_assert_str_eq(ear.heard, "s5 ");
    cr_assert_eq(teff_now_ns(client), before_ns);
    cr_assert_eq(probe_act_claim(client, future, NULL), 0);
}

Test(observer_end, after_stop_none_begins_and_one_that_is_there_ends)
{
    teff_ref ref = { .route = 4711 };
    ear_ref to = the_ear();
    cr_assert_eq(ear_mute(client, &to, &(struct line){ 1, "late" }, NULL), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(teff_observer_begin(client, &ear_handlers, &ear, &ref), TEFF_EINVALIDSTATE);
    cr_assert_eq(ref.route, 4711);
    cr_assert_eq(ear_mute(client, &to, NULL, NULL), TEFF_EUNAVAILABLE);
    cr_assert_eq(teff_observer_end(client, &ear.ref), 0);
    cr_assert_eq(teff_client_run(client, 0), TEFF_EUNAVAILABLE);
}

static int stops_in_observer(teff_turn *turn, struct ear *self, const struct line *arg,
                             struct line *ret)
{
    (void)turn, (void)self, (void)arg, (void)ret;
    cr_expect_eq(teff_silo_stop(silo), TEFF_EWOULDBLOCK);
    return 0;
}

Test(observer_end, an_observer_that_stop_serves_cannot_stop)
{
    ear_ref to = the_ear();
    observing = stops_in_observer;
    cr_assert_eq(ear_act_send(client, &to, NULL), 0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(ear.calls, 1);
}
