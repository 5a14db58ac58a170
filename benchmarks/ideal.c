/* SPDX-License-Identifier: MIT */
/* Builds the owners and their grains, runs them on threads, and checks that the work was done. */
#include "benchmarks/ideal.h"

#include "benchmarks/ideal_owner.h"
#include "benchmarks/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    WARM_UP_PART = 5,   /* of the duration */
    START_NS = 1000000, /* for both threads to be there */
    FIRST_GRAIN = 1000  /* callers' grains, two each; then the residents that nobody calls */
};

typedef struct ideal_world {
    ideal_owner *owners[IDEAL_OWNERS];
    unsigned owner_count, callers;
} ideal_world;

static void add(ideal_state *state, const ideal_body *arg, ideal_body *ret)
{
    state->turns++;
    state->sum += arg->words[0];
    ret->words[0] = state->turns;
    ret->words[1] = state->sum;
}

static void subtract(ideal_state *state, const ideal_body *arg, ideal_body *ret)
{
    state->turns++;
    state->sum -= arg->words[0];
    ret->words[0] = state->turns;
    ret->words[1] = state->sum;
}

static ideal_method *const methods[] = { subtract, add };

/* Zeroed, in pages where no other owner's objects lie. NULL: no memory. */
static void *pages(size_t count, size_t size)
{
    const size_t whole = (count * size + 4095) / 4096 * 4096;
    void *memory = aligned_alloc(4096, whole);
    if (memory != NULL)
        memset(memory, 0, whole);
    return memory;
}

static void owner_destroy(ideal_owner *owner)
{
    if (owner == NULL)
        return;
    teff__fiber_pool_finish(&owner->fibers);
    if (owner->wake_fd >= 0)
        (void)close(owner->wake_fd);
    free(owner->directory);
    free(owner->callbacks);
    free(owner->deadlines_ns);
    free(owner->activations);
    free(owner->callers);
    free(owner->messages);
    free(owner);
}

static void free_lists_init(ideal_owner *owner)
{
    for (uint32_t i = 0; i < owner->caller_max; i++) {
        owner->messages[i].home = owner->index;
        owner->messages[i].link.next = (teff__link *)owner->messages_free;
        owner->messages_free = &owner->messages[i];
        owner->callbacks[i].next = i + 1;
        owner->deadlines_ns[i] = INT64_MAX;
    }
}

/*
 * An owner with room for that many callers, and for two grains of each; it has none yet. NULL: no
 * memory.
 */
static ideal_owner *owner_create(uint32_t index, uint32_t callers)
{
    ideal_owner *owner = pages(1, sizeof(*owner));
    if (owner == NULL)
        return NULL;
    owner->index = index;
    owner->caller_max = callers;
    owner->due_ns = INT64_MAX;
    owner->wake_fd = eventfd(0, EFD_CLOEXEC);
    owner->directory = pages(IDEAL_DIRECTORY_SIZE, sizeof(*owner->directory));
    owner->callbacks = pages(callers, sizeof(*owner->callbacks));
    owner->deadlines_ns = pages(callers, sizeof(*owner->deadlines_ns));
    owner->activations = pages(2 * (size_t)callers, sizeof(*owner->activations));
    owner->callers = pages(callers, sizeof(*owner->callers));
    owner->messages = pages(callers, sizeof(*owner->messages));
    teff__inbox_init(&owner->inbox);
    teff__memory_init(&owner->memory, 0);
    if (owner->wake_fd < 0 || owner->directory == NULL || owner->callbacks == NULL ||
        owner->deadlines_ns == NULL || owner->activations == NULL || owner->callers == NULL ||
        owner->messages == NULL ||
        teff__fiber_pool_init(&owner->fibers, &owner->memory, 0, callers, ideal_owner_caller_main,
                              owner) != 0) {
        owner_destroy(owner);
        return NULL;
    }
    free_lists_init(owner);
    return owner;
}

/* Both owners' directories know every grain, as their route caches would. */
static void place(ideal_world *world, uint64_t grain, uint32_t owner, uint32_t activation)
{
    for (unsigned i = 0; i < world->owner_count; i++)
        *ideal_directory_find(world->owners[i]->directory, grain) =
            (ideal_place){ grain, owner, activation };
}

static void add_grain(ideal_world *world, uint64_t grain, ideal_owner *owner)
{
    const uint32_t number = owner->activation_count++;
    ideal_activation *activation = &owner->activations[number];
    activation->grain = grain;
    activation->methods = methods;
    place(world, grain, owner->index, number);
}

