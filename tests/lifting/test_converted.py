"""Functions that JAX made of the program's own are called by the names that they have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import untrace

X = np.ones(3, np.float32)


def recover(function: Callable[..., Any], *args: Any) -> str:
    src = untrace.source(function)(*args)
    assert src.report.is_verified, f"{src.report}\n{src}"
    assert "from its equations" not in str(src), str(src)
    return str(src)


def test_converted_function() -> None:
    def program(x: Any, y: Any) -> Any:
        function, consts = jax.closure_convert(lambda z: z * jnp.sin(y), x)
        return function(x, *consts) + jax.vmap(function, (0, None))(x[None], y)[0]

    text = recover(program, X, X)
    expected = "function, consts = jax.closure_convert(lambda z: z * jnp.sin(y), x)\n"
    assert expected in text
    assert "return function(x, y) + " in text


def minimize(objective: Any, x: Any) -> Any:
    """As the documentation of `jax.closure_convert` shows."""

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def solve(f: Any, x: Any, *args: Any) -> Any:
        return f(x, *args)

    def forward(f: Any, x: Any, *args: Any) -> Any:
        return solve(f, x, *args), args

    def backward(f: Any, args: Any, g: Any) -> Any:
        return g, *[a * g for a in args]

    solve.defvjp(forward, backward)
    function, consts = jax.closure_convert(objective, x)
    return solve(function, x, *consts)


def test_converted_function_runs_untraced() -> None:
    def program(x: Any, y: Any) -> Any:
        return minimize(lambda z: z * jnp.sin(y), x)

    src = untrace.source(program)(X, X)
    assert "@jax.jit\ndef program(x, y):" in str(src)
    loaded = src.load()
    np.testing.assert_array_equal(loaded(X, X), jax.jit(program)(X, X))
    for position in (0, 1):
        slope = jax.grad(lambda *xs: loaded(*xs).sum(), position)(X, X)
        wanted = jax.grad(lambda *xs: jax.jit(program)(*xs).sum(), position)(X, X)
        np.testing.assert_array_equal(slope, wanted)


def test_converted_function_in_a_loop_is_traced_already() -> None:
    def program(x: Any, y: Any) -> Any:
        def turn(carry: Any, _: Any) -> Any:
            function, consts = jax.closure_convert(lambda z: z * jnp.sin(y), carry)
            return function(carry, *consts), None

        return lax.scan(turn, x, length=2)[0]

    assert "@jax.jit" not in recover(program, X, X)


def cube_root(a: Any) -> Any:
    def newton(f: Any, guess: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            return y - f(y) / jax.grad(f)(y)

        return lax.fori_loop(0, 10, step, guess)

    return lax.custom_root(lambda y: y**3 - a, 1.0, newton, lambda g, y: y / g(1.0))


def test_root_of_a_function_that_the_solver_calls() -> None:
    text = recover(jax.value_and_grad(cube_root), 8.0)
    assert "jax.grad(f)(y)" in text
    assert "jax.lax.custom_root(lambda y: y**3 - a, 1.0, newton," in text


def test_root_of_trees() -> None:
    def program(a: Any) -> Any:
        def function(tree: Any) -> Any:
            return {"y": tree["y"] ** 2 - a}

        def solve(f: Any, tree: Any) -> Any:
            return jax.tree.map(lambda y, e: y - e / (2 * y), tree, f(tree))

        def tangent(g: Any, b: Any) -> Any:
            return jax.tree.map(jnp.divide, b, g({"y": jnp.ones(3)}))

        return lax.custom_root(function, {"y": a}, solve, tangent)["y"]

    assert "jax.lax.custom_root(" in recover(program, X)


def test_lambda_does_not_hide_what_it_sees() -> None:
    def program(x: Any, xs: Any) -> Any:
        shifted = lambda y: y - x
        return jax.vmap(lambda x: shifted(x) * 2)(xs)

    assert "jax.vmap(lambda x_2: (x_2 - x) * 2)(xs)" in recover(program, 2.0, X)


def test_lambdas_in_each_other_may_share_names() -> None:
    def program(x: Any) -> Any:
        return jax.vmap(lambda x: jax.vmap(lambda x: x * 2)(x))(x[None])

    assert "lambda x: jax.vmap(lambda x: x * 2)(x)" in recover(program, X)


class Variable:
    """Says which array it is when JAX asks, and when it is asked for a product."""

    def __init__(self, name: str, scale: float | None = None) -> None:
        self.name, self.scale = name, scale

    def __jax_array__(self) -> Any:
        array = HELD[self.name]
        return array if self.scale is None else array * self.scale


HELD: dict[str, Any] = {}
W, B = Variable("w"), Variable("b")


def test_objects_are_the_arrays_that_they_say() -> None:
    def layer(params: Any, x: Any) -> Any:
        HELD.update(params)
        return jnp.stack([jnp.tanh(x @ W + B), jnp.asarray(B) - x])

    params = {"w": np.ones((3, 3), np.float32), "b": X}
    text = recover(layer, params, X)
    assert 'jnp.tanh(x @ params["w"] + params["b"])' in text
    assert 'params["b"] - x' in text
    text = recover(jax.grad(lambda params, x: layer(params, x).sum()), params, X)
    assert 'jnp.tanh(x @ params["w"] + params["b"])' in text


def test_what_objects_compute_when_they_are_asked_is_not_what_they_hold() -> None:
    def program(params: Any, x: Any) -> Any:
        HELD.update(params)
        return jnp.sin(x) - Variable("b", 2.0)

    src = untrace.source(program)({"b": X}, X)
    assert src.report.is_verified
    assert "jnp.sin(x)" in str(src)


class Refusing:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_attributes_of_static_arguments_are_not_asked_for() -> None:
    held = Refusing()
    layer = jax.jit(lambda held, x: jnp.tanh(x) * x, static_argnums=0)
    assert "jnp.tanh(x) * x" in recover(
        lambda x: layer(held, x) + layer(held, x * 2), X
    )
