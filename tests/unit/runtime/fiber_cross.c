/* SPDX-License-Identifier: MIT */
/*
 * Fibers without a test library, for where none is: another processor under an emulator, and the
 * thread sanitizer. Exits with 0 if all is well, else with 1 and a line for each thing that is not.
 */
#include "fiber_scene.h"

#include <pthread.h>
#include <stdlib.h>

enum { FIBERS = 100, ROUNDS = 1000, THREADS = 2 };

static int failures;

#define CHECK(condition)                                                                           \
    ((condition)                                                                                   \
         ? (void)0                                                                                 \
         : (void)(failures++, printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition)))

static void job_registers(fiber_scene *scene)
{
    int lost = registers_lost(scene);
    if (lost != 0)
        printf("register %d was lost\n", lost - 1);
    CHECK(lost == 0);
}

static void registers_survive(void)
{
    fiber_scene scene;
    teff__fiber *fibers[FIBERS];
    CHECK(scene_init(&scene, 0, 0, job_registers) == 0);
    for (int i = 0; i < FIBERS; i++)
        fibers[i] = scene_take(&scene);
    for (int round = 0; round < 4; round++) {
        for (uint64_t i = 0; i < FIBERS; i++) {
            scene.number = i + 1;
            scene_enter(&scene, fibers[i]);
        }
    }
    CHECK(scene.done == FIBERS);
    teff__fiber_pool_finish(&scene.pool);
}

/*
 * Plain variables only, used by all fibers of a thread: a switch must count as an order of events.
 */
static void job_sum(fiber_scene *scene)
{
    uint64_t mine = scene->number, sum = 0;
    double half = (double)mine / 2;
    for (int i = 0; i < ROUNDS; i++) {
        sum += mine;
        scene_leave(scene);
        half += 1;
    }
    scene->number = sum;
    if (half != (double)mine / 2 + ROUNDS)
        scene->number = UINT64_MAX;
}

/* One thread's fibers in turn: gives how many did not sum up what they were told. */
static void *thread_main(void *argument)
{
    fiber_scene scene;
    teff__fiber *fibers[FIBERS];
    uint64_t *wrong = argument;
    if (scene_init(&scene, 0, 0, job_sum) != 0)
        abort();
    for (int i = 0; i < FIBERS; i++)
        fibers[i] = scene_take(&scene);
    for (int round = 0; round <= ROUNDS; round++) {
        for (uint64_t i = 0; i < FIBERS; i++) {
            scene.number = i;
            scene_enter(&scene, fibers[i]);
            if (round == ROUNDS)
                *wrong += scene.number != i * ROUNDS;
        }
    }
    *wrong += scene.done != FIBERS;
    teff__fiber_pool_finish(&scene.pool);
    return NULL;
}

static void switching_on_several_threads(void)
{
    pthread_t threads[THREADS];
    uint64_t wrong[THREADS] = { 0 };
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, thread_main, &wrong[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(wrong[i] == 0);
    }
}

static void guards_stop_overflows(void)
{
    CHECK(faulted_at_guard(status_of_child(0, job_overflow_slowly)));
    CHECK(faulted_at_guard(status_of_child(0, job_overflow_at_once)));
}

static void limits_are_errors(void)
{
    fiber_scene scene;
    CHECK(scene_init(&scene, 1000, 0, job_sum) == TEFF_EINVAL);
    CHECK(scene_init(&scene, 0, 2, job_sum) == 0);
    teff__memory_fail_at(&scene.memory, 1);
    CHECK(teff__fiber_pool_reserve(&scene.pool) == TEFF_ENOMEM);
    CHECK(scene_take(&scene) != NULL);
    CHECK(scene_take(&scene) != NULL);
    CHECK(teff__fiber_pool_reserve(&scene.pool) == TEFF_ELIMIT);
    teff__fiber_pool_finish(&scene.pool);
}

/* All that the limit promises can be had: what counts are the mappings, where guards cost some. */
static void the_limit_can_be_reached(void)
{
    fiber_scene scene;
#ifdef TEFF__FIBER_TSAN
    uint32_t wanted = 500; /* each is a thread to the sanitizer, and takes it milliseconds */
#else
    uint32_t wanted = 20000;
#endif
    CHECK(scene_init(&scene, 0, wanted, job_sum) == 0);
    uint32_t taken = 0;
    while (scene_take(&scene) != NULL)
        taken++;
    CHECK(taken == scene.pool.made_max);
    CHECK(teff__fiber_pool_reserve(&scene.pool) == TEFF_ELIMIT);
    printf("%u fibers, guards by %s\n", taken, scene.pool.guard_markers ? "markers" : "mprotect");
    teff__fiber_pool_finish(&scene.pool);
}

int main(void)
{
    registers_survive();
    switching_on_several_threads();
    guards_stop_overflows();
    limits_are_errors();
    the_limit_can_be_reached();
    printf("fibers: %d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
