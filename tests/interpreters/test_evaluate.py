"""Evaluation equation by equation gives what JAX gives, and composes with it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untrace.interpreters.evaluate import Step, evaluate

X = np.arange(3, dtype=np.float32) + 1


def program(x: Any) -> Any:
    doubled = jax.lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x)
    counted = jax.lax.while_loop(lambda c: c.sum() < 99, lambda c: c * 2, doubled)

    def turn(carry: Any, row: Any) -> Any:
        return carry + row, jax.nn.relu(carry) * row

    _, stacked = jax.lax.scan(turn, counted.sum(), x, reverse=True)
    chosen = jax.lax.cond(x.sum() > 0, jnp.sin, lambda a: a, stacked)
    kept = jax.checkpoint(lambda a: jnp.tanh(a) * a)(chosen)
    return kept, jax.nn.softmax(x), jnp.linalg.solve(jnp.eye(3) * 2, x)


def run(handler: Any) -> Any:
    traced = jax.make_jaxpr(program)(X)
    return lambda x: tuple(evaluate(traced, [x], handler))


def test_values_are_those_of_jax() -> None:
    with jax.disable_jit():
        wanted = program(X)
    for one, other in zip(wanted, run(None)(X), strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_equation_is_seen_in_its_place() -> None:
    seen: list[str] = []

    def handler(step: Step, *operands: Any) -> Any:
        seen.append("/".join([*map(str, step.path), step.name]))
        return step(*operands)

    run(handler)(X)
    assert "cond[1]/sin" in seen and "scan[2]/add" in seen
    assert any(each.endswith("/tanh") for each in seen)
    assert seen.index("scan[2]/add") < len(seen) - seen[::-1].index("scan[0]/add")


def doubling(step: Step, *operands: Any) -> Any:
    made = step(*operands)
    return made * 2 if step.name == "tanh" else made


@pytest.mark.parametrize("transform", [jax.jit, jax.jacobian, jax.vmap, jax.jacfwd])
def test_it_is_transformed_as_other_functions_are(transform: Any) -> None:
    x = np.stack([X, X * 2]) if transform is jax.vmap else X
    if transform is jax.jacobian:  # a while loop has no backward pass
        wanted = jax.jacfwd(program)(x)
        made = jax.jacfwd(jax.jit(run(None)))(x)
    else:
        wanted, made = transform(program)(x), transform(run(None))(x)
    jax.tree.map(np.testing.assert_allclose, wanted, made)
    first = jax.jit(run(None))(X)[0]
    np.testing.assert_allclose(jax.jit(run(doubling))(X)[0], first * 2, rtol=1e-6)


@pytest.mark.parametrize("kind", [jax.custom_jvp, jax.custom_vjp])
def test_derivative_rules_are_kept(kind: Any) -> None:
    @kind
    def f(x: Any) -> Any:
        return jnp.sin(x)

    if kind is jax.custom_jvp:
        f.defjvp(lambda p, t: (f(*p), t[0] * 5))
    else:
        f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * 5,))
    traced = jax.make_jaxpr(f)(1.0)
    loss = lambda x: evaluate(traced, [x])[0]
    assert jax.grad(loss)(1.0) == jax.jit(jax.grad(loss))(1.0) == 5.0


def test_composites_are_entered() -> None:
    def f(x: Any) -> Any:
        return jax.lax.composite(lambda y: jnp.sin(y) * 2, name="my.wave")(x)

    traced, seen = jax.make_jaxpr(f)(1.0), []

    def handler(step: Step, *operands: Any) -> Any:
        seen.append(step.name)
        return step(*operands)

    np.testing.assert_array_equal(evaluate(traced, [1.0], handler)[0], f(1.0))
    again = jax.make_jaxpr(lambda x: evaluate(traced, [x], handler))(1.0)
    assert seen == ["composite", "sin", "mul"] * 2
    assert "my.wave" in str(again)


def test_handlers_compute_from_operands() -> None:
    traced = jax.make_jaxpr(jax.checkpoint(jnp.sin))(1.0)

    def handler(step: Step, *operands: Any) -> Any:
        made = step(*operands)
        return made * shift if step.name == "sin" else made

    def f(x: Any) -> Any:
        return evaluate(traced, [x], handler)[0]

    shift: Any = 2.0
    assert jax.jit(f)(1.0) > 0

    def shifted(y: Any) -> Any:
        nonlocal shift
        shift = y
        return f(y)

    with pytest.raises(ValueError, match="compute them from the operands"):
        jax.jit(shifted)(1.0)


def test_mapped_bodies_are_seen() -> None:
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.P("i")
    f: Any = jax.shard_map(jnp.tanh, mesh=mesh, in_specs=spec, out_specs=spec)
    made = evaluate(jax.make_jaxpr(f)(X), [X], doubling)[0]
    np.testing.assert_allclose(made, 2 * jnp.tanh(X), rtol=1e-6)
