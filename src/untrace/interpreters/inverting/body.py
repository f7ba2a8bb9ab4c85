"""Sub-programs that are solved on their own: the body of a loop, a branch."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from untrace import jaxapi
from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import Network, Node
from untrace.interpreters.sub_programs import split


class Solved(NamedTuple):
    """What became known in a sub-program.

    Attributes:
      inputs: Its inputs, where they are known.
      outputs: Its outputs, where they are known.
      network: Its equations.
    """

    inputs: list[Lazy | None]
    outputs: list[Lazy | None]
    network: Network

    def log_det(self) -> Any:
        """Return log |det| of what was solved; parts without a formula are left out."""
        terms = [lazy.value for _, lazy in self.network.log_dets if lazy is not None]
        return summed(terms)

    def without_formula(self) -> list[Node]:
        """List the equations for which no formula is known."""
        return [node for node, lazy in self.network.log_dets if lazy is None]


def solve_body(
    network: Network,
    jaxpr: Any,
    inputs: Sequence[Lazy | None],
    outputs: Sequence[Lazy | None],
) -> Solved:
    """Solve a sub-program of a network, given some of its inputs and outputs."""
    body, _ = split(jaxpr)
    inner = network.like()
    cells = [Cell(var.aval) for var in body.invars]
    results = inner.add(jaxpr, cells)
    for cell, lazy in zip(cells, inputs, strict=True):
        if lazy is not None:
            inner.learn(cell, lazy)
    for cell, lazy in zip(results, outputs, strict=True):
        if lazy is not None:
            inner.learn(cell, lazy)
    inner.solve([*cells, *results])
    return Solved(
        [cell.whole for cell in cells], [cell.whole for cell in results], inner
    )


def summed(terms: Sequence[Any]) -> Any:
    """Return the sum of terms of log |det|, as an array of one type for all programs."""
    if not terms:
        return jnp.zeros(())
    whole = functools.reduce(operator.add, terms)
    aval = jaxapi.aval_of(whole)
    is_usual = aval.dtype == jnp.result_type(float) and not aval.weak_type
    return whole if is_usual else jnp.zeros(()) + whole


def unknown_value() -> Lazy:
    """Return a stand-in for a value that will be known when the sub-program runs."""

    def never() -> Any:
        raise AssertionError("a stand-in has no value")

    return Lazy(never, (), False)


def planned(
    network: Network,
    jaxpr: Any,
    inputs: Sequence[Lazy | bool | None],
    outputs: Sequence[bool],
) -> Solved:
    """Find out what would become known.

    Args:
      network: Around the sub-program.
      jaxpr: The sub-program.
      inputs: What is known: a value, True for one that will be known, or nothing.
      outputs: Which outputs will be known.
    """
    given = [
        each if isinstance(each, Lazy) else unknown_value() if each else None
        for each in inputs
    ]
    results = [unknown_value() if each else None for each in outputs]
    return solve_body(network, jaxpr, given, results)


# ---- what its function takes and returns -------------------------------------------


def bundled(values: Sequence[Any]) -> Any:
    """Return values as one, as a person would write them: none, one, or a tuple."""
    if len(values) < 2:
        return values[0] if values else None
    return tuple(values)


def unbundled(bundle: Any, n: int) -> list[Any]:
    """Return as many values as were bundled."""
    if n < 2:
        return [bundle] if n else []
    return list(bundle)
