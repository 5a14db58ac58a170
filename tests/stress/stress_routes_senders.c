/* SPDX-License-Identifier: MIT */
#include "stress_routes_senders.h"

#include "stress_calls_common.h"

#include <uv.h>

enum { STARTED_MAX = 8, SENT_MAX = 6, MOVED_MAX = 24, LANES = 12, TASK_NAP_NS = 20000 };

static uint64_t below(sender *self, uint64_t bound)
{
    return teff__chance_next(&self->chance) % bound;
}

static bool is_over(const sender *self)
{
    return teff__atomic_u32_load_relaxed(self->over) != 0;
}

static const char *name_of(const sender *self, char text[48])
{
    if (self->worker < 0)
        (void)snprintf(text, 48, "sender %u (a client)", self->index);
    else
        (void)snprintf(text, 48, "sender %u (a task on worker %d)", self->index, self->worker);
    return text;
}

/* --- What to send, and by which reference ----------------------------------------------------- */

/* Half of all messages go to an eighth of the grains. */
static uint32_t choose_grain(sender *self)
{
    const uint32_t count = self->notes->grain_count;
    return (uint32_t)below(self, below(self, 2) == 0 ? (count + 7) / 8 : count);
}

/* One that calls nobody, and always activates: others may call it in their turns. */
static uint32_t choose_other(sender *self)
{
    const uint32_t grain = (uint32_t)below(self, self->notes->grain_count / 2);
    return is_flaky(grain) ? grain - 1 : grain;
}

static struct work choose_work(sender *self, uint32_t grain)
{
    struct work work = { .grain = grain, .sender = self->index };
    work.number = ++self->grains[grain].number;
    if (below(self, 1000) < self->leaving)
        work.acts |= LEAVE;
    if (below(self, 64) == 0)
        work.acts |= NAP;
    if (grain >= self->notes->grain_count / 2) {
        const uint64_t dice = below(self, 16);
        work.acts |= dice == 0 ? ASK : dice == 1 ? ASK_TWO : dice == 2 ? ASK_THEN : 0;
        work.others[0] = choose_other(self);
        work.others[1] = choose_other(self);
    }
    return work;
}

static target_ref choose_reference(sender *self, uint32_t grain)
{
    const acquaintance *of = &self->grains[grain];
    target_ref shared = target_at(grain);
    switch (below(self, 8)) {
    case 0:
        return target_at(grain);
    case 1:
    case 2:
        return of->old;
    case 3:
        shared.ref.route = teff__atomic_u64_load_relaxed(&self->notes->grains[grain].hint);
        return shared;
    default:
        return of->own;
    }
}

/* The way that a call has found, or that an answer named, is mine now; some are kept, and shared. */
static void keep_reference(sender *self, uint32_t grain, uint64_t route)
{
    acquaintance *of = &self->grains[grain];
    of->own.ref.route = route;
    if (below(self, 64) == 0)
        of->old.ref.route = route;
    if (below(self, 16) == 0)
        teff__atomic_u64_store_relaxed(&self->notes->grains[grain].hint, route);
}

/* Where the grain is to be made, if this call makes it. */
static teff_caller *placed(sender *self, teff_caller *caller)
{
    const teff_call_options place = { .struct_size = sizeof(place),
                                      .place = (uint32_t)below(self, self->workers) + 1 };
    return teff_with(caller, &place);
}

/* Mostly as it is: a plain call has a short way of its own, and is to be seen as well. */
static teff_caller *with_options(sender *self, teff_caller *caller)
{
    static const teff_call_options detached = { .struct_size = sizeof(detached), .detached = true };
    const uint64_t dice = below(self, 8);
    if (dice == 0)
        return teff_with(caller, &detached);
    return dice == 1 ? placed(self, caller) : caller;
}

/* --- What comes back -------------------------------------------------------------------------- */

