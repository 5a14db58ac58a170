/* SPDX-License-Identifier: MIT */
/* Clients on a loop, many of them, and beside what else a program has on it. */
#include "fixture_loop.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(client_loop_many, .init = begin_loop, .fini = end_loop, .timeout = 120);

enum { CLIENTS_MAX = 64 }; /* as teff/client.h says */

/* --- Stripes ------------------------------------------------------------------------------- */

static void all_on_the_loop(void)
{
    static struct heard heard[CLIENTS_MAX];
    teff_client *clients[CLIENTS_MAX], *beyond = NULL;
    const int before = closed_count;
    memset(heard, 0, sizeof(heard));
    for (int i = 0; i < CLIENTS_MAX; i++)
        clients[i] = on_loop();
    cr_assert_eq(teff_client_create(silo, &loop, &beyond), TEFF_ELIMIT);
    cr_assert_null(beyond);
    /* So long that the loop sleeps: each of them is woken by its own. */
    for (int i = 0; i < CLIENTS_MAX; i++)
        cr_assert_eq(rest_then(clients[i], (uint64_t)i, (i + 1) * MS, &heard[i]), 0);
    run_loop();
    for (int i = 0; i < CLIENTS_MAX; i++) {
        cr_assert_eq(heard[i].count, 1);
        cr_assert_eq(heard[i].code, 0);
        cr_assert_eq(teff_client_close_then(clients[i], on_client_closed, NULL), 0);
    }
    run_loop();
    cr_assert_eq(closed_count - before, CLIENTS_MAX);
}

static void all_blocking(void)
{
    teff_client *clients[CLIENTS_MAX], *beyond = NULL;
    for (int i = 0; i < CLIENTS_MAX; i++)
        cr_assert_eq(teff_client_create(silo, NULL, &clients[i]), 0);
    cr_assert_eq(teff_client_create(silo, &loop, &beyond), TEFF_ELIMIT);
    cr_assert_null(beyond);
    for (int i = 0; i < CLIENTS_MAX; i++) {
        probe_ref probe = probe_at((uint64_t)i);
        cr_assert_eq(probe_rest(clients[i], &probe, &(struct ask){ .number = MS }, NULL), 0);
    }
    for (int i = 0; i < CLIENTS_MAX; i++)
        cr_assert_null(teff_client_destroy(clients[i]));
}

Test(client_loop_many, stripes_serve_both_kinds_one_after_the_other)
{
    close_guest();
    for (int i = 0; i < 2; i++) {
        all_on_the_loop();
        all_blocking();
    }
}

static int descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    cr_assert_not_null(directory);
    while (readdir(directory) != NULL)
        count++;
    (void)closedir(directory);
    return count;
}

Test(client_loop_many, a_thousand_that_come_and_go_leave_nothing)
{
    static struct heard heard;
    int descriptors_before = 0;
    uint64_t bytes_before = 0;
    close_guest();
    for (int i = 0; i < 1000; i++) {
        guest = on_loop();
        cr_assert_eq(rest_then(guest, 1, 0, &heard), 0);
        if (i % 2 == 0)
            run_loop();
        close_guest();
        if (i == 20) {
            descriptors_before = descriptors();
            bytes_before = bytes_allocated();
        }
    }
    cr_assert_eq(heard.count, 1000);
    cr_assert_eq(closed_count, 1001);
    cr_assert_eq(descriptors(), descriptors_before);
    cr_assert_leq(bytes_allocated(), bytes_before + 65536); /* pools may have grown once */
}

/* --- What cannot be had -------------------------------------------------------------------- */

static void check_that_none_is_made(int expected)
{
    teff_client *none = NULL;
    const uint64_t before = bytes_allocated();
    cr_assert_eq(teff_client_create(silo, &loop, &none), expected);
    cr_assert_null(none);
    cr_assert_not(uv_loop_alive(&loop));
    cr_assert_leq(bytes_allocated(),
                  before + sizeof(teff__postbox)); /* the stripe's, which stays */
}

