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
def test_what_closes_over_equal_constants(function: Any, wrapped: Any) -> None:
    program = wrapped(function)
    src = untrace.source(lambda x: program(x), level="lax")(X)
    assert src.report.strength == "identical", str(src.report)
    loaded = src.load()
    np.testing.assert_array_equal(loaded(X), program(X))
    slopes = [jax.vjp(f, X)[1](X)[0] for f in (loaded, program)]
    np.testing.assert_array_equal(*slopes)


def ruled(function: Any, is_jvp: bool) -> Any:
    f: Any = jax.custom_jvp(function) if is_jvp else jax.custom_vjp(function)
    if is_jvp:
        f.defjvp(lambda p, t: (f(*p), t[0] * f(*p)))
    else:
        f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * f(x),))
    return f


def at_once(function: Any) -> Any:
    """Have JAX inline a function where it is traced."""
    early: Any = getattr(getattr(jax, "Inline", None), "JAX_EARLY", True)
    return jax.jit(function, inline=early)


@pytest.mark.parametrize("is_jvp", [True, False])
def test_values_closed_over_in_another_order_than_they_are_read(is_jvp: bool) -> None:
    def program(x: Any, a: Any, b: Any) -> Any:
        def function(z: Any) -> Any:
            second, first = at_once(lambda *values: values)(b, a)
            return jnp.sin(z * first) + second

        return ruled(function, is_jvp)(x)

    src = untrace.source(jax.jit(program), level="lax")(X, X + 1, X + 2)
    assert src.report.strength == "identical", str(src.report)
    assert "hoisted(" in str(src)
    np.testing.assert_array_equal(src.load()(X, X + 1, X + 2), program(X, X + 1, X + 2))


@pytest.mark.parametrize("is_jvp", [True, False])
def test_one_value_closed_over_as_two(is_jvp: bool) -> None:
    def program(x: Any, y: Any) -> Any:
        def closing(z: Any, a: Any, b: Any, c: Any) -> Any:
            return ruled(lambda z: jnp.sin(z * a) + b * c, is_jvp)(z)

        return at_once(closing)(x, y, x, y)

    src = untrace.source(lambda x, y: program(x, y), level="lax")(X, X + 1)
    assert src.report.is_verified, str(src.report)
    np.testing.assert_array_equal(src.load()(X, X + 1), program(X, X + 1))


def test_what_a_differentiated_loop_computes_anew_every_time() -> None:
    """Newer releases of JAX move it out of the loop, and sort what they take along."""

    @jax.custom_jvp
    def f(x: Any) -> Any:
        a = jnp.cos(jnp.arange(3) * 1.0)
        b = jnp.exp(jnp.arange(3) * 1.0)
        return a + x * b

    f.defjvp(lambda p, t: (f(*p), t[0] * (f(*p) > 0)))

    def solve(x: Any) -> Any:
        return looped(lambda carry: f(carry * x))(jnp.full(3, 0.2))

    src = untrace.source(jax.jacobian(solve), level="lax")(X)
    assert src.report.strength == "identical", str(src.report)


def test_residuals_that_jax_takes_from_the_wrong_place_are_refused() -> None:
    """It moves values out of a loop and names residuals by the old positions."""

    @jax.custom_vjp
    def inner(x: Any) -> Any:
        return jnp.sin(x * jnp.exp(jnp.arange(3) * 1.0))

    inner.defvjp(lambda x: (inner(x), x), lambda x, ct: (ct * jnp.cos(x),))

    @jax.custom_jvp
    def outer(x: Any) -> Any:
        return inner(x)

    outer.defjvp(lambda p, t: (outer(*p), t[0] * inner(*p)))
    solve = looped(outer)
    with pytest.raises(untrace.UntraceError, match="takes a value that it closes over"):
        untrace.source(jax.grad(lambda x: solve(x).sum()), level="lax")(X)


def scaled(x, scale, forward=True, backward=True):
    """A function that is made anew, and differs in what its rules do."""

    @jax.custom_vjp
    def _scaled(inner):
        return inner * scale if forward else inner

    def _fwd(inner):
        return (inner * scale if forward else inner), None

    def _bwd(_, g):
        return (g * scale if backward else g,)

    _scaled.defvjp(_fwd, _bwd)
    return _scaled(x)


def test_each_function_has_the_rules_that_were_made_for_it():
    def layer(w, x):
        x = jnp.tanh(scaled(x, 0.5, forward=False))
        return scaled(jnp.einsum("bi,ij->bj", x, w), 0.5, backward=False)

    def model(ws, x):
        for w in ws:
            x = x + layer(w, x)
        return jnp.sum(x)

    def loss(ws, x):
        return jax.value_and_grad(model)(ws, x)

    x = np.linspace(0.1, 1.0, 6, dtype=np.float32).reshape(2, 3)
    src = untrace.source(loss)([np.eye(3, dtype=np.float32) * i for i in (1, 2, 3)], x)
    text = str(src)
    assert src.report.strength == "identical", str(src.report)
    assert "from its equations" not in text, text
    assert "    for w in ws:\n        x = x + layer(w, x)\n" in text, text
    # A rule that sees the number is beside its function, inside of the same one.
    own = text.partition("def scaled_backward(x, scale):")[2].partition("\n\n\n")[0]
    assert "    @jax.custom_vjp\n    def _scaled(inner):" in own, text
    assert "(g * scale,)" in own and "_scaled.defvjp(_fwd, _bwd)" in own, text