static void check_answer(sender *self, const struct work *arg, const teff_outcome *outcome,
                         const struct worked *ret)
{
    char name[48];
    acquaintance *of = &self->grains[arg->grain];
    (void)name_of(self, name);
    if ((outcome->code == NOT_TODAY && is_flaky(arg->grain)) || is_forwarded_too_often(outcome)) {
        of->calls.count--;
        of->calls.sum -= arg->number;
        self->rejected += outcome->code == TEFF_EREJECTED;
    } else if (outcome->code != 0) {
        fail("%s: its call %u to grain %u: %s: %s", name, arg->number, arg->grain,
             teff_status_name(outcome->code), outcome->text);
    } else if (ret->grain != arg->grain || ret->sender != arg->sender ||
               ret->number != arg->number) {
        fail("%s: its call %u to grain %u got the answer to call %u of sender %u to grain %u", name,
             arg->number, arg->grain, ret->number, ret->sender, ret->grain);
    } else if (below(self, 16) == 0) {
        keep_reference(self, arg->grain, ret->route);
    }
    teff__atomic_u64_increment_owner(&self->ended);
}

static void waits_for(sender *self, const struct work *arg)
{
    teff__atomic_u64_store_relaxed(&self->waiting, (uint64_t)arg->grain << 32 | arg->number);
}

static void waits_no_more(sender *self)
{
    teff__atomic_u64_store_relaxed(&self->waiting, 0);
}

/* --- The forms -------------------------------------------------------------------------------- */

static void count_in(tally *of, const struct work *arg)
{
    of->count++;
    of->sum += arg->number;
}

static void send_one_way(sender *self, teff_caller *with, uint32_t grain, uint32_t acts)
{
    const bool by_row = below(self, 2) == 0;
    struct work arg = choose_work(self, grain);
    target_ref to = choose_reference(self, grain);
    arg.acts |= SENT_ONE_WAY | acts;
    const int r = by_row ? target_note_send(with, &to, &arg) : target_work_send(with, &to, &arg);
    char name[48];
    if (r != 0)
        fail("%s: its message %u to grain %u was refused: %s", name_of(self, name), arg.number,
             grain, teff_status_name(r));
    count_in(&self->grains[grain].one_way, &arg);
    self->calls[ONE_WAY]++;
    keep_reference(self, grain, to.ref.route);
}

static uint32_t choose_steady(sender *self)
{
    const uint32_t grain = choose_grain(self);
    return is_flaky(grain) ? grain - 1 : grain;
}

/* Several in a row, to one grain, so that order has something to show. */
static void send_burst(sender *self, teff_caller *caller)
{
    const uint32_t grain = choose_steady(self);
    for (uint64_t left = below(self, SENT_MAX) + 1; left > 0; left--)
        send_one_way(self, with_options(self, caller), grain, 0);
}

static void await(sender *self, teff_caller *caller)
{
    const uint32_t grain = choose_grain(self);
    const struct work arg = choose_work(self, grain);
    target_ref to = choose_reference(self, grain);
    struct worked ret = { 0 };
    count_in(&self->grains[grain].calls, &arg);
    self->calls[AWAITED]++;
    waits_for(self, &arg);
    (void)target_work(with_options(self, caller), &to, &arg, &ret);
    waits_no_more(self);
    keep_reference(self, grain, to.ref.route);
    check_answer(self, &arg, teff_outcome_last(caller), &ret);
}

/* Several at once, claimed in another order. */
static void start_some(sender *self, teff_caller *caller)
{
    struct work args[STARTED_MAX];
    teff_future futures[STARTED_MAX];
    const uint64_t count = below(self, STARTED_MAX) + 1, first = below(self, count);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t grain = choose_grain(self);
        target_ref to = choose_reference(self, grain);
        args[i] = choose_work(self, grain);
        count_in(&self->grains[grain].calls, &args[i]);
        futures[i] = target_work_start(with_options(self, caller), &to, &args[i]);
        keep_reference(self, grain, to.ref.route);
    }
    for (uint64_t k = 0; k < count; k++) {
        const uint64_t i = (first + k) % count;
        struct worked ret = { 0 };
        waits_for(self, &args[i]);
        (void)target_work_claim(caller, futures[i], &ret);
        waits_no_more(self);
        check_answer(self, &args[i], teff_outcome_last(caller), &ret);
    }
    self->calls[STARTED] += count;
}

static void fly_more(sender *self);

