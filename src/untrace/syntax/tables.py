"""Write the numbers of an array in full lines, where the layout has one on each.

`ruff format` leaves such a statement as it is, since `# fmt: skip` stands at its end.
"""

from __future__ import annotations

import ast
import collections
from collections.abc import Iterator, Sequence

from untrace.parsing import parse
from untrace.syntax.layout import INDENT, WIDTH

MAX_COLUMN = 12
"""How many numbers may stand in one column."""
MAX_ROW = 3
"""How many numbers a list has that stands among others in a line."""


def with_tables(text: str) -> str:
    """Return the text of a module with the numbers of its longer arrays in full lines."""
    if "[\n" not in text:
        return text
    lines = text.split("\n")
    tree = parse(text)
    tables = list(_tables(tree, None, lines))
    for last in {(statement.end_lineno or 0) - 1 for _, statement in tables}:
        lines[last] += "  # fmt: skip"
    for table, _ in reversed(tables):
        first, last = table.lineno - 1, (table.end_lineno or 0) - 1
        head, rest = lines[first][: table.col_offset], lines[last].strip()[1:]
        pad = head[: len(head) - len(head.lstrip(" "))]
        made = _written(table, lines, pad)
        lines[first : last + 1] = [head + made[0], *made[1:-1], made[-1] + rest]
    return "\n".join(lines)


def _tables(
    node: ast.AST, statement: ast.stmt | None, lines: Sequence[str]
) -> Iterator[tuple[ast.List, ast.stmt]]:
    """Yield the lists to write in full lines, with the statements that they stand in."""
    if isinstance(node, ast.stmt):
        statement = node if isinstance(node, _SIMPLE) else None
    if isinstance(node, ast.List) and statement is not None and _is_table(node, lines):
        yield node, statement
        return
    for child in ast.iter_child_nodes(node):
        yield from _tables(child, statement, lines)


_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
"""Statements that have no others in them."""


def _is_table(node: ast.List, lines: Sequence[str]) -> bool:
    """Whether a list of numbers has more of them alone in their lines than one column may."""
    numbers = collections.Counter([one.lineno for one in _numbers(node) or ()])
    if list(numbers.values()).count(1) <= MAX_COLUMN:
        return False
    return all(line.isascii() for line in lines[node.lineno - 1 : node.end_lineno])


def _numbers(node: ast.List) -> list[ast.expr] | None:
    """Return the numbers in a list of numbers or of such lists; None if it is none."""
    found: list[ast.expr] = []
    for item in node.elts:
        inner = _numbers(item) if isinstance(item, ast.List) else [item]
        if inner is None or not (isinstance(item, ast.List) or _is_number(item)):
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


def _written(node: ast.List, lines: Sequence[str], pad: str) -> list[str]:
    """Return the lines of a list: numbers in full lines, lists one below the other."""
    made = ["["]
    room = WIDTH - len(pad) - len(INDENT)
    row = ""
    for item in node.elts:
        if isinstance(item, ast.List) and not _is_short(item):
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
    return [*made, f"{pad}]"]


def _is_short(node: ast.List) -> bool:
    """Whether a list stands among others in a line: it holds few numbers, and no lists."""
    return len(node.elts) <= MAX_ROW and all(map(_is_number, node.elts))


def _on_one_line(node: ast.expr, lines: Sequence[str]) -> str:
    if isinstance(node, ast.List):
        return f"[{', '.join([_on_one_line(item, lines) for item in node.elts])}]"
    return lines[node.lineno - 1][node.col_offset : node.end_col_offset]
