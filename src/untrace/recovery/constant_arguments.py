"""Which arguments of a call are constants that stand in the caller's source.

That only matters where other arguments are the same number: `jnp.where(x > 0, 1.0, slope)`
with a slope of 1.0 has one object twice, since the compiler makes one of such numbers.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from untrace import jaxapi
from untrace.recovery.constant_variables import is_constant_variable
from untrace.recovery.expressions import expression_at, is_local, static_value
from untrace.recovery.functions import signature_of
from untrace.recovery.record import Call


def constant_arguments(
    frame: types.FrameType, call: Call, values: Iterable[Any]
) -> frozenset[str]:
    """Return the parameters that take constants, if floats among `values` are one object.

    Args:
      frame: The caller's, which is at the call.
      values: What it was given.
    """
    floats = [id(value) for value in values if type(value) is float]
    if len(set(floats)) == len(floats):
        return frozenset()
    node = expression_at(frame.f_code, frame.f_lasti)
    if not isinstance(node, ast.Call) or _has_stars(node):
        return frozenset()
    return frozenset(_constant(node, _parameters(call, node, frame), frame))


def _constant(
    node: ast.Call, parameters: Sequence[str], frame: types.FrameType
) -> Iterator[str]:
    named = [(k.arg, k.value) for k in node.keywords]
    for name, argument in [*zip(parameters, node.args), *named]:
        if name is not None and _is_constant(argument, frame):
            yield name


def _is_constant(node: ast.expr, frame: types.FrameType) -> bool:
    if isinstance(node, ast.Name):
        return not is_local(node.id, frame) or is_constant_variable(frame, node.id)
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant)


def _has_stars(node: ast.Call) -> bool:
    is_starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    return is_starred or any(keyword.arg is None for keyword in node.keywords)


def _parameters(call: Call, node: ast.Call, frame: types.FrameType) -> Sequence[str]:
    """List what a function calls its positional arguments; nothing if that is unclear."""
    if call.is_own:
        code = call.bodies[0].code
        names: Sequence[str] = code.co_varnames[: code.co_argcount]
        is_method = code.co_name in ("__call__", "__init__")
    else:
        function = jaxapi.open_boundary(call.function)
        if not isinstance(function, types.FunctionType):
            return ()
        names, is_method = list(signature_of(function).parameters), False
    if isinstance(node.func, ast.Attribute):
        owner = static_value(node.func.value, frame)
        is_method |= not isinstance(owner, types.ModuleType | type)
    return names[1:] if is_method else names
