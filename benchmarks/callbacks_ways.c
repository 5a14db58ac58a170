/* SPDX-License-Identifier: MIT */
/*
 * Other ways to the library's registry: a blocking client's stripe (`.client`), which whoever comes
 * first settles; and answers that come to a worker through its inbox, as the runtime sends them
 * (`.inbox`).
 */
#include "benchmarks/batch.h"
#include "benchmarks/callbacks_ours.h"

static uint64_t client_lifecycles(callbacks_thread *thread, const callbacks_work *work)
{
    uint64_t failures = 0;
    for (uint64_t i = 0; i < work->count; i++)
        failures += client_close(thread, client_open(thread, i, 0), i) != callbacks_waiter(i);
    return failures;
}

/* Answers come by the stripe's done list. */
static uint64_t client_cross(callbacks_thread *thread, callbacks_pipe *pipe)
{
    teff__stripe *stripe = thread->own;
    uint64_t sent = 0, done = 0, failures = 0;
    while (done < pipe->count) {
        const uint64_t before = sent;
        for (; sent < pipe->count && sent - done < pipe->depth; sent++)
            callbacks_ring_put(&pipe->there, sent, client_open(thread, sent, 0));
        if (sent != before)
            callbacks_ring_publish(&pipe->there, sent);
        for (uint32_t next = teff__stripe_take_done(stripe); next != 0; done++)
            failures += client_receive(stripe, &next) != callbacks_waiter(done);
    }
    return failures;
}

static void client_answer(void *registry, callbacks_pipe *pipe)
{
    const ours *of = registry;
    for (uint64_t done = 0; done < pipe->count;) {
        const uint64_t came = callbacks_ring_published(&pipe->there);
        if (came == done)
            teff__cpu_relax();
        for (; done < came; done++) {
            const uint64_t id = callbacks_ring_get(&pipe->there, done);
            (void)teff__stripe_claim(teff__registry_stripe(&of->registry, id), id,
                                     callbacks_waiter(done), 0);
        }
    }
}

const callbacks_subject callbacks_client = {
    .name = ".client",
    .create = ours_create,
    .destroy = ours_destroy,
    .enter = client_enter,
    .lifecycles = client_lifecycles,
    .cross = client_cross,
    .cross_answer = client_answer,
};

/* --- Inboxes ----------------------------------------------------------------------------------- */

/* A message is the caller's, goes there and comes back with the answer. */
typedef struct message {
    _Alignas(TEFF__CACHE_LINE) teff__link link;
    uint64_t id, number;
} message;

typedef struct post {
    ours ours; /* first: what opens and closes is that of a worker */
    teff__inbox there, back;
    message messages[CALLBACKS_OUTSTANDING_MAX];
} post;

static void *inbox_create(void)
{
    post *made = aligned_alloc(TEFF__CACHE_LINE, sizeof(*made));
    if (made == NULL)
        return NULL;
    memset(made, 0, sizeof(*made));
    teff__inbox_init(&made->there);
    teff__inbox_init(&made->back);
    if (ours_init(&made->ours) == 0)
        return made;
    free(made);
    return NULL;
}

static uint64_t inbox_cross(callbacks_thread *thread, callbacks_pipe *pipe)
{
    post *by = thread->registry;
    chain out = { NULL, NULL, 0 };
    teff__link *free_messages = NULL, *next;
    uint64_t sent = 0, done = 0, failures = 0;
    for (unsigned i = 0; i < pipe->depth; i++) {
        by->messages[i].link.next = free_messages;
        free_messages = &by->messages[i].link;
    }
    while (done < pipe->count) {
        for (; free_messages != NULL && sent < pipe->count; free_messages = next, sent++) {
            message *one = (message *)(void *)free_messages;
            next = one->link.next;
            one->id = ours_open(thread, sent, 0);
            one->number = sent;
            chain_add(&out, &by->there, &one->link);
        }
        chain_push(&out, &by->there);
        for (teff__link *link = teff__inbox_take(&by->back); link != NULL; link = next, done++) {
            const message *one = (const message *)(const void *)link;
            next = link->next;
            failures += ours_close(thread, one->id) != callbacks_waiter(one->number);
            link->next = free_messages;
            free_messages = link;
        }
    }
    return failures;
}

static void inbox_answer(void *registry, callbacks_pipe *pipe)
{
    post *by = registry;
    chain home = { NULL, NULL, 0 };
    for (uint64_t done = 0; done < pipe->count;) {
        teff__link *link = teff__inbox_take(&by->there), *next;
        if (link == NULL)
            teff__cpu_relax();
        for (; link != NULL; link = next, done++) {
            next = link->next;
            chain_add(&home, &by->back, link);
        }
        chain_push(&home, &by->back);
    }
}

const callbacks_subject callbacks_inbox = {
    .name = ".inbox",
    .create = inbox_create,
    .destroy = ours_destroy,
    .enter = ours_enter,
    .cross = inbox_cross,
    .cross_answer = inbox_answer,
};
