/* SPDX-License-Identifier: MIT */
/* What users do by mistake, across threads and processes. */
#include "runtime/atomic.h"
#include "runtime/thread.h"
#include "teff.h"

#include <criterion/criterion.h>
#include <sys/wait.h>
#include <unistd.h>

struct word {
    uint64_t value;
};
#define PLAIN_METHODS(METHOD, SELF) METHOD(SELF, ask, struct word, struct word, 0)
TEFF_INTERFACE(plain, PLAIN_METHODS);

struct plain {
    uint64_t value;
};
TEFF_GRAIN(plain, PLAIN_METHODS);

static int plain_on_ask(teff_turn *turn, struct plain *self, const struct word *arg,
                        struct word *ret)
{
    (void)turn;
    ret->value = self->value += arg->value;
    return 0;
}

static teff_silo *silo;
static teff_client *client;

static void begin(bool simulated)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 1,
                                        .simulated = simulated };
    cr_assert_eq(teff_silo_create(&options, &silo), 0);
    cr_assert_eq(teff_silo_register(silo, &plain_grain, NULL), 0);
    cr_assert_eq(teff_silo_start(silo), 0);
    cr_assert_eq(teff_client_create(silo, NULL, &client), 0);
}

static void end(void)
{
    cr_assert_null(teff_client_destroy(client));
    cr_assert_null(teff_silo_destroy(silo));
}

static int ask(uint64_t value, struct word *ret)
{
    plain_ref plain = plain_at(1);
    return plain_ask(client, &plain, &(struct word){ value }, ret);
}

/* --- A child that forked ------------------------------------------------------------------------ */

static int do_nothing(teff_task *task, void *user)
{
    (void)task;
    (void)user;
    return 0;
}

static void stopped(void *user, int result)
{
    (void)user;
    (void)result;
}

/* How many of the child's calls were not refused as they should be. */
static int wrong_in_child(void)
{
    struct word word = { 0 };
    plain_ref plain = plain_at(1);
    teff_client *another = NULL;
    int wrong = 0;
    wrong += ask(1, &word) != TEFF_EINVALIDSTATE;
    wrong += plain_ask_send(client, &plain, &word) != TEFF_EINVALIDSTATE;
    wrong += teff_sleep(client, 1) != TEFF_EINVALIDSTATE;
    wrong += teff_client_create(silo, NULL, &another) != TEFF_EINVALIDSTATE;
    wrong += teff_silo_spawn(silo, 0, do_nothing, NULL, NULL, NULL) != TEFF_EINVALIDSTATE;
    wrong += teff_silo_stop_then(silo, stopped, NULL) != TEFF_EINVALIDSTATE;
    wrong += teff_silo_stop(silo) != TEFF_EINVALIDSTATE;
    wrong += teff_silo_destroy(silo) != silo;
    return wrong;
}

static void never_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                       const struct word *ret)
{
    (void)caller, (void)outcome, (void)ret;
    ++*(int *)user;
}

static teff_future before_fork; /* open, in the parent */
static teff_bytes *bytes;
static teff_cancel *cancel;

/* The rest of what takes a silo or a client. */
static int wrong_in_child_too(void)
{
    struct word word = { 0 };
    plain_ref plain = plain_at(1);
    teff_ref observer = { 0 };
    teff_bytes *more = NULL;
    teff_cancel *source = NULL;
    size_t index;
    int wrong = 0, called = 0, result;
    teff_future future = plain_ask_start(client, &plain, &word);
    wrong += plain_ask_claim(client, future, &word) != TEFF_EINVALIDSTATE;
    wrong += plain_ask_claim(client, before_fork, &word) != TEFF_EINVALIDSTATE;
    wrong += plain_ask_then(client, &plain, &word, never_done, &called) != TEFF_EINVALIDSTATE;
    wrong += teff_await_all(client, &before_fork, 1) != TEFF_EINVALIDSTATE;
    wrong += teff_await_any(client, &before_fork, 1, &index) != TEFF_EINVALIDSTATE;
    wrong += teff_task_claim(client, before_fork, &result) != TEFF_EINVALIDSTATE;
    wrong += teff_silo_spawn(silo, 0, do_nothing, NULL, client, &future) != TEFF_EINVALIDSTATE;
    wrong += teff_client_run(client, 0) != TEFF_EINVALIDSTATE;
    wrong += teff_client_close_then(client, NULL, NULL) != TEFF_EINVALIDSTATE;
    wrong += teff_client_destroy(client) != client;
    wrong += teff_observer_begin(client, &plain_handlers, &word, &observer) != TEFF_EINVALIDSTATE;
    wrong += teff_observer_end(client, &observer) != TEFF_EINVALIDSTATE;
    wrong += teff_bytes_create(silo, "x", 1, &more) != TEFF_EINVALIDSTATE;
    wrong += teff_cancel_create(silo, &source) != TEFF_EINVALIDSTATE;
    wrong += teff_silo_register(silo, &plain_grain, NULL) != TEFF_EINVALIDSTATE;
    wrong += teff_silo_start(silo) != TEFF_EINVALIDSTATE;
    wrong += teff_silo_run(silo) != TEFF_EINVALIDSTATE;
    wrong += teff_silo_advance(silo, 1) != TEFF_EINVALIDSTATE;
    wrong += called != 0;
    /* Its own copies of these it may look at, count, and let go; fired, a source does nothing. */
    teff_cancel_fire(cancel);
    wrong += teff_cancel_unref(teff_cancel_ref(cancel)) != NULL;
    wrong += teff_bytes_size(teff_bytes_ref(bytes)) != 5;
    wrong += teff_bytes_unref(bytes) != NULL;
    return wrong;
}

