/* SPDX-License-Identifier: MIT */
/*
 * Resolving by a locator that needs time: what is sent meanwhile waits, in order; the first to register is valid, and who
 * was later passes its mail on without having run; what a directory says of the dead heals.
 */
#include "slow_locator.h"

static void begin_slow(void)
{
    created = slow_install;
    begin_with((teff_silo_options){ .workers = 3 });
}

/* Who is deactivated at the end asks, too. */
static void end_slow(void)
{
    slow.at_once = true;
    slow.refuses = 0;
    end();
}

TestSuite(locator, .init = begin_slow, .fini = end_slow);

static uint64_t hash_of(uint64_t number)
{
    const teff_key key = teff_key_u64(number);
    return teff__key_hash(&teff__silo_grains(silo)->seed, 1, &key);
}

static uint64_t gone(int reason)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    cr_assert_eq(teff_silo_grain_counts(silo, &counts), 0);
    return counts.gone[reason];
}

/* Sends three notes to probe 1; each tells its number. */
static int send_three(teff_task *task, void *user)
{
    const int64_t first = *(int64_t *)user;
    probe_ref probe = probe_at(1);
    for (int64_t i = 0; i < 3; i++) {
        const struct ask ask = { .number = first + i };
        cr_expect_eq(probe_note_send(task, &probe, &ask), 0);
    }
    return 0;
}

static int64_t tens[3] = { 10, 20, 30 };

/* A call that ends some time. */
static struct {
    int code;
    char text[128];
    bool ended;
} last;

static int call_probe(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    last.code = probe_get(task, &probe, NULL, NULL);
    (void)snprintf(last.text, sizeof(last.text), "%s", teff_outcome_last(task)->text);
    last.ended = true;
    return 0;
}

Test(locator, a_custom_one_is_asked_and_the_call_goes_on)
{
    slow.at_once = true;
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(seen.activated, 1);
    cr_assert_neq(slow_known(hash_of(1)), NULL);
    cr_assert_eq(slow.finds, 1);
    cr_assert_eq(slow.enters, 1);
    cr_assert_eq(teff__directory_count(&teff__silo_grains(silo)->directory), 0);
}

Test(locator, what_is_sent_meanwhile_waits_and_goes_on_in_order)
{
    spawn(1, send_three, &tens[0]);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(slow.asked_count, 1, "found once for all three");
    spawn(1, send_three, &tens[1]);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(slow.asked_count, 1);
    cr_assert_eq(seen.turns, 0);
    slow_answer(0); /* there is none */
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(slow.asked[0]->op, TEFF__LOCATOR_ENTER);
    cr_assert_eq(seen.activated, 0, "nothing runs before it is registered");
    spawn(1, send_three, &tens[2]);
    slow_answer_all();
    cr_assert_str_eq(story, "10 11 12 20 21 22 30 31 32 ");
    cr_assert_eq(seen.activated, 1);
}

Test(locator, the_one_that_is_later_never_runs_and_passes_its_mail_on_in_order)
{
    spawn(1, send_three, &tens[0]);
    spawn(2, send_three, &tens[1]);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(slow.asked_count, 2);
    slow_answer(0);
    slow_answer(0); /* neither finds it */
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(slow.asked_count, 2);
    slow_answer(1); /* the second is registered first */
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_str_eq(story, "20 21 22 ");
    slow_answer_all();
    cr_assert_str_eq(story, "20 21 22 10 11 12 ");
    cr_assert_eq(seen.activated, 1);
    cr_assert_eq(gone(TEFF_DEACTIVATED_DUPLICATE), 1);
}

Test(locator, a_grain_that_it_knows_elsewhere_is_reached_there)
{
    slow.at_once = true;
    cr_assert_eq(in_task(2, call_probe, NULL), 0);
    slow.at_once = false;
    spawn(1, send_three, &tens[0]);
    slow_answer_all();
    cr_assert_str_eq(story, "10 11 12 ");
    cr_assert_eq(seen.activated, 1);
}

/* It names an activation of a worker that is not there. */
static void poison(uint64_t number, uint32_t worker)
{
    slow.known[0] = (teff__grain_record){
        .key = teff_key_u64(number),
        .type = 1,
        .hash = hash_of(number),
        .address = teff__address_make(teff__address_tag(worker, TEFF__ADDRESS_ACTIVATION), 5, 7),
    };
}

static int call_number(teff_task *task, void *user)
{
    probe_ref probe = probe_at(*(uint64_t *)user);
    return probe_get(task, &probe, NULL, NULL);
}

