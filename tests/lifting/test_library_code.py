"""Level "api": what a library does is written shorter than it was programmed."""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest

import untrace
from tests.lifting.installed import library

X = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)
PARAMS = {"w": np.ones((4, 2), np.float32), "b": np.zeros(2, np.float32)}


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert "Written from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    return str(src)


def test_what_a_library_names_is_folded_and_what_the_user_names_is_not():
    layers = library("""
def dense(params, x):
    product = jnp.tanh(jnp.dot(x, params["w"]))
    bias = jnp.sin(params["b"])
    shifted = product + bias
    out = jnp.exp(jnp.tanh(shifted)) / (1.0 + jnp.cos(shifted)) - jnp.sin(shifted)
    out = jnp.square(jnp.abs(out)) + jnp.abs(out)
    return out
""")

    def model(params, x):
        hidden = jnp.exp(x)
        y = layers.dense(params, hidden)
        return y

    text = recover(model, PARAMS, X)
    assert "    product = jnp.tanh" not in text
    assert "    return jnp.square(jnp.abs(out)) + jnp.abs(out)" in text
    assert "    hidden = jnp.exp(x)\n" in text
    assert "    y = dense(params, hidden)\n" in text


def test_only_the_latest_expressions_are_folded():
    def f(x):
        return [jnp.exp(x), jnp.tanh(x)][::-1]

    def g(x):
        first, second = f(x)
        return first * second

    text = recover(g, X)
    assert "jnp.exp(x)\n" in text


def test_an_expression_is_folded_beside_one_that_has_to_stay():
    layers = library("""
def normed(x):
    scale = jax.lax.rsqrt(jnp.var(x))
    shift = jnp.mean(x)
    return (x - shift) * scale
""")
    text = recover(lambda x: jnp.exp(layers.normed(jnp.sin(x))) + layers.normed(x), X)
    assert "return (x - shift) * scale" in text or "(x - jnp.mean(x)) * scale" in text


def test_conversions_and_maps_that_do_nothing_are_left_out():
    layers = library("""
def convert(x, axis):
    return jnp.moveaxis(jnp.astype(x, jnp.float32), axis, 0)

def forward(x):
    x = jax.tree.map(convert, jnp.asarray(x), 0)
    x = jax.tree.map(operator.add, x, x)
    return jnp.tanh(jnp.reshape(jax.tree.map(lambda v: v * 2, x), (3, 4)))
""")

    def total(x):
        return jnp.sum(jax.vmap(layers.forward, in_axes=0)(x[None]))

    text = recover(jax.grad(total), X)
    assert "jnp.tanh(" in text and "* 2)" in text
    body = text.partition("def example_args")[0]
    assert "astype" not in body and "tree.map" not in body


def test_a_tree_whose_leaves_are_marked_for_derivatives_alone_is_the_tree():
    layers = library("""
from jax.extend.core import Primitive
from jax.interpreters import mlir

marked_p = Primitive("marked")
marked_p.def_impl(lambda x: x)
marked_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(marked_p, mlir.lower_fun(lambda x: x, multiple_results=False))

def mark(x):
    return marked_p.bind(x)

def forward(params, x):
    params = jax.tree.map(mark, params)
    return jnp.tanh(x @ params["w"] + params["b"])
""")
    src = untrace.source(lambda params, x: jnp.exp(layers.forward(params, x)))(
        PARAMS, X
    )
    assert src.report.strength == "equivalent", str(src.report)
    body = str(src).partition("def example_args")[0].partition("import")[2]
    assert "tree.map" not in body and "params = params" not in body, body
    assert '@ params["w"]' in body, body


def test_functions_that_call_another_and_short_ones_have_no_definition():
    layers = library("""
def value_and_grad(function):
    def passed_on(first, *rest):
        return function(first, *rest)
    return jax.value_and_grad(passed_on)

def double(x):
    return 2 * x

def doubled(tree):
    return jax.tree.map(double, tree)
""")

    def loss(params, x):
        return jnp.sum(jnp.tanh(x @ params["w"] + params["b"]))

    def model(params, x):
        value, grads = layers.value_and_grad(loss)(params, x)
        return value, layers.doubled(grads)

    text = recover(model, PARAMS, X)
    assert "jax.value_and_grad(loss)(params, x)" in text
    assert "jax.tree.map(lambda x: 2 * x, grads)" in text
    assert "def passed_on" not in text and "def double" not in text