static void fork_and_compare(bool simulated)
{
    struct word word;
    int status = -1;
    begin(simulated);
    plain_ref plain = plain_at(1);
    cr_assert_eq(teff_bytes_create(silo, "bytes", 5, &bytes), 0);
    cr_assert_eq(teff_cancel_create(silo, &cancel), 0);
    const teff_call_options options = { .struct_size = sizeof(options), .cancel = cancel };
    before_fork = plain_ask_start(teff_with(client, &options), &plain, &(struct word){ 5 });
    const pid_t child = fork();
    if (child == 0)
        _exit(wrong_in_child_too());
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    cr_assert_eq(plain_ask_claim(client, before_fork, &word), 0);
    cr_assert_eq(word.value, 5);
    teff_bytes_unref(bytes);
    teff_cancel_unref(cancel);
    end();
}

Test(misuse, every_function_is_refused_in_a_forked_child)
{
    fork_and_compare(false);
}

Test(misuse, every_function_is_refused_in_a_forked_child_of_a_simulation)
{
    fork_and_compare(true);
}

Test(misuse, a_silo_is_not_started_in_a_forked_child)
{
    int status = -1;
    cr_assert_eq(teff_silo_create(NULL, &silo), 0);
    const pid_t child = fork();
    if (child == 0)
        _exit((teff_silo_register(silo, &plain_grain, NULL) != TEFF_EINVALIDSTATE) +
              (teff_silo_start(silo) != TEFF_EINVALIDSTATE));
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    cr_assert_null(teff_silo_destroy(silo));
}

Test(misuse, a_forked_child_is_refused_and_its_parent_goes_on)
{
    struct word word;
    int status = -1;
    begin(false);
    cr_assert_eq(ask(5, &word), 0);
    const pid_t child = fork();
    if (child == 0)
        _exit(wrong_in_child());
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    cr_assert_eq(ask(2, &word), 0);
    cr_assert_eq(word.value, 7);
    end();
}

/* --- Another thread ------------------------------------------------------------------------------ */

static int created;

static void create_elsewhere(void *argument)
{
    teff_client *another = NULL;
    (void)argument;
    created = teff_client_create(silo, NULL, &another);
}

Test(misuse, a_simulated_silo_has_clients_of_its_own_thread_only)
{
    teff__thread thread;
    begin(true);
    cr_assert_eq(teff__thread_start(&thread, create_elsewhere, NULL, "elsewhere"), 0);
    teff__thread_join(&thread);
    cr_assert_eq(created, TEFF_EINVALIDSTATE);
    end();
}

