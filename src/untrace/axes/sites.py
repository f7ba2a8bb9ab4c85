"""What a rule looks at: an equation, the axes of its operands and results.

Rules say which axes are equal, and how sizes that differ depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from untrace.axes.factors import Dims, Factor
from untrace.ir import Atom, Block, Equation, Value


@dataclass(frozen=True, slots=True)
class AtMost:
    """A part is not larger than the whole: a slice and what it is taken from."""

    part: Factor
    whole: Factor


@dataclass(frozen=True, slots=True)
class Sum:
    """The whole is as large as its parts together: a concatenation."""

    whole: Factor
    parts: Dims


Relation = AtMost | Sum


@dataclass(slots=True, eq=False)
class Site:
    """An equation and the axes around it.

    Attributes:
      sizes: Factors of params that are not the size of an axis, by their name.
      relations: Those of the whole program.
      dims: The axes of all values of the program.
      ties_parts: Whether parts of equal size that are put together keep one size.
    """

    eqn: Equation
    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]
    relations: list[Relation]
    dims: Callable[[Atom], Dims]
    ties_parts: bool
    sizes: dict[str, Factor] = field(default_factory=dict)

    @property
    def params(self) -> Any:
        """The params of the equation."""
        return self.eqn.params

    @property
    def first(self) -> Dims:
        """The axes of the first operand."""
        return self.operands[0]

    @property
    def result(self) -> Dims:
        """The axes of the first result."""
        return self.results[0]

    def all_dims(self) -> Iterable[Factor]:
        """List the axes of all operands and results."""
        for dims in (*self.operands, *self.results):
            yield from dims

    def at_most(self, part: Factor, whole: Factor) -> None:
        """Note that a part is not larger than the whole."""
        self.relations.append(AtMost(part, whole))

    def is_sum(self, whole: Factor, parts: Iterable[Factor]) -> None:
        """Note that parts make up the whole."""
        self.relations.append(Sum(whole, tuple(parts)))

    def input_dims(self, block: Block) -> list[Dims]:
        """List the axes of the inputs of a sub-program."""
        return [self.dims(value) for value in block.inputs]

    def output_dims(self, block: Block) -> list[Dims]:
        """List the axes of the outputs of a sub-program."""
        return [self.dims(atom) for atom in block.outputs]


class Table:
    """The axes of all values, and the equations around them."""

    def __init__(self, ties_parts: bool) -> None:
        self._ties_parts = ties_parts
        self.axes: dict[Value, Dims] = {}
        self.sites: dict[Equation, Site] = {}
        self.relations: list[Relation] = []

    def dims(self, atom: Atom) -> Dims:
        """Return the axes of a value; new ones where it is seen for the first time."""
        if not isinstance(atom, Value):
            return _fresh(atom.aval)
        known = self.axes.get(atom)
        if known is None:
            known = self.axes[atom] = _fresh(atom.aval)
        return known

    def site(self, eqn: Equation) -> Site:
        """Make the site of an equation."""
        made = self.sites[eqn] = Site(
            eqn,
            tuple(map(self.dims, eqn.operands)),
            tuple(
                _fresh(aval) if result is None else self.dims(result)
                for result, aval in zip(eqn.results, eqn.result_avals)
            ),
            self.relations,
            self.dims,
            self._ties_parts,
        )
        return made


def _fresh(aval: Any) -> Dims:
    shape: tuple[int, ...] = getattr(aval, "shape", ())
    return tuple(Factor(int(size)) for size in shape)
