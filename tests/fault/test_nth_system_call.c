/* SPDX-License-Identifier: MIT */
/*
 * The same whole life, on threads, with its n-th system call of one kind failing: threads that
 * cannot be created, loops, polls and eventfds that cannot be opened, memory that cannot be mapped
 * or protected. Each time every call ends once, with success or an honest error; the silo can be
 * destroyed; and no thread, descriptor or mapping is left.
 *
 * The linker puts the functions below in the place of those that the library calls (--wrap). How
 * many calls of a kind a life makes depends on when its threads run, so a kind is through when some
 * lives in a row have not come to the n-th.
 */
#include <uv.h>

int __real_uv_loop_init(uv_loop_t *loop); /* NOLINT(bugprone-reserved-identifier) */
#define LIFE_LOOP_INIT __real_uv_loop_init
#include "life.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

typedef enum kind {
    THREAD,
    EVENTFD,
    LOOP,
    POLL,
    POLL_START,
    MAP,
    PROTECT,
    ADVISE,
    OPEN,
    KINDS
} kind;

enum { MISSES = 2, LIVES_MAX = 4000, WARM = 3, MAPPINGS_GROWN_MAX = 64, ADVICE_GUARD = 102 };

static struct {
    kind kind;
    int error; /* a number of errno's */
    teff__atomic_u64 countdown;
    teff__atomic_u64 mapped; /* mappings of the library's, now */
    bool no_markers;         /* a kernel without guards in its page tables */
} failing;

/* Whether this call of that kind is the one that fails. */
static bool fails(kind of)
{
    uint64_t n = teff__atomic_u64_load_relaxed(&failing.countdown);
    while (of == failing.kind && n != 0)
        if (teff__atomic_u64_cas_relaxed(&failing.countdown, &n, n - 1))
            return n == 1;
    return false;
}

/* What the linker calls the functions that it replaces, and those that replace them. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __real_eventfd(unsigned, int);
int __wrap_eventfd(unsigned, int);
int __wrap_uv_loop_init(uv_loop_t *);
int __real_uv_poll_init(uv_loop_t *, uv_poll_t *, int);
int __wrap_uv_poll_init(uv_loop_t *, uv_poll_t *, int);
int __real_uv_poll_start(uv_poll_t *, int, uv_poll_cb);
int __wrap_uv_poll_start(uv_poll_t *, int, uv_poll_cb);
void *__real_mmap64(void *, size_t, int, int, int, off_t);
void *__wrap_mmap64(void *, size_t, int, int, int, off_t);
int __real_munmap(void *, size_t);
int __wrap_munmap(void *, size_t);
int __real_mprotect(void *, size_t, int);
int __wrap_mprotect(void *, size_t, int);
int __real_madvise(void *, size_t, int);
int __wrap_madvise(void *, size_t, int);
int __real_open64(const char *, int, ...);
int __wrap_open64(const char *, int, ...);

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    return fails(THREAD) ? failing.error : __real_pthread_create(id, attributes, run, argument);
}

/* As the system's: -1, and errno. */
static bool fails_by_errno(kind of)
{
    if (!fails(of))
        return false;
    errno = failing.error;
    return true;
}

int __wrap_eventfd(unsigned count, int flags)
{
    return fails_by_errno(EVENTFD) ? -1 : __real_eventfd(count, flags);
}

int __wrap_uv_loop_init(uv_loop_t *loop)
{
    return fails(LOOP) ? -failing.error : __real_uv_loop_init(loop);
}

int __wrap_uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd)
{
    return fails(POLL) ? -failing.error : __real_uv_poll_init(loop, poll, fd);
}

int __wrap_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb run)
{
    return fails(POLL_START) ? -failing.error : __real_uv_poll_start(poll, events, run);
}

void *__wrap_mmap64(void *at, size_t size, int access, int flags, int fd, off_t offset)
{
    if (fails_by_errno(MAP))
        return MAP_FAILED;
    void *mapped = __real_mmap64(at, size, access, flags, fd, offset);
    (void)teff__atomic_u64_add_relaxed(&failing.mapped, mapped != MAP_FAILED);
    return mapped;
}

int __wrap_munmap(void *at, size_t size)
{
    const int r = __real_munmap(at, size);
    (void)teff__atomic_u64_add_relaxed(&failing.mapped, r == 0 ? UINT64_MAX : 0);
    return r;
}

int __wrap_mprotect(void *at, size_t size, int access)
{
    return fails_by_errno(PROTECT) ? -1 : __real_mprotect(at, size, access);
}

int __wrap_madvise(void *at, size_t size, int advice)
{
    if (advice == ADVICE_GUARD && failing.no_markers) {
        errno = EINVAL;
        return -1;
    }
    return fails_by_errno(ADVISE) ? -1 : __real_madvise(at, size, advice);
}

