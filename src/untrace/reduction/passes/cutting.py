"""Cut the program down to the equations that fail.

Where a cut goes through a value, the value becomes an input that holds what it held in
the program, since many failures depend on values. First the end is cut off, then the
beginning, each by bisection; then what lies far from the outputs; then blocks of
equations, by delta debugging.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from untrace.ir import Atom, Equation, Value
from untrace.reduction.applying import apply
from untrace.reduction.delta import minimize
from untrace.reduction.edits import Edits, Held, Substitute
from untrace.reduction.program import Program
from untrace.reduction.search import Search
from untrace.reduction.values import Recorder


def cut_end(search: Search) -> None:
    """Find the last equation that the failure needs, and make its results the outputs."""
    base = search.best
    eqns = base.block.equations
    if len(eqns) < 2:
        return
    k = search.smallest(0, len(eqns), lambda k: _prefix(base, k))
    last = tuple(r for r in eqns[k - 1].results if r is not None)
    if last:
        search.first(iter([apply(base, Edits(outputs=last))]))


def _prefix(program: Program, k: int) -> Program | None:
    """Keep the first k equations; what the others used of them is the output."""
    block = program.block
    made = {r: None for eqn in block.equations[:k] for r in eqn.results}
    used: dict[Atom, None] = {}
    for eqn in block.equations[k:]:
        used.update(dict.fromkeys(a for a in eqn.operands if a in made))
    used.update(dict.fromkeys(a for a in block.outputs if a in made))
    dropped = frozenset(eqn for eqn in block.equations[k:] if eqn.effects)
    return apply(program, Edits(outputs=tuple(used), dropped=dropped)) if used else None


SMALL = 8
"""Equations that are not worth halving."""


class Cutting:
    """Keeps some equations of a program and holds what the others gave them."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.base = search.best
        self._values: dict[Value, object] | None = None
        self._controls: dict[Value, object] | None = None

    @property
    def values(self) -> dict[Value, object]:
        """Values of all results, recorded when they are first needed."""
        if self._values is None:
            self._values = self._recorded(self.base)
        return self._values

    @property
    def controls(self) -> dict[Value, object]:
        """What the same results are under the control inputs; none without any."""
        if self._controls is None:
            given = self.base.controls
            is_any = given is not None
            self._controls = (
                self._recorded(self.base.with_values(given)) if is_any else {}
            )
        return self._controls

    def held(self, value: Value) -> Held:
        """Return what stands for a value whose equation goes."""
        return Held(self.values[value], self.controls.get(value))

    def _recorded(self, program: Program) -> dict[Value, object]:
        recorder = Recorder(program, self.search.judge)
        found = recorder.record()
        self.search.stats.recordings += recorder.n_runs
        return found

    def keeps(self, kept: Collection[Equation], *, with_live: bool = False) -> bool:
        """Accept the program of only these equations, if it fails."""
        return self.search.first(iter([self.program(kept, with_live=with_live)]))

    def program(
        self, kept: Collection[Equation], *, with_live: bool = False
    ) -> Program | None:
        """Return the program of only these equations.

        Args:
          kept: What stays.
          with_live: Make outputs of all that others need; otherwise only of what is an
            output already, or, if nothing is, of what nothing else needs.
        """
        block = self.base.block
        kept = set(kept)
        gone = [eqn for eqn in block.equations if eqn not in kept]
        inside = [r for eqn in block.equations if eqn in kept for r in eqn.results]
        used = {a for eqn in kept for a in eqn.operands if isinstance(a, Value)}
        replaced: dict[Value, Substitute] = {
            result: self.held(result)
            for eqn in gone
            for result in eqn.results
            if result is not None and result in used
        }
        outputs = self._outputs(
            [r for r in inside if r is not None], used, gone if with_live else []
        )
        if not outputs:
            return None
        dropped = frozenset(eqn for eqn in gone if eqn.effects)
        return apply(
            self.base, Edits(outputs=outputs, replaced=replaced, dropped=dropped)
        )

    def _outputs(
        self, inside: list[Value], used: set[Value], readers: list[Equation]
    ) -> tuple[Value, ...]:
        wanted = {*self.base.block.outputs, *(a for e in readers for a in e.operands)}
        found = tuple(result for result in inside if result in wanted)
        return found or tuple(result for result in inside if result not in used)


def cut_halves(search: Search) -> None:
    """Keep one half of the equations, then one half of those, as long as one fails.

    The halves share no work, so all runs together cost little more than one of the whole.
    """
    eqns = search.best.block.equations
    cutting = Cutting(search)
    low, high = 0, len(eqns)
    while high - low >= SMALL:
        quarter, middle = (high - low) // 4, (low + high) // 2
        halves = ((middle, high), (low, middle), (low + quarter, high - quarter))
        failing = (
            half
            for half in halves
            if cutting.keeps(eqns[half[0] : half[1]], with_live=True)
        )
        half = next(failing, None)
        if half is None:
            return
        low, high = half


def cut_beginning(search: Search) -> None:
    """Find the first equation that the failure needs."""
    eqns = search.best.block.equations
    if len(eqns) < 3:
        return
    cutting = Cutting(search)
    n = len(eqns)
    search.smallest(0, n, lambda k: cutting.program(eqns[n - k :]))


def cut_far(search: Search) -> None:
    """Keep what is near the outputs in the flow of data, at the smallest distance."""
    eqns = search.best.block.equations
    if len(eqns) < 3:
        return
    cutting = Cutting(search)
    distances = _distances(search.best)
    reach = 1
    while reach < max(distances.values(), default=0):
        near = [eqn for eqn in eqns if distances.get(eqn, reach) < reach]
        if len(near) < len(eqns) and cutting.keeps(near):
            return
        reach *= 2


def _distances(program: Program) -> dict[Equation, int]:
    """Count for each equation the steps from it to an output."""
    readers: dict[Atom, int] = dict.fromkeys(program.block.outputs, 0)
    found: dict[Equation, int] = {}
    for eqn in reversed(program.block.equations):
        steps = [readers[r] for r in eqn.results if r in readers]
        if not steps:
            continue
        found[eqn] = min(steps)
        for operand in eqn.operands:
            readers[operand] = min(readers.get(operand, min(steps) + 1), min(steps) + 1)
    return found


def cut_blocks(search: Search) -> None:
    """Cut out blocks of equations, then single ones."""
    eqns = search.best.block.equations
    if len(eqns) < 2:
        return
    cutting = Cutting(search)
    minimize(list(eqns), cutting.keeps)


def cut_one(search: Search) -> None:
    """Cut out single equations until none can be; for the end of a reduction."""
    found = True
    while found and len(search.best.block.equations) > 1:
        cutting = Cutting(search)
        eqns = search.best.block.equations
        found = search.first(
            cutting.program(_without(eqns, i)) for i in range(len(eqns))
        )


def _without(eqns: Sequence[Equation], index: int) -> list[Equation]:
    return [eqn for i, eqn in enumerate(eqns) if i != index]
