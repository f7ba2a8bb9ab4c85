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
from jax._src.interpreters import ad
from jax.custom_derivatives import linear_call
from jax.extend import core

from tests.verification.attacks.pairs import X, Y, differs

Function = Callable[[Any], Any]


@jax.custom_vjp
def clipped(x: Any) -> Any:
    """Return the argument, and clip its cotangent."""
    return x * 1.0


clipped.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (jnp.clip(ct, -1, 1),))


def in_scan(x: Any) -> Any:
    return lax.scan(lambda x, _: (clipped(x), None), x, None, length=2)[0]


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


@jax.custom_jvp
def of_rule(x: Any) -> Any:
    """Return the argument; the rule clips what its tangent is pulled back to."""
    return x * 1.0


of_rule.defjvp(lambda primals, tangents: (primals[0] * 1.0, of_linear_call(*tangents)))


@jax.custom_jvp
def of_rule_in_rule(x: Any) -> Any:
    return x * x


of_rule_in_rule.defjvp(
    lambda primals, tangents: (
        primals[0] * primals[0],
        tangents[0] * 2.0 * of_rule(primals[0]),
    )
)


@jax.custom_jvp
def of_itself(x: Any) -> Any:
    return jnp.sin(x)


def _of_itself(primals: Any, tangents: Any) -> Any:
    x, t = *primals, *tangents
    return of_itself(x), of_rule(t) * of_itself(x + 1.0)


of_itself.defjvp(_of_itself)


@jax.custom_batching.custom_vmap
def of_batch(x: Any) -> Any:
    """Return the argument; where it is batched, its cotangent is clipped."""
    return x * 1.0


of_batch.def_vmap(lambda size, batched, x: (clipped(x), batched[0]))

doubled_p = core.Primitive("doubled")
doubled_p.def_impl(lambda x: x * 2.0)
doubled_p.def_abstract_eval(lambda x: x)
ad.deflinear2(doubled_p, lambda ct, x: [jnp.clip(ct * 2.0, -1, 1)])


def of_primitive(x: Any) -> Any:
    return doubled_p.bind(x)


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
    "a rule of tangents": of_rule,
    "a rule in a rule": of_rule_in_rule,
    "a rule in a rule that leads back": of_itself,
    "a scan of a rule": lambda x: lax.scan(lambda c, _: (of_rule(c), None), x, None, 2)[
        0
    ],
    "a rule of batches": of_batch,
    "the primitive of a library": of_primitive,
}.items():
    differs(f"cotangents clipped by {kind}", twice(function), once(function))


def of_one(x: Any, y: Any) -> Any:
    a, b = clipped(x), clipped(x)
    return (a * 30.0, b * y, a * 20.0)


def of_another(x: Any, y: Any) -> Any:
    a, b = clipped(x), clipped(x)
    return (a * 30.0, b * y, b * 20.0)


differs("which of two clipped values is used", of_one, of_another, X, Y)