Test(locator, what_it_says_of_the_dead_is_replaced_once)
{
    for (int later = 0; later < 2; later++) {
        for (uint32_t worker = 1; worker < 3; worker++) { /* the caller's, and another */
            static uint64_t number = 100;
            teff_future future;
            int result = 4711;
            number++;
            memset(&slow, 0, sizeof(slow));
            memset(&seen, 0, sizeof(seen));
            poison(number, worker);
            const uint64_t dead = slow.known[0].address;
            slow.at_once = later == 0;
            cr_assert_eq(teff_silo_spawn(silo, 1, call_number, &number, client, &future), 0);
            slow_answer_all();
            cr_assert_eq(teff_task_claim(client, future, &result), 0);
            cr_expect_eq(result, 0);
            cr_expect_eq(seen.activated, 1);
            cr_expect_eq(slow.enters, 2, "once to hear of it, once over it");
            cr_expect_neq(slow.known[0].address, dead);
            cr_expect_eq(teff__address_worker(slow.known[0].address), worker);
        }
    }
}

Test(locator, what_it_says_of_the_dead_does_not_send_a_call_round_in_a_circle)
{
    uint64_t number = 1;
    slow.at_once = true;
    cr_assert_eq(in_task(2, call_number, &number), 0);
    cr_assert_eq(in_task(1, call_number, &number), 0); /* worker 1 has a route to worker 2 … */
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_leave(client, &probe, NULL, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    poison(1, 1); /* … and the dead one is on worker 1 */
    cr_assert_eq(in_task(1, call_number, &number), 0);
    cr_assert_eq(in_task(2, call_number, &number), 0);
    cr_assert_eq(seen.activated, 2);
    cr_assert_eq(teff__address_worker(slow.known[0].address), 1);
}

Test(locator, that_cannot_be_asked_is_a_clear_error_and_the_next_call_tries_again)
{
    for (int step = 0; step < 2; step++) { /* find fails; enter fails */
        last.ended = false;
        spawn(1, call_probe, NULL);
        cr_assert_eq(teff_silo_run(silo), 0);
        if (step == 1) {
            slow_answer(0);
            cr_assert_eq(teff_silo_run(silo), 0);
        }
        slow.refuses = TEFF_EUNAVAILABLE;
        slow_answer_all();
        slow.refuses = 0;
        cr_assert(last.ended);
        cr_assert_eq(last.code, TEFF_EUNAVAILABLE);
        cr_assert_str_eq(last.text, "the grain directory could not be asked");
    }
    cr_assert_eq(seen.activated, 0);
    cr_assert_eq(gone(TEFF_DEACTIVATED_DIRECTORY), 1);
    last.ended = false;
    spawn(1, call_probe, NULL);
    slow_answer_all();
    cr_assert_eq(last.code, 0);
    cr_assert_eq(seen.activated, 1);
}

static int leave_and_send(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    cr_expect_eq(probe_leave_send(task, &probe, NULL), 0);
    return send_three(task, user);
}

Test(locator, mail_of_one_that_goes_waits_for_the_next_to_be_registered)
{
    slow.at_once = true;
    cr_assert_eq(in_task(1, call_probe, NULL), 0);
    const uint64_t first = slow_known(hash_of(1))->address;
    slow.at_once = false;
    spawn(1, leave_and_send, &tens[0]);
    cr_assert_eq(teff_silo_run(silo), 0);
    slow_answer(0); /* found: leave runs, and the three are served by the next */
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(slow.asked_count, 1);
    cr_assert_eq(slow.asked[0]->op, TEFF__LOCATOR_ENTER);
    cr_assert_eq(slow.asked[0]->previous, first);
    cr_assert_str_eq(story, "");
    spawn(1, send_three, &tens[1]);
    slow_answer_all();
    cr_assert_str_eq(story, "10 11 12 20 21 22 ");
    cr_assert_eq(seen.activated, 2);
    cr_assert_neq(slow_known(hash_of(1))->address, first);
}

Test(locator, one_that_goes_without_mail_leaves_and_what_it_left_too_late_is_not_the_next_ones)
{
    slow.at_once = true;
    cr_assert_eq(in_task(1, call_probe, NULL), 0);
    slow.at_once = false;
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_leave_send(client, &probe, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
    while (slow.asked_count != 0 && slow.asked[0]->op != TEFF__LOCATOR_LEAVE) {
        slow_answer(0);
        cr_assert_eq(teff_silo_run(silo), 0);
    }
    cr_assert_eq(slow.asked_count, 1);
    last.ended = false;
    spawn(1, call_probe, NULL); /* finds the dead one, and goes over it */
    cr_assert_eq(teff_silo_run(silo), 0);
    while (slow.asked_count > 1) {
        slow_answer(1);
        cr_assert_eq(teff_silo_run(silo), 0);
    }
    cr_assert(last.ended);
    cr_assert_eq(last.code, 0);
    cr_assert_eq(seen.activated, 2);
    const uint64_t second = slow_known(hash_of(1))->address;
    slow_answer_all(); /* the first one's leaving: exactly that one, which is not there any more */
    cr_assert_eq(slow_known(hash_of(1))->address, second);
}

Test(locator, stop_ends_what_waits_and_a_late_answer_is_nobodys)
{
    spawn(1, call_probe, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(slow.asked_count, 1);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert(last.ended);
    cr_assert_eq(last.code, TEFF_EUNAVAILABLE);
    slow_answer(0);
}

static int called;

static int call_and_note(teff_task *task, void *user)
{
    probe_ref probe = probe_at(*(uint64_t *)user);
    called = probe_get(task, &probe, NULL, NULL);
    return 0;
}

Test(locator, without_memory_a_call_fails_clearly_and_the_next_one_does_not)
{
    static uint64_t number = 100;
    int failed = 0;
    for (uint64_t nth = 1; nth <= 8; nth++) {
        number++;
        called = 4711;
        spawn(1, call_and_note, &number);
        teff__memory_fail_at(teff__silo_memory(silo), nth);
        slow_answer_all();
        teff__memory_fail_at(teff__silo_memory(silo), 0);
        cr_expect(called == 0 || called == TEFF_ENOMEM, "%d: %d", (int)nth, called);
        failed += called != 0;
        called = 4711;
        spawn(1, call_and_note, &number);
        slow_answer_all();
        cr_expect_eq(called, 0, "%d: %d", (int)nth, called);
    }
    cr_expect_geq(failed, 3, "%d", failed); /* the question, the route, the activation */
}

/* --- Placed with each other ---------------------------------------------------------------- */

static struct sender {
    int64_t first;
    uint32_t place;
} placers[3];

/* Numbered notes to probe 1, which is to be made on another worker. */
static int send_placed(teff_task *task, void *user)
{
    const struct sender *of = user;
    const teff_call_options options = { .struct_size = sizeof(options), .place = of->place };
    probe_ref probe = probe_at(1);
    for (int64_t i = 0; i < 6; i++) {
        const struct ask ask = { .number = of->first + i };
        cr_expect_eq(probe_note_send(teff_with(task, &options), &probe, &ask), 0);
        if (i % 2 == 1)
            cr_expect_eq(teff_sleep(task, 0), 0);
    }
    return 0;
}

/* Whether the numbers from first on stand in the story, in order. */
static bool in_order(int64_t first)
{
    const char *at = story;
    for (int64_t i = 0; i < 6 && at != NULL; i++) {
        char number[16];
        (void)snprintf(number, sizeof(number), "%d ", (int)(first + i));
        at = strstr(at, number);
    }
    return at != NULL;
}

Test(locator, workers_that_place_a_grain_with_each_other_make_one)
{
    slow.at_once = true;
    for (uint32_t worker = 0; worker < 3; worker++) { /* each with the next */
        placers[worker] = (struct sender){ 100 * (worker + 1), (worker + 1) % 3 + 1 };
        spawn((int)worker, send_placed, &placers[worker]);
    }
    cr_assert_eq(teff_silo_run(silo), 0);
    for (int64_t worker = 0; worker < 3; worker++)
        cr_expect(in_order(100 * (worker + 1)), "%s", story);
    cr_assert_eq(seen.turns, 18, "%d", seen.turns);
    cr_assert_eq(seen.activated, 1);
}

Test(locator, workers_that_lived_with_it_in_turn_place_it_with_each_other)
{
    uint64_t number = 1;
    probe_ref probe = probe_at(1);
    slow.at_once = true;
    for (int worker = 0; worker < 3; worker++) { /* each has a way to where it was after it */
        cr_assert_eq(in_task(worker, call_number, &number), 0);
        cr_assert_eq(in_task((worker + 1) % 3, call_number, &number), 0);
        cr_assert_eq(probe_leave(client, &probe, NULL, NULL), 0);
        cr_assert_eq(teff_silo_run(silo), 0);
    }
    memset(&seen, 0, sizeof(seen));
    for (uint32_t worker = 0; worker < 3; worker++) {
        placers[worker] = (struct sender){ 100 * (worker + 1), (worker + 2) % 3 + 1 };
        spawn((int)worker, send_placed, &placers[worker]);
    }
    cr_assert_eq(teff_silo_run(silo), 0);
    for (int64_t worker = 0; worker < 3; worker++)
        cr_expect(in_order(100 * (worker + 1)), "%s", story);
    cr_assert_eq(seen.turns, 18, "%d", seen.turns);
    cr_assert_eq(seen.activated, 1);
}
