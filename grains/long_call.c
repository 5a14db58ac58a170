/* SPDX-License-Identifier: MIT */
#include "grains/long_call.h"

#include "grains/abandon.h"
#include "grains/turn.h"
#include "grains/waiting.h"
#include "messaging/completion.h"

#include <stdarg.h>
#include <stdio.h>

/* Between two looks at least: as between two sweeps, and so many to a period. */
#define LOOK_PERIOD_NS INT64_C(1000000)
enum { LOOKS_MAX = 64, LOOKS_MIN = 4 };

/* --- In words ------------------------------------------------------------------------------ */

typedef struct line {
    char *text;
    size_t size, length; /* length < size */
} line;

static __attribute__((format(printf, 2, 3))) void add(line *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int more = vsnprintf(to->text + to->length, to->size - to->length, format, arguments);
    va_end(arguments);
    to->length += (size_t)more;
    if (to->length >= to->size)
        to->length = to->size - 1;
}

static void add_grain(line *to, const teff_ref *grain)
{
    enum { TYPE_SHOWN = 40 };
    char key[TEFF__KEY_PRINT_MAX];
    (void)teff__key_print(&grain->key, key, sizeof(key));
    add(to, "%.*s/%s", TYPE_SHOWN, grain->type->text, key);
}

static void add_wait(line *to, const teff_long_call *call)
{
    char time[TEFF__DURATION_MAX];
    (void)teff__duration_print(call->wait_ns, time);
    if (call->wait == TEFF_WAIT_SLEEP) {
        add(to, ", asleep for %s", time);
        return;
    }
    add(to, ", waiting %s for ", time);
    if (call->wait_count > 1)
        add(to, "%u futures", call->wait_count);
    else if (call->wait_for.type != NULL)
        add_grain(to, &call->wait_for);
    else
        add(to, "%s", call->wait == TEFF_WAIT_CALL ? "a call" : "a future");
}

void teff__long_call_print(const teff_long_call *call, bool past, char *buffer, size_t size)
{
    enum { METHOD_SHOWN = 40 };
    char time[TEFF__DURATION_MAX];
    line to = { buffer, size, 0 };
    add_grain(&to, &call->grain);
    add(&to, " %.*s %s %s %s after the call", METHOD_SHOWN, call->method->name, past ? "was" : "is",
        call->running ? "running" : "queued", teff__duration_print(call->age_ns, time));
    if (!call->running) {
        add(&to, ", behind %.*s", METHOD_SHOWN,
            call->behind != NULL ? call->behind->name : "a hook or completion");
        if (call->behind_ns != 0)
            add(&to, " of %s", teff__duration_print(call->behind_ns, time));
    }
    add_wait(&to, call);
    if (past || call->caller_kind == TEFF_CALLER_UNKNOWN)
        return;
    add(&to, "; called by ");
    if (call->caller_kind == TEFF_CALLER_GRAIN)
        add_grain(&to, &call->caller);
    else
        add(&to, "%s", call->caller_kind == TEFF_CALLER_TASK ? "a task" : "a client");
}

/* --- Telling ------------------------------------------------------------------------------- */

static void tell(teff__catalog *catalog, teff_long_call *call)
{
    const teff__grains *grains = catalog->grains;
    char text[TEFF__TEXT_MAX];
    if (grains->long_call == NULL)
        return;
    teff__long_call_print(call, false, text, sizeof(text));
    call->text = text;
    /* The program's code is on the worker: so it is refused what would wait for the silo. */
    catalog->worker.running = true;
    grains->long_call(grains->user, call);
    catalog->worker.running = false;
    call->text = "";
}

static teff_ref reference_to(const teff__activation *activation)
{
    return (teff_ref){ .type = &activation->type->def.name,
                       .route = activation->record.address,
                       .key = activation->record.key };
}

