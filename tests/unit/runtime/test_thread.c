/* SPDX-License-Identifier: MIT */
#include "runtime/thread.h"

#include "runtime/clock.h"
#include "teff/status.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static int64_t now_ns(void)
{
    teff__clock clock;
    teff__clock_init(&clock, false);
    return teff__clock_now_ns(&clock);
}

/* --- Threads --------------------------------------------------------------------------------- */

typedef struct seen {
    int argument;
    char name[64];
    sigset_t blocked;
    stack_t signal_stack;
    uintptr_t self;
    char *handler_at; /* where a signal handler of the thread had its frame */
} seen;

static _Thread_local seen *here;

static void on_signal(int number)
{
    volatile char local = (char)number;
    here->handler_at = (char *)(uintptr_t)&local;
}

static void look(void *argument)
{
    seen *self = argument;
    here = self;
    self->argument++;
    self->self = teff__thread_self();
    pthread_getname_np(pthread_self(), self->name, sizeof(self->name));
    pthread_sigmask(SIG_SETMASK, NULL, &self->blocked);
    sigaltstack(NULL, &self->signal_stack);
    raise(SIGBUS);
}

/* Runs `look` in a thread of that name. */
static seen look_from(const char *name)
{
    const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
    seen self = { .argument = 41 };
    teff__thread thread;
    cr_assert_eq(sigaction(SIGBUS, &action, NULL), 0);
    cr_assert_eq(teff__thread_start(&thread, look, &self, name), TEFF_OK);
    teff__thread_join(&thread);
    return self;
}

Test(thread, runs_with_its_argument_and_name)
{
    seen self = look_from("teff worker 1");
    cr_assert_eq(self.argument, 42);
    cr_assert_str_eq(self.name, "teff worker 1");
    cr_assert_neq(self.self, teff__thread_self());
}

Test(thread, long_name_is_cut_to_what_the_kernel_takes)
{
    cr_assert_str_eq(look_from("123456789012345").name, "123456789012345");
    cr_assert_str_eq(look_from("a worker with a long name").name, "a worker with a");
    cr_assert_str_eq(look_from("").name, "");
}

Test(thread, blocks_asynchronous_signals_and_only_those)
{
    static const int blocked[] = { SIGINT,  SIGTERM, SIGHUP,  SIGPIPE,
                                   SIGALRM, SIGUSR1, SIGCHLD, SIGPROF };
    static const int open[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    seen self = look_from("masked");
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (size_t i = 0; i < sizeof(blocked) / sizeof(blocked[0]); i++)
        cr_assert_eq(sigismember(&self.blocked, blocked[i]), 1, "signal %d", blocked[i]);
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
        cr_assert_eq(sigismember(&self.blocked, open[i]), 0, "signal %d", open[i]);
    for (int i = 1; i < 32; i++)
        cr_assert_eq(sigismember(&before, i), sigismember(&after, i), "the starter's mask changed");
}

Test(thread, handles_signals_on_a_stack_of_its_own_while_it_lives)
{
    seen self = look_from("signal stack");
    char *low = self.signal_stack.ss_sp;
    unsigned char page;
    cr_assert_eq(self.signal_stack.ss_flags, 0);
    cr_assert_geq(self.signal_stack.ss_size, 65536);
    cr_assert(self.handler_at >= low && self.handler_at < low + self.signal_stack.ss_size);
    cr_assert_eq(mincore((char *)((uintptr_t)low & ~(uintptr_t)4095), 4096, &page), -1,
                 "it is still mapped after the thread's end");
}

static long mapped_pages(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    return pages;
}

static void nothing(void *argument)
{
    (void)argument;
}

Test(thread, one_that_cannot_be_made_is_reported_and_leaves_nothing)
{
    pthread_attr_t huge;
    teff__thread thread;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, (size_t)1 << 50); /* more than there are addresses */
    cr_assert_eq(pthread_setattr_default_np(&huge), 0);
    cr_assert_eq(teff__thread_start(&thread, nothing, NULL, "never"), TEFF_ENOMEM);
    long before = mapped_pages();
    for (int i = 0; i < 100; i++)
        cr_assert_eq(teff__thread_start(&thread, nothing, NULL, "never"), TEFF_ENOMEM);
    cr_assert_lt(mapped_pages() - before, 100); /* a signal stack has 16 */
}

