"""What one program does that another does not: statements, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = (
    *("primitive", "param", "literal", "constant", "operand", "shape", "dtype"),
    *("weak type", "sharding", "type", "context", "effects", "rule", "added"),
    *("removed", "input", "result", "moved", "unused", "repeated", "call", "other"),
)
"""What a change may be. The last but one are those that do not count ("equivalent")."""


@dataclass(frozen=True, slots=True)
class Change:
    """A statement in which two programs differ.

    Attributes:
      path: The sub-program that holds it, as in `scan/jaxpr`; "" for the program itself.
      kind: What differs first, one of `KINDS`.
      before: The statement of the first program, "" if it has none.
      after: The statement of the second program, "" if it has none.
      before_line: The user's line behind it, "model.py:12: h = x * 2"; "" if unknown.
      after_line: The same for the second program.
      what: What differs, in words.
      index: Which equation of its jaxpr it is, counted from 0 (in the second program if
        it was added); None if it is none, as for inputs and results.
    """

    path: str
    kind: str
    before: str
    after: str
    before_line: str
    after_line: str
    what: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A statement to be shown: `sign` is " ", "-", "+", or "…" where some are left out."""

    sign: str
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Hunks:
    """The statements of one sub-program around those that differ.

    Attributes:
      title: Which sub-program it is, "" for the program itself.
      rows: Its statements, as far as they are shown.
    """

    title: str
    rows: tuple[Row, ...]