/* Who waits for an open call of this worker's. */
static void find_caller(const teff__catalog *catalog, uint64_t id, teff_long_call *call)
{
    const teff__stripe *stripe = teff__registry_stripe(&catalog->exchange->registry, id);
    const teff__callback *callback = teff__stripe_at(stripe, id);
    const uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
    const teff__activation *activation = NULL;
    if (word & TEFF__CALLBACK_THEN) {
        const teff__completion *completion = teff__stripe_detail(stripe, id)->completion;
        if (completion->life != NULL)
            call->caller_kind = TEFF_CALLER_TASK;
        else /* it may be gone */
            activation = teff__catalog_own(catalog, completion->message.address);
    } else {
        const teff_caller *caller = word & TEFF__CALLBACK_FUTURE
                                        ? teff__stripe_detail(stripe, id)->caller
                                        : ((const teff__await *)callback->value)->caller;
        if (caller->kind == TEFF__CALLER_TURN)
            activation = ((const teff__turn *)(const void *)caller)->activation;
        else
            call->caller_kind = TEFF_CALLER_TASK;
    }
    if (activation != NULL) {
        call->caller_kind = TEFF_CALLER_GRAIN;
        call->caller = reference_to(activation);
    }
}

void teff__long_call_arrived(teff__catalog *catalog, teff__status *status)
{
    const teff__registry *registry = &catalog->exchange->registry;
    const uint64_t id = status->message.correlation;
    if (teff__stripe_look_up(teff__registry_stripe(registry, id), id) == TEFF__CALLBACK_OPEN) {
        find_caller(catalog, id, &status->call);
        tell(catalog, &status->call);
    }
    (void)teff__status_keep(&catalog->statuses, registry, &catalog->postbox, status);
}

/* A call of this worker's, of another's or of a client: tells the hook, and the caller's owner. */
static void pass_on(teff__catalog *catalog, uint64_t id, teff_long_call *call)
{
    teff__exchange *exchange = catalog->exchange;
    const teff__stripe *stripe = teff__registry_stripe(&exchange->registry, id);
    teff__status *status = teff__status_take(&catalog->postbox, id, call);
    if (stripe->worker == TEFF__NO_WORKER) {
        call->caller_kind = TEFF_CALLER_CLIENT;
        tell(catalog, call);
        const uint32_t index = (uint32_t)(stripe - exchange->registry.stripes);
        if (status != NULL && !teff__client_post(exchange, index, &status->message))
            teff__postbox_drop(&catalog->postbox, &status->message);
    } else if (stripe->worker != catalog->worker.index && status != NULL) {
        teff__catalog_post(catalog, stripe->worker, &status->message);
    } else if (status != NULL) {
        teff__long_call_arrived(catalog, status);
    } else { /* short of memory: what is known here */
        if (stripe->worker == catalog->worker.index)
            find_caller(catalog, id, call);
        tell(catalog, call);
    }
}

/* --- Looking ------------------------------------------------------------------------------- */

typedef struct look {
    teff__catalog *catalog;
    int64_t now_ns, period_ns;
    int64_t next_ns;               /* when the first request becomes long, or long again */
    const teff__waiting *waiting;  /* the turn that is looked at … */
    const teff__message *in_front; /* … and its request, or NULL */
} look;

/* The grain of that hash, if it is in memory anywhere in the silo. */
static teff_ref reference_of_hash(teff__grains *grains, uint64_t hash)
{
    teff_ref found = { 0 };
    teff__grain_record record;
    if (hash == 0 || !teff__directory_find_hash(&grains->directory, hash, &record))
        return found;
    found.type = &teff__types_by_id(&grains->types, record.type)->def.name;
    found.key = record.key;
    return found;
}

static const teff_method *method_of(const teff__message *request)
{
    return &request->of->methods[request->method];
}

static teff_long_call describe(const look *at, const teff__message *request, int64_t age_ns)
{
    const teff__waiting *waiting = at->waiting;
    const bool sleeps = waiting->what == TEFF__WAITING_SLEEP;
    teff_long_call call = {
        .struct_size = sizeof(call),
        .grain = reference_to(waiting->activation),
        .of = request->of,
        .method = method_of(request),
        .age_ns = age_ns,
        .running = request == at->in_front,
        .wait = sleeps                                   ? TEFF_WAIT_SLEEP
                : waiting->what == TEFF__WAITING_FUTURES ? TEFF_WAIT_FUTURES
                                                         : TEFF_WAIT_CALL,
        .wait_count = waiting->what == TEFF__WAITING_FUTURES ? waiting->remaining : 1,
        .wait_ns = at->now_ns - waiting->since_ns,
        .text = "",
    };
    if (!sleeps && call.wait_count == 1)
        call.wait_for = reference_of_hash(at->catalog->grains, waiting->target);
    int64_t opened_ns;
    if (!call.running && at->in_front != NULL) {
        call.behind = method_of(at->in_front);
        if (teff__registry_opened_ns(&at->catalog->exchange->registry, at->in_front->correlation,
                                     &opened_ns))
            call.behind_ns = at->now_ns - opened_ns;
    }
    return call;
}

