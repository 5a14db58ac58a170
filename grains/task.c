/* SPDX-License-Identifier: MIT */
/*
 * Tasks and sleeping.
 *
 * A task is one allocation that begins with a message: posted to its worker, run from the run queue
 * like any item, and turned round into the response that settles its future.
 */
#include "grains/task.h"

#include "grains/call.h"
#include "grains/call_future.h"
#include "grains/canceling.h"
#include "grains/request.h"
#include "grains/turn.h"
#include "messaging/cancel.h"

#include "teff/status.h"

typedef struct teff__task {
    teff__message message;
    teff__item item;
    teff__ring ring;           /* of the catalog, from arrival to end */
    teff__task_caller *caller; /* in the frame that runs it; NULL: it has not begun */
    int (*run)(teff_task *task, void *user);
    void *user;
} teff__task;

void teff__task_begin(teff__task_caller *task, teff__catalog *catalog, teff__task_life *life)
{
    teff__caller_init(&task->caller, TEFF__CALLER_TASK, catalog, INT64_MAX);
    task->life = life;
}

void teff__task_end(teff__task_caller *task)
{
    if (task->caller.futures != 0)
        teff__caller_drop_futures(task->caller.home, &task->caller);
}

teff__task_life *teff__task_life_ref(teff__task_caller *task)
{
    if (task->life == NULL) {
        teff__catalog *catalog = task->caller.home;
        task->life = teff__memory_alloc(catalog->exchange->memory, sizeof(*task->life));
        if (task->life == NULL)
            return NULL;
        task->life->count = 1; /* the task's own */
    }
    task->life->count++;
    return task->life;
}

void teff__task_life_unref(teff__catalog *catalog, teff__task_life *life)
{
    if (life != NULL && --life->count == 0)
        teff__memory_free(catalog->exchange->memory, life, sizeof(*life));
}

static void task_run(teff__worker *worker, teff__item *item)
{
    teff__catalog *catalog = teff__catalog_of(worker);
    teff__task *task = teff__container_of(item, teff__task, item);
    teff__task_caller caller;
    teff__task_begin(&caller, catalog, NULL);
    task->caller = &caller;
    const int result = task->run(&caller.caller, task->user);
    teff__task_end(&caller);
    if (caller.life != NULL)
        caller.life->ended = true;
    teff__task_life_unref(catalog, caller.life);
    teff__ring_remove(&task->ring);
    if (task->message.correlation == 0) {
        teff__postbox_drop(&catalog->postbox, &task->message);
        return;
    }
    task->message.flags |= TEFF__MESSAGE_MAY_HAVE_RUN;
    teff__message_answer(&task->message, result, 0);
    teff__catalog_respond(catalog, &task->message);
}

void teff__task_arrived(teff__catalog *catalog, teff__message *message)
{
    teff__task *task = (teff__task *)(void *)message;
    teff__ring_push_back(&catalog->tasks, &task->ring);
    teff__worker_push(&catalog->worker, &task->item);
}

void teff__tasks_drop(teff__catalog *catalog)
{
    while (!teff__ring_empty(&catalog->tasks)) {
        teff__task *task = teff__container_of(catalog->tasks.next, teff__task, ring);
        teff__ring_remove(&task->ring);
        if (task->caller != NULL)
            teff__task_life_unref(catalog, task->caller->life);
        teff__postbox_drop(&catalog->postbox, &task->message);
    }
}

static teff__task *task_create(teff__exchange *exchange, int (*run)(teff_task *, void *),
                               void *user)
{
    teff__task *task = teff__memory_alloc(exchange->memory, sizeof(*task));
    if (task == NULL)
        return NULL;
    task->message.kind = TEFF__MESSAGE_SPAWN;
    task->message.size_class = TEFF__MESSAGE_HEAP;
    task->message.heap_bytes = sizeof(*task);
    task->item.run = task_run;
    task->run = run;
    task->user = user;
    return task;
}

/* Takes back a future whose task never went anywhere. */
static void drop_future(teff_caller *caller, uint64_t id)
{
    if (teff__caller_outside(caller))
        teff__client_drop_future(caller->home, id);
    else
        teff__caller_drop_future(caller->home, caller, id);
}

/*
 * Which worker a task goes to that named none, or named `worker`; false: there is no such worker.
 */
static bool choose_worker(teff__grains *grains, int worker, uint32_t *ret)
{
    const uint32_t count = grains->exchange->workers_count;
    if (worker == TEFF_WORKER_ANY)
        *ret = teff__atomic_u32_add_relaxed(&grains->next_worker, 1) % count;
    else if (worker < 0 || (uint32_t)worker >= count)
        return false;
    else
        *ret = (uint32_t)worker;
    return true;
}

/*
 * Posts under the silo's lock: stop takes it before it speaks to the workers, so the task comes
 * before stop does.
 */
static int post_task(teff__exchange *exchange, uint32_t worker, teff__task *task)
{
    teff__mutex_lock(&exchange->lock);
    const bool admits = exchange->admits;
    if (admits)
        teff__exchange_post(exchange, worker, &task->message);
    teff__mutex_unlock(&exchange->lock);
    return admits ? 0 : TEFF_EINVALIDSTATE;
}

