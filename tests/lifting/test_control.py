"""Control flow and calls come back as the public functions that make them."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import untrace
from untrace.capture import capture
from untrace.checking import check_module as check
from untrace.emission import emit
from untrace.lifting.lift import lift
from untrace.lifting.printing import LOWEST_STEP
from untrace.lifting.steps import Steps
from untrace.options import Options


def recovered(function: Any, *args: Any) -> str:
    """Recover a program, check it and return the text without its header."""
    src = untrace.source(function, level="lax")(*args)
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    return str(src).split('"""', 2)[2]


def test_cond_is_written_on_the_predicate() -> None:
    text = recovered(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), True, 1.0)
    assert "jax.lax.cond(p, " in text and "int32" not in text


def test_index_that_is_used_again_keeps_its_equation() -> None:
    def function(p: Any, x: Any) -> Any:
        index = lax.convert_element_type(p, jnp.int32)
        primitive = jax.make_jaxpr(lambda q: lax.cond(q, jnp.sin, jnp.cos, x))(p)
        cond = primitive.eqns[-1]
        (result,) = cond.primitive.bind(index, x, **cond.params)
        return result, index

    text = recovered(function, True, 1.0)
    assert "cond_p.bind(" in text


@pytest.mark.parametrize(
    ("function", "selector"),
    [
        (lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), True),
        (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), np.int32(1)),
    ],
    ids=["cond", "switch"],
)
def test_bound_cond_has_its_index(function: Any, selector: Any) -> None:
    captured = capture(function, (selector, 1.0), {})
    module = emit(lift(captured, Options(), steps=Steps(LOWEST_STEP)))
    assert "cond_p.bind(" in module.body
    assert check(module, captured, ()).strength == "identical"


def test_switch_is_written_without_its_clamp() -> None:
    branches = [functools.partial(jnp.multiply, k) for k in range(5)]
    text = recovered(lambda i, x: lax.switch(i, branches, x), np.int32(2), 1.0)
    assert "jax.lax.switch(" in text and "clamp" not in text


def test_branches_of_other_weak_types_are_one_switch() -> None:
    branches = [lambda a: (a, 1.0), lambda a: (a, a), lambda a: (a * 2, 2.0)]
    text = recovered(lambda i, x: lax.switch(i, branches, x), np.int32(2), jnp.ones(()))
    assert "jax.lax.switch(" in text


def test_unchanged_carry_of_a_scan_stays_a_scan() -> None:
    def function(x: Any, k: Any) -> Any:
        return lax.scan(
            lambda c, v: ((c[0] * c[1] + v, c[1]), v), (x, k), jnp.arange(3.0)
        )

    assert "jax.lax.scan(" in recovered(function, 1.0, jnp.ones(()))


def test_literal_constant_of_a_scan_stays_a_scan() -> None:
    def function(x: Any) -> Any:
        return lax.scan(
            lambda c, v: ((c[0] + c[1] * v, c[1]), v), (x, 2.5), jnp.arange(3.0)
        )

    text = recovered(function, 1.0)
    assert "jax.lax.scan(" in text and "scan_p" not in text


@pytest.mark.parametrize(
    "options", [{"reverse": True}, {"unroll": 2}, {"unroll": True}]
)
def test_options_of_a_scan(options: dict[str, Any]) -> None:
    text = recovered(
        lambda x: lax.scan(lambda c, v: (c + v, c), 0.0, x, **options), jnp.ones(4)
    )
    assert next(iter(options)) in text


def test_transposed_scan_is_a_scan() -> None:
    def loss(x: Any, y: Any) -> Any:
        return jnp.sum(lax.scan(lambda c, v: (c * y + jnp.sin(v), c), 0.0, x)[1])

    assert "scan_p" not in recovered(jax.grad(loss, (0, 1)), jnp.ones(3), 2.0)


def test_while_closes_over_values_in_both_functions() -> None:
    def function(x: Any, limit: Any) -> Any:
        return lax.while_loop(lambda c: c.sum() < limit, lambda c: c + jnp.abs(x), x)

    assert "jax.lax.while_loop(cond_fun, body_fun, " in recovered(
        function, jnp.ones(3), 9.0
    )


def test_while_with_an_unchanged_carry() -> None:
    def function(x: Any) -> Any:
        return lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * c[2], c[2]), (0, x, x)
        )

    assert "jax.lax.while_loop(" in recovered(function, jnp.ones(3))


def test_batched_predicate_is_bound() -> None:
    def function(x: Any, y: Any) -> Any:
        return lax.while_loop(lambda c: c < y, lambda c: c + x, x)

    assert "while_p.bind(" in recovered(jax.vmap(function), jnp.ones(3), jnp.ones(3))


@pytest.mark.parametrize("kind", ["jit", "cond", "scan"])
def test_deep_nest(kind: str) -> None:
    def wrapped(inner: Any) -> Any:
        if kind == "jit":
            return jax.jit(lambda x, y: inner(x, y) + 1.0)
        if kind == "cond":
            return lambda x, y: lax.cond(x > 0, inner, lambda a, b: a, x, y)
        return lambda x, y: lax.scan(
            lambda c, _: (inner(c, y), None), x, None, length=2
        )[0]

    function: Any = lambda x, y: x * y
    for _ in range(200 if kind != "jit" else 120):
        function = wrapped(function)
    text = recovered(function, 1.0, 2.0)
    assert max(len(line) - len(line.lstrip()) for line in text.splitlines()) < 80


@pytest.mark.parametrize(
    "name", ["f():\n  import os", "class", "λ", "x" * 10_000, "", "a b", "None"]
)
def test_name_that_is_no_identifier(name: str) -> None:
    def function(x: Any) -> Any:
        return jnp.sin(x)

    function.__name__ = function.__qualname__ = name
    text = recovered(lambda x: jax.jit(function)(x) + jax.jit(function)(x * 2), 1.0)
    assert "import os" not in text.replace(repr(name), "").split("\n")


def test_reduction_by_a_function() -> None:
    x = np.ones((3, 4), np.float32)
    text = recovered(
        lambda x: lax.reduce(x, np.float32(1.0), lambda a, b: a * b + 1.0, (1,)), x
    )
    assert "jax.lax.reduce(x, np.float32(1.0), computation, (1,))" in text


def test_windowed_reduction_of_two_operands() -> None:
    def largest(a: Any, b: Any) -> Any:
        return jnp.maximum(a[0], b[0]), a[1] + b[1]

    def function(x: Any) -> Any:
        init = np.float32(0.0), np.float32(1.0)
        return lax.reduce_window((x, x * 2), init, largest, (2, 2), (1, 1), "SAME")

    text = recovered(function, np.ones((3, 4), np.float32))
    assert "jax.lax.reduce_window(" in text and "largest" in text


def test_outputs_that_are_odd() -> None:
    recovered(lambda x: (x, x, 1.0, None, {"a": ()}), 1.0)
    recovered(lambda: (), *())
    recovered(lambda x: (), 1.0)
    recovered(jax.jit(lambda x, y: (y, x, x, 2)), 1.0, 2.0)


def test_donation_and_unused_arguments_are_kept() -> None:
    inner = jax.jit(lambda a, b: a * 2, donate_argnums=0, keep_unused=True)
    text = recovered(lambda x, y: inner(x, y), jnp.ones(3), jnp.ones(3))
    assert "donate_argnums=(0,)" in text and "keep_unused=True" in text
