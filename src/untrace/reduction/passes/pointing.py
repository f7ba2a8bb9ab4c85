"""Start where the failure points: the equation to blame, or one that a message names.

Most failures need one equation and what leads to it. So the equation that is pointed at
is tried alone, then with what it is computed from, at distances 1 and 4; with what is
computed from it, too, where a value is bad: an infinity becomes NaN in another equation. Where nothing
but a kind of equation is known, the last of that kind is tried, then all of them at
once: it takes fewer runs to find out which of them matter than to try each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from untrace import jaxapi
from untrace.ir import Block, Equation, all_equations, sub_blocks
from untrace.reduction.outcome import EARLY, Outcome
from untrace.reduction.passes.cutting import Cutting
from untrace.reduction.program import Program
from untrace.reduction.search import Search

REACHES = (0, 1, 4)
MAX_NAMES = 3

_CALLS = frozenset({"jit", "pjit", "closed_call", "core_call", "checkpoint", "remat2"})
"""What every message names that says where something stands."""

_NAMED = re.compile(r"(?:['\"`/]|[Pp]rimitive:? )([A-Za-z_][\w\-]*)")
"""A word in quotes or at the end of a path, as in `op_name="jit(f)/cholesky"`."""

_LONG = re.compile(r"[a-z]+(?:[_\-][a-z0-9]+)+")
"""A word that is none of English, as in `fast_gelu.cc:21`."""

_OUTSIDE = frozenset(
    {"pure_callback", "io_callback", "debug_callback", "ffi_call", "pallas_call"}
)
"""What XLA did not write itself."""

_FUNCTIONS = {"while": ("while_loop", "fori_loop")}
"""Functions by which messages call a primitive."""


def start_there(search: Search) -> None:
    """Keep what is near an equation that the failure points at, at the least distance."""
    base = search.best
    if len(base.block.equations) < 3:
        return
    places = list(pointed_at(base, search.outcomes, search.judge.keep.named(base)))
    if not places:
        return
    cutting = Cutting(search)
    is_carried = search.judge.keep.depends_on_values  # a bad value goes on to others
    for reach in REACHES:
        for eqns in places if reach == 0 else dict.fromkeys((places[0], places[-1])):
            near = _near(base.block, eqns, reach, reach if is_carried else 0)
            if cutting.keeps(near):
                return


def aimed_at(search: Search, block: Block) -> Iterator[list[Equation]]:
    """List parts of a sub-program: what a failure names in it, and what is near that."""
    base = search.best
    names = (
        search.judge.keep.named(base)
        or _names(base, search.outcomes)
        or _suspects(base, search.outcomes)
    )
    aims = [eqn for eqn in block.equations if any(_has(eqn, name) for name in names)]
    if aims:
        yield from (_near(block, aims, reach, 0) for reach in REACHES)


def pointed_at(
    program: Program, outcomes: Sequence[Outcome], named: Sequence[str] = ()
) -> Iterator[tuple[Equation, ...]]:
    """List what a failure points at: the equation to blame, then those of each kind.

    Args:
      outcomes: What was seen of it.
      named: Primitives that the predicate names itself.

    Returns:
      Equations that are tried at once. Where none is to blame, the last of each kind
      comes first; at last all of all kinds.
    """
    eqns = program.block.equations
    blamed = {
        eqns[row]: None
        for outcome in outcomes
        if (row := outcome.blame_row) is not None
        and row < len(eqns)
        and eqns[row].name == outcome.blame
    }
    yield from ((eqn,) for eqn in blamed)
    names = named or _names(program, outcomes) or _suspects(program, outcomes)
    holding = [[eqn for eqn in eqns if _has(eqn, name)] for name in names]
    if not blamed:
        yield from ((found[-1],) for found in holding if found)
    everything = tuple(eqn for eqn in eqns if any(eqn in found for found in holding))
    if len(everything) > 1:
        yield everything


def _names(program: Program, outcomes: Sequence[Outcome]) -> list[str]:
    """List the primitives of a program that outcomes name."""
    known = dict.fromkeys(
        eqn.name for eqn in all_equations(program.block) if eqn.name not in _CALLS
    )
    plain = {name: f"_{name.replace('-', '_')}_" for name in known if "_" in name}
    found: dict[str, None] = {}
    for outcome in outcomes:
        said = f"{outcome.message}\n{outcome.stderr}"
        words = [outcome.blame or "", *_NAMED.findall(said)]
        found.update((word, None) for word in words if word in known)
        for word in _LONG.findall(said):
            inside = f"_{word.replace('-', '_')}_"
            found.update((name, None) for name in plain if plain[name] in inside)
            called = (name for name, words in _FUNCTIONS.items() if word in words)
            found.update((name, None) for name in called if name in known)
    return list(found)[:MAX_NAMES]


def _suspects(program: Program, outcomes: Sequence[Outcome]) -> list[str]:
    """List the primitives that a failure without words may come from.

    Those are what is not compiled by JAX and XLA alone, and what need not end.
    """
    if not any(o.status in ("raised", "died", "timeout") for o in outcomes):
        return []
    is_late = any(o.status == "timeout" and o.stage not in EARLY for o in outcomes)
    suspects = _OUTSIDE | ({"while"} if is_late else set())
    found = {
        eqn.name: None
        for eqn in all_equations(program.block)
        if eqn.name in suspects or eqn.name not in jaxapi.own_primitives()
    }
    return list(found)[:MAX_NAMES]


def _has(eqn: Equation, name: str) -> bool:
    inner = (e for block in sub_blocks(eqn) for e in all_equations(block))
    return eqn.name == name or any(e.name == name for e in inner)


def _near(
    block: Block, eqns: Collection[Equation], before: int, after: int
) -> list[Equation]:
    """List equations, and others so many steps before and after them."""
    makers = {r: e for e in block.equations for r in e.results if r is not None}
    found = {*eqns}
    last = found
    for _ in range(before):
        last = {makers[a] for e in last for a in e.operands if a in makers} - found
        found |= last
    last = {*eqns}
    for _ in range(after):
        made = {r for e in last for r in e.results if r is not None}
        last = {e for e in block.equations if not made.isdisjoint(e.operands)}
        found |= last
    return [e for e in block.equations if e in found]
