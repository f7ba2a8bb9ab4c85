"""Which lines of the user's a line of a recovered file comes from, and what shaped it.

Nothing is kept for this while the file is written. Its text is traced once more: the
equations of both programs are laid beside each other, those of the text know its lines,
and those of the original the user's. So it holds for every level and option.
"""

from __future__ import annotations

import ast
import collections
import difflib
import itertools
import linecache
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.optional import Decision
from untrace.parsing import parse
from untrace.printable import printable, printable_lines
from untrace.verification.locate import sub_program

MAX_PRIMITIVES = 6
"""Different primitives that are named for one line."""

MAX_LINES = 12
"""The user's lines that are shown."""


@dataclass(frozen=True, slots=True)
class UserLine:
    """A line of the user's, or of a library's where none of the user's is known.

    Attributes:
      place: File and line, "model.py:12"; "" if that is not known.
      function: The function that the line is in.
      text: The line, as it is in its file now.
      kind: "", "derivative" or "backward pass": what the equations are of this line.
      primitives: The primitives of the equations, and how many there are of each.
    """

    place: str
    function: str
    text: str
    kind: str = ""
    primitives: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        where = self.place or "an unknown line"
        where += f" in `{self.function}`" if self.function else ""
        where += f", its {self.kind}" if self.kind else ""
        where += f": {self.text}" if self.text else ""
        names = [f"{n} {name}" if n > 1 else name for name, n in self.primitives]
        more = len(names) - MAX_PRIMITIVES
        shown = [*names[:MAX_PRIMITIVES], f"{more} more"] if more > 1 else names
        return f"{where}\n      {', '.join(shown)}" if shown else where


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Where a statement of a recovered file comes from.

    Attributes:
      line: The line that was asked for, counted from 1.
      statement: The statement that it is a part of, or its first line.
      function: The function of the file that it is in; "" at the top of the file.
      call: The line of the user's that made all its equations; None if there is none.
      users: The lines that made them, in the order of the equations; none if the
        statement makes no equation.
      decisions: What was done for it only to make the text better, by number.
    """

    line: int
    statement: str
    function: str
    call: UserLine | None
    users: tuple[UserLine, ...]
    decisions: tuple[tuple[int, Decision], ...]

    def __str__(self) -> str:
        inside = f" in `{self.function}`" if self.function else ""
        lines = [f"line {self.line}{inside}: {self.statement}"]
        if self.call is not None:
            lines.append(f"  from {self.call}")
        lines += _described(self.users) if self.users else ["  It makes no equation."]
        if self.decisions:
            lines.append("  shaped by (--refuse NUMBER writes the file without one)")
            lines += [f"    {number} {decision}" for number, decision in self.decisions]
        return printable_lines("\n".join(lines))


def _described(users: Sequence[UserLine]) -> list[str]:
    """Say which equations lines made."""
    more = len(users) - MAX_LINES
    shown = users[:MAX_LINES] if more > 1 else users
    rows = [f"    {one}" for one in shown]
    rest = [f"    {more} more lines"] if more > 1 else []
    return ["  which made the equations of", *rows, *rest]


def explain(
    text: str,
    line: int,
    original: Any,
    traced: Callable[[], tuple[Any, str]],
    decisions: Sequence[Decision],
) -> LineOrigin:
    """Say which calls of the user's a line of a recovered file comes from.

    Args:
      text: The file.
      line: A line of it, from 1.
      original: The jaxpr of the user's program.
      traced: Traces the text; returns its jaxpr, and the name of the file in tracebacks.
      decisions: What was done to make the text better, by number.

    Raises:
      ValueError: If the text has no such line.
    """
    rows = text.splitlines()
    if not 1 <= line <= len(rows):
        raise ValueError(f"the file has lines 1 to {len(rows)}, and no line {line}")
    tree = parse(text)
    node, function = _statement(tree, line)
    if node is None:
        return LineOrigin(line, printable(rows[line - 1].strip()), "", None, (), ())
    last = _last_line(node)
    made = _made_by(tree, range(node.lineno, last + 1), original, *traced())
    users = tuple(_lines_of(made))
    return LineOrigin(
        line,
        printable(rows[node.lineno - 1].strip()),
        function,
        _call_of(made, function),
        users,
        tuple(_deciding(decisions, function, users)),
    )


def _statement(tree: ast.Module, line: int) -> tuple[ast.stmt | None, str]:
    """Return the innermost statement that a line is part of, and the function around it."""
    found: ast.stmt | None = None
    function = ""
    body: Sequence[ast.stmt] = tree.body
    while True:
        inner = next(
            (s for s in body if _first(s) <= line <= (s.end_lineno or 0)), None
        )
        if inner is None:
            return found, function
        found = inner
        if isinstance(inner, ast.FunctionDef):
            function = inner.name
        body = getattr(inner, "body", ())
        body = [*body, *getattr(inner, "orelse", ())]


def _first(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(one.lineno for one in decorators)])


def _last_line(node: ast.stmt) -> int:
    """Return the last line of a statement, or of its head if others stand in it."""
    body: Sequence[ast.stmt] = getattr(node, "body", ())
    return _first(body[0]) - 1 if body else node.end_lineno or node.lineno


def _made_by(
    tree: ast.Module, lines: range, original: Any, jaxpr: Any, filename: str
) -> list[_Made]:
    """List the equations of the original that a stretch of the text makes."""
    owners = _Owners(tree)
    found: list[_Made] = []
    for pairs in _pairs(original, jaxpr, ()):
        if next(_steps(pairs[-1][0]), None) is not None:
            continue  # its sub-programs follow
        outer, numbers = -1, set[int]()
        for _, eqn in pairs:
            rows = jaxapi.lines_in_file(eqn.source_info, filename)
            # JAX traces once what is called twice: the caller's line may be another one.
            own = itertools.takewhile(
                lambda row, outer=outer: owners(row) != outer, rows
            )
            numbers.update(own)
            outer = owners(rows[0]) if rows else outer
        if not numbers.isdisjoint(lines):
            found.append(_Made.of([one for one, _ in pairs]))
    return found


@dataclass(frozen=True, slots=True)
class _Made:
    """An equation of the original: its primitive, frames and what it is a derivative of."""

    name: str
    frames: tuple[tuple[str, int, str], ...]
    kind: str

    @classmethod
    def of(cls, eqns: Sequence[Any]) -> _Made:
        """Describe an equation, the last of several that stand in each other."""
        stacks = " ".join([str(eqn.source_info.name_stack) for eqn in eqns])
        kind = "derivative" if "jvp(" in stacks else ""
        kind = "backward pass" if "transpose(" in stacks else kind
        frames = [frame for eqn in reversed(eqns) for frame in _frames(eqn)]
        return cls(jaxapi.primitive_name(eqns[-1].primitive), tuple(frames), kind)


def _frames(eqn: Any) -> list[tuple[str, int, str]]:
    """List the frames of the user's, innermost first; those of libraries if there are none."""
    frames = jaxapi.forward_frames(eqn.source_info)
    own = [frame for frame in frames if "site-packages" not in frame.file]
    return [(frame.file, frame.place[0], frame.function) for frame in own or frames]


