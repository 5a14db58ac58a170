/* SPDX-License-Identifier: MIT */
/*
 * A message: a header of one cache line, a body, and the grain that it is for (when it travels).
 *
 *   line 0      header
 *   body        path of waiting turns (empty today), or its source's entry │ argument │ result: each
 *               aligned to 16 bytes
 *   last line   the reference: filled in only when the message leaves its sender's worker
 *
 * What crosses to another core is the header and the line behind it, a pair that processors fetch
 * together; the last line stays with the sender unless somebody has to look where the grain is.
 *
 * A message belongs to whoever holds it: an inbox, a mailbox, a turn, a settled callback, a caller
 * that takes its result. The response is the request's own memory, turned round, so answering needs
 * none. Who drops a message gives it back to its home pool: directly where that pool is its own,
 * else in chains.
 *
 * Threads: one holder at a time; inboxes hand over.
 */
#ifndef TEFF_MESSAGING_MESSAGE_H
#define TEFF_MESSAGING_MESSAGE_H

#include "runtime/list.h"
#include "runtime/memory.h"

#include "teff/interface.h"
#include "teff/reference.h"

#include <string.h>

typedef enum teff__message_kind {
    TEFF__MESSAGE_REQUEST,
    TEFF__MESSAGE_RESPONSE,
    TEFF__MESSAGE_SPAWN, /* a task to begin */
    /* follows a route's messages to see where they end; see directory/route.h */
    TEFF__MESSAGE_PROBE,
    TEFF__MESSAGE_PROBED,     /* its answer, to the worker that sent it */
    TEFF__MESSAGE_COMPLETION, /* a call that was made with one has ended; see completion.h */
    TEFF__MESSAGE_CANCEL,     /* a source has fired; part of it, see cancel.h */
    TEFF__MESSAGE_STATUS,     /* a call takes long; see status.h */
    TEFF__MESSAGE_LOCATED,    /* an answer of the locator; see directory/locator.h */
    TEFF__MESSAGE_CONTROL,    /* the silo speaks to one of its workers; never dropped */
    TEFF__MESSAGE_INSPECT     /* somebody counts or dumps: the worker walks; never dropped */
} teff__message_kind;

enum {
    TEFF__MESSAGE_MAY_HAVE_RUN = 1, /* a turn was given the request */
    TEFF__MESSAGE_TEXT = 2,         /* the body is the text of a failure */
    /* the address is a reference's: nothing vouches for it but the grain's id */
    TEFF__MESSAGE_HINT = 4,
    TEFF__MESSAGE_BUFFERS = 8, /* the method has buffers in its argument or result */
    TEFF__MESSAGE_UNDER = 16,  /* it was sent under a source of cancellation */
    TEFF__MESSAGE_WAITS = 32, /* … and its caller waits for the answer, also when that has fired */
    TEFF__MESSAGE_GIVEN_UP = 64, /* response: the runtime's own, though a turn has the request */
    /* of `held`, beside the number of buffers: the body begins with a teff__cancel_entry */
    TEFF__HELD_SOURCE = 128,

    TEFF__MESSAGE_CLASSES = 3,
    /* the class of a message that begins an object of its own, allocated by itself */
    TEFF__MESSAGE_HEAP = 3,
    TEFF__MESSAGE_HEADER = 64,
    TEFF__MESSAGE_REFERENCE = 64,
    /*
     * All of a class's bytes: small enough for 100 in the first-level cache; what most values need;
     * the largest values with a full path (2 x 1024 + 16 x 8), or under a source.
     */
    TEFF__MESSAGE_SMALL = 256,
    TEFF__MESSAGE_MEDIUM = 640,
    TEFF__MESSAGE_LARGE = 2304,
    TEFF__MESSAGE_HOPS_MAX = 2, /* forwardings, beside one for each worker's older route */
    TEFF__PATH_MAX = 16
};

typedef struct teff__message {
    teff__link link;      /* of whatever holds it */
    uint64_t correlation; /* 0: nobody waits for an answer */
    teff__pool *home;     /* NULL: of the class HEAP */
    union {
        const teff_interface *of; /* request; response to one */
        size_t heap_bytes;        /* class HEAP: of the whole object */
    };
    union {
        int64_t deadline_ns;       /* INT64_MAX: never expires */
        const teff_method *origin; /* response that failed: whose failure it was, or NULL */
    };
    /* request: the activation it is meant for, or 0; response: the one that answers */
    uint64_t address;
    uint16_t method;
    /* where the argument, or in a response the result, begins: from the start of the message */
    uint16_t value;
    uint8_t hops; /* how often it was forwarded */
    /* ids of turns at the start of the body; none until deadlocks are detected */
    uint8_t path_count;
    uint8_t kind, flags, size_class;
    /*
     * The value begins with so many pointers to teff_bytes, and a count of each; and whether the
     * body begins with the entry of a source. Not 0: there is something to give back.
     */
    uint8_t held;
    uint8_t warned; /* request: for how many periods it is known to be long, modulo 256 */
    uint8_t place;  /* request: on which worker the grain is made, + 1; 0: as its type says */
    int32_t code;   /* response */
    /* body and reference follow */
} teff__message;

