#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the compiler does not check: tidy.py CHECK [--root FOLDER] [--shared libteff.so] [--static libteff.a]

Each check prints what is wrong, a line each, and exits 1 if there is any; 77 says that a tool is missing. A check is a
function from a Tree to such lines; test_tidy.py breaks each of them.
"""
import argparse
import concurrent.futures
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARY = ("runtime", "messaging", "directory", "grains")  # from the bottom up
AROUND = ("tests", "benchmarks", "examples", "tools")
TOP = "runtime/silo.c"  # builds a silo from all parts, so it alone may include upwards
LINES_MAX = 800
LIBRARY_BYTES_MAX = 256 * 1024
USER_FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
HOUSE_FLAGS = USER_FLAGS + ["-Wundef", "-Wvla"]
C_FLAGS = ["-std=c11", "-Wstrict-prototypes", "-Wmissing-prototypes"]
CLANG_FORMAT = 14  # others lay out differently
SOMETHING = "typedef int something;\n"  # a source of macros alone is none to a pedantic compiler

# (what, pattern, where it is allowed). Patterns see the code without comments and literals. A name after . or -> is a
# member, and a longer name, such as teff_sleep, another one.
BANNED = [
    ("allocates past runtime/memory",
     r"(?<![\w.>])(malloc|calloc|realloc|reallocarray|free|strdup|strndup|aligned_alloc|posix_memalign|memalign)\s*\(",
     {"runtime/memory.c"}),
    # runtime/thread.c: a thread's signal stack, which belongs to no silo
    ("maps memory", r"(?<![\w.>])(mmap|munmap|mremap)\s*\(",
     {"runtime/memory.c", "runtime/fiber.c", "runtime/thread.c"}),
    ("reaches a shared word past teff__atomic_*",
     r"(?<!\w)(atomic_\w+|_Atomic|__atomic_\w+|__sync_\w+|memory_order_\w+)|<stdatomic\.h>", {"runtime/atomic.h"}),
    ("reads a clock past runtime/clock",
     r"(?<![\w.>])(clock_gettime|gettimeofday|time|clock|uv_hrtime|uv_clock_gettime)\s*\(",
     {"runtime/clock.h", "runtime/thread.c", "runtime/chance.c"}),  # chance: a seed where the kernel gives none
    ("uses threads past runtime/thread",
     r"(?<!\w)(pthread_\w+|thrd_\w+|mtx_\w+|uv_(?:thread|mutex|rwlock|sem|cond|barrier|key)_\w+)",
     {"runtime/thread.c", "runtime/thread.h"}),
    ("draws chance past runtime/chance",
     r"(?<![\w.>])(getrandom|getentropy|rand|rand_r|srand|random|srandom|[dlm]rand48|uv_random)\s*\(",
     {"runtime/chance.c"}),
    ("writes without a bound", r"(?<![\w.>])(v?sprintf|strcpy|strcat|gets|stpcpy)\s*\(", set()),
    ("asks for the allocator: its objects are shared by those of all, see tests/allocators", r"(?<!\w)TEFF_ALLOCATOR_\w+",
     {"runtime/memory.c", "tests/unit/runtime/test_memory.c"}),
    ("sleeps", r"(?<![\w.>])(usleep|sleep|nanosleep|clock_nanosleep|thrd_sleep|uv_sleep)\s*\(", set()),
]
SLEEPS = BANNED[-1][1]
ALLOCATOR = BANNED[-2][1]

LITERAL_OR_COMMENT = re.compile(
    r'//(?:[^\\\n]|\\.|\\\n)*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


class Missing(Exception):
    """A tool that is not installed."""


def code_of(text):
    """The text without comments and literals; lines keep their numbers, quoted includes their names."""
    def blank(match):
        found = match.group(0)
        if found[0] == '"' and re.search(r"^[ \t]*#[ \t]*include[ \t]*$", text[:match.start()].rsplit("\n", 1)[-1]):
            return found
        return "\n" * found.count("\n") or " "
    return LITERAL_OR_COMMENT.sub(blank, text)


class Tree:
    def __init__(self, root, shared=None, static=None):
        self.root = Path(root)
        self.shared, self.static = shared, static
        self.verbatim = {}  # path: what it must hash to
        pinned = self.root / "tests/tidy/verbatim.sha256"
        if pinned.exists():
            self.verbatim = {path: digest for digest, path in (line.split() for line in pinned.open())}

    def files(self, folders, suffixes):
        for folder in folders:
            for path in sorted((self.root / folder).rglob("*")):
                if path.suffix in suffixes and path.is_file():
                    yield path.relative_to(self.root).as_posix()

    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8")

    def public_headers(self):
        for path in sorted((self.root / "include").rglob("*.h")):
            yield path.relative_to(self.root / "include").as_posix()


def tool(name):
    path = shutil.which(name)
    if path is None:
        raise Missing(name)
    return path


def run(arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, check=False, **options)


def output_of(arguments):
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def each(function, items):
    """The problems of all items, checked side by side."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [problem for found in pool.map(function, items) for problem in found]


