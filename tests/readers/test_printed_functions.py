"""Functions that are printed as addresses have stand-ins that say so, or are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import untrace
from tests.corpus.parsed import compared

X = np.ones(3, np.float32)
STRUCT = jax.ShapeDtypeStruct((3,), jnp.float32)


def host(*args):
    return args[0] if len(args) == 1 else args


def scanned(x):
    return jax.lax.scan(lambda c, _: (called(c), c.sum()), x, length=3)


def called(x):
    return jax.pure_callback(host, STRUCT, x, vmap_method="sequential")


def noted(x):
    jax.debug.callback(host, x, ordered=True)
    return x * 2


@jax.custom_batching.custom_vmap
def summed(tree, x):
    return {"a": tree["a"] * x, "b": x}


summed.def_vmap(
    lambda n, batched, tree, x: (summed.fun(tree, x), {"a": True, "b": True})
)
PROGRAMS = {
    "pure_callback": called,
    "in a loop": scanned,
    "two results": lambda x: jax.pure_callback(host, (STRUCT, STRUCT), x, x),
    "ordered in a branch": lambda x: jax.lax.cond(x[0] > 0, noted, lambda x: x, x),
    "io_callback": lambda x: io_callback(host, STRUCT, x, ordered=True),
    "debug_callback": noted,
    "custom_vmap": lambda x: summed({"a": x}, x + 1),
}


@pytest.mark.parametrize("name", [*PROGRAMS])
def test_all_but_the_function_is_read_back(name):
    jaxpr = jax.make_jaxpr(PROGRAMS[name])(X)
    assert compared(name, jaxpr, str(jaxpr)).verdict == "same text"


def test_the_source_has_a_place_for_the_function():
    src = untrace.source(str(jax.make_jaxpr(called)(X)))
    assert src.report.strength == "identical"
    assert "def unknown_host_function(" in str(src)
    assert "stands in for a function" in str(src)


def test_running_it_says_that_the_function_is_not_known():
    function = untrace.load(str(jax.make_jaxpr(called)(X)))
    with pytest.raises(Exception, match="calls on the host is not known"):
        jax.block_until_ready(function(X))


def test_a_batching_rule_says_that_it_is_not_known():
    text = str(jax.make_jaxpr(PROGRAMS["custom_vmap"])(X))
    function = untrace.load(text)
    assert np.allclose(jax.tree.leaves(function(X))[0], X * (X + 1))
    with pytest.raises(untrace.LoadError, match="the batching rule of"):
        jax.vmap(function)(np.ones((2, 3), np.float32))


HOST = """{ lambda ; a:f32[3]. let
    b:f32[3] = pure_callback[
      callback=_FlatCallback(callback_func=<ufunc 'sin'>, in_tree=PyTreeDef(((*,), {})))
      result_avals=(ShapedArray(float32[3]),)
      sharding=None
      vmap_method=None
    ] a
    debug_callback[callback=<function f at 0x7f> effect=Debug partitioned=False] b
  in (b,) }"""
RULE = """{ lambda ; a:f32[3] b:f32[3]. let
    c:f32[3] d:f32[3] = custom_vmap_call[
      call={ lambda ; e:f32[3] f:f32[3]. let g:f32[3] = mul e f in (g, f) }
      in_tree=PyTreeDef(([], ({'a': *}, *)))
      out_tree=PyTreeDef((*, *))
      rule=<function <lambda> at 0x7f>
    ] a b
  in (c, d) }"""


@pytest.mark.parametrize("text", [HOST, RULE])
def test_texts_with_functions_are_read(text):
    assert untrace.parse(text).eqns


RANGE = """{ lambda ; a:f32[64] b:i32[28,1] c:f32[28]. let
    d:f32[64] = scatter-add[
      dimension_numbers=ScatterDimensionNumbers(update_window_dims=range(0, 0),
        inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
        operand_batching_dims=(), scatter_indices_batching_dims=())
      indices_are_sorted=False
      mode=GatherScatterMode.FILL_OR_DROP
      unique_indices=False
      update_consts=()
      update_jaxpr={ lambda ; e:f32[] f:f32[]. let g:f32[] = add e f in (g,) }
    ] a b c
  in (d,) }"""


def test_ranges_in_params_are_read():
    assert untrace.parse(RANGE).eqns[0].primitive.name == "scatter-add"


DROPPED = """{ lambda ; a:f32[3]. let
    b:f32[3] _:f32[3] _:f32[] = jit[
      name=f
      jaxpr={ lambda ; a:f32[3]. let
          _:f32[] = reduce_sum[axes=(0,) out_sharding=None] a
          _:f32[3] = cos a
          b:f32[3] = sin a
        in (b, _, _) }
    ] a
  in (b,) }"""


def test_results_that_are_not_used_are_told_apart_by_their_types():
    (eqn,) = untrace.parse(DROPPED).eqns
    results = eqn.params["jaxpr"].out_avals
    assert [aval.shape for aval in results] == [(3,), (3,), ()]


def test_an_operand_that_may_be_one_of_several_is_refused():
    text = DROPPED.replace("sin a", "sin _")
    with pytest.raises(untrace.ParseError, match="which of 2 variables `_` is"):
        untrace.parse(text)


def test_a_jaxpr_among_other_values_is_said_not_to_be_printed():
    value = "({ lambda ; c:f32[]. let in (c,) }, <object object at 0x7f>, False)"
    text = f"{{ lambda ; a:f32[3]. let b:f32[3] = sin[accuracy={value}] a in (b,) }}"
    with pytest.raises(
        untrace.ParseError, match=r"accuracy=\.\.\.<object.*not printed"
    ):
        untrace.parse(text)


def named(name, primitive):
    """Return a jitted function of a name."""

    def function(x):
        return primitive(x) * 2

    function.__name__ = function.__qualname__ = name
    return jax.jit(function)


@pytest.mark.parametrize(
    "name", ["f():\n  import os", "x" * 10_000, "'\"\\", "{x}", "#", "}{", "it's"]
)
def test_functions_may_be_called_anything(name):
    def program(x):
        one, other = named(name, jnp.sin), named(name, jnp.cos)
        return one(x) + one(2 * x) + other(x) + other(3 * x)

    x = np.ones(3, np.float32)
    text = str(jax.make_jaxpr(program)(x))
    assert text.count("lambda") >= 3
    jaxpr = untrace.parse(f"It prints, let me show it,\n{text}\nin 0.1 s")
    assert str(jaxpr) == text


def test_what_is_no_definition_stays_other_text():
    text = "Please let me show\n you what f = { lambda ; a:f32[]. let # = { in (a,) }"
    with pytest.raises(untrace.ParseError):
        untrace.parse(text)
    assert untrace.parse(text.replace("# = {", "# a comment\n")).in_avals
