#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Breaks what each check of reference.py guards, in a small tree of its own, and sees that it says so.

Each check must accept the tree as it is, and name the fault after each of the changes below.
"""
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import reference  # noqa: E402

sys.path.insert(0, str(HERE.parents[1] / "docs" / "reference"))
import filter as doxygen_filter  # noqa: E402

HEADER = """/* SPDX-License-Identifier: MIT */
/*
 * One: all that a header may hold.
 *
 *     int r = teff_one_get(one, &number);
 *
 *   small   1 to 9, 2 * 3 * 4 <it> @stands "for" is 100% #text
 *   large   the rest: see `teff_one_get`
 */
#ifndef TEFF_ONE_H
#define TEFF_ONE_H

/* Declares a function. */
#define TEFF_EXPORT extern
#define TEFF__HIDDEN 1

/* A one, known by its pointer. */
typedef struct teff_one teff_one, teff_other;

/* A function of yours. */
typedef void teff_hook(void *user);

/* Two macros: TEFF_FIRST and TEFF_SECOND. */
#define TEFF_FIRST(n)  ((n) << 1)
#define TEFF_SECOND(n) ((n) << 2)

/* The only one. */
enum { TEFF_ONE_MAX = 10 };

/* Kinds. */
enum teff_kind {
    TEFF_KIND_A = 1, /* the first */
    TEFF_KIND_B = 2  /* the last */
};

/* XX(name, number, text). */
/* clang-format off */
#define TEFF_TABLE(XX) \\
    XX(TEFF_GOOD, 0, "done") \\
    XX(TEFF_BAD, -1, "not done")
/* clang-format on */

/* The table as constants. */
enum teff_table {
#define TEFF__CONSTANT(NAME, number, text) NAME = (number),
    TEFF_TABLE(TEFF__CONSTANT)
#undef TEFF__CONSTANT
};

/* Options. */
typedef struct teff_options {
    int width, height; /* in rows */

    /* `start` is called with `user`. */
    int (*start)(void *user);
    void *user;
} teff_options;

/*
 * Makes one.
 *
 * Ownership: copies *options; gives one.
 * Threads:   any.
 * Errors:    TEFF_BAD: it is bad.
 */
TEFF_EXPORT int teff_one_create(const teff_options *options, teff_one **ret);

/*
 * Its number.
 *
 * Threads: any.
 * Errors:  as teff_one_create.
 */
TEFF_EXPORT int teff_one_get(const teff_one *one, int *ret);

/* How large it is. Threads: any. */
TEFF_EXPORT long teff_one_size(const teff_one *one);

/* Its name. Ownership: borrows it until the next call. Threads: its own. */
TEFF_EXPORT const char *teff_one_name(const teff_one *one);

/*
 * Keeps what is yours.
 *
 * Ownership: borrows `user`.
 * Threads:   any.
 */
TEFF_EXPORT void teff_one_keep(teff_one *one, void (*done)(void *user), void *user);

#endif
"""

README = """# one

