/* SPDX-License-Identifier: MIT */
/*
 * Does an idle silo sleep? Starts one, makes calls, and counts over some seconds of real time how
 * often its workers wake up: by the silo's own count and by the kernel's (voluntary context
 * switches of every thread but this one).
 *
 *     idle [seconds=5]
 */
#include "runtime/silo.h"
#include "teff.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct number {
    uint64_t n;
};
#define IDLER_METHODS(METHOD, SELF) METHOD(SELF, add, struct number, struct number, 0)
TEFF_INTERFACE(idler, IDLER_METHODS);

struct idler {
    uint64_t n;
};
TEFF_GRAIN(idler, IDLER_METHODS);

static int idler_on_add(teff_turn *turn, struct idler *self, const struct number *arg,
                        struct number *ret)
{
    (void)turn;
    ret->n = self->n += arg->n;
    return 0;
}

/* How often the other threads of this process gave up the processor by themselves. */
static unsigned long switches_of_others(void)
{
    unsigned long sum = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        char path[300], line[128];
        unsigned long count;
        if (task->d_name[0] == '.' || atoi(task->d_name) == getpid())
            continue;
        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        while (status != NULL && fgets(line, sizeof(line), status) != NULL)
            if (sscanf(line, "voluntary_ctxt_switches: %lu", &count) == 1)
                sum += count;
        if (status != NULL)
            (void)fclose(status);
    }
    if (tasks != NULL)
        (void)closedir(tasks);
    return sum;
}

static void wait_for(time_t seconds, long nanoseconds)
{
    struct timespec time = { seconds, nanoseconds };
    (void)nanosleep(&time, NULL);
}

int main(int count, char **arguments)
{
    const int seconds =
        count > 1 && strncmp(arguments[1], "seconds=", 8) == 0 ? atoi(arguments[1] + 8) : 5;
    const teff_silo_options options = { .struct_size = sizeof(options), .workers = 2 };
    teff_silo *silo;
    teff_client *client;
    if (teff_silo_create(&options, &silo) != 0 ||
        teff_silo_register(silo, &idler_grain, NULL) != 0 || teff_silo_start(silo) != 0 ||
        teff_client_create(silo, NULL, &client) != 0)
        return 1;
    for (uint64_t key = 0; key < 100; key++) {
        idler_ref idler = idler_at(key);
        struct number ret;
        if (idler_add(client, &idler, &(struct number){ 1 }, &ret) != 0 || ret.n != 1)
            return 1;
    }
    wait_for(0, 200000000); /* the workers' spinning ends */
    const uint64_t parked = teff__silo_park_count(silo);
    const unsigned long switches = switches_of_others();
    wait_for(seconds, 0);
    const uint64_t wakeups = teff__silo_park_count(silo) - parked;
    const unsigned long switched = switches_of_others() - switches;

    /* The count must be able to count: one call wakes a worker and lets it park again. */
    idler_ref idler = idler_at(1);
    struct number ret;
    const int r = idler_add(client, &idler, &(struct number){ 1 }, &ret);
    wait_for(0, 200000000);
    const uint64_t woken = teff__silo_park_count(silo) - parked;
    teff_client_destroy(client);
    const bool ended = teff_silo_destroy(silo) == NULL;
    printf("idle for %d s: %lu wake-ups, %lu context switches; then one call: %lu wake-ups\n",
           seconds, (unsigned long)wakeups, switched, (unsigned long)woken);
    if (wakeups != 0 || switched != 0 || r != 0 || ret.n != 2 || woken == 0 || !ended) {
        printf("idle: FAILED\n");
        return 1;
    }
    return 0;
}
