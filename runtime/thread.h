/* SPDX-License-Identifier: MIT */
/*
 * Threads, locks and wake-ups: the seam behind which the machine's own stand.
 *
 * Lock ranks. A thread takes locks only in rising rank; debug builds check it. No lock is held over
 * a suspension or while a user's code runs.
 */
#ifndef TEFF_RUNTIME_THREAD_H
#define TEFF_RUNTIME_THREAD_H

#include "runtime/assert.h"
#include "runtime/atomic.h"

#include <pthread.h>

/* The order in which locks may be taken: a holder of one may take only those below it here. */
typedef enum teff__rank {
    TEFF__RANK_SILO = 1,     /* a silo's state: start, stop, clients */
    TEFF__RANK_INSPECT = 2,  /* who is asked for a count or a dump, and who has answered */
    TEFF__RANK_DIRECTORY = 3 /* a shard of the grain directory: nothing is called under it */
} teff__rank;

typedef struct teff__mutex {
    pthread_mutex_t mutex;
    teff__rank rank;
} teff__mutex;

TEFF__INTERNAL void teff__mutex_init(teff__mutex *mutex, teff__rank rank);
TEFF__INTERNAL void teff__mutex_finish(teff__mutex *mutex);
TEFF__INTERNAL void teff__mutex_lock(teff__mutex *mutex);
TEFF__INTERNAL void teff__mutex_unlock(teff__mutex *mutex);

/* A condition whose waits end by the monotonic clock. */
typedef struct teff__condition {
    pthread_cond_t condition;
} teff__condition;

TEFF__INTERNAL void teff__condition_init(teff__condition *condition);
TEFF__INTERNAL void teff__condition_finish(teff__condition *condition);
/* False: `deadline_ns` (monotonic; INT64_MAX for none) passed. May wake for no reason. */
TEFF__INTERNAL bool teff__condition_wait(teff__condition *condition, teff__mutex *mutex,
                                         int64_t deadline_ns);
TEFF__INTERNAL void teff__condition_broadcast(teff__condition *condition);

/*
 * Starts a thread that has every asynchronous signal blocked and an alternate signal stack of its
 * own. TEFF_ENOMEM, or the negated errno of pthread_create.
 */
typedef struct teff__thread {
    pthread_t id;
} teff__thread;
TEFF__INTERNAL int teff__thread_start(teff__thread *thread, void (*run)(void *argument),
                                      void *argument, const char *name);
TEFF__INTERNAL void teff__thread_join(teff__thread *thread);

/*
 * A word that is different for every live thread: its thread pointer, without a call where the
 * compiler knows it.
 */
static inline uintptr_t teff__thread_self(void)
{
#if defined(__x86_64__) && !defined(__ILP32__)
    uintptr_t self;
    __asm__("movq %%fs:0, %0" : "=r"(self));
    return self;
#else
    return (uintptr_t)pthread_self();
#endif
}

/* How many cores this process may run on. */
TEFF__INTERNAL uint32_t teff__thread_cores(void);

/*
 * A word to wait on (a futex on Linux). wait returns when the word is not `seen` any more, or
 * `deadline_ns` has passed (monotonic; INT64_MAX for none), or for no reason.
 */
TEFF__INTERNAL void teff__futex_wait(teff__atomic_u32 *word, uint32_t seen, int64_t deadline_ns);
TEFF__INTERNAL void teff__futex_wake(teff__atomic_u32 *word);

/*
 * Makes a page that was reserved read as zeroes in a child that forks, where the kernel can (4.14).
 * So a word in it tells a child that the threads it counts on are not there, at the price of a
 * load.
 */
TEFF__INTERNAL void teff__fork_wipe(void *page, size_t size);

/* A thread's private alarm clock: a file descriptor that a loop watches (an eventfd). */
TEFF__INTERNAL int teff__wakeup_open(int *ret_fd); /* 0 or a negated errno */
TEFF__INTERNAL void teff__wakeup_send(int fd);
TEFF__INTERNAL void teff__wakeup_clear(int fd);
TEFF__INTERNAL void teff__wakeup_close(int fd); /* -1 is allowed */

#endif
