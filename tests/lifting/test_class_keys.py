"""Dicts whose keys are classes hold arrays under the names of these."""

import jax
import jax.numpy as jnp

import untrace


class Ordered(type):
    def __lt__(cls, other):
        return cls.__name__ < other.__name__


class Pose(metaclass=Ordered):
    pass


class Landmark(metaclass=Ordered):
    pass


@jax.jit
def scaled(values):
    total = jnp.sum(values[Pose])
    return {kind: jnp.cos(value) * total for kind, value in values.items()}


def program(x):
    values = scaled({Pose: x + 1, Landmark: x * 2})
    return jax.vmap(lambda v: v[Pose] * v[Landmark])(values)


def test_a_class_is_a_key():
    src = untrace.source(program)(jnp.ones(3))
    assert src.report.strength == "identical", str(src.report)
    assert "from its equations" not in str(src)
    assert "lambda v: v.Pose * v.Landmark" in str(src)
