/* SPDX-License-Identifier: MIT */
#include "runtime/memory.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static teff__memory memory;

static void begin(void)
{
    teff__memory_init(&memory, 0);
}

/* The address sanitizer reads this: it is to refuse what is too large, as an allocator does. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

TestSuite(memory, .init = begin);
TestSuite(pool, .init = begin);

static uint64_t bytes(void)
{
    return teff__atomic_u64_load_relaxed(&memory.bytes);
}

static uint64_t allocations(void)
{
    return teff__atomic_u64_load_relaxed(&memory.allocations);
}

static bool zeroed(const void *pointer, size_t size)
{
    const unsigned char *byte = pointer;
    for (size_t i = 0; i < size; i++)
        if (byte[i] != 0)
            return false;
    return true;
}

/* --- Allocations ----------------------------------------------------------------------------- */

Test(memory, is_zeroed_also_where_it_was_used_before)
{
    static const size_t sizes[] = { 1, 8, 24, 100, 1000, 4096, 100000, 1 << 20 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int round = 0; round < 10; round++) {
            void *a = teff__memory_alloc(&memory, sizes[i]);
            void *b = teff__memory_alloc_line(&memory, sizes[i]);
            cr_assert(a != NULL && b != NULL);
            cr_assert(zeroed(a, sizes[i]) && zeroed(b, sizes[i]), "%zu bytes", sizes[i]);
            memset(a, 0xff, sizes[i]);
            memset(b, 0xff, sizes[i]);
            teff__memory_free(&memory, a, sizes[i]);
            teff__memory_free(&memory, b, sizes[i]);
        }
}

Test(memory, is_aligned_whatever_its_size)
{
    for (size_t size = 0; size < 600; size++) {
        void *a[4], *b[4]; /* several at once: each lies somewhere else */
        for (int i = 0; i < 4; i++) {
            a[i] = teff__memory_alloc(&memory, size);
            b[i] = teff__memory_alloc_line(&memory, size);
            cr_assert(a[i] != NULL && (uintptr_t)a[i] % 16 == 0, "%zu bytes", size);
            cr_assert(b[i] != NULL && (uintptr_t)b[i] % 64 == 0, "%zu bytes", size);
        }
        for (int i = 0; i < 4; i++) {
            teff__memory_free(&memory, a[i], size);
            teff__memory_free(&memory, b[i], size);
        }
    }
}

Test(memory, of_no_bytes_has_an_address_of_its_own)
{
    void *a = teff__memory_alloc(&memory, 0);
    void *b = teff__memory_alloc(&memory, 0);
    cr_assert(a != NULL && b != NULL && a != b);
    cr_assert_eq(bytes(), 0);
    teff__memory_free(&memory, a, 0);
    teff__memory_free(&memory, b, 0);
}

Test(memory, of_impossible_sizes_is_refused_and_not_counted)
{
    static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 8, (size_t)PTRDIFF_MAX + 1,
                                    (size_t)1 << 60 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        cr_assert_null(teff__memory_alloc(&memory, sizes[i]));
        cr_assert_null(teff__memory_alloc_line(&memory, sizes[i]));
    }
    cr_assert_eq(bytes(), 0);
    cr_assert_eq(allocations(), 0);
}

Test(memory, is_counted_as_asked_for)
{
    void *a = teff__memory_alloc(&memory, 100);
    cr_assert_eq(bytes(), 100);
    void *b = teff__memory_alloc_line(&memory, 1);
    cr_assert_eq(bytes(), 101);
    teff__memory_free(&memory, a, 100);
    cr_assert_eq(bytes(), 1);
    teff__memory_free(&memory, b, 1);
    cr_assert_eq(bytes(), 0);
    cr_assert_eq(allocations(), 2);
}

Test(memory, free_of_null_is_allowed)
{
    teff__memory_free(&memory, NULL, 100);
    teff__memory_release(&memory, NULL, 4096);
    cr_assert_eq(bytes(), 0);
}

Test(memory, freeing_more_than_there_is_aborts, .signal = SIGABRT)
{
    void *a = teff__memory_alloc(&memory, 100);
    teff__memory_free(&memory, a, 101);
}

