/* SPDX-License-Identifier: MIT */
/*
 * What a customer can ask of the bank: accounts, and tellers that move money between them.
 *
 * Money is counted in cents. Each posting carries the number of its transfer, which the customer
 * chooses and uses for one transfer only: an account books a number once, so that whoever got no
 * answer may ask again, with the same number, and nothing happens twice.
 */
#ifndef BANK_H
#define BANK_H

#include <teff.h>

/* One list for all interfaces of the bank, since a teller passes an account's "no" on. */
enum bank_code {
    BANK_INVALID = 1, /* such a posting makes no sense */
    BANK_SHORT,       /* insufficient funds */
    BANK_CLOSED,      /* the account is closed */
    BANK_CALLED_OFF,  /* a transfer of this number was called off, for good */
    BANK_IN_DOUBT,    /* nobody knows yet whether it happened; the back office finds out */
    BANK_BUSY         /* this teller has too many transfers in doubt */
};

struct money {
    int64_t cents;
};
struct posting {
    uint64_t transfer; /* not 0 */
    int64_t cents;     /* over 0 */
};

/* The key of an account is its owner's name. */
#define ACCOUNT_METHODS(METHOD, SELF)                                                              \
    METHOD(SELF, deposit, struct posting, struct money, TEFF_TIMEOUT_MS(1000))                     \
    METHOD(SELF, withdraw, struct posting, struct money, TEFF_TIMEOUT_MS(1000))                    \
    METHOD(SELF, balance, teff_none, struct money, TEFF_TIMEOUT_MS(1000))                          \
    METHOD(SELF, close, teff_none, struct money, TEFF_TIMEOUT_MS(1000)) /* pays out the rest */
TEFF_INTERFACE(account, ACCOUNT_METHODS);

struct transfer {
    uint64_t number;
    account_ref from, to; /* references are plain values: they can be sent */
    int64_t cents;
};

/*
 * A teller has longer than the accounts that it calls: where one of them does not answer in time,
 * the teller still can.
 */
#define TELLER_METHODS(METHOD, SELF)                                                               \
    METHOD(SELF, transfer, struct transfer, teff_none, TEFF_TIMEOUT_MS(10000))
TEFF_INTERFACE(teller, TELLER_METHODS);

extern const teff_grain_type account_grain, teller_grain;

#endif
