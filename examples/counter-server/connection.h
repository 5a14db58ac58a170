/* SPDX-License-Identifier: MIT */
/*
 * A connection: lines come in, calls go out to the counters, answers leave in the lines' order.
 *
 *     open ──► ending ──► lingering ──► closing
 *
 *   open        lines are read, as long as fewer than PENDING_MAX of them wait for their answers;
 *               beyond that the sender waits, by TCP's own means
 *   ending      no more lines; what waits is still answered
 *   lingering   all is said, and we said so; the other side closes, or the server stops. To close
 *               first, with something unread, would make TCP throw away answers on the way
 *   closing     no more of it: calls still open are cancelled
 *
 * It is held by its socket and by each call for it that is open; the last of them frees it.
 */
#ifndef COUNTER_SERVER_CONNECTION_H
#define COUNTER_SERVER_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <teff.h>
#include <uv.h>

enum {
    LINE_BYTES_MAX = 256, /* without its LF */
    INPUT_BYTES_MAX = 4096,
    PENDING_MAX = 64,
    REPLY_BYTES_MAX = 128 /* with its LF; texts of errors are cut */
};

enum connection_state {
    CONNECTION_OPEN,
    CONNECTION_ENDING,
    CONNECTION_LINGERING,
    CONNECTION_CLOSING
};

/* One line's place in the order of answers. */
struct reply {
    struct connection *connection;
    bool ready;
    size_t size;
    char text[REPLY_BYTES_MAX];
};

struct connection {
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct server *server;
    unsigned index;    /* in the server's list */
    unsigned holders;  /* the socket, and each open call */
    teff_cancel *gone; /* ends the open calls */
    enum connection_state state;
    bool reading, writing, input_ended;

    struct reply replies[PENDING_MAX]; /* a ring */
    unsigned first, count;

    size_t
        input_size; /* what is read and not yet taken: at most a part of a line, unless we wait */
    char input[INPUT_BYTES_MAX];
    char output[PENDING_MAX * REPLY_BYTES_MAX]; /* what is being written, if `writing` */
};

/* Takes the connection that waits at the server's listener. UV_ENOMEM: it waits on. */
int connection_accept(struct server *server);

/* Reads no more lines, answers what it has read, and closes then. */
void connection_end(struct connection *connection);

/* Closes now. Open calls are cancelled, so that the connection is freed soon, but not inside. */
void connection_close(struct connection *connection);

#endif
