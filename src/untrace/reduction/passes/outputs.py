"""Keep only the outputs that the failure needs, and of several that do the smallest."""

from __future__ import annotations

from untrace.ir import Atom, Value
from untrace.reduction.applying import apply
from untrace.reduction.delta import minimize
from untrace.reduction.edits import Edits
from untrace.reduction.program import Program
from untrace.reduction.search import Search
from untrace.reduction.sizes import measure


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


def exchange_outputs(search: Search) -> None:
    """Let another result of the same equation be the output, as long as that helps.

    A loop that the failure needs has to give something. What it gives cannot go, and
    neither can what computes it; where another result needs less of the loop, that one is
    given. The smallest programs are tried first.
    """
    while search.first(_exchanged(search.best)):
        pass


def _exchanged(program: Program) -> list[Program]:
    outputs = program.block.outputs
    others = {
        result: [r for r in eqn.results if r is not None and r not in outputs]
        for eqn in program.block.equations
        for result in eqn.results
    }
    made = [
        apply(program, Edits(outputs=(*outputs[:i], other, *outputs[i + 1 :])))
        for i, output in enumerate(outputs)
        if isinstance(output, Value)
        for other in others.get(output, ())
    ]
    return sorted((found for found in made if found is not None), key=measure)