int teff_silo_spawn(teff_silo *silo, int worker, int (*run)(teff_task *task, void *user),
                    void *user, teff_caller *caller, teff_future *ret)
{
    uint32_t index;
    if (silo == NULL || run == NULL || (caller == NULL) != (ret == NULL))
        return TEFF_EINVAL;
    teff__exchange *exchange = teff__silo_exchange(silo);
    if (teff__exchange_forked(exchange))
        return TEFF_EINVALIDSTATE;
    if (caller != NULL) {
        const int allowed = teff__caller_check(caller);
        if (allowed != 0)
            return allowed;
        if (caller->kind == TEFF__CALLER_OBSERVER)
            return TEFF_EWOULDBLOCK;
        if (teff__caller_exchange(caller) != exchange)
            return TEFF_EINVAL;
    }
    if (!choose_worker(teff__silo_grains(silo), worker, &index))
        return TEFF_EINVAL;
    teff__task *task = task_create(exchange, run, user);
    if (task == NULL)
        return TEFF_ENOMEM;
    bool sendable = true;
    uint64_t id = 0;
    int r = caller != NULL ? teff__request_future(caller, &id, &sendable) : 0;
    if (r == TEFF_EUNAVAILABLE)
        r = TEFF_EINVALIDSTATE; /* the silo stops: as for a task that nobody waits for */
    if (r == 0) {
        task->message.correlation = id;
        r = sendable ? post_task(exchange, index, task) : TEFF_EINVALIDSTATE;
        if (r != 0 && caller != NULL)
            drop_future(caller, id);
    }
    if (r != 0)
        teff__memory_free(exchange->memory, task, sizeof(*task));
    else if (ret != NULL)
        ret->id = id;
    return r;
}

int teff_task_claim(teff_caller *caller, teff_future future, int *ret_result)
{
    int code;
    teff__message *answer;
    if (caller == NULL || ret_result == NULL)
        return TEFF_EINVAL;
    int r = teff__caller_check(caller);
    if (r == 0)
        r = teff__future_claim(caller, future, NULL, &code, &answer);
    if (r != 0)
        return r;
    if (answer == NULL)
        return code;
    *ret_result = answer->code;
    teff__postbox_drop(teff__caller_postbox(caller), answer);
    return 0;
}

static void end_sleep(teff__sleeper *one, int code)
{
    one->code = code;
    teff__ring_remove(&one->ring);
    /* At the end, so that those of one moment go on in the order of their sleep. */
    teff__worker_push(&one->catalog->worker, &one->waiter.item);
}

static void slept(teff__timer *timer)
{
    end_sleep(teff__container_of(timer, teff__sleeper, timer), 0);
}

void teff__sleeper_end(teff__sleeper *one, int code)
{
    if (teff__ring_empty(&one->ring))
        return; /* it has slept, and is about to go on */
    teff__timers_stop(&one->catalog->worker.timers, &one->timer);
    end_sleep(one, code);
}

void teff__sleepers_wake(teff__catalog *catalog, teff__caller_kind kind)
{
    for (teff__ring *next, *at = catalog->sleepers.next; at != &catalog->sleepers; at = next) {
        teff__sleeper *one = teff__container_of(at, teff__sleeper, ring);
        next = at->next;
        if (one->caller->kind == kind)
            teff__sleeper_end(one, TEFF_EUNAVAILABLE);
    }
}

/* Stop has come to the point where callers of that kind do not sleep any more. */
static bool sleepless(const teff__catalog *catalog, const teff_caller *caller)
{
    return caller->kind == TEFF__CALLER_TASK ? catalog->phase >= TEFF__STOP_DRAIN
                                             : catalog->phase >= TEFF__STOP_SETTLE;
}

/* The turn whose sleep may end early, or NULL. */
static teff__turn *turn_asleep(teff_caller *caller)
{
    teff__turn *turn = (teff__turn *)(void *)caller;
    return caller->kind == TEFF__CALLER_TURN && turn->hook != TEFF__HOOK_NONE
               ? turn
               : teff__canceling_turn(caller);
}

/* Whether that has come already. */
static bool sleep_refused(const teff__turn *turn)
{
    return turn->hook == TEFF__HOOK_NONE ? teff__cancel_refuses(turn->request)
                                         : turn->hook == TEFF__HOOK_OVER;
}

int teff_sleep(teff_caller *caller, int64_t duration_ns)
{
    if (caller == NULL || duration_ns < 0)
        return TEFF_EINVAL;
    int r = teff__caller_check(caller);
    if (r == 0)
        r = teff__caller_may_wait(caller);
    if (r != 0)
        return r;
    if (teff__caller_outside(caller))
        return teff__client_sleep(caller->home, duration_ns);

    teff__catalog *catalog = caller->home;
    teff__turn *turn = turn_asleep(caller);
    if (sleepless(catalog, caller))
        return TEFF_EUNAVAILABLE;
    if (turn != NULL && sleep_refused(turn))
        return TEFF_ECANCELED;
    r = teff__worker_reserve(&catalog->worker);
    if (r != 0)
        return r;
    teff__sleeper one = { .catalog = catalog, .caller = caller };
    if (duration_ns == 0) {
        teff__worker_push(&catalog->worker, &one.waiter.item); /* behind all that can run */
    } else {
        one.since_ns = teff__clock_now_ns(catalog->worker.clock);
        teff__ring_push_back(&catalog->sleepers, &one.ring);
        if (turn != NULL)
            turn->sleeper = &one;
        teff__timers_start(&catalog->worker.timers, &one.timer,
                           teff__time_add(one.since_ns, duration_ns), slept);
    }
    teff__catalog_suspend(catalog, &one.waiter);
    if (turn != NULL)
        turn->sleeper = NULL;
    return one.code;
}
