/* SPDX-License-Identifier: MIT */
/*
 * The ideal's call and loop. In the order of a call: what it opens and looks up, the caller's side,
 * the turn, the response; then the pass that drives it all.
 */
#include "benchmarks/ideal_owner.h"

#include "benchmarks/machine.h"

#include <sys/eventfd.h>
#include <unistd.h>

enum {
    SLOT_BITS = 24,
    METHOD_ADD = 1,
    PASS_BUDGET = 64, /* items between two looks at clock and inbox */
    SPINS = 4000      /* looks at the inbox before sleeping: some 100 us */
};

#define TIMEOUT_NS INT64_C(30000000000)

static inline uint64_t callback_open(ideal_owner *owner, ideal_caller *waiter, uint64_t grain)
{
    const uint32_t slot = owner->callbacks_free;
    ideal_callback *callback = &owner->callbacks[slot];
    const int64_t deadline_ns = owner->now_ns + TIMEOUT_NS;
    owner->callbacks_free = callback->next;
    callback->generation++;
    callback->waiter = waiter;
    callback->grain = grain;
    owner->deadlines_ns[slot] = deadline_ns;
    if (deadline_ns < owner->due_ns)
        owner->due_ns = deadline_ns;
    owner->opened++;
    return callback->generation << SLOT_BITS | slot;
}

/* Who waits for it, or NULL when that callback is not open any more. */
static inline ideal_caller *callback_settle(ideal_owner *owner, uint64_t correlation)
{
    const uint32_t slot = (uint32_t)correlation & ((1u << SLOT_BITS) - 1);
    ideal_callback *callback = &owner->callbacks[slot];
    if (TEFF__UNLIKELY(callback->generation != correlation >> SLOT_BITS))
        return NULL;
    callback->generation++;
    callback->next = owner->callbacks_free;
    owner->callbacks_free = slot;
    owner->deadlines_ns[slot] = INT64_MAX;
    owner->closed++;
    return callback->waiter;
}

static inline ideal_message *message_take(ideal_owner *owner)
{
    ideal_message *message = owner->messages_free;
    teff_assert(message != NULL); /* one for each caller */
    owner->messages_free = (ideal_message *)message->link.next;
    return message;
}

static inline void message_put(ideal_owner *owner, ideal_message *message)
{
    teff_assert(message->home == owner->index);
    message->link.next = (teff__link *)owner->messages_free;
    owner->messages_free = message;
}

/* To the other owner, at the end of the pass. */
static inline void post(ideal_owner *owner, ideal_message *message)
{
    message->link.next = owner->out_newest;
    if (owner->out_newest == NULL)
        owner->out_oldest = &message->link;
    owner->out_newest = &message->link;
}

/* A request that has reached its grain's owner. */
static inline void deliver_request(ideal_owner *owner, ideal_message *message)
{
    ideal_activation *activation = &owner->activations[message->activation];
    if (TEFF__UNLIKELY(activation->grain != message->grain)) {
        owner->failed = true;
        return;
    }
    teff__queue_push(&activation->mailbox, &message->link);
    if (!activation->scheduled) {
        activation->scheduled = true;
        teff__queue_push(&owner->run_queue, &activation->item.link);
    }
}

/* A response that has reached its caller's owner. */
static inline void deliver_response(ideal_owner *owner, ideal_message *message)
{
    ideal_caller *caller = callback_settle(owner, message->correlation);
    if (TEFF__UNLIKELY(caller == NULL)) {
        owner->failed = true;
        message_put(owner, message);
        return;
    }
    caller->response = message;
    teff__queue_push(&owner->run_queue, &caller->item.link);
}

/*
 * Suspends the caller until its response has come through the run queue. Where the next thing to
 * run is another caller, that one goes on at once; all else is the loop's. Inlined into the fiber's
 * main, so that no return address stands between two switches (runtime/fiber.h).
 */
static inline __attribute__((always_inline)) void suspend(ideal_owner *owner, ideal_caller *caller)
{
    ideal_item *next = (ideal_item *)owner->run_queue.head;
    teff__fiber *to = &owner->loop;
    if (next != NULL && next->is_caller && owner->budget > 0) {
        owner->budget--;
        owner->run_queue.head = next->link.next;
        to = ((ideal_caller *)next)->fiber;
    }
    teff__fiber_switch(caller->fiber, to);
}

/* The awaited call: 0, or -1 where no such grain is. */
static inline __attribute__((always_inline)) int call(ideal_owner *owner, ideal_caller *caller,
                                                      uint64_t grain, const ideal_body *arg,
                                                      ideal_body *ret)
{
    const ideal_place *place = ideal_directory_find(owner->directory, grain);
    if (TEFF__UNLIKELY(place->grain == 0))
        return -1;
    ideal_message *message = message_take(owner);
    message->home = owner->index;
    message->activation = place->activation;
    message->grain = grain;
    message->correlation = callback_open(owner, caller, grain);
    message->method = METHOD_ADD;
    message->response = false;
    message->body = *arg;
    if (place->owner == owner->index)
        deliver_request(owner, message);
    else
        post(owner, message);
    suspend(owner, caller);
    *ret = caller->response->body;
    message_put(owner, caller->response);
    return 0;
}

void ideal_owner_caller_main(void *argument)
{
    ideal_owner *owner = argument;
    ideal_caller *caller = owner->starting;
    ideal_body arg = { { 0 } }, ret;
    for (unsigned which = 0; !owner->ending; which ^= caller->alternate) {
        arg.words[0] = 1;
        if (call(owner, caller, caller->grains[which], &arg, &ret) != 0 ||
            ret.words[0] != ++caller->turns[which])
            owner->failed = true;
        owner->calls++;
    }
    for (;;)
        teff__fiber_switch(caller->fiber, &owner->loop);
}

