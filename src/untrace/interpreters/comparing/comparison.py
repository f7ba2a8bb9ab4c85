"""`Comparison`: whether two programs are the same, and in which statements they differ."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from rich.text import Text

from untrace.interpreters.comparing.changes import Change, Hunks
from untrace.printable import printable_lines

MAX_LISTED = 20
"""Statements that are listed of programs that compute the same."""
MAX_ROWS = 400
"""Lines of statements that are shown."""
WIDTH_COLS = 100

Verdict = Literal["equal", "equivalent", "different"]

_SAID = {
    "equal": "equal: the same equations, in the same order.",
    "equivalent": "equivalent: the same data flow, written in another way.",
    "different": "different",
}
_STYLES = {"-": "red", "+": "green", "?": "yellow", "@": "bold cyan", "…": "dim"}
_COLOURS = {"-": "#a00", "+": "#070", "?": "#850", "@": "#057", "…": "#888"}

_Line = tuple[str, str]
"""What it is (a sign, "@" for a title, "?" for a note, "v" for the verdict), and its text."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What comparing two programs found.

    Attributes:
      verdict: "equal", "equivalent" (the same data flow: names, order of pure statements,
        dead ones and plain `jit` do not count) or "different".
      differences: The statements that differ, at their innermost places, of "different"
        programs; of "equivalent" ones what does not count, such as a statement that was
        moved. Empty if they are "equal".
      hunks: The statements around, for showing them.
      n_before: How many equations the first program has, with those of its sub-programs.
      n_after: The same for the second program.
      notes: What was taken on trust, such as a host function with the same code.

    It is neither true nor false, since either could be meant: ask for the `verdict`.
    """

    verdict: Verdict
    differences: tuple[Change, ...]
    hunks: tuple[Hunks, ...] = ()
    n_before: int = 0
    n_after: int = 0
    notes: tuple[str, ...] = field(default=())

    def __bool__(self) -> NoReturn:
        """Refuse: use `comparison.verdict == "equal"`.

        Raises:
          TypeError: Always.
        """
        raise TypeError(
            'a comparison is neither true nor false; ask for `.verdict == "different"`.'
        )

    def __str__(self) -> str:
        return "\n".join(text for _, text in self._lines())

    def __repr__(self) -> str:
        n = len(self.differences)
        return f"<untrace.Comparison: {self.verdict}, {n} difference{'s' * (n != 1)}>"

    def __rich__(self) -> Text:
        shown = Text()
        for kind, text in self._lines():
            style = _STYLES.get(kind, "bold" if kind == "v" else "")
            shown.append(text + "\n", style=style)
        shown.rstrip()
        return shown

    def _repr_html_(self) -> str:
        lines: list[str] = []
        for kind, text in self._lines():
            colour = _COLOURS.get(kind)
            style = f' style="color:{colour}"' if colour else ""
            lines.append(f"<span{style}>{html.escape(text)}</span>")
        return "<pre>" + "\n".join(lines) + "</pre>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self) if cycle else str(self))

    # -- lines

    def _lines(self) -> Iterator[_Line]:
        yield "v", self._headline()
        if self.verdict == "equivalent":
            yield from self._listed()
        else:
            yield from self._statements()
        for note in self.notes:
            yield " ", printable_lines(f"Taken on trust: {note}.")

    def _headline(self) -> str:
        if self.verdict != "different":
            return _SAID[self.verdict]
        n = len(self.differences)
        sizes = f"{self.n_before:,}"
        if self.n_before != self.n_after:
            sizes += f" and {self.n_after:,}"
        plural = "s differ" if n != 1 else " differs"
        return f"different: {n:,} statement{plural}, of programs of {sizes} equation{'s' * (sizes != '1')}."

    def _listed(self) -> Iterator[_Line]:
        for change in self.differences[:MAX_LISTED]:
            text = change.before or change.after
            words = f"{change.what}: {text}" if text else change.what
            yield " ", f"  {words}"
        rest = len(self.differences) - MAX_LISTED
        if rest > 0:
            yield "…", f"  … and {rest:,} more"

    def _statements(self) -> Iterator[_Line]:
        """The statements, with as many lines as can be read."""
        n_rows = 0
        for hunks in self.hunks:
            yield " ", ""
            if hunks.title:
                yield "@", f"in {hunks.title}"
            last = ""
            for row in hunks.rows:
                if n_rows >= MAX_ROWS:
                    yield "…", f"… more in `.differences` ({len(self.differences):,})"
                    return
                n_rows += 1
                if row.sign == "…":
                    yield row.sign, "    …"
                    continue
                for line in row.text.split("\n"):
                    yield row.sign, f"  {row.sign} {line}"
                if row.note and row.note != last:  # a place is said once for a group
                    yield from _noted(row.note)
                last = row.note


def _noted(note: str) -> Iterator[_Line]:
    head, rest = "    ↳ ", "      "
    yield from (
        ("?", line)
        for line in textwrap.wrap(
            note,
            WIDTH_COLS,
            initial_indent=head,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
