"""Keep only the outputs that the failure needs."""

from __future__ import annotations

from untrace.ir import Atom, Value
from untrace.reduction.applying import apply
from untrace.reduction.delta import minimize
from untrace.reduction.edits import Edits
from untrace.reduction.search import Search


def drop_outputs(search: Search) -> None:
    """Drop halves, quarters, ... of the outputs, down to single ones."""
    base = search.best

    def suffices(outputs: list[Atom]) -> bool:
        return search.first(iter([apply(base, Edits(outputs=tuple(outputs)))]))

    minimize(list(dict.fromkeys(base.block.outputs)), suffices)


def drop_passed_through(search: Search) -> None:
    """Drop the outputs that no equation computes, all at once."""
    block = search.best.block
    made = {r for eqn in block.equations for r in eqn.results}
    kept = tuple(a for a in block.outputs if isinstance(a, Value) and a in made)
    if kept and len(kept) < len(block.outputs):
        search.first(iter([apply(search.best, Edits(outputs=kept))]))
