/* SPDX-License-Identifier: MIT */
/*
 * Names and texts of statuses, from our table and from libuv's.
 *
 * libuv's table is expanded here rather than asked through uv_err_name and uv_strerror, because
 * those two allocate, and leak, a string for each number that they do not know.
 */
#include "teff/status.h"

#include <uv.h>

const char *teff_status_name(int status)
{
    switch (status) {
#define XX(NAME, number, text)                                                                     \
    case NAME:                                                                                     \
        return #NAME;
        TEFF_STATUS_MAP(XX)
#undef XX
#define XX(NAME, text)                                                                             \
    case UV_##NAME:                                                                                \
        return #NAME;
        UV_ERRNO_MAP(XX)
#undef XX
    default:
        return status > 0 ? "(grain)" : "(unknown)";
    }
}

const char *teff_status_text(int status)
{
    switch (status) {
#define XX(NAME, number, text)                                                                     \
    case NAME:                                                                                     \
        return text;
        TEFF_STATUS_MAP(XX)
#undef XX
#define XX(NAME, text)                                                                             \
    case UV_##NAME:                                                                                \
        return text;
        UV_ERRNO_MAP(XX)
#undef XX
    default:
        return status > 0 ? "the grain said no (a code of its own interface)"
                          : "no status of teff's or libuv's: see where it came from";
    }
}
