"""Sizes, parts of shapes and limits of types come back as the user has written them."""

import inspect
from typing import NamedTuple

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


def over_several_lines(x):
    b, t, d = x.shape
    k = d // 2
    y = (
        jax.nn.softmax(jnp.sin(x) * jnp.cos(x) + jnp.tanh(x), axis=-1)
        .reshape(b, t, 2, k)
        .transpose(0, 2, 1, 3)
    )
    return y.reshape(b, 2 * t, k) + jnp.ones((b, 2 * t, k))


def in_lists(x):
    b, t, d = x.shape
    return jnp.reshape(x, [b * t, d]), x.reshape([b, -1]), jnp.zeros([t, d])


def in_indices_of_updates(x):
    n = x.shape[-1]
    y = jnp.eye(n).reshape(-1).at[:: n + 1].set(0)
    return y, x.at[..., : n - 2].add(1.0), x[..., 1 : n - 2]


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
        (over_several_lines, (X,)),
        (in_lists, (X,)),
        (in_indices_of_updates, (X,)),
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


def test_static_arguments_have_their_names():
    def steps(x, n_steps):
        return jax.lax.fori_loop(0, n_steps, lambda _, y: y + jnp.sin(y) / n_steps, x)

    jitted = jax.jit(steps, static_argnames="n_steps")
    for name, src in (
        ("n_steps", untrace.source(steps, static_argnames="n_steps")(X, n_steps=5)),
        ("N_STEPS", untrace.source(lambda x: jitted(x, n_steps=5))(X)),
    ):
        assert src.report.is_verified
        text = str(src)
        assert f"{name} = 5\n" in text, text
        assert f"(0, {name}, lambda _, y: y + jnp.sin(y) / {name}, x)" in text, text
    both = untrace.source(lambda x: jitted(x, n_steps=5) + jitted(x, n_steps=6))(X)
    assert both.report.is_verified and "N_STEPS" not in str(both)


HEADS = 2


