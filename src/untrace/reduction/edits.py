"""Edits are data: what to change in a program, keyed by its own values and equations.

Keys may lie at any depth. `apply` (in `applying.py`) evaluates the program under the
edits while JAX traces it, so shapes, dtypes and effects of what remains are always those
that JAX gives; edits that do not trace are discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from untrace.ir import Atom, Equation, Literal, Value


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """An array in the place of a value: a new input of the program.

    Attributes:
      array: What it holds.
      control: What it holds under the control inputs; the same if None.
    """

    array: Any
    control: Any = None


Substitute = Atom | Held
Rewriting = Callable[[list[Any]], Sequence[Any] | None]


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
    """Evaluate a sub-program in place of the equation that calls it, once.

    Attributes:
      branch: Which branch of a `cond`.
      step: Which step of a `scan` its inputs are taken from.
      carry: Values of the carry before that step, and of the rows that a `scan` takes in
        it if they are not to be taken from its inputs; those that enter the loop if None.
      control: What these are under the control inputs; the same if None.
    """

    branch: int = 0
    step: int = 0
    carry: tuple[Any, ...] | None = None
    control: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Edits:
    """What to change.

    Attributes:
      outputs: The outputs of the whole program, if they change.
      replaced: What stands for a value: another value of the same block that is known
        before it, a literal, or an array. Equations that nothing needs any more go.
      params: Params to set, by equation.
      opened: Equations whose sub-program is evaluated in place.
      dropped: Equations with effects to leave out.
      literals: Numbers in the place of literals.
      constants: Arrays in the place of those that sub-programs hold.
      inputs: New values of inputs of the program, which may have other types; or
        functions of what they hold, which change the control inputs alike.
      rewritten: Functions from operands to results in the place of equations, which stay
        where one returns None.
    """

    outputs: tuple[Atom, ...] | None = None
    replaced: Mapping[Value, Substitute] = field(default_factory=dict)
    params: Mapping[Equation, Mapping[str, Any]] = field(default_factory=dict)
    opened: Mapping[Equation, Opening] = field(default_factory=dict)
    dropped: frozenset[Equation] = frozenset()
    literals: Mapping[Literal, Any] = field(default_factory=dict)
    constants: Mapping[Value, Any] = field(default_factory=dict)
    inputs: Mapping[Value, Any] = field(default_factory=dict)
    rewritten: Mapping[Equation, Rewriting] = field(default_factory=dict)

    def __or__(self, other: Edits) -> Edits:
        """Make both changes; where they speak of the same thing, the second wins."""
        made: dict[str, Any] = {}
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            if item.name == "outputs":
                made[item.name] = mine if theirs is None else theirs
            else:
                made[item.name] = mine | theirs
        return Edits(**made)