def test_vmap_takes_and_returns_bare_arrays():
    layers = library("""
def mapped(function):
    def run(args):
        return function(args[1]), None, ()
    def outer(x):
        return jax.vmap(run, in_axes=((None, 1),), out_axes=(1, None, None))((None, x))[0]
    return outer
""")
    text = recover(lambda x: layers.mapped(jnp.cumsum)(x), X)
    assert "jax.vmap(jnp.cumsum, in_axes=1, out_axes=1)(x)" in text


def test_a_plain_product_is_a_dot():
    layers = library("""
def dense(params, x):
    y = jax.lax.dot_general(x, params["w"], (((x.ndim - 1,), (0,)), ((), ())))
    return jnp.reshape(y + params["b"], (-1, x.shape[0]))
""")
    text = recover(lambda params, x: layers.dense(params, x), PARAMS, X)
    assert 'jax.lax.dot(x, params["w"]) + params["b"]' in text
    text = recover(lambda params, x: layers.dense(params, x), PARAMS, X[None])
    assert "jax.lax.dot_general(" in text


def test_only_what_is_needed_of_a_result_is_returned():
    layers = library("""
def moments(x):
    mean = jnp.mean(x, axis=0)
    centred = x - mean
    square = jnp.square(centred)
    total = jnp.sum(square) + jnp.sum(centred) + jnp.sum(jnp.abs(centred))
    return (mean, centred), {"total": total, "square": jnp.exp(square)}, None

def described(x):
    (mean, centred), rest, _ = moments(x)
    scale = jnp.std(centred)
    shown = jnp.exp(scale) + jnp.sum(jnp.abs(mean)) + jnp.max(jnp.sin(mean))
    return jnp.tanh(centred), shown, rest
""")

    def model(x):
        out, _, _ = layers.described(x)
        return out

    text = recover(model, X)
    assert "jnp.tanh(" in text
    assert "shown" not in text and "total" not in text and "jnp.exp" not in text


def test_a_short_function_that_is_called_once_is_written_there():
    layers = library("""
class Layer:
    def __call__(self, x):
        return jnp.sin(jnp.cos(jnp.tan(x)))
""")
    layer = layers.Layer()
    text = recover(lambda x: layer(x) * 2, X)
    assert "return jnp.sin(jnp.cos(jnp.tan(x))) * 2" in text
    text = recover(lambda x: layer(layer(x)), X)
    assert "return layer(layer(x))" in text


def test_what_returns_a_list_is_unpacked_where_a_tuple_is_returned():
    layers = library("""
def _eig(m):
    w, v = jax.lax.linalg.eig(m, compute_left_eigenvectors=False)
    return w, v

@jax.custom_vjp
def eig(m):
    return _eig(m)

def eig_fwd(m):
    w, v = _eig(m)
    return (w, v), m

eig.defvjp(eig_fwd, lambda m, g: (jnp.real(g[1]) @ m,))
""")
    text = recover(lambda m: layers.eig(m @ m.T)[0], X)
    assert "w, v = jax.lax.linalg.eig(" in text and "return w, v" in text


@pytest.mark.parametrize(
    "shape, written",
    [("(x.shape[0], -1)", "reshape(-1, 1)"), ("(-1, x.shape[0])", "reshape(1, -1)")],
)
def test_a_length_that_is_open_already(shape, written):
    layers = library(f"""
def column(x):
    return jnp.reshape(x, {shape}) * 2.0
""")
    text = recover(lambda x: layers.column(x), X[0])
    assert "from its equations" not in text
    assert written in text


PARTS = """
def normalize(x, mean, var, epsilon):
    mean = mean.reshape(3, 1)
    var = var.reshape(3, 1)
    y = (x - mean) * jax.lax.rsqrt(var + epsilon)
    return y * jnp.abs(jnp.sin(var)) + jnp.cos(mean) * jnp.tan(mean)

class Norm:
    def __call__(self, x):
        mean = x.mean(1)
        square = jnp.square(x) * jnp.exp(x)
        var = jnp.maximum(0.0, square.mean(1) - jnp.square(mean))
        return normalize(x, mean, var, 1e-06)
"""


def test_a_part_of_a_function_of_a_library_is_written_there():
    norm = library(PARTS).Norm()
    text = recover(lambda x: norm(norm(x)), X)
    assert "def normalize" not in text
    assert "return norm(norm(x))" in text
    assert "rsqrt(var + 1e-06)" in text


def test_what_the_user_calls_is_a_function():
    layers = library(PARTS)

    def loss_fn(x):
        mean = x.mean(1)
        return layers.normalize(x, mean, jnp.square(mean), 1e-06)

    text = recover(loss_fn, X)
    assert "def normalize(" in text


