"""Functions that only hand on what they are given are what they wrap."""

import functools

import jax
import jax.numpy as jnp
import pytest

import untrace

X = jnp.linspace(0.5, 1.5, 3)


def checked(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def accepted(value):
    return value


def through(function, args, kwargs):
    return accepted(function(*args, **kwargs))


def typed(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return through(function, args, kwargs)

    return wrapper


@jax.jit
@typed
def row(x, knots):
    y = jnp.sin(x) * knots
    return jnp.sum(y) + jnp.prod(knots[:-1])


@functools.partial(jax.jit, static_argnames="n")
@checked
def pad(x, n):
    return jnp.concatenate([jnp.zeros(n), x, jnp.ones(n)])


@checked
def loss(params, batch, scale=2.0):
    return jnp.sum((params["w"] * batch["x"] - batch["y"]) ** 2) * scale


@jax.checkpoint
@typed
def layer(h, w):
    return jnp.tanh(h @ w)


@checked
def step(carry, x):
    return carry + jnp.sin(x), carry * x


class Model:
    @typed
    def forward(self, x, y):
        return jnp.sin(x) * y


def rows(x, knots):
    knots = pad(knots, n=2)
    return jax.vmap(lambda v: row(v, knots=knots))(x) + row(x[0], knots)


def gradient(x):
    return jax.grad(loss)({"w": x}, {"x": x, "y": x + 1})


def checkpointed(x):
    return layer(x, jnp.outer(x, x))


def scanned(x):
    return jax.lax.scan(step, x[0], x)


def method(x):
    return jax.jit(Model().forward)(x, y=x + 3)


@pytest.mark.parametrize(
    ("program", "n_args", "heads"),
    [
        (rows, 2, ["pad(x)", "row(x, knots)"]),
        (gradient, 1, ["loss(params, batch)"]),
        (checkpointed, 1, ["layer(h, w)"]),
        (scanned, 1, ["step(carry, x)"]),
        (method, 1, ["forward(x, y)"]),
    ],
)
def test_a_wrapper_is_what_it_wraps(program, n_args, heads):
    src = untrace.source(program)(*[X] * n_args)
    assert src.report.strength == "identical", str(src.report)
    assert "args" not in str(src).split("def example_args")[0]
    assert all(f"def {head}:" in str(src) for head in heads)


def doubled(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return 2 * function(*args, **kwargs)

    return wrapper


def swapped(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args[::-1])

    return wrapper


def picky(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) if kwargs else function(*args) + 1

    return wrapper


def with_same(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(args[0], args[0])

    return wrapper


@pytest.mark.parametrize("decorator", [doubled, swapped, picky, with_same])
def test_a_wrapper_that_does_more_is_called(decorator):
    @decorator
    def ratio(a, b):
        return jnp.sin(a) / jnp.cos(b)

    def program(x):
        y = jax.vmap(ratio)(x, x + 1)
        return y + jax.vmap(ratio)(x, x + 2)

    src = untrace.source(program)(X)
    assert src.report.is_verified, str(src.report)
    assert jnp.array_equal(jax.jit(src.load())(X), jax.jit(program)(X))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
@typed
def root(x, limit):
    return jnp.sqrt(x)


@typed
def root_fwd(x, limit):
    return jnp.sqrt(x), (x,)


@typed
def root_bwd(limit, residuals, g):
    (x,) = residuals
    larger = jnp.maximum(x, 1 / (4 * limit**2))
    return jax.vjp(jnp.sqrt, larger)[1](g)


root.defvjp(root_fwd, root_bwd)


@pytest.mark.parametrize("limit", [10, 1000])
def test_rules_may_be_wrapped(limit):
    def program(x):
        return jax.grad(lambda x: jnp.sum(root(x, limit)))(x)

    src = untrace.source(program)(X)
    assert src.report.strength == "identical", str(src.report)
    heads = ["root(x)", "root_fwd(x)", "root_bwd(residuals, g)"]
    assert all(f"def {head}:" in str(src) for head in heads)
