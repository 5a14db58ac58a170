/* SPDX-License-Identifier: MIT */
/*
 * A subject with what one measurement after the other needs: its registry, and for each thread its
 * callbacks_thread and entries, made and touched before a clock runs.
 *
 * A stage is either for lifecycles, of which nothing is left open, or holds live callbacks; the
 * thread that fills it is the one that looks them up.
 */
#ifndef TEFF_BENCHMARKS_CALLBACKS_STAGE_H
#define TEFF_BENCHMARKS_CALLBACKS_STAGE_H

#include "benchmarks/callbacks.h"

typedef struct callbacks_stage {
    callbacks_thread threads[CALLBACKS_THREADS_MAX];
    const callbacks_subject *subject;
    void *registry;
    callbacks_entry *entries;
    uint64_t entry_count;
    uint64_t *ids; /* of the live callbacks */
    uint64_t live;
} callbacks_stage;

/*
 * For runs of at most `calls` lifecycles. 0, or -1: no memory. Finish it in either case; a zeroed one
 * may be finished.
 */
int callbacks_stage_init(callbacks_stage *stage, const callbacks_subject *subject, uint64_t calls);
void callbacks_stage_finish(callbacks_stage *stage);

/* Readies the thread of that number, of so many, and enters it on the calling one; 0, or -1. */
int callbacks_stage_enter(callbacks_stage *stage, unsigned number, unsigned threads);

/* Opens so many, numbered from 0, which stay open. 0, or -1. Not after any run. */
int callbacks_stage_fill(callbacks_stage *stage, uint64_t live);

/*
 * Runs `work` spread over so many threads, each with its own ids. Nanoseconds of wall time each,
 * from the first thread's start to the last one's end; and how often a thread found a lock held,
 * unless `ret_waits` is NULL. 0, or -1 when a callback was lost.
 */
int callbacks_stage_run(callbacks_stage *stage, const callbacks_work *work, unsigned threads,
                        double *ret_ns, double *ret_waits);

#endif
