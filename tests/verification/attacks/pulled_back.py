"""Functions that are called once or twice, and clip what their cotangents are.

What is called twice clips two cotangents, and what is called once and used twice clips
their sum: values are equal, and gradients are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import linear_call

from tests.verification.attacks.pairs import X, Y, differs

Function = Callable[[Any], Any]


@jax.custom_vjp
def clipped(x: Any) -> Any:
    """Return the argument, and clip its cotangent."""
    return x * 1.0


clipped.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (jnp.clip(ct, -1, 1),))


def in_scan(x: Any) -> Any:
    def turn(carry: Any, _: None) -> Any:
        a, b = carry
        return (clipped(a), b + 1), None

    return lax.scan(turn, (x, x), None, length=2)[0][0]


def in_branch(x: Any) -> Any:
    return lax.cond(x[0] < 0, jnp.sin, clipped, x)


def of_linear_call(x: Any) -> Any:
    return linear_call(
        lambda _, x: x * 2.0, lambda _, ct: jnp.clip(ct * 2.0, -1, 1), (), x
    )


def of_solve(x: Any) -> Any:
    return lax.custom_linear_solve(
        lambda v: v * 2.0,
        x,
        lambda _, b: b / 2.0,
        lambda _, b: jnp.clip(b / 2.0, -1, 1),
    )


def twice(f: Function) -> Function:
    return lambda x: f(x) * 30.0 + f(x) * 20.0


def once(f: Function) -> Function:
    def program(x: Any) -> Any:
        y = f(x)
        return y * 30.0 + y * 20.0

    return program


for kind, function in {
    "a function": clipped,
    "a jitted function": jax.jit(clipped),
    "a checkpointed function": jax.checkpoint(clipped),
    "a batched function": jax.vmap(clipped),
    "a scan": in_scan,
    "a branch": in_branch,
    "a linear call": of_linear_call,
    "a linear solve": of_solve,
}.items():
    differs(f"cotangents clipped by {kind}", twice(function), once(function))


def of_one(x: Any, y: Any) -> Any:
    a, b = clipped(x), clipped(x)
    return (a * 30.0, b * y, a * 20.0)


def of_another(x: Any, y: Any) -> Any:
    a, b = clipped(x), clipped(x)
    return (a * 30.0, b * y, b * 20.0)


differs("which of two clipped values is used", of_one, of_another, X, Y)
