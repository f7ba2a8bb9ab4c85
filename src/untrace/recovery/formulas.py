"""How the caller's source computes a number that a call was given: `0.5 * step_size`.

The position of the call's instruction leads to its expression in the source file. An
argument there that is arithmetic on numbers and sizes of arrays is evaluated again, with
what the caller's variables hold, and only counts if it gives the very same number. Integers
count if an array's size is among what they are computed from, or if they are the module's,
`HEADS` and `2 * HEADS`.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import operator
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from untrace.recovery.constant_variables import is_constant_variable
from untrace.recovery.expressions import (
    expression_at,
    held_by,
    is_local,
    source_tree,
    static_value,
)
from untrace.recovery.numbers import flattened, is_any_array
from untrace.recovery.record import Formula
from untrace.recovery.sites import once_per_site
from untrace.syntax.precedence import SYMBOLS

MAX_DEPTH = 8
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "//": operator.floordiv,
}
_MATH = frozenset(name for name in dir(math) if not name.startswith("_"))
_COMPUTED = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Subscript)


def formulas(frame: types.FrameType, values: Iterable[Any]) -> tuple[Formula, ...]:
    """Return how the calling expression computes some of the numbers given.

    Args:
      frame: The caller's, which is at the call.
      values: What the call was given.
    """
    numbers = [v for v in flattened(values) if type(v) in (int, float)]
    if not numbers:
        return ()
    counts = Counter(map(repr, numbers))
    given = {repr(v): v for v in numbers}
    arguments = _arguments(frame.f_code, frame.f_lasti)
    found = [_formula(argument, frame, argument, 0) for argument in arguments]
    made = [f for f in found if f is not None and repr(f.value) in given]
    written = Counter(map(repr, made))
    return tuple(
        [
            replace(formula, value=given[repr(formula.value)])
            for formula in made
            if (type(formula.value) is float and formula.symbol)
            # Integers that are equal are one object, wherever they stand.
            or (
                (formula.has_size() or formula.is_modules())
                and counts[repr(formula.value)] == written[repr(formula)]
            )
        ]
    )


@once_per_site
def _arguments(code: types.CodeType, lasti: int) -> tuple[ast.expr, ...]:
    """Return the arguments of a call that are more than numbers and simple names."""
    node = expression_at(code, lasti)
    if isinstance(node, ast.Call):
        found = [*node.args, *(k.value for k in node.keywords)]
    elif isinstance(node, ast.BinOp):
        found = [node.left, node.right]
    elif isinstance(node, ast.Compare):
        found = [node.left, *node.comparators]
    elif isinstance(node, ast.Subscript):
        found = [node.slice]
    else:
        found = []
    items = itertools.chain.from_iterable(map(_items, found))
    return tuple([e for e in items if isinstance(e, _COMPUTED) and _is_arithmetic(e)])


def _items(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the items of a tuple, and the bounds of slices."""
    if isinstance(node, (ast.Tuple, ast.List)):
        for item in node.elts:
            yield from _items(item)
    elif isinstance(node, ast.Slice):
        yield from (one for one in (node.lower, node.upper, node.step) if one)
    else:
        yield node


def _is_arithmetic(node: ast.expr) -> bool:
    """Tell from its form alone whether an expression may be arithmetic on numbers."""
    if isinstance(node, ast.BinOp):
        return _is_arithmetic(node.left) and _is_arithmetic(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_arithmetic(node.operand)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        return name in _MATH and all(map(_is_arithmetic, node.args))
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.Subscript):
        return _size(node) is not None
    return isinstance(node, (ast.Name, ast.Attribute))


def _size(node: ast.Subscript) -> tuple[str, int] | None:
    """Return the variable and the axis in `x.shape[-1]`; None if it is no such."""
    owner, index = node.value, node.slice
    if not isinstance(owner, ast.Attribute) or owner.attr != "shape":
        return None
    sign = 1
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub):
        sign, index = -1, index.operand
    if not isinstance(index, ast.Constant) or type(index.value) is not int:
        return None
    name = owner.value.id if isinstance(owner.value, ast.Name) else ""
    return (name, sign * index.value) if name else None


