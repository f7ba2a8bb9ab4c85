"""What classes compute when JAX puts objects of them together comes back from calls."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Rotation:
    angle: jax.Array
    scale: jax.Array

    def __post_init__(self):
        self.matrix = self.scale * jnp.eye(2) + jnp.sin(self.angle)

    def apply(self, x):
        return self.matrix @ x


@jax.tree_util.register_pytree_node_class
class Pair:
    __slots__ = ("a", "b", "dot")

    def __init__(self, a, b):
        self.a, self.b = a, b
        self.dot = jnp.dot(a, b)

    def tree_flatten(self):
        return (self.a, self.b), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Cached:
    x: jax.Array
    y: jax.Array
    total: jax.Array | None = None

    def __post_init__(self):
        self.total = self.x * 2 + self.y


def scanned(rotation, xs):
    def step(carry, x):
        y = rotation.apply(x) + carry
        return y, y.sum()

    return jax.lax.scan(step, jnp.zeros(2), xs)


def turned(rotation, xs):
    def body(i, held):
        return dataclasses.replace(held, angle=held.angle + held.apply(xs[0])[0])

    return jax.lax.fori_loop(0, 3, body, rotation)


@jax.jit
def doubled(rotation, x):
    return rotation.apply(x) * 2


def jitted(rotation, xs):
    other = dataclasses.replace(rotation, angle=rotation.angle + 1)
    return doubled(rotation, xs[0]) + doubled(other, xs[0])


def gradient(rotation, xs):
    return jax.grad(lambda held: held.apply(xs[0]).sum())(rotation)


def mapped(rotation, xs):
    def made(angle, x):
        return Rotation(angle, rotation.scale).apply(x)

    return jax.vmap(rotation.apply)(xs), jax.vmap(made)(xs[:, 0], xs)


def checkpointed(rotation, xs):
    @jax.checkpoint
    def loss(held, x):
        return jnp.sum(held["inner"][0].apply(x) ** 2)

    return jax.value_and_grad(loss)({"inner": [rotation]}, xs[0])


def branched(rotation, xs):
    def turn(held):
        return held.apply(xs[1])

    return jax.lax.cond(xs[0, 0] > 0, turn, lambda held: held.angle * xs[1], rotation)


def slotted(rotation, xs):
    def step(pair, x):
        pair = Pair(pair.a * x, pair.b + pair.dot)
        return pair, pair.dot

    return jax.lax.scan(step, Pair(xs[0], xs[1]), xs)


def after_a_loop(rotation, xs):
    def body(_, held):
        return dataclasses.replace(held, angle=held.angle + 1)

    return jax.lax.fori_loop(0, 3, body, rotation).apply(xs[0])


def descended(rotation, xs):
    loss, slope = jax.value_and_grad(lambda held: held.apply(xs[0]).sum())(rotation)
    rotation = jax.tree.map(lambda p, d: p - 0.1 * d, rotation, slope)
    return loss, rotation.apply(xs[0]), slope.matrix


@jax.jit
def moved(rotation, by):
    return dataclasses.replace(rotation, angle=rotation.angle + by)


def moved_on(rotation, xs):
    for _ in range(3):
        rotation = moved(rotation, xs[0, 1])
    return rotation.apply(xs[1])


ROTATION = Rotation(jnp.float32(0.3), jnp.float32(2.0))
WRITTEN = {
    "scanned": ["matrix = compute_matrix(r", "y = apply(x, matrix) + carry"],
    "moved_on": ["for _ in range(3):\n        rotation = moved(rotation, xs[0, 1])\n"],
}
XS = np.arange(6, dtype=np.float32).reshape(3, 2)
PROGRAMS = (
    scanned,
    turned,
    jitted,
    gradient,
    mapped,
    checkpointed,
    branched,
    slotted,
    after_a_loop,
    descended,
    moved_on,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_attributes_that_a_class_computes_are_known(program):
    src = untrace.source(program)(ROTATION, XS)
    assert src.report.is_verified, str(src)
    assert "from its equations" not in str(src)
    for text in WRITTEN.get(program.__name__, ()):
        assert text in str(src), str(src)
    wanted, made = program(ROTATION, XS), src.load()(ROTATION, XS)
    for one, other in zip(jax.tree.leaves(wanted), jax.tree.leaves(made), strict=True):
        np.testing.assert_array_equal(one, other)


@jax.jit
def shifted(held, by):
    return dataclasses.replace(held, x=held.x + by)


def test_a_leaf_that_a_class_computes_anew_is_not_what_it_was_given():
    def program(held, xs):
        held = shifted(shifted(held, xs[0]), xs[1])
        return held.total * held.x

    cached = Cached(jnp.ones(2), jnp.arange(2.0))
    src = untrace.source(program)(cached, XS)
    assert src.report.is_verified and "from its equations" not in str(src)
    assert "total = compute_total(held.x, held.y)" in str(src)
    np.testing.assert_array_equal(src.load()(cached, XS), program(cached, XS))


def test_what_jax_does_not_take_apart_is_not_looked_into():
    """A leaf may lead to every object of the process, as a function to its module."""

    def program(x):
        def double(leaf):
            return leaf if callable(leaf) else leaf * 2

        return jax.tree.map(double, [x, np.sin, Rotation(x[0, 0], x[0, 1])])[0]

    src = untrace.source(program)(XS)
    assert src.report.is_verified


def looped(held, xs):
    def step(held, x):
        held = Cached(held.x * x.sum(), held.y + held.total)
        return held, held.total

    return jax.lax.scan(step, held, xs)


def called(held, xs):
    for x in xs:
        held = shifted(held, x)
    return held.total * held.x, held


def inside(held, xs):
    def moved(held, x):
        return shifted(held, x)

    return moved(held, xs[0]).total


@pytest.mark.parametrize("program", [looped, called, inside])
def test_leaves_of_results_that_a_class_computes_anew(program):
    cached = Cached(jnp.ones(2), jnp.arange(2.0))
    src = untrace.source(program)(cached, XS)
    assert src.report.is_verified and "from its equations" not in str(src), str(src)
    wanted, made = program(cached, XS), src.load()(cached, XS)
    for one, other in zip(jax.tree.leaves(wanted), jax.tree.leaves(made)):
        np.testing.assert_array_equal(one, other)


@jax.tree_util.register_pytree_node_class
class Unit:
    """Holds one array, which it changes, and containers of others."""

    def __init__(self, q):
        self.q = q / jnp.sqrt(jnp.sum(q**2))
        self.parts = (self.q * 2, [self.q + 1])
        self.by_name = {"sine": jnp.sin(self.q)}

    def tree_flatten(self):
        return (self.q,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@jax.jit
def turned_by(unit, x):
    return Unit(unit.q + x.sum())


def repeated(unit, xs):
    for _ in range(3):
        unit = turned_by(unit, xs[0])
    return unit.parts[1][0] * unit.by_name["sine"]


def chosen(unit, xs):
    def other(held):
        return Unit(held.parts[0])

    return jax.lax.cond(xs[0, 1] > 0, other, lambda held: held, unit).by_name


def until(unit, xs):
    def is_low(held):
        return held.by_name["sine"].sum() < xs[0, 1]

    return jax.lax.while_loop(is_low, lambda held: Unit(held.parts[0]), unit).parts


def slope(unit, xs):
    return jax.grad(lambda held: (held.parts[0] * xs[0]).sum())(unit).q


def several(unit, xs):
    return jax.vmap(lambda x: Unit(unit.q + x))(xs).q


@pytest.mark.parametrize("program", [repeated, chosen, until, slope, several])
def test_objects_that_a_class_makes_of_one_array(program):
    """What a gradient or a map returns is not taken apart: other equations made it."""
    unit = Unit(jnp.asarray(XS[1, :2]))
    src = untrace.source(program)(unit, XS)
    assert src.report.is_verified and "Written from" not in str(src), str(src)
    if program not in (slope, several):
        assert "from its equations" not in str(src), str(src)
    wanted, made = jax.jit(program)(unit, XS), jax.jit(src.load())(unit, XS)
    for one, other in zip(jax.tree.leaves(wanted), jax.tree.leaves(made)):
        np.testing.assert_allclose(one, other, rtol=1e-6)
