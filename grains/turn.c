/* SPDX-License-Identifier: MIT */
/*
 * Turns: running a request, and what a handler may ask of its turn.
 */
#include "grains/turn.h"

#include "grains/activate.h"
#include "grains/call.h"
#include "grains/canceling.h"
#include "grains/complete.h"
#include "messaging/future.h"

#include "teff/bytes.h"
#include "teff/status.h"

#include <stdarg.h>
#include <stdio.h>

static teff__turn *turn_of(const teff_turn *turn)
{
    return (teff__turn *)(void *)(uintptr_t)turn;
}

static teff__catalog *catalog_of(const teff_turn *turn)
{
    return turn->home;
}

void teff__turn_answer_failure(const teff__turn *turn, teff__message *message, int code)
{
    const bool told = turn->failed == code;
    const teff_method *own = &message->of->methods[message->method];
    message->origin = told && turn->origin != NULL ? turn->origin : own;
    if (told)
        teff__message_set_text(message, turn->text);
}

/* What is in the mailbox and no request that the grain's type can serve. */
static void run_other(teff__catalog *catalog, teff__activation *activation, teff__message *message)
{
    if (message->kind == TEFF__MESSAGE_COMPLETION)
        teff__complete_turn(catalog, activation, teff__completion_of(message));
    else
        teff__catalog_reject(catalog, message, TEFF_EINVAL,
                             "the grain's type does not implement that interface");
}

/* See teff__turn_hold. */
TEFF__HOT_INLINE bool hold(teff__turn *turn, teff__message *message, void *result)
{
    teff__turn_block *block = &turn->held;
    if ((message->held & TEFF__HELD_SOURCE) != 0 && !teff__canceling_begin(turn, message, result))
        return false;
    block->next = turn->blocks;
    block->bytes = 0;
    block->message = message;
    if (teff__caller_outside(&turn->caller)) /* an observer's turn always ends */
        teff__ring_init(&block->ring);
    else
        teff__ring_push_back(&catalog_of(&turn->caller)->blocks, &block->ring);
    turn->blocks = block;
    return true;
}

bool teff__turn_hold(teff__turn *turn, teff__message *message, void *result)
{
    return hold(turn, message, result);
}

void teff__turn_run(teff__catalog *catalog, teff__activation *activation, teff__message *message)
{
    teff_handler *const *table = teff__type_table(activation->type, message->of);
    if (TEFF__UNLIKELY(table == NULL)) {
        run_other(catalog, activation, message);
        return;
    }
    teff__turn turn;
    const teff_method *method = &message->of->methods[message->method];
    const uint16_t argument = message->value;
    const uint16_t behind = (uint16_t)(argument + teff__align16(method->arg_size));
    teff__stripe *stripe =
        teff__registry_stripe(&catalog->exchange->registry, message->correlation);
    const bool local = stripe->worker == catalog->worker.index;
    /*
     * A caller on this worker finds the result behind the argument. Another core's gets it in the
     * argument's place: that line it has had already, the one behind would be one more to fetch.
     */
    _Alignas(16) char scratch[TEFF_VALUE_MAX];
    void *result = TEFF__LIKELY(local) ? (char *)message + behind : scratch;
    teff__turn_begin(&turn, catalog, activation, message, message->deadline_ns);
    teff__value_clear(result, method->ret_size);
    if (TEFF__UNLIKELY((message->flags & (TEFF__MESSAGE_BUFFERS | TEFF__MESSAGE_UNDER)) != 0) &&
        !hold(&turn, message, result)) {
        teff__catalog_reject(catalog, message, TEFF_ECANCELED, NULL);
        return;
    }
    message->flags |= TEFF__MESSAGE_MAY_HAVE_RUN;
    activation->served = true;
    int code =
        table[message->method](&turn.caller, activation->data, (char *)message + argument, result);
    code = teff__turn_end(&turn, code);
    if (TEFF__UNLIKELY(code != 0)) {
        teff__turn_answer_failure(&turn, message, code);
        teff__message_answer(message, code, activation->record.address);
        teff__catalog_respond(catalog, message);
        return;
    }
    if (local)
        message->value = behind;
    else
        teff__value_copy(teff__message_value(message), result, method->ret_size);
    /* A one-way request's correlation names no callback: nobody takes the answer. */
    teff__message_answer(message, 0, activation->record.address);
    if (TEFF__LIKELY(local))
        teff__catalog_settle_in(catalog, stripe, message->correlation, message, 0);
    else
        teff__catalog_respond_elsewhere(catalog, stripe, message);
}

void teff__caller_drop_future(teff__catalog *catalog, teff_caller *caller, uint64_t id)
{
    const teff__registry *registry = &catalog->exchange->registry;
    const teff__callback *callback = teff__future_find(registry, caller, id);
    const uint64_t word = teff__atomic_u64_load_relaxed(&callback->word);
    teff__message *answer;
    if ((word & TEFF__CALLBACK_STATE) == TEFF__CALLBACK_OPEN)
        teff__catalog_end(catalog, id, NULL, TEFF_ECANCELED);
    (void)teff__atomic_u64_add_relaxed(&catalog->exchange->registry.unclaimed, 1);
    (void)teff__future_take(registry, caller, id, &answer);
    if (answer != NULL)
        teff__postbox_drop(&catalog->postbox, answer);
}