Test(memory, limit_is_exact)
{
    teff__memory_init(&memory, 1000);
    void *a = teff__memory_alloc(&memory, 600);
    cr_assert_not_null(a);
    cr_assert_null(teff__memory_alloc(&memory, 401));
    void *b = teff__memory_alloc(&memory, 400);
    cr_assert_not_null(b);
    cr_assert_null(teff__memory_alloc(&memory, 1));
    cr_assert_null(teff__memory_alloc_line(&memory, 1));
    cr_assert_eq(bytes(), 1000);
    cr_assert_eq(allocations(), 2);
    teff__memory_free(&memory, b, 400);
    b = teff__memory_alloc_line(&memory, 400);
    cr_assert_not_null(b);
    teff__memory_free(&memory, a, 600);
    teff__memory_free(&memory, b, 400);
    cr_assert_null(teff__memory_alloc(&memory, 1001));
    a = teff__memory_alloc(&memory, 1000);
    cr_assert_not_null(a);
    teff__memory_free(&memory, a, 1000);
}

static teff__atomic_u32 greedy_done;

static void *ask_for_too_much(void *argument)
{
    void *got = NULL;
    for (int i = 0; i < 1000000 && got == NULL; i++)
        got = teff__memory_alloc(argument, 1001);
    teff__atomic_u32_store_relaxed(&greedy_done, 1);
    return got;
}

Test(memory, one_threads_refused_wish_does_not_refuse_another_that_fits)
{
    pthread_t greedy;
    void *got;
    teff__memory_init(&memory, 1000);
    cr_assert_eq(pthread_create(&greedy, NULL, ask_for_too_much, &memory), 0);
    while (teff__atomic_u32_load_relaxed(&greedy_done) == 0) {
        void *a = teff__memory_alloc(&memory, 1000);
        cr_assert_not_null(a);
        teff__memory_free(&memory, a, 1000);
    }
    cr_assert_eq(pthread_join(greedy, &got), 0);
    cr_assert_null(got);
    cr_assert_eq(bytes(), 0);
}

/* --- Injected failures ----------------------------------------------------------------------- */

/* Allocates and frees; whether it was given any. */
static bool given(void)
{
    void *pointer = teff__memory_alloc(&memory, 1);
    teff__memory_free(&memory, pointer, 1);
    return pointer != NULL;
}

Test(memory, nth_allocation_fails_once)
{
    teff__memory_fail_at(&memory, 3);
    cr_assert(given());
    cr_assert(given());
    cr_assert_not(given());
    cr_assert(given());
    cr_assert_eq(bytes(), 0);
    cr_assert_eq(allocations(), 3);
    teff__memory_fail_at(&memory, 1);
    teff__memory_fail_at(&memory, 0);
    cr_assert(given());
}

/* Takes memory in each way there is; 0 if all of it was given. Leaves nothing behind either way. */
static int scenario(void)
{
    int r = -1;
    void *a = NULL, *line = NULL, *reserved = NULL;
    teff__pool pool;
    teff__pool_init(&pool, &memory, 64, 100);
    a = teff__memory_alloc(&memory, 10);
    if (a == NULL)
        goto give_back;
    line = teff__memory_alloc_line(&memory, 20);
    if (line == NULL)
        goto give_back;
    reserved = teff__memory_reserve(&memory, 4096);
    if (reserved == NULL)
        goto give_back;
    void *object = teff__pool_take(&pool);
    if (object == NULL)
        goto give_back;
    teff__pool_put(&pool, object);
    r = 0;
give_back:
    teff__pool_finish(&pool);
    teff__memory_release(&memory, reserved, 4096);
    teff__memory_free(&memory, line, 20);
    teff__memory_free(&memory, a, 10);
    return r;
}

Test(memory, each_way_to_take_it_can_be_made_to_fail)
{
    for (uint64_t n = 1; n <= 4; n++) {
        teff__memory_fail_at(&memory, n);
        cr_assert_eq(scenario(), -1, "the %d. allocation", (int)n);
        cr_assert_eq(bytes(), 0);
        cr_assert_eq(teff__atomic_u64_load_relaxed(&memory.fail_at), 0);
    }
    teff__memory_fail_at(&memory, 5);
    cr_assert_eq(scenario(), 0);
    cr_assert_eq(bytes(), 0);
    cr_assert_eq(teff__atomic_u64_load_relaxed(&memory.fail_at), 1);
}

static void *count_failures(void *argument)
{
    int *failures = argument;
    for (int i = 0; i < 10000; i++) {
        void *a = teff__memory_alloc(&memory, 16);
        if (a == NULL)
            ++*failures;
        teff__memory_free(&memory, a, 16);
    }
    return NULL;
}