Test(thread, cores_are_those_the_process_may_use)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    cr_assert_geq(teff__thread_cores(), 1);
    CPU_SET((size_t)sched_getcpu(), &one);
    cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    cr_assert_eq(teff__thread_cores(), 1);
}

/* --- Locks ----------------------------------------------------------------------------------- */

static teff__mutex mutex;
static teff__condition condition;
static int counter;

static void count(void *argument)
{
    (void)argument;
    for (int i = 0; i < 100000; i++) {
        teff__mutex_lock(&mutex);
        counter++;
        teff__mutex_unlock(&mutex);
    }
}

Test(mutex, lets_one_thread_in_at_a_time)
{
    teff__thread threads[4];
    teff__mutex_init(&mutex, TEFF__RANK_SILO);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(teff__thread_start(&threads[i], count, NULL, "counter"), TEFF_OK);
    for (int i = 0; i < 4; i++)
        teff__thread_join(&threads[i]);
    cr_assert_eq(counter, 400000);
    teff__mutex_finish(&mutex);
}

Test(mutex, ranks_may_be_taken_rising)
{
    teff__mutex silo, directory;
    teff__mutex_init(&silo, TEFF__RANK_SILO);
    teff__mutex_init(&directory, TEFF__RANK_DIRECTORY);
    for (int i = 0; i < 2; i++) {
        teff__mutex_lock(&silo);
        teff__mutex_lock(&directory);
        teff__mutex_unlock(&silo);
        teff__mutex_unlock(&directory);
    }
    teff__mutex_finish(&silo);
    teff__mutex_finish(&directory);
}

#ifdef TEFF_DEBUG

Test(mutex, ranks_taken_falling_abort_in_debug_builds, .signal = SIGABRT)
{
    teff__mutex silo, directory;
    teff__mutex_init(&silo, TEFF__RANK_SILO);
    teff__mutex_init(&directory, TEFF__RANK_DIRECTORY);
    teff__mutex_lock(&directory);
    teff__mutex_lock(&silo);
}

Test(mutex, two_of_one_rank_abort_in_debug_builds, .signal = SIGABRT)
{
    teff__mutex a, b;
    teff__mutex_init(&a, TEFF__RANK_DIRECTORY);
    teff__mutex_init(&b, TEFF__RANK_DIRECTORY);
    teff__mutex_lock(&a);
    teff__mutex_lock(&b);
}

Test(mutex, unlock_of_what_is_not_held_aborts_in_debug_builds, .signal = SIGABRT)
{
    teff__mutex_init(&mutex, TEFF__RANK_SILO);
    teff__mutex_unlock(&mutex);
}

#endif

static void set_counter(void *argument)
{
    (void)argument;
    teff__mutex_lock(&mutex);
    counter = 1;
    teff__condition_broadcast(&condition);
    teff__mutex_unlock(&mutex);
}

Test(condition, wait_ends_with_a_broadcast)
{
    static const int64_t timeouts_ns[] = { INT64_MAX, INT64_C(60000000000) };
    teff__mutex_init(&mutex, TEFF__RANK_SILO);
    teff__condition_init(&condition);
    for (size_t i = 0; i < 2; i++) {
        teff__thread thread;
        counter = 0;
        teff__mutex_lock(&mutex);
        cr_assert_eq(teff__thread_start(&thread, set_counter, NULL, "setter"), TEFF_OK);
        int64_t deadline_ns = teff__time_add(now_ns(), timeouts_ns[i]);
        while (counter == 0)
            cr_assert(teff__condition_wait(&condition, &mutex, deadline_ns));
        teff__mutex_unlock(&mutex);
        teff__thread_join(&thread);
    }
    teff__condition_finish(&condition);
    teff__mutex_finish(&mutex);
}

