"""Say by which values a program comes to the first one that is bad.

All results are outputs of one run more. What is told is each value at the place of the
first bad element, from the inputs to the equation to blame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from untrace import jaxapi
from untrace.ir import Block, Equation, Literal, Value
from untrace.reduction.applying import apply
from untrace.reduction.edits import Edits
from untrace.reduction.program import Program
from untrace.reduction.trials import Exhausted, Judge
from untrace.reduction.values import evaluate, is_holdable
from untrace.reduction.writing import written_names

MAX_EQUATIONS = 40
"""Equations of a program that is run once more."""

MAX_BEFORE, MAX_AFTER = 5, 3
"""Values that are told, nearest to the equation to blame."""


class Chain(NamedTuple):
    """An equation that makes a bad value, and the values that lead there and from there.

    `told` is such as "x0 = 0, `square` 0, `sqrt` 0, `div` inf, `mul` NaN"; "" if there is
    but the equation itself.
    """

    eqn: Equation
    told: str


def chain(program: Program, primitive: str, judge: Judge) -> Chain | None:
    """Find the first equation of a primitive whose result is bad.

    Args:
      program: What is run; equations of its sub-programs are not looked at.
      primitive: The one to blame.
      judge: Runs it.
    """
    block = program.block
    results = [value for eqn in block.equations for value in eqn.results]
    wanted = [v for v in results if v is not None and is_holdable(v.aval)]
    if not wanted or len(block.equations) > MAX_EQUATIONS:
        return None
    part = apply(program, Edits(outputs=tuple(wanted)))
    try:
        made = None if part is None else evaluate(part, judge)
    except Exhausted:  # no worker can be had
        return None
    if made is None:
        return None
    known = dict(zip((*block.inputs, *wanted), map(_numbers, (*program.values, *made))))
    for eqn in block.equations:
        bad = _first_bad(known.get(_result(eqn))) if eqn.name == primitive else None
        if bad is not None:
            shown = _Shown(known, known[_result(eqn)].shape, bad)
            names = dict(zip(block.inputs, written_names(program.names)))
            links = [*_before(eqn, block, shown, names), *_after(eqn, block, shown)]
            return Chain(eqn, ", ".join(links) if len(links) > 1 else "")
    return None


def _numbers(value: Any) -> Any:
    """Return real numbers as 64-bit floats; None for all else."""
    kinds = ("floating", "integer", "bool")
    is_array = hasattr(value, "dtype") and not jaxapi.is_key_array(value)
    is_real = is_array and jaxapi.dtype_kind(value.dtype) in kinds
    return np.asarray(value).astype(np.float64) if is_real else None


def _first_bad(array: Any) -> tuple[int, ...] | None:
    """Return the place of the first NaN, or of the first infinity if there is none."""
    if array is None:
        return None
    is_bad = np.isnan(array) if np.isnan(array).any() else np.isinf(array)
    found = np.argwhere(is_bad)
    return tuple(found[0].tolist()) if len(found) else None


def _result(eqn: Equation) -> Any:
    return eqn.results[0] if eqn.results else None


class _Shown(NamedTuple):
    """Writes values as they are at one place of an array."""

    known: Mapping[Value, Any]
    shape: tuple[int, ...]
    place: tuple[int, ...]

    def __call__(self, atom: Any) -> str:
        """Write a value; "" if it has no such element."""
        array = self.known.get(atom)
        if array is None or not array.size:
            return ""
        if array.shape == self.shape:
            number = array[self.place]
        elif array.size == 1 or (array == array.flat[0]).all():
            number = array.flat[0]
        else:
            return ""
        return "NaN" if np.isnan(number) else f"{number:.3g}"


def _before(
    eqn: Equation, block: Block, shown: _Shown, names: Mapping[Value, str]
) -> Iterator[str]:
    """Yield what an equation was computed from, nearest values at the end, and itself."""
    makers = {v: e for e in block.equations for v in e.results if v is not None}
    nearest: dict[Any, None] = {_result(eqn): None}
    queue = deque(eqn.operands)
    while queue and len(nearest) < MAX_BEFORE:
        atom = queue.popleft()
        if not isinstance(atom, Literal) and atom not in nearest:
            nearest.update({atom: None} if shown(atom) else {})
            queue.extend(makers[atom].operands if atom in makers else ())
    for value in block.inputs:
        if value in nearest:
            yield f"{names[value]} = {shown(value)}"
    for other in block.equations:
        if _result(other) in nearest:
            yield f"`{other.name}` {shown(_result(other))}"


def _after(eqn: Equation, block: Block, shown: _Shown) -> Iterator[str]:
    """Yield what an infinity becomes, up to a NaN."""
    bad, n_told = {_result(eqn)}, 0
    rest = block.equations[block.equations.index(eqn) + 1 :]
    for other in rest:
        if shown(_result(eqn)) == "NaN" or bad.isdisjoint(other.operands):
            continue
        number = shown(_result(other))
        if number in ("inf", "-inf", "NaN"):
            bad.add(_result(other))
            yield f"`{other.name}` {number}"
            n_told += 1
        if number == "NaN" or n_told == MAX_AFTER:
            return
