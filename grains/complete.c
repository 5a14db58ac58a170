/* SPDX-License-Identifier: MIT */
#include "grains/complete.h"

#include "grains/activate.h"
#include "grains/task.h"
#include "grains/turn.h"

static void run_alone(teff__worker *worker, teff__item *item)
{
    teff__catalog *catalog = teff__catalog_of(worker);
    teff__completion *completion = teff__container_of(item, teff__completion, item);
    teff__task_life *life = completion->life;
    teff__completion_run(completion, &catalog->postbox, NULL);
    teff__task_life_unref(catalog, life);
}

static void run_as_task(teff__worker *worker, teff__item *item)
{
    teff__catalog *catalog = teff__catalog_of(worker);
    teff__completion *completion = teff__container_of(item, teff__completion, item);
    teff__task_life *life = completion->life;
    teff__task_caller task;
    if (life->ended) {
        run_alone(worker, item);
        return;
    }
    teff__task_begin(&task, catalog, life);
    teff__completion_run(completion, &catalog->postbox, &task.caller);
    teff__task_end(&task);
    teff__task_life_unref(catalog, life);
}

void teff__complete_alone(teff__catalog *catalog, teff__completion *completion)
{
    completion->item.run = run_alone;
    teff__worker_push(&catalog->worker, &completion->item);
}

void teff__complete(teff__catalog *catalog, teff__completion *completion)
{
    if (completion->life != NULL) {
        completion->item.run = run_as_task;
        teff__worker_push(&catalog->worker, &completion->item);
        return;
    }
    teff__activation *activation = teff__catalog_own(catalog, completion->message.address);
    /* At the end of stop the mail of a busy activation may never be looked at again. */
    if (activation == NULL ||
        (catalog->phase == TEFF__STOP_SETTLE && (activation->flags & TEFF__ACTIVATION_BUSY) != 0)) {
        teff__complete_alone(catalog, completion);
        return;
    }
    teff__activation_mail(catalog, activation, &completion->message);
}

void teff__complete_turn(teff__catalog *catalog, teff__activation *activation,
                         teff__completion *completion)
{
    teff__turn turn;
    teff__turn_begin(&turn, catalog, activation, NULL, INT64_MAX);
    activation->served = true;
    teff__completion_run(completion, &catalog->postbox, &turn.caller);
    teff__turn_end(&turn, 0);
}

/* Takes the completions out of a mailbox, in their order. */
static teff__queue take_from_mailbox(teff__activation *activation)
{
    teff__queue mail = activation->mailbox, kept = { NULL, NULL }, taken = { NULL, NULL };
    for (teff__link *link; (link = teff__queue_pop(&mail)) != NULL;) {
        if (((teff__message *)link)->kind != TEFF__MESSAGE_COMPLETION) {
            teff__queue_push(&kept, link);
            continue;
        }
        activation->mail_count--;
        teff__queue_push(&taken, link);
    }
    activation->mailbox = kept;
    return taken;
}

void teff__complete_orphans(teff__catalog *catalog, teff__activation *activation)
{
    teff__queue orphans = take_from_mailbox(activation);
    for (teff__link *link; (link = teff__queue_pop(&orphans)) != NULL;)
        teff__complete_alone(catalog, teff__completion_of((teff__message *)link));
}

static void take_from_run_queue(teff__worker *worker)
{
    teff__queue items = worker->run_queue;
    teff__queue_init(&worker->run_queue);
    for (teff__link *link; (link = teff__queue_pop(&items)) != NULL;) {
        teff__item *item = (teff__item *)link;
        if (item->run != run_alone && item->run != run_as_task)
            teff__worker_push(worker, item);
    }
}

/* One that is suspended for good: `done` was called, and goes no further. */
static void drop_begun(teff__catalog *catalog, teff__completion *completion)
{
    teff__task_life *life = completion->life;
    teff__completion_drop(completion, &catalog->postbox);
    teff__task_life_unref(catalog, life);
}

void teff__complete_all(teff__catalog *catalog)
{
    /* What still waits for its turn is found by the ring, and may be found nowhere else later. */
    teff__activation *activation;
    for (uint32_t slot = 0;
         (activation = teff__slotmap_next(&catalog->activations, &slot)) != NULL;)
        (void)take_from_mailbox(activation);
    take_from_run_queue(&catalog->worker);
    catalog->worker.running = true; /* these are on the worker, as all that ran before */
    while (!teff__ring_empty(&catalog->completions)) {
        teff__completion *completion =
            teff__container_of(catalog->completions.next, teff__completion, ring);
        if (completion->thunk != NULL)
            run_alone(&catalog->worker, &completion->item);
        else
            drop_begun(catalog, completion);
    }
    catalog->worker.running = false;
}
