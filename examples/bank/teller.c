/* SPDX-License-Identifier: MIT */
/*
 * The teller: a transfer is a withdrawal here and a deposit there, two calls of which the second
 * can fail. What to do then hangs on whether it may have run:
 *
 *   it did not       the account said no, or was never reached: the money goes back at once
 *   nobody knows     the answer did not come in time. To give the money back now could make money,
 *                    to do nothing could lose some. The transfer is in doubt until the account has
 *                    been asked, which the back office does when it likes
 *
 * All that is asked of an account may be asked twice, so a doubt about a refund is settled by one
 * more refund.
 */
#include "bank.h"
#include "books.h"

#include <inttypes.h>

TEFF_INTERFACE_DEFINE(teller, TELLER_METHODS);
TEFF_INTERFACE_DEFINE(back_office, BACK_OFFICE_METHODS);

struct doubt {
    struct transfer transfer;
    bool deposited; /* perhaps; false: it certainly was not, and is to be refunded */
};

struct teller {
    struct doubt doubts[TELLER_DOUBTS_MAX];
    unsigned count;
};
TEFF_HANDLERS(teller, struct teller, teller, TELLER_METHODS);
TEFF_HANDLERS(back_office, struct teller, back_office, BACK_OFFICE_METHODS);

static struct doubt *doubt_of(struct teller *self, uint64_t number)
{
    for (unsigned i = 0; i < self->count; i++)
        if (self->doubts[i].transfer.number == number)
            return &self->doubts[i];
    return NULL;
}

static int in_doubt(teff_turn *turn, uint64_t number)
{
    return teff_turn_fail(turn, BANK_IN_DOUBT,
                          "transfer %" PRIu64 " is in doubt: have the back office settle it",
                          number);
}

static int doubt(teff_turn *turn, struct teller *self, const struct transfer *transfer,
                 bool deposited)
{
    /* There is room: transfer looked, and no other turn has run on this grain since. */
    self->doubts[self->count++] = (struct doubt){ *transfer, deposited };
    return in_doubt(turn, transfer->number);
}

/* May the call that just returned `r` have done its work all the same? An account's own no is one. */
static bool unknown(const teff_turn *turn, int r)
{
    return r < 0 && teff_outcome_last(turn)->may_have_run;
}

/*
 * A call made in a turn ends with that turn's own deadline, which may have passed by now: it may be
 * what failed the deposit. The refund gets a deadline of its own.
 */
static int refund(teff_turn *turn, const struct transfer *transfer)
{
    const teff_call_options alone = { .struct_size = sizeof(alone), .detached = true };
    ledger_ref from = { transfer->from.ref };
    return ledger_refund(teff_with(turn, &alone), &from, &(struct number){ transfer->number },
                         NULL);
}

static int teller_on_transfer(teff_turn *turn, struct teller *self, const struct transfer *arg,
                              teff_none *ret)
{
    const struct posting posting = { arg->number, arg->cents };
    account_ref from = arg->from, to = arg->to; /* copies: a call notes in them how it found them */
    (void)ret;

    if (teff_ref_equal(&from.ref, &to.ref))
        return teff_turn_fail(turn, BANK_INVALID, "a transfer goes to another account");
    if (doubt_of(self, arg->number) != NULL)
        return in_doubt(turn, arg->number);
    if (self->count == TELLER_DOUBTS_MAX)
        return teff_turn_fail(turn, BANK_BUSY, "%u transfers are in doubt: settle them first",
                              self->count);

    int r = account_withdraw(turn, &from, &posting, NULL);
    if (unknown(turn, r))
        return doubt(turn, self, arg, false);
    if (r != 0)
        return teff_turn_pass(turn, r);

    r = account_deposit(turn, &to, &posting, NULL);
    if (unknown(turn, r))
        return doubt(turn, self, arg, true);
    r = teff_turn_pass(turn, r); /* now: the refund's outcome will take this one's place */
    if (r != 0 && refund(turn, arg) != 0)
        return doubt(turn, self, arg, false);
    return r;
}

static int back_office_on_doubts(teff_turn *turn, struct teller *self, const teff_none *arg,
                                 struct doubts *ret)
{
    (void)turn, (void)arg;
    for (unsigned i = 0; i < self->count; i++)
        ret->numbers[ret->count++] = self->doubts[i].transfer.number;
    return 0;
}

static int back_office_on_settle(teff_turn *turn, struct teller *self, const struct number *arg,
                                 struct answer *ret)
{
    /* A pointer into my own state stays good over a call: this grain does nothing else meanwhile. */
    struct doubt *found = doubt_of(self, arg->value);
    if (found == NULL)
        return teff_turn_fail(turn, BANK_INVALID, "transfer %" PRIu64 " is not in doubt here",
                              arg->value);

    if (found->deposited) {
        ledger_ref to = { found->transfer.to.ref };
        struct answer answer;
        int r = ledger_happened(turn, &to, arg, &answer);
        if (r != 0)
            return teff_turn_pass(turn, r);
        found->deposited = ret->yes = answer.yes;
    }
    if (!found->deposited) {
        int r = refund(turn, &found->transfer);
        if (r != 0)
            return teff_turn_pass(turn, r);
    }
    *found = self->doubts[--self->count];
    return 0;
}

static const teff_handlers *const teller_implements[] = { &teller_handlers, &back_office_handlers,
                                                          NULL };
const teff_grain_type teller_grain = {
    .struct_size = sizeof(teff_grain_type),
    .name = { "teller" },
    .state_size = sizeof(struct teller),
    .implements = teller_implements,
};