def test_functions_that_differ_in_the_size_of_arrays_are_one():
    layers = library("""
class Layer:
    def __call__(self, params, x):
        out = jnp.dot(x, params["w"])
        bias = jnp.broadcast_to(params["b"], out.shape)
        scale = params["b"].reshape([1, out.shape[1]])
        return jnp.sin(jnp.exp(out * scale) + bias) * jnp.cos(out) - jnp.tanh(out)
""")
    layer = layers.Layer()
    params = [PARAMS, {"w": np.ones((2, 5), np.float32), "b": np.ones(5, np.float32)}]
    text = recover(lambda p, x: layer(p[1], layer(p[0], x)), params, X)
    assert text.count("def layer") == 1
    assert "out.shape" in text and ".reshape(1, -1)" in text


def test_methods_of_objects_take_the_attributes_that_are_arrays_in_some():
    layers = library("""
class Normal:
    def __init__(self, loc, scale):
        self.loc, self._scale = loc, scale

    def log_prob(self, value):
        centred = (value - self.loc) / self._scale
        normalizer = jnp.log(jnp.sqrt(6.25) * self._scale)
        return jnp.sum(-0.5 * jnp.square(centred) - normalizer) + jnp.sum(centred)
""")

    def log_density(mean, x):
        prior = layers.Normal(0.5, 3.0).log_prob(mean)
        return prior + layers.Normal(mean, 1.5).log_prob(x)

    text = recover(log_density, X[0, 0], X)
    assert "def log_prob(value, loc, scale):" in text
    assert "    prior = log_prob(mean, 0.5, 3.0)\n" in text
    assert "    return prior + log_prob(x, mean, 1.5)\n" in text


def test_functions_whose_objects_hold_other_arrays_are_not_given_theirs():
    layers = library("""
class Shift:
    def __init__(self, by):
        self.by = by
        self.unused = jnp.exp(by)

    def __call__(self, value):
        return jnp.sin(jnp.cos(jnp.tan(value + self.by) + 1.0) * 2.0)
""")

    def f(a, x):
        shift = layers.Shift(a)
        return shift(shift(x))

    text = recover(f, X[0], X)
    assert "def shift(value, by):" in text and "unused" not in text
    assert "    return shift(shift(x, a), a)\n" in text


def test_a_formula_of_a_library_that_is_used_twice_is_a_function():
    layers = library("""
def safe_increment(count):
    limit = jnp.array(2147483647, jnp.int32)
    return jnp.where(count < limit, count + jnp.array(1, jnp.int32), limit)

def step(state):
    first = safe_increment(state["first"])
    return {"first": first, "second": safe_increment(state["second"])}
""")
    state = {"first": np.int32(0), "second": np.int32(3)}
    text = recover(lambda state: layers.step(state), state)
    assert "def safe_increment(count):" in text
    assert text.count("jnp.where(") == 1
    assert 'safe_increment(state["second"])' in text


def test_a_number_that_a_library_makes_an_array_of_is_a_number():
    layers = library("""
def f(x, count):
    one = jnp.array(1, jnp.int32)
    half = jnp.asarray(0.5)
    limit = jnp.array(2147483647, jnp.int32)
    y = jnp.maximum(half * x + jnp.log(half), half)
    return y, jnp.where(one < count, one + count - one, limit)
""")
    text = recover(lambda x, n: layers.f(x, n), X, np.int32(3))
    assert "jnp.maximum(0.5 * x + jnp.log(0.5), 0.5)" in text
    assert "jnp.where(one < count, 1 + count - 1, limit)" in text


def test_a_number_of_another_type_stays_an_array():
    layers = library("""
def f(x, n):
    scale = jnp.asarray(2, jnp.float32)
    return x * scale, n * scale
""")
    text = recover(lambda x, n: layers.f(x, n), X, np.int32(3))
    assert "x * 2, n * scale" in text


def test_a_function_that_jax_inlines_is_not_jitted():
    layers = library("""
@functools.partial(jax.jit, inline=True)
def decayed(x, decay, count):
    bias = 1.0 - decay**count
    return jnp.sin(x / bias) + jnp.cos(x * bias) - jnp.exp(x)

@functools.partial(jax.jit, inline=True)
def raised(x, n):
    power = x**n
    return jnp.sin(x / power) + jnp.cos(x * power) - jnp.exp(x)

def f(x, count):
    return decayed(x, 0.9, count) + raised(x, 2)
""")
    text = recover(lambda x, n: layers.f(x, n), X, np.int32(3))
    assert text.count("jax.jit, inline=") == 1
    assert "\ndef decayed(" in text and ")\ndef raised(" in text


