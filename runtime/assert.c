/* SPDX-License-Identifier: MIT */
/*
 * The end of a process whose memory can no longer be trusted.
 */
#include "runtime/assert.h"

#include <stdio.h>
#include <stdlib.h>

void teff__assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: teff: assertion failed: %s\n", file, line, condition);
    (void)fflush(stderr); /* the program may have given stderr a buffer, which abort would drop */
    abort();
}
