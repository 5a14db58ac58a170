/* SPDX-License-Identifier: MIT */
#include "fiber_scene.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(TEFF__FIBER_ASAN) || defined(TEFF__FIBER_TSAN)
#define UNDER_SANITIZER 1
#else
#define UNDER_SANITIZER 0
#endif

#ifdef TEFF_HAVE_VALGRIND
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

/* Not on the stack of a test: some are large. */
static fiber_scene scene;
static teff__fiber *fibers[30000];

static void take_all(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        fibers[i] = scene_take(&scene);
        cr_assert_not_null(fibers[i], "fiber %u", i);
    }
}

/*
 * ------------------------------------------------------------------------------------------------
 * switching
 */

static void job_leave_once(fiber_scene *s)
{
    volatile uint64_t mine = s->number;
    scene_leave(s);
    s->number = mine;
}

static void job_registers(fiber_scene *s)
{
    int lost = registers_lost(s);
    cr_assert_eq(lost, 0, "register %d", lost - 1);
}

Test(fiber, round_trips_keep_the_registers_that_a_call_keeps)
{
    cr_assert_eq(scene_init(&scene, 0, 0, job_registers), 0);
    take_all(3);
    for (int round = 0; round < 4; round++) {
        for (uint64_t i = 0; i < 3; i++) {
            scene.number = i + 1;
            scene_enter(&scene, fibers[i]);
        }
    }
    cr_assert_eq(scene.done, 3);
    teff__fiber_pool_finish(&scene.pool);
}

/* More values than there are registers, of every kind that has its own. */
static void job_locals(fiber_scene *s)
{
    uint64_t n = s->number, a = n + 1, b = n + 2, c = n + 3, d = n + 4, e = n + 5, f = n + 6,
             g = n + 7;
    double x = (double)n + 0.5, y = x * 2, z = x * 3;
    long double wide = (long double)n / 3;
    char text[16];
    (void)snprintf(text, sizeof text, "fiber %d", (int)n);
    for (int i = 0; i < 3; i++) {
        scene_leave(s);
        a++, b++, c++, d++, e++, f++, g++;
        x += 1, y += 1, z += 1, wide += 1;
    }
    cr_assert(a == n + 4 && b == n + 5 && c == n + 6 && d == n + 7);
    cr_assert(e == n + 8 && f == n + 9 && g == n + 10);
    cr_assert(x == (double)n + 3.5 && y == (double)n * 2 + 4 && z == (double)n * 3 + 4.5);
    cr_assert(wide == (long double)n / 3 + 1 + 1 + 1);
    cr_assert_eq(strtoull(text + 6, NULL, 10), n);
}

Test(fiber, round_trips_keep_locals)
{
    cr_assert_eq(scene_init(&scene, 0, 0, job_locals), 0);
    take_all(100);
    for (int round = 0; round < 4; round++) {
        for (uint64_t i = 0; i < 100; i++) {
            scene.number = i;
            scene_enter(&scene, fibers[i]);
        }
    }
    cr_assert_eq(scene.done, 100);
    teff__fiber_pool_finish(&scene.pool);
}

static void job_pass_on(fiber_scene *s)
{
    teff__fiber *self = s->running;
    if (s->number < 9) {
        s->running = fibers[++s->number];
        teff__fiber_switch(self, s->running);
    }
}

Test(fiber, fibers_switch_to_each_other)
{
    cr_assert_eq(scene_init(&scene, 0, 0, job_pass_on), 0);
    take_all(10);
    scene_enter(&scene, fibers[0]);
    cr_assert_eq(scene.number, 9);
    cr_assert_eq(scene.done, 1, "the last came to its end, nine wait");
    teff__fiber_pool_finish(&scene.pool);
}

