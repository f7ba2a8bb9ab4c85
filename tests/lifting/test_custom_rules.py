"""Level "api": functions with derivative rules that are given to transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 3, dtype=np.float32)


@jax.custom_jvp
def log1pexp(x):
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp.defjvp
def log1pexp_jvp(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * x_dot


@jax.custom_jvp
def sine(x):
    return jnp.sin(x)


@sine.defjvp
def sine_jvp(primals, tangents):
    return jnp.sin(primals[0]), 2.0 * tangents[0]


@jax.custom_vjp
def clipped(x):
    return jnp.sin(x)


clipped.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (jnp.clip(g, 0.0, 1.0) * x,))


@pytest.mark.parametrize("function", [log1pexp, sine, clipped])
def test_rules_of_what_is_differentiated_itself_are_written(function):
    src = untrace.source(lambda x: jax.vmap(jax.grad(function))(x))(X)
    assert src.report.is_verified, str(src.report)
    assert not src.report.notes
    assert f"jax.vmap(jax.grad({function.__name__}))(x)" in str(src)


def test_a_long_function_that_its_rule_calls_again_is_written_once():
    @jax.custom_jvp
    def long(x):
        for _ in range(120):
            x = jnp.sin(x) * 2.0
        return x

    @long.defjvp
    def long_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return long(x), long(x + 1.0) * t

    made = untrace.source(jax.make_jaxpr(long)(1.0), level="lax")
    assert made.report.strength == "identical"
    assert str(made).count("@jax.custom_jvp") == 1
