"""`annotate="jaxtyping"`: signatures say the types that the recorded run had."""

import importlib.util
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main

X = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)


class State(NamedTuple):
    mean: object
    count: object


def annotated(function, *args, **options):
    pytest.importorskip("jaxtyping")
    src = untrace.source(function, annotate="jaxtyping", **options)(*args)
    assert src.report.is_verified, str(src.report)
    assert "Written from its equations" not in str(src)
    expected = jax.tree.leaves(jax.jit(function)(*args))
    actual = jax.tree.leaves(jax.jit(src.load())(*args))
    assert all(np.array_equal(a, b) for a, b in zip(expected, actual, strict=True))
    return str(src)


def loss(params, x, n):
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return jnp.mean(hidden**2) * n


AXES = 'Float[Array, "x_rows 4"]'
PARAMS = {"w": np.ones((4, 2), np.float32), "b": np.zeros(2, np.float32)}


def test_arrays_and_trees_are_annotated():
    text = annotated(loss, PARAMS, X, np.int32(2))
    assert "from jax import Array\n" in text
    assert "from jaxtyping import Float, Int\n" in text
    assert "needs jaxtyping" in text or "need jaxtyping" in text
    signature = 'def loss(params: dict, x: Float[Array, "3 4"], n: Int[Array, ""])'
    assert f'{signature} -> Float[Array, ""]:' in " ".join(text.split())


def dense(params, x):
    return jnp.tanh(x @ params["w"] + params["b"])


def pooled(params, x):
    hidden = dense(params, x)
    return jnp.concatenate([hidden, hidden]).reshape(2, x.shape[0], -1)


def test_sizes_have_names_in_functions_and_results():
    text = " ".join(annotated(pooled, PARAMS, X, symbolic=True).split())
    hidden = 'Float[Array, "x_rows 2"]'
    assert f"def dense(params: dict, x: {AXES}) -> {hidden}:" in text
    result = 'Float[Array, "2 x_rows 2"]'
    assert f"def pooled(params: dict, x: {AXES}) -> {result}:" in text


def step(state, pair, key, flags):
    noise = jax.random.normal(key, (3,))

    def body(carry, row):
        return carry + row.sum(), carry * 1j

    total, rows = jax.lax.scan(body, pair[0][0], X)
    mean = jnp.where(flags, state.mean + noise, total)
    return State(mean, state.count + 1), rows


def test_classes_tuples_and_inner_functions_are_annotated():
    first = np.ones((2,), np.float32), np.ones(3, np.uint8)
    state = State(np.ones(3, np.float32), np.int32(0))
    flags = np.array([True, False, True])
    text = annotated(step, state, first, jax.random.key(0), flags)
    text = " ".join(text.replace("\n", " ").split())
    assert "state: State" in text
    assert 'pair: tuple[Float[Array, "2"], UInt[Array, "3"]]' in text
    assert 'key: Key[Array, ""]' in text
    assert 'flags: Bool[Array, "3"]' in text
    assert '-> tuple[State, Complex[Array, "3"]]:' in text
    assert 'row: Float[Array, "4"]' in text


def helper(x):
    y = jnp.tanh(x)
    return y * y + jnp.sin(y)


def test_a_function_called_at_several_types_has_no_annotations():
    text = annotated(lambda a, b: helper(a).sum() + helper(b).sum(), X, X[0])
    assert "def helper(x):" in text


def test_anonymous_files_keep_annotations():
    text = annotated(loss, PARAMS, X, np.int32(2), anonymous=False)
    src = untrace.source(loss, annotate="jaxtyping", anonymous=True)
    made = src(PARAMS, X, np.int32(2))
    assert made.report.is_verified
    assert 'y: Int[Array, ""]' in str(made)
    assert "loss" in text
    assert "loss" not in str(made)


def test_default_has_no_annotations():
    text = str(untrace.source(loss)(PARAMS, X, np.int32(2)))
    assert "jaxtyping" not in text
    assert "def loss(params, x, n):" in text


def test_what_cannot_be_annotated_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="annotate must be one of"):
        untrace.source(loss, annotate="beartype")
    with pytest.raises(ValueError, match='needs the calls .* level="api"'):
        untrace.source(loss, annotate="jaxtyping", level="lax")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install jaxtyping"):
        untrace.source(loss, annotate="jaxtyping")


def test_command_line(tmp_path):
    pytest.importorskip("jaxtyping")
    file = tmp_path / "file.py"
    file.write_text("import jax.numpy as jnp\ndef f(a):\n    return jnp.sin(a)\n")
    call = [str(file), "f(1.0)", "--annotate", "jaxtyping"]
    done = CliRunner().invoke(main, ["show", *call])
    assert done.exit_code == 0, done.output
    assert 'def f(a: Float[Array, ""]) -> Float[Array, ""]:' in done.stdout
