"""Axes and sizes that NumPy computed are plain integers."""

import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = jnp.ones((2, 3, 4))
AXES = tuple(np.argsort([2, 0, 1]))


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (lambda x: x.transpose(AXES), "x.transpose((1, 2, 0))"),
        (lambda x: x.transpose(*AXES), "x.transpose(1, 2, 0)"),
        (lambda x: x.reshape(2, np.prod(x.shape[1:])), "x.reshape(2, 12)"),
        (lambda x: jnp.sum(x, axis=np.int64(1)), "jnp.sum(x, axis=1)"),
        (lambda x: x + jnp.zeros(np.int64(4)), "x + jnp.zeros(4)"),
        (lambda x: x + jnp.array((np.int64(3),)), "x + jnp.array((np.int64(3),))"),
        (lambda x: x[np.int64(1)], "x[np.int64(1)]"),
    ],
)
def test_a_size_is_an_integer_of_python(program, line):
    src = untrace.source(program)(X)
    assert src.report.strength == "identical", str(src.report)
    assert f"return {line}\n" in str(src)
