"""Two modules are the same only if nothing but names, order and repetition differ."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.jaxapi.modules import parse_module
from untrace.readers.stablehlo.agreement import (
    SAME_MODULE,
    SAME_VALUES,
    agreement,
    structural_difference,
)
from untrace.readers.stablehlo.read import read_module

TEXT = """
module @m {
  func.func public @main(%x: tensor<3x3xf32>, %w: tensor<3x3xf32>, %n: tensor<i32>)
      -> (tensor<3x3xf32>, tensor<3xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %half = stablehlo.constant dense<5.000000e-01> : tensor<3x3xf32>
    %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT]
      : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %b = stablehlo.subtract %a, %x : tensor<3x3xf32>
    %c = func.call @scale(%b, %half) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %i = stablehlo.constant dense<0> : tensor<i32>
    %l:2 = stablehlo.while(%j = %i, %y = %c) : tensor<i32>, tensor<3x3xf32>
    cond {
      %t = stablehlo.compare LT, %j, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %k = stablehlo.add %j, %one : tensor<i32>
      %z = stablehlo.maximum %y, %x : tensor<3x3xf32>
      stablehlo.return %k, %z : tensor<i32>, tensor<3x3xf32>
    }
    %s = stablehlo.slice %l#1 [1:2, 0:3] : (tensor<3x3xf32>) -> tensor<1x3xf32>
    %u = stablehlo.reshape %s : (tensor<1x3xf32>) -> tensor<3xf32>
    %r = stablehlo.reduce(%l#1 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<3x3xf32>, tensor<f32>) -> tensor<3xf32>
    %v = stablehlo.divide %r, %u : tensor<3xf32>
    return %l#1, %v : tensor<3x3xf32>, tensor<3xf32>
  }
  func.func private @scale(%p: tensor<3x3xf32>, %q: tensor<3x3xf32>) -> tensor<3x3xf32> {
    %o = stablehlo.multiply %p, %q : tensor<3x3xf32>
    return %o : tensor<3x3xf32>
  }
}
"""

ATTACKS = [
    ("subtract %a, %x", "subtract %x, %a"),
    ("subtract %a, %x", "add %a, %x"),
    ("dense<5.000000e-01>", "dense<2.500000e-01>"),
    ("dense<5.000000e-01>", "dense<-5.000000e-01>"),
    ("dense<0.0>", "dense<-0.0>"),
    ("dense<0.0>", "dense<0x7FC00000>"),
    ("contracting_dims = [1] x [0]", "contracting_dims = [1] x [1]"),
    ("precision = [DEFAULT, DEFAULT]", "precision = [HIGHEST, HIGHEST]"),
    ("precision = [DEFAULT, DEFAULT]", "precision = [DEFAULT, HIGH]"),
    ("compare LT, %j, %n", "compare LE, %j, %n"),
    ("compare LT, %j, %n", "compare LT, %n, %j"),
    ("dense<1> : tensor<i32>", "dense<2> : tensor<i32>"),
    ("dense<0> : tensor<i32>", "dense<3> : tensor<i32>"),
    ("maximum %y, %x", "maximum %y, %w"),
    ("maximum %y, %x", "minimum %y, %x"),
    ("maximum %y, %x", "maximum %x, %x"),
    ("%k, %z : tensor<i32>", "%k, %y : tensor<i32>"),
    ("[1:2, 0:3]", "[2:3, 0:3]"),
    ("applies stablehlo.add", "applies stablehlo.maximum"),
    ("dimensions = [1]", "dimensions = [0]"),
    ("divide %r, %u", "divide %u, %r"),
    ("return %l#1, %v", "return %c, %v"),
    ("multiply %p, %q", "multiply %p, %p"),
    ("multiply %p, %q", "divide %p, %q"),
    ("func.call @scale(%b, %half)", "func.call @scale(%half, %b)"),
    ("(%j = %i, %y = %c)", "(%j = %i, %y = %x)"),
    (
        "func.call @scale(%b, %half)",
        'func.call @scale(%b, %half) {mhlo.frontend_attributes = {_xla_compute_type = "host"}}',
    ),
]

HARMLESS = [
    (r"%(\w+)", r"%renamed_\1"),
    (r"@scale", "@other"),
    (r"module @m ", "module @another "),
    (r"(%s = stablehlo.slice)", r"%dead = stablehlo.sine %x : tensor<3x3xf32>\n\1"),
    (r"dense<5.000000e-01>", "dense<0.5>"),
    (
        r"func.call @scale\(%b, %half\)[^\n]*",
        "stablehlo.multiply %b, %half : tensor<3x3xf32>",
    ),
    (
        r"%half = [^\n]*",
        "%hs = stablehlo.constant dense<0.5> : tensor<f32>\n%half = "
        "stablehlo.broadcast_in_dim %hs, dims = [] : (tensor<f32>) -> tensor<3x3xf32>",
    ),
    (
        r"(%b = [^\n]*)",
        r"\1\n%b2 = stablehlo.subtract %a, %x : tensor<3x3xf32>",
    ),
]


@pytest.mark.parametrize(("before", "after"), ATTACKS)
def test_what_is_changed_is_seen(before, after):
    assert TEXT.count(before) == 1
    found = structural_difference(
        parse_module(TEXT), parse_module(TEXT.replace(before, after))
    )
    assert found.startswith("result")


@pytest.mark.parametrize(("before", "after"), HARMLESS)
def test_what_does_not_matter_is_not_seen(before, after):
    other = re.sub(before, after, TEXT)
    assert other != TEXT
    assert structural_difference(parse_module(TEXT), parse_module(other)) == ""


def test_functions_that_a_custom_call_names_count_by_what_they_compute():
    traced = jax.jit(lambda x: jax.lax.approx_max_k(x, 2)).trace(np.ones(8, np.float32))
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert text.count("compare GT") == 1
    parsed = parse_module(text)
    renamed = parse_module(text.replace("top_k_gt_f32_comparator", "greater"))
    assert structural_difference(parsed, renamed) == ""
    other = parse_module(text.replace("compare GT", "compare LT"))
    assert structural_difference(parsed, other).startswith("result")


def test_what_is_said_of_arguments_and_results_is_told_where_it_is_lost():
    donating = jax.jit(lambda x: x * 2, donate_argnums=0).lower(np.ones(3, np.float32))
    (note,) = untrace.source(donating).report.notes
    assert "gives the same module" in note
    assert "Not kept" in note and "`tf.aliasing_output`" in note
    plain = jax.jit(lambda x: x * 2).lower(np.ones(3, np.float32))
    assert "Not kept" not in untrace.source(plain).report.notes[0]


def test_the_first_difference_is_named():
    other = TEXT.replace("maximum %y, %x", "minimum %y, %x")
    found = structural_difference(parse_module(TEXT), parse_module(other))
    assert found == "result 0: `stablehlo.maximum` became `stablehlo.minimum`"


def test_types_of_arguments_and_numbers_of_results_count():
    one = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
    module = parse_module(one)
    assert "arguments" in structural_difference(
        module, parse_module(one.replace("3xf32", "4xf32"))
    )
    two = one.replace("-> tensor<3xf32>", "-> (tensor<3xf32>, tensor<3xf32>)")
    two = two.replace("%x : tensor<3xf32>", "%x, %x : tensor<3xf32>, tensor<3xf32>")
    assert "1 and 2 results" in structural_difference(module, parse_module(two))


def test_attributes_differ_by_type_and_bits():
    text = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = stablehlo.composite "my.c" %x {composite_attributes = {a = VALUE}, decomposition = @d}
        : (tensor<2xf32>) -> tensor<2xf32>
      return %y : tensor<2xf32>
    }
    func.func private @d(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }
    """
    values = (
        "1 : i32",
        "1 : i64",
        "1.0 : f32",
        "true",
        '"1"',
        "0.0 : f32",
        "-0.0 : f32",
    )
    modules = [parse_module(text.replace("VALUE", value)) for value in values]
    for i, one in enumerate(modules):
        for j, other in enumerate(modules):
            assert (structural_difference(one, other) == "") == (i == j)


