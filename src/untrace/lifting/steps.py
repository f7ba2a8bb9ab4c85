"""Which equations are printed lower than usual: as an idiom, by `jax.lax`, by `bind`.

What an equation is written as depends on its primitive and params and on what its
operands are, hardly on sizes. Where verification blames one, all of its kind are
lowered, in sub-programs and rules, too: they would fail in the same way.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.ir import Block, Equation, Literal
from untrace.lifting.printing import LOWEST_STEP

Kind = tuple[str, Hashable, Hashable]


def _written() -> defaultdict[str, list[Equation]]:
    return defaultdict(list)


@dataclass(slots=True)
class Steps:
    """How many steps lower than usual equations are printed.

    Attributes:
      floor: The steps of all equations that are not blamed.
      why: Why all are printed lower.
      kinds: The steps of those that are, by their kinds.
      bound: Primitives of which all equations are printed as low as possible.
      reasons: Why equations of a primitive were blamed first, by its name.
      written: Equations by the function that their text calls, as last written.
    """

    floor: int = 0
    why: str = ""
    kinds: dict[Kind, int] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)
    written: defaultdict[str, list[Equation]] = field(default_factory=_written)

    def of(self, eqn: Equation) -> int:
        """The steps of an equation."""
        return self._of_kind(kind_of(eqn)) if self.kinds else self.floor

    def lower(
        self, blamed: Iterable[Sequence[Any]], why: str, in_all: bool = False
    ) -> bool:
        """Print the first equations that can be printed lower one step lower.

        Args:
          blamed: Equations that are blamed together, the likeliest first.
          why: What was seen.
          in_all: Whether to print all equations of all primitives that were blamed as
            low as possible instead.

        Returns:
          Whether there are such.
        """
        for eqns in blamed:
            kinds = dict.fromkeys(map(kind_of, eqns))
            left = [kind for kind in kinds if self._of_kind(kind) < LOWEST_STEP]
            for kind in left:
                self.kinds[kind] = self._of_kind(kind) + 1
                self.reasons.setdefault(kind[0], why)
            if left:
                self.bound |= {name for name, _, _ in self.kinds} if in_all else set()
                return True
        return False

    def notes(self) -> list[str]:
        """Which equations are written by `bind`, and why."""
        lowest = {kind[0] for kind in self.kinds if self._of_kind(kind) == LOWEST_STEP}
        reasons = {
            f"`{key}`": why for key, why in self.reasons.items() if key in lowest
        }
        if self.why:
            reasons = {"Everything": self.why}
        return [f"{name} is written by `bind`: {why}." for name, why in reasons.items()]

    def _of_kind(self, kind: Kind) -> int:
        if kind[0] in self.bound:
            return LOWEST_STEP
        return max(self.kinds.get(kind, 0), self.floor)


def callee(text: str) -> str:
    """The function that an expression calls, as `jnp.sum`; "" if it is no such call."""
    name, paren, _ = text.partition("(")
    return name if paren and " " not in name else ""


def kind_of(eqn: Any) -> Kind:
    """What equations that are written alike have in common.

    Args:
      eqn: An `Equation`, or one of JAX.
    """
    is_read = isinstance(eqn, Equation)
    name = eqn.name if is_read else jaxapi.primitive_name(eqn.primitive)
    params = tuple([(key, _kind_of_param(value)) for key, value in eqn.params.items()])
    atoms = eqn.operands if is_read else eqn.invars
    return name, params, tuple([_kind_of_atom(atom) for atom in atoms])


def _kind_of_param(value: Any) -> Hashable:
    """A param without its sizes and sub-programs."""
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value
        return tuple([_kind_of_param(item) for item in items])
    if value is None or isinstance(value, bool | str | enum.Enum | np.dtype):
        return value
    return None if jaxapi.is_jaxpr(value) or type(value) is Block else type(value)


def _kind_of_atom(atom: Any) -> Hashable:
    aval = atom.aval
    is_literal = isinstance(atom, Literal | jaxapi.JaxprLiteral)
    is_weak = getattr(aval, "weak_type", False)
    n_axes = len(getattr(aval, "shape", ()))
    return is_literal, type(aval), getattr(aval, "dtype", None), is_weak, n_axes
