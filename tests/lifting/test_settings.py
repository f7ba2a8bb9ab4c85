"""Settings that a program enters stand around the calls that it makes under them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import compute_on as jax_compute_on
from jax.experimental.compute_on import compute_on
from jax.experimental.xla_metadata import set_xla_metadata

import untrace
from untrace import jaxapi

X, W = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)
PRECISION = '    with jax.default_matmul_precision("highest"):\n'


def recover(function: Callable[..., Any], *args: Any) -> str:
    """Return the text of a function that must come back from its calls alone."""
    src = untrace.source(function)(*(args or (X, W)))
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    assert "from its equations" not in str(src), str(src)
    return str(src)


@pytest.mark.parametrize(
    ("enter", "text"),
    [
        (lambda: jax.default_matmul_precision("highest"), PRECISION),
        (lambda: set_xla_metadata(a="b"), '    with set_xla_metadata(a="b"):\n'),
        (lambda: jax.disable_jit(), "    with jax.disable_jit():\n"),
    ],
)
def test_setting_is_entered_around_what_it_was_entered_for(
    enter: Callable[[], Any], text: str
) -> None:
    def f(x: Any, w: Any) -> Any:
        with enter():
            y = jnp.where(x > 0, x, w) @ w
        return jnp.sin(y) @ w

    found = recover(f)
    assert f"{text}        y = jnp.where(x > 0, x, w) @ w\n    return jnp" in found


@pytest.mark.parametrize(
    "enter",
    [
        lambda: jax.named_scope("scope"),
        lambda: jax.numpy_dtype_promotion("strict"),
        lambda: jax.numpy_rank_promotion("raise"),
        lambda: jax.default_matmul_precision(None),
    ],
)
def test_context_that_changes_no_equation_is_left_out(
    enter: Callable[[], Any],
) -> None:
    def f(x: Any, w: Any) -> Any:
        with enter():
            return x @ w

    assert "with" not in recover(f).partition("def f")[2]


def test_types_and_keys_of_a_setting_are_kept() -> None:
    def f(x: Any, w: Any) -> Any:
        with jax.enable_x64(True):
            y = jnp.sum(x.astype(jnp.float64)).astype(jnp.float32)
        with jax.default_prng_impl("rbg"):
            key = jax.random.key(0)
        return y + jax.random.normal(key, (4,)) @ w

    text = recover(f)
    assert "    with jax.enable_x64(True):\n" in text
    assert '    with jax.default_prng_impl("rbg"):\n' in text


def test_what_is_returned_under_a_setting_is() -> None:
    def f(x: Any, w: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return x @ w, w @ x

    assert f"{PRECISION}        return x @ w, w @ x\n" in recover(f)


def test_settings_inside_settings() -> None:
    def f(x: Any, w: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            y = x @ w
            with set_xla_metadata(a="b"):
                z = y @ w
            return z @ w

    assert f"{PRECISION}        y = x @ w\n        with set_xla" in recover(f)


def test_function_under_a_setting_has_none_of_its_own() -> None:
    def f(x: Any, w: Any) -> Any:
        def loss(w: Any) -> Any:
            y = x @ w
            return jnp.sum(y @ w)

        with jax.default_matmul_precision("highest"):
            g = jax.grad(loss)(w)
        return g @ w

    text = recover(f)
    assert f"{PRECISION}        g = jax.grad(loss)(w)\n" in text
    assert text.count("with jax.") == 1


def test_setting_of_a_decorator_belongs_to_the_function() -> None:
    def f(x: Any, w: Any) -> Any:
        @jax.default_matmul_precision("highest")
        def inner(row: Any) -> Any:
            return row @ w

        return jax.vmap(inner)(x) @ w

    assert "    with jax.default_matmul_precision" in recover(f).partition("inner")[2]


def test_setting_of_a_decorator_of_the_program() -> None:
    @jax.default_matmul_precision("highest")
    def f(x: Any, w: Any) -> Any:
        return x @ w

    assert f"{PRECISION}        return x @ w\n" in recover(f)


def test_setting_that_a_context_of_the_program_enters() -> None:
    @contextlib.contextmanager
    def exact() -> Generator[None, None, None]:
        with jax.default_matmul_precision("highest"):
            yield

    def f(x: Any, w: Any) -> Any:
        with exact():
            return x @ w

    assert f"{PRECISION}        return x @ w\n" in recover(f)


def test_setting_in_the_body_of_a_scan() -> None:
    def f(x: Any, w: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            with jax.default_matmul_precision("highest"):
                carry = carry @ w
            return carry @ w, None

        return jax.lax.scan(body, x, None, length=3)[0]

    assert "        with jax.default_matmul_precision" in recover(f)


def test_setting_around_a_comprehension() -> None:
    def scaled(w: Any, x: Any) -> Any:
        return x * (jnp.einsum("ij,ij->", w, x) - 1.0)

    def f(xs: Any, ws: Any) -> Any:
        with jax.default_matmul_precision("tensorfloat32"):
            made = [scaled(w, x) for w, x in zip(ws, xs)]
            return jnp.sum(made[0]), made[1]

    found = recover(f, [X, X[:2]], [W, W[:2]]).partition("def f(")[2]
    assert " in zip(" in found.partition("with jax.default_matmul_precision")[2]


def test_setting_of_a_part_of_each_turn_is_in_a_loop() -> None:
    def f(xs: Any, ws: Any) -> Any:
        made = []
        for a, b in zip(xs, ws):
            with jax.default_matmul_precision("highest"):
                c = a @ b
            made.append(c + a @ b)
        return made

    found = recover(f, [X, X[:2]], [W, W])
    assert f"    {PRECISION}            c = a @ b\n        made.append(" in found


def test_setting_in_a_loop() -> None:
    def f(x: Any, w: Any) -> Any:
        for _ in range(3):
            with jax.default_matmul_precision("highest"):
                y = x @ w
            x = jnp.tanh(y) + x
        return x

    expected = (
        "    for _ in range(3):\n"
        '        with jax.default_matmul_precision("highest"):\n'
        "            y = x @ w\n"
        "        x = jnp.tanh(y) + x\n"
    )
    assert expected in recover(f)


def test_setting_around_a_loop() -> None:
    def f(x: Any, w: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            for _ in range(3):
                x = jnp.tanh(x @ w) + x
        return x

    assert f"{PRECISION}        for _ in range(3):\n            x = " in recover(f)


def test_turns_under_different_settings_are_no_loop() -> None:
    def f(x: Any, w: Any) -> Any:
        for turn in range(4):
            with jax.default_matmul_precision(["highest", None][turn % 2]):
                x = jnp.tanh(x @ w) + x
        return x

    text = recover(f)
    assert text.count(PRECISION) == 2
    assert "for " not in text.partition("def f")[2]


def test_function_that_is_called_under_two_settings_is_one_function() -> None:
    def f(x: Any, w: Any) -> Any:
        def product(a: Any) -> Any:
            return jnp.tanh(a @ w)

        y = product(x)
        with jax.default_matmul_precision("highest"):
            return product(y)

    assert recover(f).count("def product") == 1


def test_setting_around_the_program_is_entered_by_the_file() -> None:
    with jax.default_matmul_precision("highest"):
        text = recover(lambda x, w: x @ w)
    assert f"{PRECISION}        yield" in text
    assert "with tracing_context():\n        print(" in text


@pytest.mark.skipif(
    jaxapi.COMPUTE_ON != "compute_on2", reason="`compute_on` is no context there"
)
def test_place_of_computation_is_entered() -> None:
    def f(x: Any, w: Any) -> Any:
        with compute_on("device_host"):  # pyright: ignore
            return x @ w

    assert '    with compute_on("device_host"):\n        return' in recover(f)


def test_function_that_is_computed_elsewhere_has_one_result() -> None:
    transform = getattr(jax_compute_on, jaxapi.COMPUTE_ON)
    space = jax.memory.Space.Device

    def f(x: Any, w: Any) -> Any:
        sine = transform(jnp.sin, compute_type="device_host", out_memory_spaces=space)
        return sine(x) + w

    assert "[0]" not in recover(f).partition("def f")[2]


def test_what_computes_nothing_stands_under_the_setting_around_it() -> None:
    def pair(x: Any, w: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            out = [x @ w, w @ x]
            return out, jnp.sin(x @ x)

    def f(x: Any, w: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            made = jax.lax.cond(True, lambda: pair(x, w), lambda: pair(w, x))
            both = [made[1], x]
            return jax.lax.cond(True, lambda b: b, lambda b: b[::-1], both), both, w @ x

    text = recover(f).partition("def f(")[2]
    assert text.count("with jax.") == 1, text
