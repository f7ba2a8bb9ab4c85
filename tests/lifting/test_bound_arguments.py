"""`functools.partial` of the program's functions comes back with what it binds."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import untrace

X = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(4, 3)
XS = np.stack([X, X + 1])
PARAMS = np.eye(3, dtype=np.float32), X[0]


def cost(params: Any, x: Any, scale: Any = 2.0) -> Any:
    w, b = params
    return jnp.sum((x @ w + b) ** 2) * scale


def mapped(params: Any, xs: Any) -> Any:
    return jax.vmap(functools.partial(cost, params))(xs).mean()


def by_name(params: Any, xs: Any) -> Any:
    return jax.grad(functools.partial(cost, x=xs[0], scale=3.0))(params)


def also_called(params: Any, xs: Any) -> Any:
    costs = jax.vmap(functools.partial(cost, params))(xs)
    return costs + cost(params, xs[0], 4.0)


def jitted(params: Any, xs: Any) -> Any:
    return jax.jit(functools.partial(cost, params))(xs[1])


def in_a_scan(params: Any, xs: Any) -> Any:
    def step(params, x, _):
        x = jnp.tanh(x @ params[0]) + params[1]
        return x, x.sum()

    return jax.lax.scan(functools.partial(step, params), xs[0], None, length=2)


@pytest.mark.parametrize("function", [mapped, by_name, also_called, jitted, in_a_scan])
def test_arguments_that_hold_arrays_are_bound_as_the_program_does(
    function: Any,
) -> None:
    src = untrace.source(function)(PARAMS, XS)
    assert src.report.strength == "identical", str(src.report)
    bound = inspect.getsource(function).partition("partial(")[2].partition(")")[0]
    assert f"functools.partial({bound})" in src.text, src.text
    assert src.text.count("w, b = params") == (function is not in_a_scan), src.text


def test_what_holds_no_array_is_not_bound() -> None:
    def layer(kind: str, w: Any, n: int, x: Any) -> Any:
        return getattr(jnp, kind)(x @ w) * n

    def program(w: Any, xs: Any) -> Any:
        return jax.vmap(functools.partial(layer, "tanh", w, 3))(xs)

    src = untrace.source(program)(PARAMS[0], XS)
    assert src.report.strength == "identical", str(src.report)
    assert "functools.partial(layer, w)" in src.text, src.text
    assert "def layer(w, x):\n    return jnp.tanh(x @ w) * 3\n" in src.text, src.text


def test_what_is_bound_and_not_used_is_left_out() -> None:
    def second(unused: Any, x: Any) -> Any:
        return jnp.sin(x) * jnp.cos(x)

    def program(w: Any, xs: Any) -> Any:
        return jax.vmap(functools.partial(second, w))(xs)

    src = untrace.source(program)(PARAMS[0], XS)
    assert src.report.strength == "identical", str(src.report)
    assert "partial" not in src.text, src.text


def test_a_starred_function_closes_over_what_is_bound() -> None:
    def total(*arrays: Any) -> Any:
        return sum(jnp.sin(array) for array in arrays)

    def program(w: Any, xs: Any) -> Any:
        return jax.vmap(functools.partial(total, w, w + 1))(xs[:, 0])

    src = untrace.source(program)(PARAMS[1], XS)
    assert src.report.strength == "identical", str(src.report)


def counted(method: Any) -> Any:
    """A decorator whose wrapper takes the object among its `*args`."""

    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        self, args = args[0], args[1:]
        self.n_calls += 1
        return method(self, *args, **kwargs)

    return wrapper


class Model:
    n_calls = 0

    @counted
    def loss(self, params: Any, x: Any) -> Any:
        return cost(params, x)


class Discriminator(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.tanh(nn.Dense(2)(x))

    def loss(self, params: Any, x: Any) -> Any:
        return jnp.mean(self.apply(params, x) ** 2)


def test_methods_whose_wrappers_take_the_object_among_others_are_transformed() -> None:
    model = Model()
    module = Discriminator()
    variables = module.init(jax.random.key(0), X)

    def f(params: Any, xs: Any) -> Any:
        costs = jax.vmap(model.loss, (None, 0))(params, xs)
        return jax.grad(model.loss)(params, X), costs

    def g(variables: Any, xs: Any) -> Any:
        losses = jax.vmap(module.loss, (None, 0))(variables, xs)
        return jax.value_and_grad(module.loss)(variables, xs[0]), losses

    for function, args in ((f, (PARAMS, XS)), (g, (variables, XS))):
        src = untrace.source(function)(*args)
        assert src.report.strength == "identical", str(src.report)
        assert "from its equations" not in str(src.report), str(src.report)
    assert "jax.value_and_grad(loss)(variables, xs[0])" in str(src), str(src)
