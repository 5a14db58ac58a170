#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Installs the library as it was built, and builds and runs a program outside of this tree: install.py WAY --build FOLDER

The ways: what is installed (files); pkg-config, with each compiler and from C++; pkg-config and the static library;
CMake; a subproject of meson's. Each installs anew into a temporary folder, by DESTDIR, and moves the result before it is
used. A way is a function from a Place to what is wrong there; test_install.py breaks each of them.

Prints a line for each problem and exits 1 if there is any; 77 says that a tool is missing.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FLAG = "-fstack-clash-protection"  # without it a large frame jumps over the guard of a fiber's stack
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
STANDARDS = ("c++11", "c++14", "c++17", "c++20")
PRINTED = {"outside": "hello, outside\n", "outside++": "hello, call, 1\nhello, claim, 2\nhello, then, 2\n"}
RUN_SECONDS = 30

CMAKE = """cmake_minimum_required(VERSION 3.16)
project(outside C)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
foreach(wrong 0.0 0.99 1 9.9)
    find_package(teff ${wrong} QUIET)
    if(teff_FOUND)
        message(FATAL_ERROR "teff ${teff_VERSION} says that it is compatible with ${wrong}")
    endif()
endforeach()
find_package(teff 0.1 REQUIRED)
find_package(teff REQUIRED)
add_executable(outside outside.c greeter.c)
target_link_libraries(outside PRIVATE teff::teff)
"""
MESON = """project('outside', 'c', default_options: ['c_std=c11', 'warning_level=3', 'werror=true'])
executable('outside', 'outside.c', 'greeter.c', dependencies: dependency('teff'))
executable('outside_static', 'outside.c', 'greeter.c', dependencies: dependency('teff', static: true))
"""


class Missing(Exception):
    """A tool that is not installed."""


class Failed(Exception):
    """A command that failed: what it printed."""


def tool(name):
    path = shutil.which(name)
    if path is None:
        raise Missing(name)
    return path


def run(*command, **options):
    """What a command printed."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(str(word) for word in command)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Place:
    """A temporary folder with an installation, moved away from where it was installed, and a user's sources."""

    def __init__(self, folder, build, allocator="mimalloc", like=None):
        """`like`: copies that place's installation instead."""
        self.folder, self.build, self.source, self.allocator = Path(folder), Path(build), ROOT, allocator
        self.prefix = self.folder / "moved"
        self.user = self.folder / "user"
        self.user.mkdir()
        for name in ("greeter.h", "greeter.c", "outside.c", "outside.cpp"):
            shutil.copy(HERE / name, self.user)
        if like:
            shutil.copytree(like.prefix, self.prefix, symlinks=True)
            return
        destination = self.folder / "destination"
        run(tool("meson"), "install", "-C", build, "--no-rebuild", "--quiet", env={**os.environ, "DESTDIR": str(destination)})
        found = [path.parent.parent for path in destination.rglob("include/teff.h")]
        if len(found) != 1:
            raise Failed(f"meson install: {len(found)} files are named include/teff.h")
        found[0].rename(self.prefix)

    def libraries(self):
        """The folder of the libraries."""
        return next(self.prefix.rglob("libteff.*")).parent

    def environment(self):
        """Finds this installation before any other."""
        folders = [str(self.libraries() / "pkgconfig"), os.environ.get("PKG_CONFIG_PATH", "")]
        return {**os.environ, "PKG_CONFIG_PATH": ":".join(filter(None, folders))}

    def flags(self, *options):
        return run(tool("pkg-config"), *options, "teff", env=self.environment()).split()


