"""The index of a branch, which `jax.lax.cond` and `switch` make of what they are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Value
from untrace.lifting.lifter import Lifter
from untrace.lifting.printing import is_literal
from untrace.optional import optional


@dataclass(frozen=True, slots=True)
class Selector:
    """The value a branch is chosen by, before JAX makes an index of it."""

    function: str
    atom: Atom


@optional(lambda block, lifter: list(block.equations))
def without_indices(block: Block, lifter: Lifter) -> list[Equation]:
    """Leave out the equations by which `jax.lax.cond` and `switch` make their index.

    A conversion (cond) or clamping (switch) directly before the equation that uses its
    result, alone, is part of the public call. What was found goes to
    `lifter.selectors`.
    """
    kept: list[Equation] = []
    counts: dict[Atom, int] = {}
    for atom in uses(block):
        counts[atom] = counts.get(atom, 0) + 1
    for eqn in block.equations:
        if eqn.name == "cond" and kept:
            before = kept[-1]
            untouched = not (lifter.step(eqn) or lifter.step(before))
            if (
                untouched
                and counts.get(eqn.operands[0]) == 1
                and before.context is eqn.context
            ):
                selector = _selector(before, eqn)
                if selector is not None:
                    lifter.selectors[eqn] = selector
                    kept.pop()
        kept.append(eqn)
    return kept


def _selector(before: Equation, eqn: Equation) -> Selector | None:
    """Return what selects the branch if both equations are one public call."""
    branches: tuple[Block, ...] = eqn.params["branches"]
    if before.results != eqn.operands[:1] or not _cond_is_canonical(eqn, branches):
        return None
    if before.name == "convert_element_type":
        atom = before.operands[0]
        is_bool = getattr(atom.aval, "dtype", None) == np.bool_
        is_made = len(branches) == 2 and is_bool and not is_literal(atom)
        return Selector("jax.lax.cond", atom) if is_made else None
    if before.name == "clamp" and len(branches) > 1:
        low, atom, high = before.operands
        bounds = [getattr(bound, "value", None) for bound in (low, high)]
        is_made = bounds == [0, len(branches) - 1] and not is_literal(atom)
        return Selector("jax.lax.switch", atom) if is_made else None
    return None


def _cond_is_canonical(eqn: Equation, branches: tuple[Block, ...]) -> bool:
    if set(eqn.params) - {"branches"} or any(block.constants for block in branches):
        return False
    # An output that is the same input in every branch never enters the equation.
    sources = zip(*[forwards(block) for block in branches])
    forwarded = any(
        len(set(source)) == 1 and source[0] is not None for source in sources
    )
    first = branches[0].outputs
    typed = all(
        jaxapi.same_type(a.aval, b.aval)
        for block in branches
        for a, b in zip(block.outputs, first)
    )
    entering = zip(eqn.operands[1:], branches[0].inputs)
    return (
        typed
        and not forwarded
        and all(jaxapi.same_aval(a.aval, b.aval) for a, b in entering)
    )


def uses(block: Block) -> list[Atom]:
    """List the values that a block reads, in their order, as often as it does."""
    atoms: list[Atom] = []
    for eqn in block.equations:
        atoms += eqn.operands
    return [atom for atom in [*atoms, *block.outputs] if type(atom) is Value]


def forwards(block: Block) -> list[int | None]:
    """Say for each output of a block which input it is, if it is one."""
    position = {value: i for i, value in enumerate(block.inputs)}
    return [
        position.get(atom) if type(atom) is Value else None for atom in block.outputs
    ]
