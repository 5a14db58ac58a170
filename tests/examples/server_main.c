/* SPDX-License-Identifier: MIT */
/*
 * Drives tests/examples/server.c, which stands there as the documents show it, without a main: a
 * peer connects over loopback, sends a byte and, when its call has been answered, hangs up; this
 * some times over. What the counters hold is then asked of the grain that gathers them.
 */
#include "server.c"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 5 };

struct program {
    uv_loop_t loop;
    uv_tcp_t listener, peer;
    uv_connect_t connect;
    uv_timer_t look;
    uv_async_t stopped;
    teff_silo *silo;
    teff_client *client;
    struct connection *connection;
    unsigned round;
    int64_t sum;
};

static void must(int r, const char *what)
{
    if (r == 0)
        return;
    fprintf(stderr, "%s: %s\n", what, teff_status_text(r));
    exit(1);
}

/* --- The end: client, silo, handles ---------------------------------------------------------- */

static void on_stopped_told(uv_async_t *handle)
{
    struct program *program = handle->data;
    if (teff_silo_destroy(program->silo) != NULL)
        must(TEFF_EINVALIDSTATE, "destroy the silo");
    uv_close((uv_handle_t *)&program->stopped, NULL);
}

static void on_stopped(void *user, int result)
{
    struct program *program = user;
    must(result, "stop");
    must(uv_async_send(&program->stopped), "tell");
}

static void on_client_closed(void *user)
{
    struct program *program = user;
    must(teff_silo_stop_then(program->silo, on_stopped, program), "begin to stop");
}

static void on_gathered(teff_caller *caller, void *user, const teff_outcome *outcome,
                        const struct value *value)
{
    struct program *program = user;
    must(outcome->code, "gather");
    program->sum = value->n;
    must(teff_client_close_then(caller, on_client_closed, program), "close the client");
}

static void gather(struct program *program)
{
    gather_ref all = gather_at(1);
    uv_close((uv_handle_t *)&program->listener, NULL);
    uv_close((uv_handle_t *)&program->look, NULL);
    must(gather_sum_then(program->client, &all, &(struct range){ 1, ROUNDS }, on_gathered, program),
         "ask for the sum");
}

/* --- The rounds ------------------------------------------------------------------------------ */

static void begin_round(struct program *program);

static void on_peer_closed(uv_handle_t *handle)
{
    struct program *program = handle->data;
    program->connection = NULL; /* hangs up now, and frees itself */
    if (++program->round < ROUNDS)
        begin_round(program);
    else
        gather(program);
}

/* The peer hangs up when the call is answered: the socket is the only holder then. */
static void on_look(uv_timer_t *timer)
{
    struct program *program = timer->data;
    if (program->connection == NULL || program->connection->holders != 1)
        return;
    (void)uv_timer_stop(timer);
    uv_close((uv_handle_t *)&program->peer, on_peer_closed);
}

static void on_allocate(uv_handle_t *handle, size_t size, uv_buf_t *ret)
{
    static char byte;
    (void)handle, (void)size;
    *ret = uv_buf_init(&byte, 1);
}

static void on_byte(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct connection *c = stream->data;
    struct program *program = stream->loop->data;
    if (size == 0)
        return;                    /* libuv's way to say that there is nothing just now */
    on_read(stream, size, buffer); /* server.c's: it calls the counter, or ends the connection */
    if (size > 0) {
        if (c->holders != 2)
            must(TEFF_EINVALIDSTATE, "the call holds the connection");
        (void)uv_timer_start(&program->look, on_look, 1, 1);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct program *program = listener->data;
    must(status, "connection");
    struct connection *c = calloc(1, sizeof(*c));
    if (c == NULL)
        must(TEFF_ENOMEM, "connection");
    c->client = program->client;
    c->counter = counter_at(1 + program->round);
    c->holders = 1;
    must(teff_cancel_create(program->silo, &c->gone), "cancellation source");
    must(uv_tcp_init(&program->loop, &c->tcp), "socket");
    c->tcp.data = c;
    must(uv_accept(listener, (uv_stream_t *)&c->tcp), "accept");
    must(uv_read_start((uv_stream_t *)&c->tcp, on_allocate, on_byte), "read");
    program->connection = c;
}

static void on_connected(uv_connect_t *connect, int status)
{
    char byte = 'x';
    const uv_buf_t buffer = uv_buf_init(&byte, 1);
    must(status, "connect");
    must(uv_try_write(connect->handle, &buffer, 1) == 1 ? 0 : UV_EIO, "write");
}

static void begin_round(struct program *program)
{
    struct sockaddr_storage address;
    int size = sizeof(address);
    must(uv_tcp_getsockname(&program->listener, (struct sockaddr *)&address, &size), "port");
    must(uv_tcp_init(&program->loop, &program->peer), "peer");
    program->peer.data = program;
    must(uv_tcp_connect(&program->connect, &program->peer, (struct sockaddr *)&address,
                        on_connected),
         "connect");
}

int main(void)
{
    struct program program = { .round = 0 };
    struct sockaddr_in address;
    must(uv_loop_init(&program.loop), "loop");
    program.loop.data = &program;
    must(uv_timer_init(&program.loop, &program.look), "timer");
    program.look.data = &program;
    must(uv_async_init(&program.loop, &program.stopped, on_stopped_told), "async");
    program.stopped.data = &program;

    must(teff_silo_create(NULL, &program.silo), "silo");
    must(teff_silo_register(program.silo, &counter_grain, NULL), "counter");
    must(teff_silo_register(program.silo, &gather_grain, NULL), "gather");
    must(teff_silo_start(program.silo), "start");
    must(teff_client_create(program.silo, &program.loop, &program.client), "client");

    must(uv_ip4_addr("127.0.0.1", 0, &address), "address");
    must(uv_tcp_init(&program.loop, &program.listener), "listener");
    program.listener.data = &program;
    must(uv_tcp_bind(&program.listener, (struct sockaddr *)&address, 0), "bind");
    must(uv_listen((uv_stream_t *)&program.listener, 16, on_connection), "listen");
    begin_round(&program);

    (void)uv_run(&program.loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&program.loop), "close the loop");
    /* Each round added 1 to a counter of its own, and the gathering 1 to each once more. */
    printf("%d connections, sum %d\n", ROUNDS, (int)program.sum);
    return 0;
}
