"""Trace one line at given types: what its equations are, if it can be called at all."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi

# Nobody would write what JAX warns of, or Python: `0[:, None]`.
_no_warnings = jaxapi.ThreadFilter("error")
MODULES: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np}


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a line traces to.

    Attributes:
      jaxpr: Its equations.
      is_sequence: Whether its results have to be unpacked.
    """

    jaxpr: Any
    is_sequence: bool


def attempt(
    text: str,
    avals: Sequence[Any],
    imports: Sequence[tuple[str, str]] = (),
    context: Any = None,
) -> Attempt | None:
    """Trace a line over `v0`, `v1`, ... of given types; None if it cannot be traced.

    Scalars of weak types may be numbers of Python in the end, which have no methods: a
    line has to take these as well.

    Args:
      text: An expression.
      avals: Types of `v0`, `v1`, ...
      imports: Names in the text and their modules, beyond `jax`, `jnp` and `np`.
      context: The equation context to trace it in, if it is not the one around.
    """
    shapes: list[bool] = []

    def flat(*args: Any) -> list[Any]:
        result = function(*args)
        shapes.append(isinstance(result, (tuple, list)))
        return jax.tree.leaves(result)

    manager = (
        contextlib.nullcontext() if context is None else jaxapi.rule_context(context)
    )
    try:
        with _no_warnings.entered(), jaxapi.whole_tracebacks(), manager:
            function = _function(text, len(avals), tuple(imports))
            jaxpr = jaxapi.trace_flat(flat, avals, "idiom")
            is_sequence = shapes[-1]
            numbers = {i: aval for i, aval in enumerate(avals) if _may_be_number(aval)}
            if numbers:
                jaxapi.trace_flat(_at_numbers(flat, numbers), avals, "idiom")
    except Exception:  # a line that is tried may be wrong in any way; it is not used
        return None
    return Attempt(jaxpr, is_sequence)


def _may_be_number(aval: Any) -> bool:
    return getattr(aval, "weak_type", False) and aval.shape == ()


def _at_numbers(
    function: Callable[..., list[Any]], numbers: Mapping[int, Any]
) -> Callable[..., list[Any]]:
    """Return a function that is given numbers of Python for some of its arguments."""
    given = {i: np.ones((), aval.dtype).item() for i, aval in numbers.items()}

    def run(*args: Any) -> list[Any]:
        return function(*[given.get(i, arg) for i, arg in enumerate(args)])

    return run


@functools.lru_cache(maxsize=4096)
def _function(
    text: str, n: int, imports: tuple[tuple[str, str], ...]
) -> Callable[..., Any]:
    """Make a function of a line of the table: its texts are idioms and literals."""
    names = dict(MODULES)
    for name, module in imports:
        names[name] = getattr(importlib.import_module(module), name)
    parameters = ", ".join(f"v{i}" for i in range(n))
    return eval(f"lambda {parameters}: ({text})", names)
