/* SPDX-License-Identifier: MIT */
/*
 * What a silo counts of its grains: how many there are and were, and why they went.
 */
#include "slow_locator.h"

#include <sys/wait.h>
#include <unistd.h>

static teff_grain_counts counts(void)
{
    teff_grain_counts ret = { .struct_size = sizeof(ret) };
    cr_assert_eq(teff_silo_grain_counts(silo, &ret), 0);
    uint64_t gone = 0;
    for (int reason = 0; reason < TEFF_DEACTIVATED_REASONS; reason++)
        gone += ret.gone[reason];
    cr_assert_eq(ret.made, ret.resident + gone); /* nothing moves */
    return ret;
}

static void leave(uint64_t key)
{
    probe_ref probe = probe_at(key);
    cr_assert_eq(probe_leave(client, &probe, NULL, NULL), 0);
    cr_assert_eq(teff_silo_run(silo), 0);
}

TestSuite(grain_counts, .init = begin_four_workers, .fini = end);

/* --- Why they went ------------------------------------------------------------------------- */

Test(grain_counts, those_that_are_there_are_resident_on_whatever_worker)
{
    cr_assert_eq(counts().made, 0);
    for (uint64_t key = 0; key < 100; key++)
        cr_assert_eq(number_of(key), 0);
    cr_assert_eq(counts().resident, 100);
    cr_assert_eq(counts().made, 100);
    for (uint64_t key = 0; key < 100; key++) /* they are there already */
        cr_assert_eq(number_of(key), 0);
    cr_assert_eq(counts().made, 100);
}

Test(grain_counts, those_that_asked_to_go_went_by_request)
{
    for (uint64_t key = 0; key < 10; key++)
        cr_assert_eq(number_of(key), 0);
    for (uint64_t key = 0; key < 4; key++)
        leave(key);
    cr_assert_eq(counts().resident, 6);
    cr_assert_eq(counts().gone[TEFF_DEACTIVATED_REQUEST], 4);
    cr_assert_eq(number_of(0), 0);
    cr_assert_eq(counts().made, 11);
}

Test(grain_counts, one_that_comes_back_for_its_mail_went_and_was_made)
{
    probe_ref probe = probe_at(1);
    cr_assert_eq(probe_leave_send(client, &probe, NULL), 0);
    cr_assert_eq(probe_get(client, &probe, NULL, NULL), 0);
    cr_assert_eq(counts().made, 2);
    cr_assert_eq(counts().resident, 1);
    cr_assert_eq(counts().gone[TEFF_DEACTIVATED_REQUEST], 1);
}

static int never_activates(teff_turn *turn, struct probe *self)
{
    (void)turn, (void)self;
    return 7;
}

Test(grain_counts, those_that_could_not_be_activated_failed)
{
    activating = never_activates;
    for (uint64_t key = 0; key < 5; key++)
        cr_assert_eq(number_of(key), -1);
    cr_assert_eq(counts().resident, 0);
    cr_assert_eq(counts().made, 5);
    cr_assert_eq(counts().gone[TEFF_DEACTIVATED_FAILED], 5);
}

Test(grain_counts, when_the_silo_stops_all_go_and_it_still_says_so)
{
    for (uint64_t key = 0; key < 20; key++)
        cr_assert_eq(number_of(key), 0);
    leave(0);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_eq(counts().resident, 0);
    cr_assert_eq(counts().gone[TEFF_DEACTIVATED_STOP], 19);
    cr_assert_eq(counts().gone[TEFF_DEACTIVATED_REQUEST], 1);
}

Test(grain_counts, what_there_was_no_memory_for_was_never_made)
{
    cr_assert_eq(number_of(1), 0);
    teff__silo_memory(silo)->bytes_max = bytes_allocated();
    for (uint64_t key = 2; key < 10; key++)
        cr_assert_eq(number_of(key), -1);
    teff__silo_memory(silo)->bytes_max = 0;
    cr_assert_eq(counts().made, 1);
    cr_assert_eq(counts().resident, 1);
}

