/* SPDX-License-Identifier: MIT */
/*
 * An activation: a grain in memory. It belongs to one worker from birth to death.
 *
 *     creating ─► activating ─► valid ─► deactivating ─► gone
 *        ▲            │           └ given up ─┴──────────▲ │
 *        │            └── failed, given up, asked to go ─┘ │
 *        └────── mail was waiting: same memory, new address
 *
 * One that is given up while a turn or hook of it is suspended is kept until that ends, and its mail
 * is another activation's; see grains/abandon.h.
 *
 * It is on the run queue (scheduled), or one of its turns runs or is suspended (busy), or neither;
 * mail that arrives schedules it in the last case only. One run serves one message.
 *
 * Threads: its worker's only, except for the record, which the directory reads under its lock.
 */
#ifndef TEFF_GRAINS_ACTIVATION_H
#define TEFF_GRAINS_ACTIVATION_H

#include "directory/table.h"
#include "grains/type.h"
#include "runtime/slab.h"
#include "runtime/worker.h"

typedef enum teff__activation_state {
    TEFF__ACTIVATION_CREATING,
    TEFF__ACTIVATION_ACTIVATING,
    TEFF__ACTIVATION_VALID,
    TEFF__ACTIVATION_DEACTIVATING,
    TEFF__ACTIVATION_GONE
} teff__activation_state;

enum { TEFF__ACTIVATION_SCHEDULED = 1, TEFF__ACTIVATION_BUSY = 2 };

/* One for each 16 bytes that the state of a type may have more. */
enum { TEFF__ACTIVATION_SLABS = 32 };

typedef struct teff__activation {
    teff__item item;
    teff__queue mailbox;
    teff__grain_record record;
    const teff__type *type;
    uint32_t mail_count;
    uint8_t state;            /* teff__activation_state */
    uint8_t flags;            /* scheduled, busy */
    uint8_t reason;           /* why it is to be deactivated, the first one given; 0: it is not */
    bool served;              /* it ran at least one request */
    teff__ring ring;          /* of those that may become idle; see grains/collect.h */
    uint32_t keep;            /* until when it is not idle, as the collector counts; 0: no wish */
    bool in_slab;             /* its memory is from one */
    _Alignas(16) char data[]; /* the grain's own state */
} teff__activation;

_Static_assert(sizeof(teff__activation) == 144, "what an idle grain costs most");
_Static_assert(offsetof(teff__activation, ring) <= 128, "what a call touches is in two lines");

/* What an activation of a stateless worker has behind its state; see grains/stateless.h. */
typedef struct teff__member {
    uint64_t
        address; /* the activation's; its record's is 0, so that no answer and no hint has it */
    teff__activation *activation;
    struct teff__shift *shift;
    teff__ring ring; /* of the shift's */
    teff__ring idle; /* of those of it that have nothing to do; alone: it has */
} teff__member;

static inline bool teff__type_is_stateless(const teff__type *type)
{
    return type->def.stateless_max != 0;
}

/* The state's bytes where a member's words follow. */
static inline size_t teff__activation_state_bytes(const teff__type *type)
{
    return (type->def.state_size + 15) & ~(size_t)15;
}

/* Whole units of 16, so that sizes are few. */
static inline size_t teff__activation_bytes(const teff__type *type)
{
    const size_t bytes = sizeof(teff__activation) + teff__activation_state_bytes(type);
    return TEFF__LIKELY(!teff__type_is_stateless(type))
               ? bytes
               : bytes + (sizeof(teff__member) + 15) / 16 * 16;
}

/* Of a stateless worker's. */
static inline teff__member *teff__activation_member(teff__activation *activation)
{
    return (teff__member *)(void *)(activation->data +
                                    teff__activation_state_bytes(activation->type));
}

/* By which its worker finds it: also a stateless worker's. */
static inline uint64_t teff__activation_address(const teff__activation *activation)
{
    return activation->record.address != 0
               ? activation->record.address
               : teff__activation_member((teff__activation *)(uintptr_t)activation)->address;
}

typedef struct teff__catalog teff__catalog;

/* Of a catalog: zeroed memory for one, or NULL; and back. The type is set by then. */
TEFF__INTERNAL void teff__activations_init(teff__catalog *catalog);
TEFF__INTERNAL void teff__activations_finish(teff__catalog *catalog);
TEFF__INTERNAL teff__activation *teff__activation_alloc(teff__catalog *catalog,
                                                        const teff__type *type);
TEFF__INTERNAL void teff__activation_forget(teff__catalog *catalog, teff__activation *activation);

/* The one place where the state changes. */
static inline void teff__activation_become(teff__activation *activation,
                                           teff__activation_state state)
{
    static const uint8_t allowed[] = {
        [TEFF__ACTIVATION_CREATING] = 1 << TEFF__ACTIVATION_ACTIVATING | 1 << TEFF__ACTIVATION_GONE,
        [TEFF__ACTIVATION_ACTIVATING] = 1 << TEFF__ACTIVATION_VALID | 1 << TEFF__ACTIVATION_GONE,
        [TEFF__ACTIVATION_VALID] = 1 << TEFF__ACTIVATION_DEACTIVATING | 1 << TEFF__ACTIVATION_GONE,
        [TEFF__ACTIVATION_DEACTIVATING] = 1 << TEFF__ACTIVATION_GONE,
        [TEFF__ACTIVATION_GONE] = 1 << TEFF__ACTIVATION_CREATING,
    };
    teff_assert(allowed[activation->state] >> state & 1);
    activation->state = (uint8_t)state;
}

#endif
