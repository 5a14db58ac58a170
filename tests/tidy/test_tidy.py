#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Breaks what each check of tidy.py guards, in a small tree of its own, and sees that the check says so.

Every check must accept the tree as it is, and name the fault after each of the changes below.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402

SPDX = "/* SPDX-License-Identifier: MIT */\n"
HEADER = """#ifndef TEFF_ONE_H
#define TEFF_ONE_H
#ifdef __cplusplus
extern "C" {
#endif
__attribute__((visibility("default"))) int teff_one(int number);
#ifdef __cplusplus
}
#endif
#endif
"""
ONE = '#include "runtime/one.h"\n\n#include "teff.h"\n\nint teff_one(int number)\n{\n    return number;\n}\n'
HELLO = '#include "teff.h"\nint main(void) { return teff_one(0); }\n'

GOOD = {
    "include/teff.h": SPDX + HEADER,
    "include/meson.build": "# SPDX-License-Identifier: MIT\ninstall_headers('teff.h')\n",
    "runtime/one.h": SPDX + "#ifndef TEFF_RUNTIME_ONE_H\n#define TEFF_RUNTIME_ONE_H\n#endif\n",
    "runtime/one.c": SPDX + ONE,
    "runtime/silo.c": SPDX + '#include "grains/grain.h"\n',
    "runtime/meson.build": "# SPDX-License-Identifier: MIT\nsources += files('one.c', 'silo.c')\n",
    "grains/grain.h": SPDX + '#include "runtime/one.h"\n',
    "examples/hello.c": HELLO,
    "examples/meson.build": "# SPDX-License-Identifier: MIT\nexecutable('hello', 'hello.c')\n",
}

# (check, file, text in place of the good one or added to it, what the check must say)
FAULTS = [
    ("includes", "runtime/one.c", '+#include "grains/grain.h"\n', "runtime/one.c:10: includes grains/grain.h: upward"),
    ("includes", "runtime/one.c", '+#include "tests/unit/help.h"\n', "what stands around it"),
    ("includes", "runtime/one.c", '+#include <benchmarks/harness.h>\n', "what stands around it"),
    ("includes", "runtime/one.c", '+#include "../grains/grain.h"\n', "name it from the root"),
    ("includes", "runtime/one.c", '+#include "runtime/two.h"\n', "there is no such file"),
    ("includes", "include/teff.h", '+#include "runtime/one.h"\n', "shows nothing of the inside"),
    ("calls", "runtime/one.c", "+void *get(void) { return malloc(1); }\n", "malloc allocates past"),
    ("calls", "runtime/one.c", "+void put(void *p) { free (p); }\n", "free allocates past"),
    ("calls", "runtime/one.c", "+char *copy(void) { return strdup(\"\"); }\n", "strdup allocates past"),
    ("calls", "runtime/one.c", "+void *map(void) { return mmap(0, 1, 0, 0, -1, 0); }\n", "mmap maps"),
    ("calls", "runtime/one.c", "+_Atomic int word;\n", "_Atomic reaches"),
    ("calls", "runtime/one.c", "+int get(int *p) { return __atomic_load_n(p, 0); }\n", "__atomic_load_n reaches"),
    ("calls", "grains/grain.h", "+void fence(void) { atomic_thread_fence(0); }\n", "atomic_thread_fence reaches"),
    ("calls", "runtime/one.c", "+void get(void) { clock_gettime(0, 0); }\n", "clock_gettime reads"),
    ("calls", "runtime/one.c", "+pthread_t thread;\n", "pthread_t uses"),
    ("calls", "runtime/one.c", "+int dice(void) { return rand(); }\n", "rand draws"),
    ("calls", "runtime/one.c", "+void put(char *p) { sprintf(p, \"\"); }\n", "sprintf writes"),
    ("calls", "runtime/one.c", "+void put(char *p) { strcpy(p, \"\"); }\n", "strcpy writes"),
    ("calls", "runtime/one.c", "+void rest(void) { usleep(1); }\n", "usleep sleeps"),
    ("calls", "tests/unit/runtime/test_one.c", SPDX + "void rest(void) { sleep(1); }\n", "sleep sleeps"),
    ("calls", "tests/unit/runtime/test_one.c", SPDX + "#include <criterion/new/assert.h>\n", "draws by libgit2"),
    ("calls", "runtime/one.c", "+#ifdef TEFF_ALLOCATOR_SYSTEM\n#endif\n", "TEFF_ALLOCATOR_SYSTEM asks for"),
    ("calls", "tests/unit/runtime/test_one.c", SPDX + "#ifdef TEFF_ALLOCATOR_SYSTEM\n#endif\n", "TEFF_ALLOCATOR_SYSTEM asks"),
    ("lines", "runtime/one.c", "+" + "\n" * 795, "must be under 800"),
    ("licence", "runtime/one.c", ONE, "runtime/one.c: the first line"),
    ("licence", "runtime/meson.build", "sources += files('one.c')\n", "runtime/meson.build: the first line"),
    ("sources", "runtime/two.c", SPDX, "runtime/two.c: no meson.build names it"),
    ("sources", "include/teff/two.h", SPDX, "include/teff/two.h: no meson.build names it"),
    ("format", "runtime/one.c", "+int  two ;\n", "runtime/one.c: ./run format"),
    ("format", "grains/grain.h", "+int  two ;\n", "grains/grain.h: ./run format"),
    ("headers", "include/teff.h", "+int teff_two(size_t bytes);\n", "size_t"),
    ("headers", "include/teff.h", "+static inline char *teff_two(void) { void *p = 0; return p; }\n", "g++"),
    ("headers", "include/teff.h", "+static inline int teff_two(int *new) { return *new; }\n", "clang++"),
    ("headers", "include/teff.h", "+static inline short teff_two(int i) { return i; }\n", "conversion"),
    ("headers", "include/teff.h", "+struct teff_two { int i; };\n", "redefinition"),
    ("headers", "runtime/one.h", "+extern uint64_t number;\n", "uint64_t"),
    ("hello", "examples/hello.c", "+/* more */\n", "examples/hello.c: differs"),
    ("hello", "include/teff.h", SPDX, "examples/hello.c: gcc"),
    ("exports", "include/teff.h", "+int teff_two(void);\n", "teff_two: in a public header, and not exported"),
    ("exports", "runtime/one.c", "+EXPORT int teff_two(void) { return 2; }\n", "teff_two: exported, and in no public"),
    ("exports", "runtime/one.c", "+EXPORT int teff__two(void) { return 2; }\n", "teff__two: exported, and not named"),
    ("exports", "runtime/one.c", "+EXPORT int two(void) { return 2; }\n", "two: exported, and not named"),
    ("exports", "runtime/one.c", SPDX, "exports nothing"),
    ("globals", "runtime/one.c", "+int teff_count;\n", "teff_count is a variable of 4 bytes in .bss"),
    ("globals", "runtime/one.c", "+int teff_count = 1;\n", "teff_count is a variable of 4 bytes in .data"),
    ("globals", "runtime/one.c", "+int two(void) { static int n; return n++; }\n", "is a variable of 4 bytes in .bss"),
    ("globals", "runtime/one.c", "+_Thread_local int mine;\n", "mine is a variable of 4 bytes in .tbss"),
    ("globals", "runtime/one.c", "+const char *name = \"\";\n", "name is a variable of 8 bytes in .data"),
    ("size", "runtime/one.c", "+EXPORT const char teff_large[262144] = { 1 };\n", "must be under 262144"),
]
BUILT = ("exports", "globals", "size")
# What a check must accept although it looks alike.
FINE = [
    ("calls", "runtime/one.c", "+/* malloc(1), free(p) */\nconst char *text = \"sleep(1) rand()\";\n"),
    ("calls", "runtime/one.c", "+void put(struct pool *pool) { pool->free(pool); teff_sleep(1); }\n"),
    ("calls", "runtime/one.c", "+void get(teff__atomic_u64 *word) { teff__atomic_u64_load_relaxed(word); }\n"),
    ("globals", "runtime/one.c", "+extern const char *const table[];\nconst char *const table[] = { \"a\", \"b\" };\n"),
]


