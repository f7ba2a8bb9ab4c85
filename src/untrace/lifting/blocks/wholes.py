"""Keep long tuples whole, where most of their values are only passed on.

Comes in: the lines of one function. A statement that gives each of many values a name
(`a, b, c, ... = carry`) keeps the names that are worth it: values that are computed
with, more than once or under a name that says something. All others are read where
they are needed, `carry[3]`, and those that are passed on in a row as `*carry[3:8]`.
What is left to be named is unpacked in short lines, `a, b, c = carry[:3]`.

What is evaluated, and in which order, stays as it is.
"""

from __future__ import annotations

import ast
import collections
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field

from untrace.lifting.lines.free_names import renamed
from untrace.lifting.lines.function_lines import parsed_lines
from untrace.lifting.lines.names_read import Reading, names_read
from untrace.lifting.names.naming import UNNAMED
from untrace.optional import optional, unchanged

MIN_WHOLE = 8
"""Values that a tuple must have to be kept whole."""
MAX_COLS = 79
MAX_GAP = 2
"""Values that are skipped as `_` between others that are unpacked."""
MIN_RUN = 4
"""Values in a row that are passed on by a slice although all of them have names."""

_LOOPS = frozenset({"while_loop", "scan", "cond", "switch", "fori_loop"})
"""Functions of `jax.lax` that return tuples where they return several values."""


@dataclass(eq=False, slots=True)
class _Whole:
    """A tuple, and the names of its values.

    Attributes:
      statement: What unpacks it.
      target: Its part of the target of the statement.
      names: One for each value; "_" where there is none.
      name: What the tuple is called.
      is_tuple: It is known to be no list.
      indent: The columns that the statement is indented by.
    """

    statement: ast.Assign
    target: ast.Tuple
    names: list[str]
    name: str = ""
    is_tuple: bool = False
    indent: int = 0
    kept: set[int] = field(default_factory=set)

    @property
    def dropped(self) -> list[str]:
        """The names that nothing has any more, if the tuple is kept whole."""
        if not self.name:
            return []
        return [n for i, n in enumerate(self.names) if n != "_" and i not in self.kept]

    def item(self, index: int) -> str:
        """Write the access to one value."""
        return f"{self.name}[{index}]"

    def part(self, start: int, end: int) -> str:
        """Write the values from `start` to before `end`."""
        if start == 0 and end == len(self.names):
            return self.name
        first = str(start) if start else ""
        last = str(end) if end < len(self.names) else ""
        return f"{self.name}[{first}:{last}]"


Edit = tuple[int, int, str]


def _makes_tuple(value: ast.expr) -> bool:
    """Whether several values come from a function of the file, or a loop of JAX."""
    match value:
        case ast.Call(func=ast.Name()):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="lax"), attr=name)):
            return name in _LOOPS
        case _:
            return False


@optional(unchanged)
def kept_whole(
    lines: Sequence[str],
    fresh: Callable[[str], str],
    depth: int,
    only: Container[str] | None = None,
) -> list[str]:
    """Keep the long tuples of a function whole where that is shorter.

    Args:
      lines: The body of the function, unindented.
      fresh: Makes a new name like one.
      depth: How many functions it is nested in.
      only: The names of values whose tuples may be kept whole; None for all.

    Returns:
      The lines, with fewer names.
    """
    tree = parsed_lines(lines)
    wholes = list(_wholes(tree, 4 * (depth + 1))) if tree is not None else []
    if only is not None:
        wholes = [w for w in wholes if all(n == "_" or n in only for n in w.names)]
    if tree is None or not wholes:
        return list(lines)
    owners = {name: whole for whole in wholes for name in whole.names if name != "_"}
    readings = names_read(tree, owners, lines)
    edits: list[Edit] = []
    starts = _line_starts(lines)
    by_whole: dict[int, list[Reading]] = collections.defaultdict(list)
    for reading in readings:
        by_whole[id(owners[reading.names[0]])].append(reading)
    for whole in wholes:
        edits += _edits(whole, by_whole[id(whole)], fresh, starts)
    if not edits:
        return list(lines)
    text = _edited("\n".join(lines), edits)
    kept = text.split("\n") if text else []  # nothing was read, nothing is returned
    return renamed(kept, [name for whole in wholes for name in whole.dropped])