def test_what_the_user_jits_with_inline_stays_jitted():
    @functools.partial(jax.jit, inline=True)
    def f(x):
        return jnp.sin(x) + jnp.cos(x)

    assert "jax.jit, inline=" in recover(lambda x: f(x) * 2.0, X)


def test_an_operator_that_a_library_maps_is_a_function():
    layers = library("""
def f(params, updates):
    moved = jax.tree.map(lambda p, u: p + u, params, updates)
    scaled = jax.tree.map(lambda p, u: u * p, params, updates)
    return moved, scaled, jax.tree.map(lambda p: p + 1.0, params)
""")
    text = recover(lambda params, updates: layers.f(params, updates), PARAMS, PARAMS)
    assert "jax.tree.map(jnp.add, params, updates)" in text
    assert "jax.tree.map(lambda p, u: u * p, params, updates)" in text
    assert "jax.tree.map(lambda p: p + 1.0, params)" in text


def test_leaves_that_a_library_adds_to_zero_are_a_sum():
    layers = library("""
def f(tree):
    sums = jax.tree.map(jnp.sum, tree)
    total = jax.tree.reduce(operator.add, sums, initializer=0)
    return total, jax.tree.reduce(operator.add, sums, 1), jax.tree.reduce(jnp.add, sums, 0)
""")
    text = recover(lambda p: layers.f(p), PARAMS)
    assert text.count("sum(jax.tree.leaves(sums))") == 1
    assert "jax.tree.reduce(operator.add, sums, 1)" in text
    assert "jax.tree.reduce(jnp.add, sums, 0)" in text


def test_a_library_s_function_as_short_as_its_head_is_written_where_it_is_called():
    layers = library("""
class Dense:
    def __call__(self, kernel, inputs):
        y = jnp.reshape(jnp.ravel(inputs), inputs.shape)
        z = jnp.reshape(jnp.ravel(kernel), kernel.shape)
        del y, z
        return jax.lax.dot(inputs, kernel)

    def all(self, kernel, inputs):
        return jnp.sin(inputs), jnp.cos(kernel), jnp.tan(inputs), jnp.exp(inputs)
""")
    dense = layers.Dense()

    def model(params, x):
        first = jnp.tanh(dense(params["w"], x))
        return first, dense(params["v"], first)

    square = np.ones((4, 4), np.float32)
    text = recover(model, {"w": square, "v": square}, X)
    assert "first = jnp.tanh(jax.lax.dot(x, params" in text
    assert "def dense" not in text


def test_a_function_named_like_a_method_that_is_called_is_called_once():
    layers = library("""
def softmax(x, scale, shift, power):
    y = jnp.sin(x * scale) + jnp.cos(x / shift) - jnp.exp(x**power) * jnp.log1p(scale)
    return jax.nn.softmax(y * jnp.tanh(y) + jnp.sinh(x))

def attend(x, scale, shift, power):
    x = jnp.abs(x - jnp.mean(x))
    y = softmax(x, scale, shift, power)
    return y * jnp.tanh(y) + jnp.sin(x) - jnp.cos(x + y) * jnp.exp(x - y)
""")
    text = recover(lambda x, y: layers.attend(x, y, y + 1, y + 2), X, X)
    assert text.count("def ") == 3 and "def attend(" in text  # and `example_args`


def test_vmap_of_a_library_takes_one_axis_for_an_object_of_a_class():
    layers = library("""
@jax.tree_util.register_pytree_node_class
class Module:  # as in equinox: JAX sees what is no array as part of the tree
    __module__ = "layers"

    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def tree_flatten(self):
        return (self.weight, self.bias), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)

def ensemble(module, x):
    def run(given):
        module, x = given
        return jnp.tanh(module.weight @ x) + jnp.cos(module.bias), None

    axes = jax.tree.map(lambda _: 0, module), None
    return jax.vmap(run, in_axes=(axes,), out_axes=(0, None))((module, x))[0]
""")
    module = layers.Module(np.ones((5, 2, 4), np.float32), np.ones((5, 2), np.float32))
    text = recover(lambda module, x: layers.ensemble(module, x), module, X[0])
    assert "is written from its equations" not in text
    assert "in_axes=((0, None),)" in text


