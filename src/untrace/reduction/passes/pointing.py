"""Start where the failure points: the equation to blame, or one that a message names.

Most failures need one equation and what leads to it. So the equation that is pointed at
is tried alone, then with what it is computed from, at distances 1, 2 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from untrace.ir import Equation
from untrace.reduction.outcome import Outcome
from untrace.reduction.passes.cutting import SMALL, Cutting
from untrace.reduction.program import Program, all_equations, sub_blocks
from untrace.reduction.search import Search

REACHES = (0, 1, 2, 4)
MAX_PLACES = 4
"""Equations of one name that are tried, the last first."""

MAX_NAMES = 3

_CALLS = frozenset({"jit", "pjit", "closed_call", "core_call", "checkpoint", "remat2"})
"""What every message names that says where something stands."""

_NAMED = re.compile(r"(?:['\"`/]|[Pp]rimitive:? )([A-Za-z_][\w\-]*)")
"""A word in quotes or at the end of a path, as in `op_name="jit(f)/cholesky"`."""


def start_there(search: Search) -> None:
    """Keep what is near an equation that the failure points at, at the least distance."""
    base = search.best
    if len(base.block.equations) < SMALL:
        return
    places = list(pointed_at(base, search.outcomes))
    if not places:
        return
    cutting = Cutting(search)
    for reach in REACHES:
        for eqn in places:
            if cutting.keeps(_near(base, eqn, reach)):
                return


def pointed_at(program: Program, outcomes: Sequence[Outcome]) -> Iterator[Equation]:
    """List equations of a program that its failure points at, the likeliest first."""
    eqns = program.block.equations
    seen: set[Equation] = set()
    for outcome in outcomes:
        row = outcome.blame_row
        if row is not None and row < len(eqns) and eqns[row].name == outcome.blame:
            seen.add(eqns[row])
            yield eqns[row]
    for name in _names(program, outcomes):
        holding = [eqn for eqn in eqns if _has(eqn, name)]
        for eqn in holding[: -MAX_PLACES - 1 : -1]:
            if eqn not in seen:
                seen.add(eqn)
                yield eqn


def _names(program: Program, outcomes: Sequence[Outcome]) -> list[str]:
    """List the primitives of a program that outcomes name."""
    known = {eqn.name for eqn in all_equations(program.block)} - _CALLS
    found: dict[str, None] = {}
    for outcome in outcomes:
        words = [outcome.blame or "", *_NAMED.findall(outcome.message)]
        words += _NAMED.findall(outcome.stderr)
        found.update((word, None) for word in words if word in known)
    return list(found)[:MAX_NAMES]


def _has(eqn: Equation, name: str) -> bool:
    inner = (e for block in sub_blocks(eqn) for e in all_equations(block))
    return eqn.name == name or any(e.name == name for e in inner)


def _near(program: Program, eqn: Equation, reach: int) -> list[Equation]:
    """List an equation and those that it is computed from in so many steps."""
    makers = {r: e for e in program.block.equations for r in e.results if r is not None}
    found, last = {eqn}, [eqn]
    for _ in range(reach):
        before = {makers[a] for e in last for a in e.operands if a in makers}
        last = [e for e in before if e not in found]
        found.update(last)
    return [e for e in program.block.equations if e in found]
