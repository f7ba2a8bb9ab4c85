"""How the caller's source computes a number that a call was given: `0.5 * step_size`.

The position of the call's instruction leads to its expression in the source file. An
argument there that is arithmetic on numbers and sizes of arrays is evaluated again, with
what the caller's variables hold, and only counts if it gives the very same number. Integers
count if an array's size or an integer parameter is among what they are computed from, or
if they are the module's, `HEADS` and `2 * HEADS`. A variable that was assigned once is what
it was assigned: `batch, length = x.shape`. Functions are those of `math` and the elementwise
ones of NumPy, `np.sqrt(x.shape[-1])`, whose numbers are NumPy's.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import operator
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from untrace.recovery.constant_variables import is_constant_variable, owner_of
from untrace.recovery.expressions import (
    given_at,
    held_by,
    is_local,
    static_value,
)
from untrace.recovery.held_before import array_at
from untrace.recovery.instructions import listing_of
from untrace.recovery.numbers import array_of, flattened
from untrace.recovery.properties import BINARY, property_value
from untrace.recovery.record import Body, Formula, is_library
from untrace.recovery.sites import once_per_site
from untrace.recovery.variables import (
    Position,
    Variables,
    is_tuple,
    size_taken,
    tuple_held,
    variable_of,
    variables_around,
)
from untrace.syntax.precedence import SYMBOLS

MAX_DEPTH = 8
_MATH = frozenset(name for name in dir(math) if not name.startswith("_"))
_UFUNCS = frozenset(k for k, held in vars(np).items() if type(held) is np.ufunc)
_FLOATS = (float, np.float64)
_NUMBERS = (int, *_FLOATS)
_WHOLE = frozenset({"ndim", "size"})
_LITERALS = (ast.Constant, ast.UnaryOp)
_COMPUTED = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Subscript)


def formulas(
    frame: types.FrameType,
    values: Iterable[Any],
    body: Body,
    sizes: Sequence[int] = (),
    near: types.FrameType | None = None,
) -> tuple[Formula, ...]:
    """Return how the calling expression computes the numbers given, in order.

    Integers that are equal are one object, wherever they stand, so all that are have to be
    known. Among the formulas of these are plain numbers, then.

    Args:
      frame: The caller's, which is at the call.
      values: What the call was given.
      body: The run of the function around.
      sizes: Those among them that are written as parts of shapes.
      near: The frame that makes the call, if there is code between: what stands in its
        expression is not what the caller gave it.
    """
    # Lists that code between has made are none of the caller's.
    listed = flattened(values, lambda _: near is None)
    numbers = [v for v in listed if type(v) in _NUMBERS]
    own = set() if near is None else _literals(near.f_code, near.f_lasti)
    numbers = [v for v in numbers if repr(v) not in own]
    if not numbers:
        return ()
    arguments = _arguments(frame.f_code, frame.f_lasti)
    if not any(map(_is_computed, arguments)):
        return ()
    counts = Counter(map(repr, numbers))
    given = {repr(v): v for v in numbers}
    caller = _Caller(frame, body)
    found = [_formula(argument, caller, argument, 0) for argument in arguments]
    made = [f for f in found if f is not None and repr(f.value) in given]
    written = Counter(repr(formula.value) for formula in made)
    written.update(map(repr, sizes))
    telling = {repr(f.value) for f in made if f.is_telling()}
    return tuple(
        [
            replace(formula, value=given[key])
            for formula in made
            if (key := repr(formula.value)) in telling
            and (counts[key] == written[key] or type(formula.value) in _FLOATS)
            and (type(formula.value) is int or formula.symbol)
        ]
    )


@once_per_site
def _literals(code: types.CodeType, lasti: int) -> frozenset[str]:
    """Return the numbers that stand in what a call is given."""
    nodes = itertools.chain.from_iterable(map(ast.walk, given_at(code, lasti)))
    return frozenset([repr(n.value) for n in nodes if isinstance(n, ast.Constant)])


@dataclass(frozen=True, slots=True)
class _Caller:
    """The frame of the caller, and the run of the function around."""

    frame: types.FrameType
    body: Body


@once_per_site
def _arguments(code: types.CodeType, lasti: int) -> tuple[ast.expr, ...]:
    """Return the arguments of a call that may be arithmetic on numbers."""
    known = variables_around(code.co_filename)
    given = [_held(one, known.get(one)) for one in given_at(code, lasti)]
    items = itertools.chain.from_iterable(map(_items, given))
    return tuple(filter(_is_arithmetic, items))


def _held(node: ast.expr, known: Variables | None) -> ast.expr:
    """Return the tuple that an argument is, or that is unpacked there; else the argument."""
    held = tuple_held(node.value if isinstance(node, ast.Starred) else node, known)
    return held if is_tuple(held) else node


def _items(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the items of a tuple or of a sum of tuples, and the bounds of slices."""
    if isinstance(node, (ast.Tuple, ast.List)):
        for item in node.elts:
            yield from _items(item)
    elif isinstance(node, ast.BinOp) and is_tuple(node):
        yield from _items(node.left)
        yield from _items(node.right)
    elif isinstance(node, ast.Slice):
        yield from (one for one in (node.lower, node.upper, node.step) if one)
    else:
        yield node


