/* SPDX-License-Identifier: MIT */
/* Everything that happens to a connection changes its state, and then lets it advance(). */
#define _POSIX_C_SOURCE 200809L /* what libuv's header needs of -std=c11 */

#include "connection.h"
#include "counter.h"
#include "server.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void advance(struct connection *connection);

static uv_stream_t *stream_of(struct connection *connection)
{
    return (uv_stream_t *)&connection->tcp;
}

static void release(struct connection *connection)
{
    struct server *server = connection->server;
    if (--connection->holders > 0)
        return;
    teff_cancel_unref(connection->gone);
    server_remove(server, connection);
    free(connection);
}

/* --- Answers --------------------------------------------------------------------------------- */

static struct reply *reply_begin(struct connection *connection)
{
    struct reply *reply =
        &connection->replies[(connection->first + connection->count++) % PENDING_MAX];
    reply->connection = connection;
    reply->ready = false;
    return reply;
}

static void reply_end(struct reply *reply, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void reply_end(struct reply *reply, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reply->text, REPLY_BYTES_MAX - 1, format, arguments);
    va_end(arguments);
    reply->size = strlen(reply->text);
    reply->text[reply->size++] = '\n';
    reply->ready = true;
}

/* Completion functions run on the loop, and never inside the call that they belong to. */
static void called(struct reply *reply)
{
    struct connection *connection = reply->connection;
    advance(connection);
    release(connection);
}

static void fail(struct reply *reply, const teff_outcome *outcome)
{
    const char *text = outcome->text[0] != '\0' ? outcome->text : teff_status_text(outcome->code);
    reply_end(reply, "ERROR %s", text);
}

static void on_count(teff_caller *caller, void *user, const teff_outcome *outcome,
                     const struct count *count)
{
    struct reply *reply = user;
    (void)caller;
    if (outcome->code == 0)
        reply_end(reply, "VALUE %" PRId64, count->value);
    else
        fail(reply, outcome);
    called(reply);
}

static void on_reset(teff_caller *caller, void *user, const teff_outcome *outcome,
                     const teff_none *none)
{
    struct reply *reply = user;
    (void)caller, (void)none;
    if (outcome->code == 0)
        reply_end(reply, "OK");
    else
        fail(reply, outcome);
    called(reply);
}

static void on_written(uv_write_t *request, int status)
{
    struct connection *connection = request->data;
    connection->writing = false;
    if (status != 0)
        connection_close(connection);
    advance(connection);
}

/* Writes the answers that are ready and whose turn it is, one batch at a time. */
static bool write_replies(struct connection *connection)
{
    size_t size = 0;
    if (connection->state == CONNECTION_CLOSING || connection->writing)
        return false;
    while (connection->count > 0 && connection->replies[connection->first].ready) {
        const struct reply *reply = &connection->replies[connection->first];
        memcpy(connection->output + size, reply->text, reply->size);
        size += reply->size;
        connection->first = (connection->first + 1) % PENDING_MAX;
        connection->count--;
    }
    if (size == 0)
        return false;
    const uv_buf_t buffer = uv_buf_init(connection->output, (unsigned)size);
    connection->write.data = connection;
    connection->writing = true;
    if (uv_write(&connection->write, stream_of(connection), &buffer, 1, on_written) != 0) {
        connection->writing = false;
        connection_close(connection);
    }
    return true;
}

/* --- Lines ----------------------------------------------------------------------------------- */

static bool is_key(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return false;
    return size > 0;
}

/* The counter of a name. Keys have at most 46 bytes; longer names are known by their digest. */
static counter_ref counter_named(const char *name, size_t size)
{
    teff_key key;
    if (teff_key_text(name, size, &key) != 0)
        key = teff_key_digest(name, size);
    return counter_of(&counter_interface.name, key);
}

static bool is_command(const char *line, size_t size, const char *command)
{
    return size == strlen(command) && memcmp(line, command, size) == 0;
}

static void usage(struct reply *reply)
{
    reply_end(reply, "ERROR usage: INCR key | GET key | RESET key");
}

static void take_line(struct connection *connection, const char *line, size_t size)
{
    const teff_call_options options = { .struct_size = sizeof(options),
                                        .cancel = connection->gone };
    teff_client *client = connection->server->client;
    struct reply *reply = reply_begin(connection);
    const char *space = memchr(line, ' ', size);
    const size_t word = space != NULL ? (size_t)(space - line) : size;
    int r;

    if (space == NULL || !is_key(space + 1, size - word - 1)) {
        usage(reply);
        return;
    }
    counter_ref counter = counter_named(space + 1, size - word - 1);
    if (is_command(line, word, "INCR")) {
        r = counter_incr_then(teff_with(client, &options), &counter, NULL, on_count, reply);
    } else if (is_command(line, word, "GET")) {
        r = counter_get_then(teff_with(client, &options), &counter, NULL, on_count, reply);
    } else if (is_command(line, word, "RESET")) {
        r = counter_reset_then(teff_with(client, &options), &counter, NULL, on_reset, reply);
    } else {
        usage(reply);
        return;
    }
    if (r == 0)
        connection->holders++;
    else
        fail(reply, teff_outcome_last(client)); /* on_count and on_reset will not be called */
}

