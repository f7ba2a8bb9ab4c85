"""Functions on the host are not in a module: stand-ins say so, and the rest is proved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import untrace
from untrace.readers.stablehlo.agreement import structural_difference
from untrace.readers.stablehlo.load import read_and_compare
from untrace.readers.stablehlo.read import parsed, read_module

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
    assert "unknown_host_function_1" in str(reading.jaxpr)
    assert "unknown_host_function_1" not in str(again.jaxpr)
    assert str(again.jaxpr).count("pure_callback[") == 2  # as often as in the module


def effect_in(z):
    return io_callback(np.cos, STRUCT, z, ordered=True)


def ordered(x):
    jax.debug.print("{}", x, ordered=True)
    y = effect_in(x)
    y = jax.lax.fori_loop(0, 3, lambda _, z: effect_in(z), y)
    y = jax.lax.while_loop(lambda z: effect_in(z)[0] > 0, lambda z: z - 1, y)
    y = jax.lax.cond(y[0] > 0, effect_in, lambda z: z, y)
    return jax.jit(effect_in)(y)


def without_results(x):
    io_callback(print, None, x, ordered=True)
    jax.debug.callback(print, x, ordered=True)
    return x


@pytest.mark.parametrize("function", [ordered, without_results])
def test_ordered_effects_stay_ordered(function):
    reading, found = read_and_compare(jax.jit(function).lower(X).as_text())
    assert found == "same StableHLO but for functions on the host"
    assert reading.jaxpr.effects == jax.make_jaxpr(function)(X).effects


def test_source_of_ordered_effects_says_so():
    src = untrace.source(jax.jit(ordered).lower(X))
    assert src.report.strength == "identical"
    assert str(src).count("ordered=True") == 7


CHAIN = """
func.func @main(%t: !stablehlo.token, %x: tensor<f32>) -> (!stablehlo.token, tensor<f32>) {
  FIRST
  %b:2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(USED, %x)
    {has_side_effect = true, mhlo.backend_config = {index = 1 : ui64}}
    : (!stablehlo.token, tensor<f32>) -> (!stablehlo.token, tensor<f32>)
  return RETURNED, %b#1 : !stablehlo.token, tensor<f32>
}
"""
FIRST = """%a = stablehlo.custom_call @xla_ffi_python_cpu_callback(%t, %x)
    {has_side_effect = true, mhlo.backend_config = {index = 0 : ui64}}
    : (!stablehlo.token, tensor<f32>) -> !stablehlo.token"""


def chain(first=FIRST, used="%a", returned="%b#0"):
    text = CHAIN.replace("FIRST", first).replace("USED", used)
    return text.replace("RETURNED", returned)


def test_tokens_may_begin_and_meet_inside_of_a_module():
    jaxpr = read_module(chain()).jaxpr
    assert [eqn.params["ordered"] for eqn in jaxpr.eqns] == [True, True]
    met = FIRST + "\n  %n = stablehlo.create_token : !stablehlo.token\n"
    met += "  %m = stablehlo.after_all %a, %n : !stablehlo.token"
    assert str(read_module(chain(met, used="%m")).jaxpr) == str(jaxpr)


@pytest.mark.parametrize(
    "text, words",
    [
        (
            chain(used="%t"),
            "line 6, column 10): it takes a token that is not the newest",
        ),
        (chain(returned="%a"), "`main`: it takes a token that is not the newest"),
        (chain(FIRST.replace("_cpu_", "_my_")), "calls `xla_ffi_python_my_callback`"),
    ],
)
def test_tokens_that_part_are_refused(text, words):
    with pytest.raises(untrace.LoadError) as caught:
        untrace.source(text)
    assert words in str(caught.value)


TWO = """
func.func @main(%t: !stablehlo.token, %u: !stablehlo.token, %x: tensor<f32>)
    -> (!stablehlo.token, !stablehlo.token) {
  %a = stablehlo.custom_call @xla_ffi_python_cpu_callback(%t, %x)
    {has_side_effect = true, mhlo.backend_config = {index = 0 : ui64}}
    : (!stablehlo.token, tensor<f32>) -> !stablehlo.token
  %b = stablehlo.custom_call @xla_ffi_python_cpu_callback(%u, %x)
    {has_side_effect = true, mhlo.backend_config = {index = 1 : ui64}}
    : (!stablehlo.token, tensor<f32>) -> !stablehlo.token
  return %a, %b : !stablehlo.token, !stablehlo.token
}
"""


def test_two_orders_are_not_one():
    joined = TWO.replace("(%u,", "(%a,").replace("return %a, %b", "return %b, %u")
    assert structural_difference(parsed(TWO), parsed(TWO)) == ""
    assert structural_difference(parsed(TWO), parsed(joined))
