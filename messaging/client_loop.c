/* SPDX-License-Identifier: MIT */
/*
 * Clients on a program's uv loop.
 *
 * Each time round, the loop's check callback (after the poll) and prepare callback (before it) take
 * what has come and run observers and completions. Then prepare says that the client sleeps: from
 * then on whoever hands something over writes the client's eventfd, and the poll returns. While
 * calls are under way and there are cores for it, the loop does not sleep at once: an idle callback
 * lets it poll without waiting for twice as long as waking a halted core takes, so that the
 * program's other handles are served meanwhile.
 *
 * Only the poll handle is ever referenced, and only while there is something to come.
 *
 * Between prepare and check nothing is looked at, yet the program may use the client: in a prepare
 * callback of its own that comes after ours, or in another client's completions. What it begins
 * then, a deadline or something to run, must not wait for the poll to end: hold starts the idle
 * callback, with which the poll does not wait, and the loop comes round again.
 */
#include "messaging/client.h"

#include "teff/status.h"

#include <uv.h>

/* How often an idle callback looks for news before the loop may look at its other handles. */
enum { LOOKS = 64 };

struct teff__client_loop {
    teff__client *client;
    uv_poll_t poll;
    uv_timer_t timer;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;
    int64_t spin_until_ns; /* no sleep before, while something is under way */
    int64_t timer_due_ns;  /* what the timer was last started for */
    bool polling;          /* between prepare and check */
    int open_handles;
    void (*closed)(void *user);
    void *user;
};

static void keep_awake(teff__client_loop *loop)
{
    loop->spin_until_ns = teff__clock_now_ns(&loop->client->exchange->clock) + TEFF__SPIN_NS;
}

static void update_reference(teff__client *client)
{
    uv_handle_t *poll = (uv_handle_t *)&client->loop->poll;
    if (teff__client_open_count(client) != 0 || client->ready.head != NULL ||
        client->observers.count != 0 || client->closing)
        uv_ref(poll);
    else
        uv_unref(poll);
}

static void on_idle(uv_idle_t *handle)
{
    teff__client_loop *loop = handle->data;
    teff__client *client = loop->client;
    if (!client->awake) { /* not to spin, only to come round again */
        (void)uv_idle_stop(handle);
        return;
    }
    for (int i = 0; i < LOOKS; i++) {
        if (teff__client_has_news(client))
            return;
        teff__cpu_relax();
    }
    if (teff__clock_now_ns(&client->exchange->clock) >= loop->spin_until_ns) {
        teff__client_set_awake(client, false);
        (void)uv_idle_stop(handle);
    }
}

void teff__client_loop_hold(teff__client *client)
{
    teff__client_loop *loop = client->loop;
    uv_ref((uv_handle_t *)&loop->poll);
    if (teff__client_open_count(client) == 1)
        keep_awake(loop);
    if (loop->polling)
        (void)uv_idle_start(&loop->idle, on_idle);
}

/* --- Going --------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    teff__client_loop *loop = handle->data;
    teff__client *client = loop->client;
    if (--loop->open_handles != 0)
        return;
    teff__memory *memory = client->exchange->memory;
    void (*closed)(void *user) = loop->closed;
    void *user = loop->user;
    teff__memory_free(memory, loop, sizeof(*loop));
    teff__client_gone(client);
    if (closed != NULL)
        closed(user);
}

static void close_now(teff__client_loop *loop)
{
    uv_handle_t *const handles[] = { (uv_handle_t *)&loop->poll, (uv_handle_t *)&loop->timer,
                                     (uv_handle_t *)&loop->prepare, (uv_handle_t *)&loop->check,
                                     (uv_handle_t *)&loop->idle };
    teff__client_wind_up(loop->client);
    loop->open_handles = sizeof(handles) / sizeof(*handles);
    for (size_t i = 0; i < sizeof(handles) / sizeof(*handles); i++) {
        handles[i]->data = loop;
        uv_close(handles[i], on_closed);
    }
}

/* --- Each time round ----------------------------------------------------------------------- */

/* Runs what has come. False: the client is being closed, and its handles are. */
static bool run(teff__client_loop *loop)
{
    teff__client *client = loop->client;
    teff__atomic_u64_store_relaxed(&client->thread, teff__thread_self());
    if (client->closing) {
        close_now(loop);
        return false;
    }
    if (teff__client_due_ns(client) != INT64_MAX)
        teff__client_end_due(client, teff__clock_now_ns(&client->exchange->clock));
    teff__client_take(client);
    const bool served = teff__client_serve(client);
    if (teff__client_complete(client) || served) {
        teff__postbox_flush(client->postbox);
        keep_awake(loop);
    }
    update_reference(client);
    return true;
}

static void on_check(uv_check_t *handle)
{
    teff__client_loop *loop = handle->data;
    teff__client *client = loop->client;
    loop->polling = false;
    /* A store takes the line from those who hand over: only where it is needed. */
    if (teff__atomic_u32_load_relaxed(&client->stripe->sleeping) != 0)
        teff__atomic_u32_store_relaxed(&client->stripe->sleeping, 0);
    if (!run(loop))
        return;
    /* The loop may end here, or not come round for long: nobody spins then. */
    if (teff__client_open_count(client) == 0)
        teff__client_set_awake(client, false);
    if (!client->awake)
        (void)uv_idle_stop(&loop->idle);
}