Test(fiber, what_is_put_last_is_taken_first_and_goes_on)
{
    cr_assert_eq(scene_init(&scene, 0, 0, job_leave_once), 0);
    take_all(2);
    for (uint64_t i = 0; i < 2; i++) {
        scene_enter(&scene, fibers[i]);
        scene_enter(&scene, fibers[i]);
        teff__fiber_pool_put(&scene.pool, fibers[i]);
    }
    cr_assert_eq(scene.done, 2);
    cr_assert_eq(scene_take(&scene), fibers[1]);
    cr_assert_eq(scene_take(&scene), fibers[0]);
    cr_assert_eq(scene.pool.made, 2);
    scene_enter(&scene, fibers[1]);
    scene_enter(&scene, fibers[1]);
    cr_assert_eq(scene.done, 3);
    teff__fiber_pool_finish(&scene.pool);
}

static void job_nothing(fiber_scene *s)
{
    (void)s;
}

static void return_at_once(void *argument)
{
    (void)argument;
}

static void job_run_that_returns(fiber_scene *s)
{
    s->pool.run = return_at_once;
    teff__fiber *self = s->running;
    teff__fiber_switch(self, scene_take(s));
}

Test(fiber, a_function_that_returns_is_an_assertion)
{
    int status = status_of_child(0, job_run_that_returns);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    cr_assert_eq(status_of_child(0, job_nothing), 0);
}

/*
 * -------------------------------------------------------------------------------------------------
 * -- limits
 */

Test(fiber, other_stack_sizes_are_invalid)
{
    static const size_t wrong[] = {
        1, 12288, 16383, 16385, 65536 + 512, 16777216 + 4096, SIZE_MAX
    };
    static const size_t right[] = { 16384, 20480, 65536, 16777216 };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_assert_eq(scene_init(&scene, wrong[i], 0, job_leave_once), TEFF_EINVAL);
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        cr_assert_eq(scene_init(&scene, right[i], 0, job_leave_once), 0);
        take_all(2);
        cr_assert_geq(fibers[1]->stack_bytes, right[i] - 2 * sizeof(teff__fiber));
        scene_enter(&scene, fibers[1]);
        teff__fiber_pool_finish(&scene.pool);
    }
}

Test(fiber, a_reached_limit_is_an_error_until_one_is_put)
{
    cr_assert_eq(scene_init(&scene, 0, 3, job_leave_once), 0);
    take_all(3);
    cr_assert_eq(teff__fiber_pool_reserve(&scene.pool), TEFF_ELIMIT);
    teff__fiber_pool_put(&scene.pool, fibers[1]);
    cr_assert_eq(teff__fiber_pool_reserve(&scene.pool), 0);
    cr_assert_eq(teff__fiber_pool_take(&scene.pool), fibers[1]);
    cr_assert_eq(teff__fiber_pool_reserve(&scene.pool), TEFF_ELIMIT);
    teff__fiber_pool_finish(&scene.pool);
}

Test(fiber, without_memory_nothing_is_reserved_and_nothing_lost)
{
    cr_assert_eq(scene_init(&scene, 0, 0, job_leave_once), 0);
    teff__memory_fail_at(&scene.memory, 1);
    cr_assert_eq(teff__fiber_pool_reserve(&scene.pool), TEFF_ENOMEM);
    cr_assert_eq(scene.pool.made, 0);
    take_all(64);
    teff__memory_fail_at(&scene.memory, 1);
    cr_assert_eq(teff__fiber_pool_reserve(&scene.pool), TEFF_ENOMEM, "a second slab");
    take_all(65);
    scene_enter(&scene, fibers[64]);
    teff__fiber_pool_finish(&scene.pool);
}

static size_t resident_bytes(void)
{
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "%lu %lu", &total, &resident), 2);
    (void)fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

