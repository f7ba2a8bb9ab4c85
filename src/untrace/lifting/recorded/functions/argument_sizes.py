"""Find numbers of functions that are sizes of what they are given.

What is `x.reshape(2, 16, 16, 4, 2)` in one run of a function and `x.reshape(2, 8, 8, 4, 4)` in
another is `x.reshape(*x.shape[:-1], 4, -1)` in both. Only numbers where a shape is
written are looked at: elsewhere, equal numbers would be a coincidence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from untrace.lifting.printing import Function
from untrace.syntax.text import STRING

Column = tuple[str, ...]
"""The numbers that stand in one place of functions that are alike."""

_TAKING_SHAPES = re.compile(
    r"arange|broadcast_to|broadcasted_iota|empty|eye|full|normal|ones|repeat|reshape|resize"
    r"|tile|tri|uniform|zeros"
)
_OF_NUMBERS = frozenset({"arange", "eye", "repeat", "tri"})
"""Those of them that are given the numbers of a shape, and no shape."""
_REST = "-1"  # of the size of an array that gets a new shape
_MAX_FACTOR = 16
_CALLED = re.compile(r"([\w.]+)$")
_STRING = re.compile(STRING)


@dataclass(frozen=True, slots=True)
class Size:
    """`times * parameter.shape[axis] // divisor`, or `-1` if there is no parameter."""

    parameter: str = ""
    axis: int = 0
    times: int = 1
    divisor: int = 1

    def is_in(self, shapes: Mapping[str, tuple[int, ...]], number: str) -> bool:
        """Whether it is a number, if the parameters have these shapes."""
        if not self.parameter:
            return True
        shape = shapes.get(self.parameter, ())
        if self.axis >= len(shape):
            return False
        return self.times * shape[self.axis] == self.divisor * int(number)

    def text(self, size: str) -> str:
        """Write it."""
        if not self.parameter:
            return _REST
        text = f"{self.times} * {size}" if self.times > 1 else size
        return f"{text} // {self.divisor}" if self.divisor > 1 else text


@dataclass(frozen=True, slots=True)
class _Element:
    """A number of a shape: in which call and brackets it stands, and where in them."""

    call: str
    start: int
    index: int
    length: int
    has_rest: bool


def find_sizes(
    text: str,
    places: Sequence[re.Match[str]],
    columns: Sequence[Column],
    group: Sequence[Function],
    is_named: Sequence[bool],
) -> dict[int, Size]:
    """Find the numbers of functions that are sizes of their parameters.

    Args:
      text: The lines of the first function.
      places: Where its numbers are.
      columns: The numbers in each of these places.
      group: The functions.
      is_named: Whether the program has a parameter for the number in each place.

    Returns:
      What stands in some of the places instead, by their position.
    """
    elements = _elements(text, places)
    shapes = _Shapes(group)
    found: dict[int, Size] = {}
    for row in _rows(elements):
        differing = [i for i in row if len(set(columns[i])) > 1 and not is_named[i]]
        if len(differing) == 1 and _may_be_rest(elements[differing[0]], is_last=True):
            found[differing[0]] = Size()
            continue
        axes = {i: shapes.axes(i, row, columns, elements) for i in differing}
        sizes = {i: shapes.first(axes[i], columns[i]) for i in differing}
        unknown = [i for i, size in sizes.items() if size is None]
        for i in unknown:
            is_rest = len(unknown) == 1 and _may_be_rest(elements[i])
            sizes[i] = Size() if is_rest else shapes.formula(axes[i], columns[i])
        found |= {i: size for i, size in sizes.items() if size is not None}
        parameters = [found[i].parameter for i in row if i in found]
        for name in [name for name in parameters if name][:1]:
            n_same = shapes.n_leading(name, row, columns, elements)
            leading = {i: Size(name, axis) for axis, i in enumerate(row[:n_same])}
            found |= {i: size for i, size in leading.items() if i not in found}
    return found


def _elements(text: str, places: Sequence[re.Match[str]]) -> dict[int, _Element]:
    """Return the places that are whole elements of shapes."""
    blank = _STRING.sub(lambda m: "_" * len(m[0]), text)
    found: dict[int, _Element] = {}
    for position, place in enumerate(places):
        element = _element(blank, place) if place[0].isdigit() else None
        if element is not None:
            found[position] = element
    return found


def _element(text: str, place: re.Match[str]) -> _Element | None:
    if text[: place.start()].rstrip()[-1:] not in ("(", ","):
        return None
    if text[place.end() :].lstrip()[:1] not in (")", ","):
        return None
    start, index = _opening(text, place.start())
    called = _CALLED.search(text[:start]) if start >= 0 else None
    inside = start
    if start >= 0 and called is None:  # a tuple
        outer, _ = _opening(text, start)
        called = _CALLED.search(text[:outer]) if outer >= 0 else None
    if called is None:
        return None
    if not _TAKING_SHAPES.fullmatch(called[1].rpartition(".")[2]):
        return None
    parts = _parts(text[inside + 1 :])
    return _Element(called[1], inside, index, len(parts), _REST in parts)


def called_around(text: str, place: re.Match[str]) -> tuple[str, int]:
    """Return the function that takes a number, perhaps in a tuple, and its position."""
    blank = _STRING.sub(lambda m: "_" * len(m[0]), text)
    start, index = _opening(blank, place.start())
    if start >= 0 and not _CALLED.search(blank[:start]):
        start, index = _opening(blank, start)
    called = _CALLED.search(blank[:start]) if start >= 0 else None
    return (called[1], index) if called else ("", 0)


def _opening(text: str, stop: int) -> tuple[int, int]:
    """Return where the bracket around a position opens, and the commas on the way."""
    depth, commas = 0, 0
    for position in range(stop - 1, -1, -1):
        char = text[position]
        depth += (char in ")]}") - (char in "([{")
        if depth < 0:
            return (position if char == "(" else -1), commas
        commas += depth == 0 and char == ","
    return -1, commas


def _parts(text: str) -> list[str]:
    """Return what stands between the commas up to the end of the brackets."""
    depth, start, parts = 0, 0, list[str]()
    for position, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth < 0 or (depth == 0 and char == ","):
            parts.append(text[start:position].strip())
            start = position + 1
        if depth < 0:
            break
    return parts


def _rows(elements: Mapping[int, _Element]) -> Iterator[list[int]]:
    """Yield the places of each shape."""
    rows: dict[int, list[int]] = {}
    for position, element in elements.items():
        rows.setdefault(element.start, []).append(position)
    yield from rows.values()


def _may_be_rest(element: _Element, is_last: bool = False) -> bool:
    """Whether -1 may stand for a number of a shape."""
    *path, name = element.call.split(".")
    if name != "reshape" or "lax" in path or element.has_rest:
        return False
    return not is_last or element.index == element.length - 1


class _Shapes:
    """The shapes that the parameters of functions had in all their runs."""

    def __init__(self, group: Sequence[Function]) -> None:
        self._group = group
        first = group[0].shapes[0] if group[0].shapes else {}
        self._ranks = {name: len(shape) for name, shape in first.items()}

    def holds(self, size: Size, column: Column) -> bool:
        """Whether a size is the number of every function, in all its runs."""
        return all(
            bool(function.shapes)
            and all(size.is_in(shapes, number) for shapes in function.shapes)
            for function, number in zip(self._group, column)
        )

    def n_leading(
        self,
        name: str,
        row: Sequence[int],
        columns: Sequence[Column],
        elements: Mapping[int, _Element],
    ) -> int:
        """Count the numbers that a shape and that of a parameter begin with."""
        for axis, position in enumerate(row):
            is_same = elements[position].index == axis < self._ranks[name]
            if not (is_same and self.holds(Size(name, axis), columns[position])):
                return axis
        return len(row)

    def axes(
        self,
        position: int,
        row: Sequence[int],
        columns: Sequence[Column],
        elements: Mapping[int, _Element],
    ) -> list[Size]:
        """List the axes that a number may be the size of, the likely ones first.

        That is the axis at the same place, from the front or else from the end.
        """
        found: list[Size] = []
        element = elements[position]
        for name, rank in self._ranks.items():
            is_in_front = element.index < self.n_leading(name, row, columns, elements)
            likely = element.index - (0 if is_in_front else element.length - rank)
            rest = [axis for axis in range(rank) if axis != likely]
            likely = [likely] if 0 <= likely < rank else []
            found += [Size(name, axis) for axis in [*likely, *rest]]
        return found

    def first(self, sizes: Sequence[Size], column: Column) -> Size | None:
        """Return the first size that is a number."""
        return next((size for size in sizes if self.holds(size, column)), None)

    def formula(self, axes: Sequence[Size], column: Column) -> Size | None:
        """Return a multiple, or a part, of a size that a number is."""
        first = int(column[0])
        for one in axes:
            size = self._group[0].shapes[0][one.parameter][one.axis]
            common = math.gcd(size, first)
            if not size or not first or common not in (size, first):
                continue
            times, divisor = first // common, size // common
            made = Size(one.parameter, one.axis, times, divisor)
            if max(times, divisor) <= _MAX_FACTOR and self.holds(made, column):
                return made
        return None


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is written for the numbers of functions that are sizes of their parameters.

    Attributes:
      sizes: These, with their places.
      texts: What stands there.
      head: The statements that the functions begin with.
      shapes: What the shapes of parameters are called there, and how long they are.
    """

    sizes: tuple[tuple[int, Size], ...] = ()
    texts: tuple[tuple[int, str], ...] = ()
    head: tuple[str, ...] = ()
    shapes: tuple[tuple[str, int], ...] = ()

    def hold(self, numbers: Sequence[str], function: Function) -> bool:
        """Whether these are the numbers of a function in all its runs."""
        return all(
            size.is_in(shapes, numbers[place])
            for place, size in self.sizes
            for shapes in function.shapes or [{}]
        )

    def shortened(self, text: str) -> str:
        """Write several sizes in a row as a part of the shape."""
        for shape, rank in self.shapes:
            axes = [_axis_text(shape, axis, rank) for axis in range(rank)]
            whole = re.escape(", ".join(axes))
            comma = "," if rank == 1 else ""
            text = re.sub(rf"(?<=[ (])\({whole}{comma}\)", shape, text)
            text = re.sub(
                rf"(\w+)\({whole}(?=\))",
                lambda m, shape=shape: (
                    m[0] if m[1] in _OF_NUMBERS else f"{m[1]}({shape}"
                ),
                text,
            )
            for n_axes in range(rank, 1, -1):
                part = {rank: "", rank - 1: "[:-1]"}.get(n_axes, f"[:{n_axes}]")
                text = text.replace(", ".join(axes[:n_axes]), f"*{shape}{part}")
            for axis in range(1, rank - 1):
                text = text.replace(", ".join(axes[axis:]), f"*{shape}[{axis}:]")
        return text


