#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the counter server and talks to it: test_counter_server.py CASE PROGRAM [option of the server ...]

A case is a function below. It starts servers of its own, on ports that are free, and waits for nothing without a limit.
Exits 0 if all is right, 1 if not, 77 if this machine lacks something that the case needs.
"""
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

# Of one wait. Sanitizers, valgrind and a busy machine are slow; a hang is longer than all of them.
SECONDS = 30
USAGE = b"ERROR usage: INCR key | GET key | RESET key"
STOP_SECONDS = 2  # STOP_PATIENCE_MS


class Missing(Exception):
    """What this machine does not have."""


def check(right, *what):
    if not right:
        raise AssertionError(" ".join(str(word) for word in what))


def equal(found, wanted, what=""):
    check(found == wanted, f"{what}: wanted {wanted!r}, found {found!r}")


class Server:
    """A server that runs. At the end of `with`, if not before, it must stop by SIGTERM, with 0 and no word on stderr."""

    command = []

    def __init__(self, *options, wrapper=()):
        self.has_ended = False
        self.process = subprocess.Popen([*wrapper, *self.command, "--port", "0", *options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        line = self.process.stdout.readline().decode() if ready else ""
        found = re.fullmatch(r"listening on (\[[0-9a-f:]+\]|[0-9.]+):(\d+)\n", line)
        if not found:
            self.process.kill()
            raise AssertionError(f"says {line!r}, and {self.process.communicate()[1].decode()}")
        self.address, self.port = found.group(1).strip("[]"), int(found.group(2))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None and not self.has_ended:
                self.signal()
                self.ended()
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self.process.communicate()

    def connect(self, receives=None):
        return Client(self, receives)

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def ended(self, code=0, seconds=SECONDS):
        """Waits for the end; how long it took."""
        start = time.monotonic()
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server still runs after {seconds} s") from None
        check(not err, "on stderr:", err[:4000].decode(errors="replace"))
        check(not out, "on stdout:", out)
        equal(self.process.returncode, code, "exit code")
        self.has_ended = True
        return time.monotonic() - start


class Client:
    """A connection that reads whole lines."""

    def __init__(self, server, receives=None):
        self.socket = socket.socket(socket.AF_INET6 if ":" in server.address else socket.AF_INET)
        self.socket.settimeout(SECONDS)
        if receives is not None:  # bytes that the kernel keeps for us; said before it connects
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        self.socket.connect((server.address, server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def line(self):
        """The next line without its end; None at the end of all."""
        while b"\n" not in self.input:
            data = self.socket.recv(65536)
            if not data:
                check(not self.input, "half a line:", self.input)
                return None
            self.input += data
        line, _, self.input = self.input.partition(b"\n")
        return line

    def ask(self, line):
        self.send(line + b"\n")
        return self.line()

    def hang_up(self):
        """Says that no more comes."""
        self.socket.shutdown(socket.SHUT_WR)

    def vanish(self):
        """Is gone, as by a cut cable: what the server sends is refused."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def at_once(functions):
    """Runs them in threads; the first thing that went wrong in any is raised here."""
    wrong = []

    def guarded(function):
        try:
            function()
        except BaseException as error:  # pylint: disable=broad-except
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * SECONDS)
        check(not thread.is_alive(), "a client hangs")
    if wrong:
        raise wrong[0]


def value(line):
    check(line is not None and line.startswith(b"VALUE "), "no value:", line)
    return int(line[len(b"VALUE "):])


# --- What it says -------------------------------------------------------------------------------


def case_words():
    """Each command, and that counters of different keys have nothing to do with each other."""
    with Server() as server, server.connect() as client:
        equal(server.address, "127.0.0.1")
        for line, answer in ((b"GET a", b"VALUE 0"), (b"INCR a", b"VALUE 1"), (b"INCR a", b"VALUE 2"),
                             (b"INCR b", b"VALUE 1"), (b"GET a", b"VALUE 2"), (b"RESET a", b"OK"),
                             (b"GET a", b"VALUE 0"), (b"INCR a", b"VALUE 1"), (b"GET b", b"VALUE 1"),
                             ("INCR größe".encode(), b"VALUE 1")):
            equal(client.ask(line), answer, line)
        with server.connect() as other:
            equal(other.ask(b"GET b"), b"VALUE 1", "another connection")


def case_keys():
    """Keys of any length that a line can hold: 46 bytes are a text, more are a digest."""
    keys = [b"k" * size for size in (1, 45, 46, 47, 48, 100, 251)] + [b"k" * 250 + b"l", b"l" + b"k" * 250]
    with Server() as server, server.connect() as client:
        for turn in (1, 2):
            for key in keys:
                equal(client.ask(b"INCR " + key), b"VALUE %d" % turn, key)


