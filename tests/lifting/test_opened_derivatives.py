"""Derivatives of libraries that are other ones by some operands, or of derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import ad, mlir

import untrace

X = np.arange(3, dtype=np.float32)


def _differentiable(name: str, compute: Callable[..., Any], rule: Any) -> Any:
    made = jax.extend.core.Primitive(name)
    made.def_impl(compute)
    made.def_abstract_eval(lambda x, *_: jax.core.ShapedArray(x.shape, x.dtype))
    lowered = mlir.lower_fun(compute, multiple_results=False)
    mlir.register_lowering(made, lowered)

    def jvp(primals: Any, tangents: Any) -> Any:
        return made.bind(*primals), rule(*primals, *tangents)

    ad.primitive_jvps[made] = jvp
    return made


def _by_one(x: Any, y: Any, tx: Any, ty: Any) -> Any:
    if type(ty) is ad.Zero:  # of x alone: straight through, and scaled
        return jax.lax.mul(tx, jax.lax.mul(y, 5.0))
    if type(tx) is ad.Zero:
        return jax.lax.mul(ty, x)
    return ad.add_tangents(jax.lax.mul(tx, y), jax.lax.mul(x, ty))


times_p = _differentiable("times", lambda x, y: jax.lax.mul(x, y), _by_one)
twice_p = _differentiable(
    "twice", lambda x: jax.lax.mul(2.0, x), lambda x, t: jax.lax.mul(t, 7.0)
)
square_p = _differentiable(
    "square",
    lambda x: jax.lax.integer_pow(x, 2),
    lambda x, t: jax.lax.mul(t, twice_p.bind(x)),
)


def product(x: Any) -> Any:
    return times_p.bind(x, jnp.full(3, 3.0))


def squared(x: Any) -> Any:
    return square_p.bind(x)


@pytest.mark.parametrize("function", [product, squared])
def test_other_derivatives_are_refused(function: Callable[..., Any]) -> None:
    """By one operand of two, or of a primitive in the derivative."""
    src = untrace.source(function)(X)
    assert "are not kept in recovered code" in str(src)
    space: dict[str, Any] = {}
    exec(str(src), space)
    recovered = space[src.module.name]
    assert np.allclose(recovered(X), function(X))
    with pytest.raises(NotImplementedError, match="are not kept"):
        jax.grad(lambda x: recovered(x).sum())(X)


@pytest.mark.parametrize("function", [product, squared])
def test_loaded_functions_have_the_derivatives_of_the_library(
    function: Callable[..., Any],
) -> None:
    loaded = untrace.source(function)(X).load()

    def first(f: Callable[..., Any]) -> Callable[..., Any]:
        return jax.grad(lambda x: f(x).sum())

    assert np.allclose(first(loaded)(X), first(function)(X))
    wanted = first(first(function))(X)
    assert np.allclose(first(first(loaded))(X), wanted)