static void turn(ideal_owner *owner, ideal_activation *activation)
{
    ideal_message *message = (ideal_message *)teff__queue_pop(&activation->mailbox);
    ideal_body ret = { { 0 } };
    activation->methods[message->method](&activation->state, &message->body, &ret);
    message->body = ret;
    message->response = true;
    if (TEFF__UNLIKELY(activation->mailbox.head != NULL))
        teff__queue_push(&owner->run_queue, &activation->item.link);
    else
        activation->scheduled = false;
    if (message->home == owner->index)
        deliver_response(owner, message);
    else
        post(owner, message);
}

static void take_inbox(ideal_owner *owner)
{
    for (teff__link *mail = teff__inbox_take(&owner->inbox); mail != NULL;) {
        ideal_message *message = (ideal_message *)mail;
        mail = mail->next;
        if (message->response)
            deliver_response(owner, message);
        else
            deliver_request(owner, message);
    }
}

static void wake(const ideal_owner *owner)
{
    const uint64_t one = 1;
    if (write(owner->wake_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
        teff_assert(false);
}

static void flush(ideal_owner *owner)
{
    if (owner->out_newest == NULL)
        return;
    if (teff__inbox_push_chain(&owner->other->inbox, owner->out_newest, owner->out_oldest))
        wake(owner->other);
    owner->out_newest = NULL;
}

/* A deadline has passed or the bound was too low: fails the former, mends the latter. */
static void sweep(ideal_owner *owner)
{
    owner->due_ns = INT64_MAX;
    for (uint32_t slot = 0; slot < owner->caller_count; slot++) {
        if (owner->deadlines_ns[slot] <= owner->now_ns)
            owner->failed = true;
        else if (owner->deadlines_ns[slot] < owner->due_ns)
            owner->due_ns = owner->deadlines_ns[slot];
    }
}

/*
 * The window begins once warm and is at least as long as asked for, however late this thread came
 * to run.
 */
static void look_at_clock(ideal_owner *owner)
{
    owner->now_ns = machine_now_ns();
    if (TEFF__UNLIKELY(owner->now_ns >= owner->due_ns))
        sweep(owner);
    if (owner->window_start_ns == 0 && owner->now_ns >= owner->warm_ns) {
        owner->window_start_ns = owner->now_ns;
        owner->window_start_calls = owner->calls;
    } else if (owner->window_start_ns != 0 && !owner->ending &&
               owner->now_ns - owner->window_start_ns >= owner->duration_ns &&
               (owner->calls > owner->window_start_calls || owner->caller_count == 0)) {
        owner->ending = true;
        owner->window_end_ns = owner->now_ns;
        owner->window_end_calls = owner->calls;
    }
}

/* False: nothing was runnable. */
static bool run_items(ideal_owner *owner)
{
    for (owner->budget = PASS_BUDGET; owner->budget > 0;) {
        ideal_item *item = (ideal_item *)teff__queue_pop(&owner->run_queue);
        if (item == NULL)
            return owner->budget != PASS_BUDGET;
        owner->budget--;
        if (item->is_caller)
            teff__fiber_switch(&owner->loop, ((ideal_caller *)item)->fiber);
        else
            turn(owner, (ideal_activation *)item);
    }
    return true;
}

/* Until mail comes: spins, then sleeps. */
static void park(ideal_owner *owner)
{
    uint64_t count;
    for (int i = 0; i < SPINS; i++) {
        if (!teff__inbox_empty(&owner->inbox))
            return;
        teff__cpu_relax();
    }
    if (!teff__inbox_sleep(&owner->inbox))
        return;
    if (read(owner->wake_fd, &count, sizeof(count)) != (ssize_t)sizeof(count))
        teff_assert(false);
    teff__inbox_awake(&owner->inbox);
}

static void start_callers(ideal_owner *owner)
{
    for (uint32_t i = 0; i < owner->caller_count; i++) {
        ideal_caller *caller = &owner->callers[i];
        owner->starting = caller;
        teff__fiber_switch(&owner->loop, caller->fiber);
    }
    flush(owner);
}

/* Says that this owner's calls are all answered; it goes on answering the other's. */
static bool both_ended(ideal_owner *owner)
{
    if (!owner->ending || owner->opened != owner->closed || owner->run_queue.head != NULL)
        return false;
    if (owner->other == NULL)
        return true;
    if (teff__atomic_u32_exchange_seq_cst(&owner->ended, 1) == 0)
        wake(owner->other);
    return teff__atomic_u32_load_seq_cst(&owner->other->ended) != 0;
}

/* Somebody will wake it: the other owner, with a message or when its own window ends. */
static bool may_sleep(const ideal_owner *owner)
{
    return owner->other != NULL && !owner->ending &&
           teff__atomic_u32_load_seq_cst(&owner->other->ended) == 0;
}

void *ideal_owner_main(void *argument)
{
    ideal_owner *owner = argument;
    machine_pin(owner->index);
    teff__fiber_adopt(&owner->loop);
    look_at_clock(owner);
    start_callers(owner);
    while (!both_ended(owner)) {
        take_inbox(owner);
        look_at_clock(owner);
        const bool ran = run_items(owner);
        flush(owner);
        if (!ran && may_sleep(owner))
            park(owner);
    }
    return NULL;
}
