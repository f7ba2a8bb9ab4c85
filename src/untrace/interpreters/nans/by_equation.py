"""Run a program equation by equation, keep all values, and flag those that are bad.

What is compiled are single equations, once for each kind: far less than the whole
program, with the values that are made op by op.

Also run by path, by Python installations without this package: it imports JAX alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..evaluate import Step
from .devices import bind_alone
from .flagging import Stretch, recorded
from .grading import INFINITE, grade

Begin = Callable[[Step, str], None]
"""Told of the stage at which an equation is: "lower", "compile" or "run"."""


def evaluated(
    jaxpr: Any, args: Sequence[Any], begin: Begin | None = None, level: int = INFINITE
) -> Stretch:
    """Run a program equation by equation, its calls by their bodies.

    Args:
      jaxpr: The program.
      args: Its inputs.
      begin: Told what is done next.
      level: What to look for.
    """
    bind = _Compiled(begin or (lambda step, stage: None))
    rows, values, inputs, outputs, constants = recorded(jaxpr, args, (), True, bind)
    grades = {n: grade(value) for n, value in enumerate(values)}
    flags = {n: flag for n, flag in grades.items() if flag}
    known = frozenset(constants)
    return Stretch(
        jaxpr, args, (), rows, inputs, outputs, flags, known, level, None, values
    )


class _Compiled:
    """Evaluates equations, each compiled by itself, those of one kind once."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._known: dict[Any, Callable[..., Any]] = {}

    def __call__(self, step: Step, *operands: Any) -> Any:
        kind = _kind(step, operands)
        if kind not in self._known:
            self._begin(step, "lower")
            lowered = jax.jit(lambda *xs: bind_alone(step, *xs)).lower(*operands)
            self._begin(step, "compile")
            self._known[kind] = lowered.compile()
        self._begin(step, "run")
        return jax.block_until_ready(self._known[kind](*operands))


def _kind(step: Step, operands: Sequence[Any]) -> Any:
    """Return what equations have in common that are compiled once."""
    types = tuple(map(_type, operands))
    kind = (step.primitive, tuple(step.params.items()), step.equation.ctx, types)
    try:
        hash(kind)
    except TypeError:  # a param that is an array
        return id(step.equation)
    return kind


def _type(value: Any) -> Any:
    aval = getattr(value, "aval", None)
    return aval or (type(value), jnp.shape(value), jnp.result_type(value))