def test_another_program_is_different():
    lowered = jax.jit(lambda x: jnp.sin(x) * 2).lower(np.ones(3, np.float32)).as_text()
    other = jax.make_jaxpr(lambda x: jnp.cos(x) * 2)(np.ones(3, np.float32))
    found = agreement(lowered, other)
    assert found.startswith("different: the values of result 0 differ")
    assert agreement(lowered, read_module(lowered).jaxpr) == SAME_MODULE


def test_equal_values_are_the_second_best():
    lowered = jax.jit(lambda x: x + x).lower(np.ones(3, np.float32)).as_text()
    other = jax.make_jaxpr(lambda x: x * np.float32(2))(np.ones(3, np.float32))
    assert agreement(lowered, other) == SAME_VALUES
    assert agreement(lowered, other, is_trusted=False) == SAME_VALUES


NESTED = """
func.func @main(%x: tensor<f32>, %n: tensor<i32>) -> (tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %y = stablehlo.sine %x : tensor<f32>
  %l:3 = stablehlo.while(%i = %zero, %a = %x, %b = %y) : tensor<i32>, tensor<f32>, tensor<f32>
  cond {
    %t = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %m:3 = stablehlo.while(%j = %zero, %c = %a, %d = %b) : tensor<i32>, tensor<f32>, tensor<f32>
    cond {
      %t = stablehlo.compare LT, %j, %i, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %k = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %k, INNER : tensor<i32>, tensor<f32>, tensor<f32>
    }
    %k = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %k, OUTER : tensor<i32>, tensor<f32>, tensor<f32>
  }
  return %l#1, %l#2 : tensor<f32>, tensor<f32>
}
"""


