/* SPDX-License-Identifier: MIT */
#include "grains/stop.h"

#include "grains/activate.h"
#include "grains/task.h"

#include "teff/status.h"

/* What deactivate hooks, and turns that are told to end, get beyond the stop limit. */
#define GRACE_NS INT64_C(1000000000)

int64_t teff__stop_due_ns(const teff__catalog *catalog)
{
    if (catalog->phase == TEFF__STOP_NONE || catalog->phase_acknowledged)
        return INT64_MAX;
    const int64_t limit_ns =
        teff__time_add(teff__atomic_i64_load_relaxed(&catalog->grains->stop_began_ns),
                       catalog->grains->stop_timeout_ns);
    return teff__time_add(limit_ns, (catalog->phase - TEFF__STOP_DRAIN) * GRACE_NS);
}

static void ask_all(teff__catalog *catalog)
{
    teff__activation *activation;
    for (uint32_t slot = 0;
         (activation = teff__slotmap_next(&catalog->activations, &slot)) != NULL;)
        teff__activation_ask(catalog, activation, TEFF_DEACTIVATED_STOP);
}

/*
 * Refuses the mail of activations that will serve none any more: a turn of theirs does not end.
 */
static void refuse_mail(teff__catalog *catalog)
{
    teff__activation *activation;
    for (uint32_t slot = 0;
         (activation = teff__slotmap_next(&catalog->activations, &slot)) != NULL;) {
        for (teff__link *link; (link = teff__queue_pop(&activation->mailbox)) != NULL;)
            teff__catalog_reject(catalog, (teff__message *)link, TEFF_EUNAVAILABLE, NULL);
        activation->mail_count = 0;
    }
}

/* Ends every call that this worker's turns and tasks still wait for. */
static void settle_all(teff__catalog *catalog)
{
    for (uint32_t i = 0; i < catalog->stripes_used; i++) {
        teff__stripe *stripe = &catalog->stripes[i];
        uint32_t slot = 0;
        for (uint64_t id; (id = teff__stripe_next_open(stripe, &slot)) != 0;)
            teff__catalog_end(catalog, id, NULL, TEFF_EUNAVAILABLE);
    }
}

void teff__stop_begin_phase(teff__catalog *catalog, teff__stop_phase phase)
{
    teff_assert(phase == catalog->phase + 1);
    catalog->phase = phase;
    catalog->phase_acknowledged = false;
    switch (phase) {
    case TEFF__STOP_DRAIN:
        catalog->gate_closed = true;
        teff__sleepers_wake(catalog, TEFF__CALLER_TASK);
        break;
    case TEFF__STOP_DEACTIVATE:
        ask_all(catalog);
        break;
    default:
        refuse_mail(catalog);
        settle_all(catalog);
        teff__sleepers_wake(catalog, TEFF__CALLER_TURN);
        break;
    }
}

static bool phase_done(const teff__catalog *catalog)
{
    if (catalog->worker.now_ns >= teff__stop_due_ns(catalog))
        return true;
    if (catalog->worker.run_queue.head != NULL)
        return false;
    if (catalog->phase == TEFF__STOP_DEACTIVATE)
        return catalog->activations.count == 0;
    /* A turn that was abandoned is nobody's any more, and not waited for; at last it is ended. */
    const uint32_t unheard = catalog->phase == TEFF__STOP_DRAIN ? catalog->abandoned_count : 0;
    return catalog->suspended == unheard && teff__ring_empty(&catalog->completions);
}

bool teff__stop_go_on(teff__catalog *catalog)
{
    if (!catalog->phase_acknowledged && phase_done(catalog)) {
        catalog->phase_acknowledged = true;
        catalog->grains->phase_done(catalog->exchange->silo);
    }
    return !(catalog->phase == TEFF__STOP_SETTLE && catalog->phase_acknowledged);
}
