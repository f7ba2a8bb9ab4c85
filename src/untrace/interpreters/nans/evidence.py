"""What speaks for one trap or another: values where an operation went wrong, and whence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace.interpreters.nans.flagging import Examined, Row, Stretch
from untrace.interpreters.nans.grading import INFINITE, NAN
from untrace.interpreters.nans.traps import Evidence
from untrace.interpreters.places import origin_of

MAX_INDICES = 5
MAX_ANCESTORS = 24

_ELEMENTWISE = frozenset(
    {
        "abs",
        "add",
        "add_any",
        "broadcast_in_dim",
        "convert_element_type",
        "copy",
        "div",
        "dynamic_slice",
        "gather",
        "integer_pow",
        "log",
        "max",
        "min",
        "mul",
        "neg",
        "reduce_precision",
        "reshape",
        "rev",
        "select_n",
        "sign",
        "slice",
        "square",
        "squeeze",
        "stop_gradient",
        "sub",
        "transpose",
    }
)
_SUMS = frozenset({"reduce_sum", "dot_general", "cumsum", "psum"})
_SQUARES = frozenset({"square", "integer_pow", "mul"})
_POLES = {
    "log": (0.0,),
    "log1p": (-1.0,),
    "rsqrt": (0.0,),
    "integer_pow": (0.0,),
    "pow": (0.0,),
    "atanh": (1.0, -1.0),
    "lgamma": (),
    "digamma": (),
}
"""Where operations are infinite in exact arithmetic, too; () where that is not one value."""


def gathered(
    stretch: Stretch, index: int, level: int
) -> tuple[Evidence, list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Run a row again with what it was given.

    Returns:
      The evidence, the operands, and the bad result.
    """
    row = stretch.rows[index]
    makers = {n: other for other in stretch.rows for n in other.results}
    before = {
        n
        for number in row.operands
        for other in _lineage(number, makers)
        for n in (*other.operands, *other.results)
    }
    examined = stretch.examined(index, before if level == NAN else ())
    operands, result = _again(row, examined, level)
    infinity = None
    cause = _infinity(row, makers, {**stretch.flags, **examined.flags})
    if level == NAN and cause is not None:
        origin = origin_of(cause.equation, cause.path)
        name = cause.equation.primitive.name
        infinity = Evidence(name, (), origin.calls, origin.is_derivative)
    indices, _ = bad_elements(result, level)
    origin = origin_of(row.equation, row.path)
    evidence = Evidence(
        row.equation.primitive.name,
        at_first_bad(operands, result, indices),
        origin.calls,
        origin.is_derivative,
        tuple([tuple(_ancestors(n, makers)) for n in row.operands]),
        bool(row.operands) and _is_difference(row.operands[0], makers),
        infinity,
        stretch.needs_devices(index),
    )
    return evidence, operands, result


def bad_elements(
    array: np.ndarray[Any, Any], level: int
) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return the indices of the first bad elements, and how many there are."""
    if array.dtype.kind not in "fc":
        array = array.astype(np.float32)
    is_bad = np.isnan(array) if level == NAN else ~np.isfinite(array)
    indices = np.argwhere(is_bad)[:MAX_INDICES].tolist()
    return tuple([tuple(index) for index in indices]), int(is_bad.sum())


def at_first_bad(
    operands: Sequence[Any], result: Any, indices: Sequence[tuple[int, ...]]
) -> tuple[float | None, ...]:
    """Return each operand at the first bad element; None if it has none there."""
    if not indices:  # none is bad where the equation is evaluated alone
        return (None,) * len(operands)
    return tuple([_at(operand, np.shape(result), indices[0]) for operand in operands])


def is_overflow(name: str, values: Sequence[float | None], result: Any) -> bool:
    """Whether an infinity is one of rounding: exact arithmetic has a number there."""
    if np.isnan(np.asarray(result, np.float64)).any() or None in values[:1]:
        return name in ("dot_general", "reduce_sum", "cumsum", "conv_general_dilated")
    if name == "div":
        return values[1:] != (0.0,)
    poles = _POLES.get(name)
    return poles is None or (bool(poles) and values[0] not in poles)


def _at(value: Any, shape: tuple[int, ...], index: tuple[int, ...]) -> float | None:
    array = np.asarray(value)
    if array.dtype.kind not in "fiubV":
        return None
    if array.ndim not in (0, len(shape)) or len(index) != len(shape):
        return None
    if any(n not in (1, m) for n, m in zip(array.shape, shape)):
        return None
    own = tuple([min(i, n - 1) for i, n in zip(index, array.shape)])
    return float(array[own])


def _again(row: Row, had: Examined, level: int) -> tuple[list[Any], Any]:
    """Bind the primitive of a row again; its first bad result counts."""
    results = had.results
    if results is None:
        primitive = row.equation.primitive
        params = primitive.get_bind_params(row.equation.params)
        with row.equation.ctx.manager:
            made = primitive.bind(*had.operands, **params)
        results = made if primitive.multiple_results else [made]
    arrays = [np.asarray(r) for r in results if _is_number(r)]
    bad = [array for array in arrays if bad_elements(array, level)[1]]
    shown = [np.asarray(x) for x in had.operands if _is_number(x)]
    return shown, (bad or arrays or [np.asarray(np.nan)])[0]


def _is_number(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is None or not jnp.issubdtype(dtype, jax.dtypes.extended)


def _lineage(number: int, makers: dict[int, Row]) -> Iterator[Row]:
    """Yield the rows that a value was computed by element by element, nearest first."""
    queue, seen = [number], set[int]()
    while queue and len(seen) < MAX_ANCESTORS:
        number = queue.pop(0)
        row = makers.get(number)
        if row is None or number in seen:
            continue
        seen.add(number)
        yield row
        if row.equation.primitive.name in _ELEMENTWISE:
            queue += row.operands


def _ancestors(number: int, makers: dict[int, Row]) -> Iterator[str]:
    return (row.equation.primitive.name for row in _lineage(number, makers))


def _is_difference(number: int, makers: dict[int, Row]) -> bool:
    """Whether a value is a mean from which a square is taken away."""
    for row in _lineage(number, makers):
        if row.equation.primitive.name == "sub":
            mean, square = row.operands
            maker = makers.get(square)
            return (
                maker is not None
                and maker.equation.primitive.name in _SQUARES
                and not _SUMS.isdisjoint(_ancestors(mean, makers))
            )
    return False


def _infinity(row: Row, makers: dict[int, Row], flags: dict[int, int]) -> Row | None:
    """Return the row that made an operand of a row infinite, or first used such an input."""
    found: Row | None = None
    while True:
        infinite = [n for n in row.operands if flags.get(n) == INFINITE and n in makers]
        if not infinite:
            return found
        found = row = makers[infinite[0]]
