/* SPDX-License-Identifier: MIT */
#include "greeter.h"

#include <stdio.h>

struct greeter {
    unsigned notes;
};
TEFF_GRAIN(greeter, GREETER_METHODS);

static int greeter_on_greet(teff_turn *turn, struct greeter *self, const struct greeting *arg,
                            struct greeted *ret)
{
    (void)turn;
    (void)snprintf(ret->text, sizeof(ret->text), "hello, %s", arg->name);
    ret->notes = self->notes;
    return 0;
}

static int greeter_on_note(teff_turn *turn, struct greeter *self, const struct greeting *arg,
                           teff_none *ret)
{
    (void)turn;
    (void)arg;
    (void)ret;
    self->notes++;
    return 0;
}
