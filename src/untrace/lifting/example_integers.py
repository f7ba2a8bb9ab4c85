"""Draw integers that stay below others, or above: offsets, counts, bounds of segments.

They are drawn from the lowest to the highest, between those that are written exactly and
those that have been drawn: `stop = rng.integers(start + 1, 12, endpoint=True)`. What is less
than another by one at least, and that than a third, leaves room for both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from untrace.lifting.example_arrays import extreme, in_order
from untrace.lifting.example_kinds import Request, one_digit

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Integers:
    """Inputs of whole numbers, by their positions.

    Attributes:
      below: For each input those below it, also those that others are between.
      values: Their values.
      drawn: Those that are drawn.
      texts: How each is referred to.
      sorted: Those whose examples are of one number, or rise.
    """

    below: Mapping[int, frozenset[int]]
    values: Mapping[int, Array]
    drawn: Collection[int]
    texts: Mapping[int, str]
    sorted: Collection[int]

    def order(self) -> list[int]:
        """Return those that are drawn and have others below or above, lowest first."""
        related = {i for i in self.values if self._below(i)}
        related |= {low for i in related for low in self._below(i)}
        return sorted(related & {*self.drawn}, key=lambda i: (len(self._below(i)), i))

    def hidden(self) -> Integers:
        """Return inputs of one digit that are as much below each other as these.

        None is larger than it was: what counts or points somewhere still may.
        """
        depths = dict[int, int]()
        for i in sorted(self.values, key=lambda i: len(self._below(i))):
            gaps = [depths[j] + self._gap(j, i) for j in self._below(i)]
            depths[i] = max(gaps, default=0)
        round_all = np.vectorize(one_digit, otypes=[np.int64])
        moved = {i: round_all(v) + depths[i] for i, v in self.values.items()}
        if all(np.all(value >= 0) for value in self.values.values()):
            moved = {i: np.minimum(v, self.values[i]) for i, v in moved.items()}
        return replace(self, values=moved)

    def draw(self, i: int, request: Request) -> tuple[str, list[int]]:
        """Write an expression for one, and list those that it refers to."""
        value = self.values[i]
        low, high = int(value.min()), int(value.max())
        lows, highs, used = list[str](), list[str](), list[int]()
        for j in sorted(self._below(i)):
            gap = self._gap(j, i)
            if any(one >= gap for one in self._ways(j, i)):
                continue  # what is between them sees to it
            if self._goes_with(j, i):
                lows.append(_moved(self.texts[j], gap))
                used.append(j)
            else:
                low = max(low, int(self.values[j].max()) + gap)
        for j in sorted(self.values):
            if i not in self._below(j):
                continue
            gap = self._gap(i, j)
            if j in self.drawn:
                high = min(high, int(self.values[j].max()) - gap)
            elif self._goes_with(j, i):
                highs.append(_moved(self.texts[j], -gap))
                used.append(j)
            else:
                high = min(high, int(self.values[j].min()) - gap)
        if not lows or any(
            self._least(j, i) < low for j in used if j in self._below(i)
        ):
            lows.append(str(low))
        if not highs or any(self._most(j) > high for j in used if i in self._below(j)):
            highs.append(str(high))
        given = f"{extreme('maximum', lows)}, {extreme('minimum', highs)}"
        has_shape = any(self.values[j].shape == value.shape for j in used)
        size = "" if has_shape else f", size={request.text()}"
        drawn = request.typed(f"rng.integers({given}{size}, endpoint=True)")
        # What is sorted stays between others that are.
        is_sorted = value.ndim < 2 and {*used} <= {*self.sorted}
        return (in_order(drawn, value, request) if is_sorted else drawn), used

    def _below(self, i: int) -> frozenset[int]:
        return self.below.get(i, frozenset()) & self.values.keys()

    def _gap(self, low: int, high: int) -> int:
        """Return how much less one is than another, if all between have room."""
        step = int(np.all(self.values[low] < self.values[high]))
        return max(step, *self._ways(low, high), 0)

    def _ways(self, low: int, high: int) -> list[int]:
        """List how much less one is than another by those that are between them."""
        between = [k for k in self._below(high) if low in self._below(k) and k != low]
        return [self._gap(low, k) + self._gap(k, high) for k in between]

    def _least(self, j: int, i: int) -> int:
        """Return the least number that an input is above, by another one below it."""
        return int(self.values[j].min()) + self._gap(j, i)

    def _most(self, j: int) -> int:
        return int(self.values[j].max())

    def _goes_with(self, j: int, i: int) -> bool:
        """Whether an input is as large as another one, or is repeated to be."""
        shapes = self.values[j].shape, self.values[i].shape
        try:
            return np.broadcast_shapes(*shapes) == shapes[1]
        except ValueError:
            return False


def _moved(text: str, step: int) -> str:
    return f"{text} {'-' if step < 0 else '+'} {abs(step)}" if step else text
