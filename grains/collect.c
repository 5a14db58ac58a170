/* SPDX-License-Identifier: MIT */
#include "grains/collect.h"

#include "grains/catalog.h"

void teff__collector_init(teff__catalog *catalog)
{
    teff__ring_init(&catalog->collector.idle);
}

void teff__collect_enter(teff__catalog *catalog, teff__activation *activation)
{
    teff__ring_push_back(&catalog->collector.idle, &activation->ring);
}

void teff__collect_leave(teff__catalog *catalog, teff__activation *activation)
{
    (void)catalog;
    teff__ring_remove(&activation->ring);
}

void teff__collect_pass(teff__catalog *catalog)
{
    (void)catalog;
}

int64_t teff__collect_due_ns(const teff__catalog *catalog)
{
    (void)catalog;
    return INT64_MAX;
}

void teff__collect_delay(teff__catalog *catalog, teff__activation *activation, int64_t duration_ns)
{
    (void)catalog;
    (void)activation;
    (void)duration_ns;
}