def test_vmap_of_a_library_takes_a_bare_object():
    layers = library("""
import collections

Pair = collections.namedtuple("Pair", "weight bias")

def ensemble(pair):
    def run(given):
        pair, _ = given
        made = Pair(jnp.tanh(pair.weight) @ pair.bias, jnp.cos(pair.bias))
        return made, None, ()

    made, _, _ = jax.vmap(run, in_axes=((Pair(0, 0), None),), out_axes=(0, None, None))(
        (pair, None)
    )
    return made.weight, made.bias
""")
    pair = layers.Pair(np.ones((5, 2, 4), np.float32), np.ones((5, 4), np.float32))
    text = recover(lambda pair: layers.ensemble(pair), pair)
    assert "in_axes" not in text and "None" not in text
    assert "jax.vmap(run)(pair)" in text


def test_arguments_that_a_library_takes_with_a_star_have_different_names():
    layers = library("""
import jax
import jax.flatten_util

def latest(is_known, value, x, args, options):
    return jax.lax.cond(
        is_known, lambda *_: value, lambda x, a, kw: x * 2, x, args, options
    )
""")

    def f(x, value):
        return layers.latest(x.sum() > 0, value, x, (), {})

    assert "lambda " in recover(f, X, X)


def test_functions_that_were_idle_inside_others_are_seen_when_they_call_jax():
    layers = library("""
def scaled(x, scale, is_on):
    if not is_on:
        return x
    y = jnp.sin(x) * scale
    y = jnp.tanh(y) + jnp.cos(y) * jnp.exp(y)
    y = jnp.sqrt(jnp.abs(y) + 1.0) / jnp.sum(jnp.exp(y))
    y = y - jnp.mean(jnp.abs(y)) * jnp.max(y)
    return y

def inner(x, scale, is_on):
    return scaled(x, scale, is_on)

def outer(x, scale, is_on):
    return inner(x, scale, is_on)
""")

    def model(x):
        for _ in range(4):
            x = layers.outer(x, 2.0, False)
        return layers.outer(x, 2.0, True) + layers.outer(x, 3.0, True)

    text = recover(model, X)
    assert "def scaled(x, scale):" in text
    assert "scaled(x, 2.0) + scaled(x, 3.0)" in text


def test_mapped_function_that_undoes_raveling_is_asked_from_jax():
    """`ravel_pytree` returns an object of a private class of JAX."""
    tree = {"a": jnp.zeros(3), "b": jnp.zeros((2, 2), jnp.int32)}
    _, unravel = jax.flatten_util.ravel_pytree(tree)
    source = untrace.source(lambda rows: jax.vmap(unravel)(rows))(jnp.ones((2, 7)))
    assert source.report.is_verified and not source.report.notes
    assert "from jax.flatten_util import ravel_pytree" in str(source)
    assert "jax._src" not in str(source)


def test_a_layer_is_given_its_own_entry_of_each_collection_of_variables():
    layers = library("""
class Scope:
    def __init__(self, variables, path=()):
        self.variables, self.path = variables, path

    def child(self, name):
        return Scope(self.variables, (*self.path, name))

    def get(self, collection, name):
        held = self.variables[collection]
        for step in self.path:
            held = held[step]
        return held[name]

def norm(scope, x):
    mean = 0.9 * scope.get("batch_stats", "mean") + 0.1 * jnp.mean(x, 0)
    y = (x - mean) / jnp.sqrt(jnp.var(x, 0) + scope.get("batch_stats", "least"))
    return y * scope.get("params", "scale") + scope.get("params", "bias")

def block(scope, x):
    x = norm(scope.child("first"), jnp.dot(x, scope.get("params", "w")))
    x = norm(scope.child("second"), jnp.tanh(x) * jnp.sin(x) + jnp.cos(x))
    return jnp.sinh(x) + x * jnp.exp(-x) + jnp.cosh(x)

def net(variables, x):
    x = block(Scope(variables, ("block_0",)), x)
    x = block(Scope(variables, ("block_1",)), x + 1)
    return block(Scope(variables, ("block_2",)), jnp.sin(x))
""")
    row = np.ones(4, np.float32)
    norms = ["first", "second"]
    params = {key: {"scale": row, "bias": row} for key in norms} | {"w": np.diag(row)}
    stats = {key: {"mean": row, "least": row} for key in norms}
    blocks = [f"block_{i}" for i in range(3)]
    variables = {
        "params": dict.fromkeys(blocks, params),
        "batch_stats": dict.fromkeys(blocks, stats),
    }
    text = recover(lambda variables, x: layers.net(variables, x) + 1, variables, X)
    assert "def norm(params, batch_stats, x):" in text, text
    assert "def block(params, batch_stats, x):" in text
    assert "_2(" not in text