def case_garbage():
    """What is no command is answered with a hint, and the connection goes on."""
    garbage = [b"", b" ", b"\r", b"INCR", b"INCR ", b"INCR  a", b" INCR a", b"INCR a b", b"INCR a ", b"incr a", b"INCRa",
               b"INC a", b"INCRR a", b"GET\ta", b"GET a\tb", b"GET \0", b"\0\0\0", bytes(range(128, 256)), b"GET a\x7f",
               b"GET / HTTP/1.1", b"RESET", b"RESET a\0", b"\x16\x03\x01\x02"]
    with Server() as server, server.connect() as client:
        for line in garbage:
            equal(client.ask(line), USAGE, line)
        equal(client.ask(b"INCR a"), b"VALUE 1")
        client.send(b"".join(line + b"\n" for line in garbage * 20) + b"GET a\n")
        for line in garbage * 20:
            equal(client.line(), USAGE, line)
        equal(client.line(), b"VALUE 1")


def case_half_lines():
    """A line may come in pieces, and several in one; CR LF is an end as well."""
    with Server() as server, server.connect() as client:
        for byte in b"INCR a\r\nINCR a\n":
            client.send(bytes([byte]))
            time.sleep(0.002)
        equal(client.line(), b"VALUE 1")
        equal(client.line(), b"VALUE 2")
        client.send(b"INCR a\r\nINCR b\nIN")
        equal(client.line(), b"VALUE 3")
        equal(client.line(), b"VALUE 1")
        client.send(b"CR a\r")
        ready, _, _ = select.select([client.socket], [], [], 0.2)
        check(not ready, "an answer to half a line")
        client.send(b"\n")
        equal(client.line(), b"VALUE 4")


def case_end_in_mid_line():
    """A line that was cut off is not taken, for it may be half of another. What came before it is answered."""
    with Server() as server:
        with server.connect() as client:
            client.send(b"INCR a\nINCR a\nRESET a")
            client.hang_up()
            for answer in (b"VALUE 1", b"VALUE 2", b"ERROR the last line has no end", None):
                equal(client.line(), answer)
        with server.connect() as client:  # as `printf … | nc`
            client.send(b"INCR a\n" * 500)
            client.hang_up()
            for number in range(500):
                equal(client.line(), b"VALUE %d" % (3 + number))
            equal(client.line(), None)
        with server.connect() as client:
            client.hang_up()
            equal(client.line(), None)


def case_long_line():
    """A line has at most 256 bytes. One that is longer is the last, but what came before it is answered."""
    refusal = b"ERROR a line has at most 256 bytes"
    key = b"k" * 251
    with Server() as server:
        with server.connect() as client:
            equal(client.ask(b"INCR " + key), b"VALUE 1")
            equal(client.ask(b"INCR " + key + b"k"), refusal)
            equal(client.line(), None)
        with server.connect() as client:  # no end at all, and much of it unread when the server hangs up
            client.send(b"INCR a\nGET a\n" + b"x" * 1000000)
            for answer in (b"VALUE 1", b"VALUE 1", refusal, None):
                equal(client.line(), answer)
        with server.connect() as client:
            client.send(b"INCR b\n" * 100 + b"x" * 257 + b"\n" + b"INCR b\n" * 100)
            for number in range(100):
                equal(client.line(), b"VALUE %d" % (number + 1))
            equal(client.line(), refusal)
            equal(client.line(), None)
        with server.connect() as client:
            equal(client.ask(b"GET b"), b"VALUE 100", "a line after the last")


# --- Many at once -------------------------------------------------------------------------------


def case_sums():
    """50 connections at once, on a counter of their own and on one that they share."""
    clients, rounds = 50, 40
    shared = [[] for _ in range(clients)]

    def count(server, me):
        with server.connect() as client:
            for number in range(rounds):
                equal(client.ask(b"INCR own/%d" % me), b"VALUE %d" % (number + 1), me)
                shared[me].append(value(client.ask(b"INCR shared")))

    with Server() as server:
        at_once([lambda me=me: count(server, me) for me in range(clients)])
        for seen in shared:
            equal(seen, sorted(seen), "a counter that goes back")
        equal(sorted(sum(shared, [])), list(range(1, clients * rounds + 1)), "each value once")
        with server.connect() as client:
            equal(client.ask(b"GET shared"), b"VALUE %d" % (clients * rounds))
            for me in range(clients):
                equal(client.ask(b"GET own/%d" % me), b"VALUE %d" % rounds)


def case_pipeline():
    """1,000 lines at once get 1,000 answers in their order, though they are of many grains."""
    with Server() as server, server.connect() as client:
        lines = [b"INCR %d" % (number % 7) if number % 10 != 9 else b"what" for number in range(1000)]
        counts, answers = {}, []
        for line in lines:
            counts[line] = counts.get(line, 0) + 1
            answers.append(USAGE if line == b"what" else b"VALUE %d" % counts[line])
        client.send(b"\n".join(lines) + b"\n")
        for number, answer in enumerate(answers):
            equal(client.line(), answer, f"answer {number}")
        check(not client.input, "more answers than lines")


