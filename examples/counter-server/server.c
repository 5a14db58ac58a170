/* SPDX-License-Identifier: MIT */
/*
 * How a program starts a silo beside, or on, a loop of its own, and how it gets rid of it again.
 * What depends on something ends before it, each step when the one before says that it is done:
 *
 *     connections ──► client ──► silo ──► the loop's handles ──► uv_run returns
 */
#define _POSIX_C_SOURCE 200809L /* what libuv's header needs of -std=c11 */

#include "server.h"
#include "counter.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- Stop ------------------------------------------------------------------------------------ */

static void stop_next(struct server *server);

/* A handle that was never initialised, in a server that could not start, is all zero. */
static void close_handle(void *handle)
{
    if (uv_handle_get_type(handle) != UV_UNKNOWN_HANDLE && !uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void on_client_closed(void *user)
{
    stop_next(user);
}

/* On the silo's last thread, where it has some: all that may be done there is to tell the loop. */
static void on_silo_stopped(void *user, int result)
{
    struct server *server = user;
    (void)result; /* of a silo that is stuck teff_silo_destroy frees nothing */
    (void)uv_async_send(&server->silo_stopped);
}

static void on_silo_stopped_told(uv_async_t *handle)
{
    struct server *server = handle->data;
    server->stopped = true;
    stop_next(server);
}

static void stop_next(struct server *server)
{
    if (server->connection_count > 0)
        return; /* server_remove comes back */
    if (server->client != NULL) {
        teff_client *client = server->client;
        server->client = NULL;
        if (teff_client_close_then(client, on_client_closed, server) == 0)
            return;
    }
    if (server->silo != NULL && !server->stopped &&
        teff_silo_stop_then(server->silo, on_silo_stopped, server) == 0)
        return;
    server->silo = teff_silo_destroy(server->silo); /* stopped, or never started */
    close_handle(&server->listener);
    close_handle(&server->interrupt);
    close_handle(&server->terminate);
    close_handle(&server->patience);
    close_handle(&server->silo_stopped);
}

static void on_impatient(uv_timer_t *timer)
{
    struct server *server = timer->data;
    for (unsigned i = 0; i < server->connection_count; i++)
        connection_close(server->connections[i]); /* they are removed later, not inside */
}

static void stop(struct server *server)
{
    server->stopping = true;
    close_handle(&server->listener);
    if (server->connection_count > 0)
        (void)uv_timer_start(&server->patience, on_impatient, STOP_PATIENCE_MS, 0);
    for (unsigned i = 0; i < server->connection_count; i++)
        connection_end(server->connections[i]);
    stop_next(server);
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    struct server *server = handle->data;
    if (server->stopping)
        _exit(130); /* asked twice: at once, whatever is under way */
    stop(server);
}

/* --- Connections ----------------------------------------------------------------------------- */

/* One that is not accepted keeps others from being announced, so a full server leaves it there. */
static void accept_or_wait(struct server *server)
{
    server->accept_waits =
        server->connection_count == CONNECTIONS_MAX || connection_accept(server) != 0;
}

static void on_connection(uv_stream_t *listener, int status)
{
    if (status != 0)
        fprintf(stderr, "counter-server: a connection failed: %s\n", teff_status_text(status));
    else
        accept_or_wait(listener->data);
}

void server_add(struct server *server, struct connection *connection)
{
    connection->server = server;
    connection->index = server->connection_count;
    server->connections[server->connection_count++] = connection;
}

void server_remove(struct server *server, struct connection *connection)
{
    struct connection *last = server->connections[--server->connection_count];
    server->connections[connection->index] = last;
    last->index = connection->index;
    if (server->stopping)
        stop_next(server);
    else if (server->accept_waits)
        accept_or_wait(server);
}

/* --- Start ----------------------------------------------------------------------------------- */

static int start_loop(struct server *server)
{
    int r = uv_async_init(&server->loop, &server->silo_stopped, on_silo_stopped_told);
    if (r == 0)
        r = uv_timer_init(&server->loop, &server->patience);
    if (r == 0)
        r = uv_signal_init(&server->loop, &server->interrupt);
    if (r == 0)
        r = uv_signal_init(&server->loop, &server->terminate);
    if (r == 0)
        r = uv_tcp_init(&server->loop, &server->listener);
    server->silo_stopped.data = server;
    server->patience.data = server;
    server->interrupt.data = server;
    server->terminate.data = server;
    server->listener.data = server;
    if (r == 0)
        r = uv_signal_start(&server->interrupt, on_signal, SIGINT);
    if (r == 0)
        r = uv_signal_start(&server->terminate, on_signal, SIGTERM);
    return r;
}

static int start_silo(struct server *server, bool on_loop)
{
    const teff_silo_options options = {
        .struct_size = sizeof(options),
        .loop = on_loop ? &server->loop : NULL, /* the only difference between the two ways */
    };
    int r = teff_silo_create(&options, &server->silo);
    if (r == 0)
        r = teff_silo_register(server->silo, &counter_grain, NULL);
    if (r == 0)
        r = teff_silo_start(server->silo);
    if (r == 0)
        r = teff_client_create(server->silo, &server->loop, &server->client);
    return r;
}

static int start_listener(struct server *server, const char *address, int port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
        struct sockaddr_storage storage;
    } at;
    char name[INET6_ADDRSTRLEN];
    int size = sizeof(at);

    int r = uv_ip4_addr(address, port, &at.four);
    if (r != 0)
        r = uv_ip6_addr(address, port, &at.six);
    if (r == 0)
        r = uv_tcp_bind(&server->listener, &at.any, 0);
    if (r == 0)
        r = uv_listen((uv_stream_t *)&server->listener, 128, on_connection);
    if (r == 0)
        r = uv_tcp_getsockname(&server->listener, &at.any, &size); /* which port it has become */
    if (r == 0)
        r = uv_ip_name(&at.any, name, sizeof(name));
    if (r != 0) {
        fprintf(stderr, "counter-server: cannot listen on %s, port %d\n", address, port);
        return r;
    }
    if (at.any.sa_family == AF_INET6)
        printf("listening on [%s]:%d\n", name, ntohs(at.six.sin6_port));
    else
        printf("listening on %s:%d\n", name, ntohs(at.four.sin_port));
    (void)fflush(stdout); /* whoever reads a pipe waits for this line */
    return 0;
}

int server_run(const struct server_options *options)
{
    struct server server = { .stopping = false };
    int r = uv_loop_init(&server.loop);
    if (r != 0)
        return r;
    r = start_loop(&server);
    if (r == 0)
        r = start_silo(&server, options->on_loop);
    if (r == 0)
        r = start_listener(&server, options->address, options->port);
    if (r != 0)
        stop(&server);
    (void)uv_run(&server.loop, UV_RUN_DEFAULT); /* until no handle is left */

    const int closed = uv_loop_close(&server.loop);
    if (r == 0 && server.silo != NULL)
        r = TEFF_ESTUCK;
    return r != 0 ? r : closed;
}