def test_what_a_library_unpacks_and_nobody_uses_has_no_name():
    layers = library("""
def run(xs):
    def body(c, x):
        return jnp.tanh(c * x + 1.0), jnp.sin(c) * x
    last, rows = jax.lax.scan(body, xs[0], xs)
    return rows * jnp.exp(rows)
""")
    text = recover(lambda x: layers.run(x) + layers.run(2.0 * x), X)
    assert "_, rows = jax.lax.scan(" in text


def test_functions_among_the_starred_arguments_of_a_library_are_not_passed():
    layers = library("""
def value_and_grad(loss):
    def wrapped(params, *args):
        def function(params, *args):
            return loss(params, *args)

        return jax.value_and_grad(function)(params, *args)

    return wrapped
""")

    def loss(params, weight, x, beta, y):
        return jnp.mean(weight(x) * beta(jnp.tanh(x @ params["w"]).sum(1) - y))

    def step(params, x, y):
        weight = lambda x: 1 - jnp.exp(-jnp.sum(x, axis=1))
        return layers.value_and_grad(loss)(params, weight, x, jnp.square, y)

    text = recover(step, PARAMS, X, X[:, 0])
    assert "def value_and_grad(params, x, y):" in text
    assert "return jax.value_and_grad(value_and_grad)(params, x, y)" in text


def test_lists_of_functions_among_the_starred_arguments_are_not_passed():
    layers = library("""
def gradient(loss):
    def function(params, *args):
        return loss(params, *args)

    return jax.grad(function)
""")

    def loss(params, functions, x):
        for function in functions:
            x = function(x @ params["w"])[:, :1] + x
        return x.sum()

    functions = [jnp.sin, lambda x: x * 2]
    text = recover(lambda p, x: layers.gradient(loss)(p, functions, x), PARAMS, X)
    assert "jnp.sin(x @ " in text


def test_a_number_that_a_loop_of_a_library_carries_stays():
    layers = library("""
def marked(grid, rows, kind):
    def mark(carry, row):
        grid, nothing, kind = carry
        return (grid.at[row, kind].set(1.0), nothing, kind), None

    (grid, _, _), _ = lax.scan(mark, (grid, (), kind), rows)
    return grid
""")
    rows = np.array([0, 2], np.int32)

    def model(grid, rows):
        return layers.marked(layers.marked(grid, rows, 0), rows, 3)

    text = recover(model, X, rows)
    assert "from its equations" not in text
    assert "jax.lax.scan(mark, (grid, 0), rows)" in text


def test_containers_that_are_mapped_twice():
    layers = library("""
def f(x):
    mapped = lambda leaves: jnp.tanh(*leaves)
    mapped = jax.vmap(mapped, in_axes=([0],), out_axes=-1, axis_name="inner")
    return jax.vmap(mapped, in_axes=([1],), out_axes=0)([x])
""")
    text = recover(lambda x: layers.f(x), X)
    assert "jnp.tanh" in text and "([" not in text, text


def test_axes_of_a_jitted_function_are_about_its_arguments_as_they_are():
    layers = library("""
@jax.jit
def scalar(t, pair, other):
    first, second = other
    return t * pair[0] + jnp.sin(pair[1]) * first**2 - second

kernel = jax.jit(jax.vmap(scalar, in_axes=(0, None, None)))

def rows(t, numbers):
    return kernel(*(t, numbers[:2], numbers[2:]))
""")

    def model(t, numbers):
        return layers.rows(t, numbers).sum()

    text = recover(model, X[0], (1.0, 2.0, 3.0, 4.0))
    assert "from its equations" not in text
    assert "def scalar(t, pair, other):" in text
    assert "jax.jit(jax.vmap(scalar, in_axes=(0, None, None)))(" in text


STATEFUL = """
class Result:
    def __init__(self, offset, scale):
        self.offset, self.scale = offset, scale

class Kernel:
    def __init__(self, rho, tau):
        for name, value in [("rho", rho), ("tau", tau)]:
            value = jnp.where(value > 0, value, 1.0)
            setattr(self, name, jnp.sin(value) + jnp.cos(value) ** 2)
        self._width = jnp.tanh(rho) / jnp.exp(tau)
        self._width = jnp.where(self._width > 1, jnp.log(self._width), self._width)

    def moments(self, x):
        shifted = jnp.sum(x - self.rho) ** 2
        damped = jnp.where(shifted > 2, jnp.exp(-shifted), shifted * self.tau)
        larger = jnp.where(shifted > 1, jnp.sin(damped), jnp.cos(shifted))
        larger = larger + jnp.where(larger > 1, jnp.sin(damped), jnp.cos(larger))
        return Result(jnp.exp(larger) / self.tau, jnp.log1p(larger) * self._width)

    def value(self, x):
        made = self.moments(x)
        first = jnp.tanh(x * made.scale) + made.offset / (1 + self.tau) + made.scale
        return jnp.where(first > 1, jnp.sin(first), jnp.cos(made.offset))
"""


