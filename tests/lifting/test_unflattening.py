"""Classes that JAX knows as trees may compute something whenever they are made."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)


class Profile:
    """Converts what it is given, even where JAX puts it together again."""

    def __init__(self, slope, radius):
        self.slope = jnp.array(slope)
        self.radius = radius

    def tree_flatten(self):
        return ({"slope": self.slope, "radius": self.radius},), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(**children[0])

    @property
    @jax.jit
    def scale(self):
        return jnp.log(self.slope) / self.radius

    @jax.jit
    def draw(self, x):
        return jnp.sin(x * self.scale) ** self.slope


jax.tree_util.register_pytree_node_class(Profile)


class Scaled:
    """Computes more than a conversion."""

    def __init__(self, weight, bias):
        self.weight = jnp.asarray(weight, jnp.float32) / 2 + 1
        self.bias = bias


jax.tree_util.register_pytree_node(
    Scaled, lambda s: ((s.weight, s.bias), None), lambda _, parts: Scaled(*parts)
)


def drawn(radius, x):
    return Profile(2.5, radius).draw(x)


def mapped(xs):
    return jax.vmap(lambda p: jnp.sin(p.slope) * p.radius)(Profile(xs, 2 * xs))


def stepped(slope, xs):
    def step(profile, x):
        return Profile(profile.slope * x, profile.radius + 1), profile.slope

    return jax.lax.scan(step, Profile(slope, slope), xs)[1]


def scaled(x):
    return jax.jit(lambda s: s.weight * s.bias)(Scaled(x, x))


def learned(radius, x):
    return jax.value_and_grad(lambda r: jnp.sum(Profile(2.5, r).draw(x)))(radius)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (drawn, (X[0], X)),
        (mapped, (X,)),
        (stepped, (X[0], X)),
        (scaled, (X,)),
        (learned, (X[0], X)),
    ],
)
def test_functions_begin_with_what_made_their_arguments(function, args):
    src = untrace.source(function)(*args)
    assert src.report.is_verified
    assert "ritten from" not in str(src), str(src)


def test_a_parameter_stands_for_what_jax_traces():
    text = untrace.source(drawn)(X[0], X).text
    assert (
        '    slope = jnp.copy(profile.field_0["slope"])\n    return jnp.log(slope)'
        in text
    )


def scale_of(profile, x):
    return profile.draw(x) + profile.scale


@pytest.mark.parametrize("level", ["api", "lax"])
@pytest.mark.parametrize("keep_types", [False, True])
def test_programs_are_given_such_objects(level, keep_types):
    """Their leaves are no longer those of the argument once JAX has made it again."""
    profile = Profile(jnp.float32(2.5), jnp.float32(1.5))
    src = untrace.source(scale_of, level=level, keep_types=keep_types)(profile, X)
    assert src.report.strength == "identical"
    np.testing.assert_allclose(src.load()(profile, X), scale_of(profile, X), rtol=1e-6)
    if level == "api":
        assert "def scale_of(profile, x):\n    slope = jnp.copy(" in str(src)


def test_a_jitted_program_is_given_such_an_object():
    profile = Profile(jnp.float32(2.5), jnp.float32(1.5))
    src = untrace.source(jax.jit(scale_of))(profile, X)
    assert src.report.strength == "identical"
    assert str(src).count("slope = jnp.copy(profile.") == 4, str(src)


def test_gradients_and_maps_of_such_objects_come_back():
    """They are made anew where no function begins: such calls are equations."""
    profile = Profile(jnp.float32(2.5), jnp.float32(1.5))
    for function in (
        lambda p: jax.grad(lambda q: jnp.sin(q.slope) * q.radius)(p),
        lambda p: jax.tree.map(lambda leaf: leaf * 2, p),
    ):
        assert untrace.source(function)(profile).report.is_verified


def test_what_a_transformation_does_first_is_its_own():
    """`jax.pmap` takes the rows of what it maps over."""
    text = str(
        untrace.source(lambda xs: jax.pmap(lambda p: p.radius * 2)(Profile(xs, xs)))(
            X[None]
        )
    )
    assert "jax.pmap(lambda p: p.field_0" in text, text


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Box:
    size: Any
    angle: Any
    inverse: Any = None
    turned: Any = None

    def __post_init__(self):
        if isinstance(self.size, jax.Array):
            self.inverse = 1.0 / self.size
            self.turned = jnp.cos(self.angle) * self.size


def wrapped(box, x):
    return x - box.size * jnp.round(x * box.inverse) + box.turned


def looped(box, x):
    def body(_, carry):
        box, x = carry
        return box, wrapped(box, x + 1.0)

    return jax.lax.fori_loop(0, 3, body, (box, x))[1]


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.is_verified, str(src.report)
    assert "from its equations" not in str(src), str(src)
    expected = jax.jit(function)(*args)
    assert np.array_equal(jax.jit(src.load())(*args), expected), str(src)
    return str(src)


def test_fields_that_are_computed_are_no_fields_of_the_argument():
    box = Box(jnp.asarray(X * 2), jnp.asarray(X))
    text = recover(wrapped, box, X)
    assert "return x - box.size * jnp.round(x * inverse) + turned" in text, text
    assert "inverse = 1.0 / box.size" in text, text


def test_they_are_computed_wherever_jax_makes_an_object():
    box = Box(jnp.asarray(X * 2), jnp.asarray(X))
    recover(looped, box, X)
    recover(lambda boxes, xs: jax.vmap(wrapped)(boxes, xs), Box(box.size, X + 1), X)
    recover(lambda box, x: jax.jit(wrapped)(box, x) * 2.0, box, X)