static void on_done(teff_caller *caller, void *user, const teff_outcome *outcome,
                    const struct worked *ret)
{
    flight *of = user;
    sender *self = of->from;
    char name[48];
    (void)caller;
    if (!of->open)
        fail("%s: its call %u to grain %u completes twice", name_of(self, name), of->arg.number,
             of->arg.grain);
    of->open = false;
    self->open--;
    check_answer(self, &of->arg, outcome, ret);
    if (self->client != NULL)
        fly_more(self);
}

/* Opens a flight where one is free. */
static void fly(sender *self, teff_caller *caller)
{
    flight *free = self->flights;
    char name[48];
    while (free < self->flights + FLIGHTS && free->open)
        free++;
    if (free == self->flights + FLIGHTS)
        return;
    const uint32_t grain = choose_grain(self);
    target_ref to = choose_reference(self, grain);
    *free = (flight){ .from = self, .arg = choose_work(self, grain), .open = true };
    self->open++;
    count_in(&self->grains[grain].calls, &free->arg);
    self->calls[COMPLETED]++;
    const int r = target_work_then(with_options(self, caller), &to, &free->arg, on_done, free);
    if (r != 0)
        fail("%s: its call %u to grain %u was refused: %s", name_of(self, name), free->arg.number,
             grain, teff_status_name(r));
    keep_reference(self, grain, to.ref.route);
}

/* --- Tasks and blocking clients --------------------------------------------------------------- */

/* Lets completions run: on a worker they do while the task sleeps. */
static void complete_some(sender *self, teff_caller *caller, teff_client *client)
{
    char name[48];
    const int r =
        client != NULL ? teff_client_run(client, INT64_MAX) : teff_sleep(caller, TASK_NAP_NS);
    if (r != 0)
        fail("%s: waiting for completions: %s", name_of(self, name), teff_status_name(r));
}

/*
 * A grain that goes, and what comes right behind makes it elsewhere, while messages are on their way
 * to where it was: more of them follow, and let the news of where it is now come in between.
 */
static void move(sender *self, teff_caller *caller, teff_client *client)
{
    const uint32_t grain = choose_steady(self);
    send_one_way(self, caller, grain, LEAVE);
    send_one_way(self, placed(self, caller), grain, 0);
    for (uint64_t left = below(self, MOVED_MAX); left > 0 && !is_over(self); left--) {
        send_one_way(self, caller, grain, 0);
        if (client == NULL && below(self, 4) == 0)
            complete_some(self, caller, NULL);
    }
}

static void run_sender(sender *self, teff_caller *caller, teff_client *client)
{
    while (!is_over(self)) {
        const uint64_t dice = below(self, 16);
        if (dice >= 16 - self->moving)
            move(self, caller, client);
        else if (dice == 0)
            start_some(self, caller);
        else if (dice < 4)
            fly(self, caller);
        else if (dice < 6)
            send_burst(self, caller);
        else
            await(self, caller);
        if (self->open > 0 && (self->open == FLIGHTS || below(self, 16) == 0))
            complete_some(self, caller, client);
    }
    while (self->open > 0)
        complete_some(self, caller, client);
}

int sender_task_main(teff_task *task, void *user)
{
    run_sender(user, task, NULL);
    return 0;
}

void sender_client_main(void *user)
{
    sender *self = user;
    teff_client *client;
    const int r = teff_client_create(self->silo, NULL, &client);
    if (r != 0)
        fail("no client: %s", teff_status_name(r));
    run_sender(self, client, client);
    if (teff_client_destroy(client) != NULL)
        fail("a client was not destroyed by its own thread");
}

/* --- A client on a loop ----------------------------------------------------------------------- */

static void fly_more(sender *self)
{
    if (is_over(self)) {
        if (self->open == 0 && teff_client_close_then(self->client, NULL, NULL) != 0)
            fail("a client on a loop does not close");
        return;
    }
    if (below(self, 8) == 0)
        send_burst(self, self->client);
    while (self->open < LANES)
        fly(self, self->client);
}

void sender_loop_main(void *user)
{
    sender *self = user;
    uv_loop_t loop;
    if (uv_loop_init(&loop) != 0 || teff_client_create(self->silo, &loop, &self->client) != 0)
        fail("no client on a loop");
    while (self->open < LANES)
        fly(self, self->client);
    if (uv_run(&loop, UV_RUN_DEFAULT) != 0 || uv_loop_close(&loop) != 0)
        fail("a closed client leaves something on its loop");
}