int __wrap_open64(const char *path, int flags, ...)
{
    return fails_by_errno(OPEN) ? -1 : __real_open64(path, flags);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* --- What is left of a life ---------------------------------------------------------------- */

typedef struct usage {
    uint64_t threads, descriptors, mappings;
} usage;

static uint64_t count_entries(const char *path)
{
    uint64_t count = 0;
    DIR *folder = opendir(path);
    cr_assert_not_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(folder);
    return count;
}

static uint64_t count_mappings(void)
{
    uint64_t count = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    cr_assert_not_null(file);
    for (int c; (c = fgetc(file)) != EOF;)
        count += c == '\n';
    (void)fclose(file);
    return count;
}

static usage look(void)
{
    return (usage){ .threads = count_entries("/proc/self/task"),
                    .descriptors = count_entries("/proc/self/fd"),
                    .mappings = count_mappings() };
}

/* --- The lives ------------------------------------------------------------------------------ */

static bool honest(int r)
{
    return r == TEFF_ENOMEM || (failing.error != 0 && r == -failing.error);
}

static void go_on(void)
{
}

/* One life, whose n-th call of that kind fails. True: it came to it. */
static bool live_with_failure(kind of, int error, uint64_t n)
{
    const teff_silo_options options = {
        .struct_size = sizeof(options), .workers = 2, .seed = 1, .stop_timeout_ns = SECOND
    };
    const usage before = look();
    failing.kind = of;
    failing.error = error;
    teff__atomic_u64_store_relaxed(&failing.countdown, n);
    live(&options, go_on, go_on);
    const bool hit = teff__atomic_u64_load_relaxed(&failing.countdown) == 0;
    teff__atomic_u64_store_relaxed(&failing.countdown, 0);

    const usage after = look();
    cr_assert_eq(count_of(&seen.wrong), 0, "kind %d, n = %llu: %s", (int)of, (unsigned long long)n,
                 seen.text);
    cr_assert_eq(after.threads, before.threads, "kind %d, n = %llu", (int)of,
                 (unsigned long long)n);
    cr_assert_eq(after.descriptors, before.descriptors, "kind %d, n = %llu", (int)of,
                 (unsigned long long)n);
    cr_assert_eq(teff__atomic_u64_load_relaxed(&failing.mapped), 0, "kind %d, n = %llu", (int)of,
                 (unsigned long long)n);
    return hit || n == 0;
}

/* The process's first loop opens what stays. */
static void begin_process(void)
{
    uv_loop_t first;
    cr_assert_eq(__real_uv_loop_init(&first), 0);
    cr_assert_eq(uv_loop_close(&first), 0);
}

/* How many lives came to their failure. */
static uint64_t fail_each(kind of, int error)
{
    uint64_t hits = 0;
    usage warm = { 0 };
    begin_process();
    for (int i = 0; i < WARM; i++) {
        (void)live_with_failure(of, error, 0);
        cr_assert_eq(count_of(&seen.failed), 0);
    }
    warm = look();
    for (uint64_t n = 1, misses = 0; misses < MISSES; n++) {
        const bool hit = live_with_failure(of, error, n);
        hits += hit;
        misses = hit ? 0 : misses + 1;
        cr_assert_lt(n, LIVES_MAX);
    }
    /* Beside what was counted: what the allocators and the C library keep, some at most. */
    cr_assert_lt(look().mappings, warm.mappings + MAPPINGS_GROWN_MAX);
    return hits;
}

Test(nth_system_call, a_thread_that_cannot_be_created)
{
    cr_assert_eq(fail_each(THREAD, EAGAIN), 2);
    cr_assert_eq(fail_each(THREAD, EPERM), 2);
}

Test(nth_system_call, an_eventfd_that_cannot_be_opened)
{
    cr_assert_eq(fail_each(EVENTFD, EMFILE), 3); /* of each worker, and of the client on a loop */
}

Test(nth_system_call, a_loop_that_cannot_be_made)
{
    cr_assert_eq(fail_each(LOOP, EMFILE), 2);
}

Test(nth_system_call, a_poll_that_cannot_be_made)
{
    cr_assert_eq(fail_each(POLL, ENOMEM), 3);
}

/* The workers' only: libuv has no way to fail there on Linux, and a client's is not looked at. */
Test(nth_system_call, a_poll_that_cannot_be_started)
{
    begin_process();
    for (uint64_t n = 1; n <= 2; n++)
        cr_assert(live_with_failure(POLL_START, ENOMEM, n));
}

Test(nth_system_call, memory_that_cannot_be_mapped)
{
    cr_assert_geq(fail_each(MAP, ENOMEM), 10);
}

Test(nth_system_call, a_stack_whose_guard_cannot_be_protected)
{
    failing.no_markers = true;
    cr_assert_geq(fail_each(PROTECT, ENOMEM), 6); /* 9 to 11: turns that wait at one time */
}

Test(nth_system_call, memory_that_cannot_be_advised)
{
    cr_assert_geq(fail_each(ADVISE, ENOMEM), 3);
}

Test(nth_system_call, a_limit_that_cannot_be_read)
{
    failing.no_markers = true;
    cr_assert_eq(fail_each(OPEN, ENFILE), 2);
}
