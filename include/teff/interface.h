/* SPDX-License-Identifier: MIT */
/*
 * Interfaces: what can be asked of a grain, as one flat table in a header.
 *
 *     #define HELLO_METHODS(METHOD, SELF)                           \
 *         METHOD(SELF, greet, struct greeting, struct greeted, 0)   \
 *         METHOD(SELF, reset, teff_none, teff_none, 0)
 *     TEFF_INTERFACE(hello, HELLO_METHODS);          in the header: references, stubs
 *     TEFF_INTERFACE_DEFINE(hello, HELLO_METHODS);   in one C file: the table as data
 *     TEFF_HANDLERS(hello, struct hello, hello, HELLO_METHODS);   in the grain's C file
 *
 * A row: name, argument, result, options. Argument and result are complete types of at most
 * TEFF_VALUE_MAX bytes; they are copied, and hold no pointers but teff_bytes, which come first. The
 * order of the rows is their numbers, so new rows are added at the end.
 *
 * No row may be named: at at_text of self ref interface methods number count number_count state
 * table handlers implements grain; nor begin with: on_ turn_ number_; nor end in: _done _thunk
 * _send _start _claim _then. These are taken by what the macros make.
 *
 * A reference asks its grain by one interface. Where the grain's type implements another as well,
 * the same grain is asked by that through (ledger_ref){ account.ref }.
 *
 * Callers may be C11 or C++ (11 and later); defining interfaces and grains is for C only.
 */
#ifndef TEFF_INTERFACE_H
#define TEFF_INTERFACE_H

#include "teff/call.h"
#include "teff/caller.h"
#include "teff/export.h"
#include "teff/reference.h"
#include "teff/turn.h"

#include <stdint.h>

/* The largest argument or result, in bytes. */
enum { TEFF_VALUE_MAX = 1024 };

/* No argument, or no result: pass NULL. */
typedef struct teff_none {
    unsigned char unused; /* C has no empty struct */
} teff_none;

/*
 * Options of a row: 0, or any of these and of the macros below, joined with |. TEFF_READ_ONLY and
 * TEFF_INTERLEAVE change nothing yet: such a turn runs alone, as any other.
 */
enum {
    TEFF_READ_ONLY = 1,  /* changes nothing: may run beside other read-only turns */
    TEFF_INTERLEAVE = 2, /* may run beside any other turn */
    TEFF_ONE_WAY = 4     /* has no response: the stub returns when the request is sent */
};

/*
 * The first `n` members of the argument (TEFF_ARG_BYTES) or of the result (TEFF_RET_BYTES) are
 * pointers to teff_bytes; `n` at most 15, and they lie within the value. See teff/bytes.h for who
 * owns what.
 */
#define TEFF_ARG_BYTES(n) ((uint64_t)(n) << 8)
#define TEFF_RET_BYTES(n) ((uint64_t)(n) << 12)

/* The timeout of calls that name none themselves, in milliseconds, up to 2^32 - 1. */
#define TEFF_TIMEOUT_MS(n) ((uint64_t)(n) << 32)

/* One row of an interface, as data; TEFF_INTERFACE_DEFINE makes them. */
struct teff_method {
    const char *name;            /* the row's, for logs and outcomes; borrowed */
    uint32_t arg_size, ret_size; /* bytes of the argument, and of the result */
    uint64_t options;            /* TEFF_READ_ONLY, … and the macros above */
};

/* An interface is known by its name's text; two of one name must have the same rows. */
struct teff_interface {
    teff_name name;             /* 1 to 255 bytes */
    const teff_method *methods; /* in the order of the rows; borrowed */
    uint32_t count;             /* of the rows */
};

/*
 * One row's handler: 0 done; positive: no, with a code of the interface. `ret` is zeroed and counts
 * only with 0. `self` is the grain's state; `arg` is borrowed until it returns.
 */
typedef int teff_handler(teff_turn *turn, void *self, const void *arg, void *ret);

/* Handlers for all rows of an interface, in their order. */
typedef struct teff_handlers {
    const teff_interface *of;   /* borrowed */
    teff_handler *const *table; /* one for each row of `of`; borrowed */
} teff_handlers;

