"""Level "api": what libraries call is spelled as people write it, and is the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting import installed
from untrace.lifting.recorded.calls import elementwise

X = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)


def library(body):
    """Return a function `f(x, y)` of a library."""
    return installed.library(f"def f(x, y):\n    return {body}\n").f


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    return str(src)


@pytest.mark.parametrize(
    "called, spelled",
    [
        ("jnp.add(x, y)", "x + y"),
        ("jnp.subtract(x, 1.0)", "x - 1.0"),
        ("jnp.multiply(2.0, x)", "2.0 * x"),
        ("jnp.divide(x, y)", "x / y"),
        ("jnp.true_divide(x, 3)", "x / 3"),
        ("jnp.floor_divide(x, y)", "x // y"),
        ("jnp.mod(x, y)", "x % y"),
        ("jnp.remainder(x, y)", "x % y"),
        ("jnp.equal(x, y)", "x == y"),
        ("jnp.not_equal(x, y)", "x != y"),
        ("jnp.less(x, y)", "x < y"),
        ("jnp.less_equal(x, 0)", "x <= 0"),
        ("jnp.greater(x, 0.5)", "x > 0.5"),
        ("jnp.greater_equal(x, y)", "x >= y"),
        ("jnp.greater_equal(0.5, x)", "jnp.greater_equal(0.5, x)"),
        ("jnp.logical_and(x > 0, y > 0)", "(x > 0) & (y > 0)"),
        ("jnp.logical_and(x, y)", "jnp.logical_and(x, y)"),
        ("jnp.logical_or(x > 0, y > 0)", "(x > 0) | (y > 0)"),
        ("jnp.logical_not(x > 0)", "~(x > 0)"),
        ("jnp.negative(x)", "-x"),
        ("jnp.matmul(x, y.T)", "x @ y.T"),
        ("jnp.dot(x, y.T)", "x @ y.T"),
        ("jnp.dot(jnp.stack([x, x]), y.T)", "jnp.stack([x, x]) @ y.T"),
        ("jnp.dot(x, y.T[None])", "jnp.dot(x, y.T[None])"),
        (
            "jnp.dot(x, y.T, precision='highest')",
            'jnp.dot(x, y.T, precision="highest")',
        ),
        ("lax.add(x, y)", "x + y"),
        ("lax.sub(x, y)", "x - y"),
        ("lax.mul(x, y)", "x * y"),
        ("lax.div(x, y)", "x / y"),
        ("lax.neg(x)", "-x"),
        ("lax.lt(x, y)", "x < y"),
        ("lax.ge(x, y)", "x >= y"),
        ("jnp.reshape(x, (2, 6))", "x.reshape(2, 6)"),
        ("jnp.reshape(x, -1)", "x.reshape(-1)"),
        ("jnp.reshape(x, (2, 6), order='F')", 'jnp.reshape(x, (2, 6), order="F")'),
        ("x.reshape([2, 6])", "x.reshape(2, 6)"),
        ("x.reshape((2, 6))", "x.reshape(2, 6)"),
        ("lax.reshape(x, (2, 6))", "x.reshape(2, 6)"),
        ("lax.reshape(x, (2, 6), (1, 0))", "jax.lax.reshape(x, (2, 6), (1, 0))"),
        ("jnp.transpose(x, (1, 0))", "x.transpose(1, 0)"),
        ("jnp.transpose(x, axes=(1, 0))", "x.transpose(1, 0)"),
        ("jnp.transpose(x, np.array([1, 0]))", "x.transpose(1, 0)"),
        ("jnp.transpose(x)", "x.T"),
        ("lax.transpose(x, (1, 0))", "x.transpose(1, 0)"),
        ("jnp.swapaxes(x, 0, 1)", "x.swapaxes(0, 1)"),
        ("jnp.ravel(x)", "x.ravel()"),
        ("jnp.squeeze(x[None], (0,))", "x[None].squeeze(0)"),
        ("jnp.astype(x, jnp.int32)", "x.astype(jnp.int32)"),
        ("lax.convert_element_type(x, jnp.int32)", "x.astype(jnp.int32)"),
        ("x.mean((1,))", "x.mean(1)"),
        ("x.sum(axis=[0])", "x.sum(axis=0)"),
        ("jnp.sum(x, axis=(-1,))", "jnp.sum(x, axis=-1)"),
        ("jnp.mean(x, (0, 1), keepdims=True)", "jnp.mean(x, (0, 1), keepdims=True)"),
        ("jnp.expand_dims(x, 0)", "x[None]"),
        ("jnp.expand_dims(x, 1)", "x[:, None]"),
        ("jnp.expand_dims(x, axis=-1)", "x[..., None]"),
        ("jnp.expand_dims(x, -2)", "x[:, None]"),
        ("jnp.expand_dims(x, (0, 1, 2))", "x[None, None, None]"),
        ("jnp.expand_dims(x[0], (1, 2))", "x[0][:, None, None]"),
        ("lax.expand_dims(x, (2,))", "x[..., None]"),
        ("lax.square(x)", "jnp.square(x)"),
        ("lax.exp(lax.log1p(x))", "jnp.exp(jnp.log1p(x))"),
        ("lax.rsqrt(x)", "jax.lax.rsqrt(x)"),
        ("lax.max(x, y)", "jnp.maximum(x, y)"),
        ("lax.max(x, 0.0)", "jax.lax.max(x, 0.0)"),
        ("lax.abs(x.astype(jnp.int32))", "jax.lax.abs(x.astype(jnp.int32))"),
        ("x + jnp.zeros((3, 4), dtype=jnp.float32)", "x + jnp.zeros((3, 4))"),
        ("x + jnp.ones((3, 4), jnp.float32)", "x + jnp.ones((3, 4))"),
        (
            "x + jnp.zeros((3, 4), dtype=jnp.int32)",
            "x + jnp.zeros((3, 4), dtype=jnp.int32)",
        ),
        (
            "x * jax.random.normal(jax.random.key(0), (2, 1, 1), jnp.float32)",
            "x * jax.random.normal(jax.random.key(0), (2, 1, 1))",
        ),
        ("x + jnp.arange(4, dtype=jnp.int32)", "x + jnp.arange(4)"),
        ("x + jnp.arange(4, dtype='float32')", 'x + jnp.arange(4, dtype="float32")'),
        (
            "lax.dot_general(x[None], y, (((2,), (1,)), ((), ())))",
            "jax.lax.dot_general(x[None], y, (([2], [1]), ([], [])))",
        ),
        ("jnp.array(x, dtype=jnp.float32)", "jnp.array(x)"),
        ("jnp.array(x, jnp.float16)", "jnp.array(x, jnp.float16)"),
    ],
)
def test_a_library_s_call_is_spelled_as_people_write_it(called, spelled):
    layer = library(called)
    text = recover(lambda x, y: layer(x, y), X, X + 1)
    assert f"    return {spelled}\n" in text


HOMES = {True: "jax.nn", False: "jnp"}


@pytest.mark.parametrize(
    "function", [*elementwise.UNARY, *elementwise.BINARY], ids=lambda f: f.__name__
)
def test_a_function_of_elements_is_the_same_mapped_and_unmapped(function):
    home = HOMES[getattr(jax.nn, function.__name__, None) is function]
    args = "x" if function in elementwise.UNARY else "x, y"
    layer = library(f"jax.vmap({home}.{function.__name__})({args}) * x")
    src = untrace.source(lambda x, y: layer(x, y))(X, X + 1)
    assert src.report.is_verified and not src.report.notes
    assert "vmap" not in str(src)


@pytest.mark.parametrize(
    "called, spelled",
    [
        ("jax.vmap(jnp.tanh)(x)", "jnp.tanh(x)"),
        ("jax.vmap(jax.nn.relu)(x)", "jax.vmap(jax.nn.relu)(x)"),
        ("jax.vmap(jnp.subtract)(x, y)", "x - y"),
        ("jax.vmap(jnp.subtract, (0, 0))(x, y)", "x - y"),
        (
            "jax.vmap(jnp.subtract, in_axes=1)(x, y)",
            "jax.vmap(jnp.subtract, in_axes=1)(x, y)",
        ),
        (
            "jax.vmap(jnp.subtract, (0, None))(x, y)",
            "jax.vmap(jnp.subtract, in_axes=(0, None))(x, y)",
        ),
        ("jax.vmap(jnp.add)(x, y[:, 0])", "jax.vmap(jnp.add)(x, y[:, 0])"),
        ("jax.vmap(jnp.cumsum)(x)", "jax.vmap(jnp.cumsum)(x)"),
        (
            "jax.vmap(jnp.exp, axis_name='batch')(x)",
            'jax.vmap(jnp.exp, axis_name="batch")(x)',
        ),
    ],
)
def test_a_library_s_function_of_elements_is_not_mapped(called, spelled):
    layer = library(called)
    assert f"    return {spelled}\n" in recover(lambda x, y: layer(x, y), X, X + 1)


def test_the_user_s_spelling_is_kept():
    def f(x, y):
        return jnp.multiply(jnp.reshape(x, (2, 6)), jnp.expand_dims(y[0, 0], (0, 1)))

    text = recover(f, X, X)
    assert "jnp.multiply(jnp.reshape(x, (2, 6)), jnp.expand_dims(y[0, 0], (0, 1)))" in (
        "".join(text.split("\n        ")).replace("\n    )", ")")
    )


@pytest.mark.parametrize(
    "lhs, rhs, letters",
    [
        ((1, 8, 3), (2, 3, 5), ("NWC", "WIO", "NWC")),
        ((1, 3, 8, 8), (5, 3, 2, 2), ("NCHW", "OIHW", "NCHW")),
        ((1, 4, 4, 4, 3), (2, 2, 2, 3, 5), ("NDHWC", "DHWIO", "NDHWC")),
    ],
)
def test_the_dimensions_of_a_convolution_are_letters(lhs, rhs, letters):
    def conv(x, kernel):
        numbers = jax.lax.conv_dimension_numbers(lhs, rhs, letters)
        ones = (1,) * (len(lhs) - 2)
        return jax.lax.conv_general_dilated(
            x, kernel, ones, "SAME", dimension_numbers=numbers
        )

    text = recover(conv, np.ones(lhs, np.float32), np.ones(rhs, np.float32))
    quoted = ", ".join(f'"{word}"' for word in letters)
    assert f"dimension_numbers=({quoted})" in text and "dilation" not in text
