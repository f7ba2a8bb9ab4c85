"""Where a rule fails, its equations are written lower, in few rounds, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace import pipeline
from untrace.lifting.rules import table

X = np.linspace(0.5, 2.0, 4, dtype=np.float32)


@pytest.fixture
def put_rules(monkeypatch):
    """Replace the rules of primitives by others, the last of which stands for `jax.lax`."""

    def put(**templates: str) -> None:
        for primitive, template in templates.items():
            lower = f"jax.lax.{template.rpartition('.')[2]}"
            monkeypatch.setitem(table.RULES, primitive, [])
            table.clear_memo()
            for line in (template, lower):
                table.rule(primitive, line, accuracy=None)
        table.clear_memo()

    yield put
    monkeypatch.undo()
    table.clear_memo()


def written(function: Callable[..., Any], *args: Any) -> tuple[str, int]:
    """The text at level "lax", and how often it was verified, with the optional steps."""
    stages: list[str] = []

    def told(stage: str, done: int, total: int) -> None:
        if not total:  # it begins
            stages.append(stage)

    src = untrace.source(function, level="lax", progress=told)(*args)
    assert src.report.strength == "identical", str(src)
    n_verified = stages.count("verifying")
    return str(src), n_verified - (n_verified > 1)  # once without them, after the first


def many(x: Any) -> Any:
    """Sines of many shapes and in all sub-programs, beside cosines."""
    for size in range(2, 20):
        x = jnp.cos(jnp.sin(jnp.concatenate([x, x])[:size]))
    x, _ = jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=3)
    x = jax.lax.cond(x[0] > 0, lambda y: jnp.sin(y), lambda y: jnp.cos(y), x)
    return jax.jit(lambda y: jnp.sin(y) + 1)(x)


def test_gradient_of_a_mean_over_an_axis_that_is_mapped():
    def mean(w: Any) -> Any:
        for _ in range(12):
            w = jnp.sin(w) * jax.lax.pmean(w, "i")
        return jnp.sum(w)

    def f(x: Any) -> Any:
        return jnp.sum(jax.vmap(mean, axis_name="i")(x))

    text, n_rounds = written(jax.grad(f), np.ones((3, 4), np.float32))
    assert n_rounds == 1
    assert "psum_p.bind(" in text and "axes=()" in text
    assert "jnp.sin(" in text and "written by" not in text


@pytest.mark.parametrize("name", ["pmax", "pmin", "psum"])
def test_collectives_over_no_axes(name):
    primitive = getattr(jax.lax, f"{name}_p")

    def f(x: Any) -> Any:
        return primitive.bind(x, axes=(), axis_index_groups=None)

    text, n_rounds = written(f, X)
    assert n_rounds == 1 and f"{name}_p.bind(" in text


def test_all_equations_of_a_kind_are_lowered_at_once(put_rules):
    put_rules(sin="jnp.tan({0})")
    text, n_rounds = written(many, X)
    assert n_rounds == 3
    assert "jnp.tan(" not in text and "jax.lax.tan(" not in text
    assert "jnp.cos(" in text and "cos_p" not in text
    assert "`sin` is written by `bind`: `sin f32[2]" in text
    assert "(primitive differs)" in text


def test_a_step_that_changes_nothing_is_not_verified(put_rules):
    put_rules(sin="jax.lax.tan({0})")
    text, n_rounds = written(many, X)
    assert n_rounds == 2 and "cos_p" not in text


def test_what_is_right_by_jax_lax_is_not_bound(put_rules):
    put_rules(sin="jnp.tan({0})")
    table.RULES["sin"][1:] = []
    table.rule("sin", "jax.lax.sin({0})", accuracy=None)
    text, n_rounds = written(many, X)
    assert n_rounds == 2 and "jax.lax.sin(" in text and "written by" not in text


def test_equations_of_derivative_rules_are_lowered(put_rules):
    @jax.custom_jvp
    def wave(x: Any) -> Any:
        return x * 2

    @wave.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return wave(*primals), jnp.sin(primals[0]) * jnp.cos(tangents[0]) * tangents[0]

    put_rules(sin="jnp.tan({0})")
    text, n_rounds = written(lambda x: wave(x) + 1, X)
    assert n_rounds == 3
    assert "sin_p.bind(" in text and "jnp.cos(" in text
    assert "custom_jvp_call_p" not in text


def test_a_call_that_raises_is_lowered(put_rules):
    put_rules(sin="jnp.no_such_function({0})")
    text, n_rounds = written(many, X)
    assert n_rounds == 3
    assert "sin_p.bind(" in text and "jnp.cos(" in text
    assert "`sin` is written by `bind`: AttributeError: " in text


def test_what_makes_one_equation_too_many_is_lowered(put_rules):
    put_rules(sin="jnp.add(jnp.sin({0}), 0)")
    table.RULES["sin"][1:] = []
    text, _ = written(lambda x: jnp.sin(jnp.sin(jnp.cos(x))), X)
    assert "sin_p.bind(" in text and "jnp.cos(" in text and "jnp.add(" not in text


def test_a_primitive_of_many_kinds_is_bound_before_all_others(put_rules):
    def ranks(x: Any) -> Any:
        y = [jnp.sin(x.reshape((1,) * rank + (4,))) for rank in range(20)]
        return [jnp.cos(item) for item in y]

    put_rules(sin="jnp.tan({0})")
    text, n_rounds = written(ranks, X)
    assert n_rounds <= pipeline.MAX_ROUNDS
    assert text.count("sin_p.bind(") == 20 and "cos_p" not in text
    assert "Everything" not in text


def test_rounds_have_a_budget_of_equations(put_rules, monkeypatch):
    put_rules(sin="jnp.tan({0})", exp="jnp.log({0})")

    def f(x: Any) -> Any:
        return jnp.exp(jnp.sin(x)), jnp.cos(x)

    monkeypatch.setattr(pipeline, "MAX_EQUATIONS", 12)
    text, n_rounds = written(f, X)
    assert n_rounds == 4 and "exp_p.bind(" in text and "cos_p" not in text
    monkeypatch.setattr(pipeline, "MAX_EQUATIONS", 8)
    text, n_rounds = written(f, X)
    assert n_rounds == 4 and "cos_p.bind(" in text
    assert "Everything is written by `bind`: `exp f32[4]" in text
    monkeypatch.setattr(pipeline, "MAX_EQUATIONS", 0)
    text, n_rounds = written(f, X)
    assert n_rounds == 2
    assert "cos_p.bind(" in text
    assert "Everything is written by `bind`: `sin f32[4]" in text
