"""Tuples and objects that the user made are variables, and are passed as a whole."""

import collections
import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 6, dtype=np.float32).reshape(3, 2)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    expected = jax.tree.leaves(jax.jit(function)(*args))
    actual = jax.tree.leaves(jax.jit(src.load())(*args))
    assert all(np.array_equal(a, b) for a, b in zip(expected, actual, strict=True))
    return str(src)


def test_a_tuple_has_the_name_of_its_variable():
    def smooth(means, covariances):
        def step(carry, row):
            mean, covariance = carry
            return (mean + row, covariance * row), mean

        last = (means[-1], covariances[-1])
        _, rows = jax.lax.scan(step, last, means[:-1])
        return rows, last[0] * 2.0

    text = recover(smooth, X, X)
    assert "last = (means[-1], covariances[-1])" in text
    assert "jax.lax.scan(step, last, means[:-1])" in text
    assert "last[0] * 2.0" in text


def test_a_container_that_a_function_takes_out_of_another_one_is_a_variable():
    def chosen(state):
        return [
            (state[0][0], state[1][0]),
            (),
            tuple(jax.tree.map(lambda x: x, state[2])),
        ]

    def loss(params, x):
        (w, b), _, (u, _) = params
        return jnp.sum(x * w + b) * u

    def run(state, x):
        params = chosen(state)
        return loss(params, x) + loss(params, x + 1)

    text = recover(run, ((X, X), (X, X), (X[0, 0], X[0, 1])), X)
    assert "    params = [(state[0][0], state[1][0]), (), state[2]]\n" in text, text
    assert "loss(params, x) + loss(params, x + 1)" in text, text


def energy(p, x):
    return jnp.sum((p["m"] * x + p["s"]) ** 2)


def test_a_dict_has_the_name_of_its_variable():
    def run(model, x):
        p = {"m": model["a"] * 1.5, "s": model["b"] * 2.0}
        value, grads = jax.value_and_grad(energy)(p, x)
        return value, jax.tree.map(lambda p, g: p - g, p, grads)

    text = recover(run, {"a": X, "b": X}, X)
    assert 'p = {"m": model["a"] * 1.5, "s": model["b"] * 2.0}' in text
    assert "value, grads = jax.value_and_grad(energy)(p, x)" in text
    assert "jax.tree.map(lambda p, g: p - g, p, grads)" in text


def test_a_dict_that_changes_is_what_it_was_for_each_call():
    def run(x):
        state = {"m": x + 1, "s": x * 2}
        first = energy(state, x)
        state["m"] = x * first
        return jnp.sin(first) * energy(state, x)

    assert "(state, x)" in recover(run, X)


def test_a_list_has_the_name_of_its_variable():
    def run(x, y):
        pair = [x + y, x * y]
        return jnp.stack(pair), jnp.concatenate(pair)

    text = recover(run, X, X)
    assert "pair = [x + y, x * y]" in text
    assert "jnp.stack(pair), jnp.concatenate(pair)" in text


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Bodies:
    position: jax.Array
    velocity: jax.Array
    mass: jax.Array


def acceleration(bodies):
    return -bodies.position * bodies.mass


def test_an_object_that_the_user_made_is_passed_as_one():
    def leapfrog(bodies, dt):
        velocity = bodies.velocity + 0.5 * dt * acceleration(bodies)
        position = bodies.position + dt * velocity
        bodies = Bodies(position, velocity, bodies.mass)
        return velocity + 0.5 * dt * acceleration(bodies)

    text = recover(leapfrog, Bodies(X, X, X), 0.5)
    assert text.count("def acceleration") == 1
    made = "Bodies(position=position, velocity=velocity, mass=bodies.mass)"
    assert f"bodies = {made}" in text


class State(NamedTuple):
    position: jax.Array
    velocity: jax.Array
    mass: jax.Array