def _is_computed(node: ast.expr) -> bool:
    """Whether an expression is more than a number or what an object holds."""
    return isinstance(node, _COMPUTED) or (
        isinstance(node, ast.Attribute) and node.attr in _WHOLE
    )


def _is_arithmetic(node: ast.expr) -> bool:
    """Tell from its form alone whether an expression may be arithmetic on numbers."""
    if isinstance(node, ast.BinOp):
        return _is_arithmetic(node.left) and _is_arithmetic(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_arithmetic(node.operand)
    if size_taken(node) is not None:
        return True
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        return name in _MATH | _UFUNCS and all(map(_is_arithmetic, node.args))
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    return isinstance(node, (ast.Name, ast.Attribute))


def _formula(
    node: ast.expr, caller: _Caller, around: ast.expr, depth: int
) -> Formula | None:
    """Evaluate arithmetic on numbers; None for all else."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(node, ast.Constant):
        return _number(node.value, is_constant=True)
    if isinstance(node, ast.Name):
        return _variable(node.id, caller, around, depth)
    if isinstance(node, ast.Attribute):
        whole = _whole_size(node, caller.frame)
        if whole is not None:
            return whole
        value: Any = static_value(node, caller.frame)
        owner = static_value(node.value, caller.frame)
        if isinstance(value, property):
            value = property_value(value, owner)
        if type(value) not in _FLOATS or isinstance(owner, types.ModuleType):
            return _number(value)
        return Formula(value, name=node.attr, is_attribute=True)
    if size_taken(node) is not None:
        return _size_of(node, caller)
    symbol = SYMBOLS[type(node.op)] if isinstance(node, ast.BinOp) else ""
    if isinstance(node, ast.BinOp) and symbol in BINARY:
        compute = BINARY[symbol]
        operands = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        symbol, compute, operands = "-", operator.neg, [node.operand]
    elif isinstance(node, ast.Call) and not node.keywords:
        found = _function(node.func, caller.frame)
        if found is None:
            return None
        (symbol, compute), operands = found, node.args
    else:
        return None
    made = [_formula(operand, caller, around, depth + 1) for operand in operands]
    known = tuple([one for one in made if one is not None])
    if len(known) < len(made):
        return None
    try:
        with np.errstate(all="ignore"):  # the user has been told
            value = compute(*[one.value for one in known])
    except (ArithmeticError, ValueError, TypeError):
        return None
    return Formula(value, symbol, known) if type(value) in _NUMBERS else None


def _whole_size(node: ast.Attribute, frame: types.FrameType) -> Formula | None:
    """Return `x.size` or `x.ndim` of an array that a local variable holds."""
    name = variable_of(node.value)
    if node.attr not in _WHOLE or not name or not is_local(name, frame):
        return None
    array = array_of(static_value(node.value, frame))
    size = getattr(array, node.attr) if array is not None else None
    return (
        Formula(size, node.attr, (), name, True, array) if type(size) is int else None
    )


def _size_of(
    node: ast.expr, caller: _Caller, before: Variables | None = None
) -> Formula | None:
    """Return a size of an array that a local variable holds, or held before."""
    taken = size_taken(node)
    if taken is None:
        return None
    holder, axis = taken
    array = array_at(holder, caller.frame, caller.body, before)
    if array is None or not -array.ndim <= axis < array.ndim:
        return None
    size = array.shape[axis]
    if type(size) is not int:  # it may be symbolic
        return None
    is_length = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    name = variable_of(holder)
    return Formula(
        size, "shape", (), name, True, array=array, axis=axis, is_length=is_length
    )


def _variable(
    name: str, caller: _Caller, around: ast.expr, depth: int
) -> Formula | None:
    """Return what a variable holds, and how that was computed, if that is plain."""
    value = held_by(name, caller.frame)
    if type(value) in _NUMBERS and not is_local(name, caller.frame):
        return Formula(value, name=name, is_constant=True)
    variables = variables_around(caller.frame.f_code.co_filename).get(around)
    if type(value) is int:
        return _integer(name, value, caller, variables, depth)
    is_constant = not is_local(name, caller.frame) or is_constant_variable(
        caller.frame, name
    )
    assigned = variables.assigned.get(name) if variables is not None else None
    # The compiler computes `10 ** (4 / 40)`.
    is_folded = assigned is not None and isinstance(assigned.value, ast.BinOp)
    if type(value) not in _FLOATS:
        return _number(value, is_constant)
    if is_constant and not is_folded:
        return _literal(name, value, variables, caller)
    made = (
        _formula(assigned.value, caller, around, depth + 1)
        if assigned is not None
        else None
    )
    if made is None or not made.symbol or repr(made.value) != repr(value):
        return Formula(value, name=name)
    is_again = _n_reads(caller.frame.f_code, name) > 1
    assert variables is not None
    in_loop = variables.stores[name][0] in variables.looping
    return Formula(value, "=", (made,), name, is_read_again=is_again, in_loop=in_loop)


def _literal(
    name: str, value: float, variables: Variables | None, caller: _Caller
) -> Formula | None:
    """Return a variable of the user's function that is assigned a number, `dt = 0.05`.

    It may be one of a function around. Those of a library are the number.
    """
    code = caller.frame.f_code
    owner = variables.owner(name) if variables is not None else None
    assigned = owner.assigned.get(name) if owner is not None else None
    is_plain = assigned is not None and isinstance(assigned.value, _LITERALS)
    is_known = is_plain and is_local(name, caller.frame) and not is_library(code)
    if type(value) is not float or not is_known:
        return _number(value, is_constant=True)
    number = Formula(value, is_constant=True)
    made = Formula(value, "=", (number,), name, is_constant=True, is_read_again=True)
    return replace(made, is_outer=name in listing_of(code).free)


@functools.lru_cache(maxsize=1024)
def _n_reads(code: types.CodeType, name: str) -> int:
    """Count where a function reads one of its variables."""
    loads = [i for i in listing_of(code).instructions if i.opname.startswith("LOAD_")]
    held = [i.argval if isinstance(i.argval, tuple) else (i.argval,) for i in loads]
    return sum(names.count(name) for names in held)


def _integer(
    name: str, value: int, caller: _Caller, variables: Variables | None, depth: int
) -> Formula | None:
    """Return what an integer variable was computed from, if it is of sizes or parameters."""
    is_constant = is_constant_variable(caller.frame, name)
    owner = variables.owner(name) if variables is not None else None
    if owner is None or is_constant:
        return _number(value, is_constant)
    if owner is not variables or name in listing_of(caller.frame.f_code).free:
        outer = _outer(name, caller)
        made = _integer(name, value, outer, owner, depth) if outer is not None else None
        return replace(made or Formula(value, name=name), is_outer=True)
    latest = owner.latest(name, caller.frame.f_lineno)
    if latest is not None:
        assigned, stored = latest
        node = assigned.value
        if size_taken(node) is not None:
            made = _size_of(node, caller, owner)
        else:
            made = _formula(node, caller, node, depth + 1)
        if made is not None and made.value == value and made.is_telling():
            return Formula(
                value,
                "=",
                (made,),
                name,
                names=assigned.names,
                part=assigned.part,
                in_loop=stored in owner.looping,
                is_reassigned=len(owner.stores[name]) > 1,
            )
    if _is_running(owner.stores[name], owner):
        return None
    held = caller.body.parameters.get(name)
    is_given = type(held) is int and held == value and len(owner.stores[name]) == 1
    return Formula(value, name=name, is_given=is_given)


def _is_running(stores: Sequence[Position], variables: Variables) -> bool:
    """Whether a loop gives a variable other values in turns, and that is not its own.

    It has no name where it is used: `start` in `stop = start + n`, `start = stop`.
    """
    places = variables.looping - variables.turning
    return len(stores) > 1 and not places.isdisjoint(stores)


def _outer(name: str, caller: _Caller) -> _Caller | None:
    """Return the running function whose variable is closed over, if it is one."""
    frame = owner_of(caller.frame, name)
    if frame is None:
        return None
    code = frame.f_code
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    held = {name: held_by(name, frame) for name in parameters}
    return _Caller(frame, Body(None, code, held))


def _function(
    node: ast.expr, frame: types.FrameType
) -> tuple[str, Callable[..., Any]] | None:
    """Return the function of `math` or NumPy that an expression names, and how to write it."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner, name = held_by(node.value.id, frame), node.attr
        if owner is math and name in _MATH:
            return f"math.{name}", getattr(math, name)
        is_numpy = owner is np and name in _UFUNCS
        return (f"np.{name}", getattr(np, name)) if is_numpy else None
    if isinstance(node, ast.Name):
        held = held_by(node.id, frame)
        name = getattr(held, "__name__", "") if callable(held) else ""
        is_math = name in _MATH and getattr(math, name) is held
        return (f"math.{name}", getattr(math, name)) if is_math else None
    return None


def _number(value: Any, is_constant: bool = False) -> Formula | None:
    is_number = type(value) in _NUMBERS
    return Formula(value, is_constant=is_constant) if is_number else None
