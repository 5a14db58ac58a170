/* SPDX-License-Identifier: MIT */
/*
 * The benchmark `calls`: what the forms of a call cost beside the plain awaited one, and what it
 * costs to be embedded in a program's loop. Each is compared with another of the same round.
 */
#include "benchmarks/calls_forms.h"
#include "benchmarks/chain.h"
#include "benchmarks/harness.h"
#include "benchmarks/ideal.h"
#include "benchmarks/machine.h"
#include "benchmarks/ping_stage.h"

#include <math.h>
#include <stdio.h>

static int64_t rounds = 15, duration_ms = 40, suspended = 10000;

static ping_host ping_hosts[1];
static ping_stage *local;
static calls_host hosts[2]; /* with one worker, and with two */

typedef enum what {
    LOCAL,
    IDEAL_CROSS,
    THEN,
    SAME_LOOP,
    AWAITED,
    START_CLAIM,
    SEND,
    SEND_CROSS,
    CHAIN_CROSS,
    VALUE,
    BYTES,
    WHATS
} what;

static const char *const names[WHATS] = {
    [LOCAL] = "ping.local.100",      [IDEAL_CROSS] = "ideal.cross.100",
    [THEN] = "ping.then.100",        [SAME_LOOP] = "ping.same_loop.100",
    [AWAITED] = "calls.awaited.100", [START_CLAIM] = "calls.start_claim.100",
    [SEND] = "calls.send",           [SEND_CROSS] = "calls.send.cross",
    [CHAIN_CROSS] = "chain.cross",   [VALUE] = "calls.value.64",
    [BYTES] = "calls.bytes.64k",
};

/* What is asked of one: at most so much of another, or so many nanoseconds. */
typedef struct bar {
    what subject, reference;
    double ratio;      /* NAN: none */
    double ns;         /* NAN: none */
    double difference; /* in nanoseconds; NAN: none */
} bar;

static const bar bars[] = {
    { THEN, IDEAL_CROSS, 3, NAN, NAN },         { SAME_LOOP, LOCAL, 1.1, NAN, NAN },
    { START_CLAIM, AWAITED, 1.3, NAN, NAN },    { SEND, LOCAL, NAN, 25, NAN },
    { SEND_CROSS, CHAIN_CROSS, 1.6, NAN, NAN }, { BYTES, VALUE, NAN, NAN, 15 },
};

static int run_local(int64_t duration_ns, double *ret_ns)
{
    ping_result result;
    const int r = ping_stage_run(local, duration_ns, &result);
    if (r == 0)
        *ret_ns = result.ns;
    return r;
}

static int run(void *user, double *ret)
{
    const int64_t duration_ns = duration_ms * 1000000;
    switch (*(const what *)user) {
    case LOCAL:
        return run_local(duration_ns, ret);
    case IDEAL_CROSS:
        return ideal_cross(CALLS_GRAINS, duration_ns, ret);
    case THEN:
        return calls_then(&hosts[0], duration_ns, ret);
    case SAME_LOOP:
        return calls_same_loop(duration_ns, ret);
    case AWAITED:
        return calls_run(&hosts[0], CALLS_AWAITED, duration_ns, ret);
    case START_CLAIM:
        return calls_run(&hosts[0], CALLS_START_CLAIM, duration_ns, ret);
    case SEND:
        return calls_run(&hosts[0], CALLS_SEND, duration_ns, ret);
    case SEND_CROSS:
        return calls_run(&hosts[1], CALLS_SEND_CROSS, duration_ns, ret);
    case CHAIN_CROSS:
        return chain_cross(CALLS_GRAINS, duration_ns, ret);
    case VALUE:
        return calls_run(&hosts[0], CALLS_VALUE, duration_ns, ret);
    case BYTES:
        return calls_run(&hosts[0], CALLS_BYTES, duration_ns, ret);
    case WHATS:
        break;
    }
    return -1;
}

static int prepare(void)
{
    if (ping_host_init(&ping_hosts[0], 1) != 0)
        return -1;
    local = ping_stage_create(&ping_hosts[0], CALLS_GRAINS);
    if (local == NULL || calls_host_init(&hosts[0], 1) != 0 || calls_host_init(&hosts[1], 2) != 0)
        return -1;
    machine_pin(1); /* only now: the silos look at how many cores they may use */
    return 0;
}

static void finish(void)
{
    ping_stage_destroy(local);
    ping_host_finish(&ping_hosts[0]);
    calls_host_finish(&hosts[0]);
    calls_host_finish(&hosts[1]);
}

