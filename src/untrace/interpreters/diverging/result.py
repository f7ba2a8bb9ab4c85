"""`Divergence`: where two runs part, and how the error grows from there."""

from __future__ import annotations

import html
import io
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console, Group
from rich.text import Text

from untrace.errors import SaveError
from untrace.interpreters.diverging.growth_plot import growth_svg
from untrace.interpreters.diverging.growth_table import counted_ulps, growth_table
from untrace.interpreters.diverging.rows import BRANCH, TURNS, Row
from untrace.printable import printable, printable_lines
from untrace.syntax.files import replace_file

MAX_CONTROL = 5
WIDTH_COLS = 240
"""Where text is folded that no terminal folds: most tables are narrower."""


@dataclass(frozen=True)
class Operand:
    """What the equation was given that made the first value beyond the tolerance.

    Attributes:
      name: What the recovered source calls it, or "".
      value: The array in the first run.
      other: The array in the other run; None if it is not known.
      text: What it is there: its element where the difference is the largest, or its
        type and range.
      other_text: The same for the other run, "" if it is not known.
    """

    name: str
    value: Any
    other: Any
    text: str
    other_text: str

    def __str__(self) -> str:
        name = f"`{self.name}` = " if self.name else ""
        if self.other_text in ("", self.text):
            return f"{name}{self.text}"
        return f"{name}{self.text} against {self.other_text}"


