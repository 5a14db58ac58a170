#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What Doxygen reads in place of a file: filter.py FILE prints it (INPUT_FILTER in the Doxyfile).

In a header plain comments become Doxygen's: fields (Ownership, Threads, …) become sections, indented lines code, lines
like `  turn   a grain that handles a message` a table, and names of this library links. In a page the fences lose what
tests/docs wants of them, and links become Doxygen's.
"""
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import headers  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TERM = re.compile(r"  (\S(?:.*?\S)?) {2,}(\S.*)$")
SECTION = r"\par "


class Names:
    """What the headers declare, so that a text can link to it."""

    def __init__(self, root=ROOT):
        self.links = set()
        for path in sorted((root / "include").rglob("*.h")):
            header = headers.Header(path.read_text(encoding="utf-8"))
            self.links |= {name for item, around in header.all() if around is None or item.kind == "constant"
                           for name in item.names if headers.public(name)}
            for item, _ in header.all():
                if item.kind == "table":
                    self.links |= {name for name, _, _ in header.rows(item.names[0])}

    def escaped(self, text):
        """Text in which nothing is a command of Doxygen's or Markdown's; names of ours are links."""
        parts = []
        for word in re.split(r"(\*?\b[A-Za-z_]\w*\b|[^\w\s])", text):
            if word in self.links:
                parts.append("#" + word)
            elif word.startswith("*") and len(word) > 1:
                parts.append(f"<code>&lowast;{word[1:]}</code>")
            else:
                parts.append({"&": "&amp;", "<": "&lt;", ">": "&gt;", "*": "&lowast;", "@": "\\@", "\\": "\\\\", "#": "\\#",
                              "%": "\\%", '"': "&quot;", "~": "\\~"}.get(word, word))
        return "".join(parts)

    def marked(self, text):
        """The same, with `code` where backticks are."""
        parts = text.split("`")
        return "".join(f"<code>{self.escaped(part)}</code>" if index % 2 else self.escaped(part)
                       for index, part in enumerate(parts))


def paragraphs(lines):
    """[(kind, lines)]: text, code (4 spaces or more behind an empty line or at its start), terms, empty."""
    result = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        last = result[-1][0] if result else "empty"
        if not line:
            kind = "code" if last == "code" else "empty"
        elif last == "code" and indent >= 4:
            kind = "code"
        elif TERM.match(line) or last == "terms" and indent >= 4:
            kind = "terms"
        elif indent >= 4 and last == "empty":
            kind = "code"
        else:
            kind = "text"
        if result and result[-1][0] == kind:
            result[-1][1].append(line)
        else:
            result.append((kind, [line]))
    return result


def terms(lines, names):
    rows = []
    for line in lines:
        found = TERM.match(line)
        if found:
            rows.append([found.group(1), found.group(2)])
        else:
            rows[-1][1] += " " + line.strip()
    cells = []
    for term, text in rows:
        code = re.match(r"[\w&]+(\(.*\))?$", term) and ("_" in term or "(" in term)
        term = f"<code>{names.escaped(term)}</code>" if code else names.marked(term)
        cells.append(f"<tr><td>{term}</td><td>{names.marked(text)}</td></tr>")
    return '<table class="terms">' + "".join(cells) + "</table>"


def body(comment, names):
    """The lines of a docstring in Doxygen's language."""
    text = headers.text_of(comment)
    # A field begins a paragraph, also one that stands within a line.
    text = headers.FIELD.sub(lambda found: f"\n\n\0{found.group(1)}: ", text)
    result = []
    for kind, lines in paragraphs(text.split("\n")):
        if kind == "code":
            while lines and not lines[-1]:
                lines.pop()
            cut = min(len(line) - len(line.lstrip()) for line in lines if line)
            result += [r"\code{.c}", *(line[cut:] for line in lines), r"\endcode", ""]
        elif kind == "terms":
            result += ["", terms(lines, names), ""]
        elif kind == "empty":
            result.append("")
        else:
            prose = "\n".join(line.strip() for line in lines)
            prose = re.sub(r"\0(\w+): ", lambda found: f"{SECTION}{found.group(1)}\n", names.marked(prose))
            result += prose.split("\n")
    return result


