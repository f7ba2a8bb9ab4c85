"""Which inputs hold indices into an axis: they are clipped when it shrinks.

Indices are followed backwards from where they are used, through equations that keep
integers what they are, into and out of sub-programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from untrace import jaxapi
from untrace.axes.factors import Dims
from untrace.ir import Atom, Block, Equation, Value, all_blocks
from untrace.reduction.axes.solving import Sizes

_PASSING = """
    add broadcast_in_dim broadcast_to clamp concatenate convert_element_type copy
    dynamic_slice gather max min pad rem reshape rev select_n slice split squeeze stack
    sub transpose unstack
"""
PASSING = frozenset(_PASSING.split())
CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
Use = tuple[Atom, int | None, int]


def indexing_inputs(
    block: Block, axes: Mapping[Value, Dims], sizes: Sizes
) -> dict[Value, int]:
    """Find inputs of whole numbers that index axes which have shrunk.

    Returns:
      For each, the size of the smallest axis it indexes.
    """
    uses = [
        use
        for found in all_blocks(block)
        for eqn in found.equations
        for use in _uses(eqn, axes, sizes)
    ]
    if not uses:
        return {}
    sources = _sources(block)
    limits: dict[Value, int] = {}
    seen: set[tuple[Value, int | None]] = set()
    while uses:
        atom, column, limit = uses.pop()
        if not isinstance(atom, Value) or not _is_integer(atom):
            continue
        known = limits.get(atom)
        if (atom, column) in seen and known is not None and known <= limit:
            continue
        seen.add((atom, column))
        limits[atom] = limit if known is None else min(limit, known)
        for source, taken in _before(atom, column, sources):
            uses.append((source, taken, limit))
    return {value: limits[value] for value in block.inputs if value in limits}


def _is_integer(value: Value) -> bool:
    return np.issubdtype(getattr(value.aval, "dtype", np.float32), np.integer)


def _uses(eqn: Equation, axes: Mapping[Value, Dims], sizes: Sizes) -> Iterator[Use]:
    """List the operands that index a shrunk axis: value, column, new size."""
    if eqn.name == "gather":
        indexed = eqn.params["dimension_numbers"].start_index_map
    elif eqn.name.startswith("scatter"):
        indexed = eqn.params["dimension_numbers"].scatter_dims_to_operand_dims
    else:
        return
    array = eqn.operands[0]
    if not isinstance(array, Value):
        return
    dims = axes[array]
    for column, axis in enumerate(indexed):
        if sizes.is_changed([dims[axis]]):
            yield eqn.operands[1], column, sizes.size(dims[axis])


def _sources(block: Block) -> dict[Value, list[tuple[Equation | None, Atom]]]:
    """For each value, the atoms it is made of, and the equation that makes it."""
    sources: dict[Value, list[tuple[Equation | None, Atom]]] = {}
    for found in all_blocks(block):
        for eqn in found.equations:
            for value, atom, is_call in _made(eqn):
                made = None if is_call else eqn
                sources.setdefault(value, []).append((made, atom))
    return sources


def _made(eqn: Equation) -> Iterator[tuple[Value, Atom, bool]]:
    results = [result for result in eqn.results if result is not None]
    if eqn.name in PASSING:
        first = eqn.operands[:1] if eqn.name == "gather" else eqn.operands
        yield from ((result, atom, False) for result in results for atom in first)
    elif eqn.name in CALLS:
        yield from _through(eqn, eqn.params[CALLS[eqn.name]], eqn.operands)
    elif eqn.name == "cond":
        for branch in eqn.params["branches"]:
            yield from _through(eqn, branch, eqn.operands[1:])
    elif eqn.name == "while":
        n_cond = eqn.params["cond_nconsts"]
        yield from _through(eqn, eqn.params["body_jaxpr"], eqn.operands[n_cond:])
        yield from _around(eqn.params["body_jaxpr"], eqn.params["body_nconsts"], None)
    elif eqn.name == "scan":
        n_consts, n_carry = jaxapi.scan_sizes(eqn.params)
        yield from _through(eqn, eqn.params["jaxpr"], eqn.operands)
        yield from _around(eqn.params["jaxpr"], n_consts, n_carry)


def _through(
    eqn: Equation, block: Block, operands: tuple[Atom, ...]
) -> Iterator[tuple[Value, Atom, bool]]:
    for value, atom in zip(block.inputs, operands):
        yield value, atom, True
    for result, atom in zip(eqn.results, block.outputs):
        if result is not None:
            yield result, atom, True


def _around(
    block: Block, n_consts: int, n_carry: int | None
) -> Iterator[tuple[Value, Atom, bool]]:
    """Pair what a loop carries into its body with what the body returns."""
    for value, atom in zip(block.inputs[n_consts:][:n_carry], block.outputs):
        yield value, atom, True


def _before(
    value: Value,
    column: int | None,
    sources: Mapping[Value, list[tuple[Equation | None, Atom]]],
) -> Iterator[tuple[Atom, int | None]]:
    """List where a value comes from; `column` counts along its last axis."""
    found = sources.get(value, [])
    eqn = found[0][0] if found else None
    if eqn is not None and column is not None and _joins_columns(eqn):
        yield from _piece(eqn, column)
        return
    for _, atom in found:
        is_alike = getattr(atom.aval, "shape", None) == value.aval.shape
        yield atom, column if is_alike else None


def _joins_columns(eqn: Equation) -> bool:
    n_axes = len(eqn.result_avals[0].shape)
    return eqn.name == "concatenate" and eqn.params["dimension"] == n_axes - 1


def _piece(eqn: Equation, column: int) -> Iterator[tuple[Atom, int | None]]:
    """Return the piece of a concatenation that a column lies in."""
    for atom in eqn.operands:
        width = atom.aval.shape[-1]
        if column < width:
            yield atom, column
            return
        column -= width
