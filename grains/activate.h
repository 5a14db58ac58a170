/* SPDX-License-Identifier: MIT */
/*
 * How an activation comes to be, runs its mail, and goes.
 *
 * Threads: its worker's.
 */
#ifndef TEFF_GRAINS_ACTIVATE_H
#define TEFF_GRAINS_ACTIVATE_H

#include "grains/catalog.h"

/*
 * Makes an activation of a grain that the directory did not know, and registers it; frees it again
 * where another one was quicker. *ret_address is the valid one's, either way. Runs nothing yet.
 * TEFF__LOCATOR_LATER: *ret_made is there, and the directory is to be asked; it runs nothing before
 * teff__activation_entered. TEFF_ENOMEM, TEFF_ELIMIT, TEFF_EUNAVAILABLE, the locator's.
 */
TEFF__INTERNAL int teff__activation_create(teff__catalog *catalog, const teff__type *type,
                                           const teff_key *key, uint64_t hash,
                                           uint64_t *ret_address, teff__activation **ret_made);

/* One that was made is registered; or it is not, and goes. It has not run. */
TEFF__INTERNAL void teff__activation_entered(teff__catalog *catalog, teff__activation *activation);
TEFF__INTERNAL void teff__activation_unmake(teff__catalog *catalog, teff__activation *activation,
                                            int reason);

/*
 * Asks for an activation to be deactivated once none of its turns runs. The first reason is kept.
 */
TEFF__INTERNAL void teff__activation_ask(teff__catalog *catalog, teff__activation *activation,
                                         int reason);

/* Puts into the mailbox what is accepted: always so a completion. */
TEFF__INTERNAL void teff__activation_mail(teff__catalog *catalog, teff__activation *activation,
                                          teff__message *message);

/* Lets it have a run, where none is due, to see what there is to do. */
TEFF__INTERNAL void teff__activation_look(teff__catalog *catalog, teff__activation *activation);

#endif
