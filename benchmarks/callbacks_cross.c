/* SPDX-License-Identifier: MIT */
/* The pipe between two cores, and `ring.cross`: the pipe with a slot for each call, by hand. */
#include "benchmarks/callbacks_cross.h"

#include "benchmarks/callbacks_loops.h"
#include "benchmarks/machine.h"
#include "runtime/assert.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One end of a pipe. */
typedef struct pipe_end {
    callbacks_stage *stage;
    callbacks_pipe *pipe;
    pthread_barrier_t *pinned; /* neither spins where the other has yet to move away */
    double ns;                 /* the opener's */
    int result;
} pipe_end;

/* Sends each id back. */
static void send_back(callbacks_pipe *pipe)
{
    for (uint64_t done = 0; done < pipe->count;) {
        const uint64_t came = callbacks_ring_published(&pipe->there);
        if (came == done) {
            teff__cpu_relax();
            continue;
        }
        for (; done < came; done++)
            callbacks_ring_put(&pipe->back, done, callbacks_ring_get(&pipe->there, done));
        callbacks_ring_publish(&pipe->back, done);
    }
}

static void *answerer_main(void *argument)
{
    const pipe_end *end = argument;
    machine_pin(0);
    (void)pthread_barrier_wait(end->pinned);
    if (end->stage->subject->cross_answer != NULL)
        end->stage->subject->cross_answer(end->stage->registry, end->pipe);
    else
        send_back(end->pipe);
    return NULL;
}

static void *opener_main(void *argument)
{
    pipe_end *end = argument;
    const callbacks_subject *subject = end->stage->subject;
    callbacks_thread *thread = &end->stage->threads[0];
    machine_pin(1);
    teff_assert(callbacks_stage_enter(end->stage, 0, 1) == 0);
    (void)pthread_barrier_wait(end->pinned);
    const int64_t start_ns = machine_now_ns();
    const uint64_t failures = subject->cross(thread, end->pipe);
    end->ns = (double)(machine_now_ns() - start_ns) / (double)end->pipe->count;
    end->result = failures == 0 ? 0 : -1;
    if (subject->leave != NULL)
        subject->leave(thread);
    return NULL;
}

/* Both ends or neither. */
static int run_ends(pipe_end *end)
{
    pthread_t opener, answerer;
    if (pthread_create(&opener, NULL, opener_main, end) != 0)
        return -1;
    teff_assert(pthread_create(&answerer, NULL, answerer_main, end) == 0);
    (void)pthread_join(opener, NULL);
    (void)pthread_join(answerer, NULL);
    return end->result;
}

int callbacks_cross_run(callbacks_stage *stage, uint64_t count, unsigned depth, double *ret_ns)
{
    pthread_barrier_t pinned;
    pipe_end end = { .stage = stage, .pinned = &pinned };
    end.pipe = aligned_alloc(TEFF__CACHE_LINE, sizeof(*end.pipe));
    if (end.pipe == NULL || pthread_barrier_init(&pinned, NULL, 2) != 0) {
        free(end.pipe);
        return -1;
    }
    memset(end.pipe, 0, sizeof(*end.pipe));
    end.pipe->count = count;
    end.pipe->depth = depth;
    if (stage->subject->quiet != NULL)
        stage->subject->quiet(stage->registry);
    const int r = run_ends(&end);
    *ret_ns = end.ns;
    (void)pthread_barrier_destroy(&pinned);
    free(end.pipe);
    return r;
}

/*
 * The slots by hand: one array, a free list, the state and generation in a word, everything that a
 * callback has; their owner alone opens and settles, so no instruction is locked.
 */
enum { SLOTS = 4096, SLOT_OPEN = 1 };

typedef struct slot {
    uint64_t word;
    void *waiter;
    uint64_t target;
    uint32_t next;
} slot;

typedef struct slots {
    slot slots[SLOTS];
    int64_t deadlines[SLOTS], opened[SLOTS];
    int64_t low_ns;
    uint64_t opened_count, closed_count;
    uint32_t free; /* the first free slot + 1 */
} slots;

static void *slots_create(void)
{
    slots *made = calloc(1, sizeof(*made));
    for (uint32_t i = SLOTS; made != NULL && i-- > 0;) {
        made->slots[i].next = made->free;
        made->free = i + 1;
        made->deadlines[i] = INT64_MAX;
    }
    if (made != NULL)
        made->low_ns = INT64_MAX;
    return made;
}

static uint64_t slots_open(callbacks_thread *thread, uint64_t number, uint64_t id)
{
    slots *all = thread->registry;
    const uint32_t at = all->free - 1;
    slot *one = &all->slots[at];
    (void)id;
    teff_assert(all->free != 0);
    all->free = one->next;
    one->waiter = callbacks_waiter(number);
    one->target = callbacks_target(number);
    all->deadlines[at] = callbacks_deadline_ns(number);
    all->opened[at] = (int64_t)number;
    if (all->deadlines[at] < all->low_ns)
        all->low_ns = all->deadlines[at];
    all->opened_count++;
    const uint64_t generation = (one->word >> 1) + 1;
    one->word = generation << 1 | SLOT_OPEN;
    return generation << 32 | at;
}

static void *slots_close(callbacks_thread *thread, uint64_t id)
{
    slots *all = thread->registry;
    const uint32_t at = (uint32_t)id;
    if (at >= SLOTS || all->slots[at].word != (id >> 32 << 1 | SLOT_OPEN))
        return NULL;
    slot *one = &all->slots[at];
    all->deadlines[at] = INT64_MAX;
    all->closed_count++;
    one->word &= ~(uint64_t)SLOT_OPEN;
    one->next = all->free;
    all->free = at + 1;
    return one->waiter;
}

static uint64_t slots_lifecycles(callbacks_thread *thread, const callbacks_work *work)
{
    return callbacks_lifecycles(thread, work, slots_open, slots_close);
}

static uint64_t slots_cross(callbacks_thread *thread, callbacks_pipe *pipe)
{
    return callbacks_cross(thread, pipe, slots_open, slots_close);
}

const callbacks_subject callbacks_slots = {
    .name = ".slots",
    .create = slots_create,
    .destroy = free,
    .lifecycles = slots_lifecycles,
    .cross = slots_cross,
    .open = slots_open,
    .close = slots_close,
};
