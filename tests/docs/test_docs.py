#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Breaks what each check of docs.py guards, in two small pages of its own, and sees that it says so.

docs.py must accept the pages as they are, and name the fault after each of the changes below.
"""
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import docs  # noqa: E402

README = """# one

[the page](docs/page.md#the-second-part), [elsewhere](https://example.org/none), [below](#two)

```c file=one.c
#include <stdio.h>
#include <teff.h>
```

And its main.

```c file=one.c
int main(void)
{
    printf("%d\\n", teff_one(1));
    return 0;
}
```

```output file=one.c
1
```

## two

<!-- ping -->
```text
fast
```
<!-- /ping -->

<!-- test -->
```text
1 passed, 0 failed
```
<!-- /test -->
"""

PAGE = """# page

Of a link in code, `[none](none.md)`, or in a fence, nothing is wanted:

```text
[none](none.md)
```

## The second part

[back](../README.md "a title"), ![picture](picture.png)

[reference]: ../README.md#one

```c file=quiet.c
int main(void) { return 0; }
```

```output file=quiet.c
```
"""

GOOD = {
    "include/teff.h": "int teff_one(int number);\n",
    "runtime/inside.h": "\n",
    "README.md": README,
    "docs/page.md": PAGE,
    "docs/picture.png": "\n",
}
ACCEPTED = 1 + 3 + 2 + 2 * (1 + 2 * 2)  # README there; its page and the other; two programs, by two compilers

CODE = "```c file=%s\nint main(void) { %s }\n```\n"
ANSWER = "```output file=%s\n%s```\n"


def program(code, output="", includes=""):
    return "+" + CODE.replace("int main", includes + "int main") % ("new.c", code) + ANSWER % ("new.c", output)


# (file, text in place of the good one, or added to it after a +, or (old, new) in it; what must be said)
FAULTS = [
    ("README.md", None, "README.md is there\n    it is not"),
    # fences
    ("docs/page.md", "+```c\nint number;\n```\n", "docs/page.md:21: ```c names no program"),
    ("docs/page.md", "+```h\nint number;\n```\n", "```h names no program"),
    ("docs/page.md", "+```output\n1\n```\n", "```output names no program"),
    ("docs/page.md", "+```sh file=one.c\nls\n```\n", "not ```sh"),
    ("docs/page.md", "+```c file=../one.c\nint number;\n```\n", "../one.c: a program is named like counter.c"),
    ("docs/page.md", "+```c file=one.h\nint number;\n```\n", "one.h: a program is named like counter.c"),
    ("docs/page.md", "+" + ANSWER % ("none.c", "1\n"), "output of none.c, of which there is no code"),
    ("docs/page.md", "+" + ANSWER % ("quiet.c", ""), "a second output of quiet.c"),
    ("docs/page.md", "+" + CODE % ("quiet.c", ""), "quiet.c goes on after its output"),
    ("docs/page.md", program("return 0;") + CODE % ("quiet.c", ""), "quiet.c goes on after new.c has begun"),
    ("docs/page.md", "+```text\nnever closed\n", "docs/page.md:21: the fence is never closed"),
    # programs
    ("docs/page.md", "+" + CODE % ("new.c", "return 0;"), "no ```output file=new.c"),
    ("docs/page.md", program("return none;"), "docs/page.md:22:25: error"),
    ("docs/page.md", program("int used; used = 1; return 0;"), "-Werror"),
    ("docs/page.md", program("int i = 0; { int i = 1; return i; } return i;"), "shadow"),
    ("docs/page.md", program("long big = 1; int small = big; return small;"), "conversion"),
    ("docs/page.md", program("return 0;", includes='#include "runtime/inside.h"\n'), "runtime/inside.h"),
    ("docs/page.md", program("return other();", includes="int other(void);\n"), "undefined reference"),
    ("docs/page.md", program("return 0;", "1\n"), "@@\n    -1\n"),
    ("docs/page.md", program('puts("1"); return 0;', "2\n", "#include <stdio.h>\n"), "-2\n    +1\n"),
    ("docs/page.md", program('printf("1"); return 0;', "1\n", "#include <stdio.h>\n"), "a line's end differs"),
    ("docs/page.md", program("return 3;"), "exit 3"),
    ("docs/page.md", program("abort();", includes="#include <stdlib.h>\n"), "exit -6"),
    ("docs/page.md", program('fputs("no", stderr); return 0;', includes="#include <stdio.h>\n"), "on stderr: no"),
    ("docs/page.md", program("for (;;) { }"), "still running after 1 s"),
    # links
    ("docs/page.md", "+[none](none.md)\n", "none.md: there is no such file"),
    ("docs/page.md", "+![none](none.png)\n", "none.png: there is no such file"),
    ("docs/page.md", "+[none]: README.md\n", "README.md: there is no such file"),
    ("docs/page.md", "+[none](../README.md#none)\n", "README.md has no such heading"),
    ("docs/page.md", "+[none](#none)\n", "docs/page.md has no such heading"),
    ("docs/page.md", "+[out](../../etc)\n", "leads out of the tree"),
    ("README.md", "+[none](docs/none.md)\n", "docs/none.md: there is no such file"),
    # README
    ("README.md", ("#include <teff.h>\n", "#include <teff.h>\n" + "\n" * 18 + "int number;\n"), "its grain has 21 lines"),
    ("README.md", ("int main(", "int not_main("), "one.c: there is no main"),
    ("README.md", ("```output file=one.c\n1\n```\n", ""), "does not show what it prints"),
    ("README.md", "# nothing\n", "shows no program"),
    ("README.md", ("<!-- ping -->", ""), "one <!-- ping --> … <!-- /ping --> is wanted; there are 0"),
    ("README.md", ("1 passed, 0 failed\n", ""), "<!-- test --> holds no output"),
]


def remembering(check_program):
    """Of a program that was checked before, word for word, the results are known; most faults leave the programs alone."""
    known = {}

    def check(job):
        program, compiler, _, _ = job
        key = (program.page.name, program.name, compiler, program.source(), program.output)
        if key not in known:
            known[key] = check_program(job)
        return known[key]
    return check


def run_docs(root, files):
    """Writes a tree, and gives (exit code, what was printed)."""
    shutil.rmtree(root, ignore_errors=True)
    for name, text in files.items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
    said = io.StringIO()
    arguments = ["docs.py", "--root", str(root), "--include", str(root / "include"), "--library", str(root.parent / "libone.so")]
    with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(said):
        code = docs.main()
    return code, said.getvalue()


def changed(name, change):
    if isinstance(change, tuple):
        assert change[0] in GOOD[name]
        return {**GOOD, name: GOOD[name].replace(*change)}
    if change is not None and change.startswith("+"):
        return {**GOOD, name: GOOD[name] + change[1:]}
    return {**GOOD, name: change}


def main():
    compilers = [compiler for compiler in docs.COMPILERS if shutil.which(compiler)]
    if len(compilers) < len(docs.COMPILERS):
        print("left out: not all of", *docs.COMPILERS, "are installed")
        return 77
    passed = failed = 0

    def expect(what, good, said):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok' if good else 'not ok'}: {what}" + ("" if good else "\n" + said))

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        subprocess.run([compilers[0], "-shared", "-fPIC", "-x", "c", "-", "-o", str(Path(folder) / "libone.so")],
                       input="int teff_one(int number);\nint teff_one(int number) { return number; }\n", text=True, check=True)
        code, said = run_docs(root, GOOD)
        expect("good pages are accepted", code == 0 and said.endswith(f"\n{ACCEPTED} passed, 0 failed\n"), said)
        code, said = run_docs(root, changed("docs/page.md", program("return none;")))
        expect("each compiler's errors are shown", all(f"new.c: {one} compiles it\n    " in said for one in compilers), said)
        # One compiler is enough to break the rest.
        with mock.patch.object(docs, "RUN_SECONDS", 1), mock.patch.object(docs, "COMPILERS", compilers[:1]), \
                mock.patch.object(docs, "check_program", remembering(docs.check_program)):
            for name, change, wanted in FAULTS:
                code, said = run_docs(root, changed(name, change))
                expect(f"{name}: {wanted.splitlines()[-1].strip()}", code == 1 and wanted in said, said)
        with mock.patch.object(docs, "COMPILERS", (compilers[0], "no-such-compiler")):
            code, said = run_docs(root, GOOD)
            expect("a compiler that is missing is named", code == 0 and "left out: no-such-compiler is not" in said, said)
        with mock.patch.object(docs, "COMPILERS", ("no-such-compiler",)):
            code, said = run_docs(root, GOOD)
            expect("without a compiler it is left out", code == 77, said)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
