/* SPDX-License-Identifier: MIT */
/*
 * What tests of notices share: what was told last, how often each kind was, and where.
 */
#ifndef TEFF_TESTS_UNIT_GRAINS_NOTICING_H
#define TEFF_TESTS_UNIT_GRAINS_NOTICING_H

#include "fixture.h"

#include "teff/inspect.h"

enum { NOTICE_KINDS = TEFF_NOTICE_MEMORY + 1 };

static struct {
    int times[NOTICE_KINDS];
    teff_notice last; /* its pointers are of no use … */
    char text[512];   /* … so this is what it said */
    char type[32];    /* and the grain's type, or "" */
} noticed;

/* What a test does when it is told. */
static void (*noticing)(const teff_notice *notice);

TEFF__INLINE void on_notice(void *user, const teff_notice *notice)
{
    cr_expect_eq(user, &seen);
    cr_expect_eq(notice->struct_size, sizeof(*notice));
    cr_assert_lt((unsigned)notice->kind, NOTICE_KINDS);
    noticed.times[notice->kind]++;
    noticed.last = *notice;
    (void)snprintf(noticed.text, sizeof(noticed.text), "%s", notice->text);
    (void)snprintf(noticed.type, sizeof(noticed.type), "%s",
                   notice->grain.type != NULL ? notice->grain.type->text : "");
    if (noticing != NULL)
        noticing(notice);
}

/* A silo that tells. */
TEFF__INLINE void begin_noticing(teff_silo_options options)
{
    options.user = &seen;
    options.notice = on_notice;
    begin_with(options);
}

#endif