A [page](docs/page.md), [a part of it](docs/page.md#a-part), [a header](include/teff/one.h), [the rest](meson.build).

<!-- ping -->
```text
fast
```
<!-- /ping -->

```c file=one.c
#include <teff/one.h>
```
"""
PAGE = "# page\n\n[back](../README.md)\n\n## A part\n\n[up](#a-part), [out](https://example.org/)\n"

ONE = "include/teff/one.h"
GOOD = {"README.md": README, "docs/page.md": PAGE, "meson.build": "project('one', 'c', version: '1.2.3')\n", ONE: HEADER}

# (check, file, old, new, what must be said)
FAULTS = [
    ("documented", ONE, "/*\n * One:", "#undef NONE\n/*\n * One:", f"{ONE}:1: the header has no comment"),
    ("documented", ONE, "/* A one, known by its pointer. */\n", "", f"{ONE}:17: teff_other: no comment"),
    ("documented", ONE, "/* A function of yours. */\n", "/* A function of yours. */\n\n", "teff_hook: no comment"),
    ("documented", ONE, "/* Two macros: TEFF_FIRST and TEFF_SECOND. */\n", "", "TEFF_FIRST: no comment"),
    ("documented", ONE, " and TEFF_SECOND", "", "TEFF_SECOND: no comment, and its neighbour's does not name it"),
    ("documented", ONE, "/* The only one. */\n", "", "TEFF_ONE_MAX: no comment"),
    ("documented", ONE, "/* Kinds. */\n", "", "teff_kind: no comment"),
    ("documented", ONE, "/* the first */", "", "TEFF_KIND_A: no comment"),
    ("documented", ONE, "/* the last */", "", "TEFF_KIND_B: no comment"),
    ("documented", ONE, "/* XX(name, number, text). */\n", "", "TEFF_TABLE: no comment"),
    ("documented", ONE, "/* Options. */\n", "", "teff_options: no comment"),
    ("documented", ONE, "/* in rows */", "", "height: no comment"),
    ("documented", ONE, "with `user`", "with it", "user: no comment, and its neighbour's"),
    ("documented", ONE, "/* How large it is. Threads: any. */\n", "", "teff_one_size: no comment"),
    ("documented", ONE, "#endif\n", "TEFF_EXPORT int teff_two(void);\n#endif\n", "teff_two: no comment"),
    ("fields", ONE, " * Ownership: copies *options; gives one.\n", "", "teff_one_create: no Ownership, and it puts a pointer out"),
    ("fields", ONE, " * Errors:    TEFF_BAD: it is bad.\n", "", "teff_one_create: no Errors, and it returns a status"),
    ("fields", ONE, " * Threads:   any.\n * Errors:  ", " * Errors:  ", "teff_one_create: no Threads"),
    ("fields", ONE, "it is. Threads: any.", "it is.", "teff_one_size: no Threads"),
    ("fields", ONE, " Ownership: borrows it until the next call.", "", "teff_one_name: no Ownership, and it returns a pointer"),
    ("fields", ONE, " * Ownership: borrows `user`.\n", "", "teff_one_keep: no Ownership, and it takes the pointer `user`"),
    ("fields", ONE, "const teff_one *one, int *ret", "const teff_one *one, int *into", "takes the pointer `into`"),
    ("fields", ONE, "#endif\n", "/* Threads: any. */\nTEFF_EXPORT void teff_two(teff_options *options);\n#endif\n",
     "teff_two: no Ownership, and it takes the pointer `options`"),
    ("fields", ONE, "Ownership: borrows `user`.", "Owner:   borrows `user`.", "Owner is no field"),
    ("doxygen", ONE, "/* in rows */", "", "is not documented"),
    ("doxygen", ONE, "/* How large it is. Threads: any. */\n", "", "teff_one_size(const teff_one *one) (function) of file one.h is not"),
    ("doxygen", ONE, "/* Kinds. */\n", "", "teff_kind"),
    ("doxygen", "docs/page.md", "# page\n", "# page\n\n@ref nowhere\n", "'nowhere'"),
    ("doxygen", "docs/page.md", "## A part\n", "## Another\n", "docs-page-md-a-part"),
    ("doxygen", "README.md", "include/teff/one.h", "include/teff/two.h", "teff/two.h"),
    ("doxygen", "docs/reference/Doxyfile", "GENERATE_HTML ", "GENERATE_HTM ", "GENERATE_HTM"),
    ("doxygen", "docs/reference/Doxyfile", "GENERATE_HTML          = YES", "GENERATE_HTML = NO", "there is no index.html"),
]

# (what of the header, as Doxygen is to read it)
READ = [
    "/** \\file\n *\n * One: all that a header may hold.",
    " * \\code{.c}\n * int r = teff_one_get(one, &number);\n * \\endcode",
    "<tr><td>small</td><td>1 to 9, 2 &lowast; 3 &lowast; 4 &lt;it&gt; \\@stands &quot;for&quot; is 100\\% \\#text</td></tr>",
    "<td>the rest: see <code>#teff_one_get</code></td>",
    "typedef struct teff_one teff_one;\n/**\n * A one, known by its pointer.\n */\ntypedef struct teff_one teff_other;",
    "TEFF_KIND_B = 2  /**< the last */",
    "TEFF_GOOD = 0, /**< done */\nTEFF_BAD = -1, /**< not done */",
    "int width;\n/**\n * in rows\n */\nint height;",
    "\\par Ownership\n * copies <code>&lowast;options</code>; gives one.",
    "\\par Errors\n * as #teff_one_create.",
    " * How large it is.\n * \n * \\par Threads\n * any.",
    "/**\n * XX(name, number, text).\n */\n/* clang-format off */",
]


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(HERE.parents[1] / "docs" / "reference", root / "docs" / "reference",
                    ignore=shutil.ignore_patterns("__pycache__"))


def problems_of(fault):
    check, name, old, new, _ = fault
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        write(root, GOOD)
        if name:
            text = (root / name).read_text(encoding="utf-8")
            assert old in text, f"{name} has no {old!r}"
            (root / name).write_text(text.replace(old, new, 1), encoding="utf-8")
        try:
            return list(reference.CHECKS[check](root))
        except reference.Missing as missing:
            return missing


def main():
    passed = failed = 0
    faults = [(check, None, None, None, None) for check in reference.CHECKS] + FAULTS
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (check, name, _, _, expected), problems in zip(faults, pool.map(problems_of, faults)):
            if isinstance(problems, reference.Missing):
                print(f"left out: {check}: {problems} is not installed")
                continue
            good = any(expected in problem for problem in problems) if name else not problems
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok' if good else 'not ok'}: {check}: {expected or 'accepts what is right'}")
            if not good:
                print("\n".join(problems))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        write(root, GOOD)
        text = doxygen_filter.header_text(HEADER, doxygen_filter.Names(root))
        for part in READ:
            good = part in text
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok' if good else 'not ok'}: the filter gives {part!r}" + ("" if good else "\n" + text))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