Test(memory, injected_failure_meets_one_thread_only)
{
    pthread_t threads[4];
    int failures[4] = { 0 };
    teff__memory_fail_at(&memory, 20000);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count_failures, &failures[i]), 0);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    cr_assert_eq(failures[0] + failures[1] + failures[2] + failures[3], 1);
    cr_assert_eq(allocations(), 39999);
    cr_assert_eq(bytes(), 0);
}

/* --- Reserved memory, and the allocator ------------------------------------------------------ */

static int resident(void *pointer, size_t size)
{
    unsigned char pages[256];
    int count = 0;
    cr_assert_leq(size / 4096, sizeof(pages));
    cr_assert_eq(mincore(pointer, size, pages), 0);
    for (size_t i = 0; i < size / 4096; i++)
        count += pages[i] & 1;
    return count;
}

Test(memory, reserved_is_zeroed_and_costs_pages_only_where_touched)
{
    size_t size = 256 * 4096; /* less than a huge page */
    unsigned char *a = teff__memory_reserve(&memory, size);
    cr_assert_not_null(a);
    cr_assert_eq((uintptr_t)a % 4096, 0);
    cr_assert_eq(resident(a, size), 0);
    a[4096] = 1;
    cr_assert_eq(resident(a, size), 1);
    cr_assert(zeroed(a, 4096) && zeroed(a + 4097, size - 4097));
    cr_assert_eq(bytes(), 0);
    cr_assert_eq(allocations(), 1);
    teff__memory_release(&memory, a, size);
    unsigned char page;
    cr_assert_eq(mincore(a, 4096, &page), -1, "it is still mapped");
}

Test(memory, names_the_allocator_it_was_built_with)
{
#if defined(TEFF_ALLOCATOR_MIMALLOC)
    cr_assert_str_eq(teff__memory_allocator(), "mimalloc");
#elif defined(TEFF_ALLOCATOR_JEMALLOC)
    cr_assert_str_eq(teff__memory_allocator(), "jemalloc");
#else
    cr_assert_str_eq(teff__memory_allocator(), "system");
#endif
}

Test(memory, purge_leaves_what_is_in_use)
{
    unsigned char *a = teff__memory_alloc(&memory, 100000);
    cr_assert_not_null(a);
    memset(a, 7, 100000);
    teff__memory_free(&memory, teff__memory_alloc(&memory, 1 << 20), 1 << 20);
    teff__memory_purge();
    for (int i = 0; i < 100000; i++)
        cr_assert_eq(a[i], 7);
    teff__memory_free(&memory, a, 100000);
}

/* --- Pools ----------------------------------------------------------------------------------- */

Test(pool, allocates_nothing_until_something_is_taken)
{
    teff__pool pool;
    teff__pool_init(&pool, &memory, 64, 100);
    cr_assert_eq(allocations(), 0);
    teff__pool_finish(&pool);
}

Test(pool, objects_are_whole_lines_of_their_own)
{
    static const size_t sizes[] = { 1, 64, 65, 200, 4000, 40000 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        teff__pool pool;
        unsigned char *objects[300];
        size_t size = sizes[i];
        teff__pool_init(&pool, &memory, size, 300);
        cr_assert(pool.object_size >= size && pool.object_size < size + 64);
        for (int k = 0; k < 300; k++) {
            objects[k] = teff__pool_take(&pool);
            cr_assert(objects[k] != NULL && (uintptr_t)objects[k] % 64 == 0);
            memset(objects[k], k & 0xff, pool.object_size);
        }
        for (int k = 0; k < 300; k++) {
            for (size_t at = 0; at < pool.object_size; at++)
                cr_assert_eq(objects[k][at], k & 0xff, "object %d of %zu bytes", k, size);
            teff__pool_put(&pool, objects[k]);
        }
        teff__pool_finish(&pool);
        cr_assert_eq(bytes(), 0);
    }
}

Test(pool, last_object_put_is_first_taken)
{
    teff__pool pool;
    teff__pool_init(&pool, &memory, 64, 100);
    void *a = teff__pool_take(&pool), *b = teff__pool_take(&pool);
    teff__pool_put(&pool, a);
    teff__pool_put(&pool, b);
    cr_assert_eq(teff__pool_take(&pool), b);
    cr_assert_eq(teff__pool_take(&pool), a);
    teff__pool_put(&pool, a);
    teff__pool_put(&pool, b);
    teff__pool_finish(&pool);
}

