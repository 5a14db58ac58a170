/* SPDX-License-Identifier: MIT */
/*
 * teff: an actor runtime with virtual grains, inside your process.
 *
 * Start with teff/interface.h (what a grain can be asked), then teff/grain.h, teff/silo.h and
 * teff/client.h.
 *
 * Functions that can fail return 0, or a negative TEFF_E… (teff/status.h); their outputs are then
 * untouched. Times are signed nanoseconds and end in _ns: a timeout is relative, a deadline is
 * absolute.
 */
#ifndef TEFF_H
#define TEFF_H

#include "teff/bytes.h"
#include "teff/call.h"
#include "teff/caller.h"
#include "teff/cancel.h"
#include "teff/client.h"
#include "teff/export.h"
#include "teff/grain.h"
#include "teff/inspect.h"
#include "teff/interface.h"
#include "teff/key.h"
#include "teff/observer.h"
#include "teff/reference.h"
#include "teff/silo.h"
#include "teff/status.h"
#include "teff/task.h"
#include "teff/turn.h"

#endif
