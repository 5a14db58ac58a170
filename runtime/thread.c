/* SPDX-License-Identifier: MIT */
/*
 * Threads, locks and wake-ups on Linux: pthreads, futexes and eventfds.
 *
 * What can only fail by a bug of ours (a mutex that is no mutex, joining twice) is asserted; what
 * can fail for want of memory or descriptors is returned.
 */
#include "runtime/thread.h"

#include "teff/status.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A time of the monotonic clock; one that lies before its beginning has passed either way. */
static struct timespec timespec_at(int64_t ns)
{
    if (ns < 0)
        ns = 0;
    return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000),
                              .tv_nsec = (long)(ns % 1000000000) };
}

/* --- Locks ----------------------------------------------------------------------------------- */

#ifdef TEFF_DEBUG

/* Bit r: this thread holds a lock of rank r. The one thread-local; no part of a release build. */
static _Thread_local uint32_t ranks_held;

static void rank_take(teff__rank rank)
{
    teff_assert(ranks_held >> rank == 0);
    ranks_held |= UINT32_C(1) << rank;
}

static void rank_give(teff__rank rank)
{
    teff_assert((ranks_held >> rank & 1) != 0);
    ranks_held &= ~(UINT32_C(1) << rank);
}

/* Who waits holds nothing else: whoever is to wake it may need that first. */
static void rank_wait(teff__rank rank)
{
    teff_assert(ranks_held == UINT32_C(1) << rank);
}

#else

static inline void rank_take(teff__rank rank)
{
    (void)rank;
}

static inline void rank_give(teff__rank rank)
{
    (void)rank;
}

static inline void rank_wait(teff__rank rank)
{
    (void)rank;
}

#endif

void teff__mutex_init(teff__mutex *mutex, teff__rank rank)
{
    int r = pthread_mutex_init(&mutex->mutex, NULL);
    teff_assert(r == 0);
    mutex->rank = rank;
}

void teff__mutex_finish(teff__mutex *mutex)
{
    int r = pthread_mutex_destroy(&mutex->mutex);
    teff_assert(r == 0);
}

void teff__mutex_lock(teff__mutex *mutex)
{
    rank_take(mutex->rank); /* before it blocks: a deadlock would never come to tell */
    int r = pthread_mutex_lock(&mutex->mutex);
    teff_assert(r == 0);
}

void teff__mutex_unlock(teff__mutex *mutex)
{
    rank_give(mutex->rank);
    int r = pthread_mutex_unlock(&mutex->mutex);
    teff_assert(r == 0);
}

void teff__condition_init(teff__condition *condition)
{
    pthread_condattr_t attributes;
    int r = pthread_condattr_init(&attributes);
    teff_assert(r == 0);
    r = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    teff_assert(r == 0);
    r = pthread_cond_init(&condition->condition, &attributes);
    teff_assert(r == 0);
    (void)pthread_condattr_destroy(&attributes);
}

void teff__condition_finish(teff__condition *condition)
{
    int r = pthread_cond_destroy(&condition->condition);
    teff_assert(r == 0);
}

bool teff__condition_wait(teff__condition *condition, teff__mutex *mutex, int64_t deadline_ns)
{
    rank_wait(mutex->rank);
    if (deadline_ns == INT64_MAX) {
        int r = pthread_cond_wait(&condition->condition, &mutex->mutex);
        teff_assert(r == 0);
        return true;
    }
    struct timespec deadline = timespec_at(deadline_ns);
    int r = pthread_cond_timedwait(&condition->condition, &mutex->mutex, &deadline);
    teff_assert(r == 0 || r == ETIMEDOUT);
    return r == 0;
}

void teff__condition_broadcast(teff__condition *condition)
{
    int r = pthread_cond_broadcast(&condition->condition);
    teff_assert(r == 0);
}

/* --- Threads --------------------------------------------------------------------------------- */

enum {
    /* Room for a crash handler that walks stacks; the registers alone take up to 11 KiB (AMX). */
    SIGNAL_STACK_BYTES = 64 * 1024,
    NAME_BYTES = 16 /* the kernel's, with the NUL */
};

/*
 * What a new thread needs: handed over by its starter, unmapped by itself at its end. It is mapped
 * rather than allocated because no silo's memory outlives every thread, and before the thread
 * exists, while failing is still easy.
 */
