/* SPDX-License-Identifier: MIT */
/*
 * What came of it: every function of teff that can fail returns one of these as an int.
 *
 *   0                     done
 *   negative, <= -10001   the runtime could not: TEFF_E…, the table below
 *   negative, > -10000    the system could not: a code of libuv's (UV_EMFILE, …), passed through
 *   positive              the grain said no: a code of its own interface
 *
 * Outputs are untouched unless the status is 0.
 */
#ifndef TEFF_STATUS_H
#define TEFF_STATUS_H

#include "teff/export.h"

/* XX(name, number, text). A number, once given, keeps its meaning. */
/* clang-format off */
#define TEFF_STATUS_MAP(XX)                                                                        \
    XX(TEFF_OK, 0, "done")                                                                         \
    XX(TEFF_EINVAL, -10001, "an argument or option is invalid: see the function's description")    \
    XX(TEFF_EINVALIDSTATE, -10002,                                                                 \
       "not possible in this state or from this thread: see who may call the function, and when")  \
    XX(TEFF_ENOMEM, -10003,                                                                        \
       "out of memory: nothing was changed; free some or raise the silo's limit, then try again")  \
    XX(TEFF_ELIMIT, -10004,                                                                        \
       "a fixed limit is reached: use fewer of these, or raise the option that bounds them")       \
    XX(TEFF_EWOULDBLOCK, -10005,                                                                   \
       "this would block a thread that must not: use the form with a completion function")         \
    XX(TEFF_ETIMEDOUT, -10006,                                                                     \
       "no answer before the deadline: the outcome says whether the call may have run")            \
    XX(TEFF_ECANCELED, -10007,                                                                     \
       "cancelled by its caller: the outcome says whether the call may have run")                  \
    XX(TEFF_EOVERLOADED, -10008, "too much is waiting already: slow down, and try again later")    \
    XX(TEFF_EREJECTED, -10009, "refused where it arrived: the outcome's text says why")            \
    XX(TEFF_EUNAVAILABLE, -10010,                                                                  \
       "the silo is stopping or out of reach: the outcome says whether the call may have run")     \
    XX(TEFF_EDEADLOCK, -10011,                                                                     \
       "the grain waits for this very call: break the circle, or allow reentrancy")                \
    XX(TEFF_EGONE, -10012, "what this handle named is gone: look it up, or open it, anew")         \
    XX(TEFF_ESTUCK, -10013,                                                                        \
       "a turn never yields: nothing that it can reach was freed; find it with a debugger")
/* clang-format on */

/* The table's names, as constants. */
enum teff_status {
#define TEFF__STATUS_CONSTANT(NAME, number, text) NAME = (number),
    TEFF_STATUS_MAP(TEFF__STATUS_CONSTANT)
#undef TEFF__STATUS_CONSTANT
};

/*
 * The name of a status: "TEFF_EINVAL", libuv's "EMFILE", "(grain)" for a positive one, "(unknown)"
 * for any other.
 *
 * Ownership: gives nothing; the string is constant.
 * Threads:   any.
 */
TEFF_EXPORT const char *teff_status_name(int status);

/*
 * A sentence about a status: what happened, and what to do. Never NULL.
 *
 * Ownership: gives nothing; the string is constant.
 * Threads:   any.
 */
TEFF_EXPORT const char *teff_status_text(int status);

#endif
