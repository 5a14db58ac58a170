/* SPDX-License-Identifier: MIT */
#include "grains/timeout.h"

#include "messaging/deadline.h"

void teff__timeout_set(teff__grains *grains, int64_t timeout_ns)
{
    teff__exchange *exchange = grains->exchange;
    teff__atomic_i64_store_seq_cst(&exchange->response_timeout_ns, timeout_ns); /* mine … */
    for (uint32_t i = 0; i < exchange->workers_count; i++) {
        teff__catalog *catalog = grains->catalogs[i];
        if (teff__atomic_u32_exchange_seq_cst(&catalog->timeout_posted, 1) == 0) /* … then yours */
            teff__exchange_post(exchange, i, &catalog->control[TEFF__STOP_NONE]);
    }
    for (uint32_t i = TEFF__STRIPES_WORKERS; i < TEFF__STRIPES; i++)
        teff__stripe_wake(&exchange->registry.stripes[i]);
}

static int64_t end_of_turn_ns(const void *waiter)
{
    return ((const teff__await *)waiter)->caller->deadline_ns;
}

void teff__timeout_told(teff__catalog *catalog)
{
    teff__atomic_u32_store_seq_cst(&catalog->timeout_posted, 0); /* mine … */
    const int64_t timeout_ns =                                   /* … then yours */
        teff__atomic_i64_load_seq_cst(&catalog->exchange->response_timeout_ns);
    const int64_t before_ns = catalog->defaults.response_timeout_ns;
    if (timeout_ns == before_ns)
        return;
    const int64_t moved_ns = teff__deadline_doubt_ns(catalog->worker.now_ns, before_ns);
    if (moved_ns > catalog->moved_ns)
        catalog->moved_ns = moved_ns;
    catalog->defaults.response_timeout_ns = timeout_ns;
    for (uint32_t i = 0; i < catalog->stripes_used; i++)
        teff__stripe_move_deadlines(&catalog->stripes[i], timeout_ns, end_of_turn_ns);
}
