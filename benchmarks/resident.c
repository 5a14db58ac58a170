/* SPDX-License-Identifier: MIT */
#include "benchmarks/resident.h"

#include <stdio.h>

struct idler {
    uint64_t touched, unused;
};
_Static_assert(sizeof(struct idler) == 16, "the design's bar is for 16 bytes of state");
TEFF_GRAIN(idler, IDLER_METHODS);

static int idler_on_touch(teff_turn *turn, struct idler *self, const teff_none *arg, teff_none *ret)
{
    (void)turn, (void)arg, (void)ret;
    self->touched++;
    return 0;
}

static int idler_on_leave(teff_turn *turn, struct idler *self, const teff_none *arg, teff_none *ret)
{
    (void)self, (void)arg, (void)ret;
    return teff_turn_deactivate(turn);
}

int resident_house_start(resident_house *ret)
{
    const teff_silo_options options = { .struct_size = sizeof(options), .workers = 1 };
    *ret = (resident_house){ NULL, NULL };
    int r = teff_silo_create(&options, &ret->silo);
    if (r == 0)
        r = teff_silo_register(ret->silo, &idler_grain, NULL);
    if (r == 0)
        r = teff_silo_start(ret->silo);
    return r;
}

int resident_house_open(resident_house *ret)
{
    const int r = resident_house_start(ret);
    return r == 0 ? teff_client_create(ret->silo, NULL, &ret->client) : r;
}

void resident_house_finish(resident_house *house)
{
    house->client = teff_client_destroy(house->client);
    house->silo = teff_silo_destroy(house->silo);
}

int resident_house_run(const resident_house *house, int (*run)(teff_task *task, void *user),
                       void *user)
{
    teff_future task;
    int result = 0;
    int r = teff_silo_spawn(house->silo, 0, run, user, house->client, &task);
    if (r == 0)
        r = teff_task_claim(house->client, task, &result);
    if (r != 0 || result != 0)
        (void)fprintf(stderr, "a task ended with %d, its wait with %d\n", result, r);
    return r != 0 ? r : result;
}

static int touch_all(teff_task *task, void *user)
{
    const resident_keys *keys = user;
    for (uint64_t i = 0; i < keys->count; i++) {
        idler_ref one = idler_at(keys->first + i);
        const int r = idler_touch(task, &one, NULL, NULL);
        if (r != 0)
            return r;
        if (keys->routes != NULL)
            keys->routes[i] = one.ref.route;
    }
    return 0;
}

int resident_house_touch(const resident_house *house, resident_keys keys)
{
    return resident_house_run(house, touch_all, &keys);
}

int resident_house_check(const resident_house *house, uint64_t resident, uint64_t made)
{
    teff_grain_counts counts = { .struct_size = sizeof(counts) };
    const int r = teff_silo_grain_counts(house->silo, &counts);
    if (r == 0 && counts.resident == resident && counts.made == made)
        return 0;
    (void)fprintf(stderr, "%llu grains are there, not %llu; %llu were made, not %llu (%d)\n",
                  (unsigned long long)counts.resident, (unsigned long long)resident,
                  (unsigned long long)counts.made, (unsigned long long)made, r);
    return -1;
}

void resident_count_name(int64_t count, char *ret, size_t size)
{
    const bool millions = count >= 1000000 && count % 1000000 == 0;
    const bool thousands = !millions && count >= 1000 && count % 1000 == 0;
    (void)snprintf(ret, size, "%lld%s",
                   (long long)(count / (millions    ? 1000000
                                        : thousands ? 1000
                                                    : 1)),
                   millions    ? "m"
                   : thousands ? "k"
                               : "");
}
