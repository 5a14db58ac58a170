/* SPDX-License-Identifier: MIT */
/* A program of a user's, as small as one can be that calls a grain. */
#include "greeter.h"

#include <stdio.h>

extern const teff_grain_type greeter_grain;

int main(void)
{
    teff_silo *silo = NULL;
    teff_client *client = NULL;
    greeter_ref greeter = greeter_at(1);
    struct greeted greeted = { 0 };

    int r = teff_silo_create(NULL, &silo);
    if (r == 0)
        r = teff_silo_register(silo, &greeter_grain, NULL);
    if (r == 0)
        r = teff_silo_start(silo);
    if (r == 0)
        r = teff_client_create(silo, NULL, &client);
    if (r == 0)
        r = greeter_greet(client, &greeter, &(struct greeting){ "outside" }, &greeted);
    if (r == 0)
        puts(greeted.text);
    else
        fprintf(stderr, "%s: %s\n", teff_status_name(r), teff_status_text(r));

    teff_client_destroy(client);
    teff_silo_destroy(silo);
    return r != 0;
}
