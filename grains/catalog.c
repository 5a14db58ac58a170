/* SPDX-License-Identifier: MIT */
/*
 * A worker's part of a silo: posting and settling, sweeping for timeouts, beginning and end.
 */
#include "grains/catalog.h"

#include "grains/abandon.h"
#include "grains/activate.h"
#include "grains/canceling.h"
#include "grains/complete.h"
#include "grains/dispatch.h"
#include "grains/limit.h"
#include "grains/long_call.h"
#include "grains/notice.h"
#include "grains/resolve.h"
#include "grains/stateless.h"
#include "grains/stop.h"
#include "grains/task.h"
#include "grains/timeout.h"
#include "grains/turn.h"
#include "messaging/cancel.h"
#include "messaging/count.h"
#include "messaging/status.h"

#include "teff/status.h"

/*
 * Between two walks over a stripe. A timeout fires at most so much after its deadline, a pass
 * aside.
 */
#define SWEEP_PERIOD_NS INT64_C(1000000)

void teff__catalog_post_all(teff__catalog *catalog)
{
    teff__exchange_post_all(catalog->exchange, catalog->outgoing, &catalog->outgoing_dirty);
}

void teff__catalog_post(teff__catalog *catalog, uint32_t worker, teff__message *message)
{
    catalog->outgoing_dirty |= UINT64_C(1) << worker;
    if (teff__outgoing_add(&catalog->outgoing[worker], message))
        teff__catalog_post_all(catalog);
}

int teff__catalog_take_callback_slow(teff__catalog *catalog, int status, teff__callback **ret)
{
    const uint32_t current = (uint32_t)(catalog->stripe - catalog->stripes);
    for (uint32_t i = 1; status == TEFF_EOVERLOADED && i < catalog->stripes_count; i++) {
        const uint32_t other = (current + i) % catalog->stripes_count;
        *ret = teff__stripe_take(&catalog->stripes[other], &status);
        if (*ret == NULL)
            continue;
        catalog->stripe = &catalog->stripes[other];
        if (other >= catalog->stripes_used)
            catalog->stripes_used = other + 1;
        return 0;
    }
    return status;
}

/* No callback of that id is open: the call has ended before, or nobody ever waited. */
TEFF__HOT_INLINE void settle_late(teff__catalog *catalog, teff__message *answer)
{
    if (answer == NULL)
        return;
    if (answer->correlation != 0)
        teff__registry_count_late(&catalog->exchange->registry, answer->correlation);
    teff__postbox_drop(&catalog->postbox, answer);
}

/* A future keeps its answer until it is claimed; who waits for it goes on if it was the last. */
static void settle_future(teff__catalog *catalog, teff__callback *callback, teff__message *answer,
                          int code)
{
    teff__await *await = callback->value;
    callback->value = answer;
    callback->code = code;
    if (await != NULL && --await->remaining == 0)
        teff__worker_ready(&catalog->worker, &await->waiter);
}

void teff__catalog_settle_slow(teff__catalog *catalog, teff__stripe *stripe,
                               teff__callback *callback, teff__message *answer, int code)
{
    if (callback == NULL) {
        settle_late(catalog, answer);
        return;
    }
    const uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
    if (TEFF__LIKELY((word & TEFF__CALLBACK_DETAILED) == TEFF__CALLBACK_FUTURE)) {
        settle_future(catalog, callback, answer, code);
        return;
    }
    const uint64_t id = teff__stripe_open_id(stripe, teff__stripe_index(stripe, callback));
    if (word & TEFF__CALLBACK_CANCEL)
        teff__cancel_unlink(&catalog->exchange->registry, id);
    if (word & TEFF__CALLBACK_FUTURE) {
        settle_future(catalog, callback, answer, code);
    } else if (word & TEFF__CALLBACK_THEN) {
        teff__completion *completion = teff__stripe_detail(stripe, id)->completion;
        teff__stripe_free(stripe, callback);
        completion->answer = answer;
        completion->message.code = code;
        teff__complete(catalog, completion);
    } else {
        teff__await *await = callback->value;
        teff__stripe_free(stripe, callback);
        await->waiter.answer = answer;
        await->code = code;
        teff__worker_ready(&catalog->worker, &await->waiter);
    }
}

