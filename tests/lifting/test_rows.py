"""Arrays that Python iterates over are unpacked into their rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

KEY = jax.random.key(0)
RAW = jax.random.PRNGKey(0)
X = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.is_verified, str(src.report)
    return str(src)


def test_what_is_unpacked_at_once_is_made_as_the_source_says():
    @jax.jit
    def noisy(x, n=2):
        first, second, third = jax.random.split(KEY, n + 1)
        x = x * jax.random.normal(first, (4,)) + jax.random.normal(second, (4,))
        return x + jax.random.normal(third, (4,))

    text = recover(noisy, X[0])
    assert "first, second, third = jax.random.split(KEY, n + 1)" in text, text


@pytest.mark.parametrize("key", [KEY, RAW])
def test_keys_that_are_taken_one_after_another(key):
    def noisy(key, x):
        keys = jax.random.split(key, 3)
        return [x + 0.1 * jax.random.normal(k, (4,)) for k in keys]

    text = recover(noisy, key, X[0])
    assert "keys = jax.random.split(key, 3)\n    return [x + 0.1 * " in text
    assert "index_in_dim" not in text
    assert "unstack" not in text


@pytest.mark.parametrize("key", [KEY, RAW])
def test_rows_that_nobody_needs_have_no_name(key):
    def second(key, x):
        parts = tuple(jax.random.split(key))
        return x * jax.random.normal(parts[1], (4,))

    text = recover(second, key, X[0])
    assert "_, key = jax.random.split(key)" in text


def test_an_array_that_is_used_as_a_whole_keeps_its_name():
    def both(key):
        keys = jax.random.split(key)
        return keys, [jax.random.normal(k) for k in keys]

    text = recover(both, KEY)
    assert "keys = jax.random.split(key)" in text
    assert "return keys" in text


def test_rows_with_cotangents_are_taken_where_they_were():
    def loss(w, x):
        total = 0.0
        for row in w:
            total = total + jnp.sum(jnp.tanh(x @ row)) * total + jnp.sum(row)
        return total

    def late(w, x):
        first = jax.lax.index_in_dim(w * 2, 0, keepdims=False)
        y = jnp.sin(x) @ first
        return jnp.sum(y)

    recover(jax.grad(loss), X, X)
    recover(jax.grad(late), X, X)


def test_a_row_under_a_closure():
    def noisy(key, x):
        keys = jax.random.split(key, 2)
        first, second = keys

        def body(row):
            return row + jax.random.normal(second, (4,))

        return jax.vmap(body)(x) + jax.random.normal(first, (4,))

    text = recover(noisy, KEY, X)
    assert "first, second = jax.random.split(key, 2)" in text


def test_loops_over_the_rows_of_arrays():
    def over_two(xs):
        total = 0.0
        for a, b in zip(xs["a"], xs["b"]):
            total = total + jnp.sum(a * b) * jnp.max(b)
        return total

    def over_one(w, x):
        for row in w:
            x = jnp.tanh(x * row) + jnp.sum(row)
        return x

    def at_once(w, x, y):
        for row in w:
            x, y = y * row, jnp.sin(x)
        return x - y

    text = recover(over_two, {"a": X, "b": X + 1})
    assert 'for a, b in zip(xs["a"], xs["b"]):' in text
    text = recover(over_one, X, X[0])
    assert "for row in w:" in text and "index_in_dim" not in text
    text = recover(at_once, X, X[0], X[1])
    assert "x, y = y * row, jnp.sin(x)" in text
    recover(jax.grad(lambda w, x: over_one(w, x).sum()), X, X[0])
    recover(jax.grad(over_two), {"a": X, "b": X + 1})


def test_rows_alone_are_no_loop():
    """A loop of nothing but rows had an empty body, and the step that writes it raised."""

    def listed(x):
        rows = []
        for row in x:
            rows.append(row)
        return rows[0] + 1, rows[1] * 2, rows[2]

    text = recover(listed, X)
    assert "for " not in text and "return row + 1, row_2 * 2, row_3" in text


def _two(x):
    y = jnp.sin(x)
    y = y * 2 + jnp.cos(y)
    return jnp.stack([y[0], y[1] * 3])


def test_the_result_of_the_users_function_is_unpacked():
    """Its rows were taken for what it returns: nothing had made them."""

    def plain(x):
        a, b = _two(x)
        return a * b

    def inside(x, n):
        def step(x):
            a, _ = _two(x * n)
            return a * 2

        return jax.lax.cond(n > 3, step, jnp.sum, x)

    def differentiated(x):
        def loss(x):
            (a, b), c = _two(x), x[0]
            return a * b + a * c

        return jax.grad(loss)(x)

    for function, args in ((plain, ()), (inside, (2,)), (differentiated, ())):
        src = untrace.source(function)(X[0], *args)
        assert src.report.strength in ("identical", "equivalent")
        text = str(src)
        assert "slice" not in text and "equations, " not in text
        assert any(f"a, {other} = " in text for other in "b_")