def write(root, files):
    for name, text in files.items():
        path = Path(root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def problems_of(check, changes):
    """What the check says about the good tree with some files changed."""
    files = dict(GOOD)
    for name, text in changes.items():
        files[name] = GOOD[name] + text[1:] if text.startswith("+") else text
    with tempfile.TemporaryDirectory() as root:
        write(root, files)
        digest = tidy.hashlib.sha256(HELLO.encode()).hexdigest()
        write(root, {"tests/tidy/verbatim.sha256": f"{digest}  examples/hello.c\n"})
        formatting = Path(__file__).resolve().parents[2] / ".clang-format"
        write(root, {".clang-format": formatting.read_text(encoding="utf-8")})
        shared = static = None
        if check in BUILT:
            shared, static, made = f"{root}/libteff.so", f"{root}/libteff.a", f"{root}/one.o"
            for command in (
                    ["gcc", "-c", "-O1", "-fPIC", "-fvisibility=hidden", f"-I{root}", f"-I{root}/include",
                     '-DEXPORT=__attribute__((visibility("default")))', "-o", made, f"{root}/runtime/one.c"],
                    ["gcc", "-shared", "-nostdlib", "-o", shared, made], ["ar", "rcs", static, made]):
                subprocess.run(command, check=True)
        return list(tidy.CHECKS[check](tidy.Tree(root, shared, static)))


def main():
    passed = failed = 0
    try:
        for check in tidy.CHECKS:
            found = problems_of(check, {})
            passed, failed = passed + (not found), failed + bool(found)
            for problem in found:
                print(f"{check}: wrongly says of a good tree: {problem}")
            if not any(fault[0] == check for fault in FAULTS):
                failed += 1
                print(f"{check}: no fault here shows that it can fail")
        for check, name, text, expected in FAULTS:
            found = problems_of(check, {name: text})
            if any(expected in problem for problem in found):
                passed += 1
            else:
                failed += 1
                print(f"{check}: does not say \"{expected}\" of {name} with {text[:80]!r}, but {found}")
        for check, name, text in FINE:
            found = problems_of(check, {name: text})
            passed, failed = passed + (not found), failed + bool(found)
            for problem in found:
                print(f"{check}: wrongly says: {problem}")
    except tidy.Missing as missing:
        print(f"left out: {missing} is not installed")
        return 77
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
