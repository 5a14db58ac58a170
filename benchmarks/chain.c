/* SPDX-License-Identifier: MIT */
#include "benchmarks/chain.h"

#include "benchmarks/batch.h"
#include "benchmarks/machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARM_UP_PART = 5,   /* of the duration */
    MESSAGES = 96,      /* under way at most */
    SENDS_PER_LOOK = 64 /* between two looks at the clock */
};

typedef struct chain_message {
    _Alignas(TEFF__CACHE_LINE) teff__link link;
    uint32_t grain;
    _Alignas(TEFF__CACHE_LINE) uint64_t body[8];
} chain_message;

typedef struct chain_grain {
    _Alignas(TEFF__CACHE_LINE) teff__link link; /* of the run queue */
    teff__queue mailbox;
    bool scheduled;
    uint64_t turns, sum;
} chain_grain;

typedef struct chain_world {
    unsigned grain_count;
    chain_grain *grains; /* the receiver's while it runs */
    chain_message *messages;
    uint64_t received;       /* the receiver's while it runs */
    teff__inbox mail;        /* sender; receiver */
    teff__inbox home;        /* receiver; sender */
    teff__atomic_u32 ending; /* sender; receiver */
    teff__atomic_u64 sent;   /* sender, before ending */
} chain_world;

static void deliver(chain_world *world, teff__queue *run_queue, chain_message *message)
{
    chain_grain *grain = &world->grains[message->grain];
    teff__queue_push(&grain->mailbox, &message->link);
    if (grain->scheduled)
        return;
    grain->scheduled = true;
    teff__queue_push(run_queue, &grain->link);
}

static void run_grain(chain_world *world, chain_grain *grain, chain *home)
{
    grain->scheduled = false;
    for (teff__link *link; (link = teff__queue_pop(&grain->mailbox)) != NULL;) {
        chain_message *message = (chain_message *)(void *)link;
        grain->turns++;
        grain->sum += message->body[0];
        world->received++;
        chain_add(home, &world->home, link);
    }
}

static void *receiver_main(void *argument)
{
    chain_world *world = argument;
    chain home = { NULL, NULL, 0 };
    machine_pin(0); /* the sender is the bench's own thread, on core 1 */
    for (;;) {
        teff__queue run_queue = { NULL, NULL };
        for (teff__link *mail = teff__inbox_take(&world->mail), *next; mail != NULL; mail = next) {
            next = mail->next;
            deliver(world, &run_queue, (chain_message *)(void *)mail);
        }
        if (run_queue.head == NULL) {
            if (teff__atomic_u32_load_acquire(&world->ending) != 0 &&
                world->received == teff__atomic_u64_load_relaxed(&world->sent))
                return NULL;
            teff__cpu_relax();
        }
        for (teff__link *link; (link = teff__queue_pop(&run_queue)) != NULL;)
            run_grain(world, (chain_grain *)(void *)link, &home);
        chain_push(&home, &world->home);
    }
}

static chain_world *world_create(unsigned grains)
{
    chain_world *world = aligned_alloc(TEFF__CACHE_LINE, sizeof(*world));
    chain_grain *made = aligned_alloc(TEFF__CACHE_LINE, grains * sizeof(*made));
    chain_message *messages = aligned_alloc(TEFF__CACHE_LINE, MESSAGES * sizeof(*messages));
    if (world == NULL || made == NULL || messages == NULL) {
        free(world), free(made), free(messages);
        return NULL;
    }
    memset(world, 0, sizeof(*world));
    memset(made, 0, grains * sizeof(*made));
    memset(messages, 0, MESSAGES * sizeof(*messages));
    world->grain_count = grains;
    world->grains = made;
    world->messages = messages;
    teff__inbox_init(&world->mail);
    teff__inbox_init(&world->home);
    return world;
}

static void world_destroy(chain_world *world)
{
    free(world->grains);
    free(world->messages);
    free(world);
}

/* What the sender has at hand. */
typedef struct sender {
    chain_world *world;
    teff__link *free;
    chain out;
    unsigned next;
    uint64_t sent;
} sender;

static void send_one(sender *by)
{
    while (by->free == NULL) {
        chain_push(&by->out, &by->world->mail);
        by->free = teff__inbox_take(&by->world->home);
        if (by->free == NULL)
            teff__cpu_relax();
    }
    chain_message *message = (chain_message *)(void *)by->free;
    by->free = message->link.next;
    message->grain = by->next;
    by->next = by->next + 1 < by->world->grain_count ? by->next + 1 : 0;
    memset(message->body, 0, sizeof(message->body));
    message->body[0] = 1;
    chain_add(&by->out, &by->world->mail, &message->link);
    by->sent++;
}

/* Sends for so long; returns how long it was. */
static int64_t send_for(sender *by, int64_t duration_ns)
{
    const int64_t start_ns = machine_now_ns();
    int64_t now_ns = start_ns;
    while (now_ns - start_ns < duration_ns) {
        for (int i = 0; i < SENDS_PER_LOOK; i++)
            send_one(by);
        now_ns = machine_now_ns();
    }
    chain_push(&by->out, &by->world->mail);
    return now_ns - start_ns;
}

/* As many turns as messages, and each did its work. */
static int check(const chain_world *world, uint64_t sent)
{
    uint64_t turns = 0, sum = 0;
    for (unsigned i = 0; i < world->grain_count; i++) {
        turns += world->grains[i].turns;
        sum += world->grains[i].sum;
    }
    if (turns == sent && sum == sent)
        return 0;
    (void)fprintf(stderr, "chain: %llu messages but %llu turns\n", (unsigned long long)sent,
                  (unsigned long long)turns);
    return -1;
}

int chain_cross(unsigned grains, int64_t duration_ns, double *ret_ns)
{
    chain_world *world = world_create(grains);
    pthread_t receiver;
    if (world == NULL || pthread_create(&receiver, NULL, receiver_main, world) != 0) {
        (void)fputs("chain: out of memory or threads\n", stderr);
        if (world != NULL)
            world_destroy(world);
        return -1;
    }
    sender by = { .world = world };
    for (int i = 0; i < MESSAGES; i++) {
        world->messages[i].link.next = by.free;
        by.free = &world->messages[i].link;
    }
    (void)send_for(&by, duration_ns / WARM_UP_PART);
    const uint64_t before = by.sent;
    const int64_t took_ns = send_for(&by, duration_ns);
    *ret_ns = (double)took_ns / (double)(by.sent - before);
    teff__atomic_u64_store_relaxed(&world->sent, by.sent);
    teff__atomic_u32_store_release(&world->ending, 1);
    (void)pthread_join(receiver, NULL);
    const int r = check(world, by.sent);
    world_destroy(world);
    return r;
}
