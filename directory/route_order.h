/* SPDX-License-Identifier: MIT */
/*
 * The order of a route cache: its queues, who must go when it is full, and what has expired.
 */
#ifndef TEFF_DIRECTORY_ROUTE_ORDER_H
#define TEFF_DIRECTORY_ROUTE_ORDER_H

#include "directory/route.h"

/* The slot of an entry, as its neighbour or its queue knows it. */
TEFF__INTERNAL uint32_t teff__routes_slot_of(const teff__routes *routes, const teff__route *route);

/* Puts an entry that is in no queue at the end of one. */
TEFF__INTERNAL void teff__routes_line_push(teff__routes *routes, teff__route_queue queue,
                                           uint32_t slot);

/* Takes an entry out of its queue. */
TEFF__INTERNAL void teff__routes_line_take(teff__routes *routes, uint32_t slot);

/* Makes room for one more in the queues. */
TEFF__INTERNAL void teff__routes_make_room(teff__routes *routes);

/* Removes an entry that does not wait: its name first, then everything else. */
TEFF__INTERNAL void teff__routes_drop(teff__routes *routes, uint32_t slot);

#endif
