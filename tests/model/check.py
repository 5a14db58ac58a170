#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks a model with spin: check.py MODEL.pml [-DCONFIGURATION …] [--broken NAME]

Without --broken all states that the model can reach are looked at and none may be wrong: the search must have come to
its end, within its depth and its memory, without a hash that forgets, and every statement of the model must have been
reached, since what is never reached shows nothing. With --broken NAME the model is built with -DNAME, and an assertion
or an invalid end state must be found; the overflow of a store buffer does not count.

check.py --itself breaks each of these conditions, with mail.pml, and expects to be told.

Exits 0 if it is as it must be, 1 if not, 77 without spin. The trail of an error that was not expected is printed.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DEPTH = 100_000  # steps; the longest path is some 600
MEMORY_MB = 900
SECONDS = 280


class Failure(Exception):
    pass


def run(command, folder):
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=SECONDS, check=False)


def search(model, defines, folder, depth=DEPTH, memory_mb=MEMORY_MB, optimize="-O0", options=(), arguments=()):
    """Builds the verifier that spin makes of a model, and gives what it prints."""
    flags = [f"-D{define}" for define in defines]
    made = run(["spin", *flags, "-a", str(model)], folder)
    if made.returncode != 0 or not (folder / "pan.c").is_file():
        raise Failure(f"spin cannot read the model:\n{made.stdout}")
    # SAFETY: no cycles. COLLAPSE: states are stored in parts, exactly, in a third of the room.
    built = run(["gcc", optimize, "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={memory_mb}", *options, "-o", "pan",
                 "pan.c"], folder)
    if built.returncode != 0:
        raise Failure(f"gcc cannot build the verifier:\n{built.stdout}")
    return run(["./pan", f"-m{depth}", "-w22", *arguments], folder).stdout


def summary(output):
    states = re.search(r"(\d+) states, stored", output)
    memory = re.search(r"([\d.]+)\s+total actual memory usage", output)
    depth = re.search(r"depth reached (\d+)", output)
    if not (states and memory and depth):
        raise Failure(f"the verifier did not finish:\n{output}")
    return f"{states.group(1)} states, {depth.group(1)} deep, {memory.group(1)} MB"


def must_hold(output):
    if "errors: 0\n" not in output:
        raise Failure(f"an error was found:\n{output}")
    for bad in ("Search not completed", "max search depth too small", "MEMLIM", "out of memory", "truncated",
                "Bit statespace", "Hash-Compact"):
        if bad.lower() in output.lower():
            raise Failure(f"not all was looked at ({bad}):\n{output}")
    if "Full statespace search" not in output or not re.search(r"assertion violations\s+\+", output) or \
            not re.search(r"invalid end states\s+\+", output):
        raise Failure(f"not all was looked for:\n{output}")
    # But for stores that reach memory late: a right model may have none that anybody could see.
    reached = re.findall(r"unreached in proctype (?!memory)\w+\n(?:\t/.*\n)*\t\((\d+) of \d+ states\)", output)
    if not reached or any(count != "0" for count in reached):
        raise Failure(f"parts of the model were never reached:\n{output}")


def must_fail(output):
    found = re.search(r"pan:\d+: (assertion violated.*|invalid end state.*)", output)
    if not found or "errors: 0\n" in output:
        raise Failure(f"nothing was found:\n{output}")
    if re.search(r"buffer\[\d\]\.count<", found.group(1)):
        raise Failure(f"a store buffer is too short:\n{output}")
    return found.group(1).strip()


def trail(model, defines, folder):
    """How the error came about: the last steps, in words of the model."""
    if not list(folder.glob("*.trail")):
        return ""
    flags = [f"-D{define}" for define in defines]
    shown = run(["spin", *flags, "-p", "-g", "-l", "-k", f"{model.name}.trail", str(model)], folder)
    return "\nHow it came to that:\n" + "\n".join(shown.stdout.splitlines()[-300:])


def check(model, defines, broken):
    defines = list(defines) + ([broken] if broken else [])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        output = search(model, defines, folder, optimize="-O0" if broken else "-O1")
        told = summary(output)
        try:
            if broken:
                print(f"{model.stem} {' '.join(defines)}: rejected after {told}: {must_fail(output)}")
            else:
                must_hold(output)
                print(f"{model.stem} {' '.join(defines)}: holds, {told}")
        except Failure as failure:
            raise Failure(f"{failure}{trail(model, defines, folder)}") from None


def check_itself():
    """Each line: what is wrong, how the verifier is made and run, and what is to be said of it."""
    model = Path(__file__).resolve().parent / "mail.pml"
    cases = (
        ("an error", must_hold, "an error was found", ["READS_RELEASED"], {}),
        ("too few steps", must_hold, "not all was looked at", [], {"depth": 40}),
        ("too little memory", must_hold, "not all was looked at", [], {"memory_mb": 36}),
        ("a hash that forgets", must_hold, "not all was looked at", [], {"options": ["-UCOLLAPSE", "-DBITSTATE"]}),
        ("no end states", must_hold, "not all was looked for", [], {"arguments": ["-E"]}),
        ("no assertions", must_hold, "not all was looked for", [], {"arguments": ["-A"]}),
        ("a part that is never reached", must_hold, "never reached", ["CLIENTS=0"], {}),
        ("nothing wrong", must_fail, "nothing was found", [], {}),
        ("a model that spin cannot read", must_hold, "cannot read", ["MAIL=("], {}),
    )
    bad = 0
    for what, judge, expected, defines, how in cases:
        with tempfile.TemporaryDirectory() as name:
            try:
                judge(search(model, defines, Path(name), **how))
                said = "nothing"
            except Failure as failure:
                said = str(failure)
        bad += expected not in said
        print(f"{what}: " + ("told" if expected in said else f'expected "{expected}", got:\n{said}'))
    try:
        must_fail("pan:1: assertion violated (buffer[0].count<4) (at depth 9)\nerrors: 1\n")
        bad += 1
        print("a store buffer that is too short: nothing was said")
    except Failure:
        print("a store buffer that is too short: told")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description="Checks a model with spin.")
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("-D", dest="defines", action="append", default=[])
    parser.add_argument("--broken")
    parser.add_argument("--itself", action="store_true")
    arguments = parser.parse_args()
    for tool in ("spin", "gcc"):
        if shutil.which(tool) is None:
            print(f"left out: there is no {tool}")
            return 77
    if arguments.itself:
        return check_itself()
    if arguments.model is None:
        parser.error("which model?")
    try:
        check(arguments.model.resolve(), arguments.defines, arguments.broken)
    except Failure as failure:
        print(failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
