"""Level "api": functions of leaves that make shapes of those of the leaves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

BATCH = {
    "obs": np.ones((4, 2, 3), np.float32),
    "done": np.ones((4, 2), np.float32),
    "image": np.ones((4, 2, 5, 5), np.float32),
}


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda x: x.reshape((-1, *x.shape[2:])),
            "lambda x: x.reshape((-1, *x.shape[2:]))",
        ),
        (
            lambda x: x.reshape(2, -1, *x.shape[1:]),
            "lambda x: x.reshape((2, -1, *x.shape[1:]))",
        ),
        (
            lambda x: jnp.reshape(x, (2, -1, *x.shape[2:])),
            "lambda x: jnp.reshape(x, (2, -1, *x.shape[2:]))",
        ),
        (
            lambda x: jnp.ones(x.shape[1:]) * x[0],
            "lambda x: jnp.ones(x.shape[1:]) * x[0]",
        ),
        (
            lambda x: jnp.broadcast_to(x[None], (3, *x.shape)),
            "lambda x: jnp.broadcast_to(x[None], (3, *x.shape))",
        ),
        (
            lambda x: jnp.zeros((7, *x.shape[1:])) + x[0],
            "lambda x: jnp.zeros((7, *x.shape[1:])) + x[0]",
        ),
    ],
)
def test_a_shape_is_written_after_that_of_a_leaf(function, text):
    src = untrace.source(lambda batch: jax.tree.map(function, batch))(BATCH)
    assert src.report.is_verified, str(src.report)
    assert f"jax.tree.map({text}, batch)" in str(src)


def test_shapes_that_follow_no_leaf_are_written_for_each():
    def f(batch):
        return jax.tree.map(lambda x: x.reshape((2, x.size // 2)), batch)

    src = untrace.source(f)(BATCH)
    assert src.report.is_verified, str(src.report)
    assert "tree.map" not in str(src) and ".reshape((2, 12))" in str(src)


def test_equal_shapes_stay_numbers():
    same = {"a": BATCH["obs"], "b": BATCH["obs"]}
    src = untrace.source(lambda t: jax.tree.map(lambda x: x.reshape((8, 3)), t))(same)
    assert "x.reshape((8, 3))" in str(src)
