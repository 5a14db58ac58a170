#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does docs/errors.md have a row for each status of teff/status.h, once, and for no other? errors.py HEADER PAGE

A row is a line of a table that begins with the status' name in its first cell. Breaks its own check, first.
"""
import re
import sys
from pathlib import Path


def problems(header, page):
    table = re.search(r"#define TEFF_STATUS_MAP\(XX\)(.*?)\n/\* clang-format on", header, re.DOTALL)
    names = re.findall(r"\bXX\((TEFF_\w+),", table.group(1)) if table else []
    rows = re.findall(r"^\| `(TEFF_(?:OK|E\w+))` \|", page, re.MULTILINE)
    if not names:
        yield "no TEFF_STATUS_MAP was found"
    yield from (f"{name} has {rows.count(name)} rows; one is wanted" for name in names if rows.count(name) != 1)
    yield from (f"{name} has a row, and is no status" for name in dict.fromkeys(rows) if name not in names)


def main():
    header, page = (Path(name).read_text(encoding="utf-8") for name in sys.argv[1:3])
    row = re.search(r"^\| `TEFF_EGONE` \|.*\n", page, re.MULTILINE)
    broken = [] if row is None else [
        page.replace(row.group(), ""),
        page.replace(row.group(), row.group() * 2),
        page.replace(row.group(), row.group() + "| `TEFF_ENONE` | |\n"),
    ]
    found = list(problems(header, page))
    found += [f"break {number} was not seen" for number, one in enumerate(broken) if len(list(problems(header, one))) <= len(found)]
    found += [] if list(problems("", page)) else ["a header without the table was not seen"]
    for problem in found:
        print(problem)
    print(f"{len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
