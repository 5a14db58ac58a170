/* SPDX-License-Identifier: MIT */
/*
 * A day at the bank, told line by line: bank [--threads]
 *
 * The silo is simulated, so seconds of waiting pass at once, and every run prints the same. With
 * --threads it runs on threads and in real time, as it would in a program, and prints the same too.
 */
#include "bank.h"
#include "books.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

static account_ref account_of_owner(const char *owner)
{
    account_ref account = {
        { 0 }
    }; /* a name that is no key leaves it so: calls answer TEFF_EINVAL */
    (void)account_at_text(owner, strlen(owner), &account);
    return account;
}

/* The end of a line: what came of the client's last call. */
static void result(teff_client *client, int r)
{
    const teff_outcome *outcome = teff_outcome_last(client);
    if (r == 0)
        printf("done\n");
    else if (r > 0)
        printf("no, says %s: %s\n", outcome->method != NULL ? outcome->method->name : "?",
               outcome->text);
    else
        printf("%s: %s\n", teff_status_name(r), outcome->text);
}

static void transfer(teff_client *client, uint64_t number, account_ref from, account_ref to,
                     int64_t cents)
{
    const struct transfer order = { number, from, to, cents };
    teller_ref teller = teller_at(1);
    printf("transfer %" PRIu64 " of %" PRId64 ".%02" PRId64 ": ", number, cents / 100, cents % 100);
    result(client, teller_transfer(client, &teller, &order, NULL));
}

/* What the back office does about transfers in doubt. */
static void settle(teff_client *client)
{
    teller_ref teller = teller_at(1);
    back_office_ref office = { teller.ref };
    struct doubts doubts;
    int r = back_office_doubts(client, &office, NULL, &doubts);
    for (unsigned i = 0; r == 0 && i < doubts.count; i++) {
        const struct number number = { doubts.numbers[i] };
        struct answer answer;
        printf("did transfer %" PRIu64 " happen? ", number.value);
        r = back_office_settle(client, &office, &number, &answer);
        if (r == 0)
            printf("%s\n", answer.yes ? "yes, the money is there" : "no, and it was refunded");
    }
    if (r != 0)
        result(client, r);
}

static void balance(teff_client *client, const char *owner)
{
    account_ref account = account_of_owner(owner);
    struct money money = { 0 };
    int r = account_balance(client, &account, NULL, &money);
    printf("%s has %" PRId64 ".%02" PRId64 "\n", owner, money.cents / 100, money.cents % 100);
    if (r != 0)
        result(client, r);
}

/*
 * Three calls under way at once, so that a refund finds its account busy until after the customer's
 * deadline. The teller's own deadline is the same: only a call that is detached outlives it.
 */
static void late_refund(teff_client *client, account_ref from, account_ref closed)
{
    const struct transfer order = { 8, from, closed, 2000 };
    ledger_ref froms = { from.ref }, closeds = { closed.ref };
    teller_ref teller = teller_at(1);

    (void)ledger_audit_send(client, &closeds, &(struct duration){ SECOND * 6 / 10 });
    (void)teff_sleep(client, SECOND / 10);
    teff_future future = teller_transfer_start(teff_within(client, SECOND), &teller, &order);
    (void)teff_sleep(client, SECOND * 2 / 10); /* the money is taken; the deposit waits */
    (void)ledger_audit_send(client, &froms, &(struct duration){ 2 * SECOND });
    printf("transfer %" PRIu64 " of 20.00: ", order.number);
    result(client, teller_transfer_claim(client, future, NULL));
    (void)teff_sleep(client, 2 * SECOND);
}

static void tell(teff_client *client)
{
    static const teff_name elsewhere = { "account_elsewhere" };
    account_ref alice = account_of_owner("alice"), bob = account_of_owner("bob");
    account_ref carol = account_of_owner("carol"), dave = account_of_owner("dave");
    account_ref erin = account_of(&elsewhere, alice.ref.key); /* of a type that nobody registered */
    ledger_ref bobs = { bob.ref }, carols = { carol.ref };

    printf("alice pays in 500.00: ");
    result(client, account_deposit(client, &alice, &(struct posting){ 1, 50000 }, NULL));
    transfer(client, 2, alice, bob, 20000);

    puts("\nmore than there is:");
    transfer(client, 3, alice, bob, 40000);

    puts("\nto an account that cannot be reached, and to one that is closed; both are refunded:");
    transfer(client, 4, alice, erin, 10000);
    (void)account_close(client, &dave, NULL, NULL);
    transfer(client, 5, alice, dave, 5000);
    balance(client, "alice");

    puts("\nto an account whose book the auditor has, so that no answer comes in time:");
    (void)ledger_audit_send(client, &bobs, &(struct duration){ 3 * SECOND });
    (void)teff_sleep(client, SECOND / 10); /* for that to have begun */
    transfer(client, 6, alice, bob, 3000);
    settle(client);
    printf("and if the request turned up after all? ");
    result(client, account_deposit(client, &bob, &(struct posting){ 6, 3000 }, NULL));

    puts("\nto an account with a slow printer, so that none comes either, but the money does:");
    (void)ledger_printer(client, &carols, &(struct duration){ 2 * SECOND }, NULL);
    transfer(client, 7, alice, carol, 7000);
    settle(client);

    puts("\nto a closed one again, and this time alice does not wait for her refund:");
    late_refund(client, alice, dave);
    settle(client);
    balance(client, "alice");

    puts("\ntwo transfers ended in doubt; alice asks for them once more:");
    transfer(client, 6, alice, bob, 3000);
    transfer(client, 7, alice, carol, 7000);

    puts("\nand not a cent is missing:");
    balance(client, "alice");
    balance(client, "bob");
    balance(client, "carol");
}

int main(int argc, char **argv)
{
    const teff_silo_options options = {
        .struct_size = sizeof(options),
        .simulated = !(argc == 2 && strcmp(argv[1], "--threads") == 0),
        .seed = 1,
    };
    teff_silo *silo = NULL;
    teff_client *client = NULL;
    int r = teff_silo_create(&options, &silo);
    if (r == 0)
        r = teff_silo_register(silo, &account_grain, NULL);
    if (r == 0)
        r = teff_silo_register(silo, &teller_grain, NULL);
    if (r == 0)
        r = teff_silo_start(silo);
    if (r == 0)
        r = teff_client_create(silo, NULL, &client);
    if (r == 0)
        tell(client);
    else
        fprintf(stderr, "bank: %s\n", teff_status_text(r));
    teff_client_destroy(client);
    teff_silo_destroy(silo);
    return r != 0;
}
