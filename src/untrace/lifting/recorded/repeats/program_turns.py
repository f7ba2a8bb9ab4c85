"""What the variables of the program's loop held in every turn of a run.

They say how the loop was written: a variable that held the items of a list, in turn, is
the variable of these, and where two of them held the parts of each item, the program
took it apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.recorded.tree import Statement
from untrace.objects import attributes_of
from untrace.recovery.functions import is_function
from untrace.recovery.record import End, Turn
from untrace.syntax.names import identifier

MAX_PARTS = 4
MIN_COUNTED = 3
"""Any two numbers would rise with two others."""
_OFFSETS = (0, 1, 0.5)


class WordPart(NamedTuple):
    """A variable whose texts are parts of words.

    Attributes:
      name: The variable.
      held: What it held in each turn.
      around: What stands before and behind it in each word.
    """

    name: str
    held: tuple[str, ...]
    around: tuple[str, str]


class CountedFrom(NamedTuple):
    """An integer variable that others are computed of.

    Attributes:
      held: What it held in each turn.
      form: How they are written, part by part, with "i" for the variable.
    """

    held: tuple[int, ...]
    form: tuple[str, ...]


class ScaledFrom(NamedTuple):
    """An integer variable that floats are computed of.

    Attributes:
      held: What it held in each turn.
      offset: What is added first, `(i + 1) / 10`.
      form: How it is written, `i / n`, part by part.
      operand: The other number in that.
    """

    held: tuple[int, ...]
    offset: float
    form: tuple[str, ...]
    operand: float


class ProgramTurns:
    """The variables of the program's loops, and what they held in some turns."""

    def __init__(self, turns: Sequence[Sequence[Statement]]) -> None:
        held = [_held(turn) for turn in turns]
        known = {
            name: [one[name] for one in held]
            for name in held[0]
            if all(name in one for one in held)
        }
        self._ends = {n: v for n, v in known.items() if isinstance(n, End)}
        self._values = {
            n: v for n, v in known.items() if isinstance(n, str) and n.strip("_")
        }

    def counted_to(self, end: int) -> End | None:
        """Return the variable that a loop counts to, if one holds this integer."""
        found = [one for one, values in self._ends.items() if values[0] == end]
        return found[0] if len(found) == 1 else None

    def named(self, values: Sequence[Any]) -> str:
        """Return the variable that held these values, one in each turn, or nothing."""
        for name, held in self._values.items():
            if all(map(_is_same, held, values)):
                return name
        return ""

    def function(self) -> str:
        """Return the variable that held other functions in turns, if there is only one."""
        found = [
            (name, held)
            for name, held in self._values.items()
            if all(map(callable, held)) and any(one is not held[0] for one in held)
        ]
        if len(found) != 1:
            return ""
        ((name, held),) = found
        return name if all(map(is_function, held)) else _attribute(held) or name

    def counted_from(self, numbers: Sequence[Any]) -> CountedFrom | None:
        """Return the variable of which these integers are computed, turn by turn."""
        if len(numbers) < MIN_COUNTED or not all(type(n) is int for n in numbers):
            return None
        for held in self._values.values():
            if all(type(value) is int for value in held) and len({*held}) > 1:
                form = _counted_form(held, numbers)
                if form is not None:
                    return CountedFrom(tuple(held), form)
        return None

    def counter(self) -> list[int] | None:
        """What a variable held that rises by one in each turn, if there is one."""
        for held in self._values.values():
            if all(type(n) is int for n in held) and all(
                n == held[0] + turn for turn, n in enumerate(held)
            ):
                return held
        return None

    def tuple_of(self, numbers: Sequence[Any]) -> tuple[str, int] | None:
        """Return the variable that held tuples of numbers, and where these are in them.

        All items of the tuples are others in some turns.
        """
        for name, held in self._values.items():
            if not all(type(one) is tuple and len(one) == len(held[0]) for one in held):
                continue
            columns = [list(column) for column in zip(*held)]
            is_plain = all(type(n) is int for column in columns for n in column)
            is_plain = is_plain and all(len({*column}) > 1 for column in columns)
            if is_plain and list(numbers) in columns:
                return name, columns.index(list(numbers))
        return None

    def held(self, name: str) -> list[Any]:
        """What a variable held in each turn."""
        return self._values[name]

    def scaled_from(self, numbers: Sequence[Any]) -> ScaledFrom | None:
        """Return the integer variable of which these floats are computed, turn by turn.

        Exactly so: `3 / 10` and `3 * 0.1` are two numbers.
        """
        if len(numbers) < MIN_COUNTED or not all(type(n) is float for n in numbers):
            return None
        for held in self._values.values():
            if not all(type(value) is int for value in held) or len({*held}) == 1:
                continue
            for offset in _OFFSETS:
                found = _form([value + offset for value in held], numbers)
                if found is not None:
                    return ScaledFrom(tuple(held), offset, *found)
        return None

    def part_of_words(self, words: Sequence[Any]) -> WordPart | None:
        """Return the variable whose text is a part of these words, one in each turn.

        Where several are, it is the one with the longest text.
        """
        found = [
            WordPart(name, tuple(held), around)
            for name, held in self._values.items()
            if (around := _around(held, words)) is not None
        ]
        return max(found, key=lambda part: len(part.held[0]), default=None)

    def rank(self, names: Sequence[str]) -> int | None:
        """Return where the first of some variables is among those of the program."""
        known = list(self._values)
        found = [known.index(name) for name in names if name in known]
        return min(found, default=None)

    def parts(self, items: Sequence[Any]) -> tuple[str, ...]:
        """Return the variables that held the parts of these items; nothing if none did.

        Parts that no variable held are `_`.
        """
        first = items[0]
        if type(first) not in (tuple, list) or not 1 < len(first) <= MAX_PARTS:
            return ()
        if any(type(i) is not type(first) or len(i) != len(first) for i in items):
            return ()
        names = [self.named([i[n] for i in items]) for n in range(len(first))]
        is_known = any(names) and not self.named(items)
        return tuple([name or "_" for name in names]) if is_known else ()


