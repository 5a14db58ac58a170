/* SPDX-License-Identifier: MIT */
/*
 * One-way messages to another core, written by hand: what a send that crosses is measured against.
 *
 * One thread takes messages from its free list, fills in 64 bytes, links them in chains of 32 and
 * pushes those onto the other's inbox. The other puts each into its grain's mailbox and the grain
 * onto its run queue, runs the grain's method on it, and returns the messages in chains. No
 * identity beyond an index, no runtime around it.
 */
#ifndef TEFF_BENCHMARKS_CHAIN_H
#define TEFF_BENCHMARKS_CHAIN_H

#include <stdint.h>

/*
 * Wall time per message over `duration_ns` after a warm-up, to that many grains in turn. 0, or -1
 * with a line on stderr.
 */
int chain_cross(unsigned grains, int64_t duration_ns, double *ret_ns);

#endif
