"""Loops run backwards, or forwards where they are autoregressive; branches; devices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.interpreters.inverting import check_log_det, check_round_trip, vector

X = vector(scale=0.5)


def autoregressive(x: Any) -> Any:
    def turn(carry: Any, row: Any) -> Any:
        y = row * jnp.exp(jnp.sin(carry)) + carry
        return y, y

    return jax.lax.scan(turn, 0.1, x)[1]


def counted(x: Any) -> Any:
    return jax.lax.fori_loop(0, 4, lambda i, c: jnp.sinh(c) + i, x)


def with_rows(x: Any) -> Any:
    def turn(carry: Any, row: Any) -> Any:
        return jnp.arcsinh(carry) * row + 1, None

    return jax.lax.scan(turn, x, jnp.arange(1.0, 5.0))[0]


def reversed_rows(x: Any) -> Any:
    def turn(carry: Any, row: Any) -> Any:
        return carry + row, jnp.exp(row) + carry

    return jax.lax.scan(turn, 0.0, x, reverse=True)[1]


def masks_inside(x: Any) -> Any:
    """The mask is not known to be one outside of the loop."""
    mask = jnp.arange(6) % 2

    def turn(i: Any, carry: Any) -> Any:
        kept = carry * mask
        return kept + (1 - mask) * (carry * jnp.exp(jnp.cos(kept).sum()) + i)

    return jax.lax.fori_loop(0, 3, turn, x)


@pytest.mark.parametrize(
    "f", [autoregressive, counted, with_rows, reversed_rows, masks_inside]
)
def test_scans_are_inverted_with_their_log_det(f: Any) -> None:
    check_log_det(f, X * 0.3)
    found = jax.jit(untrace.inverse(f))(f(X * 0.3))
    np.testing.assert_allclose(found, X * 0.3, rtol=1e-4, atol=1e-4)


def test_scans_with_carries_and_rows_that_are_not_known() -> None:
    def f(x: Any, rows: Any) -> Any:
        def turn(carry: Any, row: Any) -> Any:
            return carry * 2 + row, carry + jnp.exp(row)

        return jax.lax.scan(turn, x, rows)

    # The rows show in what is stacked once what is carried is known, and it is not.
    with pytest.raises(untrace.InverseError, match="turn of the loop"):
        untrace.inverse(f, X[0], X)(*f(X[0], X))

    def g(x: Any, rows: Any) -> Any:
        def turn(carry: Any, row: Any) -> Any:
            made = jnp.arcsinh(carry) + row
            return made, jnp.exp(row)

        return jax.lax.scan(turn, x, rows)

    found = untrace.inverse(g, X[0], X)(*g(X[0], X))
    np.testing.assert_allclose(found[0], X[0], rtol=1e-3)
    np.testing.assert_allclose(found[1], X, rtol=1e-4)


def test_while_loops_with_a_counter_run_backwards() -> None:
    def f(x: Any, n: Any) -> Any:
        def turn(state: Any) -> Any:
            i, value = state
            return i + 1, jnp.sinh(value) + i

        return jax.lax.while_loop(lambda state: state[0] < n, turn, (0, x))[1]

    x = X * 0.3
    for n in (0, 1, 4):
        inverted = untrace.inverse_and_log_det(f, argnums=0)
        for wrap in (lambda g: g, jax.jit):
            found, log_det = wrap(inverted)(f(x, n), n)
            np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)
            _, wanted = jnp.linalg.slogdet(jax.jacfwd(f)(x, n))
            np.testing.assert_allclose(log_det, -wanted, rtol=1e-4, atol=1e-4)

    def until_large(x: Any) -> Any:
        return jax.lax.while_loop(lambda c: c.sum() < 99, lambda c: c * 2, x)

    with pytest.raises(untrace.InverseError, match="number of turns is not known"):
        untrace.inverse(until_large)(X + 50)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_branches_are_inverted_where_the_choice_is_known(index: int) -> None:
    def f(x: Any, index: Any) -> Any:
        branches = [jnp.exp, lambda a: jnp.tanh(a) * 2, lambda a: a + 1]
        return jax.lax.switch(index, branches, x)

    inverted = untrace.inverse_and_log_det(f, argnums=0)
    for wrap in (lambda g: g, jax.jit):
        found, log_det = wrap(inverted)(f(X, index), index)
        np.testing.assert_allclose(found, X, atol=1e-5)
        _, wanted = jnp.linalg.slogdet(jax.jacfwd(f)(X, index))
        np.testing.assert_allclose(log_det, -wanted, rtol=1e-4, atol=1e-4)


def test_choice_that_can_be_recovered_is() -> None:
    def f(x: Any) -> Any:
        kept = x[:1]
        rest = jax.lax.cond(kept[0] > 0, jnp.exp, jnp.sinh, x[1:])
        return jnp.concatenate([kept * 2, rest])

    check_log_det(f, X)
    check_log_det(f, -X)


def with_rule(kind: Any) -> Any:
    @kind
    def f(x: Any) -> Any:
        return jnp.sinh(x) * 2

    if kind is jax.custom_jvp:
        f.defjvp(lambda p, t: (f(*p), t[0] * 2 * jnp.cosh(p[0])))
    else:
        f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 2 * jnp.cosh(x),))
    return f


@pytest.mark.parametrize("kind", [jax.custom_jvp, jax.custom_vjp])
def test_functions_with_derivative_rules_are_entered(kind: Any) -> None:
    f = with_rule(kind)
    check_round_trip(lambda x: f(x) + 1, X)
    check_round_trip(jax.checkpoint(lambda x: f(f(x))), X)
    check_round_trip(jax.jit(jax.vmap(f)), X)
    made = jax.vmap(jax.grad(untrace.inverse(f)))(f(X))
    np.testing.assert_allclose(made, 1 / (2 * jnp.cosh(X)), rtol=1e-4)


def test_mapped_bodies_are_inverted_on_their_devices() -> None:
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.P("i")
    kept = dict(mesh=mesh, in_specs=(spec, jax.P()), out_specs=spec)

    def body(x: Any, shift: Any) -> Any:
        return jax.lax.ppermute(jnp.exp(x) + shift, "i", [(0, 0)])

    f = jax.shard_map(body, **kept)
    found = untrace.inverse(f, argnums=0)(f(X, 1.0), 1.0)
    np.testing.assert_allclose(found, X, atol=1e-5)
    total = jax.shard_map(
        lambda x: jax.lax.psum(x, "i"), mesh=mesh, in_specs=spec, out_specs=jax.P()
    )
    with pytest.raises(untrace.InverseError, match="shard_map"):
        untrace.inverse(total)(X)


def test_log_dets_of_all_devices_add_up() -> None:
    n = min(4, jax.device_count())
    mesh = jax.make_mesh((n,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec, rows = jax.P("i"), jnp.stack([X * (i + 1) for i in range(n)])
    ring = [(i, (i + 1) % n) for i in range(n)]

    def body(x: Any) -> Any:
        return jax.lax.ppermute(jnp.exp(x) * (1 + jax.lax.axis_index("i")), "i", ring)

    f = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)
    wanted = -(rows.sum() + 6 * jnp.log(jnp.arange(1.0, n + 1)).sum())
    for wrap in (lambda g: g, jax.jit):
        found, log_det = wrap(untrace.inverse_and_log_det(f))(f(rows))
        np.testing.assert_allclose(found, rows, atol=1e-5)
        np.testing.assert_allclose(log_det, wanted, rtol=1e-4)
    mapped = jax.pmap(lambda x: jnp.sinh(x) * 2, devices=jax.devices()[:n])
    found, log_det = untrace.inverse_and_log_det(mapped)(mapped(rows))
    np.testing.assert_allclose(found, rows, atol=1e-5)
    wanted = -jnp.log(2 * jnp.cosh(rows)).sum()
    np.testing.assert_allclose(log_det, wanted, rtol=1e-4)
    kept = jax.shard_map(jnp.exp, mesh=mesh, in_specs=jax.P(), out_specs=jax.P())
    np.testing.assert_allclose(untrace.inverse(kept)(kept(X)), X, atol=1e-5)
    with pytest.raises(untrace.InverseError, match="no cheap formula"):
        untrace.inverse_and_log_det(kept)(kept(X))


def test_vmapped_loops_are_inverted() -> None:
    rows = jnp.stack([X, X * 2]) * 0.3
    for f in (autoregressive, counted, with_rows):
        check_log_det(jax.vmap(f), rows)
        made = jax.vmap(untrace.inverse(f))(jax.vmap(f)(rows))
        np.testing.assert_allclose(made, rows, rtol=1e-4, atol=1e-4)
