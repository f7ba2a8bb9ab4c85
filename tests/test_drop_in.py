"""What `load` returns is called as the original is, and returns what that returns."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import untrace
from untrace import jaxapi
from untrace.errors import CallError

X = np.linspace(0.5, 2.0, 4, dtype=np.float32)
LEVELS = ("api", "lax")
levels = pytest.mark.parametrize("level", LEVELS)


class State(NamedTuple):
    w: Any
    n: Any

    def scaled(self, by: float) -> State:
        return self._replace(w=self.w * by)


@jax.tree_util.register_pytree_node_class
class Node:
    """A class whose constructor does not take its leaves."""

    def __init__(self, size: int) -> None:
        self.values = [jnp.ones(size), jnp.zeros(size)]
        self.size = size

    def tree_flatten(self) -> Any:
        return self.values, self.size

    @classmethod
    def tree_unflatten(cls, size: int, values: Any) -> Node:
        made = object.__new__(cls)
        made.values, made.size = list(values), size
        return made


def same(one: Any, other: Any) -> None:
    """Check that two results have one tree and the same bits."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        assert np.asarray(a).dtype == np.asarray(b).dtype


def loaded(function: Any, *args: Any, level: str = "lax", **kwargs: Any) -> Any:
    made = untrace.source(function, level=level)(*args, **kwargs)
    assert made.report.is_verified
    return made.load()


@levels
def test_states_of_the_user_come_back_as_what_they_are(level):
    def step(state: State, x: Any) -> Any:
        return state.scaled(2.0)._replace(n=state.n + 1), {"x": x * state.w}

    state = State(X, jnp.int32(3))
    f = loaded(step, state, X, level=level)
    same(f(state, X), step(state, jnp.asarray(X)))
    again, _ = f(f(state, X)[0], X)
    assert type(again) is State
    same(jax.jit(f)(state, X), jax.jit(step)(state, X))


@levels
def test_a_class_is_built_by_its_own_flattening(level):
    def turn(node: Node, x: Any) -> Node:
        made = Node(node.size)
        made.values = [node.values[1] + x, node.values[0] * x]
        return made

    f = loaded(turn, Node(4), X, level=level)
    same(f(Node(4), X), turn(Node(4), X))
    assert type(f(Node(4), X)) is Node


@levels
def test_transformations_work_as_on_the_original(level):
    optimizer = optax.adamw(1e-2)

    def loss(params: Any, state: Any, x: Any) -> Any:
        updates, state = optimizer.update(jax.tree.map(jnp.sin, params), state, params)
        new = optax.apply_updates(params, updates)
        return sum(jnp.sum(v * x) for v in new.values()), state

    params = {"b": jnp.ones(4), "w": jnp.asarray(X)}
    state = optimizer.init(params)
    f = loaded(loss, params, state, X, level=level)
    same(jax.jit(f)(params, state, X), jax.jit(loss)(params, state, X))
    one, other = (jax.jit(jax.grad(g, has_aux=True)) for g in (f, loss))
    same(one(params, state, X), other(params, state, X))
    batch = jnp.stack([X, 2 * X])
    one, other = (
        jax.jit(jax.vmap(g, in_axes=(None, None, 0), out_axes=(0, None)))
        for g in (f, loss)
    )
    same(one(params, state, batch), other(params, state, batch))


@levels
def test_arguments_by_position_keyword_and_default(level):
    def f(x: Any, scale: Any = 2.0, *rest: Any, shift: Any = 0.5, **more: Any) -> Any:
        return x * scale + shift + sum(rest) + sum(more.values())

    g = loaded(f, X, shift=1.0, level=level)
    same(g(X, shift=1.0), f(jnp.asarray(X), shift=1.0))
    same(g(x=X, shift=3.0), f(jnp.asarray(X), shift=3.0))
    same(g(X), f(jnp.asarray(X)))  # its default
    same(g(X, 2.0, shift=1.0), f(jnp.asarray(X), shift=1.0))
    for args, kwargs in [((X, 3.0), {}), ((X, 2.0, X), {}), ((X,), {"a": X}), ((), {})]:
        with pytest.raises(CallError):
            g(*args, **kwargs)
    h = loaded(f, X, 3.0, X, a=X, level=level)
    same(h(X, 4.0, X, a=X), f(jnp.asarray(X), 4.0, X, a=X))


