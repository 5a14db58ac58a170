#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles and runs what the documents show: docs.py --library libteff.so [--include FOLDER] [--root FOLDER]

Reads README.md and docs/*.md. A program stands in fences ```c file=NAME.c, which follow one another, and what it
prints in one ```output file=NAME.c of the same page. Each is built by the compilers below as a user would, run, and
compared. There is no other C in a page: what is not compiled goes stale. Relative links name files and headings that
exist. test_docs.py breaks each of the checks.

Prints a line for each check and a last one, "N passed, N failed"; exits 1 if one failed, 77 without a compiler.
"""
import argparse
import concurrent.futures
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COMPILERS = ("gcc", "clang")
# A user's flags: the strictest that the documents promise, and what pkg-config adds.
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-O1",
         "-fstack-clash-protection"]
RUN_SECONDS = 20  # no program takes a tenth of one on an idle machine
GRAIN_LINES_MAX = 20  # README's grain
README_BLOCKS = ("ping", "test")  # real output, between <!-- NAME --> and <!-- /NAME -->

FENCE = re.compile(r"^(`{3,}|~{3,})[ \t]*([^`]*)$")
FILE = re.compile(r"^(\S+)[ \t]+file=(\S+)$")
PROGRAM_NAME = re.compile(r"^[a-z][a-z0-9_]*\.c$")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:|^//", re.IGNORECASE)


class Program:
    def __init__(self, page, name):
        self.page, self.name = page, name
        self.blocks, self.output = [], None

    def source(self):
        # Diagnostics name the page and its line.
        return "\n".join(f'#line {line} "{self.page.name}"\n{text}' for line, text in self.blocks)


class Page:
    """A document: its programs, its prose (fences left out, lines kept), and what is wrong with its fences."""

    def __init__(self, root, name):
        self.name, self.text = name, (root / name).read_text(encoding="utf-8")
        self.programs, self.problems = {}, []
        self.prose = self._read()

    def _read(self):
        prose, body, fence, info, start = [], [], None, "", 0
        for number, line in enumerate(self.text.splitlines(), 1):
            found = FENCE.match(line)
            if fence is None and found:
                fence, info, start, body = found.group(1), found.group(2).strip(), number, []
            elif fence is not None and found and found.group(1).startswith(fence) and not found.group(2):
                self._block(start, info, body)
                fence = None
            elif fence is not None:
                body.append(line)
            prose.append(line if fence is None and not found else "")
        if fence is not None:
            self._problem(start, "the fence is never closed")
        return "\n".join(prose)

    def _problem(self, line, text):
        self.problems.append(f"{self.name}:{line}: {text}")

    def _block(self, start, info, body):
        found = FILE.match(info)
        kind = found.group(1) if found else info.split(" ")[0].lower()
        if kind in ("c", "h", "output") and not found:
            self._problem(start, f"```{kind} names no program: add file=NAME.c")
        elif found and kind not in ("c", "output"):
            self._problem(start, f"a program is ```c or ```output, not ```{kind}")
        elif found and not PROGRAM_NAME.match(found.group(2)):
            self._problem(start, f"{found.group(2)}: a program is named like counter.c")
        elif found and kind == "c":
            self._code(start, found.group(2), "\n".join(body) + "\n")
        elif found:
            self._output(start, found.group(2), "\n".join(body) + "\n" if body else "")

    def _code(self, start, name, text):
        last = next(reversed(self.programs), name)
        program = self.programs.setdefault(name, Program(self, name))
        if last != name and program.blocks:
            self._problem(start, f"{name} goes on after {last} has begun")
        elif program.output is not None:
            self._problem(start, f"{name} goes on after its output")
        program.blocks.append((start + 1, text))

    def _output(self, start, name, text):
        program = self.programs.get(name)
        if program is None:
            self._problem(start, f"output of {name}, of which there is no code before it")
        elif program.output is not None:
            self._problem(start, f"a second output of {name}")
        else:
            program.output = text

    def anchors(self):
        """The headings as GitHub names them."""
        found = re.findall(r"^#{1,6}[ \t]+(.*?)[ \t]*#*$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def pages_of(root):
    names = ["README.md"] + sorted(path.relative_to(root).as_posix() for path in (root / "docs").glob("*.md"))
    return [Page(root, name) for name in names if (root / name).is_file()]


class Tally:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, problems):
        print(f"{'not ok' if problems else 'ok'}: {what}")
        for problem in problems:
            print("    " + problem.rstrip().replace("\n", "\n    "))
        if problems:
            self.failed += 1
        else:
            self.passed += 1


# --- Programs -----------------------------------------------------------------------------------


def build_problems(program, compiler, target, arguments):
    """Compiles it as a user would: the public headers and the shared library."""
    library = Path(arguments.library).resolve()
    command = [shutil.which(compiler), *FLAGS, "-I", str(Path(arguments.include).resolve()), "-x", "c", "-", "-x", "none",
               str(library), f"-Wl,-rpath,{library.parent}", "-o", str(target),
               *(["-luv"] if "#include <uv.h>" in program.source() else [])]
    done = subprocess.run(command, input=program.source(), capture_output=True, text=True, check=False, cwd=target.parent)
    return [done.stderr or f"exit {done.returncode}"] if done.returncode != 0 else []


def run_problems(program, target):
    """Runs it and compares what it prints; it must say nothing on stderr and end with 0."""
    try:
        done = subprocess.run([str(target)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=RUN_SECONDS, cwd=target.parent, errors="replace")
    except subprocess.TimeoutExpired:
        return [f"still running after {RUN_SECONDS} s"]
    problems = [f"exit {done.returncode}"] if done.returncode != 0 else []
    if done.stderr:
        problems.append("on stderr: " + done.stderr)
    if done.stdout != program.output:
        problems.append("\n".join(difflib.unified_diff(program.output.splitlines(), done.stdout.splitlines(),
                                                       "the page", "the program", lineterm="")) or "a line's end differs")
    return problems


def check_program(job):
    """[(what, problems)] of one program with one compiler."""
    program, compiler, folder, arguments = job
    what = f"{program.page.name}: {program.name}: {compiler}"
    target = Path(folder) / f"{program.page.name.replace('/', '_')}.{program.name}.{compiler}"
    built = build_problems(program, compiler, target, arguments)
    results = [(f"{what} compiles it", built)]
    if not built and program.output is not None:
        results.append((f"{what}: prints what the page says", run_problems(program, target)))
    return results


def check_programs(tally, pages, arguments):
    programs = [program for page in pages for program in page.programs.values()]
    compilers = [compiler for compiler in COMPILERS if shutil.which(compiler)]
    for compiler in COMPILERS:
        if compiler not in compilers:
            print(f"left out: {compiler} is not installed")
    for program in programs:
        tally.check(f"{program.page.name}: {program.name}: the page has its output",
                    [] if program.output is not None else [f"no ```output file={program.name}"])
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [(program, compiler, folder, arguments) for program in programs for compiler in compilers]
        for results in pool.map(check_program, jobs):
            for what, problems in results:
                tally.check(what, problems)
    return bool(compilers)


# --- Pages --------------------------------------------------------------------------------------


def link_problems(root, page, pages):
    """Relative links that lead nowhere: no such file, or no such heading in a page."""
    known = {other.name: other for other in pages}
    for found in LINK.finditer(re.sub(r"`[^`\n]*`", "", page.prose)):
        target = found.group(1) or found.group(2)
        if ELSEWHERE.match(target):
            continue
        path, _, anchor = target.partition("#")
        full = Path(os.path.normpath(root / Path(page.name).parent / path)) if path else root / page.name
        if root not in (full, *full.parents):
            yield f"{target}: leads out of the tree"
        elif not full.exists():
            yield f"{target}: there is no such file"
        elif anchor:
            name = full.relative_to(root).as_posix()
            other = known.get(name)
            if other is not None and anchor not in other.anchors():
                yield f"{target}: {name} has no such heading"


def readme_problems(page):
    """README shows a grain, in few lines and with a program around it, and real output of the commands."""
    programs = list(page.programs.values())
    if not programs:
        yield "shows no program"
    for program in programs[:1]:
        lines = program.blocks[0][1].rstrip("\n").count("\n") + 1
        if lines > GRAIN_LINES_MAX:
            yield f"{program.name}: its grain has {lines} lines; at most {GRAIN_LINES_MAX}"
        if not re.search(r"^int main\(", program.source(), re.MULTILINE):
            yield f"{program.name}: there is no main"
        if not program.output:
            yield f"{program.name}: the page does not show what it prints"
    for name in README_BLOCKS:
        found = re.findall(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", page.text, re.DOTALL)
        if len(found) != 1:
            yield f"one <!-- {name} --> … <!-- /{name} --> is wanted; there are {len(found)}"
        elif not re.search(r"^```\w*\n(?!```).+?^```$", found[0], re.DOTALL | re.MULTILINE):
            yield f"<!-- {name} --> holds no output"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).resolve().parents[2]
    parser.add_argument("--library", required=True, help="the shared library that was built")
    parser.add_argument("--include", default=here / "include", help="the folder of teff.h")
    parser.add_argument("--root", default=here, help="the folder of README.md")
    arguments = parser.parse_args()
    root = Path(arguments.root).resolve()
    pages = pages_of(root)
    tally = Tally()
    tally.check("README.md is there", [] if (root / "README.md").is_file() else ["it is not"])
    for page in pages:
        tally.check(f"{page.name}: each block of C belongs to a program", page.problems)
        tally.check(f"{page.name}: its links lead somewhere", list(link_problems(root, page, pages)))
        if page.name == "README.md":
            tally.check(f"{page.name}: a whole grain, and the output of ./run", list(readme_problems(page)))
    some = check_programs(tally, pages, arguments)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0 if some else 77


if __name__ == "__main__":
    sys.exit(main())