void teff__catalog_end(teff__catalog *catalog, uint64_t id, teff__message *answer, int code)
{
    teff__stripe *stripe = teff__registry_stripe(&catalog->exchange->registry, id);
    if (teff__stripe_look_up(stripe, id) == TEFF__CALLBACK_OPEN)
        teff__stripe_count_end(stripe, answer != NULL ? teff__end_of_answer(answer)
                                                      : teff__end_of_code(code));
    teff__catalog_settle_in(catalog, stripe, id, answer, code);
}

static void post_answers(teff__catalog *catalog)
{
    teff__outgoing *answers = &catalog->answers;
    teff__link *newest = answers->newest;
    answers->newest = NULL;
    answers->count = 0;
    teff__client_post_chain(catalog->exchange,
                            (uint32_t)(catalog->answers_to - catalog->exchange->registry.stripes),
                            newest, answers->oldest);
}

/*
 * An answer to a client on a loop goes as mail, in a chain with others, and the client settles it:
 * so of all that makes up the call only the message changes cores.
 */
static void keep_answer(teff__catalog *catalog, teff__stripe *stripe, teff__message *message)
{
    if (catalog->answers_to != stripe && catalog->answers.newest != NULL)
        post_answers(catalog);
    catalog->answers_to = stripe;
    if (teff__outgoing_add(&catalog->answers, message))
        post_answers(catalog);
}

void teff__catalog_respond_elsewhere(teff__catalog *catalog, teff__stripe *stripe,
                                     teff__message *message)
{
    if (message->correlation == 0)
        settle_late(catalog, message);
    else if (stripe->worker != TEFF__NO_WORKER)
        teff__catalog_post(catalog, stripe->worker, message);
    else if (teff__atomic_u32_load_relaxed(&stripe->wake_by) != 0)
        keep_answer(catalog, stripe, message);
    else if (!teff__stripe_claim(stripe, message->correlation, message, 0))
        settle_late(catalog, message); /* a blocking client waits for just this one */
}

void teff__catalog_respond(teff__catalog *catalog, teff__message *message)
{
    const uint64_t id = message->correlation;
    teff__stripe *stripe = teff__registry_stripe(&catalog->exchange->registry, id);
    if (stripe->worker == catalog->worker.index && id != 0)
        teff__catalog_end(catalog, id, message, 0);
    else
        teff__catalog_respond_elsewhere(catalog, stripe, message);
}

void teff__catalog_reject(teff__catalog *catalog, teff__message *message, int code,
                          const char *text)
{
    if (message->correlation == 0) {
        if (message->kind == TEFF__MESSAGE_COMPLETION) /* not to be refused, but not a turn now */
            teff__complete_alone(catalog, teff__completion_of(message));
        else
            teff__postbox_drop(&catalog->postbox, message);
        return;
    }
    teff__message_refuse(message, code, text);
    teff__catalog_respond(catalog, message);
}

/* An answer came from another worker. */
static void answered(teff__catalog *catalog, teff__message *message)
{
    const uint64_t id = message->correlation;
    if (TEFF__LIKELY(message->code == 0))
        teff__catalog_settle_in(catalog, teff__registry_stripe(&catalog->exchange->registry, id),
                                id, message, 0);
    else
        teff__catalog_end(catalog, id, message, 0);
}

static void deliver(teff__worker *worker, teff__link *mail)
{
    teff__catalog *catalog = teff__catalog_of(worker);
    teff__message *message = (teff__message *)mail;
    switch ((teff__message_kind)message->kind) {
    case TEFF__MESSAGE_REQUEST:
    case TEFF__MESSAGE_PROBE:
        teff__dispatch_arrived(catalog, message);
        break;
    case TEFF__MESSAGE_PROBED:
        teff__dispatch_probed(catalog, message);
        break;
    case TEFF__MESSAGE_RESPONSE:
        answered(catalog, message);
        break;
    case TEFF__MESSAGE_SPAWN:
        teff__task_arrived(catalog, message);
        break;
    case TEFF__MESSAGE_CANCEL:
        teff__canceling_fired(catalog, message);
        break;
    case TEFF__MESSAGE_STATUS:
        teff__long_call_arrived(catalog, teff__status_of(message));
        break;
    case TEFF__MESSAGE_LOCATED:
        teff__resolve_answered(catalog, message);
        break;
    case TEFF__MESSAGE_COMPLETION: /* these wait in mailboxes, and are not posted */
        break;
    case TEFF__MESSAGE_CONTROL:
        if (message == &catalog->collector.message)
            teff__collect_told(catalog);
        else if (message == &catalog->control[TEFF__STOP_NONE])
            teff__timeout_told(catalog);
        else
            teff__stop_begin_phase(catalog, (teff__stop_phase)(message - catalog->control));
        break;
    case TEFF__MESSAGE_INSPECT:
        teff__inspect_answer(catalog);
        break;
    }
}