def compile_problems(job):
    """Compiles a snippet or a file, only to see whether it does. job: (what, command, source text)."""
    what, command, source = job
    done = run(command, input=source)
    if done.returncode == 0:
        return []
    return [f"{what}: {' '.join(Path(word).name if index == 0 else word for index, word in enumerate(command))}\n"
            f"{done.stderr.rstrip()}"]


# --- Text ---------------------------------------------------------------------------------------


def check_includes(tree):
    """grains -> directory -> messaging -> runtime, never upward; the inside includes nothing from around it."""
    for name in tree.files(("include",) + LIBRARY, {".c", ".h", ".S"}):
        folder = name.split("/")[0]
        for number, line in enumerate(code_of(tree.text(name)).splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            if not found:
                continue
            target = found.group(1)
            top = target.split("/")[0]
            where = f"{name}:{number}: includes {target}: "
            if ".." in target.split("/"):
                yield where + "name it from the root"
            elif top in AROUND:
                yield where + "the library knows nothing of what stands around it"
            elif folder == "include" and top in LIBRARY:
                yield where + "a public header shows nothing of the inside"
            elif folder in LIBRARY and top in LIBRARY and name != TOP:
                if LIBRARY.index(top) > LIBRARY.index(folder):
                    yield where + "upward"
            if '"' in line and not any((tree.root / base / target).exists() for base in ("", "include")):
                yield where + "there is no such file"


def check_calls(tree):
    """Banned calls, in the library; sleeps, in unit tests too; the allocator, and asserts that would call libgit2, in all tests."""
    for name in tree.files(("include",) + LIBRARY, {".c", ".h"}):
        for number, line in enumerate(code_of(tree.text(name)).splitlines(), 1):
            for what, pattern, allowed in BANNED:
                found = re.search(pattern, line)
                if found and name not in allowed:
                    yield f"{name}:{number}: {found.group(0).rstrip('( ')} {what}"
    for name in tree.files(("tests/unit",), {".c", ".h"}):
        for number, line in enumerate(code_of(tree.text(name)).splitlines(), 1):
            found = re.search(SLEEPS, line)
            if found:
                yield f"{name}:{number}: {found.group(0).rstrip('( ')} sleeps: simulate the clock"
    for name in tree.files(("tests",), {".c", ".h"}):
        for number, line in enumerate(code_of(tree.text(name)).splitlines(), 1):
            asked = re.search(ALLOCATOR, line)
            if asked and name not in BANNED[-2][2]:
                yield f"{name}:{number}: {asked.group(0)} {BANNED[-2][0]}"
            if re.search(r"<criterion/new/", line):
                yield f"{name}:{number}: criterion/new draws by libgit2, which is not there: see tests/criterion"


def sources(tree):
    yield from tree.files(("include", "packaging", "docs") + LIBRARY + AROUND,
                          {".c", ".h", ".cpp", ".S", ".py", ".sh", ".build", ".in", ".css", ".pml"})
    for name in ("run", "meson.build", ".ci/run"):
        if (tree.root / name).exists():
            yield name


def check_lines(tree):
    """A file of 800 lines is two."""
    for name in sources(tree):
        count = len(tree.text(name).splitlines())
        if count >= LINES_MAX:
            yield f"{name}: {count} lines; must be under {LINES_MAX}"


def check_licence(tree):
    """Each source says its licence in its first line, after the line that names an interpreter."""
    for name in sources(tree):
        lines = tree.text(name).splitlines() or [""]
        first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
        if "SPDX-License-Identifier: MIT" not in first and name not in tree.verbatim:
            yield f"{name}: the first line does not say SPDX-License-Identifier: MIT"


def check_sources(tree):
    """Each source is named in a meson.build: by its path from there, or by its stem there or in a folder above."""
    paths, stems = set(), set()
    for build in [tree.root / "meson.build", *(tree.root / name for name in tree.files(
            ("include",) + LIBRARY + ("tests", "benchmarks", "examples"), {".build"}))]:
        if build.exists():
            for word in re.findall(r"'([^'\n]+)'", build.read_text(encoding="utf-8")):
                paths.add(os.path.normpath(build.parent / word))
                stems.add((build.parent, word))
    for name in tree.files(("include",) + LIBRARY + ("tests", "benchmarks", "examples"), {".c", ".cpp", ".S", ".h"}):
        path = tree.root / name
        if path.suffix == ".h" and not name.startswith("include/"):
            continue
        if os.path.normpath(path) not in paths and not any((folder, path.stem) in stems for folder in path.parents):
            yield f"{name}: no meson.build names it"


def check_format(tree):
    """clang-format is the judge of layout."""
    program = tool("clang-format")
    version = re.search(r"version (\d+)", output_of([program, "--version"]))
    if not version or int(version.group(1)) != CLANG_FORMAT:
        raise Missing(f"clang-format {CLANG_FORMAT}")

    names = [name for name in tree.files(("include",) + LIBRARY + AROUND, {".c", ".h", ".cpp"})
             if name not in tree.verbatim]

    def some(names):
        """Many files in one process: to start it costs more than a file does."""
        done = run([program, "--style=file", "--dry-run", "--Werror", *names], cwd=tree.root)
        found = set(re.findall(r"^(.+?):\d+:\d+: error: ", done.stderr, re.MULTILINE))
        problems = [f"{name}: ./run format would change it" for name in names if name in found]
        if done.returncode != 0 and not problems:
            problems = [f"clang-format: exit {done.returncode}\n{done.stderr.rstrip()}"]
        return problems
    parts = min(len(names), os.cpu_count() or 1)
    return each(some, [names[part::parts] for part in range(parts)])


# --- Headers and programs of users --------------------------------------------------------------


def check_headers(tree):
    """Each public header compiles alone, and twice, as C11 and as C++11 to 20; each inner one as C11."""
    jobs = []
    public = ["-I", str(tree.root / "include")]
    for name in tree.public_headers():
        source = f'#include "{name}"\n#include "{name}"\n{SOMETHING}'
        for compiler in ("gcc", "clang"):
            jobs.append((f"include/{name}", [tool(compiler), "-fsyntax-only", *C_FLAGS, *HOUSE_FLAGS, *public,
                                             "-x", "c", "-"], source))
        for compiler in ("g++", "clang++"):
            for standard in ("c++11", "c++14", "c++17", "c++20"):
                jobs.append((f"include/{name}", [tool(compiler), "-fsyntax-only", f"-std={standard}", *HOUSE_FLAGS,
                                                 *public, "-x", "c++", "-"], source))
    for name in tree.files(LIBRARY, {".h"}):
        if name.startswith("runtime/arch/"):  # the processor's part of another header
            continue
        jobs.append((name, [tool("gcc"), "-fsyntax-only", "-D_GNU_SOURCE", "-DTEFF_ALLOCATOR_SYSTEM", *C_FLAGS,
                            *HOUSE_FLAGS, *public, "-I", str(tree.root), "-x", "c", "-"],
                     f'#include "{name}"\n#include "{name}"\n{SOMETHING}'))
    return each(compile_problems, jobs)


def check_hello(tree):
    """The programs that documents show are the ones shown, and compile by a user's flags, away from this tree."""
    jobs = []
    for name, digest in tree.verbatim.items():
        path = tree.root / name
        if not path.exists():
            yield f"{name}: not there"
            continue
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            yield f"{name}: differs from what documents show"
        for compiler in ("gcc", "clang"):
            # Some include a header that stands beside them, and some libuv's, which needs what POSIX has.
            jobs.append((name, [tool(compiler), "-std=c11", "-D_GNU_SOURCE", *USER_FLAGS,
                                "-I", str(tree.root.resolve() / "include"), "-I", str(path.resolve().parent),
                                "-c", "-o", os.devnull, "-x", "c", "-"], path.read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory() as elsewhere:
        def one(job):
            done = run(job[1], input=job[2], cwd=elsewhere)
            return [] if done.returncode == 0 else [f"{job[0]}: {Path(job[1][0]).name}\n{done.stderr.rstrip()}"]
        yield from each(one, jobs)


# --- The library that was built -----------------------------------------------------------------


def declared(tree):
    """The functions that the public headers declare."""
    names = set()
    for header in tree.public_headers():
        done = run([tool("gcc"), "-std=c11", "-E", "-I", str(tree.root / "include"), "-x", "c", "-"],
                   input=f'#include "{header}"\n')
        ours, lines = False, []
        for line in done.stdout.splitlines():
            marker = re.match(r'# \d+ "([^"]*)"', line)
            if marker:
                ours = marker.group(1).startswith(str(tree.root / "include"))
            elif ours:
                lines.append(line)
        text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", " ".join(lines))
        while "{" in text:  # bodies and members, from the inside out
            shorter = re.sub(r"\{[^{}]*\}", ";", text)
            if shorter == text:
                break
            text = shorter
        for statement in text.split(";"):
            found = re.match(r"\s*(?:extern\s+)?([\w\s*]+?)\b(teff_[a-z]\w*)\s*\(", statement)
            if found and not re.search(r"\b(typedef|static|inline)\b", found.group(1)):
                names.add(found.group(2))
    return names


def check_exports(tree):
    """libteff.so exports the functions that the public headers declare, and nothing else."""
    symbols = {line.split()[-1].split("@")[0]
               for line in output_of([tool("nm"), "-D", "--defined-only", tree.shared]).splitlines() if line.strip()}
    public = declared(tree)
    if not symbols:
        yield f"{tree.shared}: exports nothing"
    for name in sorted(symbols):
        if not re.match(r"teff_[a-z]", name):
            yield f"{name}: exported, and not named teff_*"
        elif name not in public:
            yield f"{name}: exported, and in no public header"
    for name in sorted(public - symbols):
        yield f"{name}: in a public header, and not exported"


def check_globals(tree):
    """No variable outside a silo: nothing in .data, .bss or thread-local; tables that the linker relocates are constant."""
    member = "?"
    for line in output_of([tool("objdump"), "-t", tree.static]).splitlines():
        found = re.match(r"(\S+):\s+file format", line)
        if found:
            member = found.group(1)
            continue
        # value, seven flags (the last O: an object), section, size, name
        found = re.match(r"[0-9a-f]+ (.{7}) (\S+)\s+([0-9a-f]+)\s+(?:\.hidden |\.internal |\.protected )?(\S+)$", line)
        if not found or found.group(1)[6] in "dfF":
            continue
        section, size, name = found.group(2), int(found.group(3), 16), found.group(4)
        variable = section == "*COM*" or re.match(r"\.(t?bss|t?data|l?bss|ldata|sbss|sdata)\b", section)
        if variable and not section.startswith(".data.rel.ro") and size > 0:
            yield f"{member}: {name} is a variable of {size} bytes in {section}"


def check_size(tree):
    """libteff.so, stripped, is small."""
    with tempfile.TemporaryDirectory() as elsewhere:
        stripped = Path(elsewhere) / "libteff.so"
        output_of([tool("strip"), "-o", str(stripped), tree.shared])
        size = stripped.stat().st_size
    if size >= LIBRARY_BYTES_MAX:
        yield f"{tree.shared}: {size} bytes stripped; must be under {LIBRARY_BYTES_MAX}"


CHECKS = {name[len("check_"):]: function for name, function in list(globals().items()) if name.startswith("check_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("check", choices=sorted(CHECKS))
    parser.add_argument("--root", default=Path(__file__).resolve().parents[2])
    parser.add_argument("--shared")
    parser.add_argument("--static")
    arguments = parser.parse_args()
    tree = Tree(arguments.root, arguments.shared, arguments.static)
    try:
        problems = list(CHECKS[arguments.check](tree))
    except Missing as missing:
        print(f"left out: {missing} is not installed")
        return 77
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