def of_heads(w, x):
    n, t, d = x.shape
    y = (x @ w).reshape(n, t, HEADS, d // HEADS)
    return y.reshape(n, t, d).sum()


def main(w, x):
    return of_heads(w, x)


def test_sizes_with_names_are_of_the_integers_of_the_module():
    src = untrace.source(main, symbolic=True)(W, X)
    assert src.report.is_verified and "\n\ndef main(w, x):\n" in str(src)
    assert "y = (x @ w).reshape(N, T, HEADS, D // HEADS)" in str(src)


def test_sizes_have_their_names_in_the_annotations_of_all_functions():
    pytest.importorskip("jaxtyping")
    text = str(untrace.source(main, annotate="jaxtyping")(W, X))
    assert 'def of_heads(w: Float[Array, "8 8"], x: Float[Array, "n t d"])' in text
    text = str(untrace.source(main, annotate="jaxtyping", symbolic=True)(W, X))
    for name in ("of_heads", "main"):
        shown = f'def {name}(w: Float[Array, "d d"], x: Float[Array, "n t d"])'
        assert shown in text


class Five(NamedTuple):
    a: object
    b: object
    c: object
    d: object
    e: object


def test_fields_that_are_named_one_by_one_keep_their_names():
    def by_name(p):
        q = (p.a, p.b, p.c, p.d)
        return jnp.stack(q)

    def by_slice(p):
        return jnp.stack(p[:4])

    five = Five(*(X + i for i in range(5)))
    assert "    q = (p.a, p.b, p.c, p.d)\n" in str(untrace.source(by_name)(five))
    assert "    return jnp.stack(p[:4])\n" in str(untrace.source(by_slice)(five))


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


def called_directly(x, w):
    b, t, d = x.shape

    def split(y):
        return y.reshape(b, t, 4, d // 4)

    q = split(x @ w)
    return q + split(x @ w.T)


def called_by_another(x, w):
    b, t, d = x.shape

    def split(y, h):
        return y.reshape(b, t, h, d // h)

    def apply(z):
        return split(z @ w, 4)

    return apply(x).reshape(b, -1)


def called_in_a_body(x, w):
    b, t, d = x.shape

    def split(y):
        return y.reshape(b, t, 4, d // 4)

    def body(carry, z):
        return carry + split(z @ w).sum(), None

    return jax.lax.scan(body, 0.0, jnp.stack([x, x]))[0]


def called_under_grad(x, w):
    b, t, d = x.shape

    def split(y):
        return y.reshape(b, t, 4, d // 4)

    return jax.grad(lambda w: split(x @ w).sum())(w)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (called_directly, "q + split(x @ w.T, b, t, d)"),
        (called_by_another, "split(z @ w, 4, b, t, d)"),
        (called_in_a_body, "split(z @ w, b, t, d).sum()"),
        (called_under_grad, "split(x @ w, b, t, d).sum()"),
    ],
)
def test_sizes_that_a_called_function_closes_over_are_passed(function, call):
    src = untrace.source(function)(X, W)
    assert src.report.strength == "identical", str(src.report)
    assert call in str(src) and "b, t, d = x.shape" in str(src), str(src)
    h = "h" if function is called_by_another else "4"
    assert f"y.reshape(b, t, {h}, d // {h})" in str(src)


def of_variables(x, w):
    lead = x.shape[:-1]
    y = x @ w
    ends = jnp.zeros(lead + (1, 1))  # noqa: RUF005
    return y.reshape(*lead, 2, -1) + ends + jnp.ones((*lead, 2, 1))


def of_an_array_that_has_another_value(x, w):
    lead = x.shape[:-1]
    x = (x @ w)[:1]
    return x[0, 0] + jnp.zeros((*lead, 1))


def test_parts_of_shapes_that_variables_hold():
    """They are those of the array that the variable held then."""
    src = untrace.source(of_variables)(X, W)
    assert src.report.strength == "identical", str(src.report)
    for part in (
        "y.reshape(*x.shape[:-1], 2, -1)",
        "jnp.zeros((*x.shape[:-1], 1, 1))",
        "jnp.ones((*x.shape[:-1], 2, 1))",
    ):
        assert part in src.text, src.text
    src = untrace.source(of_an_array_that_has_another_value)(X, W)
    assert src.report.strength == "identical", str(src.report)
    assert "x_2 = (x @ w)[:1]" in src.text, src.text
    assert "jnp.zeros((*x.shape[:-1], 1))" in src.text, src.text


def of_whole_shapes(x, w):
    lead = x.shape[:-1]
    heads = (*lead, -1, x.shape[-1] // 2)
    y = (x @ w).reshape(heads)
    wide = lead + (x.shape[-1] // 4, 1)  # noqa: RUF005
    return y + jnp.zeros(wide)


def of_a_shape_of_another_size(x, w):
    n = x.shape[0]
    shape = (n, -1)
    n = n - 1
    return (x @ w).reshape(shape)[n:]


def test_shapes_that_variables_hold():
    """Of one that is made of what has another value later, the parts are numbers."""
    src = untrace.source(of_whole_shapes)(X, W)
    assert src.report.strength == "identical", str(src.report)
    for part in (
        "(x @ w).reshape((*x.shape[:-1], -1, x.shape[-1] // 2))",
        "jnp.zeros((*x.shape[:-1], x.shape[-1] // 4, 1))",
    ):
        assert part in src.text, src.text
    src = untrace.source(of_a_shape_of_another_size)(X, W)
    assert src.report.strength == "identical", str(src.report)
    assert "reshape((2, -1))" in src.text, src.text


def of_parts_of_a_shape(x, w):
    b, t = x.shape[:-1]
    h, d = 2, x.shape[-1] // 2
    y = (x @ w).reshape(b, t, h, d)
    t2, d2 = x.shape[-2:]
    return y.swapaxes(1, 2).reshape(b, t2 * d2)


def test_variables_that_take_parts_of_shapes():
    src = untrace.source(of_parts_of_a_shape)(X, W)
    assert src.report.strength == "identical", str(src.report)
    for part in (
        "b, t = x.shape[:-1]",
        "t2, d2 = x.shape[-2:]",
        "reshape(b, t2 * d2)",
    ):
        assert part in src.text, src.text


def of_lists_that_change(x, w):
    shape = [*x.shape[:-1], 2, -1]
    shape[0], shape[1] = 1, 6
    longer = list(x.shape)
    longer[-1] = 4
    longer.append(2)
    return (x @ w).reshape(shape), (x @ w).reshape(longer)


def of_all_but_the_last(x):
    *lead, d = x.shape
    first, *rest = x.shape
    n, k = 2, d // 2
    y = x.reshape(*lead, n, k) + jnp.ones((*lead, n, k))
    return y.reshape(*lead, n * k), jnp.zeros((2 * first, *rest))


def of_the_middle(x):
    _, *middle, d = x.shape
    return jnp.zeros((*middle, d + 1))


def test_variables_that_take_the_rest_of_a_shape():
    src = untrace.source(of_all_but_the_last)(X)
    assert src.report.strength == "identical", str(src.report)
    for part in (
        "k = d // 2",
        "x.reshape(*x.shape[:-1], 2, k) + jnp.ones((*x.shape[:-1], 2, k))",
        "y.reshape(*x.shape[:-1], 2 * k)",
        "jnp.zeros((2 * first, *x.shape[1:]))",
    ):
        assert part in src.text, src.text
    src = untrace.source(of_the_middle)(X)
    assert src.report.strength == "identical", str(src.report)
    assert "jnp.zeros((*x.shape[1:-1], d + 1))" in src.text, src.text


def test_lists_that_change_are_not_what_they_were():
    src = untrace.source(of_lists_that_change)(X, W)
    assert src.report.strength == "identical" and not src.report.notes
    assert "reshape([1, 6, 2, -1])" in src.text and "reshape([2, 3, 4, 2])" in src.text


def of_one_block_after_another(w, x):
    b, h, c = x.shape
    y = x.reshape(b * h, c) @ w
    x = y.reshape(b, h, c)
    x = x[:, ::2] + 1
    b, h, c = x.shape
    y = jnp.tanh(x.reshape(b * h, c) @ w)
    return x + y.reshape(b, h, c)


def of_a_variable_that_may_be_another(x, s):
    x = x[:, None] if x.ndim == 1 else x
    n, d = x.shape
    s = jnp.broadcast_to(s, (d,))

    def one(column, v):
        return n * jnp.log(v) + column @ column

    return jax.vmap(one, in_axes=(1, 0))(x, s)


@jax.jit
def of_one_row(row, w):
    n = len(row)
    return jnp.where(row > 0.5, jnp.arange(n), n) * w


@jax.jit
def of_all_rows(rows, w):
    m, n = rows.shape
    return jax.vmap(lambda i: of_one_row(rows[i], w))(jnp.arange(m)) / n


def test_variables_that_take_sizes_several_times():
    src = untrace.source(of_one_block_after_another)(W, X)
    assert src.report.strength == "identical", str(src.report)
    own = inspect.getsource(of_one_block_after_another)
    assert own.partition(":\n")[2].strip() in src.text, src.text


def test_variables_that_are_assigned_again_before_their_sizes_are_taken():
    src = untrace.source(of_a_variable_that_may_be_another)(X[0, 0], np.float32(2.0))
    assert src.report.strength == "identical", str(src.report)
    assert "n, d = x.shape" in src.text and "jnp.broadcast_to(s, (d,))" in src.text
    assert "n * jnp.log(v) + column @ column" in src.text, src.text


def test_functions_have_their_own_sizes():
    src = untrace.source(of_all_rows)(X[0], 2.0)
    assert src.report.strength == "identical", str(src.report)
    assert "\n    n = len(row)\n" in src.text and "\ndef of_one_row(" in src.text
    assert "m, n = rows.shape" in src.text, src.text