typedef struct thread_start {
    void (*run)(void *argument);
    void *argument;
    char name[NAME_BYTES];
    _Alignas(TEFF__CACHE_LINE) char signal_stack[SIGNAL_STACK_BYTES];
} thread_start;

static thread_start *thread_start_map(void)
{
    void *start = mmap(NULL, sizeof(thread_start), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start != MAP_FAILED ? start : NULL;
}

static void thread_start_unmap(thread_start *start)
{
    int r = munmap(start, sizeof(*start));
    (void)r; /* at the limit of mappings it may be refused, and there is nobody to tell */
}

static void *thread_main(void *argument)
{
    thread_start *start = argument;
    const stack_t own = { .ss_sp = start->signal_stack, .ss_size = sizeof(start->signal_stack) };
    stack_t before; /* a sanitizer's, or none */
    int r = sigaltstack(&own, &before);
    teff_assert(r == 0);
    (void)pthread_setname_np(pthread_self(), start->name);

    start->run(start->argument);

    r = sigaltstack(&before, NULL);
    teff_assert(r == 0);
    thread_start_unmap(start);
    return NULL;
}

/* All but those that a thread's own instructions raise: blocked, they kill past every handler. */
static void signals_asynchronous(sigset_t *ret)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
    (void)sigfillset(ret);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        (void)sigdelset(ret, own[i]);
}

int teff__thread_start(teff__thread *thread, void (*run)(void *argument), void *argument,
                       const char *name)
{
    pthread_t id;
    sigset_t blocked, before;
    thread_start *start = thread_start_map();
    if (start == NULL)
        return TEFF_ENOMEM;
    start->run = run;
    start->argument = argument;
    memcpy(start->name, name, strnlen(name, NAME_BYTES - 1)); /* the rest is zeroed */

    /* A thread inherits its starter's mask: set around the start, no signal can come in between. */
    signals_asynchronous(&blocked);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int r = pthread_create(&id, NULL, thread_main, start);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0) {
        thread_start_unmap(start);
        return r == EAGAIN || r == ENOMEM ? TEFF_ENOMEM : -r;
    }
    thread->id = id;
    return TEFF_OK;
}

void teff__thread_join(teff__thread *thread)
{
    int r = pthread_join(thread->id, NULL);
    teff_assert(r == 0);
}

uint32_t teff__thread_cores(void)
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof(cores), &cores) == 0)
        return (uint32_t)CPU_COUNT(&cores);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than the set has bits */
    return online > 0 ? (uint32_t)online : 1;
}

/* --- Wake-ups -------------------------------------------------------------------------------- */

_Static_assert(sizeof(teff__atomic_u32) == sizeof(uint32_t), "the kernel compares 32 bits");

void teff__futex_wait(teff__atomic_u32 *word, uint32_t seen, int64_t deadline_ns)
{
    const struct timespec deadline = timespec_at(deadline_ns);
    /*
     * Of the kernel's ways to wait this one takes an absolute time, by the monotonic clock.
     * Whatever it answers, the caller looks at the word again.
     */
    (void)syscall(SYS_futex, &word->value, FUTEX_WAIT_BITSET_PRIVATE, seen,
                  deadline_ns != INT64_MAX ? &deadline : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
}

void teff__futex_wake(teff__atomic_u32 *word)
{
    (void)syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT_MAX);
}

int teff__wakeup_open(int *ret_fd)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

void teff__wakeup_send(int fd)
{
    const uint64_t one = 1;
    ssize_t r;
    do
        r = write(fd, &one, sizeof(one));
    while (r < 0 && errno == EINTR);
    teff_assert(r == (ssize_t)sizeof(one) || errno == EAGAIN); /* full: it is awake as it is */
}

void teff__wakeup_clear(int fd)
{
    uint64_t count;
    ssize_t r;
    do
        r = read(fd, &count, sizeof(count));
    while (r < 0 && errno == EINTR);
    teff_assert(r == (ssize_t)sizeof(count) || errno == EAGAIN); /* nothing was sent */
}

void teff__wakeup_close(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

void teff__fork_wipe(void *page, size_t size)
{
    (void)madvise(page, size, MADV_WIPEONFORK);
}