void teff__caller_drop_futures(teff__catalog *catalog, teff_caller *caller)
{
    const teff__registry *registry = &catalog->exchange->registry;
    for (uint64_t id; (id = teff__future_first(registry, caller)) != 0;)
        teff__caller_drop_future(catalog, caller, id);
}

static void block_free(teff__memory *memory, teff__turn_block *block)
{
    teff__ring_remove(&block->ring);
    if (block->bytes != 0)
        teff__memory_free(memory, block, block->bytes);
    else
        teff__message_release(block->message);
}

int teff__turn_end_slow(teff__turn *turn, int code)
{
    if (turn->caller.futures != 0)
        teff__caller_drop_futures(catalog_of(&turn->caller), &turn->caller);
    if (turn->request != NULL && (turn->request->held & TEFF__HELD_SOURCE) != 0)
        code = teff__canceling_end(turn, code);
    while (turn->blocks != NULL) {
        teff__turn_block *block = turn->blocks;
        turn->blocks = block->next;
        block_free(teff__caller_exchange(&turn->caller)->memory, block);
        if (block == &turn->held && code == 0) /* the handler's, now the message's */
            block->message->held = (uint8_t)teff__method_result_bytes(
                &block->message->of->methods[block->message->method]);
    }
    return code;
}

void teff__turns_drop(teff__catalog *catalog)
{
    while (!teff__ring_empty(&catalog->blocks))
        block_free(catalog->exchange->memory,
                   teff__container_of(catalog->blocks.next, teff__turn_block, ring));
}

/* Of a grain. */
static bool is_grain(const teff_turn *turn)
{
    return turn != NULL && turn->kind == TEFF__CALLER_TURN;
}

static bool is_observer(const teff_turn *turn)
{
    return turn != NULL && turn->kind == TEFF__CALLER_OBSERVER;
}

static bool is_turn(const teff_turn *turn)
{
    return is_grain(turn) || is_observer(turn);
}

const teff_key *teff_turn_key(const teff_turn *turn)
{
    return is_grain(turn)      ? &turn_of(turn)->activation->record.key
           : is_observer(turn) ? &turn_of(turn)->observer->key
                               : NULL;
}

teff_ref teff_turn_self(const teff_turn *turn)
{
    teff_ref self = { 0 };
    if (is_observer(turn))
        self = *turn_of(turn)->observer;
    if (is_grain(turn)) {
        const teff__activation *activation = turn_of(turn)->activation;
        self.type = &activation->type->def.name;
        self.route = activation->record.address;
        self.key = activation->record.key;
    }
    return self;
}

void *teff_turn_context(const teff_turn *turn)
{
    return is_grain(turn) ? turn_of(turn)->activation->type->context : NULL;
}

void *teff_turn_worker_context(const teff_turn *turn)
{
    if (turn == NULL || teff__caller_outside(turn))
        return NULL;
    return catalog_of(turn)->context;
}

void *teff_turn_alloc(teff_turn *turn, size_t size)
{
    enum { HEADER = (sizeof(teff__turn_block) + 15) / 16 * 16 };
    if (!is_turn(turn) || size == 0 || size > SIZE_MAX - HEADER)
        return NULL;
    teff__turn_block *block =
        teff__memory_alloc(teff__caller_exchange(turn)->memory, HEADER + size);
    if (block == NULL)
        return NULL;
    block->bytes = HEADER + size;
    teff__ring_init(&block->ring);
    if (is_grain(turn)) /* an observer's turn always ends */
        teff__ring_push_back(&catalog_of(turn)->blocks, &block->ring);
    block->next = turn_of(turn)->blocks;
    turn_of(turn)->blocks = block;
    return (char *)block + HEADER;
}

int teff_turn_fail(teff_turn *caller, int code, const char *format, ...)
{
    if (!is_turn(caller))
        return TEFF_EINVALIDSTATE;
    if (code <= 0 || format == NULL)
        return TEFF_EINVAL;
    teff__turn *turn = turn_of(caller);
    char text[TEFF__TEXT_MAX]; /* the arguments may name the text that is there */
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    memcpy(turn->text, text, sizeof(text));
    turn->failed = code;
    turn->origin = NULL;
    return code;
}

int teff_turn_pass(teff_turn *caller, int code)
{
    if (!is_turn(caller))
        return TEFF_EINVALIDSTATE;
    teff__turn *turn = turn_of(caller);
    if (code != 0 && turn->caller.outcome.code == code) {
        (void)snprintf(turn->text, sizeof(turn->text), "%s", turn->caller.outcome.text);
        turn->failed = code;
        turn->origin = turn->caller.outcome.method;
    }
    return code;
}

int64_t teff_turn_deadline_ns(const teff_turn *turn)
{
    return is_turn(turn) ? turn->deadline_ns : INT64_MAX;
}

int teff_turn_deactivate(teff_turn *turn)
{
    if (!is_grain(turn))
        return TEFF_EINVALIDSTATE;
    teff__activation_ask(catalog_of(turn), turn_of(turn)->activation, TEFF_DEACTIVATED_REQUEST);
    return 0;
}

int teff_turn_delay_deactivation(teff_turn *turn, int64_t duration_ns)
{
    if (!is_grain(turn))
        return TEFF_EINVALIDSTATE;
    if (turn_of(turn)->activation->state != TEFF__ACTIVATION_GONE) /* abandoned: nothing to delay */
        teff__collect_delay(catalog_of(turn), turn_of(turn)->activation, duration_ns);
    return 0;
}
