"""Say by which values a program comes to the first one that is bad.

All results are outputs of one run more. What is told is each value at the place of the
first bad element, from the inputs to the equation to blame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Literal, Value
from untrace.reduction.applying import apply
from untrace.reduction.edits import Edits
from untrace.reduction.program import Program
from untrace.reduction.trials import Judge
from untrace.reduction.values import evaluate, is_holdable
from untrace.reduction.writing import written_names

MAX_EQUATIONS = 40
"""Equations of a program that is run once more."""

MAX_LINKS = 7
"""Values that are told; of more, the last ones."""


def chain(program: Program, primitive: str, judge: Judge) -> str:
    """Tell the values that lead to the first bad result of a primitive.

    Args:
      program: What is run; the equation to blame stands in no sub-program.
      primitive: The one to blame.
      judge: Runs it.

    Returns:
      Such as "x0 = 0, `square` 0, `sqrt` 0, `div` NaN"; "" if that says no more than
      which equation it is.
    """
    block = program.block
    results = [value for eqn in block.equations for value in eqn.results]
    wanted = [v for v in results if v is not None and is_holdable(v.aval)]
    if not wanted or len(block.equations) > MAX_EQUATIONS:
        return ""
    part = apply(program, Edits(outputs=tuple(wanted)))
    made = None if part is None else evaluate(part, judge)
    if made is None:
        return ""
    known = dict(zip((*block.inputs, *wanted), map(_numbers, (*program.values, *made))))
    for eqn in block.equations:
        bad = _first_bad(known.get(_result(eqn))) if eqn.name == primitive else None
        if bad is not None:
            names = dict(zip(block.inputs, written_names(program.names)))
            links = [*_links(eqn, bad, block, known, names)]
            return ", ".join(links[-MAX_LINKS:]) if len(links) > 1 else ""
    return ""


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


def _links(
    eqn: Equation,
    place: tuple[int, ...],
    block: Block,
    known: Mapping[Value, Any],
    names: Mapping[Value, str],
) -> Iterator[str]:
    """Yield the inputs and equations that a result depends on, and what they are there.

    Those that come after it are told up to a NaN.
    """
    needed: set[Atom | None] = {*eqn.results}
    for other in reversed(block.equations):
        if not needed.isdisjoint(other.results):
            needed.update(
                atom for atom in other.operands if not isinstance(atom, Literal)
            )
    shape = known[_result(eqn)].shape
    for value in block.inputs:
        if value in needed and (number := _at(known[value], shape, place)):
            yield f"{names[value]} = {number}"
    is_after = False
    for other in block.equations:
        is_after = is_after or other is eqn
        if is_after and not needed.isdisjoint(other.operands):
            needed.update(other.results)  # an infinity becomes NaN elsewhere
        number = _at(known.get(_result(other)), shape, place)
        if _result(other) in needed and number:
            yield f"`{other.name}` {number}"
        if is_after and number == "NaN":
            return


def _result(eqn: Equation) -> Any:
    return eqn.results[0] if eqn.results else None


def _at(array: Any, shape: tuple[int, ...], place: tuple[int, ...]) -> str:
    """Write what an array is at a place; "" if it has no such element."""
    if array is None or not array.size:
        return ""
    if array.shape == shape:
        number = array[place]
    elif array.size == 1 or (array == array.flat[0]).all():
        number = array.flat[0]
    else:
        return ""
    return "NaN" if np.isnan(number) else f"{number:.3g}"
