"""Find the generated line behind a difference."""

from __future__ import annotations

import linecache
from typing import Any

from untrace import jaxapi
from untrace.verification.difference import Difference


def source_line(actual: Any, difference: Difference, filename: str) -> str:
    """Return the line of the generated file that made the differing equation, or ""."""
    eqn = difference.equation or _equation(actual, difference)
    line = 0 if eqn is None else jaxapi.line_in_file(eqn.source_info, filename)
    text = linecache.getline(filename, line).strip() if line else ""
    return f"line {line}: {text}" if text else ""


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
