/* SPDX-License-Identifier: MIT */
/* counter-server: counters behind a TCP port. This file reads the command line; server.c serves. */
#define _POSIX_C_SOURCE 200809L /* what libuv's header needs of -std=c11 */

#include "server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void help(void)
{
    printf(
        "Usage: counter-server [--bind ADDRESS] [--port N] [--on-loop]\n"
        "\n"
        "Counts over TCP. Each line asks, and is answered by a line, in the order asked:\n"
        "\n"
        "  INCR key    adds 1                  VALUE n\n"
        "  GET key     of a new key, 0         VALUE n\n"
        "  RESET key   to 0                    OK\n"
        "                                      ERROR text, if it could not\n"
        "\n"
        "A key is any bytes but spaces and control characters; those of more than %d bytes are\n"
        "told apart by their digest of 128 bits, which is as good. A line has at most %d bytes,\n"
        "and ends with LF or CR LF. Counters live as long as the server.\n"
        "\n"
        "  --bind ADDRESS  an IPv4 or IPv6 address; 127.0.0.1 if not given\n"
        "  --port N        0 to 65535; 0, any that is free, if not given\n"
        "  --on-loop       runs the grains on the server's own loop, and not on threads\n"
        "  --help          this text\n"
        "\n"
        "Prints \"listening on ADDRESS:PORT\". SIGINT or SIGTERM ends it, once what is under way\n"
        "is answered, but within seconds; a second one at once, with exit code 130.\n",
        TEFF_KEY_TEXT_MAX, LINE_BYTES_MAX);
}

static bool read_port(const char *text, int *ret)
{
    char *end;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 0 || number > 65535)
        return false;
    *ret = (int)number;
    return true;
}

int main(int argc, char **argv)
{
    struct server_options options = { .address = "127.0.0.1" };
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--help") == 0) {
            help();
            return 0;
        } else if (strcmp(argv[i], "--on-loop") == 0) {
            options.on_loop = true;
        } else if (strcmp(argv[i], "--bind") == 0 && more) {
            options.address = argv[++i];
        } else if (strcmp(argv[i], "--port") == 0 && more &&
                   read_port(argv[i + 1], &options.port)) {
            i++;
        } else {
            fprintf(stderr, "counter-server: what is %s? Try --help\n", argv[i]);
            return 2;
        }
    }
    /* A client that has gone is an error of the write to it, and not our end. */
    (void)signal(SIGPIPE, SIG_IGN);
    const int r = server_run(&options);
    if (r != 0)
        fprintf(stderr, "counter-server: %s\n", teff_status_text(r));
    return r != 0;
}