def write_sizes(
    sizes: Mapping[int, Size],
    columns: Sequence[Column],
    group: Sequence[Function],
    taken: set[str],
) -> Sizes:
    """Write sizes of parameters, by the names that the program has for them.

    Args:
      sizes: What stands in which place.
      columns: The numbers that stand there.
      group: The functions, which are alike.
      taken: Names that they use already.
    """
    first = group[0]
    known = _Variables(group, taken)
    head: list[str] = []
    shapes: list[tuple[str, int]] = []
    axes: dict[tuple[str, int], str] = {}
    for parameter in dict.fromkeys(s.parameter for s in sizes.values() if s.parameter):
        rank = len(first.shapes[0][parameter])
        used = {s.axis for s in sizes.values() if s.parameter == parameter}
        is_changed = is_assigned(first.lines, parameter)
        names = known.of_axes(parameter, used) if len(used) > 1 or is_changed else None
        shape = f"{parameter}.shape"
        if names is not None:
            target = names[0] + "," if rank == 1 else ", ".join(names)
            head.append(f"{target} = {shape}")
        elif is_changed:
            head.append(f"{(shape := known.fresh('shape'))} = {parameter}.shape")
        if names is None:
            shapes.append((shape, rank))
            names = [_axis_text(shape, axis, rank) for axis in range(rank)]
        axes.update({(parameter, axis): name for axis, name in enumerate(names)})
    texts = {i: s.text(axes.get((s.parameter, s.axis), "")) for i, s in sizes.items()}
    for text in dict.fromkeys(texts.values()):
        used_at = [i for i, other in texts.items() if other == text]
        is_formula = max(sizes[used_at[0]].times, sizes[used_at[0]].divisor) > 1
        name = known.of_number(columns[used_at[0]]) if len(used_at) > 1 else ""
        if is_formula and name:
            head.append(f"{name} = {text}")
            texts.update(dict.fromkeys(used_at, name))
    return Sizes(tuple(sizes.items()), tuple(texts.items()), tuple(head), tuple(shapes))