/* Ends the callbacks of a stripe whose deadline has come, and finds the next deadline. */
static void sweep_stripe(teff__catalog *catalog, teff__stripe *stripe)
{
    uint32_t slot = 0;
    int64_t low_ns = INT64_MAX;
    stripe->walks++;
    for (uint64_t id;
         (id = teff__stripe_next_due(stripe, catalog->worker.now_ns, &slot, &low_ns)) != 0;)
        teff__catalog_end(catalog, id, teff__status_answer(catalog->exchange, id), TEFF_ETIMEDOUT);
    stripe->low_ns = low_ns;
}

/* Routes that nobody has used for their time to live go, a few a pass. */
static void sweep_routes(teff__catalog *catalog)
{
    enum { ROUTES_A_PASS = 64 };
    const int64_t now_ns = catalog->worker.now_ns;
    teff__routes_set_now(&catalog->routes, now_ns);
    teff__atomic_u32_store_relaxed(&catalog->routes_count, catalog->routes.count);
    if (TEFF__UNLIKELY(now_ns >= teff__routes_due_ns(&catalog->routes)))
        (void)teff__routes_sweep(&catalog->routes, ROUTES_A_PASS);
}

static void sweep(teff__worker *worker)
{
    teff__catalog *catalog = teff__catalog_of(worker);
    bool walked = false;
    catalog->coarse = teff__coarse(worker->now_ns);
    teff__timeout_pass(catalog);
    teff__collect_pass(catalog);
    sweep_routes(catalog);
    if (TEFF__UNLIKELY(catalog->notices.count != 0))
        teff__notices_tell(catalog);
    if (TEFF__UNLIKELY(worker->now_ns >= catalog->look_ns))
        teff__long_calls_look(catalog);
    if (worker->now_ns < catalog->sweep_after_ns)
        return;
    for (uint32_t i = 0; i < catalog->stripes_used; i++) {
        if (catalog->stripes[i].low_ns <= worker->now_ns) {
            sweep_stripe(catalog, &catalog->stripes[i]);
            walked = true;
        }
    }
    if (walked)
        catalog->sweep_after_ns = worker->now_ns + SWEEP_PERIOD_NS;
}

static int64_t due_ns(teff__worker *worker)
{
    teff__catalog *catalog = teff__catalog_of(worker);
    int64_t due = INT64_MAX;
    if (TEFF__UNLIKELY(catalog->notices.count != 0))
        return worker->now_ns;
    for (uint32_t i = 0; i < catalog->stripes_used; i++) {
        teff__stripe *stripe = &catalog->stripes[i];
        /* The lower bound is of calls that may have ended long ago: do not wake up for those. */
        if (teff__atomic_u64_load_relaxed(&stripe->opened) ==
            teff__atomic_u64_load_relaxed(&stripe->closed))
            stripe->low_ns = INT64_MAX;
        due = stripe->low_ns < due ? stripe->low_ns : due;
    }
    if (due == TEFF__DEADLINE_NEVER)
        due = INT64_MAX;
    if (due < catalog->sweep_after_ns)
        due = catalog->sweep_after_ns;
    const int64_t look_ns = teff__long_calls_due_ns(catalog);
    due = look_ns < due ? look_ns : due;
    const int64_t collect_ns = teff__collect_due_ns(catalog);
    due = collect_ns < due ? collect_ns : due;
    const int64_t routes_ns = teff__routes_due_ns(&catalog->routes);
    due = routes_ns < due ? routes_ns : due;
    const int64_t stop_ns = teff__stop_due_ns(catalog);
    return due < stop_ns ? due : stop_ns;
}

