/* SPDX-License-Identifier: MIT */
/*
 * Intrusive lists: a queue (first in, first out, one link) and a ring (two links, removal from
 * anywhere). Neither allocates, neither owns what it links. Threads: one at a time.
 */
#ifndef TEFF_RUNTIME_LIST_H
#define TEFF_RUNTIME_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct teff__link {
    struct teff__link *next;
} teff__link;

/* A queue of links; empty when head is NULL, and tail is then anything. */
typedef struct teff__queue {
    teff__link *head, *tail;
} teff__queue;

static inline void teff__queue_init(teff__queue *queue)
{
    queue->head = queue->tail = NULL;
}

static inline void teff__queue_push(teff__queue *queue, teff__link *link)
{
    link->next = NULL;
    if (queue->head == NULL)
        queue->head = link;
    else
        queue->tail->next = link;
    queue->tail = link;
}

static inline teff__link *teff__queue_pop(teff__queue *queue)
{
    teff__link *link = queue->head;
    if (link != NULL)
        queue->head = link->next;
    return link;
}

static inline void teff__queue_push_front(teff__queue *queue, teff__link *link)
{
    link->next = queue->head;
    if (queue->head == NULL)
        queue->tail = link;
    queue->head = link;
}

/* Moves everything from `from` to the end of `queue`. */
static inline void teff__queue_append(teff__queue *queue, teff__queue *from)
{
    if (from->head == NULL)
        return;
    if (queue->head == NULL)
        queue->head = from->head;
    else
        queue->tail->next = from->head;
    queue->tail = from->tail;
    from->head = NULL;
}

/* A ring: the head is a node that is no element. An unlinked node points to itself. */
typedef struct teff__ring {
    struct teff__ring *next, *previous;
} teff__ring;

static inline void teff__ring_init(teff__ring *node)
{
    node->next = node->previous = node;
}

static inline bool teff__ring_empty(const teff__ring *head)
{
    return head->next == head;
}

static inline void teff__ring_push_back(teff__ring *head, teff__ring *node)
{
    node->next = head;
    node->previous = head->previous;
    head->previous->next = node;
    head->previous = node;
}

static inline void teff__ring_remove(teff__ring *node)
{
    node->previous->next = node->next;
    node->next->previous = node->previous;
    teff__ring_init(node);
}

/* Moves everything from `from` to the end of `head`. */
static inline void teff__ring_append(teff__ring *head, teff__ring *from)
{
    if (teff__ring_empty(from))
        return;
    from->next->previous = head->previous;
    head->previous->next = from->next;
    from->previous->next = head;
    head->previous = from->previous;
    teff__ring_init(from);
}

#endif