def documented(comment, names, opening="/**"):
    return opening + "\n" + "\n".join(" * " + line for line in body(comment, names)) + "\n */"


def after(comment, names):
    return "/**< " + " ".join(line for line in body(comment, names)) + " */"


def one_by_one(item, comment):
    """`int a, b;` as two declarations, each with the comment: Doxygen gives it to the first alone."""
    parts = headers.split_top(item.code)
    base = parts[0][:parts[0].rindex(item.names[0])].rstrip("*")
    parts[0] = parts[0][len(base):]
    return "\n".join(f"{comment}\n{base}{part};" for part in parts)


def header_text(text, names):
    """The header with Doxygen's comments."""
    header = headers.Header(text)
    edits = []  # (start, end, text)
    if header.top:
        edits.append((*header.top, documented(header.comment(header.top), names, "/** \\file\n *")))
    for item, around in header.all():
        if item.kind == "table":
            rows = header.rows(item.names[0])
            edits.append((item.start, item.end, "\n".join(
                f"{name} = {number}, /**< {names.escaped(what)} */" for name, number, what in rows) + "\n"))
        if not any(headers.public(name) for name in item.names) and item.kind != "enum":
            continue
        if item.after and re.fullmatch(r"teff/\w+\.h", headers.text_of(header.comment(item.after))):
            edits.append((item.start, item.after[1], ""))  # declared here for this header, described in that one
        elif len(item.names) > 1 and item.comment():
            comment = documented(header.comment(item.comment()), names)
            if item.before:
                edits.append((*item.before, ""))
            edits.append((item.start, item.after[1] if item.after else item.end, one_by_one(item, comment)))
        elif item.before:
            edits.append((*item.before, documented(header.comment(item.before), names)))
        elif item.after:
            edits.append((*item.after, after(header.comment(item.after), names)))
        elif item.shared:
            edits.append((item.start, item.start, documented(header.comment(item.shared), names) + "\n"))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


# --- Pages --------------------------------------------------------------------------------------


def label(name, anchor):
    """Doxygen's labels are one for all pages."""
    return re.sub(r"\W", "-", f"{name}-{anchor}".lower())


def page_text(text, name):
    """A page; `name` is its path from the root."""
    folder = Path(name).parent

    def link(found):
        title, target = found.groups()
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            return found.group(0)
        full = os.path.normpath(folder / path) if path else name
        if full.endswith(".md") and anchor:
            return f'@ref {label(full, anchor)} "{title}"'
        if full.endswith(".md"):
            return f'@ref {label(full, "top")} "{title}"'
        if full.startswith("include/"):
            return f'@ref {full[len("include/"):]} "{title}"'
        return title

    lines, fence, first = [], False, True
    for line in text.split("\n"):
        if line.startswith("```"):
            fence = not fence
            found = re.match(r"```(\w+)\s+file=", line)
            line = ("```{.c}" if found.group(1) == "c" else "```") if found else re.sub(r"^```text$", "```", line)
        elif not fence:
            heading = re.match(r"(#+) +(.*?) *$", line)
            line = re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, line)
            if heading:
                anchor = re.sub(r"[^\w\- ]", "", heading.group(2).lower()).replace(" ", "-")
                line = f"{heading.group(1)} {heading.group(2)} {{#{label(name, 'top' if first else anchor)}}}"
                first = False
            line = re.sub(r"^<!-- .* -->$", "", line)
        lines.append(line)
    return "\n".join(lines)


def main():
    path = Path(sys.argv[1]).resolve()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = page_text(text, path.relative_to(ROOT).as_posix())
    else:
        text = header_text(text, Names())
    sys.stdout.reconfigure(encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