/* A second thread's calls, one of each function that takes a client. */
static void use_elsewhere(void *argument)
{
    int *wrong = argument, called = 0, result;
    struct word word = { 1 };
    plain_ref plain = plain_at(1);
    teff_ref observer = { 0 };
    size_t index;
    *wrong += ask(1, &word) != TEFF_EINVALIDSTATE;
    *wrong += plain_ask_send(client, &plain, &word) != TEFF_EINVALIDSTATE;
    *wrong += plain_ask_then(client, &plain, &word, never_done, &called) != TEFF_EINVALIDSTATE;
    teff_future future = plain_ask_start(client, &plain, &word);
    *wrong += plain_ask_claim(client, future, &word) != TEFF_EINVALIDSTATE;
    *wrong += plain_ask_claim(client, before_fork, &word) != TEFF_EINVALIDSTATE;
    *wrong += teff_await_all(client, &before_fork, 1) != TEFF_EINVALIDSTATE;
    *wrong += teff_await_any(client, &before_fork, 1, &index) != TEFF_EINVALIDSTATE;
    *wrong += teff_task_claim(client, before_fork, &result) != TEFF_EINVALIDSTATE;
    *wrong += teff_silo_spawn(silo, 0, do_nothing, NULL, client, &future) != TEFF_EINVALIDSTATE;
    *wrong += teff_sleep(client, 1) != TEFF_EINVALIDSTATE;
    *wrong += teff_client_run(client, 0) != TEFF_EINVALIDSTATE;
    *wrong += teff_client_destroy(client) != client;
    *wrong += teff_client_close_then(client, NULL, NULL) != TEFF_EINVALIDSTATE;
    *wrong += teff_observer_begin(client, &plain_handlers, &word, &observer) != TEFF_EINVALIDSTATE;
    *wrong += teff_observer_end(client, &observer) != TEFF_EINVALIDSTATE;
    *wrong += called;
}

Test(misuse, a_client_is_of_no_use_to_a_second_thread)
{
    teff__thread thread;
    struct word word;
    int wrong = 0;
    begin(false);
    plain_ref plain = plain_at(1);
    before_fork = plain_ask_start(client, &plain, &(struct word){ 5 });
    cr_assert_eq(teff__thread_start(&thread, use_elsewhere, &wrong, "elsewhere"), 0);
    teff__thread_join(&thread);
    cr_assert_eq(wrong, 0);
    cr_assert_eq(plain_ask_claim(client, before_fork, &word), 0);
    cr_assert_eq(word.value, 5);
    end();
}

/* --- Tables made by hand, and NULL ----------------------------------------------------------------- */

Test(misuse, a_method_that_claims_too_large_values_is_refused_before_anything_is_copied)
{
    static const teff_method methods[] = { { "ask", 1u << 20, 8, 0 }, { "ask", 8, 1u << 30, 0 } };
    static const teff_interface forged = { { "plain" }, methods, 2 };
    struct word word = { 1 };
    begin(true);
    plain_ref plain = plain_at(1);
    cr_assert_eq(teff_call(client, &plain.ref, &forged, 0, &word, &word), TEFF_EINVAL);
    cr_assert_eq(teff_call(client, &plain.ref, &forged, 1, &word, &word), TEFF_EINVAL);
    cr_assert_eq(teff_call_send(client, &plain.ref, &forged, 0, &word), TEFF_EINVAL);
    cr_assert_eq(ask(3, &word), 0);
    cr_assert_eq(word.value, 3);
    end();
}

Test(misuse, null_where_a_value_is_due_is_an_error_and_no_crash)
{
    const teff_ref none = { 0 };
    cr_assert_eq(teff_key_text("a", 1, NULL), TEFF_EINVAL);
    cr_assert_not(teff_ref_equal(NULL, &none));
    cr_assert_not(teff_ref_equal(&none, NULL));
    cr_assert_eq(teff_key_digest(NULL, 5).size, 16);
    cr_assert_eq(teff_now_ns(NULL), 0);
}

Test(misuse, time_that_never_ends_still_passes)
{
    begin(true);
    const int64_t before = teff_now_ns(client);
    cr_assert_eq(teff_silo_advance(silo, INT64_MAX), 0);
    cr_assert_gt(teff_now_ns(client), before);
    end();
}

/* --- A turn that never yields ---------------------------------------------------------------------- */

static teff__atomic_u32 may_end, spins;

static int spin(teff_task *task, void *user)
{
    (void)task;
    (void)user;
    teff__atomic_u32_store_seq_cst(&spins, 1);
    while (teff__atomic_u32_load_seq_cst(&may_end) == 0)
        continue;
    return 0;
}

/* Takes the five seconds after which stop gives up. */
Test(misuse, a_task_that_never_yields_is_stuck_and_nothing_is_freed_until_it_does, .timeout = 60)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = 1,
                                        .stop_timeout_ns = 1 };
    cr_assert_eq(teff_silo_create(&options, &silo), 0);
    cr_assert_eq(teff_silo_start(silo), 0);
    cr_assert_eq(teff_silo_spawn(silo, 0, spin, NULL, NULL, NULL), 0);
    while (teff__atomic_u32_load_seq_cst(&spins) == 0)
        continue;
    cr_assert_eq(teff_silo_stop(silo), TEFF_ESTUCK);
    teff__atomic_u32_store_seq_cst(&may_end, 1);
    cr_assert_eq(teff_silo_stop(silo), 0);
    cr_assert_null(teff_silo_destroy(silo));
}
