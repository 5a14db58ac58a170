#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does tools/teff-gdb.py show what is known of a program? test_gdb.py SCRIPT PROGRAM LIBRARY

PROGRAM is gdb_scene, stopped at its breakpoint functions: with threads, from a core file, and simulated. LIBRARY is the
shared library that it runs with; once more it runs with one that was stripped. Exits 77 without gdb, or where the
system lets nobody debug.
"""
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 120
HOUR, DEFAULT, LONG = r"3[56]\d\d\.\d+", r"[45]\d\d\.\d+", r"(9\d\d|1000)\.\d+"  # a busy machine takes its time
KEY = "0000000000000001" "0000000000000005"  # 2^64 + 5

# What each line of `teff turns` says, however they are numbered.
TURNS = [
    rf"^ +\d+  1\.0  task asking; waits for clerk 7: ask, {HOUR} s left; asking at gdb_scene\.c:\d+$",
    rf"^ +\d+  1\.0  task waiting; sleeps, {HOUR} s left",
    rf"^ +\d+  1\.0  task impatient; waits for vault {KEY}: open, {LONG} s left; impatient at gdb_scene\.c:\d+$",
    rf'^ +\d+  1\.0  turn of clerk 7: ask; waits for vault "north/12": open, {DEFAULT} s left; clerk_on_ask at gdb_scene\.c:\d+$',
    rf'^ +\d+  1\.0  turn of vault "north/12": open; sleeps, {HOUR} s left; vault_on_open at gdb_scene\.c:\d+$',
    rf"^ +\d+  1\.0  turn of vault {KEY}: open; sleeps, {HOUR} s left; vault_on_open at gdb_scene\.c:\d+$",
    rf"^ +\d+  1\.0  task gathering; waits for teff_await_all, {HOUR} s left; gathering at gdb_scene\.c:\d+$",
    rf"^ +\d+  1\.0  turn of vault 8: open; sleeps, {HOUR} s left; vault_on_open at gdb_scene\.c:\d+$",
    rf"^ +\d+  1\.0  turn of vault 9: open; sleeps, {HOUR} s left; vault_on_open at gdb_scene\.c:\d+$",
    rf"^ +\d+  1\.0  turn of clerk 10: completion; waits for vault 10: open, {HOUR} s left; on_looked at gdb_scene\.c:\d+$",
    rf"^ +\d+  1\.0  turn of vault 10: open; sleeps, {HOUR} s left; vault_on_open at gdb_scene\.c:\d+$",
]

passed = failed = 0


def expect(what, pattern, said, wanted=True):
    global passed, failed
    good = (re.search(pattern, said, re.MULTILINE) is not None) == wanted
    passed, failed = passed + good, failed + (not good)
    print(f"{'ok' if good else 'not ok'}: {what}" + ("" if good else f"\n{pattern}\n--- in\n{said}---"))


def gdb(files, commands, environment=None):
    """What gdb prints; it goes on after a command that fails."""
    wrapped = ["set pagination off", "set breakpoint pending on", "set debuginfod enabled off", f"source {SCRIPT}"] + commands
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as file:
        for line in wrapped:
            file.write(f"python\ntry: gdb.execute({line!r})\nexcept gdb.error as e: print(e)\nend\n")
        file.flush()
        done = subprocess.run(["gdb", "-q", "-nx", "-batch", "-x", file.name, *files], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=SECONDS, check=False, errors="replace", env=environment)
    if "ptrace" in done.stderr + done.stdout and "not permitted" in done.stderr + done.stdout:
        print("left out: debugging is not permitted here")
        sys.exit(77)
    return done.stdout + done.stderr


def check_turns(where, said):
    for pattern in TURNS:
        expect(f"{where}: {pattern.split(';')[0].split('  ')[-1]}", pattern, said)
    expect(f"{where}: no more than these", r"^ +\d+  1\.\d  (?:.*\n +\d+  1\.\d  ){11}", said, wanted=False)


def check_stacks(where, files, begin, at_first):
    commands = [command for n in range(1, 12) for command in ("echo --\\n", f"teff stack {n}", f"teff stack {n} 0 info registers pc")]
    stacks, _, place = gdb(files, begin + commands + ["echo --place\\n", "frame", "backtrace"]).partition("--place")
    stack = next((one for one in stacks.split("--\n") if "clerk_on_ask" in one), stacks)
    task_stack = next((one for one in stacks.split("--\n") if "task_run" in one and "teff_sleep" in one), stacks)
    expect(f"{where}: the stack begins in the call", r"^#0 .*\bcatalog=.*call\.c:\d+|^#0 .*\bteff_call\b", stack)
    expect(f"{where}: a command in a frame", r"^pc +0x", stack)
    expect(f"{where}: the handler's frame", r"^#\d+ .*\bclerk_on_ask \(.*gdb_scene\.c:\d+$", stack)
    expect(f"{where}: the handler's line", r"^\d+\s+r = vault_open\(turn.*the clerk waits here", stack)
    expect(f"{where}: the stack ends in the worker's loop", r"^#\d+ .*\bscheduler \(", stack)
    expect(f"{where}: a task's stack", r"^#\d+ .*\btask_run \(", task_stack)
    expect(f"{where}: afterwards all is as it was", at_first, place)
    expect(f"{where}: and no frame of the fiber's is left", r"clerk_on_ask", place, wanted=False)


def check_threads(program):
    begin = ["break scene_set", "run"]
    said = gdb([program], begin + ["teff silos", "teff workers", "teff turns", "teff turns 1.1", "teff turns 2", "teff stack 99"])
    expect("threads: the silo", r"^silo 1  0x[0-9a-f]+  active, on threads, 2 workers, 1 clients$", said)
    expect("threads: a worker with suspended turns", r"^1\.0 +\d+  parked +0 +8 +11 +6$", said)
    expect("threads: a worker with none", r"^1\.1 +\d+  parked +0 +0 +0 +0$", said)
    expect("threads: none of the other worker", r"^no turn or task is suspended$", said)
    expect("threads: no such silo", r"there is no 2: silos are numbered", said)
    expect("threads: no such turn", r"there is no 99: `teff turns` lists 11", said)
    check_turns("threads", said)
    check_stacks("threads", [program], begin, r"^#0 .*scene_set")


def check_core(program, folder):
    """A core file of the kernel's: it lands beside the program that aborts, unless the system sends it elsewhere."""
    subprocess.run([program, "abort"], cwd=folder, check=False, timeout=SECONDS,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, [resource.getrlimit(resource.RLIMIT_CORE)[1]] * 2))
    core = next(Path(folder).glob("core*"), None)
    if core is None:
        print("left out: this system writes no core files here")
        return
    said = gdb([program, str(core)], ["up", "echo --quiet\\n", "teff silos", "teff turns"])
    expect("core: nothing is said of frames", r"^#\d", said.partition("--quiet")[2], wanted=False)
    expect("core: the silo", r"^silo 1  0x[0-9a-f]+  active, on threads, 2 workers, 1 clients$", said)
    check_turns("core", said)
    check_stacks("core", [program, str(core)], ["up"], r"^#1 ")


