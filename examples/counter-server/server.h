/* SPDX-License-Identifier: MIT */
/*
 * The server: a program's own libuv loop, with a silo in it.
 *
 * The loop's thread owns all of this. A client on the loop (teff_client_create) calls the grains
 * and gets their answers here; the grains run on the silo's threads, or on this loop as well.
 */
#ifndef COUNTER_SERVER_SERVER_H
#define COUNTER_SERVER_SERVER_H

#include "connection.h"

enum {
    CONNECTIONS_MAX = 1000, /* more wait in the kernel */
    STOP_PATIENCE_MS = 2000 /* what is under way when a signal comes has this long */
};

struct server_options {
    const char *address;
    int port;     /* 0: any that is free */
    bool on_loop; /* the silo has no threads */
};

struct server {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_signal_t interrupt, terminate;
    uv_timer_t patience;
    uv_async_t silo_stopped;
    teff_silo *silo;
    teff_client *client;

    struct connection *connections[CONNECTIONS_MAX];
    unsigned connection_count;
    bool accept_waits; /* a connection waits at the listener until one of ours has gone */
    bool stopping, stopped;
};

/* Serves until a signal; 0, or a negative status of libuv's or teff's. */
int server_run(const struct server_options *options);

/* A connection begins, and is gone. */
void server_add(struct server *server, struct connection *connection);
void server_remove(struct server *server, struct connection *connection);

#endif
