/* SPDX-License-Identifier: MIT */
#include "grains/hook.h"

#include "grains/abandon.h"
#include "grains/notice.h"
#include "grains/task.h"

#include "teff/status.h"

/* For a hook whose waits were ended, to return. */
#define GRACE_NS INT64_C(100000000)

static void limit_reached(teff__timer *timer)
{
    teff__hook *hook = teff__container_of(timer, teff__hook, timer);
    teff__turn *turn = &hook->turn;
    teff__catalog *catalog = turn->caller.home;
    if (turn->hook == TEFF__HOOK_OVER) {
        teff__abandon_hook(catalog, turn->activation);
        return;
    }
    turn->hook = TEFF__HOOK_OVER;
    if (turn->sleeper != NULL)
        teff__sleeper_end(turn->sleeper, TEFF_ECANCELED);
    teff__timers_start(&catalog->worker.timers, timer,
                       teff__time_add(catalog->worker.now_ns, GRACE_NS), limit_reached);
}

void teff__hook_begin(teff__hook *hook, teff__catalog *catalog, teff__activation *activation,
                      int64_t timeout_ns)
{
    const int64_t deadline_ns = teff__time_add(catalog->worker.now_ns, timeout_ns);
    teff__turn_begin(&hook->turn, catalog, activation, NULL, deadline_ns);
    hook->turn.hook = TEFF__HOOK_IN_TIME;
    hook->turn.sleeper = NULL;
    hook->timer = (teff__timer){ .number = 0 };
    if (deadline_ns != INT64_MAX)
        teff__timers_start(&catalog->worker.timers, &hook->timer, deadline_ns, limit_reached);
}

void teff__hook_end(teff__hook *hook)
{
    teff__catalog *catalog = hook->turn.caller.home;
    if (teff__timer_started(&hook->timer))
        teff__timers_stop(&catalog->worker.timers, &hook->timer);
    (void)teff__turn_end(&hook->turn, 0);
}

const char *teff__hook_failed(const teff__hook *hook, int code)
{
    const teff__turn *turn = &hook->turn;
    const char *text = teff__turn_text(turn, code);
    if (turn->hook != TEFF__HOOK_OVER)
        return text;
    teff__notice(turn->caller.home, TEFF_NOTICE_ACTIVATE, turn->activation, 0);
    return text == NULL && code == TEFF_ECANCELED ? teff__activate_over : text;
}