@levels
def test_numbers_and_arrays_of_numpy_are_inputs(level):
    def f(x: Any, n: Any, t: Any) -> Any:
        return x.at[0].set(n), jnp.sin(t), {"n": n}

    g = loaded(f, jnp.asarray(X), 2, 0.5, level=level)
    same(jax.jit(g)(X, 3, 0.25), jax.jit(f)(X, 3, 0.25))
    same(g(X, 3, 0.25), jax.jit(f)(X, 3, 0.25))


def test_what_is_fixed_cannot_be_something_else():
    def f(x: Any, n: int, act: Any) -> Any:
        return act["act"](x) * n

    act = {"act": jnp.sin}
    made = untrace.source(f, static_argnames="n")(X, 2, act)
    g = made.load()
    same(g(X, 2, act), jax.jit(lambda x: f(x, 2, act))(X))
    same(g(X, n=2, act=act), g(X, 2, act))
    with pytest.raises(CallError, match="argument `n` is fixed at 2"):
        g(X, 3, act)
    with pytest.raises(CallError, match="a leaf of the arguments is fixed at"):
        g(X, 2, {"act": jnp.cos})
    with pytest.raises(CallError, match="argument `act` is another tree"):
        g(X, 2, {**act, "more": X})


def test_the_classes_of_the_file_are_taken_too():
    made = untrace.source(lambda state: state.scaled(3.0), name="thrice")(State(X, X))
    module: dict[str, Any] = {}
    exec(str(made), module)
    args = module["example_args"]()
    assert type(args["state"]) is not State
    assert type(made.load()(**args)).__module__ != __name__
    assert type(made.load()(State(X, X))) is State
    assert made.name == "thrice" and made.name in module


@levels
def test_modules_of_nnx_are_changed_in_place(level):
    nnx = pytest.importorskip("flax.nnx")

    def step(model: Any, optimizer: Any, x: Any) -> Any:
        loss, grads = nnx.value_and_grad(lambda m: jnp.mean(m(x) ** 2))(model)
        optimizer.update(model, grads)
        return {"loss": loss}

    def made() -> Any:
        model = nnx.Linear(4, 3, rngs=nnx.Rngs(0))
        return model, nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)

    x = np.ones((2, 4), np.float32)
    source = untrace.source(step, level=level)(*made(), x)
    assert source.report.is_verified
    (model, optimizer), (other, other_optimizer) = made(), made()
    for _ in range(2):
        wanted = nnx.jit(step)(other, other_optimizer, x)
        got = nnx.jit(source.load())(model, optimizer, x)
        same(got, wanted)
        same(nnx.state(model), nnx.state(other))
        same(nnx.state(optimizer), nnx.state(other_optimizer))


@levels
def test_modules_of_equinox_come_back_as_such(level):
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(4, 2, 8, 1, activation=jnp.tanh, key=jax.random.key(0))

    @eqx.filter_grad
    def gradient(model: Any, x: Any) -> Any:
        return jnp.sum(model(x) ** 2)

    def step(model: Any, x: Any) -> Any:
        grads = gradient(model, x)
        return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads))

    f = loaded(step, model, X, level=level)
    new = eqx.filter_jit(f)(model, X)
    wanted = eqx.filter_jit(step)(model, X)
    assert type(new) is type(model) and new.activation is model.activation
    same(eqx.filter(new, eqx.is_array), eqx.filter(wanted, eqx.is_array))
    other = eqx.nn.MLP(4, 2, 8, 1, activation=jnp.sin, key=jax.random.key(0))
    with pytest.raises(CallError):
        f(other, X)


