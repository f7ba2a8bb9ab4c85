"""Open sub-programs that are evaluated once: jit, remat, derivative rules, solves.

All that can be opened is, in one candidate. If the failure needs some of them, those
that it needs are found by delta debugging and kept.
"""

from __future__ import annotations

from untrace import jaxapi
from untrace.ir import Equation, sub_blocks
from untrace.reduction.applying import apply
from untrace.reduction.delta import minimize
from untrace.reduction.edits import Edits, Opening
from untrace.reduction.program import Program, is_computing, open_equations
from untrace.reduction.search import Search

LOOPS = frozenset({"scan", "while", "cond"})
MAX_DEPTH = 200
MANY = 200
"""Equations of a program that is too slow to be run for every few calls."""


def wrappers(program: Program) -> list[Equation]:
    """List the calls of sub-programs that are evaluated once."""
    return [eqn for eqn in open_equations(program.block) if _is_call(eqn)]


def _is_call(eqn: Equation) -> bool:
    """Whether operands and results are those of the sub-program."""
    blocks = list(sub_blocks(eqn))
    if eqn.name in ("shard_map", "custom_linear_solve"):
        return True
    if eqn.name in LOOPS or len(blocks) != 1 or is_computing(eqn):
        return False
    inner = blocks[0]
    pairs = [*zip(inner.inputs, eqn.operands, strict=False)]
    return (
        len(inner.inputs) == len(eqn.operands)
        and len(inner.outputs) == len(eqn.result_avals)
        and all(jaxapi.same_type(one.aval, other.aval) for one, other in pairs)
        and all(
            jaxapi.same_type(one.aval, aval)
            for one, aval in zip(inner.outputs, eqn.result_avals)
        )
    )


def open_wrappers(search: Search) -> None:
    """Inline all calls; keep those that the failure needs."""
    if not wrappers(search.best) or search.first(iter([flattened(search.best)])):
        return
    if search.size.equations > MANY:  # first cut, then look which of them matter
        return
    base = search.best
    everything = wrappers(base)

    def suffices(closed: list[Equation]) -> bool:
        opened = {eqn: Opening() for eqn in everything if eqn not in set(closed)}
        return search.first(iter([apply(base, Edits(opened=opened))]))

    minimize(everything, suffices)


def flattened(program: Program) -> Program | None:
    """Inline every call, at all depths."""
    found: Program | None = program
    for _ in range(MAX_DEPTH):
        if found is None:
            return None
        opened = {eqn: Opening() for eqn in wrappers(found)}
        if not opened:
            return found
        found = apply(found, Edits(opened=opened))
    return found


def open_one(search: Search) -> None:
    """Open single calls, as long as that helps; for the end of a reduction."""
    found = True
    while found:
        base = search.best
        found = search.first(
            apply(base, Edits(opened={eqn: Opening()})) for eqn in wrappers(base)
        )
