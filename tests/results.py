#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the tests of one run of `meson test`: results.py meson-logs/NAME.json

Prints "PASSED FAILED". A program of many tests counts as many: Criterion says how many in its synthesis, and any other
program may end with a line "N passed, N failed"; the rest count as one. What a failed program printed goes to stderr.

Criterion does not see that a test leaked, since the leak sanitizer speaks when the test's process has reported already:
each of its reports counts as one test failed.
Exits 2 if the run was interrupted.
"""
import json
import os
import re
import sys

SYNTHESIS = re.compile(r"Tested: *(\d+) *\| *Passing: *(\d+)")
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)
LEAK = re.compile(r"ERROR: LeakSanitizer")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SHOWN_MAX = 6000  # the last characters of a failed program's output


def count(result):
    """(passed, failed) of one program."""
    output = COLOUR.sub("", (result.get("stdout") or "") + (result.get("stderr") or ""))
    good = result["result"] in ("OK", "EXPECTEDFAIL")
    if result["result"] == "SKIP":
        return 0, 0
    passed = failed = 0
    synthesis = SYNTHESIS.findall(output)
    closing = CLOSING.findall(output)
    if synthesis:
        passed = sum(int(passing) for _, passing in synthesis)
        failed = sum(int(tested) - int(passing) for tested, passing in synthesis)
    elif closing:
        passed, failed = (int(number) for number in closing[-1])
    else:
        passed = 1 if good else 0
    leaks = len(LEAK.findall(output))
    if leaks and good:
        passed, failed = max(0, passed - leaks), failed + leaks
    if not good and failed == 0:
        failed = 1
    return passed, failed


def main():
    path = sys.argv[1]
    passed = failed = 0
    interrupted = False
    if not os.path.exists(path):  # no test in the suite
        print("0 0")
        return 0
    with open(path, encoding="utf-8", errors="replace") as log:
        for line in log:
            result = json.loads(line)
            interrupted = interrupted or result["result"] == "INTERRUPT"
            one_passed, one_failed = count(result)
            passed += one_passed
            failed += one_failed
            if result["result"] == "SKIP" or one_failed:
                output = (result.get("stdout") or "") + (result.get("stderr") or "")
                print(f"--- {'LEAK' if result['result'] == 'OK' else result['result']}: {result['name']} ({' '.join(result.get('command', []))})\n"
                      f"{output[-SHOWN_MAX:].rstrip()}", file=sys.stderr)
    print(passed, failed)
    return 2 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
