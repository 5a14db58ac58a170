/* SPDX-License-Identifier: MIT */
/* One word: one thread makes it odd, the other even, each as soon as it sees the other's store. */
#include "benchmarks/line.h"

#include "benchmarks/machine.h"
#include "runtime/atomic.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    TRIPS_PER_LOOK = 64, /* round trips between two looks at the clock */
    WARM_UP_PART = 8     /* of the duration */
};

#define STOP UINT64_MAX

typedef struct line_pair {
    teff__atomic_u64 word; /* both threads; nothing else is written in its page while they run */
    int64_t duration_ns;
    double trip_ns;
    pthread_barrier_t pinned; /* neither spins where the other has yet to move away */
} line_pair;

/* Nanoseconds per trip. */
static double trips(teff__atomic_u64 *word, int64_t duration_ns)
{
    const int64_t start_ns = machine_now_ns();
    const uint64_t first = teff__atomic_u64_load_relaxed(word);
    uint64_t even = first;
    int64_t passed_ns;
    do {
        for (int i = 0; i < TRIPS_PER_LOOK; i++) {
            teff__atomic_u64_store_release(word, even + 1); /* pairs with answer_main's load */
            even += 2;
            while (teff__atomic_u64_load_acquire(word) != even)
                continue;
        }
        passed_ns = machine_now_ns() - start_ns;
    } while (passed_ns < duration_ns);
    return (double)passed_ns / ((double)(even - first) / 2);
}

static void *ask_main(void *argument)
{
    line_pair *pair = argument;
    const int64_t duration_ns = pair->duration_ns;
    machine_pin(0);
    (void)pthread_barrier_wait(&pair->pinned);
    (void)trips(&pair->word, duration_ns / WARM_UP_PART);
    const double trip_ns = trips(&pair->word, duration_ns);
    teff__atomic_u64_store_release(&pair->word, STOP); /* pairs with answer_main's load */
    pair->trip_ns = trip_ns;
    return NULL;
}

static void *answer_main(void *argument)
{
    line_pair *pair = argument;
    uint64_t seen;
    machine_pin(1);
    (void)pthread_barrier_wait(&pair->pinned);
    while ((seen = teff__atomic_u64_load_acquire(&pair->word)) != STOP) {
        if ((seen & 1) != 0)
            teff__atomic_u64_store_release(&pair->word, seen + 1); /* pairs with trips's load */
    }
    return NULL;
}

int line_round_trip(int64_t duration_ns, double *ret_ns)
{
    pthread_t ask, answer;
    line_pair *pair = aligned_alloc(4096, 4096);
    if (pair == NULL)
        return -1;
    teff__atomic_u64_store_relaxed(&pair->word, 0);
    pair->duration_ns = duration_ns;
    int r = pthread_barrier_init(&pair->pinned, NULL, 2);
    if (r == 0)
        r = pthread_create(&answer, NULL, answer_main, pair);
    if (r != 0) {
        free(pair);
        return -1;
    }
    if (pthread_create(&ask, NULL, ask_main, pair) != 0) {
        teff__atomic_u64_store_release(&pair->word, STOP);
        (void)pthread_barrier_wait(&pair->pinned);
        r = -1;
    } else {
        (void)pthread_join(ask, NULL);
    }
    (void)pthread_join(answer, NULL);
    (void)pthread_barrier_destroy(&pair->pinned);
    if (r == 0)
        *ret_ns = pair->trip_ns;
    free(pair);
    return r;
}
