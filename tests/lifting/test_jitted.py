"""Functions that a library jits for the user take the user's arguments one by one."""

import functools
import inspect

import equinox
import jax
import jax.numpy as jnp
import pytest

import untrace
from tests.lifting.installed import library

X = jnp.arange(3.0)

BOXED = library(
    """
def boxed_jit(function, **options):
    @functools.partial(jax.jit, static_argnums=2, **options)
    def run_boxed(kept, given, static):
        result = function(*given["args"], scale=given["scale"])
        return jnp.array(0), {"result": result, "static": None}, None

    def call(*args, scale, kept=None):
        boxes = {"args": args, "none": None, "scale": scale}
        marker, boxed, _ = run_boxed({"kept": kept}, boxes, "static")
        return boxed["result"]

    return call
"""
)


def recover(function, *args, **options):
    source = untrace.source(function, **options)(*args)
    assert source.report.is_verified
    return str(source).partition('"""\n\n')[2].partition("def example_args")[0]


def step(x, y, scale):
    total = jnp.sin(x) * scale
    return total + y, jnp.sum(total)


def test_the_containers_of_a_library_are_left_out():
    boxed = BOXED.boxed_jit(step)
    text = recover(lambda x, y: boxed(x, y, scale=y * 2.0), X, X)
    assert "jax.jit(step)(x, y, y * 2.0)" in text
    assert "boxes" not in text and "{" not in text and "jnp.array(0)" not in text


def test_a_donation_of_nothing_is_left_out():
    boxed = BOXED.boxed_jit(step, donate_argnums=0)
    text = recover(lambda x, y: boxed(x, y, scale=y), X, X)
    assert "jax.jit(step)(x, y, y)" in text and "donate" not in text


def test_what_is_donated_is_donated():
    boxed = BOXED.boxed_jit(step, donate_argnums=0)
    text = recover(lambda x, y: boxed(x, y, scale=y, kept=x), X, X)
    assert "donate_argnums" in text
    boxed = BOXED.boxed_jit(step, donate_argnums=1)
    text = recover(lambda x, y: boxed(x, y, scale=y), X, X)
    assert "donate_argnums=(0, 1, 2)" in text


def test_what_nobody_needs_is_not_returned():
    boxed = BOXED.boxed_jit(lambda x, scale: (jnp.sin(x) * scale, jnp.cos(x)))
    text = recover(lambda x: boxed(x, scale=x)[0] + 1.0, X)
    assert "jax.jit" in text and "jnp.cos" not in text


def test_calls_of_one_function_return_what_any_of_them_needs():
    boxed = BOXED.boxed_jit(step)

    def f(x):
        first, _ = boxed(x, x, scale=x)
        _, second = boxed(first, x, scale=x)
        return second

    text = recover(f, X)
    assert text.count("jax.jit(step)(") == 2


def test_a_longer_function_of_a_library_is_decorated_or_passed():
    made = library(
        """
@jax.jit
def run_boxed(given):
    x, y = given["x"], given["y"]
    for _ in range(2):
        x = jnp.sin(x) * y
        y = jnp.cos(y) + jnp.tanh(x) * jnp.exp(x) - jnp.sqrt(jnp.abs(y) + 1.0) * 3.0
    return {"x": x, "y": y}

def run(x, y):
    return run_boxed({"x": x, "y": y})
"""
    )
    text = recover(lambda x: made.run(x, x + 1.0)["y"] * 2.0, X)
    assert "jax.jit" in text and "run_boxed(x, x + 1.0)" in text


def test_a_training_step_of_equinox_reads_as_it_was_written():
    def step(model, x):
        return jax.tree.map(lambda w: w - 0.1, model), jnp.sum(jax.vmap(model)(x))

    model = equinox.nn.Linear(3, 2, key=jax.random.key(0))
    f = equinox.filter_jit(step)
    text = recover(lambda model, x: f(model, x), model, jnp.ones((4, 3)))
    assert "jax.jit(step)(model, x)" in text


def test_the_users_own_jit_keeps_its_arguments():
    @functools.partial(jax.jit, donate_argnums=0)
    def update(state, given):
        return state, given["x"] * 2.0

    text = recover(lambda x: update({}, {"x": x, "none": None})[1], X)
    assert "donate_argnums" in text and 'given["x"] * 2.0' in text


def test_a_call_that_jax_knows_is_of_the_run_with_its_arguments():
    @functools.partial(jax.jit, static_argnums=1)
    def power(x, n):
        return x * n if n > 2 else jnp.sin(x)

    @jax.jit
    def total(tree):
        return sum(map(jnp.sum, jax.tree.leaves(tree)))

    def f(x):
        first, second = power(x, 2), power(x, 3)
        one, two = total({"a": first}), total({"a": first, "b": second})
        again, third = power(second, 2), power(first, 3)
        return one, two, total({"a": again}), total({"a": again, "b": third})

    source = untrace.source(f)(X)
    assert source.report.is_verified
    assert "from its equations" not in str(source)
    assert str(source).count("def total") == str(source).count("def power") == 2