/*
 * Of a request that was sent under a source: before its argument, as long as `held` says so. On the
 * worker or client that has it in a mailbox, or runs it, the entry stands in the list that the
 * source's branch there has. See cancel.h.
 */
typedef struct teff__cancel_entry {
    struct teff_cancel *cancel; /* a count of it */
    teff__ring ring;            /* alone: not in a list. The branch's owner */
    void *place;                /* queued: the activation; running: the turn. The branch's owner */
} teff__cancel_entry;

/* teff__postbox_take writes several members at once. */
_Static_assert(offsetof(teff__message, method) + 8 == offsetof(teff__message, size_class) &&
                   offsetof(teff__message, size_class) + 1 == offsetof(teff__message, held) &&
                   offsetof(teff__message, size_class) + 4 == offsetof(teff__message, code) &&
                   TEFF__MESSAGE_REQUEST == 0,
               "the members that make up one word");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a word's low bytes come first");
_Static_assert(sizeof(teff_ref) == TEFF__MESSAGE_REFERENCE, "a reference is a line");
_Static_assert(sizeof(teff__cancel_entry) == 32, "the argument behind it is aligned to 16 bytes");
_Static_assert(sizeof(teff__message) == TEFF__MESSAGE_HEADER, "the body begins a line");

static inline char *teff__message_body(const teff__message *message)
{
    return (char *)(uintptr_t)message + TEFF__MESSAGE_HEADER;
}

/* The entry of a request, where `held` says that there is one; and the other way. */
static inline teff__cancel_entry *teff__message_entry(const teff__message *message)
{
    return (teff__cancel_entry *)(void *)teff__message_body(message);
}

static inline teff__message *teff__message_of_entry(teff__cancel_entry *entry)
{
    return (teff__message *)(void *)((char *)entry - TEFF__MESSAGE_HEADER);
}

