#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Breaks what each way of install.py guards, in an installation of its own, and sees that it says so.

test_install.py --build FOLDER. The ways themselves, run beside this, show that each accepts what is right.
"""
import argparse
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import install  # noqa: E402


def edit(find, old, new):
    """Changes an installed file, or one of the user's; `old` is a pattern that must be there."""
    def change(place):
        path = find(place)
        text, count = re.subn(old, new, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert count > 0, f"{path} has no {old}"
        path.write_text(text, encoding="utf-8")
    return change


def remove(name):
    def change(place):
        next(place.prefix.rglob(name)).unlink()
    return change


def add(name):
    def change(place):
        (place.prefix / name).write_text("\n", encoding="utf-8")
    return change


def source(old, new):
    """Changes the root meson.build of a copy of the sources."""
    def change(place):
        copy = place.folder / "source"
        shutil.copytree(place.source, copy, ignore=shutil.ignore_patterns("build", ".git"))
        place.source = copy
        edit(lambda place: place.source / "meson.build", old, new)(place)
    return change


def pc(place):
    return place.libraries() / "pkgconfig" / "teff.pc"


def config(place):
    return place.libraries() / "cmake" / "teff" / "teff-config.cmake"


def version(place):
    return place.libraries() / "cmake" / "teff" / "teff-config-version.cmake"


def program(place):
    return place.user / "outside.c"


def program_cpp(place):
    return place.user / "outside.cpp"


# (way, what to break, what must be said)
FAULTS = [
    ("files", remove("bytes.h"), "include/teff/bytes.h: not installed"),
    ("files", add("include/teff/inside.h"), "include/teff/inside.h: installed, and no public header"),
    ("files", remove("libteff.a"), "libteff.a: not installed"),
    ("files", remove("libteff.so"), "libteff.so: not installed"),
    ("files", remove("teff.pc"), "teff.pc: not installed"),
    ("files", remove("teff-config.cmake"), "teff-config.cmake: not installed"),
    ("files", edit(pc, "^prefix=.*", "prefix=/usr/local"), "teff.pc: names /usr/local"),
    ("files", lambda place: config(place).write_text(str(place.source), encoding="utf-8"), "so it cannot be moved"),
    ("gcc", remove("teff.pc"), "pkg-config"),
    ("gcc", edit(pc, f" {install.FLAG}", ""), f"no {install.FLAG} in"),
    ("gcc", edit(pc, "-lteff$", "-lteff -luv"), "not ['-luv']"),
    ("gcc", edit(pc, "-lteff$", ""), "undefined reference"),
    ("gcc", edit(pc, "^includedir=.*", "includedir=/none"), "teff.h: No such file"),
    ("gcc", remove("libteff.so"), "undefined reference"),
    ("gcc", edit(pc, "-lteff$", "-l:libteff.a -luv -lmimalloc"), "and not libteff.so.0"),
    ("gcc", edit(program, '"outside"', '"inside"'), "printed 'hello, inside\\n', not"),
    ("gcc", edit(program, "return r != 0", "return 3"), "exit 3"),
    ("clang", edit(program, "int main", "int unused(int i) { short s = i; return s; }\nint main"), "outside.c"),
    ("static", edit(pc, f" {install.FLAG}", ""), f"no {install.FLAG} in"),
    ("static", edit(pc, "^Libs.private:.*", "Libs.private: -pthread"), "undefined reference"),
    ("static", edit(pc, "^Requires.private:.*", ""), "undefined reference"),
    ("static", remove("libteff.a"), "libteff.a"),
    ("static", edit(pc, "-lteff$", "-l:libteff.so.0"), "libteff.a was to be linked"),
    ("cpp", edit(program_cpp, "greeter_greet_then", "greeter_none_then"), "g++ -std=c++11"),
    ("cpp", edit(program_cpp, "int main", "constexpr int f() { int i = 0; return i; }\nint main"), "clang++ -std=c++11"),
    ("cpp", edit(program_cpp, "int main", "int f(long i) { return i; }\nint main"), "clang++ -std=c++20"),
    ("cmake", remove("teff-config.cmake"), "provided by \"teff\""),
    ("cmake", remove("teff.h"), "teff.h is not there"),
    ("cmake", edit(config, ":-fstack-clash-protection", ":"), f"outside.c: compiled without {install.FLAG}"),
    ("cmake", edit(config, "teff::teff", "teff::none"), "teff::teff"),
    ("cmake", edit(config, "libteff.so.0.1.0", "libteff.so.0.1"), "libteff.so.0.1 is not there"),
    ("cmake", edit(config, "INTERFACE_INCLUDE_DIRECTORIES.*", ""), "teff.h: No such file"),
    ("cmake", edit(version, "COMPATIBLE FALSE", "COMPATIBLE TRUE"), "says that it is compatible with"),
    ("cmake", edit(version, 'PACKAGE_VERSION ".*"', 'PACKAGE_VERSION "9.8.0"'), "0.1"),
    ("cmake", edit(program, '"outside"', '"inside"'), "printed 'hello, inside\\n', not"),
    ("meson", source(r"^meson.override_dependency.*", ""), "dependency"),
    ("meson", source("  compile_args: public_cflags,", ""), f"outside.c: compiled without {install.FLAG}"),
    ("meson", source("^if not meson.is_subproject.*", "if true"), "the subproject builds programs of its own: ['"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    build = parser.parse_args().build
    good = None

    def one(fault):
        way, change, expected = fault
        with tempfile.TemporaryDirectory() as folder:
            place = install.Place(folder, build, like=good)
            change(place)
            problems = install.problems_of(way, place)
        return f"{way}: {expected}", any(expected in problem for problem in problems), problems

    passed = failed = 0
    try:
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
            good = install.Place(folder, build)
            for what, said, problems in pool.map(one, FAULTS):
                passed, failed = passed + said, failed + (not said)
                print(f"{'ok' if said else 'not ok'}: {what}" + ("" if said else "\n" + "\n".join(problems)))
    except install.Missing as missing:
        print(f"left out: {missing} is not installed")
        return 77
    for way in install.WAYS:
        if way not in {fault[0] for fault in FAULTS}:
            failed += 1
            print(f"not ok: no fault here shows that {way} can fail")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
