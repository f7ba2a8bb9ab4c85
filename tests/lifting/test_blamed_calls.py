"""A difference that no line of the text made is laid to the call that made it."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import untrace


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def order(v: Any, z: Any) -> Any:
    """A function with an order, whose derivative is of those beside it."""
    return jnp.sum(jnp.exp(-jnp.arange(5.0) * z + v), axis=0)


@order.defjvp
def _(v: Any, primals: Any, tangents: Any) -> Any:
    (z,), (dz,) = primals, tangents
    return order(v, z), 0.5 * (order(v - 1, z) - order(v + 1, z)) * dz


def scaled(x: Any, y: Any) -> Any:
    height = jnp.tanh(x) * y
    return height + jnp.sin(height)


def test_rules_that_cannot_be_proved_take_nothing_else_with_them() -> None:
    def f(x: Any, y: Any) -> Any:
        first = scaled(x, y)
        second = scaled(y, first)
        both = order(1, first) + order(2, second)
        return jax.lax.scan(lambda c, _: (c * both, c), second, None, length=3)

    src = untrace.source(f)(jnp.array(0.3), jnp.array(0.7))
    assert src.report.is_verified, str(src.report)
    said = " ".join(str(src).split())
    assert "`order` (test_blamed_calls.py:" in said
    assert "not from the calls that were made" not in said
    assert "second = scaled(y, first)" in str(src)
