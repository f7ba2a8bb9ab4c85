"""Functions that close over values and are passed several times."""

import jax
import jax.numpy as jnp
import numpy as np

import untrace

W = np.linspace(-1.0, 1.0, 16, dtype=np.float32).reshape(4, 4)
XS = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)


def recover(function, *args, **options):
    src = untrace.source(function, **options)(*args)
    assert src.report.is_verified, str(src.report)
    assert "from its equations" not in str(src), src.report.notes
    return str(src)


def test_function_is_defined_once():
    def f(w, xs):
        def unit(x):
            y = jnp.tanh(x @ w)
            return y / jnp.linalg.norm(y)

        return jax.vmap(unit)(xs), jax.vmap(unit)(2 * xs), jax.lax.map(unit, xs)

    text = recover(f, W, XS, types=True)
    assert text.count("def unit(") == 1 and "unit_2" not in text
    assert "# f32[4] -> f32[4]" in text


def test_defaults_are_seen_too():
    def f(w, xs):
        def unit(x, w=w):
            y = jnp.tanh(x @ w)
            return y / jnp.linalg.norm(y)

        return jax.vmap(unit)(xs), jax.vmap(unit, in_axes=(0, None))(xs[:2], w)

    assert recover(f, W, XS).count("def unit") == 1


def test_types_that_differ_are_not_said():
    def f(w, xs):
        def scaled(x):
            y = jnp.sin(x)
            return y * w[0, 0]

        return jax.vmap(scaled)(xs), jax.vmap(scaled)(xs[0])

    text = recover(f, W, XS)
    assert text.count("def scaled") == 1 and "def scaled(x):\n" in text
    text = recover(f, W, XS, annotate="jaxtyping")
    assert text.count("def scaled") == 1 and "def scaled(x):\n" in text


def test_types_of_functions_inside_are_not_said_either():
    def f(w, xs):
        def scaled(x):
            def shifted(y):
                z = y + x.sum()
                return jnp.sin(z) * w[0, 0]

            return jax.vmap(shifted)(x), jax.vmap(shifted)(-x)

        return jax.vmap(scaled)(xs), jax.vmap(scaled)(xs[:, :2])

    text = recover(f, W, XS, types=True)
    assert text.count("def scaled(x):\n") == 1
    assert text.count("def shifted(y):  # f32[] -> f32[]\n") == 1

    def g(w, xs):
        def scaled(x):
            def shifted(y):
                z = y + x.sum()
                return jnp.sin(z) * w[0, 0]

            return jax.vmap(shifted)(x), jax.vmap(shifted)(-x)

        return jax.vmap(scaled)(xs), jax.vmap(scaled)(xs[None])

    assert recover(g, W, XS).count("def shifted(y):\n") == 1


def test_closures_over_other_values_are_other_functions():
    def f(w, xs):
        def made(v):
            def unit(x):
                y = jnp.tanh(x @ v)
                return y / jnp.linalg.norm(y)

            return unit

        return jax.vmap(made(w))(xs), jax.vmap(made(w.T))(xs)

    text = recover(f, W, XS)
    assert text.count("def unit") == 2


def test_function_of_a_loop_is_defined_before_it():
    def f(h, xs):
        first = h

        def unit(x):
            y = jnp.tanh(x @ first)
            return y / jnp.linalg.norm(y)

        for _ in range(4):
            h = h + jax.vmap(unit)(xs).mean(0)
        return h

    text = recover(f, W, XS)
    assert text.count("def unit") == 1 and "for _ in range(4):" in text


def test_inner_functions_see_those_around():
    def f(w, xs):
        @jax.jit
        def unit(x):
            y = jnp.tanh(x @ w)
            return y / jnp.linalg.norm(y)

        @jax.checkpoint
        def both(y):
            z = jax.vmap(unit)(y) + 1
            return jnp.sin(z) + jax.vmap(lambda x: unit(x) * 2)(z)

        return (
            jax.vmap(unit)(xs),
            both(xs),
            jax.vmap(jax.grad(lambda x: unit(x).sum()))(xs),
        )

    text = recover(f, W, XS)
    assert text.count("def unit") == 1 and "unit_2" not in text


def test_local_function_does_not_hide_one_that_a_lambda_in_it_calls():
    """Without loops the lambda was not looked into: the local function called itself."""

    def move(x, by):
        y = jnp.sin(x)
        return y * by + jnp.cos(y)

    def walk(x, bys):
        start = move(x, 2.0)

        def step(x, by):
            return jax.lax.cond(by > 0, lambda x: x, lambda x: move(x, by), x), start

        step.__name__ = "move"
        return jax.lax.scan(step, x, bys)

    for reroll in ("none", "auto"):
        text = recover(walk, 1.0, np.arange(3, dtype=np.float32), reroll=reroll)
        assert "    def move_2(x, by):" in text
        assert "lambda x: move(x, by)" in text
