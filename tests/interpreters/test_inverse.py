"""What `untrace.inverse` takes and returns, how it composes, what it refuses."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.interpreters.inverting import check_round_trip, vector

X = vector()


def notebook(x: Any) -> Any:
    return jnp.exp(jnp.tanh(x))


# ---- the notebook "Writing custom interpreters", and its exercises -----------------


def test_notebook_is_inverted_and_transformed() -> None:
    inverted = untrace.inverse(notebook)
    np.testing.assert_allclose(inverted(notebook(1.0)), 1.0, rtol=1e-5)
    rows = (jnp.arange(5) + 1.0) / 5.0
    made = jax.jit(jax.vmap(jax.grad(inverted)))(rows)
    by_hand = jax.vmap(jax.grad(lambda y: jnp.arctanh(jnp.log(y))))(rows)
    np.testing.assert_allclose(made, by_hand, rtol=1e-6)


def test_several_arguments_are_solved_together() -> None:
    def f(a: Any, b: Any) -> Any:
        return a + jnp.exp(b), jnp.tanh(b)

    a, b = jnp.float32(0.3), jnp.float32(-0.2)
    found = untrace.inverse(f)(*f(a, b))
    np.testing.assert_allclose(found, (a, b), rtol=1e-5)


@pytest.mark.parametrize("wrap", [jax.jit, jax.vmap, jax.checkpoint, lambda f: f])
def test_wrapped_functions_are_inverted(wrap: Any) -> None:
    check_round_trip(wrap(notebook), X)
    check_round_trip(lambda x: 2 * wrap(notebook)(x) + 1, X)


def test_inverse_of_an_inverse_is_the_function() -> None:
    assert untrace.inverse(untrace.inverse(notebook)) is notebook
    traced_again = untrace.inverse(lambda y: untrace.inverse(notebook)(y))
    np.testing.assert_allclose(traced_again(X), notebook(X), rtol=1e-5)


# ---- what is given -----------------------------------------------------------------


def test_other_arguments_are_given_after_the_results() -> None:
    def affine(params: Any, x: Any, *, power: Any = 1.0) -> Any:
        return params["w"] * x * power + params["b"]

    params = {"w": jnp.float32(3.0), "b": X}
    y = affine(params, X, power=2.0)
    inverted = untrace.inverse(affine, argnums=1)
    np.testing.assert_allclose(inverted(y, params, power=2.0), X, rtol=1e-4, atol=1e-6)
    found = untrace.inverse(lambda w, x: w * x, argnums=0)(X * 3, X)
    np.testing.assert_allclose(found, jnp.full(6, 3.0), rtol=1e-5)


def test_examples_say_at_which_types() -> None:
    def f(x: Any) -> Any:
        return x.reshape(6), jnp.zeros(2)

    x = X.reshape(2, 3)
    example = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    np.testing.assert_array_equal(untrace.inverse(f, example)(*f(x)), x)
    with pytest.raises(untrace.InverseError, match=r"ShapeDtypeStruct"):
        untrace.inverse(f)(*f(x))
    with pytest.raises(untrace.InverseError, match=r"f32\[2,3\].*given.*f32\[2\]"):
        untrace.inverse(lambda x: x, example)(jnp.zeros(2))


def test_pytrees_are_taken_and_returned() -> None:
    def f(tree: Any) -> Any:
        return {"sum": tree["a"] + tree["b"], "b": [jnp.exp(tree["b"])]}

    tree = {"a": X, "b": X * 2}
    found = untrace.inverse(f, tree)(f(tree))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found, tree)


def test_python_numbers_and_whole_numbers_are_taken() -> None:
    np.testing.assert_allclose(untrace.inverse(jnp.exp)(2.0), np.log(2.0), rtol=1e-6)
    np.testing.assert_allclose(untrace.inverse(jnp.exp)(2), np.log(2.0), rtol=1e-6)
    numbers = jnp.arange(4)
    np.testing.assert_array_equal(
        untrace.inverse(lambda x: 3 - x * 2)(3 - numbers * 2), numbers
    )


def test_values_of_an_outer_trace_are_used() -> None:
    def loss(scale: Any) -> Any:
        return untrace.inverse(lambda x: x * scale)(X).sum()

    np.testing.assert_allclose(jax.jit(jax.grad(loss))(2.0), -X.sum() / 4, rtol=1e-5)


def test_deep_programs_do_not_overflow_the_stack() -> None:
    def f(x: Any) -> Any:
        for _ in range(3000):
            x = x + 1
        return x

    assert untrace.inverse(f)(3000.0) == 0


# ---- principal branches and checks -------------------------------------------------


@pytest.mark.parametrize(
    "f", [jnp.sin, jnp.cosh, jnp.square, jnp.abs, jnp.cos, lambda x: x**4, jnp.tan]
)
def test_principal_branch_has_to_be_asked_for(f: Any) -> None:
    x = jnp.array([0.1, 0.5, 1.2])
    with pytest.raises(untrace.InverseError, match="not injective.*principal=True"):
        untrace.inverse(f)(f(x))
    np.testing.assert_allclose(untrace.inverse(f, principal=True)(f(x)), x, rtol=1e-4)


def test_check_finds_values_outside_of_the_domain() -> None:
    square = untrace.inverse(jnp.sqrt, check=True)
    np.testing.assert_allclose(square(X**2), X**4, rtol=1e-5)
    with pytest.raises(untrace.InverseError, match="is not what it was given"):
        square(jnp.array([1.0, -2.0]))
    broadcast = untrace.inverse(lambda x: jnp.stack([x, x]), 1.0, check=True)
    assert broadcast(jnp.ones(2)) == 1
    with pytest.raises(untrace.InverseError, match="instead of"):
        broadcast(jnp.arange(2.0))
    np.testing.assert_allclose(jax.jit(square)(X**2), X**4, rtol=1e-5)


# ---- what is not invertible --------------------------------------------------------

REFUSED = [
    (jnp.abs, "`abs`.*not injective"),
    (lambda x: x + jnp.sin(x), r"`add`.*\(test_inverse.py:\d+\).*two unknowns"),
    (lambda x: x[:2], "`slice`.*4 of 6 elements.*reach no result"),
    (jnp.round, "`round`.*information lost"),
    (jnp.sum, "`reduce_sum`.*6 elements become one"),
    (lambda x: x * jnp.array([1.0, 0, 1, 1, 0, 1]), "`mul`.*2 of 6 factors are zero"),
    (lambda x: x - x.mean(), "rank 5, for 6 unknown"),
    (lambda x: jnp.zeros(6), "input `x` reaches no result"),
    (lambda x: jnp.ones((5, 6)) @ x, "`dot_general`.*6 numbers become 5"),
    (lambda x: x.astype(jnp.float16), "float16 does not hold every float32"),
    (
        lambda x: jnp.where(x[::-1] > 0, x, 2 * x),
        "`select_n`.*depends on what is not known",
    ),
    (jnp.sort, "`sort`.*the order of the elements"),
    (
        lambda x: jax.lax.cond(x.sum() > 0, jnp.exp, jnp.tanh, x),
        "which branch was taken",
    ),
    (lambda x: jax.lax.scan(lambda c, r: (c + r, c), 0.0, x)[0], "turn of the loop"),
    (lambda x: jax.nn.relu(x), "`max`.*principal branch where it is the greater one"),
    (lambda x: jnp.clip(x, -1, 1), "principal=True"),
    (jax.lax.lgamma, "not injective"),
    (lambda x: x.at[2].set(0.0), "`scatter`.*elements that were replaced"),
]


@pytest.mark.parametrize(("f", "why"), REFUSED)
def test_refusal_says_where_and_why(f: Any, why: str) -> None:
    with pytest.raises(untrace.InverseError, match=why) as caught:
        untrace.inverse(f, X)(f(X))
    assert isinstance(caught.value, untrace.UntraceError)


def test_refusal_names_the_argument_and_the_line() -> None:
    def f(params: Any, x: Any) -> Any:
        return params["w"] * jnp.abs(x)

    with pytest.raises(untrace.InverseError, match=r"abs` f32\[6\].*test_inverse.py"):
        untrace.inverse(f, argnums=1)(X, {"w": 2.0})
    g = lambda p: p["a"]
    with pytest.raises(untrace.InverseError, match=r"input `p\['b'\]` reaches"):
        untrace.inverse(g, {"a": X, "b": X})(X)


def test_unknown_primitives_are_named() -> None:
    from jax.extend.core import Primitive

    unknown_p = Primitive("unknown_to_inverse")
    unknown_p.def_impl(lambda x: x)
    unknown_p.def_abstract_eval(lambda x: x)
    with pytest.raises(
        untrace.InverseError, match="`unknown_to_inverse`.*register_inverse"
    ):
        untrace.inverse(lambda x: unknown_p.bind(x))(X)


# ---- rules of libraries ------------------------------------------------------------


def test_functions_are_registered_in_one_line() -> None:
    @jax.jit
    def shear(x: Any, y: Any) -> Any:
        return 2 * x - jnp.sqrt(x * x) + y

    with pytest.raises(untrace.InverseError):
        untrace.inverse(shear, argnums=0)(X, X)

    def unsheared(z: Any, y: Any) -> Any:
        return jnp.where(z - y > 0, z - y, (z - y) / 3)

    untrace.register_inverse(shear, unsheared, elementwise=True)
    inverted = untrace.inverse_and_log_det(shear, argnums=0)
    found, log_det = inverted(shear(X, 1.0 + X), 1.0 + X)
    np.testing.assert_allclose(found, X, atol=1e-6)
    np.testing.assert_allclose(log_det, -np.log(3) * (X < 0).sum(), rtol=1e-5)
    # An operand without an inverse of its own is solved for by the equations.
    found = untrace.inverse(shear, argnums=1)(shear(X, X), X)
    np.testing.assert_allclose(found, X, atol=1e-6)
    with pytest.raises(untrace.InverseError, match="jax.jit"):
        untrace.register_inverse(notebook, notebook)


def test_primitives_are_registered_in_one_line() -> None:
    from jax.extend.core import Primitive

    scale_p = Primitive("scale_for_inverse")
    scale_p.def_impl(lambda x, *, factor: x * factor)
    scale_p.def_abstract_eval(lambda x, *, factor: x)
    untrace.register_inverse(
        scale_p,
        lambda y, *, factor: y / factor,
        log_det=lambda x, y: -6 * jnp.log(2.0),
    )
    f = functools.partial(scale_p.bind, factor=2.0)
    found, log_det = untrace.inverse_and_log_det(f, X)(f(X))
    np.testing.assert_allclose(found, X)
    np.testing.assert_allclose(log_det, -6 * np.log(2), rtol=1e-6)


# ---- source ------------------------------------------------------------------------


def text(f: Any, *args: Any) -> str:
    src = untrace.source(f)(*args)
    assert src.report.is_verified
    return str(src)


def test_source_of_an_inverse_is_what_one_would_write() -> None:
    made = text(untrace.inverse(notebook), X)
    assert "def inverse_of_notebook(y):" in made
    assert "    return jnp.arctanh(jnp.log(y))" in made


def test_source_of_a_coupling_has_no_dead_code() -> None:
    def coupling(x: Any, params: Any) -> Any:
        a, b = jnp.split(x, 2)
        scale, shift = jnp.split(jnp.tanh(params["w"] @ a), 2)
        unused = jnp.sin(x) * scale.sum()
        del unused
        return jnp.concatenate([a, b * jnp.exp(scale) + shift])

    made = text(untrace.inverse(coupling, argnums=0), X, {"w": jnp.ones((6, 3))})
    assert "def inverse_of_coupling(y, params):" in made
    assert "sin(" not in made and made.count("jnp.tanh") == 1
    assert "y[:3]" in made and "y[3:]" in made and "jnp.concatenate" in made


def test_source_of_a_loop_runs_backwards() -> None:
    def f(x: Any) -> Any:
        return jax.lax.fori_loop(0, 4, lambda i, c: jnp.sinh(c) + i, x)

    made = text(untrace.inverse(f), X)
    assert "reverse=True" in made and "jnp.arange(4" in made and "arcsinh" in made
    assert "log" not in made