def send_until_full(client, lines, most):
    """Sends these lines over and over, and reads nothing, until nobody takes them for a second; how many bytes went."""
    sent, quiet = 0, time.monotonic()
    block = lines * (65536 // len(lines))
    client.socket.setblocking(False)
    while sent < most and time.monotonic() - quiet < 1:
        try:
            sent += client.socket.send(block[sent % len(lines):])
            quiet = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    client.socket.settimeout(SECONDS)
    return sent


def case_backpressure():
    """Who sends and does not read has to wait: the server keeps some lines of his, and not millions."""
    lines, most = b"INCR a\n" + b"x" * 200 + b"\n", 200 << 20
    with Server() as server, server.connect(receives=4096) as client, server.connect() as other:
        sent = send_until_full(client, lines, most)
        print(f"{sent} bytes sent")
        check(sent < most, f"took {sent} bytes of one who does not read")
        equal(other.ask(b"INCR b"), b"VALUE 1", "others are served meanwhile")
        # Who reads again gets all answers.
        wanted = sent // len(lines)
        check(wanted > 1000, f"blocked after {wanted} rounds: what does this measure?")
        for number in range(wanted):
            equal(client.line(), b"VALUE %d" % (number + 1))
            equal(client.line(), USAGE)
        client.send(lines[sent % len(lines):])
        equal(client.line(), b"VALUE %d" % (wanted + 1))


def sockets_of(server):
    """How many sockets it holds, also those that are connected to nobody any more."""
    folder, count = f"/proc/{server.process.pid}/fd", 0
    for name in os.listdir(folder):
        try:
            count += os.readlink(f"{folder}/{name}").startswith("socket:")
        except FileNotFoundError:
            pass  # closed meanwhile
    return count


def case_vanish():
    """Clients that are gone in mid-call leave nothing behind, and hurt nobody."""
    with Server() as server, server.connect() as witness:
        equal(witness.ask(b"GET mine"), b"VALUE 0")
        before = sockets_of(server)
        for number in range(40):
            client = server.connect()
            client.send(b"INCR shared\nINCR %d\n" % number * 200)
            if number % 2:
                client.line()
            if number % 4 < 2:
                client.vanish()
            else:
                client.socket.close()
            equal(witness.ask(b"INCR mine"), b"VALUE %d" % (number + 1))
        for _ in range(3):  # and of those who are gone with nothing under way
            client = server.connect()
            client.ask(b"INCR shared")
            client.vanish()
        some = value(witness.ask(b"GET shared"))
        check(23 <= some <= 3 + 40 * 200, "a shared count of", some)
        deadline = time.monotonic() + SECONDS
        while sockets_of(server) > before and time.monotonic() < deadline:
            time.sleep(0.05)
        equal(sockets_of(server), before, "sockets that are left")


def case_full():
    """Over 1,000 connections wait in the kernel until others have gone."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        raise Missing(f"2,000 open files ({hard} are allowed)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2000, hard))
    with Server() as server:
        clients = [server.connect() for _ in range(1000)]
        for number, client in enumerate(clients):
            equal(client.ask(b"INCR a"), b"VALUE %d" % (number + 1))
        late = [server.connect() for _ in range(3)]
        for client in late:
            client.send(b"GET a\n")
        ready, _, _ = select.select([client.socket for client in late], [], [], 0.3)
        check(not ready, "an answer for more than 1,000")
        for client in clients[10:13]:
            client.socket.close()
        for client in late:
            equal(client.line(), b"VALUE 1000")
        for client in clients + late:
            client.socket.close()


# --- The end ------------------------------------------------------------------------------------


def case_stop_idle():
    """By either signal, with connections that are idle, and with none; it does not wait for its patience to end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        for count in (0, 3):
            with Server() as server:
                clients = [server.connect() for _ in range(count)]
                for client in clients:
                    equal(client.ask(b"GET a"), b"VALUE 0")
                server.signal(number)
                start = time.monotonic()
                for client in clients:
                    equal(client.line(), None)
                    client.socket.close()
                server.ended()
                seconds = time.monotonic() - start
                check(seconds < STOP_SECONDS - 0.5, f"took {seconds:.1f} s")


def case_stop_under_load():
    """Each answer that came is right, and none is missing before the last; nobody hangs."""
    counts = [0] * 20

    def load(server, me):
        with server.connect() as client:
            lines = b"INCR %d\n" % me * 50
            client.send(lines * 20)  # more than it reads at once: what it has not read when it stops is no error
            while True:
                line = client.line()
                if line is None:
                    return
                counts[me] += 1
                equal(line, b"VALUE %d" % counts[me], me)
                if counts[me] % 50 == 0:
                    client.send(lines)  # never refused: the server hears us to our end

    def stop(server):
        deadline = time.monotonic() + SECONDS
        while min(counts) < 100 and time.monotonic() < deadline:
            time.sleep(0.01)
        server.signal()
        seconds = server.ended()
        check(seconds < STOP_SECONDS + 5, f"took {seconds:.1f} s to stop")

    with Server() as server:
        at_once([lambda me=me: load(server, me) for me in range(len(counts))] + [lambda: stop(server)])
        check(min(counts) >= 100, "some were not served at all:", counts)
    print(f"{sum(counts)} answers until the end")


def case_stop_stubborn():
    """Clients that neither read nor close are waited for, but not for ever."""
    with Server() as server, server.connect() as idle, server.connect(receives=4096) as deaf:
        equal(idle.ask(b"INCR a"), b"VALUE 1")
        send_until_full(deaf, b"INCR a\nwhat\n", 200 << 20)
        server.signal()
        seconds = server.ended()
        check(STOP_SECONDS - 0.5 < seconds < STOP_SECONDS + 8, f"took {seconds:.1f} s")


def case_stop_twice():
    """A second signal ends it at once."""
    with Server() as server, server.connect() as idle:
        equal(idle.ask(b"INCR a"), b"VALUE 1")
        server.signal(signal.SIGINT)
        equal(idle.line(), None)  # it has begun to stop, and waits for us
        try:
            server.connect().socket.close()
            raise AssertionError("it still accepts connections")
        except ConnectionRefusedError:
            pass
        server.signal(signal.SIGINT)
        seconds = server.ended(130)
        check(seconds < STOP_SECONDS - 0.5, f"took {seconds:.1f} s")


def case_valgrind():
    """Nothing is used after it was freed, and nothing is left at the end, whatever the connections did."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise Missing("valgrind")
    wrapper = [valgrind, "--quiet", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=all",
               "--errors-for-leak-kinds=all"]
    with Server(wrapper=wrapper) as server, server.connect() as witness:
        clients = [server.connect() for _ in range(8)]
        for number, client in enumerate(clients):
            client.send(b"INCR a\nwhat\nRESET %d\n" % number * 200)
        clients[0].vanish()
        clients[1].hang_up()
        clients[2].send(b"INCR half of a ")
        clients[2].hang_up()
        clients[3].send(b"x" * 10000)
        clients[4].socket.close()
        for client in clients[1:4]:
            for number in range(600):
                check(client.line() is not None, "no answer", number)
            while client.line() is not None:
                pass
        equal(witness.ask(b"GET b"), b"VALUE 0")
        for client in clients[6:]:
            client.send(b"INCR a\n" * 1000)  # under way when the signal comes
        clients[7].vanish()
        server.signal()
        while witness.line() is not None:
            pass
        server.ended()
        for client in clients:
            client.socket.close()


# --- The command line ---------------------------------------------------------------------------


def run(*arguments):
    return subprocess.run([*Server.command, *arguments], capture_output=True, text=True, check=False, timeout=SECONDS,
                          stdin=subprocess.DEVNULL)


def case_command_line():
    done = run("--help")
    equal((done.returncode, done.stderr), (0, ""), "--help")
    for word in ("INCR key", "GET key", "RESET key", "ERROR text", "--bind", "--port", "--on-loop", "--help", "46"):
        check(word in done.stdout, "--help does not say", word)
    for wrong in (["--port"], ["--port", "x"], ["--port", "1x"], ["--port", "-1"], ["--port", "65536"], ["--port", ""],
                  ["--bind"], ["what"], [""]):
        done = run(*wrong)
        equal((done.returncode, done.stdout), (2, ""), wrong)
        check("--help" in done.stderr, "no hint at --help:", done.stderr)
    with Server() as server:
        for wrong in (["--port", str(server.port)], ["--bind", "not an address"], ["--bind", "192.0.2.1"]):
            done = run(*wrong)
            equal((done.returncode, done.stdout), (1, ""), wrong)
            check("cannot listen on" in done.stderr and "anitizer" not in done.stderr, done.stderr)


def case_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        raise Missing(f"IPv6 ({error})") from None
    with Server("--bind", "::1") as server, server.connect() as client:
        equal(server.address, "::1")
        equal(client.ask(b"INCR a"), b"VALUE 1")


CASES = {name[len("case_"):]: function for name, function in list(globals().items()) if name.startswith("case_")}


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in CASES:
        print(__doc__)
        print("Cases:", *CASES)
        return 2
    Server.command = sys.argv[2:]
    try:
        CASES[sys.argv[1]]()
    except Missing as missing:
        print(f"left out: there is no {missing}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