/* -1: no memory for its stack. */
static int add_caller(ideal_world *world, unsigned number)
{
    ideal_owner *owner = world->owners[number % world->owner_count];
    ideal_caller *caller = &owner->callers[owner->caller_count];
    if (teff__fiber_pool_reserve(&owner->fibers) != 0)
        return -1;
    owner->caller_count++;
    caller->fiber = teff__fiber_pool_take(&owner->fibers);
    caller->item.is_caller = true;
    caller->alternate = world->owner_count > 1;
    for (unsigned i = 0; i < world->owner_count; i++) {
        caller->grains[i] = FIRST_GRAIN + 2 * number + i;
        add_grain(world, caller->grains[i], world->owners[(owner->index + i) % world->owner_count]);
    }
    return 0;
}

static void world_finish(ideal_world *world)
{
    for (unsigned i = 0; i < world->owner_count; i++)
        owner_destroy(world->owners[i]);
}

static int world_init(ideal_world *world, unsigned owners, unsigned callers)
{
    memset(world, 0, sizeof(*world));
    world->owner_count = owners;
    world->callers = callers;
    for (unsigned i = 0; i < owners; i++) {
        world->owners[i] = owner_create(i, callers);
        if (world->owners[i] == NULL)
            return -1;
    }
    if (owners > 1) {
        world->owners[0]->other = world->owners[1];
        world->owners[1]->other = world->owners[0];
    }
    for (unsigned i = 0; i < callers; i++) {
        if (add_caller(world, i) != 0)
            return -1;
    }
    for (uint64_t i = owners * (uint64_t)callers; i < IDEAL_DIRECTORY_RESIDENTS; i++)
        place(world, FIRST_GRAIN + 2 * IDEAL_CALLERS_MAX + i, 0, 0);
    return 0;
}

/* Every owner on its thread, until all calls are answered. */
static void run(ideal_world *world, int64_t duration_ns)
{
    const int64_t warm_ns = machine_now_ns() + START_NS + duration_ns / WARM_UP_PART;
    for (unsigned i = 0; i < world->owner_count; i++) {
        ideal_owner *owner = world->owners[i];
        owner->warm_ns = warm_ns;
        owner->duration_ns = duration_ns;
        if (pthread_create(&owner->thread, NULL, ideal_owner_main, owner) != 0) {
            (void)fputs("ideal: a thread could not be started\n", stderr);
            exit(1); /* one that runs already waits for this one for ever */
        }
    }
    for (unsigned i = 0; i < world->owner_count; i++)
        (void)pthread_join(world->owners[i]->thread, NULL);
}

/*
 * As many turns as calls, every answer the next one of its grain, no callback open, every message
 * at home.
 */
static int check(const ideal_world *world)
{
    uint64_t calls = 0, turns = 0, open = 0, sum = 0, messages = 0;
    bool failed = false;
    for (unsigned i = 0; i < world->owner_count; i++) {
        const ideal_owner *owner = world->owners[i];
        failed = failed || owner->failed;
        calls += owner->calls;
        open += owner->opened - owner->closed;
        for (uint32_t k = 0; k < owner->activation_count; k++) {
            turns += owner->activations[k].state.turns;
            sum += owner->activations[k].state.sum;
        }
        for (const ideal_message *m = owner->messages_free; m != NULL;
             m = (const ideal_message *)m->link.next)
            messages += m->home == i;
    }
    if (!failed && calls > 0 && turns == calls && sum == calls && open == 0 &&
        messages == (uint64_t)world->callers * world->owner_count)
        return 0;
    (void)fprintf(stderr, "ideal: %llu calls but %llu turns, %llu open, %llu messages at home%s\n",
                  (unsigned long long)calls, (unsigned long long)turns, (unsigned long long)open,
                  (unsigned long long)messages, failed ? ", and a call failed" : "");
    return -1;
}

/* The owners' rates add up; each has read the clock at its own moments. */
static double ns_per_call(const ideal_world *world)
{
    double calls_per_ns = 0;
    for (unsigned i = 0; i < world->owner_count; i++) {
        const ideal_owner *owner = world->owners[i];
        const uint64_t calls = owner->window_end_calls - owner->window_start_calls;
        const int64_t window_ns = owner->window_end_ns - owner->window_start_ns;
        if (window_ns > 0)
            calls_per_ns += (double)calls / (double)window_ns;
    }
    return 1 / calls_per_ns;
}

static int measure(unsigned owners, unsigned callers, int64_t duration_ns, double *ret_ns)
{
    ideal_world world;
    int r = -1;
    if (callers == 0 || callers > IDEAL_CALLERS_MAX)
        return -1;
    if (world_init(&world, owners, callers) != 0) {
        (void)fputs("ideal: out of memory\n", stderr);
    } else {
        run(&world, duration_ns);
        r = check(&world);
    }
    if (r == 0)
        *ret_ns = ns_per_call(&world);
    world_finish(&world);
    return r;
}

int ideal_local(unsigned callers, int64_t duration_ns, double *ret_ns)
{
    return measure(1, callers, duration_ns, ret_ns);
}

int ideal_cross(unsigned callers, int64_t duration_ns, double *ret_ns)
{
    return measure(2, callers, duration_ns, ret_ns);
}