Test(client_loop_many, without_a_descriptor_there_is_no_client)
{
    struct rlimit limit;
    close_guest();
    teff_client *first = NULL; /* takes the stripe that has a descriptor already */
    cr_assert_eq(teff_client_create(silo, NULL, &first), 0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = { .rlim_cur = 0, .rlim_max = limit.rlim_max };
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    check_that_none_is_made(UV_EMFILE);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    guest = on_loop();
    cr_assert_null(teff_client_destroy(first));
}

Test(client_loop_many, on_a_loop_that_cannot_watch_there_is_no_client)
{
    close_guest();
    const int backend = uv_backend_fd(&loop), kept = dup(backend);
    cr_assert_geq(kept, 0);
    cr_assert_eq(close(backend), 0);
    check_that_none_is_made(UV_EBADF);
    cr_assert_eq(dup2(kept, backend), backend);
    cr_assert_eq(close(kept), 0);
    static struct heard heard;
    guest = on_loop();
    cr_assert_eq(rest_then(guest, 1, 5 * MS, &heard), 0);
    run_loop();
    cr_assert_eq(heard.count, 1);
}

/* --- Fairness ------------------------------------------------------------------------------ */

static bool ringing;

static void open_the_next(teff_caller *caller, void *user, const teff_outcome *outcome,
                          const struct told *ret)
{
    on_told(caller, user, outcome, ret);
    if (ringing) {
        probe_ref probe = probe_at(1);
        cr_expect_eq(probe_get_then(caller, &probe, NULL, open_the_next, user), 0);
    }
}

static int ticks, reads;
static int ends[2];
static uv_timer_t tick;
static uv_poll_t reader;

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
    cr_expect_eq(write(ends[1], "x", 1), 1);
    if (++ticks == 20) {
        ringing = false;
        uv_close((uv_handle_t *)&tick, NULL);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    char byte;
    (void)events;
    cr_expect_eq(status, 0);
    cr_expect_eq(read(ends[0], &byte, 1), 1);
    if (++reads == 20)
        uv_close((uv_handle_t *)poll, NULL);
}

Test(client_loop_many, calls_that_open_the_next_one_let_timers_and_descriptors_come)
{
    static struct heard heard[20];
    ringing = true;
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(uv_timer_init(&loop, &tick), 0);
    cr_assert_eq(uv_timer_start(&tick, on_tick, 1, 1), 0);
    cr_assert_eq(uv_poll_init(&loop, &reader, ends[0]), 0);
    cr_assert_eq(uv_poll_start(&reader, UV_READABLE, on_readable), 0);
    probe_ref probe = probe_at(1);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(probe_get_then(guest, &probe, NULL, open_the_next, &heard[i]), 0);
    run_loop();
    cr_assert_eq(ticks, 20);
    cr_assert_eq(reads, 20);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(heard[i].code, 0);
    cr_assert_gt(heard_all, 20);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* As if there were cores for everybody: whoever waits looks for news a while. */
static void let_all_spin(void)
{
    teff__silo_exchange(silo)->spinners.cores = 64;
}

static int rounds;

static void on_round(uv_prepare_t *prepare)
{
    (void)prepare;
    rounds++;
}

Test(client_loop_many, the_loop_sleeps_while_nothing_comes)
{
    static struct heard heard[2];
    static uv_prepare_t count;
    let_all_spin();
    cr_assert_eq(uv_prepare_init(&loop, &count), 0);
    cr_assert_eq(uv_prepare_start(&count, on_round), 0);
    uv_unref((uv_handle_t *)&count);
    cr_assert_eq(rest_then(guest, 1, 20 * MS, &heard[0]), 0); /* after it has been woken, too */
    cr_assert_eq(rest_then(guest, 2, 200 * MS, &heard[1]), 0);
    run_loop();
    cr_assert_eq(heard_all, 2);
    cr_assert_lt(rounds, 1000); /* 50 us of looking, and some wake-ups */
    uv_close((uv_handle_t *)&count, NULL);
    run_loop();
}

static const teff__client *of_guest(void)
{
    return (const teff__client *)(const void *)guest;
}

/* Behind the client's own prepare callback: what comes then is met by its check callback. */
static void on_prepare_wait(uv_prepare_t *prepare)
{
    (void)prepare;
    while (of_guest()->awake && !teff__client_has_news(of_guest()))
        teff__cpu_relax();
}

Test(client_loop_many, a_loop_that_has_ended_is_not_counted_as_awake)
{
    static struct heard heard;
    static uv_prepare_t wait;
    close_guest();
    let_all_spin();
    cr_assert_eq(uv_prepare_init(&loop, &wait), 0);
    cr_assert_eq(uv_prepare_start(&wait, on_prepare_wait), 0);
    uv_unref((uv_handle_t *)&wait);
    guest = on_loop();
    for (int i = 0; i < 200; i++) {
        cr_assert_eq(rest_then(guest, 1, 0, &heard), 0);
        cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
        cr_assert_not(of_guest()->awake);
    }
    uv_close((uv_handle_t *)&wait, NULL);
    run_loop();
}