Test(pool, a_million_takes_and_puts_allocate_once)
{
    teff__pool pool;
    teff__pool_init(&pool, &memory, 64, 100);
    for (int i = 0; i < 1000000; i++) {
        void *a = teff__pool_take(&pool), *b = teff__pool_take(&pool);
        teff__pool_put(&pool, a);
        teff__pool_put(&pool, b);
    }
    cr_assert_eq(allocations(), 1);
    teff__pool_finish(&pool);
}

/* Takes as long as the pool gives, and lets it have all back. How many it gave. */
static uint32_t take_all(teff__pool *pool)
{
    teff__pool_link *chain = NULL, *link;
    uint32_t count = 0;
    while ((link = teff__pool_take(pool)) != NULL) {
        link->next = chain;
        chain = link;
        count++;
    }
    while ((link = chain) != NULL) {
        chain = link->next;
        teff__pool_put(pool, link);
    }
    return count;
}

Test(pool, gives_exactly_as_many_as_it_may)
{
    static const uint32_t maxima[] = { 0, 1, 5, 62, 63, 64, 1000 };
    for (size_t i = 0; i < sizeof(maxima) / sizeof(maxima[0]); i++) {
        teff__pool pool;
        teff__pool_init(&pool, &memory, 64, maxima[i]);
        cr_assert_eq(take_all(&pool), maxima[i]);
        cr_assert_eq(pool.made, maxima[i]);
        cr_assert_eq(take_all(&pool), maxima[i]);
        teff__pool_finish(&pool);
        cr_assert_eq(bytes(), 0);
    }
}

Test(pool, chunks_double_up_to_256_kib)
{
    /* A power of two less a line, for what the allocator needs to align it. */
    static const uint64_t expected[] = { 4032, 8128, 16320, 32704, 65472, 131008, 262080, 262080 };
    teff__pool pool;
    teff__pool_link *taken = NULL;
    teff__pool_init(&pool, &memory, 64, UINT32_MAX);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        uint64_t before = bytes();
        while (bytes() == before) {
            teff__pool_link *link = teff__pool_take(&pool);
            cr_assert_not_null(link);
            link->next = taken;
            taken = link;
        }
        cr_assert_eq(bytes() - before, expected[i], "chunk %zu", i);
    }
    while (taken != NULL) {
        teff__pool_link *next = taken->next;
        teff__pool_put(&pool, taken);
        taken = next;
    }
    teff__pool_finish(&pool);
    cr_assert_eq(bytes(), 0);
}

Test(pool, first_chunk_is_small_but_has_eight_objects)
{
    static const struct {
        size_t object_size;
        uint64_t bytes;
    } expected[] = { { 64, 64 + 62 * 64 }, { 1024, 64 + 15 * 1024 }, { 4032, 64 + 8 * 4032 } };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        teff__pool pool;
        teff__pool_init(&pool, &memory, expected[i].object_size, 1000);
        void *object = teff__pool_take(&pool);
        cr_assert_not_null(object);
        cr_assert_eq(bytes(), expected[i].bytes, "objects of %zu bytes", expected[i].object_size);
        teff__pool_put(&pool, object);
        teff__pool_finish(&pool);
    }
}

Test(pool, without_memory_take_is_null_and_works_again_later)
{
    teff__pool pool;
    teff__pool_init(&pool, &memory, 64, 100);
    teff__memory_fail_at(&memory, 1);
    cr_assert_null(teff__pool_take(&pool));
    cr_assert_eq(pool.made, 0);
    void *object = teff__pool_take(&pool);
    cr_assert_not_null(object);
    teff__pool_put(&pool, object);
    teff__pool_finish(&pool);
    cr_assert_eq(bytes(), 0);
}

Test(pool, at_the_limit_of_memory_what_was_given_stays_usable)
{
    teff__pool pool;
    teff__memory_init(&memory, 5000); /* the first chunk fits, the second does not */
    teff__pool_init(&pool, &memory, 64, 1000);
    cr_assert_eq(take_all(&pool), 62);
    cr_assert_eq(take_all(&pool), 62);
    teff__pool_finish(&pool);
    cr_assert_eq(bytes(), 0);
}

typedef struct foreign {
    teff__pool *pool;
    teff__pool_link *objects[1000];
    int chain; /* so many go back at once */
} foreign;

