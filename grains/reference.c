/* SPDX-License-Identifier: MIT */
/*
 * References as users compare them. The runtime itself compares resolved types (grains/type.h) and
 * keys.
 */
#include "teff/reference.h"

#include "grains/key.h"

/* Names are text: each library of a program may have its own copy of one. */
static bool name_equal(const teff_name *a, const teff_name *b)
{
    const char *text_a = a != NULL ? a->text : NULL, *text_b = b != NULL ? b->text : NULL;
    if (text_a == text_b)
        return true;
    return text_a != NULL && text_b != NULL && strcmp(text_a, text_b) == 0;
}

bool teff_ref_equal(const teff_ref *a, const teff_ref *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return teff__key_equal(&a->key, &b->key) && name_equal(a->type, b->type);
}
