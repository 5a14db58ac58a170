/* SPDX-License-Identifier: MIT */
/*
 * Whoever may call a grain: one type under four names, so that one stub serves all.
 *
 *   teff_turn     a grain that handles a message; given to the handler, gone when that returns
 *   teff_task     a function on a worker, outside any grain; see teff_silo_spawn
 *   teff_client   a thread that knows nothing of the silo; made by teff_client_create
 *   teff_caller   any of the three
 *
 * A function that needs one kind names it, and answers TEFF_EINVALIDSTATE to another. A waiting
 * call suspends a turn or a task (its worker goes on with other work) and blocks a client's thread.
 *
 * Threads: turns and tasks never leave the worker that runs them. A client belongs to the thread
 *          that created it; another thread's call is TEFF_EINVALIDSTATE.
 */
#ifndef TEFF_CALLER_H
#define TEFF_CALLER_H

/* Known by its pointer; each kind as above. */
typedef struct teff_caller teff_caller, teff_turn, teff_task, teff_client;

#endif
