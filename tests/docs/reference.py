#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is everything that a user sees documented? reference.py CHECK [--root FOLDER] [--output FOLDER]

  documented   each public name in include/: functions, macros, types, constants, members
  fields       each function says in its docstring
                 Threads     always; "Threads: any." may stand behind a sentence
                 Ownership   where something is handed over by a pointer: where one is returned or put out, and where
                             one comes in that is not plainly read. Plainly read are the object itself (a type of which
                             only the name is known) and a constant struct of ours; `ret` of a plain value is written
                 Errors      where it returns a status, an int
  doxygen      makes the HTML, into a folder that is removed again or into --output, without a warning

Prints what is wrong, a line each, and exits 1 if there is any; 77 says that a tool is missing. test_reference.py breaks
each of these.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "docs" / "reference"))
import headers  # noqa: E402


class Missing(Exception):
    """A tool that is not installed."""


def all_headers(root):
    for path in sorted((root / "include").rglob("*.h")):
        yield path.relative_to(root).as_posix(), headers.Header(path.read_text(encoding="utf-8"))


def where(name, header, item):
    return f"{name}:{header.text.count(chr(10), 0, item.start) + 1}"


def check_documented(root):
    """Each public name has a comment: before it, behind it, or before its neighbour and naming it."""
    for name, header in all_headers(root):
        if header.top is None:
            yield f"{name}:1: the header has no comment of its own"
        for item, around in header.all():
            if item.kind == "table" or around is not None and around.names and not headers.public(around.names[0]):
                continue
            for one in filter(headers.public, item.names):
                span = item.comment()
                if span is None:
                    yield f"{where(name, header, item)}: {one}: no comment"
                elif span == item.shared and not (around is not None and len(around.members) == 1):
                    if not re.search(rf"\b{one}\b", header.comment(span)):
                        yield f"{where(name, header, item)}: {one}: no comment, and its neighbour's does not name it"


def handles(root):
    """The types of which a user knows the name only."""
    declared, defined = set(), set()
    for _, header in all_headers(root):
        for item in header.items:
            if item.kind == "type" and re.match(r"typedef struct \w+ \w", item.code):
                declared.update(item.names)
            defined.update(item.names if item.kind == "struct" else [])
    return declared - defined


def parameters(code):
    """(what it returns, [(type, name)]) of a declaration."""
    found = re.search(r"(\w+) ?\((.*)\)", re.sub(r"__attribute__ ?\(\(.*\)\)\)?$", "", code).strip())
    returns = code[:found.start(1)].replace("TEFF_EXPORT", "").strip()
    result = []
    for part in headers.split_top(found.group(2)):
        name = headers.declarators(part)
        result.append((part[:part.rindex(name[0])].strip() if name else part, name[0] if name else ""))
    return returns, result


def hands_over(code, known):
    """What of a function's pointers needs an owner, or None."""
    returns, given = parameters(code)
    if returns.endswith("*"):
        return "returns a pointer"
    for kind, name in given:
        if "(" in kind or not kind.endswith("*"):
            continue
        target = re.sub(r"\bconst\b|\s", "", kind)
        if target.endswith("**"):
            return f"puts a pointer out by `{name}`"
        if target[:-1] in known or target.startswith("teff_") and (kind.startswith("const ") or name.startswith("ret")):
            continue
        if not (name.startswith("ret") and re.match(r"(int|size_t|u?int\d+_t|bool)\*$", target)):
            return f"takes the pointer `{name}`"
    return None


def check_fields(root):
    """Docstrings have the fields that their functions need, and fields of no other name."""
    known = handles(root)
    for name, header in all_headers(root):
        for item in header.items:
            if item.kind != "function" or item.comment() is None:
                continue
            fields = headers.fields_of(header.comment(item.comment()))
            here = f"{where(name, header, item)}: {item.names[0]}: "
            returns, _ = parameters(item.code)
            handed = hands_over(item.code, known)
            if "Threads" not in fields:
                yield here + "no Threads"
            if handed and "Ownership" not in fields:
                yield here + f"no Ownership, and it {handed}"
            if returns == "int" and "Errors" not in fields:
                yield here + "no Errors, and it returns a status"
            for field, text in fields.items():
                if not text:
                    yield here + f"{field} says nothing"
            for line in headers.lines_of(header.comment(item.comment())):
                other = re.match(r"([A-Z][a-z]+):\s{2,}", line)
                if other and other.group(1) not in headers.FIELDS:
                    yield here + f"{other.group(1)} is no field; they are {', '.join(headers.FIELDS)}"


def check_doxygen(root, output=None):
    """Doxygen has nothing to say."""
    program = shutil.which("doxygen")
    if program is None:
        raise Missing("doxygen")
    version = re.search(r"version: '([^']*)'", (root / "meson.build").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, "docs/reference/Doxyfile"], cwd=root, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "TEFF_VERSION": version.group(1) if version else "",
                                   "TEFF_DOCS": str(output or folder), "TEFF_PYTHON": sys.executable})
        made = Path(output or folder) / "index.html"
        if not made.is_file():
            yield "doxygen: there is no index.html"
    said = (done.stdout + done.stderr).strip()
    if said:
        yield said
    elif done.returncode != 0:
        yield f"doxygen: exit {done.returncode}"


CHECKS = {name[len("check_"):]: function for name, function in list(globals().items()) if name.startswith("check_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("check", choices=sorted(CHECKS))
    parser.add_argument("--root", default=HERE.parents[1])
    parser.add_argument("--output", help="where doxygen puts the HTML")
    arguments = parser.parse_args()
    options = {"output": Path(arguments.output).resolve()} if arguments.output else {}
    try:
        problems = list(CHECKS[arguments.check](Path(arguments.root).resolve(), **options))
    except Missing as missing:
        print(f"left out: {missing} is not installed")
        return 77
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