Test(fiber, thirty_thousand_are_suspended_at_once_in_8_kib_each)
{
    uint32_t count =
        RUNNING_ON_VALGRIND ? 500 : 30000; /* it walks a list of stacks at every switch */
    cr_assert_eq(scene_init(&scene, 0, count, job_leave_once), 0);
    if (scene.pool.made_max < count) {
        cr_skip_test("this kernel has no guard markers: %u stacks here", scene.pool.made_max);
        return;
    }
    size_t before = resident_bytes();
    take_all(count);
    for (uint32_t i = 0; i < count; i++) {
        scene.number = i;
        scene_enter(&scene, fibers[i]);
    }
    size_t each = (resident_bytes() - before) / count;
    if (!UNDER_SANITIZER && !RUNNING_ON_VALGRIND) {
        cr_log_info("%zu bytes resident per suspended fiber", each);
        cr_assert_leq(each, 8192, "%zu", each);
    }
    cr_assert_eq(teff__fiber_pool_reserve(&scene.pool), TEFF_ELIMIT);
    cr_assert_eq(scene.done, 0);
    for (uint32_t i = 0; i < count; i++) {
        scene_enter(&scene, fibers[i]);
        cr_assert_eq(scene.number, i);
    }
    cr_assert_eq(scene.done, count);
    teff__fiber_pool_finish(&scene.pool);
}

/*
 * -------------------------------------------------------------------------------------------------
 * - overrun
 */

Test(fiber, deep_recursion_faults_at_the_guard)
{
    cr_assert(faulted_at_guard(status_of_child(0, job_overflow_slowly)));
    cr_assert(faulted_at_guard(status_of_child(16384, job_overflow_slowly)));
}

Test(fiber, one_large_frame_near_the_end_faults_at_the_guard)
{
    cr_assert(faulted_at_guard(status_of_child(0, job_overflow_at_once)));
}

static void job_overrun_of_a_local(fiber_scene *s)
{
    volatile char local[16];
    volatile size_t behind = sizeof local;
    (void)dup2((int)s->number, STDERR_FILENO);
    volatile char *at = local; /* an index into the array the other sanitizer would see first */
    at[behind] = 1;
}

Test(fiber, the_address_sanitizer_sees_an_overrun_on_a_fiber)
{
#ifndef TEFF__FIBER_ASAN
    cr_skip_test("only in a build with the address sanitizer");
#endif
    int ends[2];
    char report[4096];
    size_t length = 0;
    ssize_t got = 0;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)scene_init(&scene, 0, 0, job_overrun_of_a_local);
        scene.number = (uint64_t)ends[1];
        scene_enter(&scene, scene_take(&scene));
        _exit(0);
    }
    (void)close(ends[1]);
    while (length < sizeof report - 1 &&
           (got = read(ends[0], report + length, sizeof report - 1 - length)) > 0)
        length += (size_t)got;
    report[length] = '\0';
    (void)close(ends[0]);
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_neq(status, 0);
    cr_assert_not_null(strstr(report, "stack-buffer-overflow"), "%s", report);
    cr_assert_not_null(strstr(report, "'local'"), "it knows the frame: %s", report);
}

/*
 * -------------------------------------------------------------------------------------------------
 * ---- trim
 */

/* Goes down until 4 KiB are left, and comes back. */
static void job_deep(fiber_scene *s)
{
    (void)descend(s, 4096, nothing);
}

static size_t resident_pages(const teff__fiber *fiber)
{
    unsigned char in[TEFF__FIBER_STACK_BYTES_MAX / 4096];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0, pages = scene.pool.stack_bytes / page;
    cr_assert_eq(mincore(fiber->stack_low, pages * page, in), 0);
    for (size_t i = 0; i < pages; i++)
        count += in[i] & 1;
    return count;
}

static uint32_t trimmed(uint32_t count)
{
    uint32_t small = 0;
    for (uint32_t i = 0; i < count; i++)
        small += resident_pages(fibers[i]) <= 2;
    return small;
}

