"""Find the first equation that differs from a program of which only marks are known.

A fingerprint says that two programs differ, and not where. Marks are digests of a few
characters, one for every equation and all before it, nested ones before the equation
that holds them; of long programs every n-th has one. They stand at the end of a saved
file as comments, and prove nothing: they are asked only once the fingerprints differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.verification.difference import shorten
from untrace.verification.fingerprint import FingerprintMaker
from untrace.verification.keys import Key, KeyScope
from untrace.verification.locate import statement_at
from untrace.verification.rules import FollowedRules, with_depth

MAX_MARKS = 48
MARK_CHARS = 4
WIDTH_CHARS = 80
HEAD = "# Marks of "
"""How the comment begins that says how many equations there are."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known of the equations of a program.

    Attributes:
      inputs: The mark of the types of its inputs.
      equations: One for each `stride` equations and all before them.
      n_equations: How many equations it has, nested ones and those of rules included.
      stride: Equations per mark (>= 1).
    """

    inputs: str
    equations: tuple[str, ...]
    n_equations: int
    stride: int = 1

    def lines(self) -> list[str]:
        """Write them as comments."""
        digits = "".join([self.inputs, *self.equations])
        starts = range(0, len(digits), WIDTH_CHARS)
        return [
            f"{HEAD}{self.n_equations} equations in steps of {self.stride}, "
            "for `untrace verify`:",
            *(f"# {digits[start : start + WIDTH_CHARS]}" for start in starts),
        ]


def marks_of(jaxpr: Any) -> Marks:
    """The marks of a program, of which few are kept if it is long."""
    inputs, equations, _ = _marked(jaxpr)
    stride = max(1, -(-len(equations) // MAX_MARKS))
    kept = equations[stride - 1 :: stride]
    return Marks(inputs, tuple(kept), len(equations), stride)


def read_marks(text: str) -> Marks | None:
    """Read the comments at the end of a file; None if they are not there or edited."""
    lines = text.rstrip("\n").split("\n")
    start = next((i for i, s in enumerate(lines) if s.startswith(HEAD)), len(lines))
    if start == len(lines):
        return None
    words = lines[start].removeprefix(HEAD).replace(",", " ").split()
    numbers = [int(word) for word in words if word.isdecimal() and word.isascii()]
    digits = "".join(line.removeprefix("# ").strip() for line in lines[start + 1 :])
    starts = range(0, len(digits), MARK_CHARS)
    marks = [digits[i : i + MARK_CHARS] for i in starts]
    if len(numbers) != 2 or numbers[1] < 1 or not marks:
        return None
    return Marks(marks[0], tuple(marks[1:]), *numbers)


def first_difference(marks: Marks, jaxpr: Any, filename: str) -> str:
    """Say which equation of a program is the first that has another mark.

    Args:
      marks: Those of the program that was meant.
      jaxpr: The other program.
      filename: The file whose function was traced.
    """
    inputs, found, equations = _marked(jaxpr)
    if inputs != marks.inputs:
        return "its inputs have other types"
    last = -1
    for number, mark in enumerate(marks.equations):
        last = marks.stride * (number + 1) - 1
        if last >= len(found) or found[last] != mark:
            first = last - marks.stride + 1
            return _said(first, last, marks.n_equations, equations, filename)
    if last + 1 == len(found) == marks.n_equations:
        return (
            "all equations are the recorded ones: what differs is what the function "
            "returns, or the names or defaults of its parameters"
        )
    return _said(last + 1, len(found) - 1, marks.n_equations, equations, filename)


def _said(
    first: int, last: int, n_equations: int, equations: Sequence[Any], filename: str
) -> str:
    """Say what the equations from `first` to `last` are, and where they were written."""
    if first >= len(equations):
        return f"it ends after {len(equations)} of {n_equations} equations"
    shown = equations[first]
    result = jaxapi.short_type(shown.outvars[0].aval) if shown.outvars else ""
    words = [jaxapi.primitive_name(shown.primitive), result]
    line = jaxapi.line_in_file(shown.source_info, filename)
    where = f", line {line}: {shorten(statement_at(filename, line))}" if line else ""
    which = f"the first that differs is equation {first + 1}"
    if last > first:
        which = f"the first that differs is one of equations {first + 1} to {last + 1}"
    n = str(len(equations))
    if len(equations) != n_equations:
        n += f" ({n_equations} were recorded)"
    begin = ", which begin with" if last > first else ","
    return f"{which} of {n}{begin} `{' '.join(words).strip()}`{where}"


def _marked(jaxpr: Any) -> tuple[str, list[str], list[Any]]:
    """Return the mark of the inputs, one for each equation, and the equations."""

    def made(followed: FollowedRules) -> _Marking:
        maker = _Marking(followed)
        maker.cases = jaxapi.RuleCases(jaxpr)
        with jaxapi.deep_recursion():
            maker.jaxpr(jaxpr, None)
        return maker

    maker = with_depth(made)
    body, _ = jaxapi.split_jaxpr(jaxpr)
    before = repr([maker.aval(var.aval) for var in body.invars])
    rolled = hashlib.sha256(before.encode())
    inputs = rolled.hexdigest()[:MARK_CHARS]
    marks: list[str] = []
    for key in maker.keys:
        rolled.update(key.encode())
        marks.append(rolled.hexdigest()[:MARK_CHARS])
    return inputs, marks, maker.equations


class _Marking(FingerprintMaker):
    """Makes a fingerprint, and keeps what every equation adds to it."""

    def __init__(self, followed: FollowedRules) -> None:
        super().__init__(followed)
        self.keys: list[str] = []
        self.equations: list[Any] = []

    def equation(self, eqn: Any, scope: KeyScope) -> Key:
        key = super().equation(eqn, scope)
        self.keys.append(repr(key))
        self.equations.append(eqn)
        return key