static bool flush(teff__worker *worker)
{
    teff__catalog *catalog = teff__catalog_of(worker);
    teff__catalog_post_all(catalog);
    teff__postbox_flush(&catalog->postbox);
    const bool more = TEFF__LIKELY(catalog->phase == TEFF__STOP_NONE) || teff__stop_go_on(catalog);
    if (TEFF__UNLIKELY(catalog->answers.newest != NULL))
        post_answers(catalog);
    return more;
}

static int begin(teff__worker *worker)
{
    teff__catalog *catalog = teff__catalog_of(worker);
    const teff__grains *grains = catalog->grains;
    const int r = grains->worker_start != NULL
                      ? grains->worker_start(grains->user, worker->index, &catalog->context)
                      : 0;
    catalog->begun = r == 0;
    grains->worker_begun(catalog->exchange->silo, r);
    return r;
}

static void end(teff__worker *worker)
{
    teff__catalog *catalog = teff__catalog_of(worker);
    const teff__grains *grains = catalog->grains;
    teff__inspect_end(catalog);
    teff__complete_all(catalog);
    teff__notices_tell(catalog);
    if (catalog->begun && grains->worker_stop != NULL)
        grains->worker_stop(grains->user, catalog->context);
    grains->worker_ended(catalog->exchange->silo, catalog->begun);
}

const teff__worker_ops teff__catalog_ops = { deliver, sweep, flush, due_ns, begin, end };

/* For each callback that a worker may have, a request and perhaps a completion. */
enum { MESSAGES_MAX = 2 * TEFF__STRIPES_WORKERS * TEFF__CALLBACKS_MAX };

int teff__catalog_init(teff__catalog *catalog, teff__grains *grains,
                       const teff__worker_options *options)
{
    teff__exchange *exchange = grains->exchange;
    teff__memory *memory = exchange->memory;
    const uint32_t index = options->index, workers = exchange->workers_count;
    catalog->outgoing = teff__memory_alloc(memory, workers * sizeof(*catalog->outgoing));
    if (catalog->outgoing == NULL)
        return TEFF_ENOMEM;
    int r = teff__worker_init(&catalog->worker, options);
    if (r != 0) {
        teff__memory_free(memory, catalog->outgoing, workers * sizeof(*catalog->outgoing));
        return r;
    }
    catalog->grains = grains;
    catalog->exchange = exchange;
    /* Those of the registry whose worker this is; they are neighbours. */
    for (uint32_t i = 0; i < TEFF__STRIPES_WORKERS; i++) {
        if (exchange->registry.stripes[i].worker != index)
            continue;
        if (catalog->stripes_count++ == 0)
            catalog->stripe = catalog->stripes = &exchange->registry.stripes[i];
    }
    catalog->stripes_used = 1;
    catalog->mailbox_look = teff__limit_mailbox_look(grains);
    catalog->defaults.clock = &exchange->clock;
    catalog->defaults.response_timeout_ns =
        teff__atomic_i64_load_relaxed(&exchange->response_timeout_ns);
    catalog->tag = teff__address_tag(index, TEFF__ADDRESS_ACTIVATION);
    teff__slotmap_init(&catalog->activations, memory);
    teff__activations_init(catalog);
    teff__collector_init(catalog);
    const teff__routes_options routes = { .worker = index,
                                          .capacity = grains->routes_max,
                                          .ttl_ns = grains->routes_ttl_ns,
                                          .may_go = teff__dispatch_let_go,
                                          .user = catalog };
    r = teff__routes_init(&catalog->routes, memory, &routes);
    teff_assert(r == 0);
    teff__ring_init(&catalog->abandoned);
    teff__ring_init(&catalog->sleepers);
    teff__ring_init(&catalog->tasks);
    teff__ring_init(&catalog->blocks);
    teff__ring_init(&catalog->completions);
    teff__ring_init(&catalog->statuses);
    teff__postbox_init(&catalog->postbox, memory, MESSAGES_MAX);
    for (uint32_t i = 0; i <= TEFF__STOP_SETTLE; i++)
        catalog->control[i].kind = TEFF__MESSAGE_CONTROL;
    catalog->inspected.message.kind = TEFF__MESSAGE_INSPECT;
    return 0;
}