Test(condition, wait_ends_at_its_deadline_and_not_before)
{
    teff__mutex_init(&mutex, TEFF__RANK_SILO);
    teff__condition_init(&condition);
    teff__mutex_lock(&mutex);
    int64_t deadline_ns = now_ns() + 2000000;
    while (teff__condition_wait(&condition, &mutex, deadline_ns))
        ;
    cr_assert_geq(now_ns(), deadline_ns);
    cr_assert_not(teff__condition_wait(&condition, &mutex, 1));
    cr_assert_not(teff__condition_wait(&condition, &mutex, -1));
    cr_assert_not(teff__condition_wait(&condition, &mutex, INT64_MIN));
    teff__mutex_unlock(&mutex);
    teff__condition_finish(&condition);
    teff__mutex_finish(&mutex);
}

/* --- Wake-ups -------------------------------------------------------------------------------- */

static teff__atomic_u32 word;

Test(futex, wait_returns_at_once_when_the_word_has_changed)
{
    teff__atomic_u32_store_relaxed(&word, 1);
    teff__futex_wait(&word, 0, INT64_MAX);
}

Test(futex, wait_ends_at_its_deadline_and_not_before)
{
    int64_t deadline_ns = now_ns() + 2000000;
    while (now_ns() < deadline_ns) /* may wake for no reason, but not for ever */
        teff__futex_wait(&word, 0, deadline_ns);
    teff__futex_wait(&word, 0, 1);
    teff__futex_wait(&word, 0, -1);
    teff__futex_wait(&word, 0, INT64_MIN);
}

static void wait_for_word(void *argument)
{
    (void)argument;
    while (teff__atomic_u32_load_acquire(&word) == 0)
        teff__futex_wait(&word, 0, INT64_MAX);
}

Test(futex, wake_wakes_everyone_who_waits)
{
    teff__thread threads[3];
    for (int i = 0; i < 3; i++)
        cr_assert_eq(teff__thread_start(&threads[i], wait_for_word, NULL, "waiter"), TEFF_OK);
    teff__futex_wait(&word, 0, now_ns() + 2000000); /* they are probably waiting by then */
    teff__atomic_u32_store_release(&word, 1);
    teff__futex_wake(&word);
    for (int i = 0; i < 3; i++)
        teff__thread_join(&threads[i]);
}

static bool readable(int fd)
{
    struct pollfd watched = { .fd = fd, .events = POLLIN };
    return poll(&watched, 1, 0) == 1;
}

Test(wakeup, is_readable_from_send_to_clear)
{
    int fd = -1;
    cr_assert_eq(teff__wakeup_open(&fd), 0);
    cr_assert_not(readable(fd));
    teff__wakeup_send(fd);
    cr_assert(readable(fd));
    teff__wakeup_clear(fd);
    cr_assert_not(readable(fd));
    teff__wakeup_close(fd);
}

Test(wakeup, many_sends_are_cleared_at_once)
{
    int fd = -1;
    cr_assert_eq(teff__wakeup_open(&fd), 0);
    for (int i = 0; i < 1000; i++)
        teff__wakeup_send(fd);
    teff__wakeup_clear(fd);
    cr_assert_not(readable(fd));
    teff__wakeup_close(fd);
}

Test(wakeup, send_to_a_full_one_and_clear_of_an_empty_one_do_not_block)
{
    int fd = -1;
    const uint64_t full = UINT64_MAX - 1;
    cr_assert_eq(teff__wakeup_open(&fd), 0);
    teff__wakeup_clear(fd);
    cr_assert_eq(write(fd, &full, sizeof(full)), 8);
    teff__wakeup_send(fd);
    cr_assert(readable(fd));
    teff__wakeup_close(fd);
}

Test(wakeup, close_gives_the_descriptor_back)
{
    int fd = -1;
    cr_assert_eq(teff__wakeup_open(&fd), 0);
    cr_assert_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    teff__wakeup_close(fd);
    cr_assert_eq(fcntl(fd, F_GETFD), -1);
    teff__wakeup_close(-1);
}

Test(wakeup, without_descriptors_open_fails_and_changes_nothing)
{
    struct rlimit before, none = { 0, 0 };
    int fd = 4711;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    int r = teff__wakeup_open(&fd);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    cr_assert_eq(r, -EMFILE);
    cr_assert_eq(fd, 4711);
}
