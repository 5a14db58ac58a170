/* SPDX-License-Identifier: MIT */
/*
 * The locator: how the runtime asks where a grain is, whoever knows it. The grain directory of this
 * process (directory/directory.h) is one that knows; another may have to ask another process.
 *
 *     find        the address registered for a grain, or 0
 *     enter       registers an activation, or finds the one that is there; one whose address is
 *                 `previous` makes way
 *     move        gives exactly this registered activation another address
 *     leave       unregisters exactly this activation
 *     place       says that an activation is to be made on another worker of this process, or finds
 *                 what is registered, or where it was to be made already; until that worker enters
 *                 one, find tells so. Always at once, and not every locator can
 *     unplace     says that it is not, if it still was to be
 *
 * Each is tried at once, and most often that is all. One that cannot be finished at once says LATER
 * and has done nothing; the caller then asks, with memory of its own, and the answer comes as a
 * message to its worker's inbox.
 *
 * Threads: any.
 */
#ifndef TEFF_DIRECTORY_LOCATOR_H
#define TEFF_DIRECTORY_LOCATOR_H

#include "directory/directory.h"
#include "messaging/message.h"

/* No status: what was tried needs time. */
enum { TEFF__LOCATOR_LATER = 1 };

typedef enum teff__locator_op {
    TEFF__LOCATOR_FIND,
    TEFF__LOCATOR_ENTER, /* also for a move: `previous` is then the address before */
    TEFF__LOCATOR_LEAVE
} teff__locator_op;

/*
 * A question under way. It belongs to the locator from ask to answer, whatever becomes of the
 * worker, and to the message's holder from then on.
 */
typedef struct teff__locator_ask {
    teff__message message; /* first; of the class HEAP: it frees the whole */
    teff__locator_op op;
    uint32_t worker;          /* that asks */
    teff__grain_record grain; /* ENTER, LEAVE: with the activation's address */
    uint64_t previous;        /* ENTER: which address may make way; 0: none */
    /* The answer: as the operation would return it, and where the grain is, or 0. */
    int code;
    uint64_t address;
} teff__locator_ask;

typedef struct teff__locator_ops {
    /* 0, TEFF__LOCATOR_LATER, or an error that callers get; see directory/directory.h. */
    int (*find)(void *self, uint64_t hash, uint32_t type, const teff_key *key, uint64_t *ret);
    int (*enter)(void *self, teff__grain_record *record, uint64_t previous, uint64_t *ret);
    int (*move)(void *self, teff__grain_record *record, uint64_t address);
    int (*leave)(void *self, teff__grain_record *record);
    /* Takes the question; answers it once, with teff__exchange_post, before the silo is destroyed. */
    void (*ask)(void *self, teff__locator_ask *ask);
    /* Or NULL: workers that place a grain at the same time may then differ, until one has made it. */
    int (*place)(void *self, uint64_t hash, uint32_t type, const teff_key *key, uint32_t worker,
                 uint64_t *ret);
    void (*unplace)(void *self, uint64_t hash, uint32_t type, const teff_key *key, uint32_t worker);
} teff__locator_ops;

typedef struct teff__locator {
    const teff__locator_ops *ops;
    void *self; /* borrowed: whoever made it frees it when the silo is gone */
} teff__locator;

/* The one that is the directory of this process. */
TEFF__INTERNAL teff__locator teff__locator_local(teff__directory *directory);

static inline int teff__locator_find(const teff__locator *locator, uint64_t hash, uint32_t type,
                                     const teff_key *key, uint64_t *ret)
{
    return locator->ops->find(locator->self, hash, type, key, ret);
}

static inline int teff__locator_enter(const teff__locator *locator, teff__grain_record *record,
                                      uint64_t previous, uint64_t *ret)
{
    return locator->ops->enter(locator->self, record, previous, ret);
}

static inline int teff__locator_move(const teff__locator *locator, teff__grain_record *record,
                                     uint64_t address)
{
    return locator->ops->move(locator->self, record, address);
}

static inline int teff__locator_leave(const teff__locator *locator, teff__grain_record *record)
{
    return locator->ops->leave(locator->self, record);
}

static inline int teff__locator_place(const teff__locator *locator, uint64_t hash, uint32_t type,
                                      const teff_key *key, uint32_t worker, uint64_t *ret)
{
    if (locator->ops->place != NULL)
        return locator->ops->place(locator->self, hash, type, key, worker, ret);
    *ret = teff__address_placed(worker);
    return 0;
}

static inline void teff__locator_unplace(const teff__locator *locator, uint64_t hash, uint32_t type,
                                         const teff_key *key, uint32_t worker)
{
    if (locator->ops->unplace != NULL)
        locator->ops->unplace(locator->self, hash, type, key, worker);
}

static inline void teff__locator_ask_for(const teff__locator *locator, teff__locator_ask *ask)
{
    locator->ops->ask(locator->self, ask);
}

#endif
