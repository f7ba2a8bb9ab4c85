"""Functions that a call keeps for later come back, and are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.verification.compare import compare

X = np.ones(3, np.float32)


def recover(function: Callable[..., Any], *args: Any) -> str:
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    assert "from its equations" not in str(src), str(src)
    return str(src)


def linear(factor: float) -> Callable[..., Any]:
    def program(r: Any, x: Any) -> Any:
        return jax.custom_derivatives.linear_call(
            lambda r, x: x * r, lambda r, t: t * r * factor, r, x
        )

    return program


def test_transpose_of_a_linear_call() -> None:
    text = recover(linear(2.0), X, X)
    assert "lambda r, x: x * r, lambda r, t: t * r * 2.0, r, x" in text

    def differentiated(r: Any, x: Any) -> Any:
        return jax.grad(lambda x: linear(2.0)(r, x).sum())(x)

    assert "lambda r, t: t * r * 2.0, r, x" in recover(differentiated, X, X)


def test_other_transpose_is_another_program() -> None:
    first, same, other = (jax.make_jaxpr(linear(f))(X, X) for f in (2.0, 2.0, 3.0))
    assert compare(first, same) is None
    assert "3.0" in str(compare(first, other))


def test_option_of_a_rule() -> None:
    @jax.custom_vjp
    def sine(x: Any) -> Any:
        return jnp.sin(x)

    sine.defvjp(
        lambda x: (jnp.sin(x), x), lambda r, g: (g * jnp.cos(r),), optimize_remat=True
    )
    text = recover(lambda x: sine(x) * 2, X)
    assert "optimize_remat=True" in text
    assert "\nsine.defvjp(" in text


def test_function_of_numbers() -> None:
    def program(x: Any) -> Any:
        return jnp.frompyfunc(lambda a, b: a + 2 * b, 2, 1)(x, x[:, None])

    text = recover(program, X)
    assert (
        "jnp.frompyfunc(lambda a, b: a + 2 * b, nin=2, nout=1)(x, x[:, None])" in text
    )


@pytest.mark.skipif(jax.__version__ < "0.12", reason="came with jax 0.12")
def test_gradient_with_logs() -> None:
    @jax.custom_gradient(with_logs=True)
    def square(x: Any) -> Any:
        return x**2, lambda g: ((g * 2 * x,), {"cotangent": g})

    text = recover(lambda x: jax.grad(square)(x) + square(x), 2.0)
    assert "@jax.custom_gradient(with_logs=True)\ndef square(x):\n" in text
