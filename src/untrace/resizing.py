"""Find the axes of a function's inputs that may have other sizes, by tracing it there.

Equations say which axes are tied (`recovery.ties`). Each class is changed alone; if the
function cannot be traced so, its code ties the class to others of that size, and they
change together, as few of them as it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from untrace.capture import Captured
from untrace.ir import from_jaxpr
from untrace.lifting.recorded.alignment import aligned, are_alike, named_sizes
from untrace.lifting.recorded.dimensions import place, shapes
from untrace.recovery.ties import InputAxis, tied_axes

MAX_TRACES = 64
# How many times larger dimensions are, in turn, when all change; the first that works.
TOGETHER = ((3, 5), (3, 2), (2, 3))


@dataclass(frozen=True, slots=True)
class Varied:
    """Axes of inputs that have one size, and a run with another."""

    axes: tuple[InputAxis, ...]
    size: int
    other: int
    sample: Captured


class Search:
    """Traces the function at other sizes."""

    def __init__(self, captured: Captured) -> None:
        self._captured = captured
        self._n_traces = 0

    def classes(self) -> list[Varied]:
        """Find the classes of axes that may change, and that something depends on."""
        open_ones = [
            self._split(c) for c in tied_axes(from_jaxpr(self._captured.jaxpr))
        ]
        rest = [part for parts in open_ones for part in parts]
        rest.sort(key=self._place)
        found: list[Varied] = []
        while rest:
            first, *others = rest
            axes, made = self._varied(first, others)
            rest = [c for c in others if not {*c} <= {*axes}]
            # A function that does something else at other sizes is written for its own.
            if made is not None and self._is_alike(made.sample):
                found += [made] if _matters(self._captured, made.sample) else []
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
            pairs = zip(classes, sizes)
            sample = self._trace({a: size for c, size in pairs for a in c.axes})
            if sample is not None and self._is_alike(sample):
                return sample
        return None

    def _varied(
        self, axes: tuple[InputAxis, ...], others: Sequence[tuple[InputAxis, ...]]
    ) -> tuple[tuple[InputAxis, ...], Varied | None]:
        """Change a class, with as few of the others of its size as it takes."""
        made = self._changed(axes)
        if made is not None:
            return axes, made
        size = self._size(axes[0])
        alike = [other for other in others if self._size(other[0]) == size]
        whole = (*axes, *(axis for other in alike for axis in other))
        made = self._changed(whole) if alike else None
        if made is None:
            return axes, None
        for other in alike:
            fewer = tuple([axis for axis in whole if axis not in other])
            smaller = self._changed(fewer)
            if smaller is not None:
                whole, made = fewer, smaller
        return whole, made

    def _changed(self, axes: tuple[InputAxis, ...]) -> Varied | None:
        size = self._size(axes[0])
        for other in (2 * size, size // 2 if size % 2 == 0 else 1):
            sample = self._trace(dict.fromkeys(axes, other)) if other > 1 else None
            if sample is not None:
                return Varied(axes, size, other, sample)
        return None

    def _is_alike(self, sample: Captured) -> bool:
        return are_alike([self._captured.recording, sample.recording])

    def _trace(self, sizes: Mapping[InputAxis, int]) -> Captured | None:
        self._n_traces += 1
        assert self._captured.variant is not None
        return self._captured.variant(sizes) if self._n_traces <= MAX_TRACES else None

    def _split(self, axes: tuple[InputAxis, ...]) -> Iterator[tuple[InputAxis, ...]]:
        """Split a class whose axes have several sizes."""
        for size in dict.fromkeys(map(self._size, axes)):
            yield tuple([axis for axis in axes if self._size(axis) == size])

    def _size(self, axis: InputAxis) -> int:
        return shapes(self._captured)[axis[0]][axis[1]]

    def _place(self, axes: tuple[InputAxis, ...]) -> tuple[int, InputAxis]:
        """Order classes: arguments of few arrays first."""
        return min(place(self._captured, axis) for axis in axes)


def _matters(captured: Captured, sample: Captured) -> bool:
    """Tell whether calls, or variables of sizes, differ between two runs."""
    different: list[object] = []
    bodies = [captured.recording, sample.recording]
    aligned(bodies, lambda values: different.append(values) or values[0])
    named = (sizes for _, sizes, _ in named_sizes(bodies))
    return bool(different) or any(len({*sizes}) > 1 for sizes in named)
