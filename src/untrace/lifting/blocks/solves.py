"""`jax.lax.custom_linear_solve`, for which JAX transposes the map itself.

The equation holds four functions, the map, its transpose and two solvers, and the call
takes three of them. It is written where tracing the call gives the equation.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import Block, Equation
from untrace.lifting.blocks.control import hoists_in_order
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Group, Rhs, grouped


@control("custom_linear_solve")
def custom_linear_solve(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.custom_linear_solve`."""
    blocks: Sequence[Block | None] = eqn.params["jaxprs"]
    jaxprs = [None if block is None else block.jaxpr for block in blocks]
    solve = jaxapi.LinearSolve(jaxprs, eqn.params["const_lengths"])
    options = next((o for o in ("", ", symmetric=True") if _gives(solve, eqn, o)), None)
    if options is None:
        return None
    starts = solve.starts
    consts = [eqn.operands[a:b] for a, b in itertools.pairwise(starts)]
    pairs = [
        (block, given) for block, given in zip(blocks, consts) if block is not None
    ]
    if not all(hoists_in_order(*pair) for pair in pairs):
        return None
    b = eqn.operands[starts[-1] :]
    texts = [_function(blocks, consts, i, len(b), frame) for i in (0, 2, 3)]
    texts.insert(1, grouped(frame.texts(b)))
    frame.lifter.imports.module("jax")
    call = ", ".join(text for text in texts if text)
    return Rhs(f"jax.lax.custom_linear_solve({call}{options})", grouped)


def _gives(solve: jaxapi.LinearSolve, eqn: Equation, options: str) -> bool:
    """Whether a call with options gives an equation."""
    avals = [atom.aval for atom in eqn.operands]
    places = solve.operands_of_call(avals, bool(options))
    return places is not None and all(
        eqn.operands[place] is atom for place, atom in zip(places, eqn.operands)
    )


HINTS = ("matvec", "vecmat", "solve", "transpose_solve")


def _function(
    blocks: Sequence[Block | None],
    consts: Sequence[Sequence[Any]],
    i: int,
    size: int,
    frame: Frame,
) -> str:
    """Write a function of one vector, of a map and one for the solvers."""
    block = blocks[i]
    if block is None:
        return ""
    groups = [Group("x" if i == 0 else "b", size)]
    if i:
        groups.insert(0, Group("_", 0))
    results = lambda child: grouped(child.texts(block.outputs))
    return frame.callable(block, HINTS[i], consts[i], groups, results)
