/* SPDX-License-Identifier: MIT */
#include "benchmarks/callbacks_memory.h"

#include "benchmarks/callbacks_stage.h"

#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Resident bytes as the page tables say. The count in /proc/self/statm may lag behind by more than
 * a registry is large.
 */
static double resident_bytes(void)
{
    char line[256];
    double kilobytes = NAN;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    if (file == NULL)
        return NAN;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "Rss: %lf kB", &kilobytes) == 1)
            break;
    }
    (void)fclose(file);
    return kilobytes * 1024;
}

static int measure(const callbacks_subject *subject, uint64_t live, callbacks_memory *ret)
{
    callbacks_stage stage = { .live = 0 };
    void *registry = NULL;
    int r = 0;
    (void)resident_bytes(); /* what reading costs is there from now on */
    const double before = resident_bytes();
    if (live == 0) {
        registry = subject->create();
        r = registry != NULL ? 0 : -1;
    } else {
        r = callbacks_stage_init(&stage, subject, 0);
        if (r == 0)
            r = callbacks_stage_fill(&stage, live);
        registry = stage.registry;
    }
    /* The ids are the benchmark's. */
    ret->resident = resident_bytes() - before - (double)(live * sizeof(*stage.ids));
    ret->bytes = NAN;
    if (r == 0 && subject->bytes != NULL)
        ret->bytes = (double)subject->bytes(registry) +
                     (subject->needs_entries ? (double)(live * sizeof(callbacks_entry)) : 0);
    return r;
}

int callbacks_memory_measure(const callbacks_subject *subject, uint64_t live, callbacks_memory *ret)
{
    int ends[2], status = -1;
    if (pipe(ends) != 0)
        return -1;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int r = measure(subject, live, ret);
        _exit(r == 0 && write(ends[1], ret, sizeof(*ret)) == (ssize_t)sizeof(*ret) ? 0 : 1);
    }
    (void)close(ends[1]);
    const bool came = child > 0 && read(ends[0], ret, sizeof(*ret)) == (ssize_t)sizeof(*ret);
    (void)close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 && came ? 0 : -1;
}
