"""Functions with batching rules come back with them, and the rules are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap, sequential_vmap

import untrace
from untrace.verification.compare import compare

X = np.ones((3, 2), np.float32)


def recover(function: Callable[..., Any]) -> str:
    src = untrace.source(function)(X)
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    assert "from its equations" not in str(src), str(src)
    return str(src)


def scaled(factor: float) -> Any:
    @custom_vmap
    def sine(x: Any) -> Any:
        return jnp.sin(x)

    @sine.def_vmap
    def rule(axis_size: int, in_batched: Any, x: Any) -> Any:
        return jnp.sin(x) * factor, True

    return sine


def test_rule_that_was_run() -> None:
    text = recover(jax.vmap(scaled(2.0)))
    assert "@jax.custom_batching.custom_vmap\ndef sine(x):" in text
    assert "    return jnp.sin(x) * 2.0, True\n" in text
    assert "\nsine.def_vmap(rule)\n" in text


def test_rule_that_was_not_run() -> None:
    text = recover(lambda x: scaled(2.0)(x))
    assert "    return jnp.sin(x) * 2.0, True\n" in text
    assert "a batching rule (compared with all or one batched)" in text


def test_other_rule_is_another_program() -> None:
    first, same, other = (jax.make_jaxpr(scaled(f))(X) for f in (2.0, 2.0, 3.0))
    assert compare(first, same) is None
    assert "3.0" in str(compare(first, other))


def test_sequential_function() -> None:
    def program(x: Any) -> Any:
        function = sequential_vmap(lambda row: jnp.sin(row) * 2)
        return jax.vmap(function)(x) + function(x)

    text = recover(program)
    assert "@jax.custom_batching.sequential_vmap\n" in text
    assert "def_vmap" not in text


def test_rule_that_asks_what_is_batched() -> None:
    @custom_vmap
    def product(x: Any, y: Any) -> Any:
        return x * y

    @product.def_vmap
    def rule(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
        return x * y + (0.0 if all(in_batched) else 1.0), True

    src = untrace.source(lambda x, y: product(x, y))(X, X)
    assert "return x * y + 0.0, True" not in str(src)
    assert "stand" in str(src) or not src.report.is_verified, str(src)


def test_defaults_and_several_shapes() -> None:
    @custom_vmap
    def powered(x: Any, power: float = 2.0) -> Any:
        return x**power

    @powered.def_vmap
    def rule(axis_size: int, in_batched: Any, x: Any, power: Any) -> Any:
        return jnp.sin(x) * 2.0, True

    recover(lambda x: powered(x) + powered(x[0]) + powered(x, 3.0))


def counted(function: Any, n_mapped: int = 0) -> Any:
    """Make a function whose batching rule makes it anew, for one batch more."""

    def call(x: Any) -> Any:
        made = jax.custom_batching.custom_vmap(lambda y: function(y) * (n_mapped + 1))

        @made.def_vmap
        def rule(size: int, batched: Any, y: Any) -> Any:
            return counted(jax.vmap(function), n_mapped + 1)(y), batched[0]

        return made(x)

    return call


def test_rule_that_makes_its_function_anew_has_an_end() -> None:
    src = untrace.source(lambda x: jax.vmap(counted(jnp.sin))(x))(X[0])
    assert src.report.strength == "identical"
    text = str(src)
    assert "jax.vmap(jax.vmap(jnp.sin))(y) * 3" in text
    assert "the rules of `<lambda>` make it anew" in " ".join(text.split())
    wanted = jax.vmap(jax.vmap(jax.vmap(counted(jnp.sin))))(X[None])
    np.testing.assert_array_equal(jax.vmap(jax.vmap(src.load()))(X[None]), wanted)
