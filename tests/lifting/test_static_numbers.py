"""Functions with static arguments are one function, as in the program."""

import functools

import jax
import jax.numpy as jnp
import pytest

import untrace

X = jnp.ones((3, 3))


@functools.partial(jax.jit, static_argnames="n")
def power(x, n):
    return jnp.sin(x) ** n + n


@functools.partial(jax.jit, static_argnames=("axis", "reverse"))
def cumulate(x, axis, reverse):
    y = jnp.cumsum(jnp.sin(x), axis=axis)
    return jax.lax.cumsum(y, axis=axis, reverse=reverse)


@functools.partial(jax.jit, static_argnums=(2,), donate_argnums=0)
def descend(x, w, rate):
    return x - rate * jnp.tanh(x @ w) * jnp.mean(w) + jnp.sum(x)


@functools.partial(jax.checkpoint, static_argnums=(2,))
def block(x, w, rate):
    return x - rate * jnp.tanh(x @ w) * jnp.mean(w) + jnp.exp(-x)


@functools.partial(jax.jit, static_argnames="i")
def layer(params, x, i):
    return jnp.tanh(x @ params[f"w{i}"] + params[f"b{i}"])


@functools.partial(jax.jit, static_argnames="i")
def item(params, x, i):
    return jnp.tanh(x @ params[i] + params[i][0])


@functools.partial(jax.jit, static_argnames=("stride", "pad"))
def convolve(x, w, stride, pad="SAME"):
    return jax.nn.relu(jax.lax.conv_general_dilated(x, w, (stride, stride), pad))


def attend(q, k, axes):
    return jax.nn.softmax(jnp.einsum(axes, q, k))


def padded(x, mode):
    return jnp.pad(jnp.sin(x), 1, mode=mode)


@functools.partial(jax.jit, static_argnums=(1, 2))
def shifted(x, by, weight):
    return jnp.roll(x, by) * weight + jnp.roll(x, -by)


class Net:
    def __init__(self, scale):
        self.scale = scale

    @functools.partial(jax.jit, static_argnums=0)
    def apply(self, x):
        y = jnp.sin(x * self.scale) + jnp.cos(x) * self.scale
        return y - jnp.sum(x) ** 2 + jnp.max(x)


def of_powers(x):
    return power(x, 2) + power(x, n=3)


def of_flags(x):
    return cumulate(x, 0, True) + cumulate(x, axis=1, reverse=False)


def of_donated(x, w):
    return descend(descend(x * 1.0, w, 0.5), w, 0.25)


def of_checkpoints(x, w):
    return block(block(x, w, 0.5), w, 0.25)


def of_layers(params, x):
    for i in range(3):
        x = layer(params, x, i)
    return x


def of_items(params, x):
    return item(params, item(params, x, 0), i=2)


def of_methods(x):
    return Net(2.0).apply(Net(3.0).apply(x))


def of_batches(xs):
    return jax.vmap(lambda x: power(x, 2) * power(x, 3))(xs)


def of_words(im, w):
    return convolve(convolve(im, w, 1), w, 2, pad="VALID")


def of_equations(q, k):
    return attend(q, k, "ij,kj->ik") + attend(q, k, "ij,kj->ki")


def of_modes(x):
    return padded(padded(x, "reflect"), "edge")


def of_floats(x):
    return shifted(shifted(shifted(x, 1, 2.0), 2, 2.0), 1, 0.5)


PROGRAMS = {
    of_powers: (
        (X,),
        '@functools.partial(jax.jit, static_argnames="n")',
        "def power(x, n):",
        "return jnp.sin(x) ** n + n",
        "return power(x, 2) + power(x, 3)",
    ),
    of_flags: (
        (X,),
        '@functools.partial(jax.jit, static_argnames=("axis", "reverse"))',
        "return cumulate(x, 0, True) + cumulate(x, 1, False)",
    ),
    of_donated: (
        (X, X),
        "jax.jit, donate_argnums=(0,), static_argnames=",
        "descend(x * 1.0, w, 0.5)",
        "w, 0.25)",
    ),
    of_checkpoints: (
        (X, X),
        "@functools.partial(jax.checkpoint, static_argnums=2)",
        "return block(block(x, w, 0.5), w, 0.25)",
    ),
    of_layers: (
        ({f"w{i}": X for i in range(3)} | {f"b{i}": X[0] for i in range(3)}, X),
        "for i in range(3):",
        "x = layer(params, x, i)",
        'return jnp.tanh(x @ params[f"w{i}"] + params[f"b{i}"])',
    ),
    of_items: (
        ([X, X, X], X),
        "return jnp.tanh(x @ params[i] + params[i][0])",
        "return item(params, item(params, x, 0), 2)",
    ),
    of_methods: (
        (X,),
        'static_argnames="scale")',
        "(x, 3.0), 2.0)",
    ),
    of_words: (
        (jnp.ones((1, 3, 8, 8)), jnp.ones((3, 3, 3, 3))),
        'static_argnames=("stride", "pad")',
        "(x, w, (stride, stride), pad))",
        'convolve(convolve(im, w, 1, "SAME"), w, 2, "VALID")',
    ),
    of_equations: (
        (X, X),
        "def attend(q, k, axes):",
        "jnp.einsum(axes, q, k)",
        'attend(q, k, "ij,kj->ik") + attend(q, k, "ij,kj->ki")',
    ),
    of_floats: (
        (X,),
        "return jnp.roll(x, by) * weight + jnp.roll(x, -by)",
        "return shifted(shifted(shifted(x, 1, 2.0), 2, 2.0), 1, 0.5)",
    ),
    of_modes: ((X,), "mode=mode)", 'padded(padded(x, "reflect"), "edge")'),
    of_batches: ((X,), "power(x, 2) * power(x, 3)"),
}


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_functions_take_their_static_arguments(function):
    args, *lines = PROGRAMS[function]
    src = untrace.source(function)(*args)
    assert src.report.is_verified
    text = str(src)
    assert [line for line in lines if line not in text] == []
    assert text.count("def ") == 3  # with the main one and its example


def test_gradients_are_those_of_the_program():
    src = untrace.source(of_powers)(X)
    again = src.load()
    expected = jax.grad(lambda x: of_powers(x).sum())(X)
    assert (jax.grad(lambda x: again(x).sum())(X) == expected).all()