def _wholes(tree: ast.Module, indent: int) -> Iterator[_Whole]:
    """List the long tuples that are unpacked, none of whose names has a second value."""
    found: list[_Whole] = []
    bound: collections.Counter[str] = collections.Counter()
    for statement in _statements(tree.body):
        if isinstance(statement, ast.FunctionDef):
            bound[statement.name] += 1
            continue
        if not isinstance(statement, ast.Assign):
            continue
        for node in ast.walk(statement.targets[0]):
            if isinstance(node, ast.Name):
                bound[node.id] += 1
            elif isinstance(node, ast.Tuple) and _is_long(node, statement.value):
                names = [item.id for item in node.elts if isinstance(item, ast.Name)]
                columns = indent + statement.col_offset
                found.append(_Whole(statement, node, names, indent=columns))
    for whole in found:
        if all(name == "_" or bound[name] == 1 for name in whole.names):
            yield whole


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """List the statements of a function, but not those of functions in it."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.With):
            yield from _statements(statement.body)


def _is_long(node: ast.Tuple, value: ast.expr) -> bool:
    is_flat = all(isinstance(item, ast.Name) for item in node.elts)
    is_list = isinstance(value, ast.ListComp)
    return is_flat and (is_list or len(node.elts) >= MIN_WHOLE)


# ---- one tuple ---------------------------------------------------------------------


def _edits(
    whole: _Whole,
    readings: Sequence[Reading],
    fresh: Callable[[str], str],
    starts: Sequence[int],
) -> list[Edit]:
    """Write what reads a tuple in another way; nothing if that is not shorter."""
    position = {name: index for index, name in enumerate(whole.names) if name != "_"}
    runs = [_Run(r, [position[name] for name in r.names]) for r in readings]
    runs = [part for run in runs for part in run.split()]
    singles = [run for run in runs if run.is_single]
    counts = collections.Counter(run.first for run in singles)
    computed = collections.Counter(
        run.first for run in singles if run.reading.display is None
    )
    speaking = _speaking(whole.names)
    whole.kept = {
        index
        for index, count in counts.items()
        if count > 2
        or computed[index] > 1
        or (computed[index] and whole.names[index] in speaking)
    }
    chunks = _chunks(whole)
    taken = [run for run in runs if not run.stays(whole)]
    cost = sum(2 * len(chunk) + 7 for chunk in chunks)
    cost += sum(3 if run.is_single else 7 - 2 * len(run.indices) for run in taken)
    value = whole.statement.value
    line = f"{', '.join(whole.names)} = {ast.unparse(value)}"
    is_short = whole.indent + len(line) <= MAX_COLS
    if cost >= len(whole.names) * (1 if is_short else 2) and (
        is_short or not _is_plain(whole, chunks)
    ):
        return []
    is_own = isinstance(value, ast.Name) and whole.target is whole.statement.targets[0]
    whole.is_tuple = is_own or _makes_tuple(value)
    whole.name = value.id if is_own else _name(whole, fresh)  # type: ignore[union-attr]
    edits = [run.edit(whole, starts) for run in taken]
    lines = [_unpacking(whole, chunk) for chunk in chunks]
    return [*edits, *_unpacked(whole, lines, is_own, starts)]


def _is_plain(whole: _Whole, chunks: Sequence[Sequence[int]]) -> bool:
    """Whether short lines are fewer than one line for every name."""
    return len(chunks) <= len(whole.names) // 2


def _unpacked(
    whole: _Whole, lines: Sequence[str], is_own: bool, starts: Sequence[int]
) -> list[Edit]:
    """Write the statement that unpacked everything."""
    statement, target = whole.statement, whole.target
    end = _end(statement, starts)
    pad = "\n" + " " * statement.col_offset
    if is_own:
        start = _start(statement, starts)
        return [(start, end + (not lines), pad.join(lines))]
    after = "".join(pad + line for line in lines)
    return [
        (_start(target, starts), _end(target, starts), whole.name),
        (end, end, after),
    ]


def _speaking(names: Sequence[str]) -> set[str]:
    """Return the names that say more than a number does."""
    counts = collections.Counter(map(_base, names))
    limit = max(3, len(names) // 4)
    return {
        name
        for name in names
        if counts[_base(name)] <= limit and _base(name) != UNNAMED
    }


def _base(name: str) -> str:
    while name.rpartition("_")[2].isdecimal():
        name = name.rpartition("_")[0]
    return name


def _name(whole: _Whole, fresh: Callable[[str], str]) -> str:
    """Name a tuple like the values in it, if they are called alike."""
    bases = collections.Counter(_base(name) for name in whole.names if name != "_")
    if not bases:  # nothing reads them
        return fresh("results")
    (base, count), *_ = bases.most_common(1)
    if count <= sum(bases.values()) // 2:
        return fresh("results")
    for index, name in enumerate(whole.names):
        if _base(name) == base and index not in whole.kept:
            return name  # nothing else has it
    return fresh(base)


def _chunks(whole: _Whole) -> list[list[int]]:
    """Group the values that are unpacked into lines."""
    chunks: list[list[int]] = []
    for index in sorted(whole.kept):
        if chunks:
            longer = [*chunks[-1], *range(chunks[-1][-1] + 1, index + 1)]
            is_near = index - chunks[-1][-1] <= MAX_GAP + 1
            width = whole.indent + len(_unpacking(whole, longer)) + len("carry")
            if is_near and width <= MAX_COLS:
                chunks[-1] = longer
                continue
        chunks.append([index])
    return chunks


def _unpacking(whole: _Whole, chunk: Sequence[int]) -> str:
    names = [whole.names[i] if i in whole.kept else "_" for i in chunk]
    if len(names) == 1:
        return f"{names[0]} = {whole.item(chunk[0])}"
    return f"{', '.join(names)} = {whole.part(chunk[0], chunk[-1] + 1)}"


# ---- what reads it -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """Values that are read one after the other in a list of expressions."""

    reading: Reading
    indices: list[int]
    start: int = 0

    @property
    def first(self) -> int:
        return self.indices[0]

    @property
    def is_single(self) -> bool:
        return len(self.indices) == 1

    def split(self) -> Iterator[_Run]:
        """Take apart what is not next to each other in the tuple."""
        start = 0
        for stop in range(1, len(self.indices) + 1):
            if (
                stop == len(self.indices)
                or self.indices[stop] != self.indices[stop - 1] + 1
            ):
                yield _Run(self.reading, self.indices[start:stop], start)
                start = stop

    def stays(self, whole: _Whole) -> bool:
        """Whether the values are read by their names."""
        if self.is_single:
            return self.first in whole.kept
        return len(self.indices) < MIN_RUN and whole.kept.issuperset(self.indices)

    def edit(self, whole: _Whole, starts: Sequence[int]) -> Edit:
        """Read the values from the tuple."""
        nodes = self.reading.nodes[self.start : self.start + len(self.indices)]
        start, end = _start(nodes[0], starts), _end(nodes[-1], starts)
        if self.is_single:
            return start, end, whole.item(self.first)
        part = whole.part(self.first, self.indices[-1] + 1)
        display = self.reading.display
        if display is None or len(display.elts) > len(nodes):
            return start, end, f"*{part}"
        if not whole.is_tuple and not self.reading.is_iterated:
            part = f"(*{part},)"
        return _start(display, starts), _end(display, starts), part


def _line_starts(lines: Sequence[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return starts


def _start(node: ast.expr | ast.stmt, starts: Sequence[int]) -> int:
    return starts[node.lineno - 1] + node.col_offset


def _end(node: ast.expr | ast.stmt, starts: Sequence[int]) -> int:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return starts[node.end_lineno - 1] + node.end_col_offset


def _edited(text: str, edits: Sequence[Edit]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end, new in sorted(edits):
        pieces += [text[done:start], new]
        done = end
    return "".join([*pieces, text[done:]])
