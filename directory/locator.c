/* SPDX-License-Identifier: MIT */
/* The locator of a silo that is alone: it never has to ask. */
#include "directory/locator.h"

static int find(void *self, uint64_t hash, uint32_t type, const teff_key *key, uint64_t *ret)
{
    *ret = teff__directory_find(self, hash, type, key);
    return 0;
}

static int enter(void *self, teff__grain_record *record, uint64_t previous, uint64_t *ret)
{
    return teff__directory_register(self, record, previous, ret);
}

static int move(void *self, teff__grain_record *record, uint64_t address)
{
    teff__directory_replace(self, record, address);
    return 0;
}

static int leave(void *self, teff__grain_record *record)
{
    teff__directory_unregister(self, record);
    return 0;
}

static int place(void *self, uint64_t hash, uint32_t type, const teff_key *key, uint32_t worker,
                 uint64_t *ret)
{
    return teff__directory_place(self, hash, type, key, worker, ret);
}

static void unplace(void *self, uint64_t hash, uint32_t type, const teff_key *key, uint32_t worker)
{
    teff__directory_unplace(self, hash, type, key, worker);
}

static void ask(void *self, teff__locator_ask *question)
{
    (void)self;
    teff_assert(question == NULL); /* nobody asks: the directory of this process answers at once */
}

teff__locator teff__locator_local(teff__directory *directory)
{
    static const teff__locator_ops ops = { find, enter, move, leave, ask, place, unplace };
    return (teff__locator){ &ops, directory };
}