class _Owners:
    """Tells which function of a file a line is in, by a number; 0 for none."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        self._spans = [range(n.lineno, (n.end_lineno or 0) + 1) for n in nodes]

    def __call__(self, line: int) -> int:
        """Return the innermost function; those further in are walked later."""
        inside = [i for i, span in enumerate(self._spans, 1) if line in span]
        return inside[-1] if inside else 0


_Pair = tuple[Any, Any]


def _pairs(
    original: Any, made: Any, around: tuple[_Pair, ...]
) -> Iterator[tuple[_Pair, ...]]:
    """Yield the equations of two programs that go together, behind those around them."""
    first, second = (jaxapi.split_jaxpr(one)[0].eqns for one in (original, made))
    names = [[_kind(eqn) for eqn in eqns] for eqns in (first, second)]
    if names[0] == names[1]:
        matched = list(zip(first, second))
    else:  # the same computation in another order
        blocks = difflib.SequenceMatcher(None, *names, autojunk=False)
        matched = [
            (first[m.a + i], second[m.b + i])
            for m in blocks.get_matching_blocks()
            for i in range(m.size)
        ]
    for one, other in matched:
        pairs = (*around, (one, other))
        yield pairs
        for step in _steps(one):
            inner = sub_program(one.params, step), sub_program(other.params, step)
            if all(map(jaxapi.is_jaxpr, inner)):
                yield from _pairs(*inner, pairs)


def _kind(eqn: Any) -> tuple[str, ...]:
    shapes = [str(var.aval) for var in eqn.outvars]
    return (jaxapi.primitive_name(eqn.primitive), *shapes)


def _steps(eqn: Any) -> Iterator[str]:
    """Yield the paths to the sub-programs in the params of an equation."""
    for name, value in eqn.params.items():
        if jaxapi.is_jaxpr(value):
            yield name
        elif isinstance(value, tuple):
            yield from (
                f"{name}[{i}]" for i, one in enumerate(value) if jaxapi.is_jaxpr(one)
            )


def _call_of(equations: Sequence[_Made], function: str) -> UserLine | None:
    """Return the line that made all of some equations, in a function of some name.

    That is the innermost one, if there is no such function.
    """
    known = [one.frames for one in equations if one.frames]
    common = known[0] if known else ()
    for frames in known:
        common = [frame for frame in common if frame in frames]
    named = [frame for frame in common if frame[2] == function]
    return _line([*named, *common][0]) if common else None


def _lines_of(equations: Sequence[_Made]) -> Iterator[UserLine]:
    """Yield the lines that made equations, with what they made."""
    groups: dict[Any, collections.Counter[str]] = {}
    for one in equations:
        key = (one.frames or (("", 0, ""),))[0], one.kind
        groups.setdefault(key, collections.Counter())[one.name] += 1
    for (frame, kind), counts in groups.items():
        yield _line(frame, kind, tuple(counts.items()))


def _line(
    frame: tuple[str, int, str],
    kind: str = "",
    primitives: tuple[tuple[str, int], ...] = (),
) -> UserLine:
    file, line, function = frame
    name = file.replace("\\", "/").rpartition("/")[2]
    text = printable(linecache.getline(file, line).strip()) if file else ""
    return UserLine(f"{name}:{line}" if file else "", function, text, kind, primitives)


def _deciding(
    decisions: Sequence[Decision], function: str, users: Sequence[UserLine]
) -> Iterator[tuple[int, Decision]]:
    """Yield the decisions that were taken for a function, or for a call at some lines."""
    places = {one.place for one in users}
    for number, decision in enumerate(decisions, 1):
        about, _, place = decision.subject.rpartition(", ")
        is_here = function and decision.subject == function
        if is_here or (about and place in places):
            yield number, decision