def test_arguments_of_a_jitted_method_are_counted_from_self():
    class Scaled:
        @functools.partial(jax.jit, static_argnums=(0, 2))
        def step(self, x: Any, n: int) -> Any:
            return x * n

    step = Scaled().step
    made = untrace.source(step)(jnp.asarray(X), 3)
    assert made.report.is_verified
    np.testing.assert_array_equal(made.load()(X, 3), X * 3)
    # A wrapper takes over the attributes of what it wraps, and is no jitted function.
    assert jaxapi.static_arguments(step) == ((1,), ("self", "n"))
    assert jaxapi.static_arguments(jax.vmap(step)) == ((), ())


def test_numbers_that_rules_are_given_are_converted():
    @jax.custom_vjp
    def scaled(x, factor):
        return x * factor

    def forward(x, factor):
        return scaled(x, factor), (x, factor)

    def backward(saved, cotangent):
        x, factor = saved
        return cotangent * jnp.float32(factor), jnp.sum(cotangent * x)

    scaled.defvjp(forward, backward)

    def loss(x):
        return jnp.sum(scaled(x, 1e-3))

    for level in ("api", "lax"):
        loaded = untrace.source(loss, level=level)(X).load()
        for made in (jax.grad(loaded), jax.jit(jax.grad(loaded))):
            np.testing.assert_array_equal(made(X), jax.grad(loss)(X))


@levels
def test_a_batched_function_that_closes_over_an_array_keeps_its_rule(level):
    """What it closes over is an operand of the batched call, and never differentiated."""

    @jax.custom_vjp
    def scaled(x):
        return x * jnp.arange(1.0, 4.0)

    scaled.defvjp(lambda x: (scaled(x), x), lambda x, ct: (ct * x * 5.0,))

    def loss(rows):
        return jnp.sum(jax.vmap(jax.jit(scaled))(rows))

    rows = np.linspace(0.5, 2.0, 6, dtype=np.float32).reshape(2, 3)
    source = untrace.source(loss, level=level)(rows)
    assert source.report.strength == "identical"
    assert not source.report.unproved
    made = jax.grad(source.load())(rows)
    np.testing.assert_array_equal(made, jax.grad(loss)(rows))


@levels
def test_a_loop_over_a_number_is_differentiated(level):
    def power(x: Any, n: int) -> Any:
        return jax.lax.fori_loop(0, n, lambda i, total: total * x, jnp.ones_like(x))

    f = loaded(power, jnp.float32(2.0), 3, level=level)
    assert f(2.0, 4) == 16.0
    if level == "api":  # "lax" has the loop that was traced, over a traced number
        assert jax.jit(jax.grad(lambda x: f(x, 3)))(2.0) == 12.0


@levels
def test_host_functions_and_batching_rules_are_the_original_s(level):
    seen: list[Any] = []

    def host(tree: Any) -> Any:
        seen.append(type(tree))
        return np.asarray(tree.w) + 1

    @jax.custom_batching.custom_vmap
    def shifted(x: Any) -> Any:
        return x + 1.0

    @shifted.def_vmap
    def rule(axis_size: int, in_batched: Any, x: Any) -> Any:
        return x * 2.0, True

    def step(state: State, x: Any) -> Any:
        w = jax.pure_callback(host, jax.ShapeDtypeStruct((4,), np.float32), state)
        made = jax.pure_callback(lambda v: np.cos(v), w, w)
        return shifted(x) + w * made

    state = State(X, jnp.int32(3))
    f = loaded(step, state, X, level=level)
    same(f(state, X), step(state, jnp.asarray(X)))
    assert seen == [State, State]

    def many(xs: Any) -> Any:
        return jax.vmap(shifted)(xs) + shifted(xs[0])

    def several(f: Any) -> Any:
        return jax.jit(jax.vmap(f))(jnp.stack([X, X]))

    same(several(loaded(lambda x: shifted(x), X, level=level)), several(shifted))
    g = loaded(many, jnp.stack([X, X]), level=level)
    same(g(jnp.stack([X, X])), many(jnp.stack([X, X])))
