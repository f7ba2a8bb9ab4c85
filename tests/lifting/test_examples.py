"""Example inputs of a generated module."""

import jax
import numpy as np

import untrace


def test_an_argument_that_is_called_like_the_generator_does_not_hide_it():
    def noisy(rng, x):
        return x + jax.random.normal(rng, x.shape)

    src = untrace.source(noisy)(jax.random.PRNGKey(0), np.ones(40, np.float32))
    scope = {}
    exec(compile(str(src), "noisy.py", "exec"), scope)
    args = scope["example_args"]()
    assert list(args) == ["rng", "x"]
    assert args["x"].shape == (40,) and args["rng"].shape == (2,)
