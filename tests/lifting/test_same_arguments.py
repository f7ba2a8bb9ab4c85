"""A function that is given one value twice is the one that takes two."""

import jax
import jax.numpy as jnp
import numpy as np

import untrace

X = np.linspace(0.1, 1.0, 3, dtype=np.float32)


def tree_vdot(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b))
    return sum([jnp.vdot(x, y) for x, y in pairs])


def test_calls_give_one_argument_twice():
    def norm(a):
        return jnp.sqrt(tree_vdot(a, a))

    def run(x, y):
        return norm(x) + tree_vdot(x, y) + norm(jnp.sin(y))

    src = untrace.source(run)(X, X + 1)
    assert src.report.strength == "identical", str(src.report)
    assert "return jnp.sqrt(tree_vdot(a, a))" in src.text, src.text
    assert "tree_vdot_2" not in src.text, src.text


def test_what_would_be_computed_twice_is_not():
    def run(x, y):
        return tree_vdot(*[jnp.sin(x)] * 2) + tree_vdot(x, y)

    src = untrace.source(run)(X, X + 1)
    assert src.report.strength == "identical", str(src.report)
    assert src.text.count("jnp.sin(x)") == 1, src.text


def test_a_parameter_that_gets_another_value_is_its_own():
    def scaled(a, b):
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)):
            a = x + 1
            a = a * y
        return a

    def run(x, y):
        return scaled(x, x) + scaled(x, y)

    src = untrace.source(run)(X, X + 1)
    assert src.report.strength == "identical", str(src.report)
    expected = jax.jit(run)(X, X + 2)
    assert np.array_equal(jax.jit(src.load())(X, X + 2), expected)
