/* SPDX-License-Identifier: MIT */
/*
 * The inbox under load: several producers push numbered messages, singly and in chains, while one
 * consumer takes them and sleeps whenever there are none.
 *
 *   stress_inbox [producers=3] [messages=20000] [hang_seconds=20]
 *
 * Each producer has a window of messages under way and waits when it is used up. So a wake-up that
 * is lost stops everything, rather than being made good by the next message, and the watchdog sees
 * it; surest with one producer, so that runs too. The windows are small (the consumer sleeps at
 * nearly every message) and large (it hardly does); it sleeps on a futex and on an eventfd in turn.
 * Both sides linger at random before they meet, or they would always meet in the same order.
 * `messages` is how many each producer sends in each of the 16 runs.
 */
#include "runtime/chance.h"
#include "runtime/inbox.h"
#include "runtime/thread.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PRODUCERS_MAX = 64, WINDOW_MAX = 256, CHAIN_MAX = 8 };

typedef enum sleep_by { BY_FUTEX, BY_EVENTFD } sleep_by;

typedef struct message {
    teff__link link;
    uint32_t producer;
    uint64_t number;
} message;

struct round;

typedef struct producer {
    struct round *round;
    uint32_t index;
    teff__thread thread;
    teff__chance chance;
    uint64_t next; /* consumer only: the number that it expects */
    _Alignas(TEFF__CACHE_LINE) teff__atomic_u64 consumed; /* consumer writes; producer reads */
    message messages[WINDOW_MAX];                         /* number n stands at n % window */
} producer;

typedef struct round {
    teff__inbox inbox;
    sleep_by by;
    uint64_t messages, window;
    uint32_t producer_count;
    int fd;                 /* BY_EVENTFD */
    teff__atomic_u32 woken; /* BY_FUTEX: how often */
    uint64_t sleeps;        /* consumer only */
    teff__chance chance;    /* consumer only */
    producer *producers;
} round;

static void fail(const char *what, uint64_t from, uint64_t expected, uint64_t got)
{
    printf("stress_inbox: FAILED: %s: producer %llu, expected message %llu, got %llu\n", what,
           (unsigned long long)from, (unsigned long long)expected, (unsigned long long)got);
    exit(1);
}

static teff__atomic_u64 consumed_in_all; /* consumer writes; watchdog reads */
static unsigned hang_seconds = 20;

/* Looks for progress rather than at the time: a busy machine is slow, but never stands still. */
static void on_watchdog(int number)
{
    static const char text[] = "stress_inbox: FAILED: it hangs: a wake-up was lost\n";
    static uint64_t seen = UINT64_MAX;
    uint64_t now = teff__atomic_u64_load_relaxed(&consumed_in_all);
    (void)number;
    if (now == seen) {
        (void)!write(STDOUT_FILENO, text, sizeof(text) - 1);
        _exit(1);
    }
    seen = now;
    (void)alarm(hang_seconds);
}

/* Up to some hundred nanoseconds: what a store needs to reach another core. */
static void linger(teff__chance *chance)
{
    for (volatile uint64_t left = teff__chance_next(chance) % 256; left > 0; left--)
        ;
}

/* --- Producers ------------------------------------------------------------------------------- */

static void wake_consumer(round *self)
{
    if (self->by == BY_EVENTFD) {
        teff__wakeup_send(self->fd);
    } else {
        (void)teff__atomic_u32_add_acq_rel(&self->woken, 1); /* pairs with consumer_sleep's loads */
        teff__futex_wake(&self->woken);
    }
}

static void produce(void *argument)
{
    producer *self = argument;
    round *through = self->round;
    for (uint64_t sent = 0, waited = 0; sent < through->messages;) {
        /* pairs with consume's release: what it gave back may be written again */
        uint64_t room = teff__atomic_u64_load_acquire(&self->consumed) + through->window - sent;
        if (room == 0) { /* on the spot, to be quick; but the consumer may need this core */
            if (++waited % 1024 == 0)
                (void)sched_yield();
            continue;
        }
        uint64_t length = teff__chance_next(&self->chance) % CHAIN_MAX + 1;
        if (length > room)
            length = room;
        if (length > through->messages - sent)
            length = through->messages - sent;
        teff__link *newest = NULL, *oldest = &self->messages[sent % through->window].link;
        for (; length > 0; length--, sent++) {
            message *next = &self->messages[sent % through->window];
            next->producer = self->index;
            next->number = sent;
            next->link.next = newest;
            newest = &next->link;
        }
        linger(&self->chance);
        bool wake = newest == oldest ? teff__inbox_push(&through->inbox, newest)
                                     : teff__inbox_push_chain(&through->inbox, newest, oldest);
        if (wake)
            wake_consumer(through);
    }
}

