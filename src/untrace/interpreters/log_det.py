"""log |det| of an inverse, as the sum over the equations that were inverted.

A program is a system of equations, one for each number that it computes. Solved in the
order in which values become known, each equation for the one value that it still lacks,
the Jacobian of the system is block triangular, whether an equation was evaluated forward
(its block is the identity) or inverted. So log |det dx/dy| is the sum of those of the
inverted equations, each alone, if there are as many inputs as outputs: then every
equation was used exactly once. Couplings need no treatment of their own: that part of a
Jacobian below the diagonal blocks does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp

from untrace.errors import InverseError
from untrace.interpreters.inverting.body import summed
from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import Network
from untrace.interpreters.inverting.reasons import described


def log_det(network: Network, inputs: Sequence[Cell], outputs: Sequence[Cell]) -> Lazy:
    """Return log |det| of the derivative of the inputs by the outputs.

    Complex numbers count as two real ones; whole numbers do not count.

    Raises:
      InverseError: If there are not as many inputs as outputs, or no formula is known for
        an equation.
    """
    n_in, n_out = _count(inputs), _count(outputs)
    if n_in != n_out:
        raise InverseError(
            f"the Jacobian of {n_out} results by {n_in} inputs has no determinant. "
            "untrace.inverse(...) gives the inverse without it."
        )
    for node, lazy in network.log_dets:
        if lazy is None:
            raise InverseError(
                f"{described(node).replace('invert', 'give log |det| of')}: no cheap "
                "formula is known for it. For few numbers, differentiate the inverse: "
                "jnp.linalg.slogdet(jax.jacobian(untrace.inverse(f))(y))[1]."
            )
    terms = [lazy for _, lazy in network.log_dets if lazy is not None]
    return Lazy(lambda *values: summed(values), terms)


def _count(cells: Sequence[Cell]) -> int:
    """Count real numbers."""
    count = 0
    for cell in cells:
        dtype = getattr(cell.aval, "dtype", None)
        if dtype is not None and jnp.issubdtype(dtype, jnp.inexact):
            is_complex = jnp.issubdtype(dtype, jnp.complexfloating)
            count += cell.size * (2 if is_complex else 1)
    return count
