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


def sizes_of(x: Any) -> Any:
    """A program over all its sizes."""
    made = [jnp.arange(size) + x.sum() for size in x.shape]
    return made, x.reshape(-1)


@pytest.mark.parametrize(
    "spec",
    [
        "a, b",
        "a, a*b",
        "a*b, b",
        "a, b, a + b",
        "a + b, 3*b + 2",
        "a, 2*a*b + 3*a + 1",
        "a*b*c, b, 2*c",
        "a, b*a^2",
        "a*b, c",
        "a^2",
        "a + b",
        "a, floordiv(a, 2)",
    ],
)
@pytest.mark.parametrize("level", ["lax", "api"])
def test_dimensions_are_read_from_the_sizes_that_they_follow_from(spec, level) -> None:
    shape = export.symbolic_shape(spec)
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    made = untrace.source(sizes_of, level=level)(x)
    assert made.report.is_verified, str(made)


def test_dimensions_are_solved_for() -> None:
    shape = export.symbolic_shape("a, 2*a*b + 3*a + 1")
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    text = str(
        untrace.source(lambda x: jnp.ones((x.shape[1], 5)).sum() + x, level="lax")(x)
    )
    assert "b = (x.shape[1] - (3 * a + 1)) // (2 * a)" in text


def test_powers_of_dimensions() -> None:
    def f(x: Any) -> Any:
        a, b = x.shape
        return jnp.ones((a**2,)), jnp.ones((2 * a * b**3 - 1,)), x.sum() * (a**2 // b)

    x = jax.ShapeDtypeStruct(export.symbolic_shape("a, b"), jnp.float32)
    made = untrace.source(f, level="lax")(x)
    assert made.report.strength == "identical", str(made)
    lowered = export.export(jax.jit(f))(x)
    recovered(lowered.call, jnp.ones((3, 2)))