def test_fields_that_stay_are_not_written_again():
    def steps(state):
        state = state._replace(velocity=state.velocity + acceleration(state))
        state = state._replace(position=state.position + acceleration(state))
        return state._replace(mass=state.mass * jnp.sum(acceleration(state)))

    text = recover(steps, State(X, X, X))
    assert "state._replace(velocity=state.velocity + acceleration(state))" in text
    assert "state._replace(position=state.position + acceleration(state))" in text
    assert "return state._replace(mass=state.mass * jnp.sum(" in text


def test_fields_that_stay_are_those_of_an_object_around_the_function():
    def fitted(state, x):
        def loss(mass):
            changed = state._replace(mass=jnp.exp(mass))
            return jnp.sum(acceleration(changed) * x + changed.velocity)

        return x - jax.grad(loss)(x)

    text = recover(fitted, State(X, X + 1, X + 2), X)
    assert "acceleration(state._replace(mass=mass))" in text
    assert "State(" not in text.split("def fitted")[1].split("def example_args")[0]


def test_a_container_has_the_name_of_the_field_that_takes_it():
    def averaged(new, old):
        return jax.tree.map(lambda new, old: 0.005 * new + 0.995 * old, new, old)

    def steps(targets, state):
        targets = targets._replace(mass=averaged(state.mass, targets.mass))
        return targets, jnp.sum(state.position)

    state = State(X, X, {"a": X, "b": X})
    text = recover(steps, state, state)
    assert "mass = averaged(state.mass, targets.mass)" in text
    assert "return targets._replace(mass=mass), " in text


def scored(state, mass, x):
    y = jnp.sin(mass * x) + jnp.cos(x)
    return jnp.sum(y * jnp.tanh(y)) * jnp.mean(mass)


def test_an_argument_that_is_a_part_of_another_one_is_taken_itself():
    def f(state, x):
        first = scored(state, state.mass, x)
        return first + jax.grad(lambda mass: scored(state, mass, x))(state.mass)

    text = recover(f, State(X, X, X), X)
    assert text.count("def scored") == 1
    assert "first = scored(state.mass, x)" in text


def rotated(pair):
    return pair[1] * jnp.cos(pair[0]), jnp.tanh(pair[0])


def test_a_tuple_that_changes_in_a_loop_keeps_its_variable():
    def iterate(x, y):
        pair = (x, y)
        for _ in range(4):
            x, y = rotated(pair)
            pair = (jnp.sin(x), y)
        return pair

    text = recover(iterate, X, X)
    assert "for _ in range(4):" in text
    assert "rotated(pair)" in text


class Cache(NamedTuple):
    keys: jax.Array
    length: jax.Array


def test_a_list_of_objects_is_passed_as_a_whole():
    def forward(params, x, caches):
        new = []
        for i, p in enumerate(params):
            cache = caches[i]
            keys = jax.lax.dynamic_update_slice(cache.keys, x @ p, (cache.length, 0))
            x = x + keys[0]
            new.append(Cache(keys, cache.length + 1))
        return x, new

    def f(params, x):
        caches = [Cache(jnp.zeros((4, 2)), jnp.int32(0)) for _ in range(3)]
        x, caches = forward(params, x, caches)
        return forward(params, x, caches)

    text = recover(f, [np.eye(2, dtype=np.float32)] * 3, X)
    assert text.count("def forward") == 1
    assert "def forward(params, x, caches):" in text
    assert "for p, cache in zip(params, caches):" in text


def nested_mappings() -> Any:
    """Mappings of `collections` in each other and in plain containers."""
    ordered = collections.OrderedDict([("b", X), ("a", X * 2)])
    inner = collections.defaultdict(list, {"q": ordered, "c": X + 1})
    return collections.OrderedDict([("z", inner), ("a", [ordered, (inner, {"k": X})])])


def of_mappings(tree: Any) -> Any:
    made = collections.defaultdict(float, {"k": tree["z"]["q"]["b"] * 2})
    empty = collections.defaultdict(None, {"k": tree["z"]["c"]})
    held = collections.OrderedDict([("z", made), ("a", {"e": empty})])
    return held, jax.tree.map(lambda x: x * 2, tree)


