"""Functions on the host are not in a module: stand-ins say so, and the rest is proved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import untrace
from untrace.readers.stablehlo.load import read_and_compare

X = np.ones(3, np.float32)
STRUCT = jax.ShapeDtypeStruct((3,), jnp.float32)


def pure(x):
    return jax.pure_callback(np.sin, STRUCT, x) + jax.pure_callback(np.cos, STRUCT, x)


def noted(x):
    jax.debug.callback(lambda x: None, x)
    return jax.lax.fori_loop(0, 3, lambda _, y: io_callback(np.sin, STRUCT, y), x)


@pytest.mark.parametrize("function", [pure, noted])
def test_all_but_the_functions_is_proved(function):
    text = jax.jit(function).lower(X).as_text()
    reading, found = read_and_compare(text)
    assert found == "same StableHLO but for functions on the host"
    with pytest.raises(Exception, match="calls on the host is not known"):
        jax.block_until_ready(untrace.load(text)(X))
    assert reading.jaxpr.effects == jax.make_jaxpr(function)(X).effects


def test_two_functions_stay_two():
    src = untrace.source(jax.jit(pure).lower(X).as_text())
    assert "unknown_host_function_0" in str(src)
    assert "unknown_host_function_1" in str(src)
    assert "which are not in it" in src.report.notes[0]


def test_another_function_or_effect_is_seen():
    text = jax.jit(pure).lower(X).as_text()
    reading, _ = read_and_compare(text)
    assert "index = 1" in text
    again, _ = read_and_compare(text.replace("index = 1", "index = 0"))
    assert len(again.jaxpr.eqns) < len(reading.jaxpr.eqns)


def test_ordered_effects_are_refused():
    def ordered(x):
        jax.debug.print("{}", x, ordered=True)
        return x

    with pytest.raises(untrace.LoadError, match="without ordered effects"):
        untrace.source(jax.jit(ordered).lower(X))