/* Spinning pays: something is under way on other threads, and there are cores for all of us. */
static bool spin(teff__client_loop *loop)
{
    teff__client *client = loop->client;
    const teff__exchange *exchange = client->exchange;
    if (teff__client_open_count(client) == 0 || exchange->clock.simulated ||
        teff__exchange_hosts_here(exchange) ||
        teff__clock_now_ns(&exchange->clock) >= loop->spin_until_ns)
        return false;
    teff__client_set_awake(client, true);
    if (teff__spinners_fit(&exchange->spinners))
        return true;
    teff__client_set_awake(client, false);
    return false;
}

/* Only there to end the poll: prepare and check look at what is due. */
static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

static void set_timer(teff__client_loop *loop)
{
    const int64_t due_ns = teff__client_due_ns(loop->client);
    if (due_ns == INT64_MAX || loop->client->exchange->clock.simulated) {
        (void)uv_timer_stop(&loop->timer);
        return;
    }
    if (due_ns == loop->timer_due_ns && uv_is_active((uv_handle_t *)&loop->timer))
        return;
    loop->timer_due_ns = due_ns;
    const int64_t wait_ns = due_ns - teff__clock_now_ns(&loop->client->exchange->clock);
    const uint64_t wait_ms = wait_ns > 0 ? ((uint64_t)wait_ns + 999999) / 1000000 : 0;
    uv_update_time(loop->timer.loop);
    (void)uv_timer_start(&loop->timer, on_timer, wait_ms, 0);
}

/* The loop is about to poll. */
static void on_prepare(uv_prepare_t *handle)
{
    teff__client_loop *loop = handle->data;
    teff__client *client = loop->client;
    if (!run(loop))
        return;
    loop->polling = true;
    if (client->closing || client->ready.head != NULL || client->requests.head != NULL ||
        spin(loop)) {
        (void)uv_idle_start(&loop->idle, on_idle);
        return;
    }
    teff__client_set_awake(client, false);
    (void)uv_idle_stop(&loop->idle);
    set_timer(loop);
    if (!teff__client_announce_sleep(client))
        (void)uv_idle_start(&loop->idle, on_idle);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    const teff__client_loop *loop = poll->data;
    (void)status;
    (void)events;
    teff__wakeup_clear(loop->client->stripe->wake_fd);
}

/* --- Coming -------------------------------------------------------------------------------- */

/* The stripe's eventfd, which stays: a late waker may still write it. */
static int need_wakeup(teff__client *client)
{
    teff__stripe *stripe = client->stripe;
    return stripe->wake_fd >= 0 ? 0 : teff__wakeup_open(&stripe->wake_fd);
}

int teff__client_loop_begin(teff__client *client, struct uv_loop_s *on)
{
    teff__memory *memory = client->exchange->memory;
    teff__client_loop *loop = teff__memory_alloc(memory, sizeof(*loop));
    if (loop == NULL)
        return TEFF_ENOMEM;
    int r = need_wakeup(client);
    if (r == 0)
        r = uv_poll_init(on, &loop->poll, client->stripe->wake_fd);
    if (r != 0) {
        teff__memory_free(memory, loop, sizeof(*loop));
        return r;
    }
    loop->client = client;
    client->loop = loop;
    teff__atomic_u64_store_relaxed(&client->thread, 0); /* whose it is, its first use will show */
    teff__atomic_u32_store_relaxed(&client->stripe->wake_by, (uint32_t)client->stripe->wake_fd + 1);
    (void)uv_timer_init(on, &loop->timer);
    (void)uv_prepare_init(on, &loop->prepare);
    (void)uv_check_init(on, &loop->check);
    (void)uv_idle_init(on, &loop->idle);
    loop->poll.data = loop->timer.data = loop->prepare.data = loop->check.data = loop->idle.data =
        loop;
    (void)uv_poll_start(&loop->poll, UV_READABLE, on_poll);
    (void)uv_prepare_start(&loop->prepare, on_prepare);
    (void)uv_check_start(&loop->check, on_check);
    uv_unref((uv_handle_t *)&loop->poll);
    uv_unref((uv_handle_t *)&loop->timer);
    uv_unref((uv_handle_t *)&loop->prepare);
    uv_unref((uv_handle_t *)&loop->check);
    uv_unref((uv_handle_t *)&loop->idle);
    return 0;
}

int teff_client_close_then(teff_client *caller, void (*closed)(void *user), void *user)
{
    if (caller == NULL)
        return TEFF_EINVAL;
    if (caller->kind != TEFF__CALLER_CLIENT || teff__client_of(caller)->loop == NULL)
        return TEFF_EINVALIDSTATE;
    teff__client *client = teff__client_of(caller);
    /* As for destroy, any thread may once the silo stops: the loop's may be gone. */
    if (teff__atomic_u32_load_acquire(&client->stripe->gate) != 0)
        teff__atomic_u64_store_relaxed(&client->thread, teff__thread_self());
    const int r = teff__client_check(client);
    if (r != 0)
        return r;
    client->closing = true;
    client->loop->closed = closed;
    client->loop->user = user;
    teff__client_loop_hold(client);
    return 0;
}
