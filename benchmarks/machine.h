/* SPDX-License-Identifier: MIT */
/*
 * What a benchmark asks the machine: clocks, cores, memory, threads and descriptors of this
 * process.
 *
 * Threads: any.
 */
#ifndef TEFF_BENCHMARKS_MACHINE_H
#define TEFF_BENCHMARKS_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Monotonic time. */
int64_t machine_now_ns(void);

/* CPU time of the whole process so far, all threads together. */
int64_t machine_cpu_ns(void);

/* Sleeps that long, or until a signal arrives. */
void machine_sleep_ns(int64_t duration_ns);

/* How many cores this process could run on when it started; 1 at least. */
unsigned machine_cores(void);

/*
 * Keeps the calling thread on the number-th of those cores, counted around. Silent where the system
 * refuses: the measurement is then noisier, not wrong.
 */
void machine_pin(unsigned number);

/* The processor's name, or "unknown". */
void machine_cpu_name(char *ret, size_t size);

/* Of this process; -1 where /proc does not tell. */
int64_t machine_rss_bytes(void);
int64_t machine_threads(void);
int64_t machine_descriptors(void);

#endif