/* The median of the rounds' differences. */
static double difference(const bench_samples *a, const bench_samples *b)
{
    bench_samples all = { 0 };
    for (size_t i = 0; i < a->count && i < b->count; i++)
        bench_samples_add(&all, a->values[i] - b->values[i]);
    const double median = bench_samples_percentile(&all, 0.5);
    bench_samples_finish(&all);
    return median;
}

static void report_suspended(bench_program *bench, double bytes)
{
    bench_samples samples = { 0 };
    bench_samples_add(&samples, bytes);
    (void)bench_add(bench, &samples, "bytes", "memory.suspended");
    bench_samples_finish(&samples);
    (void)printf("%-22s %8.0f bytes of memory for each of %lld turns suspended in an awaited call; "
                 "at most 8192: %s\n",
                 "memory.suspended", bytes, (long long)suspended, bytes <= 8192 ? "PASS" : "over");
}

/* "0.9 x of ping.local.100, at most 1.1: PASS". Before the rows: those sort their samples. */
static void print_bar(bench_measurement *all, const bar *asked, char *text, size_t size)
{
    bench_samples *subject = &all[asked->subject].samples,
                  *reference = &all[asked->reference].samples;
    if (!isnan(asked->ratio)) {
        const double ratio = bench_samples_ratio(subject, reference);
        (void)snprintf(text, size, "%.2f x %s, at most %.1f: %s", ratio, names[asked->reference],
                       asked->ratio, ratio <= asked->ratio ? "PASS" : "over");
    } else if (!isnan(asked->difference)) {
        const double more = difference(subject, reference);
        (void)snprintf(text, size, "%.1f ns more than %s, at most %.0f: %s", more,
                       names[asked->reference], asked->difference,
                       more <= asked->difference ? "PASS" : "over");
    }
}

static void report(bench_program *bench, bench_measurement *all)
{
    char text[WHATS][BENCH_NAME_MAX * 3] = { { 0 } };
    double more = NAN;
    for (size_t i = 0; i < sizeof(bars) / sizeof(bars[0]); i++)
        print_bar(all, &bars[i], text[bars[i].subject], sizeof(text[0]));
    more = difference(&all[BYTES].samples, &all[VALUE].samples);
    (void)printf("%-22s %8s %8s %8s\n", "", "ns each", "min", "max");
    for (int i = 0; i < WHATS; i++) {
        bench_samples *samples = &all[i].samples;
        if (samples->count == 0)
            continue;
        const double median = bench_samples_percentile(samples, 0.5);
        for (size_t k = 0; k < sizeof(bars) / sizeof(bars[0]); k++) {
            if (bars[k].subject == (what)i && !isnan(bars[k].ns))
                (void)snprintf(text[i], sizeof(text[i]), "at most %.0f ns: %s", bars[k].ns,
                               median <= bars[k].ns ? "PASS" : "over");
        }
        (void)printf("%-22s %8.1f %8.1f %8.1f  %s\n", names[i], median,
                     bench_samples_percentile(samples, 0), bench_samples_percentile(samples, 1),
                     text[i]);
        bench_row *row = bench_add(bench, samples, "ns", "%s", names[i]);
        if (i == BYTES)
            bench_row_extra(row, "more_than_value", more);
    }
}

int main(int argc, char **argv)
{
    const bench_option options[] = {
        { "rounds", "measurements of each", &rounds, 1, 10000 },
        { "duration_ms", "of one measurement", &duration_ms, 1, 10000 },
        { "suspended", "turns for memory.suspended", &suspended, 1, 30000 },
    };
    static bench_program bench;
    static bench_measurement all[WHATS];
    static what whats[WHATS];
    double bytes = 0;
    bench_begin(&bench, "calls", "every form of a call, and silos and clients on a program's loop",
                options, sizeof(options) / sizeof(options[0]), argc, argv);
    if (calls_suspended((unsigned)suspended, &bytes) != 0 || prepare() != 0) {
        bench_fail(&bench, "what is to be measured is not there");
    } else {
        for (int i = 0; i < WHATS; i++) {
            whats[i] = (what)i;
            all[i] = (bench_measurement){ names[i], run, &whats[i], { 0 } };
        }
        bench_rounds(&bench, all, WHATS, rounds);
        report_suspended(&bench, bytes);
        report(&bench, all);
    }
    for (int i = 0; i < WHATS; i++)
        bench_samples_finish(&all[i].samples);
    finish();
    return bench_end(&bench);
}
