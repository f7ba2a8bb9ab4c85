"""Host functions that take trees of classes, and checks at run time that call them."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.saved import verify_file
from untrace.verification.equivalence import equivalent
from untrace.verification.retrace import execute

X = np.arange(1, 4, dtype=np.float32)


@jax.tree_util.register_pytree_node_class
class Pair:
    """A node that a file without this module does not have."""

    def __init__(self, one: Any, two: Any) -> None:
        self.one, self.two = one, two

    def tree_flatten(self) -> tuple[Any, None]:
        return (self.one, self.two), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: Any) -> Pair:
        return cls(*children)


def _told(x: Any) -> Any:
    def on_host(pair: Pair) -> Any:
        return np.asarray(pair.one)

    return jax.pure_callback(
        on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), Pair(x, jnp.sin(x))
    )


@pytest.mark.parametrize("level", ["api", "lax"])
def test_host_function_of_a_tree_takes_its_leaves(level: Any) -> None:
    src = untrace.source(_told, level=level)(X)
    assert src.report.is_verified, str(src.report)
    assert "stands in for a function that cannot be imported" in str(src)
    assert src.load()(X).shape == X.shape


@pytest.mark.parametrize("level", ["api", "lax"])
def test_a_file_with_stand_ins_verifies_by_its_fingerprint(
    level: Any, tmp_path: Any
) -> None:
    path = untrace.source(_told, level=level)(X).save(tmp_path / "told.py")
    assert verify_file(path).is_verified


def test_other_arguments_of_a_host_function_are_a_difference() -> None:
    src = untrace.source(_told, level="lax")(X)
    written = jax.make_jaxpr(getattr(execute(str(src)), src.name))(X)
    assert equivalent(jax.make_jaxpr(_told)(X), written) is None
    assert equivalent(jax.make_jaxpr(lambda x: _told(x + 1.0))(X), written) is not None
    assert equivalent(jax.make_jaxpr(_told)(X[:2]), written) is not None


def test_a_stand_in_is_known_behind_dead_code() -> None:
    def f(x: Any) -> Any:
        jnp.cos(x)
        return jax.jit(_told)(x) * 2.0

    src = untrace.source(f)(X)
    assert src.report.is_verified, str(src.report)
    assert "Written from its equations" not in str(src)


def test_equinox_checks_are_verified() -> None:
    eqx = pytest.importorskip("equinox")

    def f(x: Any) -> Any:
        return jnp.sqrt(eqx.error_if(x, x < 0, "must be positive"))

    src = untrace.source(f)(X)
    assert src.report.strength == "equivalent", str(src.report)
    assert "Written from its equations" not in str(src)
    assert "import equinox" not in str(src) and "from equinox" not in str(src)
    np.testing.assert_array_equal(src.load()(X), f(X))


def test_a_diffrax_solve_that_may_fail_is_written() -> None:
    diffrax = pytest.importorskip("diffrax")

    def f(ts: Any, y0: Any) -> Any:
        term = diffrax.ODETerm(lambda t, y, args: -jnp.tanh(y))
        return diffrax.diffeqsolve(
            term, diffrax.Euler(), ts[0], ts[-1], 0.5, y0, max_steps=4
        ).ys

    src = untrace.source(f, level="lax")(np.linspace(0, 1, 3, dtype=np.float32), X)
    assert src.report.is_verified, str(src.report)


def test_equinox_checks_are_one_helper() -> None:
    eqx = pytest.importorskip("equinox")
    internal = pytest.importorskip("equinox.internal")

    def f(x: Any) -> Any:
        x = eqx.error_if(x, x < 0, "must be positive")
        pair = internal.branched_error_if(
            {"a": x, "n": jnp.array(3)},
            jnp.any(x > 9),
            jnp.argmax(x),
            ["one", "two", "three"],
        )
        return pair["a"] * pair["n"]

    src = untrace.source(f)(X)
    assert src.report.strength == "equivalent", str(src.report)
    assert str(src).count("def error_if(") == 1
    assert '"must be positive"' in str(src)
    assert len(src.module.body.splitlines()) < 85
    load = src.load()
    np.testing.assert_array_equal(load(X), f(X))
    with pytest.raises(Exception, match="must be positive"):
        jax.block_until_ready(load(-X))
    np.testing.assert_allclose(jax.jacobian(load)(X), jax.jacobian(f)(X), rtol=1e-6)


def test_a_rule_that_builds_its_static_tree_anew_recurs() -> None:
    @functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
    def scaled(settings: Pair, x: Any) -> Any:
        return x * settings.one

    @scaled.defjvp
    def _(settings: Pair, primals: Any, tangents: Any) -> Any:
        again = Pair(settings.one, settings.two)
        return scaled(again, *primals), scaled(again, *tangents)

    def f(x: Any) -> Any:
        return scaled(Pair(2.0, 3.0), x)

    src = untrace.source(f)(X)
    assert src.report.strength in ("identical", "equivalent"), str(src.report)
    assert str(src).count("@jax.custom_jvp") == 1, str(src)
    assert not any("rules of rules" in note for note in src.report.unproved)
    loose = jax.make_jaxpr(lambda x: scaled(Pair(2.5, 3.0), x))(X)
    assert equivalent(jax.make_jaxpr(f)(X), loose) is not None


def test_a_constant_of_a_converted_function_is_what_it_is_given() -> None:
    eqx = pytest.importorskip("equinox")
    table = np.array([0.125, 7.75, 3.5])

    def f(x: Any) -> Any:
        converted = eqx.filter_closure_convert(
            lambda y: y * jnp.asarray(table, dtype=jnp.float32), x
        )
        (const,) = jax.tree.leaves(eqx.filter(converted, eqx.is_array_like))
        return converted(x) + jnp.sum(const)

    src = untrace.source(f)(X)
    assert src.report.strength in ("identical", "equivalent"), str(src.report)
    assert "jnp.asarray" not in str(src), str(src)
