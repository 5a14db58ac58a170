/* SPDX-License-Identifier: MIT */
/* The benchmark `collect`; see activation_collect.h. */
#include "benchmarks/activation_collect.h"

int main(int argc, char **argv)
{
    static bench_program bench;
    static int64_t grains = 1000000, collected = 100000, rounds = 5;
    const bench_option options[] = {
        { "grains", "how many are in memory", &grains, 1, 100000000 },
        { "collected", "how many of them go", &collected, 1, 100000000 },
        { "rounds", "how often", &rounds, 1, 1000 },
    };
    bench_begin(&bench, "collect", "what does it cost that idle grains go, and who notices?",
                options, sizeof(options) / sizeof(options[0]), argc, argv);
    (void)activation_collect(&bench, grains, collected, rounds);
    bench_print(&bench);
    return bench_end(&bench);
}
