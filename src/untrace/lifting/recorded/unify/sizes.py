"""Find numbers of functions that are sizes of what they are given.

What is `x.reshape(2, 16, 16, 4, 2)` in one run of a function and `x.reshape(2, 8, 8, 4, 4)` in
another is `x.reshape(*x.shape[:-1], 4, -1)` in both. Only numbers where a shape is
written are looked at: elsewhere, equal numbers would be a coincidence.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.names import body_of, fresh
from untrace.lifting.recorded.unify.places import Number
from untrace.syntax.parsed import Edit, Parsed

Column = tuple[str, ...]
"""The numbers that stand in one place of functions that are alike."""

_TAKING_SHAPES = frozenset(
    {
        "arange",
        "broadcast_to",
        "broadcasted_iota",
        "empty",
        "eye",
        "full",
        "normal",
        "ones",
        "repeat",
        "reshape",
        "resize",
        "tile",
        "tri",
        "uniform",
        "zeros",
    }
)
_OF_NUMBERS = frozenset({"arange", "eye", "repeat", "tri"})
"""Those of them that are given the numbers of a shape, and no shape."""
_REST = "-1"  # of the size of an array that gets a new shape
_MAX_FACTOR = 16


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
class _Shape:
    """Where a shape is written: the arguments of a call, or a tuple among them.

    Attributes:
      call: The call.
      node: The call or the tuple.
      elements: The sizes.
    """

    call: ast.Call
    node: ast.Call | ast.Tuple
    elements: Sequence[ast.expr]

    @property
    def called(self) -> str:
        """The last word of what is called."""
        return _last_word(self.call.func)

    def may_be_whole(self) -> bool:
        """Whether one shape may stand for all its sizes."""
        is_call = isinstance(self.node, ast.Call)
        return not (is_call and (self.call.keywords or self.called in _OF_NUMBERS))

    def may_have_rest(self, body: Parsed) -> bool:
        """Whether -1 may stand for one of its sizes."""
        words = body.source(self.call.func).split(".")[:-1]
        has_rest = any(body.source(one) == _REST for one in self.elements)
        return self.called == "reshape" and "lax" not in words and not has_rest


def _shapes(body: Parsed) -> Iterator[_Shape]:
    for node in body.nodes:
        if isinstance(node, ast.Call) and _last_word(node.func) in _TAKING_SHAPES:
            yield _Shape(node, node, node.args)
            for one in (*node.args, *[k.value for k in node.keywords]):
                if isinstance(one, ast.Tuple):
                    yield _Shape(node, one, one.elts)


def _last_word(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def find_sizes(
    body: Parsed,
    numbers: Sequence[Number],
    columns: Sequence[Column],
    group: Sequence[Function],
    is_named: Sequence[bool],
) -> dict[int, Size]:
    """Find the numbers of functions that are sizes of their parameters.

    Args:
      body: The statements of the first function.
      numbers: Its numbers.
      columns: The numbers of all functions that stand in each of these places.
      group: The functions.
      is_named: Whether the program has a parameter for the number in each place.

    Returns:
      What stands in some of the places instead, by their position.
    """
    positions = {n.node: i for i, n in enumerate(numbers) if not n.in_key}
    known = _Known(group)
    found: dict[int, Size] = {}
    for shape in _shapes(body):
        indices = {  # of sizes, by the positions of numbers; of arguments that are no bools
            positions[one]: index
            for index, one in enumerate(shape.elements)
            if isinstance(one, ast.Constant) and type(one.value) in (int, float)
        }
        found |= _of_shape(shape, indices, columns, known, is_named, body)
    return found


def _of_shape(
    shape: _Shape,
    indices: Mapping[int, int],
    columns: Sequence[Column],
    known: _Known,
    is_named: Sequence[bool],
    body: Parsed,
) -> dict[int, Size]:
    """Find the sizes among the numbers of one shape."""
    found: dict[int, Size] = {}
    length = len(shape.elements)
    differing = [i for i in indices if len(set(columns[i])) > 1 and not is_named[i]]
    has_rest = shape.may_have_rest(body)
    if len(differing) == 1 and has_rest and indices[differing[0]] == length - 1:
        return {differing[0]: Size()}
    row = [*indices]
    axes = {i: known.axes(i, row, columns, indices, length) for i in differing}
    sizes = {i: known.first(axes[i], columns[i]) for i in differing}
    unknown = [i for i, size in sizes.items() if size is None]
    for i in unknown:
        is_rest = len(unknown) == 1 and has_rest
        sizes[i] = Size() if is_rest else known.formula(axes[i], columns[i])
    found = {i: size for i, size in sizes.items() if size is not None}
    for name in [size.parameter for size in found.values() if size.parameter][:1]:
        n_same = known.n_leading(name, row, columns, indices)
        leading = {i: Size(name, axis) for axis, i in enumerate(row[:n_same])}
        found |= {i: size for i, size in leading.items() if i not in found}
    return found


class _Known:
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
        indices: Mapping[int, int],
    ) -> int:
        """Count the numbers that a shape and that of a parameter begin with."""
        for axis, position in enumerate(row):
            is_same = indices[position] == axis < self._ranks[name]
            if not (is_same and self.holds(Size(name, axis), columns[position])):
                return axis
        return len(row)

    def axes(
        self,
        position: int,
        row: Sequence[int],
        columns: Sequence[Column],
        indices: Mapping[int, int],
        length: int,
    ) -> list[Size]:
        """List the axes that a number may be the size of, the likely ones first.

        That is the axis at the same place, from the front or else from the end.
        """
        found: list[Size] = []
        index = indices[position]
        for name, rank in self._ranks.items():
            is_in_front = index < self.n_leading(name, row, columns, indices)
            likely = index - (0 if is_in_front else length - rank)
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

    def hold(self, numbers: Sequence[Number], function: Function) -> bool:
        """Whether these are the numbers of a function in all its runs."""
        return all(
            size.is_in(shapes, numbers[place].text)
            for place, size in self.sizes
            for shapes in function.shapes or [{}]
        )

    def edits(self, body: Parsed, numbers: Sequence[Number]) -> Iterator[Edit]:
        """Yield the edits of a function; several sizes in a row are a part of the shape."""
        texts: dict[ast.expr, str] = {numbers[i].node: text for i, text in self.texts}
        for shape in _shapes(body):
            yield from self._of_shape(shape, texts, body)

    def _of_shape(
        self, shape: _Shape, texts: Mapping[ast.expr, str], body: Parsed
    ) -> Iterator[Edit]:
        elements = [texts.get(one) or body.source(one) for one in shape.elements]
        for name, rank in self.shapes:
            axes = [_axis_text(name, axis, rank) for axis in range(rank)]
            if elements == axes and shape.may_be_whole():
                span = body.span(shape.elements[0])[0], body.span(shape.elements[-1])[1]
                is_tuple = isinstance(shape.node, ast.Tuple)
                yield Edit(body.span(shape.node) if is_tuple else span, (name,))
                return
        position = 0
        while position < len(elements):
            count, part = self._part(elements[position:])
            first, last = shape.elements[position], shape.elements[position + count - 1]
            if count > 1 or first in texts:
                yield Edit((body.span(first)[0], body.span(last)[1]), (part,))
            position += count

    def _part(self, elements: Sequence[str]) -> tuple[int, str]:
        """Count the sizes, of one shape in order, that some begin with, and write them."""
        for name, rank in self.shapes:
            axes = [_axis_text(name, axis, rank) for axis in range(rank)]
            for count in range(rank, 1, -1):
                if [*elements[:count]] == axes[:count]:
                    ends = {rank: "", rank - 1: "[:-1]"}
                    return count, f"*{name}{ends.get(count, f'[:{count}]')}"
            for axis in range(1, rank - 1):
                if [*elements[: rank - axis]] == axes[axis:]:
                    return rank - axis, f"*{name}[{axis}:]"
        return 1, elements[0]


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
    bound = {*body_of(first).bound()} if sizes else set[str]()
    head: list[str] = []
    shapes: list[tuple[str, int]] = []
    axes: dict[tuple[str, int], str] = {}
    for parameter in dict.fromkeys(s.parameter for s in sizes.values() if s.parameter):
        rank = len(first.shapes[0][parameter])
        used = {s.axis for s in sizes.values() if s.parameter == parameter}
        is_changed = parameter in bound
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
        name = fresh(hint, self._taken)
        self._take([name])
        return name

    def _held(self, name: str) -> list[str]:
        return [function.integers.get(name, "") for function in self._group]

    def _take(self, names: Sequence[str]) -> None:
        self._taken.update(names)
        self._names = [name for name in self._names if name not in names]
