/* SPDX-License-Identifier: MIT */
/*
 * The pairing heap. Each node is no later than its children; children form a list, the latest
 * melded first.
 *
 * Starting is one comparison. Taking a node out joins its children in two passes, neighbours from
 * the left and then the pairs from the right, which makes it O(log n) amortized; both passes are
 * loops, so a long list needs no stack.
 */
#include "runtime/timers.h"

static bool earlier(const teff__timer *a, const teff__timer *b)
{
    return a->deadline_ns < b->deadline_ns ||
           (a->deadline_ns == b->deadline_ns && a->number < b->number);
}

/* Joins two roots; gives the earlier one, with the other as its first child. */
static teff__timer *meld(teff__timer *a, teff__timer *b)
{
    teff__timer *root = earlier(a, b) ? a : b;
    teff__timer *child = root == a ? b : a;
    child->sibling = root->child;
    if (child->sibling != NULL)
        child->sibling->previous = child;
    child->previous = root;
    root->child = child;
    root->sibling = root->previous = NULL;
    return root;
}

/* Joins a list of siblings into one root, or NULL. */
static teff__timer *join(teff__timer *first)
{
    teff__timer *pairs = NULL, *root = NULL;
    while (first != NULL) {
        teff__timer *a = first, *b = a->sibling;
        first = b != NULL ? b->sibling : NULL;
        if (b != NULL)
            a = meld(a, b);
        a->sibling = pairs;
        pairs = a;
    }
    while (pairs != NULL) {
        teff__timer *next = pairs->sibling;
        pairs->sibling = pairs->previous = NULL;
        root = root != NULL ? meld(root, pairs) : pairs;
        pairs = next;
    }
    return root;
}

void teff__timers_start(teff__timers *timers, teff__timer *timer, int64_t deadline_ns,
                        void (*expired)(teff__timer *timer))
{
    teff_assert(!teff__timer_started(timer));
    timer->child = timer->sibling = timer->previous = NULL;
    timer->deadline_ns = deadline_ns;
    timer->number = ++timers->number;
    timer->expired = expired;
    timers->first = timers->first != NULL ? meld(timers->first, timer) : timer;
}

void teff__timers_stop(teff__timers *timers, teff__timer *timer)
{
    teff_assert(teff__timer_started(timer));
    teff__timer *children = join(timer->child);
    if (timer == timers->first) {
        timers->first = children;
    } else {
        if (timer->previous->child == timer)
            timer->previous->child = timer->sibling;
        else
            timer->previous->sibling = timer->sibling;
        if (timer->sibling != NULL)
            timer->sibling->previous = timer->previous;
        if (children != NULL)
            timers->first = meld(timers->first, children);
    }
    timer->child = timer->sibling = timer->previous = NULL;
    timer->number = 0;
}

void teff__timers_run(teff__timers *timers, int64_t now_ns)
{
    while (timers->first != NULL && timers->first->deadline_ns <= now_ns) {
        teff__timer *timer = timers->first;
        /* Stopped before it runs: it may start itself again, or free itself. */
        teff__timers_stop(timers, timer);
        timer->expired(timer);
    }
}