/* Takes the whole lines that were read, as far as there are places for their answers. */
static void take_lines(struct connection *connection)
{
    size_t taken = 0;
    while (connection->state == CONNECTION_OPEN && connection->count < PENDING_MAX) {
        const char *line = connection->input + taken;
        const size_t rest = connection->input_size - taken;
        const char *end = memchr(line, '\n', rest);
        size_t size = end != NULL ? (size_t)(end - line) : rest;
        if (size > LINE_BYTES_MAX) {
            reply_end(reply_begin(connection), "ERROR a line has at most %d bytes", LINE_BYTES_MAX);
            connection->state = CONNECTION_ENDING; /* where the next line begins is a guess */
        }
        if (size > LINE_BYTES_MAX || end == NULL)
            break;
        taken += size + 1;
        if (size > 0 && line[size - 1] == '\r')
            size--;
        take_line(connection, line, size);
    }
    connection->input_size -= taken;
    memmove(connection->input, connection->input + taken, connection->input_size);
}

static void on_allocate(uv_handle_t *handle, size_t size, uv_buf_t *ret)
{
    struct connection *connection = handle->data;
    (void)size;
    /* A line that is too long ends the connection, so there is always room. */
    *ret = uv_buf_init(connection->input + connection->input_size,
                       (unsigned)(INPUT_BYTES_MAX - connection->input_size));
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    (void)buffer;
    if (connection->state == CONNECTION_LINGERING && size >= 0)
        return; /* comes too late */
    if (connection->state == CONNECTION_OPEN && size >= 0) {
        connection->input_size += (size_t)size;
    } else if (connection->state == CONNECTION_OPEN && size == UV_EOF) {
        /* The other side may still listen, as after `printf … | nc`. If not, writing will tell. */
        connection->input_ended = true;
        if (connection->input_size > 0) /* could be the half of another key: not taken */
            reply_end(reply_begin(connection), "ERROR the last line has no end");
        connection->state = CONNECTION_ENDING;
    } else {
        connection_close(connection);
    }
    advance(connection);
}

/* --- Life ------------------------------------------------------------------------------------ */

static void on_shut_down(uv_shutdown_t *request, int status)
{
    if (status != 0)
        connection_close(request->data);
}

/* All is said: tells the other side. */
static void hang_up(struct connection *connection)
{
    connection->shutdown.data = connection;
    if (!connection->input_ended &&
        uv_shutdown(&connection->shutdown, stream_of(connection), on_shut_down) == 0) {
        connection->input_size = 0;
        connection->state = CONNECTION_LINGERING;
    } else {
        connection_close(connection);
    }
}

/* Reads if what comes can be used. */
static void read_or_wait(struct connection *connection)
{
    const bool wanted = connection->state == CONNECTION_LINGERING ||
                        (connection->state == CONNECTION_OPEN && connection->count < PENDING_MAX);
    if (wanted == connection->reading || connection->state == CONNECTION_CLOSING)
        return;
    connection->reading = wanted;
    if (!wanted)
        (void)uv_read_stop(stream_of(connection));
    else if (uv_read_start(stream_of(connection), on_allocate, on_read) != 0)
        connection_close(connection);
}

/* Does whatever can be done now. */
static void advance(struct connection *connection)
{
    do
        take_lines(connection);
    while (write_replies(connection)); /* which makes places for the answers to more lines */
    if (connection->state == CONNECTION_ENDING && connection->count == 0 && !connection->writing)
        hang_up(connection);
    read_or_wait(connection);
}

int connection_accept(struct server *server)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL)
        return UV_ENOMEM;
    (void)uv_tcp_init(&server->loop, &connection->tcp); /* makes no socket yet: cannot fail */
    connection->tcp.data = connection;
    connection->holders = 1;
    server_add(server, connection);

    int r = uv_accept((uv_stream_t *)&server->listener, stream_of(connection));
    if (r == 0)
        r = uv_tcp_nodelay(&connection->tcp, 1);
    if (r == 0)
        r = teff_cancel_create(server->silo, &connection->gone);
    if (r != 0)
        connection_close(connection);
    advance(connection);
    return 0;
}

void connection_end(struct connection *connection)
{
    if (connection->state == CONNECTION_OPEN)
        connection->state = CONNECTION_ENDING;
    advance(connection);
}

static void on_closed(uv_handle_t *handle)
{
    release(handle->data);
}

void connection_close(struct connection *connection)
{
    if (connection->state == CONNECTION_CLOSING)
        return;
    connection->state = CONNECTION_CLOSING;
    teff_cancel_fire(connection->gone);
    uv_close((uv_handle_t *)&connection->tcp, on_closed);
}
