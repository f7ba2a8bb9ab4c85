"""The names that the values of a captured program have in its text, and in the user's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured
from untrace.errors import LiftingError
from untrace.ir import Block, Value, from_jaxpr
from untrace.lifting.lift import lift
from untrace.lifting.names.source_names import source_names
from untrace.options import Options


def value_names(captured: Captured) -> tuple[dict[Any, str], dict[Any, str]]:
    """Name the results of all equations, those of sub-programs included.

    Args:
      captured: The program.

    Returns:
      By the variables of its jaxpr (`jax.core.Var`): the names that its text at level
      "lax" gives them, and the names of the user's variables, as far as there are any.
      If the program cannot be written, the first are missing.
    """
    block = from_jaxpr(captured.jaxpr)
    try:
        written = lift(captured, Options(level="lax"), block=block).lifter.defined
    except LiftingError:
        written = {}
    hints = source_names(block)
    variables = dict(_variables(block, captured.jaxpr, set()))
    return (
        {var: written[v] for var, v in variables.items() if v in written},
        {var: hints[v] for var, v in variables.items() if v in hints},
    )


def _variables(block: Block, jaxpr: Any, seen: set[int]) -> Iterator[tuple[Any, Value]]:
    """Yield the variables of a jaxpr that are results, with the values they were read as."""
    if id(block) in seen:
        return
    seen.add(id(block))
    body, _ = jaxapi.split_jaxpr(jaxpr)
    for eqn, original in zip(block.equations, body.eqns, strict=True):
        for value, var in zip(eqn.results, original.outvars, strict=True):
            if value is not None:
                yield var, value
        for key, param in eqn.params.items():
            items: Any = param if isinstance(param, tuple) else (param,)
            given: Any = original.params[key]
            others: Any = given if isinstance(param, tuple) else (given,)
            for item, other in zip(items, others):
                if isinstance(item, Block):
                    yield from _variables(item, other, seen)
