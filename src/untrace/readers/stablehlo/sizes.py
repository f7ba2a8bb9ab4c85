"""Sizes that are computed when a program runs: as JAX's symbolic dimensions.

A module with symbolic shapes computes them by integers, from the sizes of its arguments.
Here these computations are done with the dimensions themselves: `8 * b` is a size, and
what a comparison of two of them gives is known, or None.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.export
import numpy as np
from jax import lax

from untrace import jaxapi
from untrace.jaxapi.module_types import Module, TensorType, Value

MAX_ITEMS = 64
"""How many numbers an array may have that says a shape."""


class Sizes(NamedTuple):
    """Integers or symbolic dimensions, and their type; an argument that is no array."""

    items: Any
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array that they are."""
        return self.items.shape

    def as_array(self) -> Any:
        """Return what JAX computes of them."""
        flat = [_as_value(item, self.dtype) for item in self.items.flat]
        if not self.items.shape:
            return flat[0]
        rows = [lax.reshape(item, (1,)) for item in flat]
        return lax.reshape(lax.concatenate(rows, 0), self.items.shape)


def _as_value(item: Any, dtype: np.dtype[Any]) -> Any:
    if not jaxapi.is_symbolic(item):
        return dtype.type(item)
    value = jaxapi.dimension_as_value(item)
    return value if value.dtype == dtype else lax.convert_element_type(value, dtype)


def is_dynamic(kind: Any) -> bool:
    """Whether a type has sizes that only the running program knows."""
    return isinstance(kind, TensorType) and None in kind.shape


def has_dynamic(module: Module) -> bool:
    """Whether a module has arguments of such types."""
    return any(is_dynamic(value.type) for value in module.main.block.arguments)


def is_symbolic(items: Any) -> bool:
    """Whether some of the items are symbolic."""
    return any(map(jaxapi.is_symbolic, items.flat))


def computed(
    name: str, attributes: dict[str, Any], kind: TensorType, operands: Sequence[Any]
) -> Any:
    """Return what an operation makes of sizes; None if it makes none that are known.

    Args:
      name: The operation.
      attributes: As `identities.exact` has them.
      kind: The type of its result.
      operands: Arrays of objects.
    """
    if None in kind.shape or int(np.prod(kind.shape)) > MAX_ITEMS:
        return None
    if name in ("stablehlo.reshape", "stablehlo.convert", "stablehlo.broadcast_in_dim"):
        (items,) = operands
        if kind.dtype.kind not in "iu" or items.size not in (
            1,
            int(np.prod(kind.shape)),
        ):
            return None
        return np.broadcast_to(items.reshape(-1), int(np.prod(kind.shape))).reshape(
            kind.shape
        )
    if name == "stablehlo.concatenate":
        axis = int(attributes["dimension"][1])
        return np.concatenate([_objects(one) for one in operands], axis)
    if name == "stablehlo.compare":
        function = COMPARISONS[attributes["comparison_direction"][1]]
        return _each(function, operands)
    if name in OPERATIONS:
        return _each(OPERATIONS[name], operands)
    return None