static inline size_t teff__align16(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static inline uint32_t teff__message_bytes(uint32_t size_class)
{
    return size_class == 0   ? TEFF__MESSAGE_SMALL
           : size_class == 1 ? TEFF__MESSAGE_MEDIUM
                             : TEFF__MESSAGE_LARGE;
}

/* The smallest class for an argument and a result of that size; HEAP: none, they are too large. */
static inline uint32_t teff__message_class(size_t argument_size, size_t result_size)
{
    const size_t bytes = TEFF__MESSAGE_HEADER + TEFF__MESSAGE_REFERENCE +
                         teff__align16(argument_size) + teff__align16(result_size);
    return bytes <= TEFF__MESSAGE_SMALL    ? 0
           : bytes <= TEFF__MESSAGE_MEDIUM ? 1
           : bytes <= TEFF__MESSAGE_LARGE  ? 2
                                           : TEFF__MESSAGE_HEAP;
}

/* The grain that a message is for; only where it travels. Not of the class HEAP. */
static inline teff_ref *teff__message_to(const teff__message *message)
{
    return (teff_ref *)(void *)((char *)(uintptr_t)message +
                                teff__message_bytes(message->size_class) - TEFF__MESSAGE_REFERENCE);
}

/*
 * Says which grain a message is for. `type` must last: the caller's own name may be gone before the
 * message is.
 */
static inline void teff__message_address_to(teff__message *message, const teff_name *type,
                                            const teff_key *key)
{
    teff_ref *to = teff__message_to(message);
    to->type = type;
    to->route = 0;
    to->key = *key;
}

/* The argument of a request, the result of a response. */
static inline void *teff__message_value(const teff__message *message)
{
    return (char *)(uintptr_t)message + message->value;
}

/*
 * Copies a value. Most have a few words, too few for a call of memcpy, and a loop would cost more
 * than the moves: the bits of the size say what to move.
 */
static inline void teff__value_copy(void *restrict to, const void *restrict from, size_t size)
{
    char *t = to;
    const char *f = from;
    if (TEFF__UNLIKELY(size >= 128)) {
        memcpy(t, f, size);
        return;
    }
    if (size & 64)
        memcpy(t, f, 64), t += 64, f += 64;
    if ((size & 63) == 0)
        return;
    if (size & 32)
        memcpy(t, f, 32), t += 32, f += 32;
    if (size & 16)
        memcpy(t, f, 16), t += 16, f += 16;
    if (size & 8)
        memcpy(t, f, 8), t += 8, f += 8;
    if (size & 4)
        memcpy(t, f, 4), t += 4, f += 4;
    if (size & 2)
        memcpy(t, f, 2), t += 2, f += 2;
    if (size & 1)
        *t = *f;
}

/* Zeroes the room for a result: whole blocks of 16, which the body always has. */
static inline void teff__value_clear(void *to, size_t size)
{
    char *t = to;
    size = teff__align16(size);
    if (TEFF__UNLIKELY(size >= 128)) {
        memset(t, 0, size);
        return;
    }
    if (size & 64)
        memset(t, 0, 64), t += 64;
    if (size & 32)
        memset(t, 0, 32), t += 32;
    if (size & 16)
        memset(t, 0, 16);
}

/*
 * A sender's pools, and the foreign messages that it holds back to return them in chains. Threads:
 * the owner.
 */
typedef struct teff__postbox {
    teff__pool pools[TEFF__MESSAGE_CLASSES];
    teff__pool_link *returns_first, *returns_last; /* all of one home */
    teff__pool *returns_home;
} teff__postbox;

TEFF__INTERNAL void teff__postbox_init(teff__postbox *postbox, teff__memory *memory,
                                       uint32_t messages_max);
TEFF__INTERNAL void teff__postbox_finish(teff__postbox *postbox);

/* Sends the held back foreign messages home. */
TEFF__INTERNAL void teff__postbox_flush(teff__postbox *postbox);

/* Returns a message that does not come from one of these pools. */
TEFF__INTERNAL void teff__postbox_return_foreign(teff__postbox *postbox, teff__message *message);

/* Messages are as large as values may be; a table of methods made by hand may ask for more. */
TEFF__INTERNAL int teff__postbox_refusal(const teff_method *method);

/*
 * As teff__postbox_take, with an entry of that source, which gets a count more. TEFF_EINVAL,
 * TEFF_ENOMEM.
 */
TEFF__INTERNAL int teff__postbox_take_under(teff__postbox *postbox, const teff_interface *of,
                                            uint32_t number, struct teff_cancel *cancel,
                                            teff__message **ret);

/* A message for that method with its fixed fields filled in, or NULL: see teff__postbox_refusal. */
static inline teff__message *teff__postbox_take(teff__postbox *postbox, const teff_interface *of,
                                                uint32_t number)
{
    const teff_method *method = &of->methods[number];
    const uint32_t size_class = teff__message_class(method->arg_size, method->ret_size);
    if (TEFF__UNLIKELY(size_class == TEFF__MESSAGE_HEAP))
        return NULL;
    teff__message *message = teff__pool_take(&postbox->pools[size_class]);
    if (TEFF__UNLIKELY(message == NULL))
        return NULL;
    message->home = &postbox->pools[size_class];
    message->of = of;
    /* Neighbours, most of them 0: one store each for eight bytes and for four. */
    const uint64_t method_to_flags = number | (uint32_t)TEFF__MESSAGE_HEADER << 16;
    const uint32_t class_to_unused = size_class;
    memcpy(&message->method, &method_to_flags, sizeof(method_to_flags));
    memcpy(&message->size_class, &class_to_unused, sizeof(class_to_unused));
    return message;
}

static inline bool teff__method_has_bytes(const teff_method *method)
{
    return (method->options & (TEFF_ARG_BYTES(15) | TEFF_RET_BYTES(15))) != 0;
}

/* How many buffers the argument, or the result, of a method's message begins with. */
static inline uint32_t teff__method_argument_bytes(const teff_method *method)
{
    return (uint32_t)(method->options >> 8) & 15;
}
static inline uint32_t teff__method_result_bytes(const teff_method *method)
{
    return (uint32_t)(method->options >> 12) & 15;
}

/* A request of a method with buffers takes a count of each that its argument begins with. */
TEFF__INTERNAL void teff__message_hold(teff__message *message, const teff_method *method);
/* The message gives back those that its value begins with, and leaves its source. */
TEFF__INTERNAL void teff__message_release(teff__message *message);

/* Drops a message from a thread that has no postbox at hand: it goes home by itself. */
TEFF__INTERNAL void teff__message_send_home(teff__message *message);

/* Drops a message that holds no buffers, or whose buffers were taken, whosever it is. */
static inline void teff__postbox_return(teff__postbox *postbox, teff__message *message)
{
    teff__pool *own = &postbox->pools[message->size_class];
    if (TEFF__LIKELY(message->home == own))
        teff__pool_put(own, message);
    else
        teff__postbox_return_foreign(postbox, message);
}

/* Drops a message, and what it holds. */
static inline void teff__postbox_drop(teff__postbox *postbox, teff__message *message)
{
    if (TEFF__UNLIKELY(message->held != 0))
        teff__message_release(message);
    teff__postbox_return(postbox, message);
}

/* Turns a request into its response in place. */
static inline void teff__message_answer(teff__message *message, int code, uint64_t address)
{
    message->kind = TEFF__MESSAGE_RESPONSE;
    message->code = code;
    message->address = address;
}

/* Turns a request that nobody serves into its answer: a code, and a text or NULL. */
TEFF__INTERNAL void teff__message_refuse(teff__message *message, int code, const char *text);

/* Puts a failure's text into the body, cut to what fits. `text` must not lie in the message. */
TEFF__INTERNAL void teff__message_set_text(teff__message *message, const char *text);

/* The text that came with a failure, or NULL. Lies in the message. */
static inline const char *teff__message_text(const teff__message *message)
{
    return message->flags & TEFF__MESSAGE_TEXT ? teff__message_body(message) : NULL;
}

#endif
