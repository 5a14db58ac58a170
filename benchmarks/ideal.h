/* SPDX-License-Identifier: MIT */
/*
 * The ideal: what a hosted-local call costs when it is written by hand, with the same work and the
 * same bookkeeping as the runtime's and no runtime around it. The bar that teff's own call is
 * measured against, in the same run.
 *
 * A call is: a fiber fills a 64-byte argument; a message comes from the owner's free list; a
 * callback is opened (slot, generation, deadline, target, waiter, counters); the grain id is looked
 * up among 64K residents; the argument is copied in; the request goes through the grain's mailbox
 * and the run queue; the fiber suspends. The turn runs the method by its number on zeroed scratch,
 * adds to the grain's state, and the result is copied into the same message. The response finds its
 * callback by slot and generation, settles it, and makes the fiber runnable through the run queue.
 * The fiber copies the result out, returns the message to its home, and checks the result. No time
 * stamps; the deadline comes from a clock that is read once a pass.
 *
 * The loop has a stack of its own: a turn may await, so it never runs above a suspended frame. A
 * call is two switches, or one where the next thing to run is another caller.
 */
#ifndef TEFF_BENCHMARKS_IDEAL_H
#define TEFF_BENCHMARKS_IDEAL_H

#include <stdint.h>

enum { IDEAL_CALLERS_MAX = 4096 };

/*
 * One thread, pinned; each caller awaits a grain of its own. Nanoseconds per call over
 * `duration_ns`, after a warm-up. 0, or -1 with a line on stderr: no memory, or the work was not
 * done.
 */
int ideal_local(unsigned callers, int64_t duration_ns, double *ret_ns);

/*
 * Two threads, pinned to two cores, half of the callers on each. Each caller calls a grain of its
 * own thread and one of the other in turn. Wall time of all calls together.
 */
int ideal_cross(unsigned callers, int64_t duration_ns, double *ret_ns);

#endif