@dataclass(frozen=True, eq=False)
class Divergence:
    """What comparing two runs found.

    Attributes:
      sides: What the runs are: ("op by op", "jitted").
      first: The first value, in the order of the first run, that differs by more than the
        tolerance; None if none does.
      operands: What its equation was given.
      other_line: The user's line of that value in the other program, "" if it is the same.
      rows: All values that both runs have, in the order of the first.
      results: What the program returns, in both runs.
      notes: What could not be compared, and why.
      limits: The tolerances, relative, of the types that occur.

    It is neither true nor false: ask whether `first` is None.
    """

    sides: tuple[str, str]
    first: Row | None
    operands: tuple[Operand, ...]
    other_line: str
    rows: tuple[Row, ...]
    results: tuple[Row, ...]
    notes: tuple[str, ...]
    limits: tuple[float, ...]

    @property
    def control(self) -> tuple[Row, ...]:
        """Where the runs take other branches, or loops other numbers of turns."""
        return tuple(
            [r for r in self.rows if r.kind in (BRANCH, TURNS) and r.is_beyond]
        )

    def plot(self, path: str | os.PathLike[str] | None = None) -> str:
        """Draw the error of each value as SVG; write it to `path`, if one is given.

        Args:
          path: Where the drawing goes.

        Returns:
          The text of the SVG.

        Raises:
          SaveError: If the place cannot be written.
        """
        number = None
        if self.first is not None:
            number = next((i for i, r in enumerate(self.rows) if r is self.first), None)
        title = f"{self.sides[0]} against {self.sides[1]}"
        drawn = growth_svg(self.rows, number, title, self.limits)
        if path is not None:
            try:
                replace_file(Path(path), [drawn.encode()])
            except (OSError, ValueError) as error:
                raise SaveError(
                    f"cannot write {os.fspath(path)!r}: {error}. Give a path in a folder "
                    "that exists."
                ) from error
        return drawn

    def __bool__(self) -> NoReturn:
        """Refuse: ask whether `first` is None.

        Raises:
          TypeError: Always.
        """
        raise TypeError(
            "a divergence is neither true nor false; ask for `.first is None`."
        )

    def __str__(self) -> str:
        console = Console(
            file=io.StringIO(), width=WIDTH_COLS, force_jupyter=False, soft_wrap=False
        )
        with console.capture() as capture:
            console.print(growth_table(self.rows, self.first))
        table = capture.get().splitlines() if self._is_table_shown else []
        lines = [*self._lines(), "", *[line.rstrip() for line in table]]
        lines += [f"note: {note}" for note in self.notes]
        return printable_lines("\n".join(lines).rstrip())

    def __repr__(self) -> str:
        where = "nowhere" if self.first is None else f"at `{self.first.name}`"
        return printable(f"<untrace.Divergence: {' / '.join(self.sides)} part {where}>")

    def __rich__(self) -> Group:
        shown: list[Any] = []
        for number, line in enumerate(self._lines()):
            style = "bold" if number == 0 else ""
            shown.append(Text(printable(line), style=style))
        if self._is_table_shown:
            shown += ["", growth_table(self.rows, self.first)]
        shown += [Text(printable(f"note: {note}"), style="dim") for note in self.notes]
        return Group(*shown)

    def _repr_html_(self) -> str:
        drawn = self.plot() if self.rows else ""
        return f"<pre>{html.escape(str(self))}</pre>{drawn}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self) if cycle else str(self))

    @property
    def _is_table_shown(self) -> bool:
        return any(row.distance.n_other or row.distance.what for row in self.rows)

    # -- lines

    def _lines(self) -> Iterator[str]:
        runs = f"{self.sides[0]} against {self.sides[1]}"
        if self.first is None:
            yield f"{runs}: nothing differs beyond the tolerance."
            yield from self._of_small()
            return
        yield from self._of_first(runs, self.first)
        other = [row for row in self.control if row is not self.first]
        for row in other[:MAX_CONTROL]:
            yield f"  then {_control(row)}"
        if len(other) > MAX_CONTROL:
            yield f"  and {len(other) - MAX_CONTROL:,} branches and loops more"
        yield from self._of_results()

    def _of_first(self, runs: str, row: Row) -> Iterator[str]:
        origin = row.origin
        if origin is None:
            yield f"{runs}: the result differs, no value that was compared before it does."
        else:
            yield f"{runs}: they part at {origin}"
            if origin.text:
                yield f"    {origin.text}"
        if row.kind in (BRANCH, TURNS):
            yield f"  `{row.equation.primitive.name}` {row.words}"
        else:
            yield f"  {_named(row)}: {row.words}{_size(row)}"
        if self.operands:
            given = ", ".join(map(str, self.operands))
            is_known = all(operand.other is not None for operand in self.operands)
            run = "" if is_known else f", {self.sides[0]}"
            yield f"  {row.equation.primitive.name} of {given}{run}"
        if row.inside:
            yield f"  inside {row.inside}"
        if origin is not None and origin.scopes.strip("/"):
            yield f"  scopes {origin.scopes}"
        if self.other_line:
            yield f"  in the other program at {self.other_line}"

    def _of_small(self) -> Iterator[str]:
        n = len(self.rows)
        if not n:
            yield "  No value but the results was compared."
        differing = [row for row in (*self.rows, *self.results) if row.distance.rel]
        if not differing:
            if n:
                yield f"  {n:,} value{'s' * (n != 1)} compared, all equal."
            return
        worst = max(differing, key=lambda row: row.distance.rel)
        place = f" at {worst.origin.place}" if worst.origin else ""
        n_other = sum(bool(row.distance.n_other) for row in self.rows)
        if n:
            yield f"  {n:,} value{'s' * (n != 1)} compared, {n_other:,} not equal to the last bit."
        yield f"  The largest difference: {_named(worst)}{place}: {worst.words}{_size(worst)}"

    def _of_results(self) -> Iterator[str]:
        beyond = [row for row in self.results if row.is_beyond]
        if not self.results or (self.first in beyond and len(self.results) == 1):
            return
        if not beyond:
            yield "  the results differ by no more than the tolerance"
            return
        worst = max(beyond, key=lambda row: row.distance.rel)
        said = f"{worst.words}{_size(worst)}"
        if len(self.results) == 1:
            yield f"  the result: {said}"
            return
        n, n_all = len(beyond), len(self.results)
        yield f"  {n} of {n_all} results beyond it, the most {_named(worst)}: {said}"


def _control(row: Row) -> str:
    place = row.origin.place if row.origin else ""
    turn = f" in {row.turn}" if row.turn else ""
    return f"`{row.equation.primitive.name}` at {place}{turn} {row.words}"


def _named(row: Row) -> str:
    is_other = row.variable and row.variable != row.name
    variable = f" (your `{row.variable}`)" if is_other else ""
    return f"`{row.name}`{variable}"


def _size(row: Row) -> str:
    """How large a difference is, and where."""
    d = row.distance
    if d.what or d.ulps is None or d.rel == math.inf:
        parts: list[str] = []
    else:
        parts = [f"relative error {d.rel:.2g}, {counted_ulps(d.ulps)} ulps"]
    if d.index:
        many = (
            f"{d.n_beyond:,} of {d.n_elements:,} elements beyond" if d.n_beyond else ""
        )
        parts += [f"at {list(d.index)}"] + [many] * bool(many)
    return f" ({'; '.join(parts)})" if parts else ""
