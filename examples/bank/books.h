/* SPDX-License-Identifier: MIT */
/*
 * What only the bank itself asks of its accounts and tellers. They are the same grains, by other
 * interfaces: a reference to an account becomes one to its ledger by
 *
 *     ledger_ref ledger = { account.ref };
 */
#ifndef BANK_BOOKS_H
#define BANK_BOOKS_H

#include "bank.h"

struct number {
    uint64_t value; /* of a transfer */
};
struct answer {
    bool yes;
};
struct duration {
    int64_t ns;
};

/*
 *   happened   was this transfer deposited here? An answer holds for good: after a "no" it never
 *              will be, though its request be still on the way
 *   refund     takes a withdrawal back; where there was none, there never will be one
 *   audit      reads the book for so long; nobody else can meanwhile
 *   printer    how long it takes to print a line of the statement
 */
#define LEDGER_METHODS(METHOD, SELF)                                                               \
    METHOD(SELF, happened, struct number, struct answer, TEFF_TIMEOUT_MS(5000))                    \
    METHOD(SELF, refund, struct number, teff_none, TEFF_TIMEOUT_MS(5000))                          \
    METHOD(SELF, audit, struct duration, teff_none, TEFF_ONE_WAY)                                  \
    METHOD(SELF, printer, struct duration, teff_none, TEFF_TIMEOUT_MS(1000))
TEFF_INTERFACE(ledger, LEDGER_METHODS);

enum { TELLER_DOUBTS_MAX = 16 };

struct doubts {
    uint64_t numbers[TELLER_DOUBTS_MAX];
    unsigned count;
};

/*
 *   doubts   the teller's transfers that nobody knows the end of
 *   settle   ends such a doubt: did the transfer happen? Fails where an account still does not
 *            answer; it is in doubt then as before, so ask again later
 */
#define BACK_OFFICE_METHODS(METHOD, SELF)                                                          \
    METHOD(SELF, doubts, teff_none, struct doubts, 0)                                              \
    METHOD(SELF, settle, struct number, struct answer, TEFF_TIMEOUT_MS(12000))
TEFF_INTERFACE(back_office, BACK_OFFICE_METHODS);

#endif
