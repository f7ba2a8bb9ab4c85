"""What the values of a jitted program are, seen without changing what it computes.

XLA computes many values together, and rounds otherwise than op by op: a product and a sum
in one step. To see a value it must be a result, and that may change what is computed
together. So a program is compiled with results for the values in question, and believed
only if its own results have the bits that they have without. If not, fewer values are
asked for at a time; those that disturb the results even alone are not seen.

Loops give the values of all turns, stacked; those of a `while` as many as the run op by
op had.
"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from untrace.interpreters.called import Call
from untrace.interpreters.diverging import store
from untrace.interpreters.diverging.distances import Array, as_array
from untrace.interpreters.diverging.moments import (
    BRANCH,
    CONDITION,
    TURN,
    TURNS,
    Around,
    Moment,
    Site,
)
from untrace.interpreters.diverging.observer import Observer
from untrace.interpreters.diverging.recording import Recording
from untrace.interpreters.diverging.store import Kept, Store

MAX_COMPILATIONS = 32
"""How often a program is compiled at most, until values do not disturb it."""


class Value(NamedTuple):
    """A value of a jitted program.

    Attributes:
      kept: Those of all turns.
      turns: Which one it is of them.
    """

    kept: Kept
    turns: tuple[int, ...]

    @property
    def value(self) -> Array:
        """The value."""
        return self.kept.array[self.turns]


class Compiled:
    """The values of a jitted program.

    Args:
      call: The program and its inputs.
      recording: Its run op by op: what is looked for.
      around: Returns the context of each run.

    Attributes:
      outputs: What the program returned, flat.
      n_compilations: How often the program was compiled.
    """

    def __init__(
        self,
        call: Call,
        recording: Recording,
        around: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._call = call
        self._around = around
        self._limits = _limits(recording)
        self._seen: dict[Site, Kept] = {}
        self._store = Store()
        self.n_compilations = 1
        plain, _ = self._run(frozenset())
        self.outputs: Sequence[Any] = plain
        self._bits = list(map(as_array, plain))
        for places in _groups(recording):
            self._look(places)

    def at(self, moment: Moment, occurrence: int) -> Value | None:
        """Return the value at a moment, if it was seen, and the program came there."""
        kept = self._seen.get(moment.site)
        if kept is None or occurrence or not self._came_to(moment):
            return None
        return Value(kept, moment.turns)

    def _came_to(self, moment: Moment) -> bool:
        """Whether the turns and branches around a moment were taken."""
        n_turns = 0
        around = moment.site.around
        for depth, (equation, part) in enumerate(around):
            before = around[:depth]
            loop = self._seen.get(Site(before, equation, TURNS))
            branch = self._seen.get(Site(before, equation, BRANCH))
            at = moment.turns[:n_turns]
            if branch is not None and int(branch.array[at]) != part:
                return False
            if part != TURN:
                continue
            if loop is not None and int(loop.array[at]) <= moment.turns[n_turns]:
                return False
            n_turns += 1
        return True

    def _look(self, places: list[tuple[Around, int]]) -> None:
        """See values, all at once or by halves."""
        if self.n_compilations >= MAX_COMPILATIONS:
            return
        self.n_compilations += 1
        outputs, seen = self._run(frozenset(places))
        if _are_same(self._bits, list(map(as_array, outputs))):
            self._seen.update({s: self._store.keep(a) for s, a in seen.items()})
        elif len(places) > 1:
            middle = len(places) // 2
            self._look(places[:middle])
            self._look(places[middle:])

    def _run(
        self, places: frozenset[tuple[Around, int]]
    ) -> tuple[Sequence[Any], dict[Site, Array]]:
        observer = Observer(places, self._limits)

        def run(*inputs: Any) -> tuple[Sequence[Any], list[Any]]:
            outputs, seen = observer.run(self._call.jaxpr, inputs)
            sites[:] = list(seen)
            return outputs, list(seen.values())

        sites: list[Site] = []
        with self._around():
            outputs, values = jax.jit(run)(*self._call.inputs)
        arrays = {s: as_array(value) for s, value in zip(sites, values)}
        return outputs, {s: a for s, a in arrays.items() if a is not None}


def _groups(recording: Recording) -> list[list[tuple[Around, int]]]:
    """Put places together whose values are seen in one run: as many as memory holds."""
    sizes: dict[tuple[Around, int], int] = defaultdict(int)
    for entry in recording.entries:
        where = entry.moment.site
        if all(part != CONDITION for _, part in where.around):
            n_elements = math.prod(entry.kept.shape)
            sizes[where.around, where.equation] += (
                n_elements * entry.kept.dtype.itemsize
            )
    groups: list[list[tuple[Around, int]]] = [[]]
    held = 0
    for place, size in sizes.items():
        if held + size > store.MAX_BYTES and groups[-1]:
            groups.append([])
            held = 0
        groups[-1].append(place)
        held += size
    return groups


def _limits(recording: Recording) -> dict[tuple[Around, int], int]:
    """How many turns each `while` had at most, when it ran op by op."""
    found: dict[tuple[Around, int], int] = {}
    for entry in recording.entries:
        where = entry.moment.site
        if where.part == TURNS:
            key = where.around, where.equation
            found[key] = max(found.get(key, 1), int(entry.value))
    return found


def _are_same(ones: Sequence[Array | None], others: Sequence[Array | None]) -> bool:
    """Whether results have the same bits; NaNs may have others."""
    return all(
        one is other or (one is not None and other is not None and _is_same(one, other))
        for one, other in zip(ones, others, strict=True)
    )


def _is_same(one: Array, other: Array) -> bool:
    if one.tobytes() == other.tobytes():
        return True
    return one.dtype.kind not in "biu" and np.array_equal(one, other, equal_nan=True)
