"""Lay statements out in at most 88 columns, exactly as `ruff format` would.

Only lines that are too long cost anything: they are split at their last bracket, then
at its commas, as Black and ruff do. That every generated file is left unchanged by
`ruff format` is checked by the tests on the whole corpus; see docs/design/layout.md
for why this is not a call of ruff at run time.
"""

from __future__ import annotations

import re

from untrace.optional import optional, unchanged
from untrace.syntax.text import STRING

WIDTH = 88
INDENT = "    "

_OPEN = frozenset("([{")
_CLOSE = frozenset(")]}")
# What matters to the structure of a line; string literals are skipped as a whole.
_MARKS = re.compile(rf"[\[\](){{}},#]|{STRING}")
_BRACKETS = re.compile(r"[\[\](){}]")
# What cannot stand left of an assignment's sign.
_ARGUMENT = re.compile(r"""["'=.]|\w\(|^(?:def|return|with|from|import|class) """)


@optional(unchanged)
def lay_out(lines: list[str]) -> list[str]:
    """Split the logical lines that are too long; leave the others as they are."""
    laid: list[str] = []
    for line in lines:
        if len(line) <= WIDTH:
            laid.append(line)
        else:
            laid.extend(_split(line))
    return laid


def _split(line: str) -> list[str]:
    text = line.lstrip(" ")
    pad = line[: len(line) - len(text)]
    if text.startswith("#"):
        return [line]
    code, comment = _without_comment(text)
    if comment:
        return [pad + comment, *lay_out([pad + code])]
    return _split_statement(pad, code)


def _split_statement(pad: str, code: str) -> list[str]:
    if code.startswith("return ") and len(items := split_commas(code[7:])) > 1:
        return [f"{pad}return (", *_items(pad, items), f"{pad})"]
    if code.startswith("with ") and len(items := split_commas(code[5:-1])) > 1:
        return [f"{pad}with (", *_items(pad, items), f"{pad}):"]
    if code.startswith("from "):
        head, _, names = code.partition(" import ")
        return [f"{pad}{head} import (", *_items(pad, split_commas(names)), f"{pad})"]
    targets, sign, value = _split_assignment(code)
    if sign and len(pad) + len(targets) + 8 > WIDTH:
        names = split_commas(_unwrapped(targets))
        head = [f"{pad}(", *_items(pad, names), f"{pad}) = {value}"]
        return [*head[:-1], *lay_out(head[-1:])]
    return _split_brackets(pad, code)


def _unwrapped(targets: str) -> str:
    """Drop the brackets around all targets, if there are any."""
    depth = 0
    for position, char in enumerate(targets):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return targets[1:-1] if position == len(targets) - 1 > 0 else targets
    return targets


def _split_brackets(pad: str, code: str) -> list[str]:
    """Split at the last bracket pair; then, if need be, at the commas inside it."""
    pair = _split_pair(code, WIDTH - len(pad))
    if pair is None:
        return [pad + code]
    start, stop = pair
    head, body, tail = code[: start + 1], code[start + 1 : stop], code[stop:]
    if not body:
        return [pad + code]
    inner = pad + INDENT
    if len(inner) + len(body) <= WIDTH and not _is_display(code, start, body):
        return [pad + head, inner + body, pad + tail]
    items = split_commas(body)
    if len(items) == 1 and not body.rstrip().endswith(","):
        lines = lay_out_item(inner, items[0])
        return [pad + head, *lines, pad + tail]
    return [pad + head, *_items(pad, items), pad + tail]


def _is_display(code: str, start: int, body: str) -> bool:
    """Whether the bracket is a display of several items, not a call's or index's."""
    follows = start > 0 and (code[start - 1].isalnum() or code[start - 1] in "_)]")
    return not follows and (len(split_commas(body)) > 1 or body.endswith(","))


def _items(pad: str, items: list[str]) -> list[str]:
    inner = pad + INDENT
    lines: list[str] = []
    for item in items:
        lines.extend(lay_out_item(inner, item + ","))
    return lines


def lay_out_item(pad: str, item: str) -> list[str]:
    """Lay out one element of a bracket, with its trailing comma."""
    if len(pad) + len(item) <= WIDTH:
        return [pad + item]
    return _split_brackets(pad, item)


def split_commas(text: str) -> list[str]:
    """Split at the commas that stand outside all brackets and strings."""
    if not any(char in text for char in "([{\"'"):
        return [item for part in text.split(",") if (item := part.strip())]
    if '"' not in text and "'" not in text:
        return _split_unquoted(text)
    items: list[str] = []
    depth = begin = 0
    for match in _MARKS.finditer(text):
        char = match[0]
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif char == "," and depth == 0:
            items.append(text[begin : match.start()].strip())
            begin = match.end()
    last = text[begin:].strip()
    return [*items, last] if last else items


def _split_unquoted(text: str) -> list[str]:
    """Split as `split_commas` does, counting the brackets between commas."""
    items: list[str] = []
    depth = 0
    pending: list[str] = []
    for part in text.split(","):
        for bracket in _OPEN:
            depth += part.count(bracket)
        for bracket in _CLOSE:
            depth -= part.count(bracket)
        pending.append(part)
        if depth == 0:
            items.append(",".join(pending).strip())
            pending = []
    items += [",".join(pending).strip()] if pending else []
    return items if items[-1] else items[:-1]


def _split_pair(code: str, width: int) -> tuple[int, int] | None:
    """Find the bracket pair to split at: the last one whose head fits in `width`."""
    pairs: list[tuple[int, int]] = []
    depth = start = 0
    is_quoted = '"' in code or "'" in code
    for match in (_MARKS if is_quoted else _BRACKETS).finditer(code):
        char = match[0]
        if char in _OPEN:
            if depth == 0:
                start = match.start()
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth == 0 and match.start() > start + 1:
                pairs.append((start, match.start()))
    fitting = [pair for pair in pairs if pair[0] < width]
    return fitting[-1] if fitting else (pairs[0] if pairs else None)


def _split_assignment(code: str) -> tuple[str, str, str]:
    """Split `targets = value`; the sign is "" if there is no assignment."""
    targets, sign, value = code.partition(" = ")
    if sign and _ARGUMENT.search(targets) is None:
        return targets, sign, value
    return code, "", ""


def _without_comment(text: str) -> tuple[str, str]:
    if "  # " not in text:
        return text, ""
    for match in _MARKS.finditer(text):
        if match[0] == "#" and text.endswith("  ", 0, match.start()):
            return text[: match.start()].rstrip(), text[match.start() :]
    return text, ""