def test_values_that_objects_hand_on_are_called_after_their_attributes():
    layers = library(STATEFUL)

    def model(rho, tau, x):
        kernel = layers.Kernel(rho, tau)
        return kernel.value(x) - layers.Kernel(tau, x[1]).value(x)

    text = recover(model, np.float32(1), np.float32(2), X[0])
    assert "state" not in text
    assert "def kernel_value(x, rho, tau, width):" in text
    assert "    offset = jnp.exp(larger) / tau" in text
    assert "    scale = jnp.log1p(larger) * width" in text


def test_what_makes_an_object_is_called_like_its_class():
    layers = library("""
import functools

def with_parameters(function):
    @functools.wraps(function)
    def wrapped(self, *args, **values):
        self.rho = 2 * jnp.asarray(values["rho"]) / jnp.asarray(values["tau"])
        self.tau = jnp.sin(self.rho) + jnp.cos(self.rho) * jnp.asarray(values["tau"])
        self.width = jnp.tanh(self.rho) / jnp.exp(self.tau) - jnp.sin(self.tau)
        return function(self, *args)
    return wrapped

class OldTerm:
    @with_parameters
    def __init__(self):
        self.width = jnp.where(self.width > 1, jnp.log(self.width), self.width)
""")

    def model(x):
        first = layers.OldTerm(rho=x[0], tau=x[1])
        second = layers.OldTerm(rho=x[1], tau=x[2])
        return first.rho + first.tau * second.width - second.tau * first.width

    text = recover(model, X[0])
    assert "def old_term(values):" in text, text


def test_maps_over_one_array_are_calls():
    layers = library("""
def energy(x):
    squares = jax.tree.map(functools.partial(jnp.vdot, precision=None), x, 2.0 * x)
    return jnp.sum(jax.tree.map(jnp.exp, tree=x)) + jax.tree.reduce(jnp.add, squares, 0.0)
""")
    text = recover(lambda x: layers.energy(x), X)
    assert "jax.tree" not in text and "functools" not in text
    assert "jnp.vdot(x, 2.0 * x)" in text and "jnp.exp(x)" in text


def test_private_functions_that_are_jitted_keep_their_names():
    layers = library("""
@jax.jit
def _eval(x):
    return jnp.tanh(x) + 1.0

class Model:
    def __init__(self):
        self._step = jax.jit(self._advance)

    def _advance(self, x):
        return _eval(x) * 2.0 + _eval(x + 1.0)

    def __call__(self, x):
        return self._step(x) + self._step(-x)
""")
    src = untrace.source(lambda x: layers.Model()(x))(X)
    assert src.report.strength == "identical", str(src.report)
    text = str(src)
    assert "@jax.jit\ndef _eval(x):" in text and "jax.jit(_advance)" in text


def test_functions_that_nothing_calls_are_left_out():
    layers = library("""
def log_prob(x):
    return jnp.sin(x) * 2.0 + jnp.tanh(jnp.cos(x) - 1.0) * jnp.exp(x) / (1.0 + x**2)

def total(x):
    unused = log_prob(x + 1.0)
    log_prob_ = jnp.square(x)
    return {"a": unused, "b": log_prob_}
""")

    def f(x):
        log_prob = jnp.cos(x)
        return dict(log_prob=layers.total(x)["b"] * log_prob + log_prob)

    text = recover(f, X)
    assert "def log_prob" not in text and "log_prob = jnp.cos(x)" in text


def test_a_function_is_written_for_trees_and_for_arrays_alike():
    """Where it is given arrays alone, no tree is mapped."""
    layers = library("""
def momentum(grads, state, decay=0.9):
    new = jax.tree.map(lambda g, t: (1 - decay) * g + decay * t, grads, state)
    clipped = jax.tree.map(lambda n: jnp.clip(n, -1.0, 1.0), new)
    scaled = jax.tree.map(lambda n, g: n / (jnp.sqrt(g) + 1e-8), clipped, grads)
    return jax.tree.map(lambda n: -0.1 * n, scaled), new
""")

    def both(tree, state, x):
        return layers.momentum(tree, state), layers.momentum(x, 2 * x)

    text = recover(both, {"a": X, "b": X}, {"a": X, "b": X}, X)
    assert text.count("jax.tree.map(") == 8, text
    assert "tree.map" not in recover(lambda x, y: layers.momentum(x, y), X, X)


