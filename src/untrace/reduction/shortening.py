"""Write what a function of a saved file returns without a name for it.

A name that a function gives only to what it returns at once says nothing that the line of
the user beside it does not say, and takes a line of what is to be pasted. Comes in and
goes out: the text of a module. The inputs of the file stand in one line where there is
room for them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from untrace.parsing import parse
from untrace.syntax.layout import WIDTH


def with_values_returned(text: str) -> str:
    """Return the text of a module whose functions do not name what they return next.

    >>> print(with_values_returned("def f(x):\\n    # why\\n    y = x + 1\\n    return y\\n"))
    def f(x):
        # why
        return x + 1
    <BLANKLINE>
    """
    lines = text.split("\n")
    functions = [n for n in ast.walk(parse(text)) if isinstance(n, ast.FunctionDef)]
    for function in functions:
        shorter = _shorter(function, lines)
        if shorter is not None:
            return with_values_returned("\n".join(shorter))
    return text


def _shorter(function: ast.FunctionDef, lines: list[str]) -> list[str] | None:
    last = function.body[-1]
    if not isinstance(last, ast.Return) or last.lineno != last.end_lineno:
        return None
    if isinstance(last.value, ast.Name):
        return _value_returned(function, last, last.value.id, lines)
    if isinstance(last.value, ast.Call):
        return _values_given(function, last, last.value, lines)
    return None


def _value_returned(
    function: ast.FunctionDef, last: ast.Return, name: str, lines: list[str]
) -> list[str] | None:
    """Write `y = x + 1` and `return y` as one statement."""
    found = _definitions(function, [name], lines)
    if found is None:
        return None
    (made,) = found
    line = f"{' ' * last.col_offset}return {made.text}"
    rest = lines[made.first + 1 : made.end]
    return [*lines[: made.first], line, *rest, *lines[last.lineno :]]


def _values_given(
    function: ast.FunctionDef, last: ast.Return, call: ast.Call, lines: list[str]
) -> list[str] | None:
    """Write `x = ...` and `return dict(x=x)` in one line, if there is room for it."""
    names = [k.value.id for k in call.keywords if isinstance(k.value, ast.Name)]
    is_plain = not call.args and len(names) == len(call.keywords) > 0
    found = _definitions(function, names, lines) if is_plain else None
    if found is None:
        return None
    if len(found) == 1 and found[0].text.endswith("(["):
        return _table_given(last, call, found[0], lines)
    if any(made.end != made.first + 1 for made in found):
        return None
    pairs = [f"{k.arg}={made.text}" for k, made in zip(call.keywords, found)]
    given = f"{ast.unparse(call.func)}({', '.join(pairs)})"
    line = f"{' ' * last.col_offset}return {given}"
    if len(line) > WIDTH or "#" in line or any(k.arg is None for k in call.keywords):
        return None
    return [*lines[: found[0].first], line, *lines[last.lineno :]]


def _table_given(
    last: ast.Return, call: ast.Call, made: _Made, lines: list[str]
) -> list[str] | None:
    """Write an only input whose numbers stand in full lines where it is returned."""
    end, mark, rest = lines[made.end - 1].partition("  #")
    head = f"{' ' * last.col_offset}return {ast.unparse(call.func)}("
    first = f"{head}{call.keywords[0].arg}={made.text}"
    if call.keywords[0].arg is None or not mark or len(first) > WIDTH:
        return None
    between = lines[made.first + 1 : made.end - 1]
    tail = [f"{end}){mark}{rest}", *lines[last.lineno :]]
    return [*lines[: made.first], first, *between, *tail]


class _Made(NamedTuple):
    """The definition of a name: its lines, counted from 0, and its value.

    Of a value of several lines the text is that of the first.
    """

    first: int
    end: int
    text: str


def _definitions(
    function: ast.FunctionDef, names: Sequence[str], lines: Sequence[str]
) -> list[_Made] | None:
    """Return the statements before the last, if they define names that it alone reads."""
    before = function.body[-1 - len(names) : -1]
    used = [n.id for n in ast.walk(function) if isinstance(n, ast.Name)]
    if len(before) != len(names) or any(used.count(name) != 2 for name in names):
        return None
    found: list[_Made] = []
    for name, made in zip(names, before):
        targets = made.targets if isinstance(made, ast.Assign) else []
        target = targets[0] if len(targets) == 1 else None
        line = lines[made.lineno - 1]
        if not isinstance(target, ast.Name) or target.id != name or not line.isascii():
            return None
        text = line[target.end_col_offset :].removeprefix(" = ")
        found.append(_Made(made.lineno - 1, made.end_lineno or 0, text))
    ends = [one.first for one in found[1:]] + [function.body[-1].lineno]
    between = [line for one, end in zip(found, ends) for line in lines[one.end : end]]
    return None if any("#" in line for line in between) else found
