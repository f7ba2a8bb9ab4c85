"""Find inputs between which an order holds that the program may rely on.

`sqrt(hi - lo)` is a number only where `lo < hi`, and nothing in either array tells so. Two
inputs of which the program takes a difference or a quotient, or which it compares, each
alone or after functions of it alone, are looked at: the order counts if it held for all
elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from untrace.ir import Atom, Block, Equation, Literal, Value, sub_blocks

Array = np.ndarray[Any, np.dtype[Any]]

_COMPARING = frozenset(
    ["sub", "div", "rem", "lt", "le", "gt", "ge", "max", "min", "clamp"]
)

Origin = frozenset[int]
"""The inputs that a value is computed from: none, one, or `_SEVERAL`."""

_NONE: Origin = frozenset()
_SEVERAL: Origin = frozenset({-1, -2})


def compared_inputs(block: Block, inputs: Collection[int]) -> set[frozenset[int]]:
    """Find the pairs of inputs that a program compares.

    Args:
      inputs: The positions of those to look at.
    """
    given = {
        value: frozenset({i}) if i in inputs else _NONE
        for i, value in enumerate(block.inputs)
    }
    found: set[frozenset[int]] = set()
    _walk(block, given, found, {})
    return found


def all_below(
    pairs: Iterable[frozenset[int]], values: Mapping[int, Array]
) -> dict[int, frozenset[int]]:
    """Find which inputs are below others.

    Args:
      pairs: The inputs to compare, by their positions. Arrays of different shapes are
        compared as NumPy does.
      values: Their numbers; pairs with others are left out.

    Returns:
      For each input those below it, also those that others are between.
    """
    below: dict[int, frozenset[int]] = {}
    for pair in sorted(map(sorted, pairs)):
        for low, high in (pair, pair[::-1]):
            if {*pair} <= values.keys() and _is_below(values[low], values[high]):
                below[high] = below.get(high, _NONE) | {low}
    while True:
        more = {
            high: lows.union(*(below.get(low, _NONE) for low in lows)) - {high}
            for high, lows in below.items()
        }
        if more == below:
            return below
        below = more


def _is_below(low: Array, high: Array) -> bool:
    try:
        is_below = low <= high
    except ValueError:  # shapes that do not go together
        return False
    return is_below.shape in (low.shape, high.shape) and bool(
        np.all(is_below) and np.any(low < high)
    )


def _walk(
    block: Block,
    given: Mapping[Value, Origin],
    found: set[frozenset[int]],
    known: dict[Any, list[Origin]],
) -> list[Origin]:
    """Add the pairs of inputs that a block compares; return what its results are made of."""
    origins = dict(given)
    for eqn in block.equations:
        operands = [_origin(operand, origins) for operand in eqn.operands]
        if eqn.name in _COMPARING:
            found.update(_pairs(operands))
        made = _inner(eqn, operands, found, known)
        made = made or [_joined(operands)] * len(eqn.results)
        origins |= {r: one for r, one in zip(eqn.results, made) if r is not None}
    return [_origin(output, origins) for output in block.outputs]


def _inner(
    eqn: Equation,
    operands: Sequence[Origin],
    found: set[frozenset[int]],
    known: dict[Any, list[Origin]],
) -> list[Origin] | None:
    """Walk sub-programs; return what the results are made of, None without any."""
    rows: list[list[Origin]] = []
    outer = dict(zip(eqn.operands, operands))
    for block, given in _called(eqn):
        passed = [outer[operand] for operand in given]
        key = (id(block), *passed)
        if key not in known:
            inputs = dict(zip(block.inputs, passed))
            known[key] = _walk(block, inputs, found, known)
        if len(known[key]) == len(eqn.results):
            rows.append(known[key])
    return [_joined(column) for column in zip(*rows)] or None


def _called(eqn: Equation) -> Iterator[tuple[Block, Sequence[Atom]]]:
    """Yield sub-programs with the operands that are theirs."""
    operands = eqn.operands
    if eqn.name == "while":
        yield eqn.params["body_jaxpr"], operands[eqn.params["cond_nconsts"] :]
        return
    if eqn.name == "cond":
        operands = operands[1:]
    for block in sub_blocks(eqn):
        if len(block.inputs) == len(operands):
            yield block, operands


def _origin(operand: Value | Literal, origins: Mapping[Value, Origin]) -> Origin:
    return origins.get(operand, _NONE) if isinstance(operand, Value) else _NONE


def _joined(origins: Sequence[Origin]) -> Origin:
    made = _NONE.union(*origins)
    return made if len(made) < 2 else _SEVERAL


def _pairs(operands: Sequence[Origin]) -> Iterator[frozenset[int]]:
    single = [operand for operand in operands if len(operand) == 1]
    for one, other in itertools.combinations(single, 2):
        if one != other:
            yield one | other