def test_what_nested_loops_hand_on_is_the_same():
    handed_on = NESTED.replace("INNER", "%c, %d").replace("OUTER", "%m#1, %m#2")
    module = parse_module(handed_on)
    without = parse_module(re.sub(r"return %l#1, %l#2", "return %x, %y", handed_on))
    assert structural_difference(module, without) == ""
    for inner, outer in [
        ("%d, %c", "%m#1, %m#2"),
        ("%c, %d", "%m#2, %m#1"),
        ("%d, %d", "%m#1, %m#2"),
        ("%c, %d", "%m#2, %m#2"),
    ]:
        text = NESTED.replace("INNER", inner).replace("OUTER", outer)
        assert structural_difference(module, parse_module(text)) != ""


CHOICE = """
func.func @main(%i: tensor<i32>, %x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %c:2 = "stablehlo.case"(%i) ({
    %s = stablehlo.sine %x : tensor<f32>
    stablehlo.return %y, %s : tensor<f32>, tensor<f32>
  }, {
    %s = stablehlo.cosine %x : tensor<f32>
    stablehlo.return %y, %s : tensor<f32>, tensor<f32>
  }) : (tensor<i32>) -> (tensor<f32>, tensor<f32>)
  %z = stablehlo.add %c#0, %c#1 : tensor<f32>
  return %z : tensor<f32>
}
"""


def test_what_all_branches_give_alike_is_no_part_of_a_choice():
    module = parse_module(CHOICE)
    one = CHOICE.replace("%c:2", "%c").replace("%c#0, %c#1", "%y, %c")
    one = one.replace("return %y, %s : tensor<f32>, ", "return %s : ")
    one = one.replace("-> (tensor<f32>, tensor<f32>)", "-> tensor<f32>")
    assert structural_difference(module, parse_module(one)) == ""
    for before, after in [("return %y, %s", "return %x, %s"), ("cosine", "sine")]:
        other = CHOICE.replace(before, after, 1)
        assert structural_difference(module, parse_module(other)) != ""


def vector_of_branches(x):
    branches = [lambda x: x + 1, lambda x: x - 2, lambda x: x + 3]
    return jax.lax.switch(x.argmax(), branches, x)


def nested_loops(x):
    def outer(i, a):
        return jax.lax.fori_loop(0, i, lambda j, b: b + j, a)

    return jax.lax.fori_loop(0, 3, outer, x)


@pytest.mark.parametrize("function", [vector_of_branches, nested_loops])
def test_derivatives_of_choices_and_nested_loops_come_back(function):
    x = np.linspace(-1, 1, 3, dtype=np.float32)
    lowered = jax.jit(lambda x, t: jax.jvp(function, (x,), (t,))).lower(x, x).as_text()
    assert agreement(lowered, read_module(lowered).jaxpr) == SAME_MODULE
