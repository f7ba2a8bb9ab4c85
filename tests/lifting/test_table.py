"""What is remembered of rules for the whole process changes no text."""

from __future__ import annotations

import enum
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.lifting import literals
from untrace.lifting.rules import table
from untrace.lifting.rules.table import exact_key

X = jnp.linspace(0.0, 1.0, 8)

PROGRAMS = [
    lambda x: jnp.sin(x) * 2.0 + jnp.ones(8),
    lambda x: jnp.sum(x.reshape(4, 2), axis=1, keepdims=True) * np.float32(-0.0),
    lambda x: jnp.outer(x, x) @ x + np.float32(0.0),
    lambda x: jax.lax.dot(x, x, precision=jax.lax.Precision.HIGHEST),
    lambda x: jax.jit(jnp.tanh)(x).astype(jnp.bfloat16),
    lambda x: jax.lax.reduce_precision(x, 8, 7) + jnp.float32(jnp.nan),
]


class Level(enum.IntEnum):
    ONE = 1


def _text(function: Any) -> str:
    return str(untrace.source(jax.make_jaxpr(function)(X), verify=False))


def _forget() -> None:
    table.clear_memo()
    literals._SHARED.clear()


@pytest.fixture
def scale():
    """A primitive with a rule that shows its param."""
    primitive = jax.extend.core.Primitive("scale_of_table_test")
    primitive.def_abstract_eval(lambda x, by: x)
    untrace.register(primitive, "scale({0}, {by})", imports={"scale": "mylib"})
    yield primitive
    table.RULES.pop(primitive.name, None)
    table.clear_memo()


def test_the_same_program_gives_the_same_text_after_other_programs() -> None:
    alone: list[str] = []
    for program in PROGRAMS:
        _forget()
        alone.append(_text(program))
    _forget()
    assert [_text(program) for program in PROGRAMS] == alone
    assert [_text(program) for program in reversed(PROGRAMS)] == alone[::-1]


EQUAL_PARAMS = [True, 1, 1.0, 0.0, -0.0, False, 0, Level.ONE]


def test_equal_params_of_other_types_are_told_apart(scale) -> None:
    for by in [*EQUAL_PARAMS[:-1], *[(by,) for by in EQUAL_PARAMS[:-1]]]:
        spelled = f"({by[0]},)" if isinstance(by, tuple) else f"{by}"
        assert f"scale(x, {spelled})" in _text(lambda x, by=by: scale.bind(x, by=by))


def test_equal_params_of_other_types_are_told_apart_in_one_program(scale) -> None:
    text = _text(lambda x: [scale.bind(x, by=by) for by in EQUAL_PARAMS[:-1]])
    assert all(f"scale(x, {by})" in text for by in EQUAL_PARAMS[:-1])
    assert text.count(" = scale(") == len(EQUAL_PARAMS) - 1


def test_a_changed_table_changes_the_text(scale) -> None:
    assert "scale(x, 2)" in _text(lambda x: scale.bind(x, by=2))
    untrace.register(scale, "twice({0})", imports={"twice": "mylib"}, by=2)
    assert "twice(x)" in _text(lambda x: scale.bind(x, by=2))


def test_keys_are_equal_only_for_values_of_the_same_text() -> None:
    keys = [exact_key(value) for value in EQUAL_PARAMS]
    assert len(set(keys)) == len(keys)
    nested = [exact_key((value, ("a", None))) for value in EQUAL_PARAMS]
    assert len(set(nested)) == len(nested)
    assert exact_key((1, np.dtype("float32"))) == exact_key((1, jnp.dtype("float32")))


def test_nothing_large_or_foreign_is_kept_alive() -> None:
    for value in (X, np.ones(2), object(), "a" * 1000, (1,) * 1000, lambda x: x):
        assert exact_key(value) is None
        assert exact_key((1, value)) is None
    assert jax.jit(lambda x: x if exact_key((x,)) is None else 0 / 0)(1.0) == 1.0


def test_the_memos_are_bounded(monkeypatch) -> None:
    _forget()
    monkeypatch.setattr(table, "MAX_ACCEPTED", 3)
    monkeypatch.setattr(literals, "MAX_SHARED", 1)
    for program in PROGRAMS:
        _text(program)
        assert len(table._ACCEPTED) <= 3
        assert len(literals._SHARED) <= 1
