"""What the sources of inverses, and of programs that call them, read like."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import untrace

X = jnp.array([0.5, 1.0, 1.5])


def squashed(x: Any) -> Any:
    return jnp.exp(jnp.tanh(x))


def scaled(x: Any, w: Any) -> Any:
    return w * x + 1


@jax.jit
def tripled(x: Any) -> Any:
    return jnp.exp(x) * 3


def rnn(xs: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        state = state * 1.5 + jnp.tanh(x)
        return state, jnp.sinh(state)

    return jax.lax.scan(step, jnp.float32(0.0), xs)[1]


def counted(x: Any) -> Any:
    return jax.lax.while_loop(
        lambda state: state[0] < 5,
        lambda state: (state[0] + 1, jnp.exp(state[1]) * 0.5),
        (0, x),
    )[1]


def branching(x: Any, k: Any) -> Any:
    return jax.lax.cond(k, lambda x: x * 2, lambda x: jnp.exp(x) + 1, x)


def program(function: Callable[..., Any], *args: Any) -> str:
    """Recover a program without notes; return its functions, without comments."""
    made = untrace.source(function)(*args)
    assert made.report.strength in ("identical", "equivalent")
    assert " is written from its equations" not in str(made)
    text = str(made).split("\n\n\ndef example_args")[0]
    lines = text[text.index("\n\n\ndef ") :].strip().splitlines()
    return "\n".join(line.partition("  # ")[0] for line in lines)


def test_header_names_the_function_and_its_file() -> None:
    for made in (
        untrace.inverse(squashed),
        jax.vmap(jax.grad(untrace.inverse(squashed))),
    ):
        text = str(
            untrace.source(jax.jit(made))(X)
            if made.__name__ != "inverse_of_squashed"
            else untrace.source(made)(X)
        )
        assert text.startswith(
            '"""`inverse_of_squashed` of `squashed` from test_inverse_sources.py:'
        )


def test_header_of_an_inverse_of_a_jaxpr_names_no_file() -> None:
    made = untrace.inverse(jax.make_jaxpr(squashed)(1.0))
    assert "inverse.py" not in str(untrace.source(made)(1.5))


def test_derivatives_call_the_inverse() -> None:
    assert (
        program(jax.grad(untrace.inverse(squashed)), 1.5)
        == """\
def inverse_of_squashed(y):
    return jnp.arctanh(jnp.log(y))


def grad_of_inverse_of_squashed(y):
    return jax.grad(inverse_of_squashed)(y)"""
    )


def test_transformed_inverse_keeps_known_arguments() -> None:
    made = jax.vmap(untrace.inverse(scaled, argnums=0), (0, None))
    assert (
        program(made, X, jnp.float32(2.0))
        == """\
def inverse_of_scaled(y, w):
    return (y - 1.0) / w


def vmap_of_inverse_of_scaled(y, w):
    return jax.vmap(inverse_of_scaled, in_axes=(0, None))(y, w)"""
    )


def test_two_inverses_are_two_functions() -> None:
    def both(y: Any, z: Any) -> Any:
        return jax.vmap(untrace.inverse(squashed))(y), jax.vmap(
            untrace.inverse(tripled)
        )(z)

    text = program(both, X, X)
    assert "jax.vmap(inverse_of_squashed)(y)" in text
    assert "jax.vmap(inverse_of_tripled)(z)" in text


def test_constants_are_numbers() -> None:
    assert (
        program(untrace.inverse(tripled), X)
        == """\
def inverse_of_tripled(y):
    return jnp.log(y / 3.0)"""
    )


def test_running_sums_are_differences_of_slices() -> None:
    assert program(untrace.inverse(lambda x: jnp.cumsum(x)), X).splitlines()[1:] == [
        "    difference = y[1:] - y[:-1]",
        "    return jnp.concatenate([y[:1], difference])",
    ]


def test_turns_of_a_scan_take_what_they_need() -> None:
    assert program(untrace.inverse(rnn), X).startswith("""\
def inverse_turn(carry, row):
    arcsinh = jnp.arcsinh(row)
    return arcsinh, jnp.arctanh(arcsinh - carry * 1.5)
""")


def test_turns_of_a_while_loop_are_functions() -> None:
    text = program(untrace.inverse(counted), 0.5)
    assert "def inverse_turn(state):" in text and "jnp.log(carry[1] / 0.5)" in text


def test_branches_are_functions() -> None:
    assert (
        program(untrace.inverse(branching, argnums=0), 1.5, True)
        == """\
def inverse_branch(given):
    return jnp.log(given - 1.0)


def inverse_branch_2(given):
    return given / 2.0


def inverse_of_branching(y, k):
    return jax.lax.switch(k.astype(jnp.int32), [inverse_branch, inverse_branch_2], y)"""
    )


@pytest.mark.parametrize("function", [rnn, jnp.cumprod, tripled])
def test_log_det_is_written_without_notes(function: Any) -> None:
    program(untrace.inverse_and_log_det(function), X)


def test_slopes_that_are_derived_are_written() -> None:
    assert "jax.jvp(inverse, " in program(untrace.inverse_and_log_det(jnp.arctan), X)


def test_results_are_given_one_by_one_or_as_a_tuple() -> None:
    def turned(a: Any, b: Any) -> Any:
        return a + b, jnp.exp(b)

    made, ys = untrace.inverse(turned), turned(1.0, 2.0)
    assert jnp.allclose(jnp.array(made(*ys)), jnp.array([1.0, 2.0]))
    taken = untrace.inverse(lambda p: turned(*p), (1.0, 1.0))
    assert jnp.allclose(jnp.array(taken(*ys)), jnp.array(taken(ys)))


def test_names_of_parameters_may_be_any() -> None:
    def affine(inverted: Any, e: Any) -> Any:
        return inverted * 2.0 + e

    inverse = untrace.inverse(affine, argnums=1)
    assert inverse(5.0, 1.0) == 3.0
    src = untrace.source(inverse)(5.0, 1.0)
    assert src.report.strength == "identical"


def test_names_are_no_text_that_is_executed(capsys: pytest.CaptureFixture[str]) -> None:
    def product(*values: Any) -> Any:
        return values[0] * values[-1]

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [f"value_{i}" for i in range(20)]
    parameters = [inspect.Parameter(name, kind) for name in names]
    product.__dict__["__signature__"] = inspect.Signature(parameters)
    product.__name__ = "f(): print(1)\nprint(2)\ndef g"
    inverse = untrace.inverse(product, argnums=0)
    assert inverse(6.0, *[jnp.float32(2.0)] * 19) == 3.0
    text = program(jax.grad(inverse), 6.0, *[jnp.float32(2.0)] * 19)
    assert "def inverse_of_f_print_1_print_2_def_g(" in text and "value_19" in text
    assert not capsys.readouterr().out
