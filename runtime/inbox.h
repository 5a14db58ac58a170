/* SPDX-License-Identifier: MIT */
/*
 * The inbox of a worker: many producers, one consumer, first in, first out for each producer.
 *
 * A stack that producers push with a compare-and-swap and the consumer takes whole with one
 * exchange, then reverses (as in Linux's llist). There is no half-linked state: a producer that is
 * preempted holds nobody up. A producer with several messages links them newest first and pushes
 * them as one chain.
 *
 * Going to sleep. The consumer stores `sleeping` and then looks at the stack; a producer pushes and
 * then looks at `sleeping`. "I set mine, then look at yours" on both sides: all four accesses are
 * seq_cst. A producer that sees `sleeping` takes the flag by an exchange, so exactly one of them
 * pays for the wake-up; until it has sent that, it is the one producer that the consumer may have
 * to wait for.
 *
 * Threads:
 *   push             any thread
 *   take, sleeping   the consumer
 */
#ifndef TEFF_RUNTIME_INBOX_H
#define TEFF_RUNTIME_INBOX_H

#include "runtime/assert.h"
#include "runtime/atomic.h"
#include "runtime/list.h"

typedef struct teff__inbox {
    _Alignas(TEFF__CACHE_LINE) teff__atomic_pointer head; /* any producer; consumer */
    teff__atomic_u32 sleeping; /* set by the consumer, taken by a producer */
} teff__inbox;

static inline void teff__inbox_init(teff__inbox *inbox)
{
    teff__atomic_pointer_store_relaxed(&inbox->head, NULL);
    teff__atomic_u32_store_relaxed(&inbox->sleeping, 0);
}

/*
 * Pushes a chain: `newest` is its first link, `oldest` the last. True: the consumer sleeps, and
 * this caller is the one that must wake it.
 */
static inline bool teff__inbox_push_chain(teff__inbox *inbox, teff__link *newest,
                                          teff__link *oldest)
{
    void *head = teff__atomic_pointer_load_relaxed(&inbox->head);
    do
        oldest->next = head;
    /* pairs with take's exchange */
    while (!teff__atomic_pointer_cas_seq_cst(&inbox->head, &head, newest));
    return TEFF__UNLIKELY(teff__atomic_u32_load_seq_cst(&inbox->sleeping) != 0) &&
           teff__atomic_u32_exchange_seq_cst(&inbox->sleeping, 0) != 0;
}

static inline bool teff__inbox_push(teff__inbox *inbox, teff__link *link)
{
    return teff__inbox_push_chain(inbox, link, link);
}

/* Nothing there? A look without order: what it misses, the next one sees. */
static inline bool teff__inbox_empty(const teff__inbox *inbox)
{
    return teff__atomic_pointer_load_relaxed(&inbox->head) == NULL;
}

/* Takes everything, oldest first; NULL when there is nothing. */
static inline teff__link *teff__inbox_take(teff__inbox *inbox)
{
    teff__link *stack, *fifo = NULL;
    if (teff__inbox_empty(inbox))
        return NULL;
    /* pairs with push's swap */
    stack = teff__atomic_pointer_exchange_acquire(&inbox->head, NULL);
    while (stack != NULL) {
        teff__link *next = stack->next;
        /* Each link is a line of the producer's. The one behind it will be needed as well. */
        __builtin_prefetch((const char *)stack + TEFF__CACHE_LINE);
        stack->next = fifo;
        fifo = stack;
        stack = next;
    }
    return fifo;
}

/* Announces sleep. False: something arrived meanwhile, and the consumer is awake again. */
static inline bool teff__inbox_sleep(teff__inbox *inbox)
{
    teff__atomic_u32_store_seq_cst(&inbox->sleeping, 1);
    if (teff__atomic_pointer_load_seq_cst(&inbox->head) == NULL)
        return true;
    teff__atomic_u32_store_relaxed(&inbox->sleeping, 0);
    return false;
}

/* The consumer woke by itself or was woken. */
static inline void teff__inbox_awake(teff__inbox *inbox)
{
    teff__atomic_u32_store_relaxed(&inbox->sleeping, 0);
}

#endif
