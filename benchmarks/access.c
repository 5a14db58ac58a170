/* SPDX-License-Identifier: MIT */
/*
 * Zipf's law: the method of Gray and others, "Quickly generating billion-record synthetic
 * databases" (SIGMOD 1994), which YCSB uses as well.
 */
#include "benchmarks/access.h"

#include <math.h>

static const double exponent = 0.99;

/* A prime above all counts: multiplied by it, modulo the count, ranks become keys, one to one. */
static const uint64_t strewing = UINT64_C(2654435761);

__extension__ typedef unsigned __int128 wide;

/* splitmix64, by Sebastiano Vigna. */
static uint64_t roll(access *of)
{
    uint64_t z = of->dice += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void access_init(access *of, uint64_t count)
{
    double zeta = 0;
    for (uint64_t i = 1; i <= count; i++)
        zeta += pow((double)i, -exponent);
    const double two = 1 + pow(0.5, exponent);
    *of = (access){ .dice = 1, .count = count, .zeta = zeta };
    of->eta = (1 - pow(2 / (double)count, 1 - exponent)) / (1 - two / zeta);
}

static uint64_t zipf_rank(access *of)
{
    const double even = (double)(roll(of) >> 11) * 0x1p-53, scaled = even * of->zeta;
    if (scaled < 1)
        return 0;
    if (scaled < 1 + pow(0.5, exponent))
        return 1;
    const double rank = (double)of->count * pow(of->eta * even - of->eta + 1, 1 / (1 - exponent));
    return rank < (double)of->count ? (uint64_t)rank : of->count - 1;
}

uint64_t access_next(access *of, access_pattern pattern)
{
    if (pattern == ACCESS_UNIFORM)
        return (uint64_t)(((wide)roll(of) * of->count) >> 64);
    return zipf_rank(of) * strewing % of->count;
}