@pytest.mark.parametrize("keep_types", [False, True])
@pytest.mark.parametrize("level", ["lax", "api"])
def test_mappings_of_collections_are_what_they_are(level, keep_types):
    tree = nested_mappings()
    src = untrace.source(of_mappings, level=level, keep_types=keep_types)(tree)
    assert src.report.is_verified, str(src)
    assert "NamedTuple" not in str(src) and "stands for" not in str(src)
    space: dict[str, Any] = {"__name__": "made"}
    exec(str(src), space)
    examples = space["example_args"]()
    assert jax.tree.structure(examples["tree"]) == jax.tree.structure(tree)
    expected = of_mappings(tree)
    for made in (space["of_mappings"](tree), src.load()(tree)):
        assert jax.tree.structure(made) == jax.tree.structure(expected)
        assert [*made[0]] == ["z", "a"] and [*made[1]] == ["z", "a"]
        jax.tree.map(np.testing.assert_array_equal, made, expected)


@pytest.mark.parametrize("level", ["lax", "api"])
def test_a_factory_that_no_file_can_import_makes_a_dict(level):
    def f(x: Any) -> Any:
        return collections.defaultdict(lambda: 3, {"a": x * 2})

    src = untrace.source(f, level=level)(X)
    assert src.report.is_verified, str(src)
    space: dict[str, Any] = {"__name__": "made"}
    exec(str(src), space)
    assert type(space["f"](X)) is dict


@jax.tree_util.register_pytree_with_keys_class
class Attributes(dict[str, Any]):
    """A dict whose items are attributes, and which has no others."""

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def tree_flatten_with_keys(self) -> Any:
        return [(jax.tree_util.DictKey("w"), self["w"])], None

    def tree_flatten(self) -> Any:
        return [self["w"]], None

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> Any:
        return cls(w=children[0])


def test_attributes_of_a_mapping_are_not_asked_for() -> None:
    def program(x: Any) -> Any:
        held = Attributes(w=x * 2)
        return held.w + 1

    src = untrace.source(program)(X)
    assert src.report.strength == "identical"
    assert "without a step" not in str(src)


def test_items_in_a_row_are_a_slice():
    class Curve(NamedTuple):
        scale: jax.Array
        rate: jax.Array
        shift: jax.Array
        floor: jax.Array
        weight: jax.Array

    def curve(params, t):
        scale, rate, shift, floor = params
        return scale * jnp.exp(-rate * t) + shift * t + floor

    def f(p, ps, t):
        return curve(p[:4], t) * p.weight + curve(ps[1:], t), jnp.stack(ps[:3])

    ps = [np.float32(i) for i in range(5)]
    text = str(untrace.source(f)(Curve(*ps), ps, np.ones(3, np.float32)))
    assert "curve(p[:4], t) * p.weight + curve(ps[1:], t), jnp.stack(ps[:3])" in text


def test_a_list_that_a_loop_fills_has_one_name():
    def run(x):
        for _ in range(2):
            heads = []
            for scale in (1.0, 2.0, 3.0):
                y = jnp.tanh(x * scale)
                heads.append(y / jnp.sum(y))
            x = jnp.concatenate(heads).sum(0) + jnp.stack(heads).max()
        return x

    text = recover(run, X)
    assert "jnp.concatenate(heads)" in text and "jnp.stack(heads)" in text, text


def test_an_object_without_arrays_is_no_variable():
    @dataclasses.dataclass(frozen=True)
    class Dense:
        tolerance: Any = None

        def __call__(self, a, b):
            return jnp.linalg.solve(a, b)

    @functools.partial(jax.jit, static_argnames=("f", "solver"))
    def step(f, x, solver):
        return x - solver(jax.jacfwd(f)(x), f(x))

    def residual(x):
        return jnp.array([x[0] ** 2 - x[1], x[1] - 1.0])

    def run(x):
        solver = Dense()
        for _ in range(3):
            x = step(residual, x, solver)
        return x

    text = recover(run, X[0])
    assert "return x - dense(jax.jacfwd(f)(x), f(x))" in text, text
