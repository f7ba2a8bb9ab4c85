"""Sizes, parts of shapes and limits of types come back as the user has written them."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 48, dtype=np.float32).reshape(2, 3, 8)
W = np.eye(8, dtype=np.float32)


def in_turns(xs):
    out = 0.0
    for x in xs:
        b, t, d = x.shape
        y = x.reshape(b * t, d)
        out = out + jnp.mean(y @ y.T) / t
    return out


def from_the_beginning(xs):
    total = 0.0
    for x in xs:
        n = x.shape[0]
        m = n * 2
        total = total + jnp.sum(x) / m + n
    return total


def of_what_a_loop_begins_with(w, x):
    b, t, d = x.shape
    n = b * t
    for _ in range(3):
        y = x.reshape(n, d) @ w
        x = y.reshape(b, t, d) + 1
    return x


def closed_over(x):
    n, t, d = x.shape

    def body(carry, row):
        return carry + row.reshape(t * d).sum() / (t + n), None

    out, _ = jax.lax.scan(body, 0.0, x)
    return out


def in_a_lambda(x):
    t = x.shape[1]
    return jax.vmap(lambda r: r.reshape(t, 2, 4))(x)


def of_both_functions(x):
    t = x.shape[1]

    def halved(r):
        d = r.shape[-1]
        return r.reshape(t, 2, d // 2)

    return jax.vmap(halved)(x)


def starred(x, w):
    y = x.reshape(-1, x.shape[-1]) @ w
    return y.reshape(*x.shape[:-1], w.shape[1])


def split_heads(x, n):
    x = x.reshape(*x.shape[:-1], n, x.shape[-1] // n)
    return x.swapaxes(-2, -3)


def with_heads(x):
    return split_heads(x, 2)


def parts_of_shapes(x):
    y = jnp.zeros((*x.shape[:-1], 3)) + jnp.ones((1, *x.shape))[0, ..., :3]
    z = jnp.reshape(x, (*x.shape[:-1], 2, -1))
    return y, z, jnp.ones(x.shape[1:]), jnp.ones((*x.shape, 1))


def limits(x):
    y = jnp.maximum(x, jnp.finfo(x.dtype).tiny)
    return jnp.where(x > 0.5, y + jnp.finfo(x.dtype).eps, jnp.finfo(x.dtype).min)


def limits_of_types(x):
    return jnp.where(x > 0.5, x, jnp.finfo(jnp.float32).min)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (in_turns, ([X, X + 1],)),
        (from_the_beginning, ([X, X + 1],)),
        (of_what_a_loop_begins_with, (W, X)),
        (closed_over, (X,)),
        (in_a_lambda, (X,)),
        (of_both_functions, (X,)),
        (starred, (X, np.ones((8, 5), np.float32))),
        (with_heads, (X,)),
        (parts_of_shapes, (X,)),
        (limits, (X,)),
        (limits_of_types, (X,)),
    ],
)
def test_a_function_comes_back_as_it_is(function, args):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    assert inspect.getsource(function) in str(src)
    if function is with_heads:
        assert inspect.getsource(split_heads) in str(src)


def test_turns_of_other_sizes_are_no_loop():
    src = untrace.source(in_turns)([X, X[:1]])
    assert src.report.strength == "identical", str(src.report)


def test_a_limit_that_a_variable_holds_is_that_of_the_array():
    def masked(x):
        lowest = jnp.finfo(x.dtype).min
        return jnp.where(x > 0.5, x, lowest)

    src = untrace.source(masked)(X)
    assert "return jnp.where(x > 0.5, x, jnp.finfo(x.dtype).min)" in str(src)


def test_a_sum_of_shapes_is_one_shape():
    def spread(x):
        return jnp.broadcast_to(x[..., :1], x.shape[:2] + (5,))  # noqa: RUF005

    src = untrace.source(spread)(X)
    assert "jnp.broadcast_to(x[..., :1], (*x.shape[:2], 5))" in str(src)