@functools.lru_cache(maxsize=256)
def _assignments(filename: str) -> dict[ast.expr, dict[str, ast.expr]]:
    """Return, for expressions in functions, what the variables there are assigned once."""
    found: dict[ast.expr, dict[str, ast.expr]] = {}
    for function in ast.walk(source_tree(filename) or ast.Module([], [])):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            once = dict(_assigned_once(function))
            for node in ast.walk(function):
                if isinstance(node, ast.expr):
                    found[node] = once  # the innermost function comes last
    return found


def _assigned_once(function: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the variables that a function assigns in one place only, and what."""
    stores: dict[str, int] = {}
    values: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores[node.id] = stores.get(node.id, 0) + 1
        elif isinstance(node, ast.arg):
            stores[node.arg] = stores.get(node.arg, 0) + 1
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                values[target.id] = node.value
    for name, value in values.items():
        if stores.get(name) == 1:
            yield name, value


def _formula(
    node: ast.expr, frame: types.FrameType, around: ast.expr, depth: int
) -> Formula | None:
    """Evaluate arithmetic on numbers; None for all else."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(node, ast.Constant):
        return _number(node.value, is_constant=True)
    if isinstance(node, ast.Name):
        return _variable(node.id, frame, around, depth)
    if isinstance(node, ast.Attribute):
        return _number(static_value(node, frame))
    if isinstance(node, ast.Subscript):
        return _size_of(node, frame)
    symbol = SYMBOLS[type(node.op)] if isinstance(node, ast.BinOp) else ""
    if isinstance(node, ast.BinOp) and symbol in _BINARY:
        compute = _BINARY[symbol]
        operands = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        symbol, compute, operands = "-", operator.neg, [node.operand]
    elif isinstance(node, ast.Call) and not node.keywords:
        name = _math_function(node.func, frame)
        if not name:
            return None
        symbol, compute, operands = f"math.{name}", getattr(math, name), node.args
    else:
        return None
    made = [_formula(operand, frame, around, depth + 1) for operand in operands]
    known = tuple([one for one in made if one is not None])
    if len(known) < len(made):
        return None
    try:
        value = compute(*[one.value for one in known])
    except (ArithmeticError, ValueError, TypeError):
        return None
    return Formula(value, symbol, known) if type(value) in (int, float) else None


def _size_of(node: ast.Subscript, frame: types.FrameType) -> Formula | None:
    """Return a size of an array that a local variable holds."""
    name, axis = _size(node) or ("", 0)
    array = held_by(name, frame) if name and is_local(name, frame) else None
    if array is None or not is_any_array(array) or not -array.ndim <= axis < array.ndim:
        return None
    size = array.shape[axis]
    if type(size) is not int:  # it may be symbolic
        return None
    return Formula(size, "shape", name=name, is_constant=True, array=array, axis=axis)


def _variable(
    name: str, frame: types.FrameType, around: ast.expr, depth: int
) -> Formula | None:
    """Return what a variable holds, and how that was computed, if that is plain."""
    value = held_by(name, frame)
    is_constant = not is_local(name, frame) or is_constant_variable(frame, name)
    if type(value) in (int, float) and not is_local(name, frame):
        return Formula(value, name=name, is_constant=True)
    if type(value) is not float or is_constant:
        return _number(value, is_constant)
    assigned = _assignments(frame.f_code.co_filename).get(around, {}).get(name)
    made = (
        _formula(assigned, frame, around, depth + 1) if assigned is not None else None
    )
    if made is None or not made.symbol or repr(made.value) != repr(value):
        return Formula(value, name=name)
    return Formula(value, "=", (made,), name)


def _math_function(node: ast.expr, frame: types.FrameType) -> str:
    """Return which function of `math` an expression names; "" if none."""
    if isinstance(node, ast.Attribute):
        owner = node.value
        is_math = isinstance(owner, ast.Name) and held_by(owner.id, frame) is math
        return node.attr if is_math and node.attr in _MATH else ""
    if isinstance(node, ast.Name):
        held = held_by(node.id, frame)
        name = getattr(held, "__name__", "") if callable(held) else ""
        return name if name in _MATH and getattr(math, name) is held else ""
    return ""


def _number(value: Any, is_constant: bool = False) -> Formula | None:
    is_number = type(value) in (int, float)
    return Formula(value, is_constant=is_constant) if is_number else None