def run_problems(program, name="outside", libraries=None):
    """Runs a program and compares what it prints."""
    environment = dict(os.environ)
    environment.pop("LD_LIBRARY_PATH", None)
    if libraries:
        environment["LD_LIBRARY_PATH"] = str(libraries)
    try:
        printed = run(program, env=environment, timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        return [f"{program}: still running after {RUN_SECONDS} s"]
    return [] if printed == PRINTED[name] else [f"{program}: printed {printed!r}, not {PRINTED[name]!r}"]


def needed(program):
    """The shared libraries that a program asks for."""
    return re.findall(r"^\s+NEEDED\s+(\S+)$", run(tool("objdump"), "-p", program), re.MULTILINE)


def command_problems(build):
    """Is each of the user's files compiled with the flag?"""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        if re.search(r"(outside|greeter)\.c$", entry["file"]) and FLAG not in entry["command"].split():
            yield f"{entry['file']}: compiled without {FLAG}"


# --- The ways -----------------------------------------------------------------------------------


def way_files(place):
    """What is installed: each public header, and no other; both libraries; descriptions that name no folder of ours."""
    wanted = {path.relative_to(place.source / "include") for path in (place.source / "include").rglob("*.h")}
    there = {path.relative_to(place.prefix / "include") for path in (place.prefix / "include").rglob("*") if path.is_file()}
    for name in sorted(wanted - there):
        yield f"include/{name}: not installed"
    for name in sorted(there - wanted):
        yield f"include/{name}: installed, and no public header"
    libraries = place.libraries()
    for name in ("libteff.a", "libteff.so", "libteff.so.0"):
        if not (libraries / name).exists():
            yield f"{name}: not installed"
    options = json.loads(run(tool("meson"), "introspect", "--buildoptions", place.build))
    prefix = next(option["value"] for option in options if option["name"] == "prefix")
    for name in ("pkgconfig/teff.pc", "cmake/teff/teff-config.cmake", "cmake/teff/teff-config-version.cmake"):
        if not (libraries / name).exists():
            yield f"{name}: not installed"
            continue
        text = (libraries / name).read_text(encoding="utf-8")
        for folder in (str(place.source.resolve()), str(place.build.resolve()), prefix):
            if folder in text:
                yield f"{name}: names {folder}, so it cannot be moved"


def shared(place, compiler):
    flags = place.flags("--cflags", "--libs")
    if FLAG not in flags:
        yield f"pkg-config --cflags: no {FLAG} in {flags}"
    extra = [flag for flag in flags if flag.startswith("-l") and flag != "-lteff"]
    if extra:
        yield f"pkg-config --libs: a program needs only libteff.so, not {extra}"
    program = place.user / "outside"
    run(tool(compiler), "-std=c11", *WARNINGS, "outside.c", "greeter.c", *flags, "-o", program, cwd=place.user)
    if "libteff.so.0" not in needed(program):
        yield f"{program}: needs {needed(program)}, and not libteff.so.0"
    yield from run_problems(program, libraries=place.libraries())


def way_gcc(place):
    """pkg-config and the shared library."""
    yield from shared(place, "gcc")


def way_clang(place):
    """The same with the other compiler."""
    yield from shared(place, "clang")


def way_static(place):
    """pkg-config --static: beside the shared library by -l:libteff.a, and where it is the only one."""
    flags = place.flags("--static", "--cflags", "--libs")
    if FLAG not in flags:
        yield f"pkg-config --static --cflags: no {FLAG} in {flags}"
    beside = [re.sub("^-lteff$", "-l:libteff.a", flag) for flag in flags]
    for name, words in (("beside", beside), ("alone", flags)):
        if name == "alone":
            for path in place.libraries().glob("libteff.so*"):
                path.unlink()
        program = place.user / name
        run(tool("gcc"), "-std=c11", *WARNINGS, "outside.c", "greeter.c", *words, "-o", program, cwd=place.user)
        if any("teff" in library for library in needed(program)):
            yield f"{name}: libteff.a was to be linked, and the program needs {needed(program)}"
        yield from run_problems(program)


def way_cpp(place, link=True):
    """A caller in C++ and a grain in C, by each standard and compiler; `link` also links and runs it."""
    flags, libraries = place.flags("--cflags"), place.flags("--libs")
    grain = place.user / "greeter.o"
    run(tool("gcc"), "-std=c11", *WARNINGS, *flags, "-c", "greeter.c", "-o", grain, cwd=place.user)

    def one(job):
        compiler, standard = job
        made = place.user / f"{compiler}.{standard}"
        try:
            run(tool(compiler), f"-std={standard}", *WARNINGS, *flags, "-c", "outside.cpp", "-o", f"{made}.o", cwd=place.user)
            if not link:
                return []
            run(tool(compiler), f"{made}.o", grain, *libraries, "-o", made)
            return run_problems(made, "outside++", place.libraries())
        except Failed as failed:
            return [str(failed)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for problems in pool.map(one, [(compiler, standard) for compiler in ("g++", "clang++") for standard in STANDARDS]):
            yield from problems


def way_cmake(place):
    """find_package(teff REQUIRED), and teff::teff."""
    (place.user / "CMakeLists.txt").write_text(CMAKE, encoding="utf-8")
    build = place.user / "cmake"
    run(tool("cmake"), "-S", place.user, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={place.prefix}",
        env=place.environment())
    problems = list(command_problems(build))
    if problems:
        yield from problems
        return
    run(tool("cmake"), "--build", build)
    yield from run_problems(build / "outside")  # CMake has written into it where the library is


def way_meson(place):
    """dependency('teff') of a folder subprojects/teff, without a wrap; both libraries."""
    (place.user / "meson.build").write_text(MESON, encoding="utf-8")
    (place.user / "subprojects").mkdir()
    (place.user / "subprojects" / "teff").symlink_to(place.source.resolve())
    build = place.user / "meson"
    run(tool("meson"), "setup", build, place.user, "--buildtype=plain", "--force-fallback-for=teff",
        f"-Dteff:allocator={place.allocator}", env={**os.environ, "CC": tool("gcc")})
    problems = list(command_problems(build))
    targets = json.loads(run(tool("meson"), "introspect", "--targets", build))
    extra = sorted(target["name"] for target in targets
                   if target["type"] == "executable" and target["name"] not in ("outside", "outside_static"))
    if extra:
        problems.append(f"the subproject builds programs of its own: {extra}")
    if problems:
        yield from problems
        return
    run(tool("meson"), "compile", "-C", build)
    yield from run_problems(build / "outside")
    yield from run_problems(build / "outside_static")
    if any("teff" in library for library in needed(build / "outside_static")):
        yield f"dependency('teff', static: true): the program needs {needed(build / 'outside_static')}"


WAYS = {name[len("way_"):]: function for name, function in list(globals().items()) if name.startswith("way_")}


def problems_of(way, place, **options):
    """All that is wrong; a command that failed is one problem."""
    problems = []
    try:
        for problem in WAYS[way](place, **options):
            problems.append(problem)
    except Failed as failed:
        problems.append(str(failed))
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=sorted(WAYS))
    parser.add_argument("--build", required=True, help="the folder that the library was built in")
    parser.add_argument("--allocator", default="mimalloc", help="that of the subproject")
    parser.add_argument("--no-link", action="store_true", help="cpp: only compiles")
    arguments = parser.parse_args()
    options = {"link": False} if arguments.no_link else {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            problems = problems_of(arguments.way, Place(folder, arguments.build, allocator=arguments.allocator), **options)
    except Missing as missing:
        print(f"left out: {missing} is not installed")
        return 77
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
