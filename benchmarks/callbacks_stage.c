/* SPDX-License-Identifier: MIT */
#include "benchmarks/callbacks_stage.h"

#include "benchmarks/machine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One thread of a run. */
typedef struct runner {
    callbacks_stage *stage;
    const callbacks_work *work; /* of all threads together */
    pthread_barrier_t *ready;
    unsigned number, threads;
    int64_t start_ns, end_ns;
    uint64_t failures;
} runner;

int callbacks_stage_init(callbacks_stage *stage, const callbacks_subject *subject, uint64_t calls)
{
    memset(stage, 0, sizeof(*stage));
    stage->subject = subject;
    if (subject->needs_entries) {
        const uint64_t least = (uint64_t)CALLBACKS_OUTSTANDING_MAX * CALLBACKS_THREADS_MAX;
        stage->entry_count = subject->needs_fresh && calls > least ? calls : least;
        stage->entries =
            aligned_alloc(TEFF__CACHE_LINE, stage->entry_count * sizeof(*stage->entries));
        if (stage->entries == NULL)
            return -1;
        memset(stage->entries, 0, stage->entry_count * sizeof(*stage->entries));
    }
    stage->registry = subject->create();
    return stage->registry != NULL ? 0 : -1;
}

void callbacks_stage_finish(callbacks_stage *stage)
{
    if (stage->live != 0) {
        for (uint64_t i = 0; i < stage->live; i++)
            (void)stage->subject->close(&stage->threads[0], stage->ids[i]);
        if (stage->subject->leave != NULL)
            stage->subject->leave(&stage->threads[0]);
    }
    if (stage->registry != NULL)
        stage->subject->destroy(stage->registry);
    free(stage->entries);
    free(stage->ids);
    memset(stage, 0, sizeof(*stage));
}

int callbacks_stage_enter(callbacks_stage *stage, unsigned number, unsigned threads)
{
    callbacks_thread *thread = &stage->threads[number];
    *thread = (callbacks_thread){ .registry = stage->registry, .number = number };
    if (stage->entries != NULL) {
        const uint64_t each = stage->entry_count / threads;
        thread->entries = &stage->entries[number * each];
        thread->entries_mask =
            stage->subject->needs_fresh ? UINT64_MAX : CALLBACKS_OUTSTANDING_MAX - 1;
    }
    return stage->subject->enter != NULL ? stage->subject->enter(thread) : 0;
}

int callbacks_stage_fill(callbacks_stage *stage, uint64_t live)
{
    callbacks_thread *thread = &stage->threads[0];
    stage->ids = malloc(live * sizeof(*stage->ids));
    if (stage->ids == NULL || callbacks_stage_enter(stage, 0, 1) != 0)
        return -1;
    thread->entries_mask = UINT64_MAX; /* each stays: none is used twice */
    for (; stage->live < live; stage->live++)
        stage->ids[stage->live] = stage->subject->open(thread, stage->live, stage->live + 1);
    return 0;
}

static void *runner_main(void *argument)
{
    runner *by = argument;
    callbacks_thread *thread = &by->stage->threads[by->number];
    const callbacks_subject *subject = by->stage->subject;
    /* Ids of different threads do not meet. */
    const callbacks_work part = { .first = ((uint64_t)by->number << 32) + 1,
                                  .stride = by->work->stride,
                                  .count = by->work->count / by->threads,
                                  .outstanding = by->work->outstanding };
    machine_pin(by->number + 1);
    const int r = callbacks_stage_enter(by->stage, by->number, by->threads);
    (void)pthread_barrier_wait(by->ready);
    by->start_ns = machine_now_ns();
    by->failures = r == 0 ? subject->lifecycles(thread, &part) : part.count;
    by->end_ns = machine_now_ns();
    if (r == 0 && subject->leave != NULL)
        subject->leave(thread);
    return NULL;
}

/* All or none of the threads run. */
static int run_threads(runner *runners, unsigned threads)
{
    pthread_t made[CALLBACKS_THREADS_MAX];
    for (unsigned i = 0; i < threads; i++) {
        /* Those that were made wait for this one for ever. */
        if (pthread_create(&made[i], NULL, runner_main, &runners[i]) != 0)
            return i == 0 ? -1 : (abort(), -1);
    }
    for (unsigned i = 0; i < threads; i++)
        (void)pthread_join(made[i], NULL);
    return 0;
}

int callbacks_stage_run(callbacks_stage *stage, const callbacks_work *work, unsigned threads,
                        double *ret_ns, double *ret_waits)
{
    runner runners[CALLBACKS_THREADS_MAX];
    pthread_barrier_t ready;
    int64_t start_ns = INT64_MAX, end_ns = 0;
    uint64_t failures = 0, waits = 0;
    if (pthread_barrier_init(&ready, NULL, threads) != 0)
        return -1;
    if (stage->subject->quiet != NULL)
        stage->subject->quiet(stage->registry);
    for (unsigned i = 0; i < threads; i++)
        runners[i] = (runner){ stage, work, &ready, i, threads, 0, 0, 0 };
    const int r = run_threads(runners, threads);
    (void)pthread_barrier_destroy(&ready);
    if (r != 0)
        return r;
    for (unsigned i = 0; i < threads; i++) {
        start_ns = runners[i].start_ns < start_ns ? runners[i].start_ns : start_ns;
        end_ns = runners[i].end_ns > end_ns ? runners[i].end_ns : end_ns;
        failures += runners[i].failures;
        waits += stage->threads[i].waits;
    }
    *ret_ns = (double)(end_ns - start_ns) / (double)(work->count / threads * threads);
    if (ret_waits != NULL)
        *ret_waits = (double)waits;
    return failures == 0 ? 0 : -1;
}