void teff__catalog_count_grains(const teff__catalog *catalog, teff_grain_counts *ret)
{
    uint64_t gone = 0;
    for (int reason = 0; reason < TEFF_DEACTIVATED_REASONS; reason++) {
        const uint64_t of_it = teff__atomic_u64_load_relaxed(&catalog->gone[reason]);
        ret->gone[reason] += of_it;
        gone += of_it;
    }
    const uint64_t made = teff__atomic_u64_load_relaxed(&catalog->made);
    ret->made += made;
    ret->resident += made > gone ? made - gone : 0; /* one may go in between */
    ret->routes += teff__atomic_u32_load_relaxed(&catalog->routes_count);
}

/* Drops what nobody will look at any more: the mail of a worker that has ended. */
static void drop_queue(teff__catalog *catalog, teff__link *link)
{
    while (link != NULL) {
        teff__message *message = (teff__message *)link;
        link = link->next;
        if (message->kind == TEFF__MESSAGE_CANCEL)
            teff__cancel_told(message);
        else if (message->kind == TEFF__MESSAGE_RESPONSE)
            settle_late(catalog, message);
        else if (message->kind < TEFF__MESSAGE_CONTROL)
            teff__postbox_drop(&catalog->postbox, message);
    }
}

/* Drops the answers of calls whose callers were to go on, and did not any more. */
static void drop_answers(teff__catalog *catalog)
{
    for (teff__link *link; (link = teff__queue_pop(&catalog->worker.run_queue)) != NULL;) {
        const teff__item *item = (const teff__item *)link;
        if (item->run == NULL && ((const teff__waiter *)item)->answer != NULL)
            teff__postbox_drop(&catalog->postbox, ((const teff__waiter *)item)->answer);
    }
}

/* Drops the answers of futures that turns left whose stacks were dropped. */
static void drop_futures(teff__catalog *catalog)
{
    for (uint32_t i = 0; i < catalog->stripes_used; i++) {
        const teff__stripe *stripe = &catalog->stripes[i];
        const uint32_t made = teff__atomic_u32_load_relaxed(&stripe->made);
        for (uint32_t slot = 0; slot < made; slot++) {
            teff__callback *callback = &stripe->callbacks[slot];
            if (teff__callback_state_of(callback) == TEFF__CALLBACK_SETTLED &&
                callback->value != NULL)
                teff__postbox_drop(&catalog->postbox, callback->value);
            callback->value = NULL;
        }
    }
}

void teff__catalog_drain(teff__catalog *catalog)
{
    teff__memory *memory = catalog->exchange->memory;
    memory->stacks_dropped |= catalog->suspended > 0;
    drop_queue(catalog, teff__inbox_take(&catalog->worker.inbox));
    drop_answers(catalog); /* while the activations are there that may stand between them */
    teff__activation *activation;
    for (uint32_t slot = 0;
         (activation = teff__slotmap_next(&catalog->activations, &slot)) != NULL;) {
        drop_queue(catalog, activation->mailbox.head);
        if (teff__type_is_stateless(activation->type))
            teff__stateless_leave(catalog, activation);
        teff__activation_free(catalog, activation,
                              activation->reason != 0 ? activation->reason : TEFF_DEACTIVATED_STOP);
    }
    teff__abandoned_drop(catalog);
    teff__route *route;
    for (uint32_t slot = 0; (route = teff__routes_next(&catalog->routes, &slot)) != NULL;) {
        if (!teff__route_waits(route))
            continue;
        drop_queue(catalog, route->wait->messages.head);
        teff__queue_init(&route->wait->messages);
    }
    drop_futures(catalog);
    teff__statuses_drop(&catalog->statuses, &catalog->exchange->registry, &catalog->postbox);
    teff__tasks_drop(catalog);
    teff__turns_drop(catalog);
    teff__postbox_flush(&catalog->postbox);
}

void teff__catalog_finish(teff__catalog *catalog)
{
    teff__memory *memory = catalog->exchange->memory;
    teff__slotmap_finish(&catalog->activations);
    teff__activations_finish(catalog);
    teff__table_finish(&catalog->shifts, memory);
    teff__routes_finish(&catalog->routes);
    teff__postbox_finish(&catalog->postbox);
    teff__worker_finish(&catalog->worker);
    teff__memory_free(memory, catalog->outgoing,
                      catalog->exchange->workers_count * sizeof(*catalog->outgoing));
}
