"""Axes that go, seen from one equation, and what can become of the equation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jax import lax

from untrace.axes.factors import Dims, Factor, leaves
from untrace.axes.sites import Site
from untrace.ir import Block, to_jaxpr
from untrace.jaxapi import evaluation
from untrace.reduction.edits import Edits, Rewriting


@dataclass(frozen=True, slots=True)
class Removal:
    """The axes that go, seen from one equation."""

    site: Site
    factors: frozenset[Factor]

    def is_gone(self, dim: Factor) -> bool:
        """Whether an axis goes."""
        return dim.size == 1 and leaves([dim])[0] in self.factors

    def gone(self, dims: Dims) -> tuple[int, ...]:
        """List the axes that go."""
        return tuple(i for i, dim in enumerate(dims) if self.is_gone(dim))

    def left(self, dims: Dims) -> list[int]:
        """List the axes that stay."""
        return [i for i, dim in enumerate(dims) if not self.is_gone(dim)]

    def shape(self, dims: Dims) -> tuple[int, ...]:
        """Return the shape without the axes."""
        return tuple(dims[i].size for i in self.left(dims))

    def of(self, dims: Dims, per_axis: Sequence[Any]) -> tuple[Any, ...]:
        """Return those of one entry per axis that stay."""
        return tuple(per_axis[i] for i in self.left(dims))

    def renumbered(self, dims: Dims, axes: Iterable[int]) -> tuple[int, ...]:
        """Return the new numbers of those of `axes` that stay."""
        numbers = {old: new for new, old in enumerate(self.left(dims))}
        found = [int(axis) % len(dims) for axis in axes]
        return tuple(numbers[axis] for axis in found if axis in numbers)

    def is_touched(self) -> bool:
        """Whether any operand or result has any of the axes."""
        return any(map(self.is_gone, self.site.all_dims()))

    def n_touched(self) -> int:
        """Count the operands and results that have any of the axes."""
        every = (*self.site.operands, *self.site.results)
        return sum(any(map(self.is_gone, dims)) for dims in every)

    # ---- what becomes of the equation ----------------------------------------------

    def set(self, **params: Any) -> Edits:
        """Set params."""
        return Edits(params={self.site.eqn: params})

    def passed(self) -> Edits:
        """Put operands in the place of results."""
        eqn = self.site.eqn
        pairs = zip(eqn.results, eqn.operands)
        return Edits(replaced={r: operand for r, operand in pairs if r is not None})

    def rewritten(self, function: Rewriting) -> Edits:
        """Put a function in the place of the equation."""
        return Edits(rewritten={self.site.eqn: function})

    def bound(self, operands: Sequence[Any], **params: Any) -> Sequence[Any]:
        """Evaluate the equation with other operands and params."""
        eqn = self.site.eqn
        return evaluation.bind(
            eqn, {**{k: _held(v) for k, v in eqn.params.items()}, **params}, operands
        )

    def wrapped(self) -> Edits:
        """Add the axes before the equation and take them away after it."""
        site = self.site

        def function(operands: list[Any]) -> list[Any]:
            found = self.bound(
                [
                    lax.expand_dims(operand, self.gone(dims))
                    if self.gone(dims)
                    else operand
                    for operand, dims in zip(operands, site.operands)
                ]
            )
            return [
                lax.squeeze(result, self.gone(dims)) if self.gone(dims) else result
                for result, dims in zip(found, site.results)
            ]

        return self.rewritten(function)


def _held(param: Any) -> Any:
    """Return a param as JAX holds it."""
    return to_jaxpr(param) if isinstance(param, Block) else param
