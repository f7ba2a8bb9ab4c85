"""Limits of the type of an array, `jnp.finfo(x.dtype).min`, in the caller's source."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from untrace.recovery.expressions import given_at, held_by, is_local
from untrace.recovery.numbers import array_of
from untrace.recovery.sites import once_per_site
from untrace.recovery.variables import variables_around

LIMIT = "finfo"


def limited_arrays(
    frame: types.FrameType, values: Iterable[Any]
) -> tuple[tuple[str, Any], ...]:
    """Return the arrays in local variables that limits among the arguments are of.

    Args:
      frame: The caller's, which is at the call.
      values: What the call was given.
    """
    if not any(isinstance(value, np.generic) for value in values):
        return ()
    names = _names(frame.f_code, frame.f_lasti)
    held = [array_of(held_by(name, frame)) for name in names if is_local(name, frame)]
    return tuple([(LIMIT, array) for array in held if array is not None])


@once_per_site
def _names(code: types.CodeType, lasti: int) -> tuple[str, ...]:
    """Return the variables whose types have limits that are given to a call."""
    return tuple(
        [name for one in given_at(code, lasti) for name in _limited(one, code)]
    )


def _limited(node: ast.expr, code: types.CodeType) -> Iterator[str]:
    """Yield `x` of `jnp.finfo(x.dtype).min`, and of a variable that is assigned it."""
    if isinstance(node, ast.UnaryOp):
        yield from _limited(node.operand, code)
    elif isinstance(node, ast.Name):
        variables = variables_around(code.co_filename).get(node)
        assigned = variables.assigned.get(node.id) if variables else None
        if assigned is not None and not isinstance(assigned.value, ast.Name):
            yield from _limited(assigned.value, code)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
        function, given = node.value.func, node.value.args
        if isinstance(function, ast.Attribute) and function.attr == LIMIT:
            for one in given:
                if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
                    yield one.value.id