def _counted_form(
    values: Sequence[int], numbers: Sequence[int]
) -> tuple[str, ...] | None:
    """Return how integers are written of others: the simplest way there is.

    >>> "".join(_counted_form([0, 1, 2], [3, 5, 7]))
    '2 * i + 3'
    >>> "".join(_counted_form([0, 1, 2], [1, 2, 0]))
    '(i + 1) % 3'
    >>> "".join(_counted_form([1, 2, 3], [64, 128, 256]))
    '32 * 2**i'
    >>> _counted_form([0, 1, 2], [-1, -2, -4])
    """
    line = _line(values, numbers)
    if line is not None and abs(line[0]) == 1:
        return _linear(*line)
    modulus = max(numbers) + 1 if min(numbers) == 0 else 0
    rests = (
        {(n - value) % modulus for n, value in zip(numbers, values)}
        if modulus > 1
        else ()
    )
    if len(rests) == 1:
        (rest,) = rests
        offset = rest - modulus if 2 * rest > modulus else rest
        inner = ("(", *_linear(1, offset), ")") if offset else ("i",)
        return *inner, f" % {modulus}"
    if line is not None:
        return _linear(*line)
    return _power(values, numbers)


def _line(values: Sequence[int], numbers: Sequence[int]) -> tuple[int, int] | None:
    """Return by which factor and offset integers are computed of others."""
    run, rise = values[1] - values[0], numbers[1] - numbers[0]
    if not (run and rise) or rise % run:
        return None
    factor = rise // run
    offset = numbers[0] - factor * values[0]
    is_line = all(factor * v + offset == n for v, n in zip(values, numbers))
    return (factor, offset) if is_line else None


def _linear(factor: int, offset: int) -> tuple[str, ...]:
    if factor < 0 < offset:
        return (f"{offset} - ", *_linear(-factor, 0))
    front = {1: (), -1: ("-",)}.get(factor, (f"{factor} * ",))
    back = (f" {'-' if offset < 0 else '+'} {abs(offset)}",) if offset else ()
    return *front, "i", *back


def _power(values: Sequence[int], numbers: Sequence[int]) -> tuple[str, ...] | None:
    """`2**i`, or `64 * 2**i`, where the values rise by one."""
    first, start = numbers[0], values[0]
    base = numbers[1] // first if first > 0 and numbers[1] % first == 0 else 0
    if base < 2 or start < 0 or values[1] != start + 1:
        return None
    if any(
        first * base ** (v - start) != n for v, n in zip(values, numbers) if v >= start
    ):
        return None
    if first % base**start or min(values) < start:
        return None
    factor = first // base**start
    return ((f"{factor} * ",) if factor > 1 else ()) + (f"{base}**", "i")


class _Form(NamedTuple):
    """A way to compute a number of `i`, what a variable holds, and `n`, another number.

    Attributes:
      parts: How it is written.
      compute: Computes it.
      operand: Returns `n` from `i`, the number, and the number where `i` is 1; 0 if none.
    """

    parts: tuple[str, ...]
    compute: Callable[[float, float], float]
    operand: Callable[[float, float, float], float]


_FORMS = (
    _Form(
        ("i", " / ", "n"),
        lambda i, n: i / n,
        lambda i, number, first: round(i / number) if number else 0,
    ),
    _Form(
        ("1 - ", "i", " / ", "n"),
        lambda i, n: 1 - i / n,
        lambda i, number, first: round(i / (1 - number)) if number != 1 else 0,
    ),
    _Form(
        ("i", " * ", "n"),
        lambda i, n: i * n,
        lambda i, number, first: first or (number / i if i else 0),
    ),
    _Form(("n", "**", "i"), lambda i, n: n**i, lambda i, number, first: first),
)


