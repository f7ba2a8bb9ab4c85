"""What is smaller: a total order on programs.

Compared in this order: equations, sub-programs, outputs, inputs, elements of all values,
axes, dtypes out of the ordinary, params out of the ordinary, how much there is to know
of the contents of inputs, literals out of the ordinary. A candidate is accepted only if
it is smaller, so every reduction ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Literal, sub_blocks
from untrace.reduction.program import Program
from untrace.reduction.remembering import by_identity
from untrace.reduction.simpler_params import simpler_params

PLAIN_DTYPES = frozenset({"float32", "int32", "bool"})
PLAIN_NUMBERS = (0, 1)
FEW = 1_000
"""Elements of an array that anybody would look at one by one."""


class Size(NamedTuple):
    """How large a program is; the fields are compared from left to right."""

    equations: int
    sub_programs: int
    outputs: int
    inputs: int
    elements: int
    axes: int
    dtypes: int
    params: int
    contents: int
    literals: int


def measure(program: Program) -> Size:
    """Measure a program; a sub-program counts as often as it is called."""
    with jaxapi.deep_recursion():
        whole = _Measuring().block(program.block)
    equations, sub_programs, elements, axes, dtypes, params, literals = whole
    return Size(
        equations,
        sub_programs,
        len(program.block.outputs),
        len(program.block.inputs),
        elements,
        axes,
        dtypes,
        params,
        sum(_knowledge(value) for value in program.values),
        literals,
    )


class _Measuring:
    """Adds up what blocks hold, each counted once and taken as often as it is called."""

    def __init__(self) -> None:
        self._known: dict[Block, tuple[int, ...]] = {}

    def block(self, block: Block) -> tuple[int, ...]:
        known = self._known.get(block)
        if known is None:
            parts = [self._equation(eqn) for eqn in block.equations]
            types = _of_types([value.aval for value in block.inputs])
            own = (0, 0, *types, 0, _literals(block.outputs))
            known = self._known[block] = _sum([own, *parts])
        return known

    def _equation(self, eqn: Equation) -> tuple[int, ...]:
        inner = [self.block(block) for block in sub_blocks(eqn)]
        elements, axes, dtypes = _of_types(eqn.result_avals)
        own = (
            1,
            len(inner),
            elements + (eqn.params["length"] if eqn.name == "scan" else 0),
            axes,
            dtypes,
            len(list(simpler_params(eqn))),
            _literals(eqn.operands),
        )
        return _sum([own, *inner]) if inner else own


def _sum(parts: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*parts)))


def _of_types(avals: Sequence[Any]) -> tuple[int, int, int]:
    """Count elements, axes and dtypes out of the ordinary."""
    shapes = [getattr(aval, "shape", ()) for aval in avals]
    return (
        sum(_count(shape) for shape in shapes),
        sum(len(shape) for shape in shapes),
        sum(_dtype_name(aval) not in PLAIN_DTYPES for aval in avals),
    )


def _count(shape: Any) -> int:
    total = 1
    for size in shape:
        total *= size if isinstance(size, int) else 1
    return total


def _dtype_name(aval: Any) -> str:
    return str(getattr(aval, "dtype", "float32"))


def _literals(atoms: Sequence[Atom]) -> int:
    return sum(_digits(atom.value) for atom in atoms if isinstance(atom, Literal))


def _digits(value: Any) -> int:
    """Count what there is to know of a literal: nothing of 0 and 1."""
    if jaxapi.is_key_array(value) or np.ndim(value):
        return 1
    return 0 if value in PLAIN_NUMBERS else digits(value)


def digits(number: Any) -> int:
    """Count the digits of a number that are no zeros at its ends, at least 1."""
    try:
        parts = [complex(number).real, complex(number).imag]
    except (ValueError, OverflowError, TypeError):
        return 1
    shown = [_shown(part, number) for part in parts if part]
    return max(1, sum(len(text.strip("0")) for text in shown))


def _shown(part: float, number: Any) -> str:
    """Write the digits of a part of a number as briefly as its dtype allows."""
    dtype = np.asarray(number).dtype
    narrow = np.float32 if dtype.itemsize <= 4 or dtype == np.complex64 else np.float64
    with np.errstate(over="ignore"):
        text = str(narrow(part)) if dtype.kind != "i" else str(int(part))
    return "".join(c for c in text.partition("e")[0] if c.isdigit())


@by_identity
def _knowledge(value: Any) -> int:
    """Count what a reader has to know of an array: 0 if it is zeros, 1 if ones."""
    if jaxapi.is_key_array(value):
        return 0
    array = np.asarray(value)
    if not array.size:
        return 0
    flat = np.ascontiguousarray(array).reshape(-1).view(f"V{array.dtype.itemsize}")
    first = array.reshape(-1)[0]
    if (flat == flat[0]).all():
        return 0 if first == 0 else 1 if first == 1 else 1 + digits(first)
    if array.size > FEW:
        return 3 * array.size
    kinds = array.reshape(-1)[np.unique(flat, return_index=True)[1]]
    long = sum(digits(x) - 1 for x in kinds)
    return 2 * len(kinds) + sum(not _is_small(x) for x in array.reshape(-1)) + long


def _is_small(number: Any) -> bool:
    """Whether a number is an integer of one digit."""
    try:
        return bool(abs(complex(number)) < 10 and complex(number) == int(number.real))
    except (ValueError, OverflowError, TypeError):
        return False