/*
 * TEFF_INTERFACE(hello, HELLO_METHODS); gives
 *
 *     enum hello_number { hello_number_greet, hello_number_reset, hello_number_count };
 *     extern const teff_interface hello_interface;
 *     typedef struct hello_ref { teff_ref ref; } hello_ref;
 *     hello_ref hello_of(const teff_name *type, teff_key key);            a grain of that type
 *     hello_ref hello_at(uint64_t key);                                   of the type named "hello"
 *     int hello_at_text(const char *text, size_t size, hello_ref *ret);   as teff_key_text
 *     hello_ref hello_self(const teff_turn *turn);                        whose turn it is
 *
 * and of each row, here `greet`:
 *
 *     _Static_assert(sizeof(struct greeting) <= 1024 && sizeof(struct greeted) <= 1024, "…");
 *     static inline int hello_greet(teff_caller *caller, hello_ref *to, const struct greeting *arg,
 *                                   struct greeted *ret)
 *     {
 *         return teff_call(caller, &to->ref, &hello_interface, hello_number_greet, arg, ret);
 *     }
 *     static inline int hello_greet_send(teff_caller *caller, hello_ref *to,
 *                                        const struct greeting *arg)
 *     {
 *         return teff_call_send(caller, &to->ref, &hello_interface, hello_number_greet, arg);
 *     }
 *     static inline teff_future hello_greet_start(teff_caller *caller, hello_ref *to,
 *                                                 const struct greeting *arg)
 *     {
 *         return teff_call_start(caller, &to->ref, &hello_interface, hello_number_greet, arg);
 *     }
 *     static inline int hello_greet_claim(teff_caller *caller, teff_future future,
 *                                         struct greeted *ret)
 *     {
 *         return teff_call_claim(caller, future, &hello_interface, hello_number_greet, ret);
 *     }
 *     typedef void hello_greet_done(teff_caller *caller, void *user, const teff_outcome *outcome,
 *                                   const struct greeted *ret);
 *     static inline void hello_greet_thunk(teff__any *done, teff_caller *caller, void *user,
 *                                          const teff_outcome *outcome, const void *ret)
 *     {
 *         ((hello_greet_done *)done)(caller, user, outcome, (const struct greeted *)ret);
 *     }
 *     static inline int hello_greet_then(teff_caller *caller, hello_ref *to,
 *                                        const struct greeting *arg, hello_greet_done *done,
 *                                        void *user)
 *     {
 *         return teff_call_then(caller, &to->ref, &hello_interface, hello_number_greet, arg,
 *                               hello_greet_thunk, (teff__any *)done, user);
 *     }
 */
#define TEFF_INTERFACE(I, METHODS)                                                                 \
    enum I##_number{ METHODS(TEFF__NUMBER, I) I##_number_count };                                  \
    TEFF__EXTERN const teff_interface I##_interface;                                               \
    typedef struct I##_ref {                                                                       \
        teff_ref ref;                                                                              \
    } I##_ref;                                                                                     \
    TEFF__INLINE I##_ref I##_of(const teff_name *type, teff_key key)                               \
    {                                                                                              \
        I##_ref r;                                                                                 \
        r.ref.type = type;                                                                         \
        r.ref.route = 0;                                                                           \
        r.ref.key = key;                                                                           \
        return r;                                                                                  \
    }                                                                                              \
    TEFF__INLINE I##_ref I##_at(uint64_t key)                                                      \
    {                                                                                              \
        return I##_of(&I##_interface.name, teff_key_u64(key));                                     \
    }                                                                                              \
    TEFF__INLINE int I##_at_text(const char *text, size_t size, I##_ref *ret)                      \
    {                                                                                              \
        teff_key key;                                                                              \
        int r = teff_key_text(text, size, &key);                                                   \
        if (r == 0)                                                                                \
            *ret = I##_of(&I##_interface.name, key);                                               \
        return r;                                                                                  \
    }                                                                                              \
    TEFF__INLINE I##_ref I##_self(const teff_turn *turn)                                           \
    {                                                                                              \
        I##_ref r;                                                                                 \
        r.ref = teff_turn_self(turn);                                                              \
        return r;                                                                                  \
    }                                                                                              \
    METHODS(TEFF__STUB, I) struct I##_ref