/* --- The consumer ---------------------------------------------------------------------------- */

static void consumer_sleep(round *self)
{
    uint32_t seen = teff__atomic_u32_load_acquire(&self->woken); /* before it is announced */
    linger(&self->chance);
    if (!teff__inbox_sleep(&self->inbox))
        return;
    self->sleeps++;
    if (self->by == BY_EVENTFD) {
        struct pollfd watched = { .fd = self->fd, .events = POLLIN };
        while (poll(&watched, 1, -1) != 1)
            ;
        teff__wakeup_clear(self->fd);
    } else {
        while (teff__atomic_u32_load_acquire(&self->woken) == seen)
            teff__futex_wait(&self->woken, seen, INT64_MAX);
    }
    teff__inbox_awake(&self->inbox);
}

static void consume(round *self)
{
    uint64_t left = self->messages * self->producer_count;
    while (left > 0) {
        teff__link *link = teff__inbox_take(&self->inbox);
        if (link == NULL)
            consumer_sleep(self);
        while (link != NULL) {
            const message *got = teff__container_of(link, message, link);
            producer *from = &self->producers[got->producer];
            link = link->next;
            if (got->number != from->next)
                fail("out of order, lost or doubled", got->producer, from->next, got->number);
            from->next++;
            left--;
            teff__atomic_u64_increment_owner(&consumed_in_all);
            teff__atomic_u64_store_release(&from->consumed, from->next); /* pairs with produce */
        }
    }
    if (!teff__inbox_empty(&self->inbox))
        fail("more messages than were sent", 0, 0, 0);
}

/* How often the consumer slept. */
static uint64_t run(sleep_by by, uint64_t window, uint64_t messages, uint32_t producer_count)
{
    static producer producers[PRODUCERS_MAX];
    round self = { .by = by,
                   .messages = messages,
                   .window = window,
                   .producer_count = producer_count,
                   .fd = -1,
                   .producers = producers };
    teff__inbox_init(&self.inbox);
    teff__chance_init(&self.chance, 4711);
    if (by == BY_EVENTFD && teff__wakeup_open(&self.fd) != 0)
        fail("no descriptor", 0, 0, 0);
    memset(producers, 0, sizeof(producers));
    for (uint32_t i = 0; i < producer_count; i++) {
        producers[i].round = &self;
        producers[i].index = i;
        teff__chance_init(&producers[i].chance, i + 1);
        if (teff__thread_start(&producers[i].thread, produce, &producers[i], "producer") != 0)
            fail("no thread", i, 0, 0);
    }
    consume(&self);
    for (uint32_t i = 0; i < producer_count; i++) {
        teff__thread_join(&producers[i].thread);
        if (producers[i].next != messages)
            fail("lost", i, messages, producers[i].next);
    }
    teff__wakeup_close(self.fd);
    return self.sleeps;
}

int main(int count, char **arguments)
{
    static const uint64_t windows[] = { 1, 2, 16, WINDOW_MAX };
    unsigned long long producers = 3, messages = 20000;
    for (int i = 1; i < count; i++)
        if (sscanf(arguments[i], "producers=%llu", &producers) != 1 &&
            sscanf(arguments[i], "messages=%llu", &messages) != 1 &&
            sscanf(arguments[i], "hang_seconds=%u", &hang_seconds) != 1) {
            fprintf(stderr, "stress_inbox: what is %s?\n", arguments[i]);
            return 2;
        }
    if (producers < 1 || producers > PRODUCERS_MAX) {
        fprintf(stderr, "stress_inbox: 1 to %d producers\n", PRODUCERS_MAX);
        return 2;
    }
    (void)signal(SIGALRM, on_watchdog);
    (void)alarm(hang_seconds);
    const uint32_t producer_counts[] = { 1, (uint32_t)producers };
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < sizeof(windows) / sizeof(windows[0]); k++) {
            uint64_t futex = run(BY_FUTEX, windows[k], messages, producer_counts[i]);
            uint64_t eventfd = run(BY_EVENTFD, windows[k], messages, producer_counts[i]);
            printf(
                "%u producers, window %llu: %llu times asleep on the futex, %llu on the eventfd\n",
                producer_counts[i], (unsigned long long)windows[k], (unsigned long long)futex,
                (unsigned long long)eventfd);
            (void)fflush(stdout);
        }
    printf("stress_inbox: passed: 16 runs, %llu messages from each producer\n", messages);
    return 0;
}