def _each(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    try:
        made = np.frompyfunc(function, len(operands), 1)(*operands)
    except (ArithmeticError, TypeError, ValueError):  # of JAX's dimensions
        return None
    return _objects(made)


def _objects(items: Any) -> Any:
    made = np.empty(np.shape(items), object)
    made[...] = items
    return made


def renamed(
    run: Callable[..., list[Any]], name: str, n_arguments: int
) -> Callable[..., list[Any]]:
    """Return a function of a name, whose arguments are called as MLIR prints them."""

    def function(*args: Any) -> list[Any]:
        return run(*args)

    function.__name__ = function.__qualname__ = name
    kind = inspect.Parameter.POSITIONAL_ONLY
    named = [inspect.Parameter(f"arg{i}", kind) for i in range(n_arguments)]
    function.__signature__ = inspect.Signature(named)  # pyright: ignore
    return function


def with_sizes(function: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return a jitted function, which takes sizes as such beside arrays."""
    jitted: dict[Any, Any] = {}

    def called(*args: Any) -> list[Any]:
        fixed = {i: arg for i, arg in enumerate(args) if isinstance(arg, Sizes)}
        key = tuple((i, arg.shape, *arg.items.flat) for i, arg in fixed.items())
        if key not in jitted:

            def of_arrays(*arrays: Any) -> list[Any]:
                rest = iter(arrays)
                every = range(len(args))
                return function(
                    *(fixed[i] if i in fixed else next(rest) for i in every)
                )

            jitted[key] = jax.jit(
                renamed(of_arrays, function.__name__, len(args) - len(fixed))
            )
        return jitted[key](*(arg for arg in args if not isinstance(arg, Sizes)))

    return called


# -- with dimensions; None is what is not known


def _sign(item: Any) -> Any:
    if _less(0, item):
        return 1
    return -1 if _less(item, 0) else 0 if _equal(item, 0) else None


def _less(one: Any, other: Any) -> bool | None:
    """Whether a number is less than another for all sizes, or for none."""
    try:
        return bool(one < other)
    except jaxapi.InconclusiveError:
        return None


def _equal(one: Any, other: Any) -> bool | None:
    if isinstance(one, bool) or isinstance(other, bool):
        return None if one is None or other is None else one == other
    if _less(one, other) or _less(other, one):
        return False
    difference = one - other
    if not jaxapi.is_symbolic(difference):
        return difference == 0
    return None


def _not(item: bool | None) -> bool | None:
    return None if item is None else not item


def _both(one: Any, other: Any) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _divided(one: Any, other: Any) -> Any:
    """Divide as StableHLO does, which is as Python does where nothing is negative."""
    if _less(one, 0) is not False or _less(other, 1) is not False:
        raise ValueError("a negative size")
    return one // other


def _rest(one: Any, other: Any) -> Any:
    if _less(one, 0) is not False or _less(other, 1) is not False:
        raise ValueError("a negative size")
    return one % other


def _selected(which: Any, one: Any, other: Any) -> Any:
    if which is None:
        raise ValueError("which of two sizes it is, is not known")
    return one if which else other


COMPARISONS: dict[str, Callable[[Any, Any], bool | None]] = {
    "EQ": _equal,
    "NE": lambda one, other: _not(_equal(one, other)),
    "LT": _less,
    "GT": lambda one, other: _less(other, one),
    "LE": lambda one, other: _not(_less(other, one)),
    "GE": lambda one, other: _not(_less(one, other)),
}
OPERATIONS: dict[str, Callable[..., Any]] = {
    "stablehlo.add": lambda one, other: one + other,
    "stablehlo.and": _both,
    "stablehlo.divide": _divided,
    "stablehlo.maximum": jaxapi.largest_size,
    "stablehlo.minimum": jaxapi.smallest_size,
    "stablehlo.multiply": lambda one, other: one * other,
    "stablehlo.negate": lambda item: -item,
    "stablehlo.not": _not,
    "stablehlo.remainder": _rest,
    "stablehlo.select": _selected,
    "stablehlo.sign": _sign,
    "stablehlo.subtract": lambda one, other: one - other,
}


# -- the sizes of arguments


def argument_types(module: Module, values: Sequence[Value]) -> list[Any]:
    """Return the types of the arguments of a module, with symbols where sizes vary.

    What JAX writes into a module says how they are called; without that each is another.
    """
    told = _told_shapes(module)
    dynamic = [v for v in values if is_dynamic(v.type)]
    if len(told) != len(dynamic):
        told, constraints = [], []
    else:
        constraints = _told_constraints(module)
    scope = jax.export.SymbolicScope(constraints)
    shapes = iter(told)
    made: list[Any] = []
    n_unknown = 0
    for value in values:
        kind: Any = value.type
        if is_dynamic(kind):
            text = next(shapes, "")
            if not text:
                sizes = list(kind.shape)
                for axis, size in enumerate(sizes):
                    if size is None:
                        sizes[axis], n_unknown = f"d{n_unknown}", n_unknown + 1
                text = ", ".join(map(str, sizes))
            kind = kind._replace(shape=jax.export.symbolic_shape(text, scope=scope))
        made.append(kind)
    return made


_SHAPES = "polymorphic shapes specifications: "
_CONSTRAINT = "do not match the symbolic shape constraint "


def _messages(module: Module) -> list[str]:
    return [
        str(operation.attributes.get("error_message", ""))
        for operation in module.main.block.operations
        if operation.attributes.get("call_target_name") == "shape_assertion"
    ]


def _told_shapes(module: Module) -> list[str]:
    """Return the shapes of arguments with symbols, as messages of JAX name them."""
    messages = _messages(module)
    _, found, rest = messages[0].partition(_SHAPES) if messages else ("", "", "")
    shapes: list[str] = []
    while found:
        _, found, rest = rest.partition(".shape = (")
        depth, end = 1, 0
        while found and depth and end < len(rest):
            depth += {"(": 1, ")": -1}.get(rest[end], 0)
            end += 1
        if found:
            shapes.append(rest[: end - 1].rstrip(", "))
        rest = rest[end:]
        if not rest.startswith(","):
            break
    return shapes


def _told_constraints(module: Module) -> list[str]:
    found = [
        message.partition(_CONSTRAINT)[2].partition(". Expected")[0]
        for message in _messages(module)
    ]
    return list(dict.fromkeys(one for one in found if one))