def _axis_text(shape: str, axis: int, rank: int) -> str:
    return f"{shape}[{-1 if axis == rank - 1 else axis}]"


def is_assigned(lines: Sequence[str], name: str) -> bool:
    """Whether a parameter gets another value, or another variable has its name."""
    target = rf"^\s*(?:for\b.*)?[^=(]*(?<![\w.]){name}\b[^=(]*(?:=(?!=)|\bin\b)"
    inner = rf"\b(?:lambda\b[^:]*|for\b[^:]*|def\b.*)(?<![\w.]){name}\b"
    pattern = re.compile(f"{target}|{inner}")
    return any(pattern.search(_STRING.sub("''", line)) for line in lines)


class _Variables:
    """The variables that held the sizes when the functions ran."""

    def __init__(self, group: Sequence[Function], taken: set[str]) -> None:
        self._group = group
        given = {name for function in group for name in function.numbers.values()}
        self._taken = taken
        self._names = [n for n in group[0].integers if n not in {*taken, *given}]

    def of_axes(self, parameter: str, used: set[int]) -> list[str] | None:
        """Name the axes that are used, in the order of the program; "_" for others."""
        names: list[str] = []
        position = 0
        for axis in range(len(self._group[0].shapes[0][parameter])):
            sizes = [str(f.shapes[0][parameter][axis]) for f in self._group]
            rest = self._names[position:]
            name = next((n for n in rest if self._held(n) == sizes), "_")
            if name == "_" and axis in used:
                return None
            names.append(name if axis in used else "_")
            position += rest.index(name) + 1 if name != "_" else 0
        self._take(names)
        return names

    def of_number(self, column: Column) -> str:
        """Return the only variable that held a number; "" if there is none."""
        found = [name for name in self._names if self._held(name) == list(column)]
        self._take(found)
        return found[0] if len(found) == 1 else ""

    def fresh(self, hint: str) -> str:
        """Make a name that nothing has."""
        name, count = hint, 2
        while name in self._taken:
            name, count = f"{hint}_{count}", count + 1
        self._take([name])
        return name

    def _held(self, name: str) -> list[str]:
        return [function.integers.get(name, "") for function in self._group]

    def _take(self, names: Sequence[str]) -> None:
        self._taken.update(names)
        self._names = [name for name in self._names if name not in names]
