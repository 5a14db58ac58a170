/* SPDX-License-Identifier: MIT */
/*
 * Where a request goes: to an activation of this worker, to one that is made for it, or along a
 * route to another worker.
 *
 * Threads: the worker's.
 */
#ifndef TEFF_GRAINS_DISPATCH_H
#define TEFF_GRAINS_DISPATCH_H

#include "grains/catalog.h"

/* The text of a request's TEFF_ENOMEM. */
extern TEFF__INTERNAL const char teff__no_instance[];

/* A request, or a route's probe, that came by the inbox; takes it. */
TEFF__INTERNAL void teff__dispatch_arrived(teff__catalog *catalog, teff__message *message);

/* A probe of this worker's came back; takes it. */
TEFF__INTERNAL void teff__dispatch_probed(teff__catalog *catalog, teff__message *message);

/* An answer came from `address`: the reference's route is corrected where it says otherwise. */
TEFF__INTERNAL void teff__dispatch_answered(teff__catalog *catalog, teff_ref *to, uint64_t address);

/* Sends a message along a route, or puts it behind those that wait for that. */
TEFF__INTERNAL void teff__dispatch_by_route(teff__catalog *catalog, teff__route *route,
                                            teff__message *message);

/* Puts a message behind those that wait for a route. */
TEFF__INTERNAL void teff__dispatch_wait(teff__catalog *catalog, teff__route *route,
                                        teff__message *message);

/*
 * A route that waited is to lead to `address`: of another worker's; else, and where nobody needs it
 * any more, it goes. What waited goes on in order.
 */
TEFF__INTERNAL void teff__dispatch_go_on(teff__catalog *catalog, teff__route *route,
                                         uint64_t address);

/* A request that waited for an activation that is no more looks for its grain again. */
TEFF__INTERNAL void teff__dispatch_again(teff__catalog *catalog, const teff__activation *from,
                                         teff__message *message);

/* Answers a request that gets no turn, or a probe: there is nothing. Takes it. */
TEFF__INTERNAL void teff__dispatch_refuse(teff__catalog *catalog, teff__message *message, int code,
                                          const char *text);

/*
 * A route that was used a short while ago is to make room: false, it does so once what went by it
 * has arrived. Of a catalog.
 */
TEFF__INTERNAL bool teff__dispatch_let_go(void *of, teff__route *route);

/* The type that a reference names, or NULL with *ret_status: TEFF_EINVAL. Checks the key, too. */
TEFF__INTERNAL const teff__type *teff__dispatch_type(const teff__grains *grains,
                                                     const teff_ref *to);

/*
 * Why a request was refused, here and now, where a limit or a lack of memory did it: static text, or
 * NULL.
 */
TEFF__INTERNAL const char *teff__dispatch_why(const teff__catalog *catalog, int code);

/* Why a request of that caller could not be sent, for its outcome: static text, or NULL. */
TEFF__INTERNAL const char *teff__dispatch_text(const teff_caller *caller, const teff_ref *to,
                                               int code);

#endif
