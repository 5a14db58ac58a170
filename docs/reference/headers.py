# SPDX-License-Identifier: MIT
"""Reads a public header as a reader does: which comment belongs to which declaration.

A comment belongs to the declaration that follows it without an empty line, or that ends on its line. What follows a
declaration without an empty line, and has no comment, shares that one's, if it is named there. The comment at the top,
after the licence, belongs to the file. filter.py makes Doxygen's comments of them, and tests/docs/reference.py sees that
there are any; it reads only C as these headers and clang-format write it.
"""
import re

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FIELDS = ("Ownership", "Threads", "Suspends", "Time", "Errors")
FIELD = re.compile(rf"(?:^|(?<=[.;] )|(?<=\n))({'|'.join(FIELDS)}):[ \t]+", re.MULTILINE)


class Item:
    """A declaration: its kind, the names it gives, where it stands, and its members."""

    def __init__(self, kind, names, start, end, code):
        self.kind, self.names, self.start, self.end, self.code = kind, names, start, end, code
        self.before = self.after = self.shared = None  # (start, end) of comments
        self.members = []

    def comment(self):
        return self.before or self.after or self.shared


def lines_of(comment):
    """The text of a comment, without what frames it."""
    lines = comment[2:-2].split("\n")
    lines = [lines[0][1:] if lines[0].startswith(" ") else lines[0]] + [re.sub(r"^[ \t]*\* ?", "", line) for line in lines[1:]]
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    return [line.rstrip() for line in lines]


def text_of(comment):
    return "\n".join(lines_of(comment))


def fields_of(comment):
    """{field: text} of a docstring; a field may also stand within a line, behind a sentence."""
    parts = FIELD.split(text_of(comment))
    return {name: re.sub(r"\s+", " ", text).strip() for name, text in zip(parts[1::2], parts[2::2])}


def blank_comments(code):
    return re.sub(r"\s+", " ", COMMENT.sub(" ", code)).strip()


def split_top(text, separator=","):
    """Splits where no bracket is open."""
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == separator and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    return [part.strip() for part in parts + [current]]


def declarators(code):
    """The names that a declaration of members or types gives: `int a, *b[2]` gives a and b."""
    pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", code)
    if pointer:
        return [pointer.group(1)]
    return [found.group(1) for part in split_top(code) for found in [re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)?$", part)] if found]


def classify(code, enum):
    """(kind, names) of a statement without its comments."""
    if enum:
        return ("table" if re.match(r"\w+\(\w+\)$", code) else "constant"), [re.match(r"\w+", code).group(0)]
    if code.startswith("TEFF__ASSERT") or re.match(r"struct \w+$", code):
        return "none", []
    body = re.match(r"(typedef )?(struct|union|enum)\b ?(\w+)? ?\{.*\} ?(\w+)?$", code)
    if body:
        name = body.group(4) if body.group(1) else body.group(3)
        return body.group(2), [name] if name else []
    if code.startswith("typedef "):
        function = re.match(r"typedef [^(]*?(\w+) ?\(", code)
        return "type", [function.group(1)] if function else declarators(code)
    function = re.search(r"\b(teff_\w+) ?\(", code)
    if function and "(*" not in code.split(function.group(1))[0]:
        return "function", [function.group(1)]
    return "member", declarators(code)


def statement_end(text, position, end, separator):
    """Where the statement ends that begins there: behind its separator, or before what closes the list."""
    depth = 0
    while position < end:
        if text.startswith("/*", position):
            if depth == 0 and separator == ",":
                return position
            position = text.index("*/", position) + 2
            continue
        letter = text[position]
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0 and letter == separator:
            return position + 1
        if depth == 0 and letter == "\n" and text[position:end].lstrip().startswith("#") and separator == ",":
            return position
        position += 1
    return position


def scan(text, position, end, separator=";"):
    """The declarations between two places of a text, in their order."""
    items, before, last = [], None, None  # last: what nothing but one line's end may separate from the next
    while position < end:
        space = re.compile(r"\s*").match(text, position, end).group(0)
        position += len(space)
        if space.count("\n") > 1:
            before = last = None
        if position >= end:
            break
        if text.startswith("/*", position):
            stop = text.index("*/", position) + 2
            if text.startswith("/* clang-format", position):
                pass
            elif items and "\n" not in text[items[-1].end:position] and items[-1].after is None:
                items[-1].after = (position, stop)
            else:
                before, last = (position, stop), None
            position = stop
            continue
        if text[position] == "#":
            stop = re.compile(r"(?:[^\\\n]|\\.|\\\n)*").match(text, position, end).end()
            define = re.match(r"#\s*define\s+(\w+)", text[position:stop])
            guard = define and re.match(r"#\s*define\s+\w+_H$", text[position:stop])
            if define and not guard:
                item = Item("macro", [define.group(1)], position, stop, text[position:stop])
            else:
                item = Item("none", [], position, stop, "")
        else:
            stop = statement_end(text, position, end, separator)
            code = blank_comments(text[position:stop]).rstrip("; ,")
            item = Item(*classify(code, separator == ","), position, stop, code)
            brace = text.find("{", position, stop)
            if item.kind in ("struct", "union", "enum") and brace >= 0:
                item.members = scan(text, brace + 1, text.rindex("}", brace, stop), "," if item.kind == "enum" else ";")
        if item.kind == "none":
            before = last = None
        else:
            item.before, before = before, None
            if item.before is None and last is not None:
                item.shared = last
            last = item.before or item.shared
            items.append(item)
        position = item.end
    for item in items:
        if item.after is not None:
            item.shared = None
    return items


def public(name):
    return not name.lower().startswith("teff__")


class Header:
    """A header's file comment and declarations. A constant alone in its enum has that one's comment."""

    def __init__(self, text):
        self.text = text
        licence = re.match(r"/\* SPDX[^\n]*\*/\s*", text)
        start = licence.end() if licence else 0
        top = COMMENT.match(text, start)
        self.top = (start, top.end()) if top else None
        self.items = scan(text, top.end() if top else start, len(text))
        for item in self.items:
            if item.kind == "enum" and len(item.members) == 1 and item.members[0].comment() is None:
                item.members[0].shared = item.comment()

    def comment(self, span):
        return self.text[span[0]:span[1]]

    def all(self):
        """(item, the struct or enum around it)"""
        for item in self.items:
            yield item, None
            for member in item.members:
                yield member, item

    def names(self):
        return {name for item, _ in self.all() for name in item.names if public(name)}

    def rows(self, table):
        """[(constant, value, text)] of a macro like TEFF_STATUS_MAP."""
        for item in self.items:
            if item.kind == "macro" and table in item.names:
                code = re.sub(r"\\\n\s*", " ", item.code)
                return [(name, number, text) for name, number, text in
                        re.findall(r'XX\((\w+),\s*(-?\d+),\s*"([^"]*)"\)', code)]
        return []
