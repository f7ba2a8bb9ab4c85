"""Find the generated statement behind a difference."""

from __future__ import annotations

import linecache
import textwrap
from typing import Any

from untrace import jaxapi
from untrace.parsing import parse
from untrace.verification.difference import Difference


def source_line(actual: Any, difference: Difference, filename: str) -> str:
    """Return what of the generated file made the differing equation, or ""."""
    eqn = difference.equation or _equation(actual, difference)
    line = 0 if eqn is None else jaxapi.line_in_file(eqn.source_info, filename)
    text = statement_at(filename, line) if line else ""
    return f"line {line}: {text}" if text else ""


_MAX_LINES = 60


def statement_at(filename: str, line: int) -> str:
    """Return a line of a file, on one line with the rest of the statement it begins."""
    lines = linecache.getlines(filename)[line - 1 : line - 1 + _MAX_LINES]
    first = lines[0].strip() if lines else ""
    if not first.endswith(("(", "[", "{")):
        return first
    for end in range(2, len(lines) + 1):
        try:
            parse(textwrap.dedent("".join(lines[:end])))
        except SyntaxError:
            continue
        return " ".join(map(str.strip, lines[:end]))
    return first


def _equation(jaxpr: Any, difference: Difference) -> Any:
    """Follow a difference's path through the sub-programs of a jaxpr."""
    eqn: Any = None
    params = difference.path.split("/")[1::2]
    for index, param in zip(difference.indices, [*params, ""]):
        body, _ = jaxapi.split_jaxpr(jaxpr)
        if index >= len(body.eqns):
            break
        eqn = body.eqns[index]
        jaxpr = sub_program(eqn.params, param)
        if not jaxapi.is_jaxpr(jaxpr):
            break
    return eqn


def sub_program(params: Any, step: str) -> Any:
    """Follow one step of a path, such as `jaxpr` or `branches[1]`."""
    name, _, rest = step.partition("[")
    value = params.get(name)
    position = rest.rstrip("]")
    if position.isdigit() and isinstance(value, tuple) and int(position) < len(value):
        return value[int(position)]
    return value