#define TEFF__NUMBER(I, m, A, R, o) I##_number_##m,
#define TEFF__CALL(I, m)            caller, &to->ref, &I##_interface, I##_number_##m, arg
#define TEFF__STUB(I, m, A, R, o)                                                                  \
    TEFF__ASSERT(sizeof(A) <= TEFF_VALUE_MAX && sizeof(R) <= TEFF_VALUE_MAX,                       \
                 #I "." #m ": a value has at most 1024 bytes; use teff_bytes");                    \
    TEFF__INLINE int I##_##m(teff_caller *caller, I##_ref *to, const A *arg, R *ret)               \
    {                                                                                              \
        return teff_call(TEFF__CALL(I, m), ret);                                                   \
    }                                                                                              \
    TEFF__INLINE int I##_##m##_send(teff_caller *caller, I##_ref *to, const A *arg)                \
    {                                                                                              \
        return teff_call_send(TEFF__CALL(I, m));                                                   \
    }                                                                                              \
    TEFF__INLINE teff_future I##_##m##_start(teff_caller *caller, I##_ref *to, const A *arg)       \
    {                                                                                              \
        return teff_call_start(TEFF__CALL(I, m));                                                  \
    }                                                                                              \
    TEFF__INLINE int I##_##m##_claim(teff_caller *caller, teff_future future, R *ret)              \
    {                                                                                              \
        return teff_call_claim(caller, future, &I##_interface, I##_number_##m, ret);               \
    }                                                                                              \
    typedef void I##_##m##_done(teff_caller *caller, void *user, const teff_outcome *outcome,      \
                                const R *ret);                                                     \
    TEFF__INLINE void I##_##m##_thunk(teff__any *done, teff_caller *caller, void *user,            \
                                      const teff_outcome *outcome, const void *ret)                \
    {                                                                                              \
        ((I##_##m##_done *)done)(caller, user, outcome, (const R *)ret);                           \
    }                                                                                              \
    TEFF__INLINE int I##_##m##_then(teff_caller *caller, I##_ref *to, const A *arg,                \
                                    I##_##m##_done *done, void *user)                              \
    {                                                                                              \
        return teff_call_then(TEFF__CALL(I, m), I##_##m##_thunk, (teff__any *)done, user);         \
    }

#ifndef __cplusplus

/* The table as data: `static const teff_method hello_methods[]`, and `hello_interface`. */
#define TEFF_INTERFACE_DEFINE(I, METHODS)                                                          \
    static const teff_method I##_methods[] = { METHODS(TEFF__ROW, I) };                            \
    const teff_interface I##_interface = { { #I }, I##_methods, I##_number_count }

#define TEFF__ROW(I, m, A, R, o) { #m, (uint32_t)sizeof(A), (uint32_t)sizeof(R), (o) },

/*
 * TEFF_HANDLERS(hello, struct hello, hello, HELLO_METHODS); declares for each row of the interface
 * (third) a function that you write below, over the state (second), under the prefix (first):
 *
 *     static int hello_on_greet(teff_turn *turn, struct hello *self, const struct greeting *arg,
 *                               struct greeted *ret);
 *
 * and collects them in `static const teff_handlers hello_handlers`.
 */
#define TEFF_HANDLERS(P, STATE, I, METHODS)                                                        \
    typedef STATE P##_state;                                                                       \
    METHODS(TEFF__HANDLER, P)                                                                      \
    static teff_handler *const P##_table[] = { METHODS(TEFF__ENTRY, P) };                          \
    static const teff_handlers P##_handlers = { &I##_interface, P##_table }

#define TEFF__HANDLER(P, m, A, R, o)                                                               \
    static int P##_on_##m(teff_turn *turn, P##_state *self, const A *arg, R *ret);                 \
    static int P##_turn_##m(teff_turn *turn, void *self, const void *arg, void *ret)               \
    {                                                                                              \
        return P##_on_##m(turn, (P##_state *)self, (const A *)arg, (R *)ret);                      \
    }
#define TEFF__ENTRY(P, m, A, R, o) P##_turn_##m,

#endif
#endif
