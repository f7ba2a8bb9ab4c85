"""Calls of computations that `jax.export` has lowered."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import untrace
from untrace.verification.compare import compare

X = jnp.arange(3.0)


def recovered(function: Any, *args: Any) -> Any:
    """Recover a program and check it; return the source."""
    src = untrace.source(function, level="lax")(*args)
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    return src


def exported(function: Any, *args: Any) -> Any:
    """Export a function at the types of its arguments."""
    return export.export(jax.jit(function))(*args)


def waves(x: Any, y: Any) -> Any:
    """Return two results, one of them an argument."""
    return jnp.sin(x) * 2.0 + y, x


def test_an_exported_function_is_called() -> None:
    lowered = exported(waves, X, X)
    src = recovered(lambda x: lowered.call(x, 2.0 * x)[0], X)
    assert ".call(x, product)" in str(src)
    np.testing.assert_array_equal(src.load()(X), waves(X, 2.0 * X)[0])


def test_an_exported_function_has_its_derivative() -> None:
    lowered = exported(waves, X, X)
    loss = lambda x: lowered.call(x, x)[0].sum()
    step = recovered(loss, X).load()
    np.testing.assert_array_equal(jax.grad(step)(X), jax.grad(loss)(X))
    recovered(jax.grad(loss), X)
    recovered(jax.jit(jax.grad(loss)), X)


def test_a_tree_of_results_comes_back() -> None:
    lowered = exported(lambda x: {"a": x, "b": [x + 1.0]}, X)
    recovered(lowered.call, X)
    recovered(lambda x: lowered.call(x)["b"][0], X)


def test_a_tree_of_arguments_comes_back() -> None:
    lowered = exported(lambda p: p["a"] + p["b"], {"a": X, "b": X})
    recovered(lambda x: lowered.call({"a": x, "b": x}), X)


def test_symbolic_shapes_come_back() -> None:
    shape = export.symbolic_shape("b, 3")
    lowered = exported(jnp.sin, jax.ShapeDtypeStruct(shape, jnp.float32))
    recovered(lowered.call, jnp.ones((2, 3)))


@pytest.mark.parametrize("other", [jnp.cos, lambda x: jnp.sin(x) + 1.0])
def test_exported_functions_are_told_apart(other: Any) -> None:
    first, second, third = (exported(f, X) for f in (jnp.sin, other, jnp.sin))
    trace = lambda lowered: jax.make_jaxpr(lowered.call)(X)
    assert compare(trace(first), trace(second)) is not None
    assert compare(trace(first), trace(third)) is None
