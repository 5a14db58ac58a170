/* SPDX-License-Identifier: MIT */
/*
 * Cold grains, called first by a hundred callers on all workers at once, in a plain program, for the
 * thread sanitizer: tests/unit/grains/cold.h, which ends the program where anything is wrong.
 *
 *   stress_cold [rounds=10] [grains=1000] [workers=4] [seconds_max=300]
 */
#include "../unit/grains/cold.h"

#include "stress_calls_common.h"

static void on_watchdog(int number)
{
    (void)number;
    fail("it hangs");
}

int main(int count, char **given)
{
    unsigned long long rounds = 10, grains = 1000, workers = 4, seconds_max = 300;
    const argument known[] = {
        { "rounds", &rounds, 1, 1000000 },
        { "grains", &grains, 1, 10000000 },
        { "workers", &workers, 1, 64 },
        { "seconds_max", &seconds_max, 1, 86400 },
    };
    arguments_read("stress_cold", known, sizeof(known) / sizeof(known[0]), count, given);
    watchdog_start(seconds_max, on_watchdog);
    unsigned long long late = 0;
    for (unsigned long long i = 0; i < rounds; i++)
        late += activate_each_once((uint32_t)workers, (uint32_t)grains);
    printf(
        "stress_cold: passed: %llu rounds of %llu grains, %llu workers; %llu came too late and never "
        "ran\n",
        rounds, grains, workers, late);
    return 0;
}
