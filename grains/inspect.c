/* SPDX-License-Identifier: MIT */
#include "grains/inspect.h"

#include "grains/catalog.h"
#include "messaging/client.h"

#include "teff/status.h"

void teff__inspection_init(teff__inspection *inspection)
{
    teff__mutex_init(&inspection->lock, TEFF__RANK_INSPECT);
    teff__condition_init(&inspection->changed);
}

void teff__inspection_finish(teff__inspection *inspection)
{
    teff__condition_finish(&inspection->changed);
    teff__mutex_finish(&inspection->lock);
}

int teff__inspect_check(teff__grains *grains)
{
    teff__exchange *exchange = grains->exchange;
    if (teff__exchange_forked(exchange) || teff__silo_state_text(exchange->silo) == NULL)
        return TEFF_EINVALIDSTATE;
    if (teff__exchange_inside(exchange) || teff__clients_inside_here(exchange))
        return TEFF_EWOULDBLOCK;
    return exchange->clock.simulated && exchange->thread != teff__thread_self() ? TEFF_EINVALIDSTATE
                                                                                : 0;
}

/* Of the workers that are to be asked. */
static bool any(const teff__grains *grains, uint64_t workers, teff__asked asked)
{
    for (; workers != 0; workers &= workers - 1) {
        if (grains->catalogs[__builtin_ctzll(workers)]->inspected.asked == asked)
            return true;
    }
    return false;
}

static void ask(teff__grains *grains, uint64_t workers)
{
    for (; workers != 0; workers &= workers - 1) {
        const uint32_t index = (uint32_t)__builtin_ctzll(workers);
        teff__inspected *inspected = &grains->catalogs[index]->inspected;
        inspected->asked = inspected->ended ? TEFF__ASKED_NOT : TEFF__ASKED_YES;
        if (inspected->ended || inspected->posted)
            continue;
        inspected->posted = true;
        teff__exchange_post(grains->exchange, index, &inspected->message);
    }
}

/* Time is over for those that have not begun: gives which. */
static uint64_t withdraw(teff__grains *grains, uint64_t workers)
{
    uint64_t silent = 0;
    for (; workers != 0; workers &= workers - 1) {
        teff__inspected *inspected =
            &grains->catalogs[(uint32_t)__builtin_ctzll(workers)]->inspected;
        if (inspected->asked != TEFF__ASKED_YES)
            continue;
        inspected->asked = TEFF__ASKED_NOT;
        silent |= workers & (0 - workers);
    }
    return silent;
}

/* The lock is held. */
static uint64_t ask_and_wait(teff__grains *grains, uint64_t workers, int64_t until_ns)
{
    teff__inspection *inspection = &grains->inspection;
    ask(grains, workers);
    while (any(grains, workers, TEFF__ASKED_YES) &&
           teff__condition_wait(&inspection->changed, &inspection->lock, until_ns)) {
    }
    const uint64_t silent = withdraw(grains, workers);
    while (any(grains, workers, TEFF__ASKED_WALKS))
        (void)teff__condition_wait(&inspection->changed, &inspection->lock, INT64_MAX);
    return silent;
}

/* Nothing of the silo runs while this thread walks. */
static void walk_here(teff__grains *grains, uint64_t workers, teff__inspect_visit *visit,
                      void *user)
{
    for (; workers != 0; workers &= workers - 1) {
        teff__catalog *catalog = grains->catalogs[__builtin_ctzll(workers)];
        if (!catalog->inspected.ended)
            visit(catalog, user);
    }
}

void teff__inspect(teff__grains *grains, uint64_t workers, teff__inspect_visit *visit, void *user,
                   int64_t until_ns, uint64_t *ret_silent)
{
    teff__inspection *inspection = &grains->inspection;
    *ret_silent = 0;
    if (grains->exchange->clock.simulated || teff__exchange_hosts_here(grains->exchange)) {
        walk_here(grains, workers, visit, user);
        return;
    }
    bool time_left = true;
    teff__mutex_lock(&inspection->lock);
    while (inspection->busy && time_left)
        time_left = teff__condition_wait(&inspection->changed, &inspection->lock, until_ns);
    if (inspection->busy) {
        *ret_silent = workers;
    } else {
        inspection->busy = true;
        inspection->visit = visit;
        inspection->user = user;
        *ret_silent = ask_and_wait(grains, workers, until_ns);
        inspection->busy = false;
        teff__condition_broadcast(&inspection->changed);
    }
    teff__mutex_unlock(&inspection->lock);
}

uint64_t teff__inspect_ended(teff__grains *grains)
{
    uint64_t ended = 0;
    teff__mutex_lock(&grains->inspection.lock);
    for (uint32_t i = 0; i < grains->exchange->workers_count; i++)
        ended |= (uint64_t)grains->catalogs[i]->inspected.ended << i;
    teff__mutex_unlock(&grains->inspection.lock);
    return ended;
}

void teff__inspect_answer(teff__catalog *catalog)
{
    teff__inspection *inspection = &catalog->grains->inspection;
    teff__inspected *inspected = &catalog->inspected;
    teff__mutex_lock(&inspection->lock);
    const bool asked = inspected->asked == TEFF__ASKED_YES;
    teff__inspect_visit *visit = inspection->visit;
    void *user = inspection->user;
    inspected->posted = false;
    if (asked)
        inspected->asked = TEFF__ASKED_WALKS;
    teff__mutex_unlock(&inspection->lock);
    if (!asked)
        return;
    visit(catalog, user);
    teff__mutex_lock(&inspection->lock);
    inspected->asked = TEFF__ASKED_DONE;
    teff__condition_broadcast(&inspection->changed);
    teff__mutex_unlock(&inspection->lock);
}

void teff__inspect_end(teff__catalog *catalog)
{
    teff__inspection *inspection = &catalog->grains->inspection;
    teff__mutex_lock(&inspection->lock);
    catalog->inspected.ended = true;
    catalog->inspected.asked = TEFF__ASKED_NOT;
    teff__condition_broadcast(&inspection->changed);
    teff__mutex_unlock(&inspection->lock);
}
