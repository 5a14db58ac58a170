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
 * An activation that is not registered: it has memory and an address, and is counted as made.
 * TEFF_ENOMEM, TEFF_ELIMIT.
 */
TEFF__INTERNAL int teff__activation_make(teff__catalog *catalog, const teff__type *type,
                                         const teff_key *key, uint64_t hash,
                                         teff__activation **ret);
/* Frees one that is not registered (any more), and counts why it went. */
TEFF__INTERNAL void teff__activation_free(teff__catalog *catalog, teff__activation *activation,
                                          int reason);

/*
 * It is gone, for that reason: nobody finds it by its address any more. The directory is the
 * caller's, and so is the memory.
 */
TEFF__INTERNAL void teff__activation_retire(teff__catalog *catalog, teff__activation *activation,
                                            int reason);

/* Takes all of the mailbox, to be passed on or refused; refuses it. */
TEFF__INTERNAL teff__queue teff__activation_take_mail(teff__activation *activation);
TEFF__INTERNAL void teff__activation_refuse(teff__catalog *catalog, teff__queue *mail, int code,
                                            const char *text);
/*
 * The mail is about to be passed on: what an activation that served nothing passes on is counted as
 * forwarded, and refused where it was too often.
 */
TEFF__INTERNAL void teff__activation_refuse_forwarded(teff__catalog *catalog,
                                                      teff__activation *activation);

/* It is registered no more: where it stands, and the memory, are the caller's. */
TEFF__INTERNAL void teff__activation_leave(teff__catalog *catalog, teff__activation *activation);

/* Its item's function, but for stateless workers: see teff__stateless_run. */
TEFF__INTERNAL void teff__activation_run(teff__worker *worker, teff__item *item);

/*
 * Asks for an activation to be deactivated once none of its turns runs. The first reason is kept.
 */
TEFF__INTERNAL void teff__activation_ask(teff__catalog *catalog, teff__activation *activation,
                                         int reason);

/* Puts into the mailbox what is accepted: always so a completion. */
TEFF__INTERNAL void teff__activation_mail(teff__catalog *catalog, teff__activation *activation,
                                          teff__message *message);

/*
 * The program was told that its mailbox is long. Watched, its runs look whether half of mailbox_warn
 * or less is left: then it is not watched any more.
 */
TEFF__INTERNAL void teff__activation_watch(teff__activation *activation);
TEFF__INTERNAL bool teff__activation_is_watched(const teff__activation *activation);

/* Lets it have a run, where none is due, to see what there is to do. */
TEFF__INTERNAL void teff__activation_look(teff__catalog *catalog, teff__activation *activation);

#endif
