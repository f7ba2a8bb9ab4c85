"""Calls, whose bodies take their place, and functions that are known as a whole.

Some functions of JAX are invertible, although their equations use their input twice:
`softplus` computes max(x, 0) + log1p(exp(-|x|)). They are recognized as what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.interpreters.inverse_rules.linear import solve_eigh
from untrace.interpreters.inverse_rules.table import (
    CALLS,
    Inverse,
    flat,
    solve_elementwise,
)
from untrace.interpreters.inverting.step import Rule, Step
from untrace.interpreters.sub_programs import body_param, split


def body_of(eqn: Any) -> Any:
    """Return the body of a call, or None if an equation is none."""
    key = body_param(eqn)
    return None if key is None else eqn.params[key]


def call_rule(eqn: Any) -> Rule | None:
    """Return the rule of the function that a call is one of, if it has one."""
    body = body_of(eqn)
    if body is None:
        return None
    debug = split(body)[0].debug_info
    _, _, place = str(debug.func_src_info or "").rpartition(" at ")
    found = CALLS.get(place)
    if found is None and jaxapi.is_made_by_jax(debug):
        found = CALLS.get(f"jax:{debug.func_name}")
    return None if found is None else found[0]


def place_of(filename: str, line: int) -> str:
    """Return the key of a function in `CALLS`: where it is written."""
    return f"{filename}:{line}"


def called(name: str, *inverses: Inverse | None, when: str) -> None:
    """Register the inverses of an elementwise function of JAX."""
    CALLS[f"jax:{name}"] = (lambda step: solve_elementwise(step, inverses)), when


def called_as(name: str, when: str) -> Callable[[Rule], Rule]:
    """Register a rule for a function of JAX."""

    def registered(rule: Rule) -> Rule:
        CALLS[f"jax:{name}"] = rule, when
        return rule

    return registered


# ---- jax.nn and jax.numpy ----------------------------------------------------------


def _softminus(y: Any, other: Any) -> Any:
    return y + jnp.log(-jnp.expm1(other - y))


def _logaddexp_slope(x: Any, y: Any, *other: Any) -> Any:
    return y - x


called(
    "softplus",
    Inverse(lambda y: y + jnp.log(-jnp.expm1(-y)), slope=lambda x, y: y - x),
    when="y > 0",
)
called(
    "logaddexp",
    Inverse(_softminus, slope=_logaddexp_slope),
    Inverse(_softminus, slope=_logaddexp_slope),
    when="one operand is known; y is greater than it",
)
called(
    "logaddexp2",
    Inverse(lambda y, b: y + jnp.log2(1 - jnp.exp2(b - y))),
    Inverse(lambda y, a: y + jnp.log2(1 - jnp.exp2(a - y))),
    when="one operand is known; y is greater than it",
)


called(
    "logit",
    Inverse(
        jax.nn.sigmoid, slope=lambda x, y: -jax.nn.softplus(y) - jax.nn.softplus(-y)
    ),
    when="0 < x < 1",
)


def _softsign_inverse(y: Any) -> Any:
    return y / (1 - jnp.abs(y))


called(
    "soft_sign",
    Inverse(
        _softsign_inverse, slope=lambda x, y: -2 * jnp.log1p(-jnp.abs(y)), on="|y| < 1"
    ),
    when="|y| < 1",
)


def _leaky(y: Any, slope: Any = 0.01) -> Any:
    return jnp.where(y >= 0, y, y / slope)


called("leaky_relu", Inverse(_leaky), Inverse(_leaky), when="the slope is positive")
called(
    "elu",
    Inverse(lambda y, alpha=1.0: jnp.where(y > 0, y, jnp.log1p(_negative(y) / alpha))),
    when="alpha > 0; y > -alpha",
)
called(
    "celu",
    Inverse(
        lambda y, alpha=1.0: jnp.where(
            y > 0, y, alpha * jnp.log1p(_negative(y) / alpha)
        )
    ),
    when="alpha > 0; y > -alpha",
)


def _negative(y: Any) -> Any:
    """The part of a value below zero: the other branch is computed, too."""
    return jnp.where(y > 0, 0, y)


called(
    "squareplus",
    Inverse(lambda y, b=4.0: y - b / (4 * y)),
    when="y > 0",
)
called("conj", Inverse(jnp.conj, slope=flat), when="always")


# ---- jax.numpy.linalg --------------------------------------------------------------


@called_as("inv", "always")
def _inv(step: Step) -> None:
    def log_det(x: Any, y: Any) -> Any:
        scale = 2 if jnp.iscomplexobj(y) else 1
        n = y.shape[-1]
        return -2 * n * scale * jnp.sum(jnp.linalg.slogdet(y)[1])

    step.solve(0, jnp.linalg.inv, step.needed_result(), log_det=log_det)


@called_as("cholesky", "the matrix is taken to be symmetric")
def _cholesky(step: Step) -> None:
    if len(step.operands) == 1:
        step.solve(
            0, lambda y: y @ jnp.conj(jnp.swapaxes(y, -1, -2)), step.needed_result()
        )


@called_as("eigh", "values and vectors are known; the matrix is taken to be symmetric")
def _eigh(step: Step) -> None:
    """Multiply the factors out; `symmetrize_input` would hide the matrix."""
    if len(step.operands) == 1 and len(step.results) == 2:
        solve_eigh(step)
