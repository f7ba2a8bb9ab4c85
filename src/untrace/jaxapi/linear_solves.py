"""What `jax.lax.custom_linear_solve` makes of the functions that an equation holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax import lax

from untrace.jaxapi.jaxprs import as_function


class LinearSolve(NamedTuple):
    """The params of an equation.

    `jaxprs` are those of the map, its transpose, the solver and that of the transposed
    system, closed, or None; `lengths` the numbers of leading operands of each.
    """

    jaxprs: Sequence[Any]
    lengths: Sequence[int]

    def called(self, operands: Sequence[Any], is_symmetric: bool) -> list[Any]:
        """Call `jax.lax.custom_linear_solve`; the transpose of the map is JAX's own.

        Raises:
          Exception: What JAX raises if it takes no such functions.
        """
        matvec, _, solve, transpose = (
            None if jaxpr is None else _bound(jaxpr, operands[start : start + n])
            for jaxpr, n, start in zip(self.jaxprs, self.lengths, self.starts)
        )
        if matvec is None or solve is None:
            raise TypeError("there is no map or no solver")
        return lax.custom_linear_solve(
            matvec,
            list(operands[self.starts[-1] :]),
            lambda _, b: solve(b),
            None if transpose is None else lambda _, b: transpose(b),
            symmetric=is_symmetric,
        )

    @property
    def starts(self) -> list[int]:
        """Where the operands of each function begin, and the right-hand side."""
        return [sum(self.lengths[:i]) for i in range(len(self.lengths) + 1)]

    def operands_of_call(
        self, avals: Sequence[Any], is_symmetric: bool
    ) -> list[int] | None:
        """Find out whether a call gives the equation.

        Args:
          avals: The types of the operands of the equation.
          is_symmetric: Whether the map is told to be its own transpose.

        Returns:
          Which operand of the equation each one of those that JAX makes is; None if JAX
          makes something else of the functions.
        """

        def call(*operands: Any) -> list[Any]:
            return self.called(operands, is_symmetric)

        try:
            made = jax.make_jaxpr(call)(*avals).jaxpr
        except Exception:  # they are no functions that it takes
            return None
        places = {var: i for i, var in enumerate(made.invars)}
        if len(made.eqns) != 1 or any(var not in places for var in made.eqns[0].invars):
            return None
        (eqn,) = made.eqns
        is_alike = [*eqn.params["const_lengths"]] == [*self.lengths]
        is_same = [*map(str, eqn.params["jaxprs"])] == [*map(str, self.jaxprs)]
        if not is_alike or not is_same or made.outvars != eqn.outvars:
            return None
        return [places[var] for var in eqn.invars]


def _bound(jaxpr: Any, consts: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
    function = as_function(jaxpr)
    return lambda values: list(function(*consts, *values))