def _form(
    values: Sequence[float], numbers: Sequence[float]
) -> tuple[tuple[str, ...], float] | None:
    """Return how numbers are computed of values, and of which other number."""
    value, number = values[-1], numbers[-1]
    first = next((n for v, n in zip(values, numbers) if v == 1), 0.0)
    for form in _FORMS:
        try:
            operand = form.operand(value, number, first)
            is_other = operand > 0 and operand != 1 and value > 0
            pairs = zip(values, numbers)
            if is_other and all(form.compute(v, operand) == n for v, n in pairs):
                return form.parts, operand
        except (OverflowError, ValueError):  # what is infinite, or no number
            continue
    return None


def _attribute(objects: Sequence[Any]) -> str:
    """Return the only attribute in which each of some objects has a function of its own."""
    each = [
        {name for name, part in attributes_of(one).items() if is_function(part)}
        for one in objects
    ]
    shared = set.intersection(*each)
    return identifier(shared.pop().strip("_")) if len(shared) == 1 else ""


def begins_anew(before: Statement, later: Statement, first: Statement) -> bool:
    """Whether the innermost loop that a statement stands in begins anew there.

    Then it is another turn of a loop around it, or what this one takes is what it was at
    first. Where nobody knows, it may.
    """
    turns = [one.turn for one in (before, later, first)]
    if not all(turns):
        return True
    names = [[name for name, _ in turn] for turn in turns]
    if names[0] != names[1] or names[1] != names[2]:
        return True
    pairs = list(zip(turns[0], turns[1]))
    is_other = any(not _is_same(held, now) for (_, held), (_, now) in pairs[1:])
    return is_other or _is_same(turns[1][0][1], turns[2][0][1])


def are_across(turns: Sequence[Sequence[Statement]]) -> bool:
    """Whether a turn of the program begins inside of these, as far as is known.

    Loops of other lengths in each turn of one around them, `for j in range(i)`, may look
    like loops of one length that begin elsewhere.
    """
    # Python takes a row before the loop's variable has it, and calls what `map` maps.
    columns = [
        [statement.turn for statement in column]
        for column in zip(*turns, strict=True)
        if column[0].row is None
    ]
    columns = [one for one in columns if not _is_next(one, columns[-1])]
    if not columns:
        return False
    firsts = columns[0]
    between = min(map(_outermost_change, firsts, firsts[1:]), default=0)
    for column in columns[1:]:
        levels = {*map(_outermost_change, firsts, column)}
        if len(levels) > 1 and min(levels) <= between:
            return True
    return False


def _is_next(column: Sequence[Turn], lasts: Sequence[Turn]) -> bool:
    """Whether statements make what a variable takes next, which it had not at first."""
    changes = map(_outermost_change, column[1:], lasts)
    has_begun = len(column[0]) >= len(column[1])
    return not has_begun and all(level == sys.maxsize for level in changes)


def are_of_one_loop(turns: Sequence[Sequence[Statement]]) -> bool:
    """Whether turns are those of one loop of the program, as far as is known.

    Those of an inner loop, in all turns of the one around it, are of two.
    """
    firsts = [turn[0].turn for turn in turns]
    return len({*map(_outermost_change, firsts, firsts[1:])} - {sys.maxsize}) < 2


def _outermost_change(before: Turn, later: Turn) -> int:
    """Return which loop, counted from outside, is in another turn; more if none is."""
    for level, (one, other) in enumerate(zip(before[::-1], later[::-1])):
        if one[0] != other[0]:
            break
        if not _is_same(one[1], other[1]):
            return level
    return sys.maxsize


def _around(held: Sequence[Any], words: Sequence[Any]) -> tuple[str, str] | None:
    """Return what stands before and behind a text in words; None if it is not in all.

    >>> _around(["a", "b"], ["layera_w", "layerb_w"])
    ('layer', '_w')
    """
    if not all(type(one) is str and one for one in (*held, *words)):
        return None
    for start in range(len(words[0])):
        front, back = words[0][:start], words[0][start + len(held[0]) :]
        if all(word == front + one + back for one, word in zip(held, words)):
            return front, back
    return None


def _held(turn: Sequence[Statement]) -> dict[str | End, Any]:
    """Return what variables held when any of the statements of a turn was executed.

    Python takes a row before the loop's variables have what is theirs in this turn.
    """
    held: dict[str | End, Any] = {}
    for statement in sorted(turn, key=lambda statement: statement.row is not None):
        for name, value in statement.turn:
            held.setdefault(name, value)
    return held


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are one, or containers of the same arrays."""
    if one is other:
        return True
    if is_array(one) or is_array(other) or type(one) is not type(other):
        return False
    if isinstance(one, (int, float, str)):
        return one == other
    leaves, others = jax.tree.leaves(one), jax.tree.leaves(other)
    is_known = bool(leaves) and len(leaves) == len(others)
    return is_known and all(a is b for a, b in zip(leaves, others))
