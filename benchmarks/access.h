/* SPDX-License-Identifier: MIT */
/*
 * Which of many is accessed next: any, or few of them often. The same sequence always.
 *
 * Threads: one.
 */
#ifndef TEFF_BENCHMARKS_ACCESS_H
#define TEFF_BENCHMARKS_ACCESS_H

#include <stdint.h>

typedef enum access_pattern { ACCESS_UNIFORM, ACCESS_ZIPF, ACCESS_PATTERNS } access_pattern;

typedef struct access {
    uint64_t dice;
    uint64_t count;
    double zeta, eta; /* of Zipf's law with the exponent 0.99, for so many */
} access;

/* Among the keys 0 to `count` - 1, at most 100,000,000. Takes a time proportional to `count`. */
void access_init(access *of, uint64_t count);

/*
 * The next key. Uniform; or by Zipf's law with the exponent 0.99, as YCSB has it, the popular ones
 * strewn over all keys.
 */
uint64_t access_next(access *of, access_pattern pattern);

#endif