/* --- With a directory that needs time ------------------------------------------------------ */

static void begin_slow(void)
{
    created = slow_install;
    begin_with((teff_silo_options){ .workers = 3 });
}

static void end_slow(void)
{
    slow.at_once = true;
    slow.refuses = 0;
    end();
}

TestSuite(grain_counts_slow, .init = begin_slow, .fini = end_slow);

static int set_probe(teff_task *task, void *user)
{
    probe_ref probe = probe_at(1);
    (void)user;
    return probe_set_send(task, &probe, NULL);
}

Test(grain_counts_slow, of_those_that_were_made_at_once_all_but_one_are_duplicates)
{
    for (int worker = 0; worker < 3; worker++)
        spawn(worker, set_probe, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    cr_assert_eq(slow.asked_count, 3); /* all of them look for it before one of them makes it */
    for (int i = 0; i < 3; i++)
        slow_answer(0);
    slow_answer_all();
    cr_assert_eq(seen.activated, 1);
    cr_assert_eq(seen.turns, 3);
    cr_assert_eq(counts().resident, 1);
    cr_assert_eq(counts().made, 3);
    cr_assert_eq(counts().gone[TEFF_DEACTIVATED_DUPLICATE], 2);
}

Test(grain_counts_slow, those_that_could_not_be_registered_went_for_the_directory)
{
    spawn(0, set_probe, NULL);
    cr_assert_eq(teff_silo_run(silo), 0);
    slow_answer(0); /* found: none */
    cr_assert_eq(teff_silo_run(silo), 0);
    slow.refuses = TEFF_EUNAVAILABLE;
    slow_answer_all();
    cr_assert_eq(counts().resident, 0);
    cr_assert_eq(counts().made, 1);
    cr_assert_eq(counts().gone[TEFF_DEACTIVATED_DIRECTORY], 1);
}

/* --- Layouts, and what is refused ---------------------------------------------------------- */

Test(grain_counts, an_argument_that_is_none_or_of_no_size_is_refused)
{
    static const size_t wrong[] = {
        0, 8, sizeof(teff_grain_counts) - 8, sizeof(teff_grain_counts) + 1, 4104, SIZE_MAX
    };
    teff_grain_counts ret = { .struct_size = sizeof(ret), .made = 4711 };
    cr_assert_eq(teff_silo_grain_counts(NULL, &ret), TEFF_EINVAL);
    cr_assert_eq(teff_silo_grain_counts(silo, NULL), TEFF_EINVAL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        ret.struct_size = wrong[i];
        cr_assert_eq(teff_silo_grain_counts(silo, &ret), TEFF_EINVAL, "%zu", wrong[i]);
    }
    cr_assert_eq(ret.made, 4711);
}

Test(grain_counts, a_program_of_a_later_layout_gets_zeroes_for_what_we_do_not_count)
{
    struct {
        teff_grain_counts now;
        uint64_t later[3];
    } ret = { .now.struct_size = sizeof(ret), .later = { 1, 2, 3 } };
    cr_assert_eq(number_of(1), 0);
    cr_assert_eq(teff_silo_grain_counts(silo, &ret.now), 0);
    cr_assert_eq(ret.now.struct_size, sizeof(ret));
    cr_assert_eq(ret.now.resident, 1);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(ret.later[i], 0);
}

Test(grain_counts_alone, a_silo_that_was_never_started_has_none)
{
    teff_grain_counts ret = { .struct_size = sizeof(ret) };
    cr_assert_eq(teff_silo_create(NULL, &silo), 0);
    cr_assert_eq(teff_silo_grain_counts(silo, &ret), TEFF_EINVALIDSTATE);
    cr_assert_null(teff_silo_destroy(silo));
}

Test(grain_counts, a_forked_child_is_refused)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        teff_grain_counts ret = { .struct_size = sizeof(ret) };
        _exit(teff_silo_grain_counts(silo, &ret) != TEFF_EINVALIDSTATE);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    cr_assert_eq(counts().made, 0);
}
