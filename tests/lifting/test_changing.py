"""Level "api": programs that change their arguments and objects while they are traced."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import untrace

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert "from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    return str(src)


class Variable:
    """An array that may be replaced, as the variables of flax nnx."""

    def __init__(self, value):
        self.value = value


jax.tree_util.register_pytree_with_keys(
    Variable,
    lambda box: ([(jax.tree_util.GetAttrKey("value"), box.value)], None),
    lambda aux, children: Variable(*children),
)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["states"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True)
class States:
    """What does not change itself, and holds what does."""

    states: Any


@jax.jit
def scale(params, x):
    return params["w"] * x


def update(params, x):
    y = scale(params, x)
    params["w"] = params["w"] + 1.0
    return scale(params, y)


def test_a_dict_that_is_changed_in_place_is_an_argument():
    text = recover(update, {"w": X}, X)
    assert "y = scale(params, x)" in text
    assert 'params = {"w": params["w"] + 1.0}' in text
    assert "return scale(params, y)" in text


def log_speed(holder, x):
    speed = (x - holder.states["at"]) / 0.05
    reward = speed.sum() + 1.0
    holder.states.update(at=x, speed=speed)
    return States({**holder.states}), reward


def test_a_dict_in_a_frozen_object_may_change():
    def run(holder, x):
        return log_speed(holder, x)

    def turns(holder, xs):
        return jax.lax.scan(log_speed, holder, xs)

    held = {"at": X, "speed": X}
    text = recover(run, States(dict(held)), X + 1)
    assert 'speed = (x - holder.states["at"]) / 0.05' in text
    assert "Changed in place by the original, but not here: `holder`." in text
    text = recover(turns, States(dict(held)), jnp.stack([X, X * 2]))
    assert "jax.lax.scan(log_speed, holder, xs)" in text


def step(variable, x):
    y = jax.jit(lambda box, x: box.states[0].value * x)(States((variable,)), x)
    variable.value = variable.value + y
    return variable.value * x


def test_a_variable_that_is_changed_in_place_is_an_argument():
    for level in ("api", "lax"):
        src = untrace.source(step, level=level)(Variable(X), X)
        assert src.report.is_verified, str(src.report)
    text = recover(step, Variable(X), X)
    assert "(States((variable,)), x)" in text
    assert "variable.value + y" in text


class Applied:
    """Calls a function on modules that were taken apart."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return self.function(*args)


def test_objects_are_transformed_whose_call_takes_any_arguments():
    def f(params, x):
        return jax.grad(Applied(lambda params, x: jnp.sum(params["w"] * x)))(params, x)

    assert "(params, x)" in recover(f, {"w": X}, X)


@jax.tree_util.register_pytree_node_class
class Pair:
    """A class whose functions for JAX are the user's own."""

    def __init__(self, first, second):
        self.first = first
        self.second = second

    def tree_flatten(self):
        return (self.first, self.second), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


@functools.partial(jax.jit, donate_argnums=0)
def product(pair, x):
    return Pair(pair.first * x, pair.second + x)


def test_a_jitted_function_of_a_class_is_the_main_function():
    text = recover(product, Pair(X, X), X)
    assert (
        "@functools.partial(jax.jit, donate_argnums=(0,))\ndef product(pair, x):"
        in text
    )


@jax.tree_util.register_pytree_node_class
class Used:
    """A state that must not be looked at once there is a later one."""

    def __init__(self, value):
        self.value = value

    def add(self, x):
        value, self.value = self.value, None
        return Used(value + x)

    def tree_flatten(self):
        if self.value is None:
            raise ValueError("an old state")
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def test_an_object_that_is_used_up_holds_no_arrays():
    def f(state, x):
        later = state.add(x)
        return later.add(jnp.sin(x))

    assert "jnp.sin(x)" in recover(f, Used(X), X)


def test_a_list_of_modules_may_hold_numbers_and_names():
    class Model(nnx.Module):
        def __init__(self):
            rngs = nnx.Rngs(0)
            self.layers = nnx.List([nnx.Linear(4, 4, rngs=rngs) for _ in range(2)])

        def __call__(self, x):
            for layer in self.layers:
                x = nnx.relu(layer(x))
            return x

    def infer(model, x):
        model.eval()
        return model(x)

    assert "jax.nn.relu(" in recover(infer, Model(), X)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["place", "speed"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True)
class Body:
    """What may be assigned to all the same, as in a `with` of `jax_dataclasses`."""

    place: Any
    speed: Any

    def step(self, dt):
        moved = jax.tree.map(lambda leaf: leaf, self)
        moved.speed = moved.speed - dt * moved.place
        moved.place = moved.place + dt * moved.speed
        return moved


def set_attribute(body, name, value):
    if name not in ("place", "speed"):
        raise dataclasses.FrozenInstanceError(name)
    object.__setattr__(body, name, value)


Body.__setattr__ = set_attribute


def test_an_object_that_is_frozen_only_now_and_then():
    def energy(body):
        moved = body.step(0.1).step(0.1)
        return jnp.sum(moved.speed**2) + jnp.sum(moved.place)

    recover(jax.grad(energy), Body(X, X))