def test_numbers_that_inner_functions_close_over_as_arrays_stay_arrays():
    layers = library("""
def solve(rhs, y, step):
    h = jnp.asarray(step)
    def one(args):
        k = rhs(args)
        return args + h * rhs(args + 0.5 * h * k)
    def body(y, i):
        return lax.cond(i < 3, one, lambda args: args, y), None
    return lax.scan(body, y, jnp.arange(3))[0]
""")

    def loss(rate, y):
        return layers.solve(lambda y: -rate * y, y, 0.1).sum()

    src = untrace.source(jax.grad(loss))(2.0, np.ones(2, np.float32))
    assert src.report.strength == "identical", str(src.report)
    assert "from its equations" not in str(src)
    assert "h = jnp.asarray(0.1)" in str(src)


def test_what_a_function_inside_another_passes_on_is_given_once():
    layers = library("""
def scaling(w):
    def scaled(y):
        z = jnp.tanh(y) * w
        return jnp.sin(z) * jnp.cos(w) + jnp.exp(z) * jnp.abs(z) * w
    return lambda y: scaled(y) + scaled(jnp.sin(y))

def iterating(w, v, x):
    closed = jax.make_jaxpr(scaling(w))(x)

    def iterate(y):
        def body(y, _):
            return jax.core.eval_jaxpr(closed.jaxpr, [v], y)[0], None

        y = jax.lax.scan(body, y, None, length=3)[0]
        z = jnp.sin(y) * jnp.tan(y) + jnp.cos(y)
        return y * jnp.tan(y) + jnp.sin(y) - z * jnp.exp(z)

    return iterate
""")
    x = np.linspace(0.5, 2.0, 4, dtype=np.float32)
    src = untrace.source(lambda x, w: layers.iterating(w, jnp.exp(w), x)(x))(x, x)
    assert src.report.strength == "identical", str(src)
    assert "def iterate(y, v):\n" in str(src), str(src)


def test_many_arguments_that_a_library_hands_on_with_objects_among_them():
    layers = library("""
import enum

class Level(enum.Flag):
    LOSSES = enum.auto()
    MORE = enum.auto()

def gradient(f):
    def pure(*args):
        return f(*args)
    return lambda *args: jax.grad(pure)(*args)
""")

    def loss(w, a, b, c, d, e, level):
        y = jnp.tanh(w * a) + b * c
        return jnp.sum(y * d - e if layers.Level.LOSSES in level else y)

    def f(w, *rest):
        return layers.gradient(loss)(w, *rest, layers.Level.LOSSES)

    args = [np.linspace(i, i + 1, 3, dtype=np.float32) for i in range(6)]
    src = untrace.source(f)(*args)
    assert src.report.strength == "identical", str(src.report)
    assert "from its equations" not in str(src)
    assert "def pure(*args)" not in str(src)


def test_a_linear_map_that_is_evaluated_at_other_residuals_is_its_equations() -> None:
    """Here what `lax.stop_gradient` makes of them, as lineax does."""

    def f(x, b):
        _, linear = jax.linearize(lambda y: y**2 - x, b)
        shape = jax.eval_shape(lambda: b)
        operator = lx.FunctionLinearOperator(linear, shape, lx.diagonal_tag)
        return lx.linear_solve(operator, b).value

    x, b = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    src = untrace.source(f)(x, b)
    assert src.report.is_verified, str(src.report)
    said = " ".join(str(src).split())
    assert "what it was linearized at is another value here" in said
    assert "not from the calls that were made" not in said
    assert "_, linear = jax.linearize(" in str(src)
    # A list of what a linear map holds is no linear map.
    assert "consts=[" in str(src)


@pytest.mark.parametrize(
    "way", [jax.lax.stop_gradient, lambda p: jax.tree.map(jnp.exp, p)]
)
def test_functions_that_are_mapped_as_trees_cost_the_call_alone(way) -> None:
    def f(x, b):
        function = way(jax.tree_util.Partial(lambda a, y: a * y, jnp.cos(x)))
        return jnp.sin(function(b))

    src = untrace.source(f)(X, X)
    assert src.report.is_verified, str(src.report)
    said = " ".join(str(src).split())
    assert "is written from its equations: cannot write a `builtins.function`" in said
    assert "not from the calls that were made" not in said
