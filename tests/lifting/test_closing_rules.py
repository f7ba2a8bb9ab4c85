"""Functions with derivative rules that close over one value twice, or in two ways."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import untrace

X = np.linspace(0.1, 1.0, 3, dtype=np.float32)
A = jnp.arange(3.0) + 0.5
B = jnp.arange(3.0) + 0.5  # JAX takes it for another constant


@jax.custom_jvp
def forward(x: Any) -> Any:
    return jnp.sin(x * A) + B


@forward.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return forward(*primals), tangents[0] * 2.0 * forward(*primals)


@jax.custom_vjp
def reverse(x: Any) -> Any:
    return jnp.sin(x * A) + B


reverse.defvjp(lambda x: (reverse(x), x), lambda x, ct: (ct * reverse(x),))


def jitted(function: Any) -> Any:
    """Close over an argument, too: all constants are arguments of the `jit` then."""
    return lambda x: jax.jit(lambda z: function(z) + x)(x)


def looped(function: Any) -> Any:
    def body(carry: Any, _: Any) -> Any:
        return function(carry), None

    return lambda x: lax.scan(body, x, length=3)[0]


@pytest.mark.parametrize("wrapped", [lambda f: f, jitted, looped])
@pytest.mark.parametrize("function", [forward, reverse])
def test_what_closes_over_equal_constants_is_verified(
    function: Any, wrapped: Any
) -> None:
    program = wrapped(function)
    src = untrace.source(lambda x: program(x), level="lax")(X)
    assert src.report.is_verified, str(src.report)
    loaded = src.load()
    np.testing.assert_array_equal(loaded(X), program(X))
    slopes = [jax.vjp(f, X)[1](X)[0] for f in (loaded, program)]
    np.testing.assert_array_equal(*slopes)