def check_simulated(program):
    said = gdb([program], ["break scene_set", "run simulated", "teff silos", "teff silos scene", "teff turns"])
    expect("simulated: is not found by itself", r"no thread runs a worker\. If the silo is simulated", said)
    expect("simulated: is found by its name", r"^silo 1  0x[0-9a-f]+  active, simulated, 2 workers, 1 clients$", said)
    check_turns("simulated", said)
    said = gdb([program], ["break scene_inside", "run simulated", "teff workers", "teff silos order", "teff silos nonsense"])
    expect("simulated: is found from inside a task", r"^1\.1 +\d+  running +0 +0 +0 +1?", said)
    expect("simulated: what is no silo", r"nonsense: No symbol .* Go to a frame where it has a value", said)


def check_trouble(program, library, folder):
    expect("no program", r"no program: start one", gdb([], ["teff turns"]))
    stripped = Path(folder) / "stripped"
    stripped.mkdir()
    subprocess.run(["strip", "-o", str(stripped / "libteff.so.0"), library], check=True)
    said = gdb([program], [f"set environment LD_LIBRARY_PATH {stripped}", "break scene_set", "run", "teff silos"])
    expect("without debug information", r"there is no type .*: libteff's debug information is not there: build it with -g", said)
    expect("the help", r"teff stack N \[FRAME COMMAND\]", gdb([], ["help teff"]))


def main():
    if shutil.which("gdb") is None:
        print("left out: gdb is not installed")
        return 77
    program, library = (str(Path(name).resolve()) for name in sys.argv[2:4])
    with tempfile.TemporaryDirectory() as folder:
        check_threads(program)
        check_core(program, folder)
        check_simulated(program)
        check_trouble(program, library, folder)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


SCRIPT = sys.argv[1]
if __name__ == "__main__":
    sys.exit(main())