def test_a_librarys_function_is_jitted_at_other_static_arguments():
    @equinox.filter_jit
    def step(model, x, n, scale=1.0):
        for _ in range(n):
            x = model(x) * scale
        return x, n

    def f(model, x):
        x, _ = step(model, x, 1)
        x, _ = step(model, x, 2, scale=x)
        x, _ = step(model, x, 1)
        return step(model, x, 2, scale=x)[0]

    model = equinox.nn.Linear(3, 3, key=jax.random.key(0))
    source = untrace.source(f)(model, X)
    assert source.report.is_verified
    assert "from its equations" not in str(source)
    assert "dynamic" not in str(source)


def test_a_librarys_function_is_jitted_once_in_loops_and_derivatives():
    @equinox.filter_jit
    def loss(model, x):
        return jnp.sum(model(x) ** 2)

    def f(model, xs):
        each = jax.vmap(lambda x: loss(model, x))(xs)
        gradient = equinox.filter_grad(loss)(model, xs[0])
        total, _ = jax.lax.scan(lambda c, x: (c + loss(model, x), None), 0.0, xs)
        return each, gradient, total

    model = equinox.nn.Linear(3, 3, key=jax.random.key(0))
    source = untrace.source(f)(model, jnp.ones((2, 3)))
    assert source.report.is_verified
    assert "from its equations" not in str(source)
    assert str(source).count("def loss(") == 1 and "dynamic_nodonate" not in str(source)


def test_the_state_of_a_loop_is_the_object_that_the_run_was_given():
    class State(equinox.Module):
        a: jax.Array
        b: tuple

    @equinox.filter_jit
    def advance(s, x):
        return State(s.a + x, (s.b[0] - x, s.a))

    def f(s, xs):
        s = advance(s, xs[0])
        for k in (1.0, 2.0, 3.0):
            s = advance(s, xs[1] * k)
        s, a = jax.lax.scan(lambda s, x: (advance(s, x), s.a), s, xs)
        return jax.lax.while_loop(
            lambda s: s.a < 9.0, lambda s: advance(s, s.a), s
        ).a, a

    source = untrace.source(f)(State(X[0], (X[1], X[2])), X)
    assert source.report.is_verified
    assert "from its equations" not in str(source)
    assert str(source).count("def advance(") == 1


@functools.partial(jax.jit, static_argnames=["change"])
def changed(x, scale, change=None):
    x = x if change is None else change(x)
    return jnp.sin(x) * scale


def test_default_may_be_passed_by_position_to_a_jitted_function():
    source = untrace.source(lambda x: changed(x, x[0], None))(X)
    assert not source.report.notes
    assert "return changed(x, x[0])" in str(source)
    assert "@jax.jit\ndef changed(x, scale):" in str(source)


def test_default_may_be_passed_by_position_to_a_mapped_function():
    mapped = jax.vmap(changed.__wrapped__, in_axes=(0, None, None))
    text = recover(lambda x: mapped(x, x[0], None), X)
    assert "jax.vmap(changed, in_axes=(0, None))(x, x[0])" in text


def test_static_numbers_tell_what_jax_had_traced_before():
    layers = library("""
@functools.partial(jax.jit, static_argnums=1)
def scaled(offset, order):
    return jnp.where(jnp.arange(3) == order, float(order) * offset, 0.0) + offset**2

def both(x):
    return [scaled(-1.0, 1) * x, scaled(-2.0, 2) * x, scaled(-3.0, 1) * x]
""")
    recover(lambda x: layers.both(x), X)


def test_numbers_that_a_library_gives_to_jitted_functions_are_arrays_there():
    layers = library("""
@functools.partial(jax.jit, static_argnames=("size",))
def softmax(x, size, scales):
    y = jnp.exp(x / scales["temperature"]) + size
    return y / jnp.sum(y) * scales["factors"][0]

def both(x):
    scales = {"temperature": 1.5, "factors": (2.0, 3)}
    return softmax(x, 5, scales) + softmax(x, size=6, scales=scales)
""")
    recover(lambda x: layers.both(x), X)


def test_a_class_method_that_a_library_jits_keeps_its_arguments():
    layers = library("""
class Rotation:
    def __init__(self, angle):
        self.angle = angle

    @classmethod
    def exp(cls, tangent):
        return cls(jnp.sin(tangent) * 2.0)

    def turned(self, other):
        return Rotation(self.angle + other.angle)

jax.tree_util.register_pytree_with_keys(
    Rotation,
    lambda r: ([(jax.tree_util.GetAttrKey("angle"), r.angle)], None),
    lambda _, parts: Rotation(*parts),
)

Rotation.exp = jax.jit(Rotation.exp)

def plus(rotation, delta):
    return rotation.turned(type(rotation).exp(delta))
""")
    source = untrace.source(lambda x, d: layers.plus(layers.Rotation(x), d).angle)(X, X)
    assert source.report.is_verified and "from its equations" not in str(source)
    assert "jnp.sin(tangent) * 2.0" in str(source)


