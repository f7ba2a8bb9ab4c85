"""Write the numbers of a list or tuple in full lines, where the layout has one on each.

`ruff format` leaves such a statement as it is, since `# fmt: skip` stands at its end.
"""

from __future__ import annotations

import ast
import collections
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from untrace.parsing import parse
from untrace.syntax.layout import INDENT, WIDTH

MAX_COLUMN = 12
"""How many numbers may stand in one column."""
MAX_ROW = 3
"""How many numbers a list has that stands among others in a line."""


def with_tables(text: str) -> str:
    """Return the text of a module with the numbers of its longer lists in full lines."""
    if "[\n" not in text and "(\n" not in text:
        return text
    lines = text.split("\n")
    tree = parse(text)
    tables = list(_tables(tree, None, None, lines))
    for last in {(one.statement.end_lineno or 0) - 1 for one in tables}:
        lines[last] += "  # fmt: skip"
    for table in reversed(tables):
        first, last, head, rest = _place(table, lines)
        pad = head[: len(head) - len(head.lstrip(" "))]
        made = _written(table.numbers, lines, pad)
        lines[first : last + 1] = [head + made[0], *made[1:-1], made[-1] + rest]
    return "\n".join(lines)


_Row = ast.List | ast.Tuple


class _Table(NamedTuple):
    """A list or tuple to write in full lines."""

    numbers: _Row
    statement: ast.stmt
    """In which it stands."""
    call: ast.Call | None
    """Whose first argument it is."""


def _tables(
    node: ast.AST,
    statement: ast.stmt | None,
    call: ast.Call | None,
    lines: Sequence[str],
) -> Iterator[_Table]:
    """Yield the lists and tuples to write in full lines."""
    if isinstance(node, ast.stmt):
        statement = node if isinstance(node, _SIMPLE) else None
    if isinstance(node, _Row) and statement is not None and _is_table(node, lines):
        yield _Table(node, statement, call)
        return
    for child in ast.iter_child_nodes(node):
        around = node if isinstance(node, ast.Call) else None
        is_first = around is not None and around.args[:1] == [child]
        yield from _tables(child, statement, around if is_first else None, lines)


def _place(table: _Table, lines: Sequence[str]) -> tuple[int, int, str, str]:
    """Return the lines to replace, and what stands in them before and after the list.

    What is called opens in the line of the list, and its other arguments stand in the
    line that ends it, where there is room for them.
    """
    node, call = table.numbers, table.call
    first, last = node.lineno - 1, (node.end_lineno or 0) - 1
    head, rest = lines[first][: node.col_offset], lines[last].strip()[1:]
    if call is None or head.strip():
        return first, last, head, rest
    others = [*call.args[1:], *call.keywords]
    opening, end = lines[first - 1], (call.end_lineno or 0) - 1
    is_plain = opening.endswith("(") and all(
        map(str.isascii, lines[first - 1 : end + 1])
    )
    if not is_plain or any(one.lineno != one.end_lineno for one in others):
        return first, last, head, rest
    after = lines[end][(call.end_col_offset or 0) - 1 :]
    closing = "".join([f", {_text(one, lines)}" for one in others]) + after
    pad = len(opening) - len(opening.lstrip(" "))
    if pad + len(closing) + 1 > WIDTH:
        return first, last, head, rest
    return first - 1, end, opening, closing


_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
"""Statements that have no others in them."""


def _is_table(node: _Row, lines: Sequence[str]) -> bool:
    """Whether a list of numbers has more of them alone in their lines than one column may."""
    if isinstance(node, ast.Tuple) and lines[node.lineno - 1][node.col_offset] != "(":
        return False  # `a[1, 2]`
    numbers = collections.Counter([one.lineno for one in _numbers(node) or ()])
    if list(numbers.values()).count(1) <= MAX_COLUMN:
        return False
    return all(line.isascii() for line in lines[node.lineno - 1 : node.end_lineno])


def _numbers(node: _Row) -> list[ast.expr] | None:
    """Return the numbers in a list of numbers or of such lists; None if it is none."""
    found: list[ast.expr] = []
    for item in node.elts:
        inner = _numbers(item) if isinstance(item, _Row) else [item]
        if inner is None or not (isinstance(item, _Row) or _is_number(item)):
            return None
        found += inner
    return found


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.BinOp):  # a complex one
        return _is_number(node.left) and _is_number(node.right)
    is_value = isinstance(node, ast.Constant)
    return is_value and isinstance(node.value, (bool, int, float, complex))


def _written(node: _Row, lines: Sequence[str], pad: str) -> list[str]:
    """Return the lines of a list: numbers in full lines, lists one below the other."""
    opening, closing = "[]" if isinstance(node, ast.List) else "()"
    made = [opening]
    room = WIDTH - len(pad) - len(INDENT)
    row = ""
    for item in node.elts:
        if isinstance(item, _Row) and not _is_short(item):
            first, *rest = _written(item, lines, pad + INDENT)
            made += [f"{pad}{INDENT}{first}", *rest]
            made[-1] += ","
            continue
        text = f"{_on_one_line(item, lines)},"
        if row and len(row) + 1 + len(text) > room:
            made.append(f"{pad}{INDENT}{row}")
            row = ""
        row += f" {text}" if row else text
    if row:
        made.append(f"{pad}{INDENT}{row}")
    return [*made, f"{pad}{closing}"]


def _is_short(node: _Row) -> bool:
    """Whether a list stands among others in a line: it holds few numbers, and no lists."""
    return len(node.elts) <= MAX_ROW and all(map(_is_number, node.elts))


def _on_one_line(node: ast.expr, lines: Sequence[str]) -> str:
    if not isinstance(node, _Row):
        return _text(node, lines)
    inner = ", ".join([_on_one_line(item, lines) for item in node.elts])
    if isinstance(node, ast.List):
        return f"[{inner}]"
    return f"({inner},)" if len(node.elts) == 1 else f"({inner})"


def _text(node: ast.expr | ast.keyword, lines: Sequence[str]) -> str:
    """Return the text of what stands on one line of ASCII."""
    return lines[node.lineno - 1][node.col_offset : node.end_col_offset]
