/* SPDX-License-Identifier: MIT */
#include "runtime/options.h"

#include "runtime/fiber.h"
#include "runtime/sized.h"
#include "runtime/thread.h"

#include "teff/status.h"

#include <string.h>

#define STOP_TIMEOUT_NS INT64_C(10000000000)
#define LONG_CALL_NS    INT64_C(20000000000)
#define IDLE_NS         INT64_C(900000000000)
#define IDLE_QUANTUM_NS INT64_C(60000000000)
#define HOOK_TIMEOUT_NS INT64_C(30000000000)
#define STUCK_NS        INT64_C(7200000000000)
#define ROUTES_TTL_NS   INT64_C(240000000000)
#define ROUTES_MAX      1000000 /* 88 MB of each worker; as Orleans has it */
#define SHED_PERIOD_NS  INT64_C(5000000000)
#define PAGE_BYTES      4096

int64_t teff__timeout_or(int64_t asked_ns, int64_t default_ns)
{
    const int64_t timeout_ns = asked_ns != 0 ? asked_ns : default_ns;
    return timeout_ns < INT64_MAX / 2 ? timeout_ns : INT64_MAX / 2;
}

int64_t teff__age_or(int64_t asked_ns, int64_t default_ns, int64_t max_ns)
{
    const int64_t age_ns = asked_ns != 0 ? asked_ns : default_ns;
    return age_ns <= max_ns ? age_ns : INT64_MAX;
}

static int read_workers(teff_silo_options *options, uint32_t workers_max)
{
    if (options->workers > workers_max)
        return TEFF_ELIMIT;
    if (options->workers == 0) {
        const uint32_t cores = teff__thread_cores();
        options->workers = options->simulated || options->loop != NULL ? 1
                           : cores < workers_max                       ? cores
                                                                       : workers_max;
    }
    return options->loop != NULL && (options->workers > 1 || options->simulated) ? TEFF_EINVAL : 0;
}

/* Start looks once more: pages may be larger. */
static bool stack_is_right(size_t bytes)
{
    return bytes == 0 || (bytes >= TEFF__FIBER_STACK_BYTES_MIN &&
                          bytes <= TEFF__FIBER_STACK_BYTES_MAX && bytes % PAGE_BYTES == 0);
}

static int read_times(teff_silo_options *options)
{
    if (options->response_timeout_ns < 0 || options->stop_timeout_ns < 0 ||
        options->long_call_ns < 0 || options->idle_ns < 0 || options->routes_ttl_ns < 0 ||
        options->activate_timeout_ns < 0 || options->deactivate_timeout_ns < 0 ||
        options->stuck_ns < 0 || options->shed_period_ns < 0)
        return TEFF_EINVAL;
    options->response_timeout_ns =
        teff__timeout_or(options->response_timeout_ns, TEFF__RESPONSE_TIMEOUT_NS);
    options->stop_timeout_ns = teff__timeout_or(options->stop_timeout_ns, STOP_TIMEOUT_NS);
    options->long_call_ns = teff__timeout_or(options->long_call_ns, LONG_CALL_NS);
    options->activate_timeout_ns = teff__timeout_or(options->activate_timeout_ns, HOOK_TIMEOUT_NS);
    options->deactivate_timeout_ns =
        teff__timeout_or(options->deactivate_timeout_ns, HOOK_TIMEOUT_NS);
    options->stuck_ns = teff__timeout_or(options->stuck_ns, STUCK_NS);
    options->shed_period_ns = teff__timeout_or(options->shed_period_ns, SHED_PERIOD_NS);
    options->idle_ns = teff__age_or(options->idle_ns, IDLE_NS, TEFF__IDLE_MAX_NS);
    options->routes_ttl_ns =
        teff__age_or(options->routes_ttl_ns, ROUTES_TTL_NS, TEFF__ROUTES_TTL_MAX_NS);
    options->idle_quantum_ns = teff__timeout_or(options->idle_quantum_ns, IDLE_QUANTUM_NS);
    return options->idle_quantum_ns < TEFF__IDLE_QUANTUM_MIN_NS ? TEFF_EINVAL : 0;
}

static int read_routes(teff_silo_options *options)
{
    if (options->routes_max == TEFF_ROUTES_NONE) {
        options->routes_max = 0;
        return 0;
    }
    if (options->routes_max == 0)
        options->routes_max = ROUTES_MAX;
    return options->routes_max < TEFF__OPTION_ROUTES_MIN   ? TEFF_EINVAL
           : options->routes_max > TEFF__OPTION_ROUTES_MAX ? TEFF_ELIMIT
                                                           : 0;
}

static int read_shedding(teff_silo_options *options)
{
    if (options->shed_at_percent > 100 || options->shed_to_percent > 100)
        return TEFF_EINVAL;
    if (options->shed_to_percent == 0)
        options->shed_to_percent = TEFF__SHED_TO_PERCENT;
    /* Else it would shed for ever, or nothing. */
    return options->shed_at_percent != 0 && options->shed_to_percent >= options->shed_at_percent
               ? TEFF_EINVAL
               : 0;
}

static int read_placement(teff_silo_options *options)
{
    if ((uint32_t)options->placement > TEFF_PLACE_LEAST_LOADED)
        return TEFF_EINVAL;
    if (options->placement == TEFF_PLACE_DEFAULT)
        options->placement = TEFF_PLACE_CALLER;
    return 0;
}

int teff__options_read(teff_silo_options *ret, const teff_silo_options *from, uint32_t workers_max)
{
    int r = 0;
    memset(ret, 0, sizeof(*ret));
    if (from != NULL)
        r = teff__sized_copy(ret, sizeof(*ret), offsetof(teff_silo_options, response_timeout_ns),
                             from);
    if (r == 0)
        r = read_workers(ret, workers_max);
    if (r == 0 && !stack_is_right(ret->stack_bytes))
        r = TEFF_EINVAL;
    if (r == 0)
        r = read_times(ret);
    if (r == 0)
        r = read_routes(ret);
    if (r == 0)
        r = read_shedding(ret);
    if (r == 0)
        r = read_placement(ret);
    if (ret->mailbox_max == 0)
        ret->mailbox_max = TEFF__MAILBOX_MAX;
    return r;
}
