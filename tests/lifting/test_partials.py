"""Arguments that are bound to what a transformation made of a function."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import untrace

X = jnp.arange(3.0)


def recover(function, *args):
    source = untrace.source(function)(*args)
    assert source.report.is_verified, source.report
    assert not any("equations" in note for note in source.report.notes)
    return str(source).partition('"""\n\n')[2].partition("def example_args")[0]


def loss(w, x):
    return jnp.sum(jnp.tanh(w * x))


def test_transformed_functions_with_bound_arguments_keep_their_transformation():
    text = recover(lambda w, xs: jax.vmap(partial(jax.grad(loss), w))(xs), X[1], X)
    assert "jax.vmap(functools.partial(jax.grad(loss), w))(xs)" in text


def test_partials_that_bind_nothing_are_what_they_wrap():
    def shaded(w, xs):
        return jax.vmap(partial(jax.grad(lambda x: loss(w, x))))(xs)

    text = recover(shaded, X[1], X)
    assert "partial" not in text and "jax.vmap(jax.grad(lambda x: loss(w, x)))" in text


def test_bound_floats_are_arguments_of_derivatives():
    def scaled(scale, w, x):
        return loss(w, x) * scale

    def program(w, xs):
        gradient = partial(jax.grad(scaled, argnums=1), 2.0)
        return jax.vmap(partial(gradient, w))(xs)

    text = recover(program, X[1], X)
    gradient = "functools.partial(jax.grad(scaled, argnums=1), 2.0, w)"
    assert f"jax.vmap({gradient})(xs)" in text


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def floored(low, x):
    return jnp.maximum(low, x)


floored.defvjp(lambda low, x: (floored(low, x), None), lambda low, _, g: (g * low,))


def test_functions_with_rules_keep_them():
    def program(xs):
        return jax.grad(lambda x: jax.vmap(partial(floored, 0.5))(x).sum())(xs)

    assert "defvjp" in recover(program, X)


@jax.tree_util.register_pytree_node_class
class Layer:
    def __init__(self, weight):
        self.weight = weight

    def tree_flatten(self):
        return (self.weight,), None

    @classmethod
    def tree_unflatten(cls, aux, parts):
        return cls(*parts)

    @jax.jit
    def apply(self, x):
        return jnp.tanh(self.weight * x)

    @partial(jax.jit, static_argnums=2)
    def power(self, x, n):
        return self.weight * x**n


def test_transformed_methods_are_bound_to_their_objects():
    text = recover(lambda layer, xs: jax.vmap(layer.apply)(xs), Layer(X[1]), X)
    assert "return jnp.tanh(layer.weight * x)" in text
    assert "jax.vmap(functools.partial(apply, layer))(xs)" in text
    text = recover(lambda layer, xs: jax.lax.map(layer.apply, xs), Layer(X[1]), X)
    assert "jax.lax.map(functools.partial(apply, layer), xs)" in text


def test_fixed_arguments_of_transformed_methods_are_left_out():
    def program(layer, xs):
        return jax.vmap(layer.power, in_axes=(0, None))(xs, 3)

    text = recover(program, Layer(X[1]), X)
    assert "return layer.weight * x**3" in text


BOUND = {
    "scan": (lambda f: partial(lax.scan, lambda c, x: (f(c) + x, c)), (X[0], X)),
    "fori_loop": (lambda f: partial(lax.fori_loop, 0, 3, lambda _, c: f(c)), (X,)),
    "while_loop": (lambda f: partial(lax.while_loop, lambda x: x[1] < 9.0, f), (X,)),
    "switch": (lambda f: partial(lax.switch, 1, [jnp.sin, f]), (X,)),
    "map": (lambda f: partial(lax.map, f), (X,)),
}


@pytest.mark.parametrize("name", BOUND)
@pytest.mark.parametrize("maker", [jax.jit, jax.checkpoint])
def test_functions_that_control_flow_has_bound(name, maker):
    bind, args = BOUND[name]

    def program(w, *args):
        return maker(bind(lambda x: x * w))(*args)

    text = recover(program, X[1], *args)
    assert f"functools.partial(jax.lax.{name}, " in text


def test_keywords_that_are_bound_to_public_functions_stay():
    highest = partial(jnp.matmul, precision=lax.Precision.HIGHEST)
    text = recover(
        lambda w, xs: jax.vmap(highest, (None, 0))(w, xs), jnp.eye(3), X[None]
    )
    assert "partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)" in text
    text = recover(
        lambda w, xs: jnp.vectorize(highest, signature="(n,n),(n)->(n)")(w, xs),
        jnp.eye(3),
        X[None],
    )
    assert "jnp.vectorize(" in text and "precision=" in text


def test_floats_that_are_bound_to_functions_of_the_user_stay_bound():
    def step(carry, x, dt, power):
        carry = carry + dt * x**power
        return carry, carry

    text = recover(lambda x: lax.scan(partial(step, dt=0.1, power=2), x[0], x), X)
    assert "jax.lax.scan(functools.partial(step, dt=0.1), x[0], x)" in text
    assert "def step(carry, x, dt):" in text and "carry + dt * x**POWER" in text
    assert "POWER = 2\n" in text


def test_partials_of_partials_are_opened():
    """JAX puts an object of its own between a `Partial` and the one it is made of."""

    def dense(w, x):
        return jnp.tanh(w * x)

    def f(w, x):
        inner = jax.tree_util.Partial(jax.tree_util.Partial(dense), w)
        y, back = jax.vjp(inner, x)
        value, forward = jax.linearize(inner, x)
        return back(y), forward(x), value

    src = untrace.source(f)(X, X)
    assert src.report.strength == "identical", str(src.report)
    text = str(src)
    assert "jax.vjp(dense, x)" in text and "jax.linearize(dense, x)" in text