INLINE = list(getattr(jax, "Inline", [True]))


@pytest.mark.parametrize("inline", INLINE)
@pytest.mark.parametrize("level", ["lax", "api"])
def test_functions_that_ask_to_be_inlined(inline, level):
    jitted = jax.jit(step, inline=inline)
    text = recover(lambda x: jitted(x, x * 2.0, 3.0), X, level=level)
    assert "bind" not in text and "_src" not in text


def test_objects_of_numbers_that_a_library_jits_with_are_passed():
    layers = library(
        """
@jax.tree_util.register_pytree_node_class
class Bump:
    def __init__(self, *params):
        self.params = params

    def tree_flatten(self):
        return self.params, None

    @classmethod
    def tree_unflatten(cls, aux, params):
        return cls(*params)

    def value(self, z):
        a, b = self.params
        return z**a * jnp.exp(-b * z)

@jax.jit
def total(bumps, z):
    y = jnp.sin(z) * jnp.cos(z) + jnp.tan(z)
    y = jnp.exp(y) + jnp.log1p(y * y)
    return bumps[0].value(z) + y

def lensing(z):
    return total([Bump(1.0, 2.0)], z)
"""
    )
    src = untrace.source(lambda z: layers.lensing(z))(X)
    assert src.report.is_verified
    assert not any("equations" in note for note in src.report.notes)


def test_one_function_is_both_jitted_and_called():
    def two(x):
        y = jnp.sin(x)
        y = y * 2 + jnp.cos(y)
        return y * 2

    def both(x):
        return jax.jit(two)(x) + two(x)

    text = recover(both, X)
    assert "return jax.jit(two)(x) + two(x)" in text and text.count("def two") == 1


def test_a_result_without_a_name_is_called_after_what_is_jitted():
    @jax.jit
    def two(z):
        return z * 2, z[1]

    def unpacked(x):
        (first, *rest), last = two(x)
        return first * sum(rest) + last

    text = recover(unpacked, X)
    assert "two_out, last = two(x)" in text and "jit," not in text


SAMPLES = library(
    """
@jax.jit
def drawn(key, mean, scale):
    return jax.tree.map(
        lambda m, s: jax.random.normal(key, s.shape) * jnp.exp(s) + jnp.sin(m), mean, scale
    )
"""
)


def test_dicts_of_the_user_are_passed_whole():
    def sample(key, params):
        return drawn_twice(key, params["mean"], params["scale"])

    def drawn_twice(key, mean, scale):
        first = SAMPLES.drawn(key, mean, scale)
        return jax.tree.map(jnp.add, first, SAMPLES.drawn(key, first, scale))

    tree = {"mu": X, "sigma": X + 1.0}
    text = recover(sample, jax.random.key(0), {"mean": tree, "scale": tree})
    assert "def drawn(key, mean, scale):" in text
    assert "first = drawn(key, mean, scale)" in text
    assert "drawn(key, first, scale)" in text


class Loss:
    @functools.partial(jax.jit, static_argnames="self")
    def __call__(self, params, x):
        y = jnp.tanh(x * params["w"]) + params["b"]
        return jnp.mean(y**2) + jnp.sum(jnp.abs(params["w"]))


def test_an_object_whose_call_is_jitted_is_so_where_it_is_differentiated():
    loss = Loss()

    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return grads, value, loss(params, x)

    text = recover(step, {"w": X, "b": X}, X)
    assert text.count("@jax.jit\ndef loss(params, x):") == text.count("def loss") == 1
    assert "jax.value_and_grad(loss)(params, x)" in text


@functools.partial(jax.jit, static_argnames="degree")
def basis(knots, x, degree):
    y = x[:, None] - knots[degree]
    for order in range(1, degree + 1):
        y = y * jnp.sin(knots[order] * y)
    return y


@functools.partial(jax.jit, static_argnames="degree")
def spline(knots, weights, x, degree):
    return basis(knots, x, degree) @ weights


def evaluated(knots, weights, x, degree=3):
    return spline(knots, weights, x, degree)


def test_a_jitted_function_takes_no_integer_of_what_calls_it():
    """`degree` is static, and no variable of the function around."""

    def f(knots, weights, x):
        y = evaluated(knots, weights, x)
        return y + evaluated(knots, weights, y, degree=2), basis(knots, x, 3)

    src = untrace.source(f)(jnp.arange(6.0), jnp.ones(1), jnp.ones(4))
    assert src.report.strength == "identical", str(src.report)
    text = str(src)
    assert text.count("def basis") == text.count("def spline") == 1, text
    assert inspect.getsource(basis) in text
    assert "return basis(knots, x, degree) @ weights" in text