Test(fiber, trim_gives_deep_pages_back_and_leaves_the_latest_fibers_alone)
{
    cr_assert_eq(scene_init(&scene, 0, 0, job_deep), 0);
    take_all(26);
    for (int i = 25; i >= 0; i--) {
        scene_enter(&scene, fibers[i]);
        teff__fiber_pool_put(&scene.pool, fibers[i]);
    }
    cr_assert_eq(scene.done, 26);
    cr_assert_eq(trimmed(26), 0);
    teff__fiber_pool_trim(&scene.pool, 3);
    cr_assert_eq(trimmed(26), 3, "at most so many at a time");
    teff__fiber_pool_trim(&scene.pool, UINT32_MAX);
    cr_assert_eq(trimmed(26), 10, "16 are about to run again");
    for (uint32_t i = 0; i < 16; i++)
        cr_assert_gt(resident_pages(fibers[i]), 8);
    teff__fiber_pool_finish(&scene.pool);
}

Test(fiber, a_trimmed_fiber_goes_on_where_it_was)
{
    uint64_t allocations;
    cr_assert_eq(scene_init(&scene, 0, 0, job_deep), 0);
    take_all(40);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++) {
            scene_enter(&scene, fibers[i]);
            teff__fiber_pool_put(&scene.pool, fibers[i]);
        }
        teff__fiber_pool_trim(&scene.pool, UINT32_MAX);
        allocations = teff__atomic_u64_load_relaxed(&scene.memory.allocations);
        take_all(40);
        cr_assert_eq(teff__atomic_u64_load_relaxed(&scene.memory.allocations), allocations);
    }
    cr_assert_eq(scene.done, 120);
    cr_assert_eq(scene.pool.made, 40);
    teff__fiber_pool_finish(&scene.pool);
}

static void job_suspended_far_down_leaf(fiber_scene *s, int depth)
{
    volatile unsigned char frame[1024];
    memset((void *)(uintptr_t)frame, depth + 1, sizeof frame);
    if (depth > 0)
        job_suspended_far_down_leaf(s, depth - 1);
    else
        scene_leave(s);
    for (size_t i = 0; i < sizeof frame; i++)
        cr_assert_eq(frame[i], depth + 1);
}

static void job_suspended_far_down(fiber_scene *s)
{
    job_suspended_far_down_leaf(s, 20);
}

Test(fiber, trim_leaves_live_frames_alone_however_deep)
{
    cr_assert_eq(scene_init(&scene, 0, 0, job_suspended_far_down), 0);
    take_all(20);
    for (int i = 19; i >= 0; i--) {
        scene_enter(&scene, fibers[i]);
        teff__fiber_pool_put(&scene.pool, fibers[i]); /* a loop may well be parked so */
    }
    teff__fiber_pool_trim(&scene.pool, UINT32_MAX);
    for (int i = 0; i < 20; i++)
        scene_enter(&scene, fibers[i]);
    cr_assert_eq(scene.done, 20);
    teff__fiber_pool_finish(&scene.pool);
}

/*
 * -------------------------------------------------------------------------------------------------
 * -- finish
 */

static size_t mapped_pages(void)
{
    unsigned long total = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "%lu", &total), 1);
    (void)fclose(file);
    return total;
}

Test(fiber, dropping_suspended_fibers_leaves_nothing_behind)
{
    size_t before = 0;
    for (int round = 0; round < 1000; round++) {
        if (round == 10)
            before = mapped_pages();
        cr_assert_eq(scene_init(&scene, 0, 0, job_locals), 0);
        take_all(2);
        scene_enter(&scene, fibers[0]);
        scene_enter(&scene, fibers[1]);
        teff__fiber_pool_finish(&scene.pool);
    }
    cr_assert_eq(mapped_pages(), before);
}

Test(fiber, an_unused_pool_and_a_zeroed_one_finish)
{
    cr_assert_eq(scene_init(&scene, 0, 0, job_locals), 0);
    teff__fiber_pool_trim(&scene.pool, UINT32_MAX);
    teff__fiber_pool_finish(&scene.pool);
    teff__fiber_pool_finish(&scene.pool);
}
