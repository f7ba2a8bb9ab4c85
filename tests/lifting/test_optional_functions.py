"""A function that applies another one if it is given one is one function."""

import jax
import jax.numpy as jnp
import pytest

import untrace

X = jnp.eye(3)
LAYERS = [{"w": X, "b": X[0]}, {"w": X + 1, "b": X[1]}]


def dense(p, x, act=None):
    y = x @ p["w"] + p["b"]
    if act is not None:
        y = act(y)
    return y


def returned(p, x, act=None):
    y = x @ p["w"] + p["b"]
    return y if act is None else act(y)


def applied_twice(p, x, act=None):
    y = x @ p["w"] + p["b"]
    return y if act is None else act(y) + act(x)


def recover(layer):
    def net(ps, x):
        return layer(ps[1], layer(ps[0], x, jax.nn.silu))

    source = untrace.source(net)(LAYERS, X)
    assert source.report.strength == "identical", str(source.report)
    return str(source)


@pytest.mark.parametrize(
    ("layer", "lines"),
    [
        (dense, "    if act is not None:\n        y = act(y)\n    return y\n"),
        (returned, "    return y if act is None else act(y)\n"),
    ],
)
def test_function_that_is_given_or_not_is_none_by_default(layer, lines):
    text = recover(layer)
    assert f"def {layer.__name__}(p, x, act=None):\n" in text and lines in text
    assert text.count(f"def {layer.__name__}") == 1


def test_functions_that_differ_in_more_stay_two():
    assert recover(applied_twice).count("def applied_twice") == 2


def both(p, x, act=None, norm=None):
    y = x @ p["w"] + p["b"]
    if norm is not None:
        y = norm(y)
    if act is not None:
        y = act(y)
    return y


def centred(x):
    return x - x.mean(-1, keepdims=True)


def test_functions_that_apply_one_of_two_are_one():
    def net(ps, x):
        x = both(ps[0], x, act=jnp.tanh, norm=centred)
        x = both(ps[1], x, act=jnp.tanh)
        x = both(ps[0], both(ps[1], x, norm=centred), norm=jnp.sin)
        return both(ps[1], x)

    source = untrace.source(net)(LAYERS, X)
    assert source.report.strength == "identical", str(source.report)
    text = str(source)
    assert "def both(p, x, act=None, norm=None):\n" in text
    assert text.count("def both") == 1
    lines = ["if norm is not None:", "y = norm(y)", "if act is not None:", "y = act(y)"]
    assert [
        line.strip() for line in text.splitlines() if line.strip() in lines
    ] == lines
    assert "both(ps[0], x, act=jnp.tanh, norm=centred)" in text
    assert "both(ps[1], x, act=jnp.tanh)" in text
    assert "norm=centred)" in text and "norm=jnp.sin)" in text
    assert "return both(ps[1], x)" in text


def test_functions_that_are_called_in_others_are_one():
    def net(ps, x):
        x = both(ps[0], x, act=jnp.tanh, norm=centred)
        step = jax.checkpoint(lambda p, x: both(p, x, norm=centred))
        return step(ps[1], both(ps[1], x))

    source = untrace.source(net)(LAYERS, X)
    assert source.report.strength == "identical", str(source.report)
    assert str(source).count("def both") == 1


def norm(x, scale=None, bias=None, eps=1e-6):
    y = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + eps)
    if scale is not None:
        y = y * scale
    if bias is not None:
        y = y + bias
    return y


def attend(x, w, mask=None):
    weights = x @ w
    if mask is not None:
        weights = jnp.where(mask, weights, -1e9)
    return jnp.tanh(weights) @ x


def shifted(x, w, bias=None):
    y = jnp.sin(x @ w)
    return y if bias is None else y + bias


@pytest.mark.parametrize(
    ("layer", "first", "head"),
    [
        (norm, {"scale": X[0], "bias": X[1]}, "norm(x, scale=None, bias=None, eps="),
        (attend, {"w": X, "mask": X > 0}, "attend(x, w, mask=None)"),
        (shifted, {"w": X, "bias": X[2]}, "shifted(x, w, bias=None)"),
    ],
)
def test_arrays_that_only_some_calls_pass_are_none_by_default(layer, first, head):
    needed = {"w": X} if "w" in first else {}

    def net(x, first):
        return layer(layer(layer(x, **first), **needed), **first)

    source = untrace.source(net)(X, first)
    assert source.report.strength == "identical", str(source.report)
    text = str(source)
    assert text.count(f"def {layer.__name__}") == 1, text
    assert f"def {head}" in text


def looped(x, w, shift=None):
    for _ in range(2):
        x = jnp.tanh(x @ w)
        if shift is not None:
            x = x + shift
    return x


def test_a_loop_is_not_left_without_statements():
    def net(x, w):
        return looped(looped(x, w, w[0]), w)

    source = untrace.source(net)(X, X)
    assert source.report.strength == "identical", str(source.report)


def test_calls_in_arguments_that_are_passed_by_name_are_of_the_same_function():
    def net(x, scale, bias):
        x = norm(x, scale=scale, bias=bias)
        x = norm(x, bias=norm(x * 2, bias=bias))
        return norm(x, bias=norm(x * 2, scale=scale))

    source = untrace.source(net)(X, X[0], X[1])
    text = str(source)
    assert source.report.strength == "identical" and "equations:" not in text, text
    assert "norm(x, bias=norm(x * 2, bias=bias))" in text