static void *put_back(void *argument)
{
    foreign *job = argument;
    for (int i = 0; i < 1000; i += job->chain) {
        for (int k = i; k < i + job->chain - 1; k++)
            job->objects[k]->next = job->objects[k + 1];
        teff__pool_put_foreign(job->pool, job->objects[i], job->objects[i + job->chain - 1]);
    }
    return NULL;
}

Test(pool, objects_that_another_thread_returned_are_taken_again)
{
    static foreign job = { .chain = 10 };
    teff__pool pool;
    pthread_t thread;
    teff__pool_init(&pool, &memory, 64, 1000);
    job.pool = &pool;
    for (int i = 0; i < 1000; i++)
        job.objects[i] = teff__pool_take(&pool);
    cr_assert_null(teff__pool_take(&pool));
    cr_assert_eq(pthread_create(&thread, NULL, put_back, &job), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    uint64_t before = allocations();
    cr_assert_eq(take_all(&pool), 1000);
    cr_assert_eq(allocations(), before);
    teff__pool_finish(&pool);
    cr_assert_eq(bytes(), 0);
}

static pthread_barrier_t together;

static void *put_back_together(void *argument)
{
    (void)pthread_barrier_wait(&together);
    return put_back(argument);
}

/* The owner goes on taking while four threads return: in the end it has each object once. */
Test(pool, objects_returned_by_several_threads_at_once_come_back_once_each, .timeout = 60)
{
    enum { ROUNDS = 200 };
    static foreign jobs[4];
    teff__pool pool;
    pthread_t threads[4];
    teff__pool_init(&pool, &memory, 64, 4000);
    cr_assert_eq(pthread_barrier_init(&together, NULL, 4), 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 4; i++) {
            jobs[i].pool = &pool;
            jobs[i].chain = i % 2 == 0 ? 1 : 10;
            for (int k = 0; k < 1000; k++)
                jobs[i].objects[k] = teff__pool_take(&pool);
        }
        cr_assert_null(teff__pool_take(&pool));
        for (int i = 0; i < 4; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, put_back_together, &jobs[i]), 0);
        teff__pool_link *chain = NULL;
        for (int taken = 0; taken < 4000;) { /* one that is lost is waited for until the timeout */
            teff__pool_link *object = teff__pool_take(&pool);
            if (object == NULL)
                continue;
            object->next = chain;
            chain = object;
            taken++;
        }
        for (int i = 0; i < 4; i++)
            cr_assert_eq(pthread_join(threads[i], NULL), 0);
        cr_assert_null(teff__pool_take(&pool));
        int length = 0; /* one that came twice makes a circle, or cuts off what lay behind it */
        while (chain != NULL && length <= 4000) {
            teff__pool_link *next = chain->next;
            teff__pool_put(&pool, chain);
            chain = next;
            length++;
        }
        cr_assert_eq(length, 4000);
    }
    teff__pool_finish(&pool);
    cr_assert_eq(bytes(), 0);
}

Test(pool, finish_frees_every_chunk_wherever_the_objects_are)
{
    static foreign job = { .chain = 1000 };
    teff__pool pool;
    teff__pool_init(&pool, &memory, 192, 100000);
    cr_assert_eq(take_all(&pool), 100000);
    job.pool = &pool;
    for (int i = 0; i < 1000; i++)
        job.objects[i] = teff__pool_take(&pool);
    (void)put_back(&job);
    cr_assert_gt(bytes(), 192 * 100000);
    teff__pool_finish(&pool);
    cr_assert_eq(bytes(), 0);
}

Test(pool, finish_of_a_zeroed_or_finished_one_is_allowed)
{
    static teff__pool zeroed_pool;
    teff__pool pool;
    teff__pool_finish(&zeroed_pool);
    teff__pool_init(&pool, &memory, 64, 100);
    teff__pool_put(&pool, teff__pool_take(&pool));
    teff__pool_finish(&pool);
    teff__pool_finish(&pool);
    cr_assert_eq(bytes(), 0);
}

#ifdef TEFF_DEBUG
Test(pool, finish_with_an_object_in_use_aborts_in_debug_builds, .signal = SIGABRT)
{
    teff__pool pool;
    teff__pool_init(&pool, &memory, 64, 100);
    (void)teff__pool_take(&pool);
    teff__pool_finish(&pool);
}
#endif
