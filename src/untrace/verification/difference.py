"""Say where two jaxprs part, in one or two lines.

An equation is shown as `mul f32[4] a 2.0`: primitive, type of the first result,
operands. Variables get the letters JAX prints them with, so the text can be found in
`print(jaxpr)`.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from untrace import jaxapi

_MAX_WIDTH_COLS = 100
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Difference:
    """The first place where two jaxprs differ.

    Attributes:
      path: Sub-program that holds the difference, as `cond/branches[1]`; `""` is the
        top level.
      indices: Index of the equation at each nesting level, outermost first. Empty if
        the difference is in the signature of the top level.
      expected: The expected equation, in one line.
      actual: The actual equation, in one line.
      reason: What differs, as `literal differs`.
      equation: The actual equation itself, where the path does not lead to it.
      blamed: The expected equations around the difference, outermost first; None where
        there is none.
    """

    path: str
    indices: tuple[int, ...]
    expected: str
    actual: str
    reason: str
    equation: Any = field(default=None, compare=False, repr=False)
    blamed: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    @property
    def index(self) -> int | None:
        """Index of the equation in its own jaxpr, None in a signature."""
        return self.indices[-1] if self.indices else None

    def describe(self, left: str = "expected", right: str = "actual") -> str:
        """Write both equations under each other, named `left` and `right`."""
        place = self.path or "top level"
        if self.indices:
            place += f", equation {self.indices[-1]}"
        head = f"at {place}:"
        width = max(len(left), len(right))
        span = max(len(self.expected), len(self.actual))
        first = f"{head}  {left:<{width}}  {self.expected}"
        second = f"{'':<{len(head)}}  {right:<{width}}  {self.actual:<{span}}"
        return f"{first}\n{second}  ({self.reason})"

    def __str__(self) -> str:
        return self.describe()


def render_equation(jaxpr: Any, index: int) -> str:
    """Render equation `index` of an open jaxpr, or say that there is none."""
    if index >= len(jaxpr.eqns):
        return "no equation"
    names = _name_vars(jaxpr, index)
    eqn = jaxpr.eqns[index]
    result = short_type(eqn.outvars[0].aval) if eqn.outvars else ""
    operands = [_render_atom(names, atom) for atom in eqn.invars]
    words = [eqn.primitive.name, result, *operands]
    return shorten(" ".join(word for word in words if word))


def render_results(jaxpr: Any) -> str:
    """Render the results of an open jaxpr."""
    names = _name_vars(jaxpr, len(jaxpr.eqns))
    return shorten("return " + " ".join(_render_atom(names, v) for v in jaxpr.outvars))


def render_inputs(jaxpr: Any) -> str:
    """Render the types of the inputs of an open jaxpr."""
    return shorten("inputs " + " ".join(short_type(v.aval) for v in jaxpr.invars))


def short_type(aval: Any) -> str:
    """Write a type as JAX prints it, with `*` for a weak one."""
    has_short = hasattr(aval, "str_short")
    text: str = aval.str_short(short_dtypes=True) if has_short else str(aval)
    return text + "*" if getattr(aval, "weak_type", False) else text


def two_types(aval: Any, other: Any) -> str:
    """Write two types that differ; in full where the short form hides it."""
    texts = [short_type(aval), short_type(other)]
    if texts[0] == texts[1]:
        texts = [repr(aval), repr(other)]
    return f"{texts[0]} and {texts[1]}"


def shorten(text: str, width_cols: int = _MAX_WIDTH_COLS) -> str:
    """Cut a line to a readable width."""
    text = _ADDRESS.sub("", text)
    text = " ".join(text.split())
    return text if len(text) <= width_cols else text[: width_cols - 3] + "..."


def _name_vars(jaxpr: Any, n_eqns: int) -> dict[Any, str]:
    names: dict[Any, str] = {}
    binders = [*jaxpr.constvars, *jaxpr.invars]
    for eqn in jaxpr.eqns[:n_eqns]:
        binders.extend(v for v in eqn.outvars if type(v) is not jaxapi.DropVar)
    for var in binders:
        names[var] = _letters(len(names))
    return names


def _letters(number: int) -> str:
    text = ""
    while True:
        number, digit = divmod(number, 26)
        text = string.ascii_lowercase[digit] + text
        if not number:
            return text
        number -= 1


def _render_atom(names: dict[Any, str], atom: Any) -> str:
    if type(atom) is not jaxapi.JaxprLiteral:
        return names.get(atom, "?")
    shape = np.shape(atom.val)
    return "[...]" if shape else str(np.asarray(atom.val).item())
