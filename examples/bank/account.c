/* SPDX-License-Identifier: MIT */
/*
 * The account: a balance, and a book of its last postings, by the numbers of their transfers.
 *
 * The book is what makes a posting safe to repeat, and a doubt possible to settle. It is bounded,
 * so a doubt must be settled before BOOK_MAX other transfers have gone by. An account that says no
 * has changed nothing: its callers rely on that.
 */
#include "bank.h"
#include "books.h"

#include <inttypes.h>

TEFF_INTERFACE_DEFINE(account, ACCOUNT_METHODS);
TEFF_INTERFACE_DEFINE(ledger, LEDGER_METHODS);

enum { BOOK_MAX = 64 };

enum entry_kind { ENTRY_NONE, ENTRY_DEPOSIT, ENTRY_WITHDRAWAL, ENTRY_CALLED_OFF };

struct entry {
    uint64_t transfer;
    int64_t cents;
    enum entry_kind kind;
};

/* All zero in a new grain: an empty account with an empty book. */
struct account {
    int64_t cents;
    int64_t printer_ns;
    struct entry book[BOOK_MAX];
    unsigned booked; /* entries so far; the next one takes the place of the oldest */
    bool closed;
};
TEFF_HANDLERS(account, struct account, account, ACCOUNT_METHODS);
TEFF_HANDLERS(ledger, struct account, ledger, LEDGER_METHODS);

static struct entry *entry_of(struct account *self, uint64_t transfer)
{
    for (unsigned i = 0; i < BOOK_MAX; i++)
        if (self->book[i].kind != ENTRY_NONE && self->book[i].transfer == transfer)
            return &self->book[i];
    return NULL;
}

static void enter(struct account *self, uint64_t transfer, enum entry_kind kind, int64_t cents)
{
    self->book[self->booked++ % BOOK_MAX] =
        (struct entry){ .transfer = transfer, .cents = cents, .kind = kind };
}

/* 0 if the posting may be booked, or has been (*ret_booked); else why not. */
static int look(teff_turn *turn, struct account *self, const struct posting *posting,
                enum entry_kind kind, bool *ret_booked)
{
    const struct entry *entry = entry_of(self, posting->transfer);
    *ret_booked = false;
    if (posting->transfer == 0 || posting->cents <= 0)
        return teff_turn_fail(turn, BANK_INVALID, "a posting has a number, and an amount over 0");
    if (entry == NULL)
        return 0;
    if (entry->kind == ENTRY_CALLED_OFF)
        return teff_turn_fail(turn, BANK_CALLED_OFF, "transfer %" PRIu64 " was called off",
                              posting->transfer);
    if (entry->kind != kind || entry->cents != posting->cents)
        return teff_turn_fail(turn, BANK_INVALID, "transfer %" PRIu64 " was another one",
                              posting->transfer);
    *ret_booked = true;
    return 0;
}

static int closed(teff_turn *turn)
{
    const teff_key *key = teff_turn_key(turn); /* no NUL ends it */
    return teff_turn_fail(turn, BANK_CLOSED, "the account of %.*s is closed", (int)key->size,
                          key->bytes);
}

/* --- For customers --------------------------------------------------------------------------- */

static int account_on_deposit(teff_turn *turn, struct account *self, const struct posting *arg,
                              struct money *ret)
{
    bool booked;
    int r = look(turn, self, arg, ENTRY_DEPOSIT, &booked);
    if (r != 0)
        return r;
    if (!booked) {
        if (self->closed)
            return closed(turn);
        if (self->cents > INT64_MAX - arg->cents)
            return teff_turn_fail(turn, BANK_INVALID, "nobody has that much money");
        enter(self, arg->transfer, ENTRY_DEPOSIT, arg->cents);
        self->cents += arg->cents;
        /* The money is here now, also where the caller loses patience with our printer. */
        (void)teff_sleep(turn, self->printer_ns);
    }
    ret->cents = self->cents;
    return 0;
}

static int account_on_withdraw(teff_turn *turn, struct account *self, const struct posting *arg,
                               struct money *ret)
{
    bool booked;
    int r = look(turn, self, arg, ENTRY_WITHDRAWAL, &booked);
    if (r != 0)
        return r;
    if (!booked) {
        if (self->closed)
            return closed(turn);
        if (self->cents < arg->cents)
            return teff_turn_fail(turn, BANK_SHORT, "only %" PRId64 ".%02" PRId64 " are there",
                                  self->cents / 100, self->cents % 100);
        enter(self, arg->transfer, ENTRY_WITHDRAWAL, arg->cents);
        self->cents -= arg->cents;
    }
    ret->cents = self->cents;
    return 0;
}

static int account_on_balance(teff_turn *turn, struct account *self, const teff_none *arg,
                              struct money *ret)
{
    (void)turn, (void)arg;
    ret->cents = self->cents;
    return 0;
}

static int account_on_close(teff_turn *turn, struct account *self, const teff_none *arg,
                            struct money *ret)
{
    (void)turn, (void)arg;
    ret->cents = self->cents;
    self->cents = 0;
    self->closed = true;
    return 0;
}

/* --- For the bank ---------------------------------------------------------------------------- */

static int ledger_on_happened(teff_turn *turn, struct account *self, const struct number *arg,
                              struct answer *ret)
{
    const struct entry *entry = entry_of(self, arg->value);
    (void)turn;
    ret->yes = entry != NULL && entry->kind == ENTRY_DEPOSIT;
    if (entry == NULL) /* whatever the answer is, it must stay true */
        enter(self, arg->value, ENTRY_CALLED_OFF, 0);
    return 0;
}

static int ledger_on_refund(teff_turn *turn, struct account *self, const struct number *arg,
                            teff_none *ret)
{
    struct entry *entry = entry_of(self, arg->value);
    (void)ret;
    if (entry == NULL) {
        enter(self, arg->value, ENTRY_CALLED_OFF, 0);
    } else if (entry->kind == ENTRY_WITHDRAWAL) { /* a closed account takes its own money back */
        self->cents += entry->cents;
        entry->kind = ENTRY_CALLED_OFF;
    } else if (entry->kind == ENTRY_DEPOSIT) {
        return teff_turn_fail(turn, BANK_INVALID, "transfer %" PRIu64 " took nothing from here",
                              arg->value);
    }
    return 0;
}

/* While a turn waits, its grain starts no other: whoever wants this account waits as well. */
static int ledger_on_audit(teff_turn *turn, struct account *self, const struct duration *arg,
                           teff_none *ret)
{
    (void)self, (void)ret;
    return teff_sleep(turn, arg->ns);
}

static int ledger_on_printer(teff_turn *turn, struct account *self, const struct duration *arg,
                             teff_none *ret)
{
    (void)turn, (void)ret;
    self->printer_ns = arg->ns;
    return 0;
}

static const teff_handlers *const account_implements[] = { &account_handlers, &ledger_handlers,
                                                           NULL };
const teff_grain_type account_grain = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "account" }, /* the interface's, so that account_at() finds it */
    .state_size = sizeof(struct account),
    .implements = account_implements,
};