/* Tells of a request where it has been long for another period. */
static void consider(look *at, const teff__message *request)
{
    const uint64_t id = request->correlation;
    int64_t opened_ns;
    if (id == 0 || !teff__registry_opened_ns(&at->catalog->exchange->registry, id, &opened_ns))
        return;
    const int64_t age_ns = at->now_ns - opened_ns;
    const int64_t periods = age_ns > 0 ? age_ns / at->period_ns : 0;
    const int64_t again_ns =
        teff__time_add(at->now_ns, at->period_ns - (age_ns > 0 ? age_ns % at->period_ns : age_ns));
    /* Simulated time does not pass for a call that never ends: that silo is at rest. */
    if (again_ns < at->next_ns &&
        !(at->catalog->exchange->clock.simulated && request->deadline_ns == INT64_MAX))
        at->next_ns = again_ns;
    if (periods == 0 || (uint8_t)periods == request->warned)
        return;
    /* The message's header is the runtime's, also while its turn runs. */
    ((teff__message *)(uintptr_t)request)->warned = (uint8_t)periods;
    teff_long_call call = describe(at, request, age_ns);
    pass_on(at->catalog, id, &call);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/*
 * When to look again for what takes as long as a period: what was seen will have taken so long at
 * `next_ns`, what was not seen yet is to be seen within a quarter of it.
 */
static void set_next(const teff__catalog *catalog, int64_t next_ns, int64_t period_ns,
                     int64_t *ret_owed_ns, int64_t *ret_look_ns)
{
    const int64_t now_ns = catalog->worker.now_ns;
    const int64_t soon_ns = teff__time_add(now_ns, later(period_ns / LOOKS_MAX, LOOK_PERIOD_NS));
    const int64_t quarter_ns = later(soon_ns, teff__time_add(now_ns, period_ns / LOOKS_MIN));
    *ret_owed_ns = later(next_ns, soon_ns);
    *ret_look_ns = earlier(*ret_owed_ns, quarter_ns);
}

void teff__long_calls_look(teff__catalog *catalog)
{
    const int64_t now_ns = catalog->worker.now_ns, period_ns = catalog->grains->long_call_ns;
    look at = {
        .catalog = catalog, .now_ns = now_ns, .period_ns = period_ns, .next_ns = INT64_MAX
    };
    teff__stuck stuck;
    teff__stuck_begin(&stuck, catalog);
    catalog->worker.stirred = false;
    if (catalog->suspended != 0) {
        teff__waiting waiting;
        teff__waiting_walk walk;
        at.waiting = &waiting;
        for (teff__waiting_begin(&walk, catalog); teff__waiting_next(&walk, &waiting);) {
            if (waiting.activation == NULL)
                continue;
            at.in_front = waiting.request;
            if (waiting.request != NULL)
                consider(&at, waiting.request);
            for (const teff__message *mail = NULL;
                 (mail = teff__waiting_mail(waiting.activation, mail)) != NULL;)
                consider(&at, mail);
            teff__stuck_consider(&stuck, &waiting); /* the last: it may take the mail away */
        }
        teff__stuck_end(&stuck);
    }
    set_next(catalog, at.next_ns, period_ns, &catalog->long_ns, &catalog->look_ns);
    int64_t long_ns, look_ns;
    set_next(catalog, stuck.next_ns, catalog->grains->stuck_ns, &long_ns, &look_ns);
    catalog->long_ns = earlier(catalog->long_ns, long_ns);
    catalog->look_ns = earlier(catalog->look_ns, look_ns);
}
