/* SPDX-License-Identifier: MIT */
#include "grains/limit.h"

#include "grains/activate.h"
#include "grains/notice.h"

#include "teff/status.h"

const char teff__mailbox_full[] = "the grain's mailbox is full";

static const char no_place[] =
    "Failed to create an instance: there are activations_max of them in the silo";

/* --- Mailboxes ----------------------------------------------------------------------------- */

uint32_t teff__limit_mailbox_look(const teff__grains *grains)
{
    const bool warns = grains->notice != NULL && grains->mailbox_warn != 0;
    return warns && grains->mailbox_warn < grains->mailbox_max ? grains->mailbox_warn
                                                               : grains->mailbox_max;
}

/*
 * With this request more than mailbox_warn wait, or there is no room for it. Who was told once is
 * told again after the mailbox has fallen to half only; until then its runs see to that, and where
 * they see nothing, calls pay nothing. A notice that finds no room is given with the next request.
 */
int teff__limit_mailbox(teff__catalog *catalog, teff__activation *activation)
{
    if (activation->mail_count >= catalog->grains->mailbox_max) {
        catalog->refused = teff__mailbox_full;
        return TEFF_EOVERLOADED;
    }
    if (!teff__activation_is_watched(activation) &&
        teff__notice(catalog, TEFF_NOTICE_MAILBOX, activation,
                     (uint64_t)activation->mail_count + 1))
        teff__activation_watch(activation);
    return 0;
}

/* --- Activations --------------------------------------------------------------------------- */

/* Relaxed: the counter alone is what workers agree on, and nothing else hangs from it. */
int teff__limit_take_slow(teff__catalog *catalog)
{
    teff__grains *grains = catalog->grains;
    const uint64_t max = grains->activations_max;
    uint64_t count = teff__atomic_u64_load_relaxed(&grains->activations);
    do {
        if (count >= max) {
            catalog->refused = no_place;
            return TEFF_EOVERLOADED;
        }
    } while (!teff__atomic_u64_cas_relaxed(&grains->activations, &count, count + 1));
    if (count + 1 == max)
        (void)teff__notice(catalog, TEFF_NOTICE_GRAINS, NULL, max);
    return 0;
}

void teff__limit_give_slow(teff__catalog *catalog)
{
    const uint64_t before = teff__atomic_u64_add_relaxed(&catalog->grains->activations, UINT64_MAX);
    teff_assert(before > 0);
}
