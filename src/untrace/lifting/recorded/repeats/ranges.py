"""How the indices that a loop counts, or takes the items of, are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from untrace.lifting.recorded.building import display, literal_term
from untrace.lifting.recorded.terms import Term
from untrace.syntax.steps import Slice

MIN_STEPS = 4
"""How many numbers are a `range` with a step, where a tuple would be shorter."""


_NUMBERED = re.compile(r"([\w ./-]*?)(0|[1-9]\d*)([ ./-]?[^\W\d]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Numbered:
    """Words that differ in a number: what is `around` it, and the number of each."""

    around: tuple[str, str]
    numbers: tuple[int, ...]


def numbered_words(words: Sequence[str]) -> Numbered | None:
    """Find the numbers in which words differ: `layer_0`, `layer_1`, ...

    >>> numbered_words(["layer_0", "layer_1"])
    Numbered(around=('layer_', ''), numbers=(0, 1))
    """
    found = [_NUMBERED.fullmatch(word) for word in words]
    around = {(one[1], one[3]) for one in found if one is not None}
    if None in found or len(around) != 1:
        return None
    return Numbered(
        around.pop(), tuple([int(one[2]) for one in found if one is not None])
    )


def strided_words(words: Sequence[str]) -> Numbered | None:
    """Find numbers that rise by several in words, as where a turn makes several layers.

    Two words are no rule unless the first number is one of those that a turn has.

    >>> strided_words(["Dense_1", "Dense_4"]).numbers
    (1, 4)
    >>> strided_words(["Dense_4", "Dense_5"]), strided_words(["Dense_4", "Dense_6"])
    (None, None)
    """
    found = numbered_words(words)
    if found is None or len(words) < 2:
        return None
    first, second, *_ = numbers = found.numbers
    step = second - first
    is_even = all(n == first + step * turn for turn, n in enumerate(numbers))
    is_rule = len(words) > 2 or first < step
    return found if step > 1 and is_even and is_rule else None


def progression(numbers: Sequence[int]) -> Term:
    """Write the numbers that a variable takes in turn: a range, if they are one.

    >>> [progression(n).render() for n in ([0, 1, 2], [2, 1, 0], [7, 8], [5, 1])]
    ['range(3)', 'reversed(range(3))', '(7, 8)', '(5, 1)']
    """
    first, last, n = numbers[0], numbers[-1], len(numbers)
    step = numbers[1] - first
    is_even = list(numbers) == [first + step * turn for turn in range(n)]
    if is_even and step == 1 and (n > 2 or first < 2):
        return Term([f"range({first}, {last + 1})" if first else f"range({n})"])
    if is_even and step == -1 and last == 0 and n > 2:
        return Term([f"reversed(range({n}))"])
    if is_even and step and n >= MIN_STEPS:
        return Term([f"range({first}, {last + step}, {step})"])
    return display("()", map(literal_term, numbers))


def bounds_of(indices: Sequence[int], length: int | None) -> tuple[Slice, ...] | None:
    """Return the slice of a list that has the items of some indices, rising or falling.

    Returns:
      The slice; none if it is the whole list, None if the length is not known.
    """
    if length is None:
        return None
    begin, end = min(indices), max(indices) + 1
    if begin == 0 and end == length:
        return ()
    stop = None if end == length else -1 if end == length - 1 else end
    return (Slice(begin or None, stop),)
