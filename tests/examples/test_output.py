#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a program and compares all that it prints: test_output.py EXPECTED PROGRAM [argument ...]

EXPECTED is a file. The program must say nothing on stderr and end with 0, in less than a minute.
"""
import difflib
import subprocess
import sys

SECONDS = 60


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        expected = file.read()
    try:
        done = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=SECONDS, errors="replace")
    except subprocess.TimeoutExpired:
        print(f"still running after {SECONDS} s")
        return 1
    if done.stdout != expected:
        print("\n".join(difflib.unified_diff(expected.splitlines(), done.stdout.splitlines(), "expected", "printed",
                                             lineterm="")) or "a line's end differs")
    if done.stderr:
        print("on stderr:", done.stderr)
    if done.returncode != 0:
        print("exit code", done.returncode)
    return 0 if (done.stdout, done.stderr, done.returncode) == (expected, "", 0) else 1


if __name__ == "__main__":
    sys.exit(main())
