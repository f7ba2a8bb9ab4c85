"""Sizes that a file with named dimensions is tried at, besides those it was written from.

It is written from multiples of the sizes at hand, at which a function that pads to a
multiple, or stops at 64, looks like any other. So each dimension takes sizes that are one
more and one less, odd, prime and large ones, and numbers that the code compares with. All
dimensions change at once, each by another rule at a time; where the function refuses that,
they change alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from untrace.capture import Captured
from untrace.recovery.compared import compared_numbers
from untrace.resizing import Search, Varied

MEDIUM, LARGE = 128, 2048
LARGEST_NUMBER = 4096
MAX_NUMBERS = 3
MAX_STEPS = 8


@dataclass(frozen=True, slots=True)
class Trial:
    """The function at other sizes: one for every class of axes."""

    sizes: tuple[int, ...]
    sample: Captured


class Prober:
    """Traces the function at sizes that tell a program for any size from another."""

    def __init__(self, captured: Captured, search: Search, largest: int | None) -> None:
        """Prepare for a function.

        Args:
          captured: The function at the sizes at hand.
          search: Traces it at others.
          largest: How many times larger a size may become; None if that costs nothing.
        """
        self._search = search
        self._largest = largest
        found = dict.fromkeys(compared_numbers(captured.recording))
        numbers = [n for n in found if 1 < n <= LARGEST_NUMBER]
        self._numbers = sorted(numbers[:MAX_NUMBERS])

    def trials(self, classes: Sequence[Varied]) -> Iterator[Trial]:
        """Yield the function at sizes that it takes."""
        columns = [self._sizes(classes, i) for i in range(len(classes))]
        for turn in range(max(map(len, columns))):
            rows = [c[(turn + i) % len(c)] for i, c in enumerate(columns)]
            joint = self.trial(classes, rows)
            if joint is not None:
                yield joint
            elif len(classes) > 1:
                yield from self.alone(classes, rows)

    def alone(self, classes: Sequence[Varied], sizes: Sequence[int]) -> Iterator[Trial]:
        """Yield the function with one class changed at a time."""
        for i, size in enumerate(sizes):
            own = [size if i == j else c.size for j, c in enumerate(classes)]
            trial = self.trial(classes, own)
            if trial is not None:
                yield trial

    def trial(self, classes: Sequence[Varied], sizes: Sequence[int]) -> Trial | None:
        """Return the function at some sizes, if it takes them."""
        changed = [(c, size) for c, size in zip(classes, sizes) if c.size != size]
        if not changed:
            return None
        sample = self._search.at(*zip(*changed))
        return None if sample is None else Trial(tuple(sizes), sample)

    def _sizes(self, classes: Sequence[Varied], index: int) -> list[int]:
        item = classes[index]
        tried = sizes_to_try(item.size, self._step(item), self._numbers)
        most = None if self._largest is None else self._largest * item.size
        return [n for n in tried if most is None or n <= most] or [item.size]

    def _step(self, item: Varied) -> int:
        """Return what a size must be a multiple of, for the function to take it."""
        divisors = (n for n in range(1, item.size) if item.size % n == 0)
        sign = 1 if item.other > item.size else -1
        for step in itertools.islice(divisors, MAX_STEPS):
            if self.trial([item], [item.size + sign * step]) is not None:
                return step
        return item.size


def sizes_to_try(size: int, step: int, numbers: Sequence[int]) -> list[int]:
    """List sizes that tell much, for a function that takes multiples of a step.

    Args:
      size: The size at hand.
      step: Divides it.
      numbers: What the function may compare the size with.

    >>> sizes_to_try(8, 1, [100])
    [9, 7, 1, 100, 101, 131, 2053]
    >>> sizes_to_try(12, 4, [])
    [16, 8, 4, 148, 2084]
    """
    large = max(LARGE, 2 * max(numbers, default=0), 2 * size)
    units = [size // step + 1, size // step - 1, 1]
    units += [unit for n in numbers for unit in (n // step, n // step + 1)]
    units += [_prime(bound // step) for bound in (max(MEDIUM, size), large)]
    return [n * step for n in dict.fromkeys(units) if n > 0 and n * step != size]


def _prime(least: int) -> int:
    """Return the first prime above a number."""
    return next(
        n
        for n in itertools.count(least + 1)
        if n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))
    )
