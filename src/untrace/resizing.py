"""Find the axes of a function's inputs that may have other sizes, by tracing it there.

Equations say which axes are tied (`axes.tied`). Each class is changed alone; if the
function cannot be traced so, its code ties the class to others of that size, and they
change together, as few of them as it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from untrace.axes.tied import InputAxis, tied_axes
from untrace.capture import Captured
from untrace.ir import from_jaxpr
from untrace.lifting.lift import count_blocks
from untrace.lifting.recorded.numbers.alignment import aligned, are_alike, named_sizes
from untrace.lifting.recorded.numbers.dimensions import place, shapes
from untrace.progress import expect, tick
from untrace.stages import Budget

MAX_TRACES = 64
MAX_UNRECORDED = 96
MAX_EQUATIONS = 200_000
"""Of all traces together: a budget of work, which no machine's speed changes."""

MIN_TRACES = 8
MAX_JOINT_TRACES = 8
"""With all classes changed, after those of each class alone."""
SEARCH_SHARE = 0.5
"""Of the time, for each class alone; the rest is for all of them and for comparing."""
# How many times larger dimensions are, in turn, when all change; the first that works.
TOGETHER = ((3, 5), (3, 2), (2, 3))

_Axes = tuple[InputAxis, ...]


@dataclass(frozen=True, slots=True)
class Varied:
    """Axes of inputs that change together, and a run where they did.

    The first has the size of the class; others may be multiples of it.
    """

    axes: _Axes
    size: int
    other: int
    sample: Captured


class Search:
    """Traces the function at other sizes."""

    def __init__(self, captured: Captured, budget: Budget) -> None:
        self._captured, self._budget = captured, budget
        self._shapes = shapes(captured)
        block = from_jaxpr(captured.jaxpr)
        self._ties = tied_axes(block)
        n_affordable = MAX_EQUATIONS // max(count_blocks(block)[0], 1)
        self._max_traces = min(MAX_TRACES, max(n_affordable, MIN_TRACES))
        self._max_unrecorded = min(MAX_UNRECORDED, max(n_affordable, MIN_TRACES))
        self._n_traces = 0
        self._failed: set[frozenset[tuple[InputAxis, int]]] = set()
        self._unrecorded: dict[frozenset[tuple[InputAxis, int]], Captured | None] = {}

    def classes(self) -> list[Varied]:
        """Find the classes of axes that may change, and that something depends on."""
        expect(self._max_traces)
        rest = [part for axes in self._ties for part in self._split(axes)]
        rest.sort(key=self._place)
        found: list[Varied] = []
        for axes in list(rest):
            if axes not in rest:
                continue
            made = self._varied(axes, [other for other in rest if other != axes])
            if made is None:
                continue
            rest = [other for other in rest if not {*other} <= {*made.axes}]
            # A function that does something else at other sizes is written for its own.
            if self._is_alike(made.sample) and _matters(self._captured, made.sample):
                found.append(made)
        self._max_traces = max(self._max_traces, self._n_traces + MAX_JOINT_TRACES)
        return found

    def together(self, classes: Sequence[Varied]) -> Captured | None:
        """Trace with all classes changed, each by another factor if that is possible."""
        larger = (
            [f[i % len(f)] * c.size for i, c in enumerate(classes)] for f in TOGETHER
        )
        tried = [
            [new if c.other > c.size else c.other for c, new in zip(classes, sizes)]
            for sizes in larger
        ]
        for sizes in [*tried, [c.other for c in classes]]:
            sample = self._traced(self._changes(classes, sizes))
            if sample is not None and self._is_alike(sample):
                return sample
        return None

    def at(self, classes: Sequence[Varied], sizes: Sequence[int]) -> Captured | None:
        """Trace with each class at a size, without recording it; None if it refuses."""
        changes = self._changes(classes, sizes)
        key = frozenset(changes.items())
        if key not in self._unrecorded:
            if len(self._unrecorded) >= self._max_unrecorded or self._budget.is_over():
                return None
            assert self._captured.variant is not None
            self._unrecorded[key] = self._captured.variant(changes, False)
        return self._unrecorded[key]

    def _changes(
        self, classes: Sequence[Varied], sizes: Sequence[int]
    ) -> dict[InputAxis, int]:
        changes: dict[InputAxis, int] = {}
        for item, size in zip(classes, sizes):
            changes.update(self._scaled(item.axes, item.size, size))
        return changes

    def _varied(self, axes: _Axes, others: Sequence[_Axes]) -> Varied | None:
        """Change a class, with as few of the others as it takes.

        Others of its size may be tied to it by the function's code, as may multiples.
        """
        made = self._changed(axes)
        if made is not None:
            return made
        size = self._size(axes[0])
        for is_tied in (lambda n: n == size, lambda n: n % size == 0):
            tied = [other for other in others if is_tied(self._size(other[0]))]
            made = self._changed(axes + tuple(a for other in tied for a in other))
            if made is not None:
                return self._without(made, tied)
        return None

    def _without(self, made: Varied, others: Sequence[_Axes]) -> Varied:
        """Leave out of a class what may stay as it is."""
        for other in others:
            fewer = self._changed(tuple([a for a in made.axes if a not in other]))
            made = fewer or made
        return made

    def _changed(self, axes: _Axes) -> Varied | None:
        size = self._size(axes[0])
        for other in (2 * size, size // 2 if size % 2 == 0 else 1):
            sample = self._trace(self._scaled(axes, size, other)) if other > 1 else None
            if sample is not None:
                return Varied(axes, size, other, sample)
        return None

    def _scaled(self, axes: _Axes, size: int, other: int) -> dict[InputAxis, int]:
        """Return the sizes of axes, which are multiples of one that changes."""
        return {axis: self._size(axis) // size * other for axis in axes}

    def _is_alike(self, sample: Captured) -> bool:
        return are_alike([self._captured.recording, sample.recording])

    def _trace(self, sizes: Mapping[InputAxis, int]) -> Captured | None:
        """Trace with one class changed, if there is time for it."""
        return None if self._budget.is_over(SEARCH_SHARE) else self._traced(sizes)

    def _traced(self, sizes: Mapping[InputAxis, int]) -> Captured | None:
        key = frozenset(sizes.items())
        if key in self._failed or self._n_traces >= self._max_traces:
            return None
        self._n_traces += 1
        tick()
        assert self._captured.variant is not None
        sample = self._captured.variant(sizes, True)
        if sample is None:
            self._failed.add(key)
        return sample

    def _split(self, axes: _Axes) -> Iterator[_Axes]:
        """Split a class whose axes have several sizes."""
        for size in dict.fromkeys(map(self._size, axes)):
            yield tuple([axis for axis in axes if self._size(axis) == size])

    def _size(self, axis: InputAxis) -> int:
        return self._shapes[axis[0]][axis[1]]

    def _place(self, axes: _Axes) -> tuple[int, InputAxis]:
        """Order classes: arguments of few arrays first."""
        return min(place(self._captured, axis) for axis in axes)


def _matters(captured: Captured, sample: Captured) -> bool:
    """Whether calls, or variables of sizes, differ between two runs."""
    different: list[object] = []
    bodies = [captured.recording, sample.recording]
    aligned(bodies, lambda values: different.append(values) or values[0])
    named = (sizes for _, sizes, _ in named_sizes(bodies))
    return bool(different) or any(len({*sizes}) > 1 for sizes in named)
